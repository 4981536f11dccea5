"""Tables 5.1 and 5.2 and the error distributions of the MTA thesis, on stationary data and on data whose level changes.

    python -m benchmarks.approximate                  # a window of a month over two years: 62,208,000 readings
    python -m benchmarks.approximate --scale 24       # every 24th reading, and a window of 108,000 of them
    python -m benchmarks.approximate --rows 5184000   # the window of a month over the first two months

It writes ``promises.csv`` and ``distributions.csv``, row by row: what they have already is not measured again, unless ``--anew``
asks for it. A hundred leaves or fewer take ten microseconds a reading or more: they are measured over two months of
readings. ``peers``, ``hops``, ``blocks``, ``sketches`` and ``plots`` of this package are commands of their own. Times are CPU times.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import windrow as wr
from benchmarks.approximate.measure import SHARES, measured
from benchmarks.approximate.readings import exact, readings
from benchmarks.approximate.table import Table

ROWS, WINDOW = 62_208_000, 2_592_000
RESULTS = Path(__file__).parents[1] / "results" / "approximate"
DATA = ("regimes", "stationary")
ERRORS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
LEAVES = (1_000_000, 100_000, 10_000, 1000, 100, 10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=int, default=1, help="divide rows and window by this")
    parser.add_argument("--rows", type=int, default=0, help="only the first so many readings")
    parser.add_argument("--only", default="", help="measure only what has this text in its name")
    parser.add_argument("--anew", action="store_true", help="measure again what the CSV files have already")
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()), help="where readings are kept"
    )
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows, window = given.rows or ROWS // given.scale, WINDOW // given.scale
    suffix = "" if given.scale == 1 else f"_{given.scale}"
    table = Table(RESULTS / f"promises{suffix}.csv", ("data", "aggregate", "within"))
    errors = Table(RESULTS / f"distributions{suffix}.csv", ("data", "aggregate", "within", "relative_error"))
    for aggregate, within, data in _jobs(window):
        name = _name(within)
        known = (data, aggregate, name) in table and not given.anew
        if known or given.only not in f"{data} {aggregate} {name} ":
            continue
        some = min(rows, given.rows or 2 * window) if _slow(within) else rows
        values = readings(given.cache, data, ROWS)[:: given.scale][:some]
        what = {"data": data, "aggregate": aggregate, "within": name}
        found = measured(values, window, aggregate, within, exact(values, window, aggregate))
        below = found.pop("distribution")
        errors.add(
            {**what, "relative_error": f"{share:.3g}", "windows": round(part, 6)}
            for share, part in zip(SHARES.tolist(), below, strict=True)
        )
        table.add([{**what, "readings": some, "window": window, **found}])
        print(what, found, flush=True)


def _jobs(window: int) -> Iterator[tuple[str, Any, str]]:
    """What is measured, the shortest runs first."""
    errors = ERRORS if window == WINDOW else ERRORS[3:5]
    certain = [wr.Within(relative=error) for error in errors]
    predicted = [wr.Within(relative=error, confidence=0.95) for error in errors]
    few = [wr.AtMost(leaves=leaves) for leaves in (LEAVES if window == WINDOW else LEAVES[3:4])]
    some = [("sum", wr.Within(relative=0.01)), *(("mean", each) for each in (*predicted, *few, *certain))]
    some += [
        ("max", each) for each in (wr.Within(relative=0.01, confidence=0.95), wr.Within(relative=0.01), *few)
    ]
    for aggregate, within in sorted(some, key=lambda job: _slow(job[1])):
        for data in DATA:
            yield aggregate, within, data


def _slow(within: Any) -> bool:
    """Whether so few leaves are kept that two windows of readings have to be enough."""
    return within.leaves is not None and within.leaves <= 100


def _name(within: Any) -> str:
    return ", ".join(
        f"{name}={value if isinstance(value, int) else format(value, 'g')}"
        for name, value in within.to_dict().items()
    )


if __name__ == "__main__":
    main()
