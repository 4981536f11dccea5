"""The hopping window of the MTA thesis: a month of readings, of which a random number leaves at once.

    python -m benchmarks.approximate.hops

``A2MTA`` runs update by update, so time is divided by 96, or by ``--scale``: a window of 27,000 readings, evictions of 9,000 on the
average. It writes ``hops.csv``: the leaves of full windows after 34 evictions, and how many of the results were exact. The errors
of these results as a distribution (Figure 5.8) are in ``distributions_hops.csv``.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import windrow as wr
from benchmarks.approximate.__main__ import DATA, RESULTS, ROWS, WINDOW
from benchmarks.approximate.measure import SHARES
from benchmarks.approximate.readings import readings
from benchmarks.approximate.table import Table
from windrow.algorithms import REGISTRY

SCALE, WARM, EVICTIONS = 96, 34, 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--scale", type=int, default=SCALE, help="divide rows and window by this")
    parser.add_argument("--only", default="", help="only rules that have this text in their name")
    given = parser.parse_args()
    table = Table(RESULTS / "hops.csv", ("data", "rule", "window"))
    errors = Table(RESULTS / "distributions_hops.csv", ("data", "aggregate", "within", "relative_error"))
    predicted = wr.Within(relative=1e-9, confidence=0.95)
    rules: dict[str, dict[str, Any]] = {"hop": {"within": predicted, "hop": True}}
    rules |= {f"leaves={n}": {"within": wr.AtMost(leaves=n)} for n in (1000, 100, 10)}
    for rule, options in rules.items():
        for data in DATA:
            if (data, rule, str(WINDOW // given.scale)) not in table and given.only in rule:
                values = readings(given.cache, data, ROWS)[:: given.scale].astype(np.float64)
                found, away = hopped(values, given.scale, options)
                table.add([{"data": data, "rule": rule, **found}])
                what = {"data": data, "aggregate": "hops of the mean", "within": rule}
                errors.add(
                    {**what, "relative_error": f"{share:.3g}", "windows": float(np.mean(away <= share))}
                    for share in np.maximum(SHARES, 1e-15).tolist()
                )


def hopped(values: Any, scale: int, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What is told of one rule, and the relative errors of its results."""
    window, size, draw = REGISTRY["A2MTA"](wr.Mean(), **options), WINDOW // scale, np.random.default_rng(0)
    at = begin = exact = 0
    shares, worst, taken, away = [], 0.0, [], []
    for hop in range(EVICTIONS):
        clock = time.process_time()
        count = size - len(window)
        for value in values[at : at + count].tolist():
            window.insert((value, 0.0, 1))
        at += count
        taken.append((time.process_time() - clock) / max(count, 1))
        if hop >= WARM:
            shares.append(window.leaves / size)
        gone = round(draw.normal(size / 3, 100 / scale))
        window.evict(gone)
        begin += gone
        value, error = window.query()
        true = values[begin:at].mean()
        assert abs(value - true) <= error + 1e-9 * true
        if hop >= WARM:
            exact += error == 0.0
            worst = max(worst, float(error / true))
            away.append(abs(value - true) / true)
    told = {
        "window": size,
        "leaves_share_percent": 100.0 * float(np.mean(shares)),
        "exact_percent": 100.0 * exact / (EVICTIONS - WARM),
        "largest_bound_percent": 100.0 * worst,
        "ns_per_update": round(1e9 * float(np.median(taken))),
    }
    return told, np.array(away)


if __name__ == "__main__":
    main()
