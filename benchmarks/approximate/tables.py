"""Tables 5.1 and 5.2 of the MTA thesis with our numbers beside them, from the CSV files: ``python -m benchmarks.approximate.tables``.

The thesis counts the leaves that were made, as a share of AMTA's. We count those of a full window, as a share of its slices.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence

from benchmarks.approximate.__main__ import ERRORS, LEAVES, RESULTS, WINDOW

THESIS_ERRORS = (44.02, 6.591, 0.8335, 0.099, 0.01022, 9.854e-4)
THESIS_BLOCKS = {10: 91.33, 100: 91.1, 1000: 95.49, 10_000: 60.97, 100_000: 4.394, 1_000_000: 19.88}
THESIS_LEAVES = {"mean": (33.33, 3.846, 0.3845, 0.03858, 0.003864, 4.018e-4)}
THESIS_LEAVES["max"] = (42.98, 11.75, 2.189, 0.3368, 0.03676, 0.003298)
DATA = ("stationary", "regimes")
Row = dict[str, str]


def main() -> None:
    rows = {(row["data"], row["aggregate"], row["within"]): row for row in read("promises")}
    _table("Table 5.1, sums", _sums(rows))
    _table("Table 5.1, maxima", _blocks())
    for aggregate in ("mean", "max"):
        _table(f"Table 5.2, {aggregate}", _leaves(rows, aggregate))
    _table("Hops", _hops())


def read(name: str) -> list[Row]:
    """The rows of a CSV file; none if it is not there."""
    path = RESULTS / f"{name}.csv"
    return list(csv.DictReader(path.open())) if path.exists() else []


def _sums(rows: dict[tuple[str, ...], Row]) -> Iterable[Sequence[str]]:
    yield (
        "error",
        "thesis",
        *(f"{what}, {data}" for data in DATA for what in ("predicted", "over the promise", "certain")),
    )
    for error, thesis in zip(ERRORS, THESIS_ERRORS, strict=True):
        line = [f"{100 * error:g} %", f"{thesis:g} %"]
        for data in DATA:
            predicted = rows.get((data, "mean", f"relative={error:g}, confidence=0.95"))
            line += [
                _share(predicted),
                _over(predicted),
                _share(rows.get((data, "mean", f"relative={error:g}"))),
            ]
        yield line


def _blocks() -> Iterable[Sequence[str]]:
    rows = {(row["data"], row["rule"], row["block"]): row for row in read("blocks")}
    yield "block", "thesis", *(f"{rule}, {data}" for data in DATA for rule in ("printed", "corrected"))
    for block, thesis in THESIS_BLOCKS.items():
        line = [f"{block:,}", f"{thesis:g} %"]
        for data in DATA:
            for rule in ("printed", "corrected"):
                row = rows.get((data, rule, str(block)))
                line.append(
                    "" if row is None else f"{row['footprint_percent']} % ({row['exact_percent']} % exact, "
                    f"worst {row['largest_error_percent']} %)"
                )  # fmt: skip
        yield line


def _leaves(rows: dict[tuple[str, ...], Row], aggregate: str) -> Iterable[Sequence[str]]:
    yield (
        "leaves",
        "thesis",
        *(f"{what}, {data}" for data in DATA for what in ("share", "most", "largest error")),
    )
    for leaves, thesis in zip(LEAVES, THESIS_LEAVES[aggregate], strict=True):
        line = [f"{leaves:,}", f"{thesis:g} %"]
        for data in DATA:
            row = rows.get((data, aggregate, f"leaves={leaves}"))
            line.append(_share(row))
            line += (
                ["", ""]
                if row is None
                else [f"{int(row['leaves_most']):,}", f"{row['largest_error_percent']} %"]
            )
        yield line


def _hops() -> Iterable[Sequence[str]]:
    yield "data", "rule", "window", "share", "exact", "largest bound"
    for row in read("hops"):
        shares = (
            f"{row[name]} %" for name in ("leaves_share_percent", "exact_percent", "largest_bound_percent")
        )
        yield row["data"], row["rule"], f"{int(row['window']):,}", *shares


def _share(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{100 * int(row['leaves_mean']) / WINDOW:.3g} %" + ("" if row["readings"] == "62208000" else "*")


def _over(row: Row | None) -> str:
    if row is None:
        return ""
    over = int(row["over_the_promise"])
    return f"{100 * over / int(row['windows']):.2g} %" if over else "0"


def _table(title: str, lines: Iterable[Sequence[str]]) -> None:
    head, *rest = lines
    print(f"\n**{title}**\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for line in rest:
        print(f"| {' | '.join(line)} |")


if __name__ == "__main__":
    main()
