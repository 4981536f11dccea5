"""The paper's hardest stream at its own pace, and how much memory a long window takes."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, rounded
from benchmarks.workers.quotes import fits, quotes

TENTHS = 10
"""Batches in a second."""


def live(rate: int, seconds: int) -> Row:
    """200,000 quotes a second, slide-by-tuple 4,000, range 3 s: each tenth of a second of quotes comes when it is over.

    ``behind`` is when its windows are there, after it has come. If that grows, the rate is not sustained.
    """
    table, step = quotes(seconds, rate), rate // TENTHS
    query = fits(wr.SlideByTuple("3s", 4000))
    operator = wr.Operator(query, table.schema, workers=2)
    behind: list[float] = []
    busy: list[tuple[float, float]] = []
    windows = 0
    begin = time.perf_counter()
    for number in range(seconds * TENTHS):
        batch, due = table.slice(number * step, step), begin + (number + 1) / TENTHS
        time.sleep(max(0.0, due - time.perf_counter()))
        before = time.perf_counter(), time.process_time()
        operator.process(batch)
        windows += operator.advance(int(batch["ts"][-1].as_py()) + 1).num_rows
        busy.append((time.perf_counter() - before[0], time.process_time() - before[1]))
        behind.append(time.perf_counter() - due)
    full = 3 * TENTHS
    clock, cpu = (TENTHS * sum(each) / len(each) for each in zip(*busy[full:], strict=True))
    return {
        "quotes_per_second": rate,
        "windows": windows,
        "windows_wanted": rate * seconds // 4000,
        "seconds_of_work_per_second": rounded(clock),
        "cpu_seconds_per_second": rounded(cpu),
        "most_seconds_behind": rounded(max(behind[full:])),
        "seconds_behind_at_the_end": rounded(behind[-1]),
    }


def memory(rows: int) -> Row:
    """The most memory while a window of so many rows slides by 1,000, in bytes of such a window; in a fresh process."""
    program = f"from benchmarks.workers.live import peak; print(peak({rows}))"
    ran = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    grown = int(ran.stdout)
    return {"rows": rows, "bytes_of_a_window": 8 * rows, "peak_in_windows": rounded(grown / (8 * rows))}


def peak(rows: int) -> int:
    """By how many bytes this process grows at most, after a short run that loads and compiles all code."""
    _slide(_spread(1000, 100), 20_000)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak so far
    before = _status("VmRSS")
    _slide(_spread(rows, 1000), 4 * rows)
    return _status("VmHWM") - before


def _spread(rows: int, slide: int) -> wr.Query:
    return wr.Query(window=wr.CountWindow(rows, slide), aggregates={"spread": wr.Apply(spread, "y")})


def spread(y: Any) -> Any:
    return y[-1] - y[0]


def _slide(query: wr.Query, rows: int) -> None:
    operator = wr.Operator(query)
    for begin in range(0, rows, 10_000):
        times = np.arange(begin, begin + 10_000)
        operator.process(pa.table({"ts": times, "y": times / 7.0}))
        operator.advance(begin + 10_000)


def _status(name: str) -> int:
    """A size of this process, in bytes, as Linux has it: the memory in use now, or at most."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (line,) = (line for line in lines if line.startswith(f"{name}:"))
    return 1024 * int(line.split()[1])
