"""Measure the trees: ``python -m benchmarks.trees`` at the root of the repository, or with ``--only`` some sections."""

from __future__ import annotations

from pathlib import Path

import click

from benchmarks.trees import plots, windows
from benchmarks.trees.measure import Row, write

SECTIONS = ("memory", "column", "stored", "operations", "sizes", "evictions", "dimensions", "killed")


@click.command()
@click.option("--only", multiple=True, type=click.Choice(SECTIONS))
@click.option("--most", default=25, show_default=True, help="The largest window is 2 to the power of this.")
@click.option("--rounds", default=2, show_default=True)
@click.option("--out", type=click.Path(path_type=Path), default=Path("benchmarks/results/trees"))
def main(only: tuple[str, ...], most: int, rounds: int, out: Path) -> None:
    """Table 4.2 and Figures 4.6 to 4.9 of the MTA thesis; CSV files and plots."""
    out.mkdir(parents=True, exist_ok=True)
    for section in only or SECTIONS:
        rows: list[Row] = []
        for part in measured(section, most, rounds):
            rows += part
            write(out / f"{section}.csv", rows)
            print(section, *part, sep="\n  ", flush=True)
    plots.draw(out)


def measured(section: str, most: int, rounds: int):  # type: ignore[no-untyped-def]
    if section == "memory":
        return windows.memory([e for e in (15, 20, 23, 25) if e <= most])
    if section == "column":
        return windows.column(min(20, most), rounds)
    if section == "stored":
        return windows.stored_columns(min(20, most), rounds)
    if section == "operations":
        return windows.operations(min(20, most), 5_000, rounds)
    if section == "sizes":
        return windows.sizes([e for e in (0, 5, 10, 15, 20, 22, 25) if e <= most], rounds)
    if section == "evictions":
        return windows.evictions(min(23, most), rounds)
    if section == "dimensions":
        return windows.dimensions([1, 10, 25, 50], 5_000, rounds)
    return (windows.killed(most, store) for store in ("RocksDB", "Redis"))


if __name__ == "__main__":
    main()
