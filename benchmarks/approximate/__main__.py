"""Tables 5.1 and 5.2 and the error distributions of the MTA thesis, on stationary data and on data whose level changes.

    python -m benchmarks.approximate                  # a window of a month over two years: 62,208,000 readings
    python -m benchmarks.approximate --scale 24       # every 24th reading, and a window of 108,000 of them
    python -m benchmarks.approximate --rows 5184000   # the window of a month over the first two months

It writes ``promises.csv``, ``distributions.csv``, ``exponential.csv`` and ``flat.csv`` with their plots. Times are CPU times.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import windrow as wr
from benchmarks.approximate.exponential import exponential_histogram
from benchmarks.approximate.measure import SHARES, measured
from benchmarks.approximate.readings import exact, readings

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
    parser.add_argument(
        "--cache", type=Path, default=Path(tempfile.gettempdir()), help="where readings are kept"
    )
    given = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    rows, window = given.rows or ROWS // given.scale, WINDOW // given.scale
    written: list[dict[str, Any]] = []
    for data in DATA:
        values = readings(given.cache, data, ROWS)[:: given.scale][:rows]
        for aggregate, some in _promises(window).items():
            chosen = [each for each in some if given.only in f"{data} {aggregate} {each}"]
            if not chosen:
                continue
            true = exact(values, window, aggregate)
            for within in chosen:
                found = measured(values, window, aggregate, within, true)
                written.append(
                    {
                        "data": data,
                        "aggregate": aggregate,
                        "within": _name(within),
                        "readings": rows,
                        "window": window,
                        **found,
                    }
                )
                print(
                    {name: value for name, value in written[-1].items() if name != "distribution"}, flush=True
                )
                _write(written, given.scale)
            if aggregate == "sum" and not given.only:
                _write_exponential(values, window, true, data, given.scale)
    if not given.only:
        _flat(given.scale)


def _promises(window: int) -> dict[str, list[Any]]:
    errors = ERRORS if window == WINDOW else ERRORS[3:5]
    certain = [wr.Within(relative=error) for error in errors]
    predicted = [wr.Within(relative=error, confidence=0.95) for error in errors]
    few = [wr.AtMost(leaves=leaves) for leaves in (LEAVES if window == WINDOW else LEAVES[3:4])]
    return {
        "sum": [wr.Within(relative=0.01)],
        "mean": [*certain, *predicted, *few],
        "max": [wr.Within(relative=0.01), wr.Within(relative=0.01, confidence=0.95), *few],
    }


def _name(within: Any) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in within.to_dict().items())


def _write(written: list[dict[str, Any]], scale: int) -> None:
    suffix = "" if scale == 1 else f"_{scale}"
    plain = [{name: value for name, value in row.items() if name != "distribution"} for row in written]
    _csv(RESULTS / f"promises{suffix}.csv", plain)
    _csv(RESULTS / f"distributions{suffix}.csv", _spread(written))


def _spread(written: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in written:
        for share, below in zip(SHARES.tolist(), row["distribution"], strict=True):
            names = {name: row[name] for name in ("data", "aggregate", "within")}
            yield {**names, "relative_error": f"{share:.3g}", "windows": round(below, 6)}


def _write_exponential(values: Any, window: int, true: Any, data: str, scale: int) -> None:
    path = RESULTS / ("exponential.csv" if scale == 1 else f"exponential_{scale}.csv")
    before = list(csv.DictReader(path.open())) if path.exists() and data != DATA[0] else []
    for each in (51, 501):
        out = np.zeros(len(true))
        most, _ = exponential_histogram(np.asarray(values), window, each, out)
        share = np.abs(out - true) / np.where(true == 0, 1, true)
        row = {"data": data, "buckets_of_a_size": each, "error_in_rows_percent": round(50.0 / (each - 1), 3)}
        before.append({**row, "leaves_most": most, "largest_error_percent": f"{100 * share.max():.3g}"})
    _csv(path, before)


def _flat(scale: int) -> None:
    """The time of a row, for windows of 2¹⁰ rows and more; exact windows beside it."""
    found = []
    draw = np.random.default_rng(0)
    for power in range(10, 26 if scale == 1 else 22, 3):
        window = 1 << power
        values = draw.integers(20_000_000, 30_000_000, window + (1 << 20))
        true = exact(values, window, "sum")
        row = measured(values, window, "sum", wr.Within(relative=0.01), true)
        found.append({"window": window, "leaves_most": row["leaves_most"], "ns_per_row": row["ns_per_row"]})
        print(found[-1], flush=True)
    _csv(RESULTS / "flat.csv", found)


def _csv(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    every = list(rows)
    if not every:
        return
    with path.open("w", newline="") as sink:
        writer = csv.DictWriter(sink, list(every[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()}
            for row in every
        )


if __name__ == "__main__":
    main()
