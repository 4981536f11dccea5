"""Is this version as fast as an earlier one? Both take turns over the same rows, and the ratio within a turn counts.

    python -m benchmarks.versions --before v0.1      # any commit, branch or tag
    python -m benchmarks.versions --before v0.1 --only "batch" --rounds 9

Each version runs in a process of its own, because only one can be imported. The two processes stay, and are told which case
to run next. Cases use only names that have been in windrow from the beginning. A case runs until it has taken a fifth of a
second, at least once, and its shortest run counts. Times are CPU times of the process, all threads together. The allocator
keeps its memory: otherwise the same code takes 12 or 19 ms, as the layout of the heap decides whether pages are asked for
again. The table is printed, and written to ``benchmarks/results/versions.csv``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "versions.csv"
TURN = 0.2
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 34)}
SECOND = 10**6
ALGORITHMS = [
    "SBA",
    "PBA",
    "DABA",
    "DABALite",
    "TwoStacks",
    "TwoStacksLite",
    "SlickDeque",
    "AMTA",
    "LMTA",
    "FlatFAT",
    "FlatFIT",
    "SlideSide",
    "FiBA",
]


def cases() -> dict[str, Callable[[], Any]]:
    """What is measured, by name. Making the rows is not part of it."""
    three = {"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()}
    found: dict[str, Callable[[], Any]] = {}
    for name, rows, keys, seconds, window in (
        ("batch, 1 key, 60s/1s", 1_000_000, 1, 600, wr.TimeWindow("60s", "1s")),
        ("batch, 100 keys, 60s/1s", 1_000_000, 100, 600, wr.TimeWindow("60s", "1s")),
        ("batch, 1,000 keys, 1h/1s", 300_000, 1000, 600, wr.TimeWindow("1h", "1s")),
        ("batch, 10,000 keys, 1h/1m", 1_000_000, 10_000, 7200, wr.TimeWindow("1h", "1m")),
        ("batch, count windows", 300_000, 100, 600, wr.CountWindow(1000, 10)),
        ("batch, sessions", 300_000, 1000, 6000, wr.SessionWindow("10s")),
        ("batch, slide by tuple", 100_000, 10, 600, wr.SlideByTuple("10s", 10)),
        ("batch, slide by time", 100_000, 10, 600, wr.SlideByTime(1000, "1s")),
    ):
        table = _rows(rows, keys, seconds)
        found[name] = _aggregated(table, wr.Query(by="plug", window=window, aggregates=three))
    found["stream, 1,000 keys, 60s/1s"] = _streamed(_rows(60_000, 1000, 60), three, late="drop")
    found["stream, late rows applied"] = _streamed(_rows(60_000, 1000, 60), three, late="update")
    found["stored, 2^14 slices"] = _stored(1 << 14)
    values = np.random.default_rng(3).normal(size=1_000_000)
    for aggregate in (wr.Max(), wr.Sum(), wr.Mean()):
        for size in (100, 1 << 16):
            found[f"sliding, {type(aggregate).__name__}, {size} rows"] = _slid(
                values, aggregate, size, "auto"
            )
    for algorithm in ALGORITHMS:
        found[f"algorithm {algorithm}, 2^10 rows"] = _slid(values[:300_000], wr.Max(), 1 << 10, algorithm)
    return found


def _rows(rows: int, keys: int, seconds: int) -> pa.Table:
    random = np.random.default_rng(7)
    times = np.sort(random.integers(0, seconds * SECOND, rows))
    return pa.table({"plug": random.integers(0, keys, rows), "ts": times, "load": random.random(rows)})


def _aggregated(table: pa.Table, query: wr.Query) -> Callable[[], Any]:
    return lambda: wr.aggregate(table, query)


def _slid(values: Any, aggregate: Any, size: int, algorithm: str) -> Callable[[], Any]:
    return lambda: wr.sliding(values, aggregate, range=size, slide=1, algorithm=algorithm)


def _streamed(table: pa.Table, aggregates: Any, late: str) -> Callable[[], Any]:
    """Batches of 1,000 rows, and a watermark behind each."""
    query = wr.Query(by="plug", window=wr.TimeWindow("60s", "1s"), aggregates=aggregates, late=late)
    batches = [table.slice(begin, 1000) for begin in range(0, table.num_rows, 1000)]

    def run() -> None:
        operator = wr.Operator(query)
        for batch in batches:
            operator.process(batch)
            operator.advance(batch["ts"][-1].as_py())
        operator.flush()

    return run


def _stored(slices: int) -> Callable[[], Any]:
    """Batches of 1,000 rows, each row a new slice, into a window that is full; a commit after each."""
    from windrow.state.pages import MemoryPages

    schema = pa.schema({"ts": pa.int64(), "load": pa.float64()})
    query = wr.Query(window=wr.TimeWindow(slices * 10, 10), aggregates={"peak": wr.Max("load")})
    operator = wr.Operator.open(query, schema, MemoryPages())
    at = 0

    def run(batches: int = 10) -> None:
        nonlocal at
        for _ in range(batches):
            times = at + 10 * np.arange(1000)
            at += 10_000
            operator.process(pa.table({"ts": times, "load": np.sin(times)}, schema=schema))
            operator.advance(at)
            operator.commit()

    run(slices // 1000 + 1)
    return run


# The child: it runs the cases that it is told, and prints the seconds of each.


def serve() -> None:
    known = cases()
    print("\n".join([*known, ""]), flush=True)
    for line in sys.stdin:
        run = known[line.strip()]
        best, began = float("inf"), process_time()
        while best == float("inf") or process_time() - began < TURN:
            start = process_time()
            run()
            best = min(best, process_time() - start)
        print(best, flush=True)


class Version:
    """A process that has imported one version."""

    def __init__(self, tree: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.versions", "--serve"]
        self.process = subprocess.Popen(
            command,
            env={**os.environ, **KEEP_MEMORY, "PYTHONPATH": str(tree / "core")},
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.cases = list(iter(self._line, ""))

    def seconds(self, case: str) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write(case + "\n")
        self.process.stdin.flush()
        return float(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line and self.process.wait() != 0:
            raise SystemExit("a version ended; its message is above")
        return line.strip()


def compare(before: Version, after: Version, only: str, rounds: int) -> Iterator[dict[str, Any]]:
    for case in after.cases:
        if only not in case:
            continue
        both = (before, after)
        for version in both:  # compiles
            version.seconds(case)
        turns = [[version.seconds(case) for version in both] for _ in range(rounds)]
        ratios = sorted(new / old for old, new in turns)
        yield {
            "case": case,
            "before_ms": round(1e3 * median(old for old, _ in turns), 2),
            "after_ms": round(1e3 * median(new for _, new in turns), 2),
            "times_the_time": round(median(ratios), 3),
            "spread": f"{ratios[0]:.2f}–{ratios[-1]:.2f}",
        }


def main() -> None:
    from benchmarks.algorithms.measure import write

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", help="the earlier version: a commit, branch or tag")
    parser.add_argument("--only", default="", help="only cases with this text in their names")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        return serve()
    if not asked.before:
        parser.error("--before is missing; give a commit, branch or tag")
    rows = []
    with TemporaryDirectory() as folder:
        tree = Path(folder) / "before"
        subprocess.run(["git", "worktree", "add", "-q", "--detach", tree, asked.before], cwd=ROOT, check=True)
        try:
            for row in compare(Version(tree), Version(ROOT), asked.only, asked.rounds):
                print(*row.values(), sep="  ", flush=True)
                rows.append(row)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", tree], cwd=ROOT, check=True)
    if not asked.only:
        write(rows, RESULTS)


if __name__ == "__main__":
    main()
