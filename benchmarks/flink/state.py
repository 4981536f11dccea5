"""How large is the state of a count window over many rows of one key? ``python -m benchmarks.flink.state``

Checkpoints are taken all along, and their sizes read: windrow's stay as they are, those of Flink's own Python count
windows grow with every row, because their state is never cleared. (windrow's go up and down: rows are logged, and the
log begins anew when it is longer than what the operator would write.)
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyflink.common import Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment

import windrow as wr
from benchmarks.flink import contenders as run
from benchmarks.flink.data import Rows
from windrow_flink import environment, read_packed, windowed, windowed_packed

COUNTED = wr.Query(by="k", window=wr.CountWindow(1000, 100), aggregates={"peak": wr.Max("v")})
OUT = Path(__file__).parent.parent / "results" / "flink"
Sizes = list[tuple[float, int]]
"""Seconds since the start, and the bytes of the checkpoint that was complete then."""


def packed(rows: int, folder: Path, every: str = "500ms") -> Sizes:
    """windrow, packed rows from a file."""
    flink = environment(checkpoints=folder / "checkpoints", every=every)
    stream, schema = read_packed(flink, Rows(rows, 1, 1000).parquet(folder), COUNTED)
    return watched(flink, folder, windowed_packed(stream, COUNTED, schema))


def one_by_one(rows: int, folder: Path, every: str = "500ms") -> Sizes:
    """windrow, row by row."""
    flink = environment(checkpoints=folder / "checkpoints", every=every)
    return watched(flink, folder, windowed(run.rows(flink, Rows(rows, 1, 1000)), COUNTED))


def count_window(rows: int, folder: Path, every: str = "500ms") -> Sizes:
    """Flink's own."""
    flink = environment(mode="process", checkpoints=folder / "checkpoints", every=every)
    keyed = run.rows(flink, Rows(rows, 1, 1000)).key_by(run.key, key_type=Types.LONG())
    return watched(flink, folder, keyed.count_window(1000, 100).reduce(run.larger))


def watched(flink: StreamExecutionEnvironment, folder: Path, stream: DataStream) -> Sizes:
    """Run it, and note the size of each checkpoint that is completed meanwhile."""
    sizes: dict[str, tuple[float, int]] = {}
    begun, done = time.monotonic(), threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            for found in (folder / "checkpoints").glob("*/chk-*"):
                size = _size(found)
                if size:
                    sizes[found.name] = (
                        time.monotonic() - begun,
                        max(size, sizes.get(found.name, (0, 0))[1]),
                    )

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        run.ran(flink, stream)
    finally:
        done.set()
        watcher.join()
    return sorted(sizes.values())


def _size(checkpoint: Path) -> int:
    """The bytes of a checkpoint, if it is complete; it may vanish at any moment."""
    try:
        return (
            sum(each.stat().st_size for each in checkpoint.iterdir())
            if (checkpoint / "_metadata").exists()
            else 0
        )
    except FileNotFoundError:
        return 0


def main() -> None:
    parse = argparse.ArgumentParser(prog="python -m benchmarks.flink.state", description=__doc__)
    parse.add_argument("--rows", type=int, default=10_000_000, help="of the packed stream")
    parse.add_argument("--few", type=int, default=40_000, help="rows for Flink's own windows")
    parse.add_argument("--out", type=Path, default=OUT)
    asked = parse.parse_args()
    ways: list[tuple[str, Callable[[int, Path], Sizes], int]] = [
        ("windrow, packed", packed, asked.rows),
        ("windrow, row by row", one_by_one, 3 * asked.few),
        ("Flink's count window", count_window, asked.few),
    ]
    asked.out.mkdir(parents=True, exist_ok=True)
    with open(asked.out / "state.csv", "w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["contender", "rows", "seconds", "bytes of the checkpoint"])
        for name, way, rows in ways:
            with tempfile.TemporaryDirectory() as folder:
                sizes = way(rows, Path(folder))
            writer.writerows((name, rows, f"{seconds:.2f}", size) for seconds, size in sizes)
            third = max(1, len(sizes) // 3)
            first, last = ([size for _, size in part] for part in (sizes[:third], sizes[-third:]))
            print(
                f"{name:24s} {rows:>11,} rows, {len(sizes)} checkpoints: "
                f"{min(first, default=0):,} to {max(first, default=0):,} bytes in the first third, "
                f"{min(last, default=0):,} to {max(last, default=0):,} in the last",
                flush=True,
            )


if __name__ == "__main__":
    main()
