"""Figures 11 to 16 of De Matteis and Mencagli, *Parallel Patterns for Window-based Stateful Operators on Data Streams*
(2017), with one worker and with two where the paper has up to 21.

The stream is not paced: quotes are there as soon as they are asked for, so the rate of results is the one that could be
sustained. The *ideal* rate is the one at which windows end, if quotes come as often as in the paper. The time of a window is
in CPU seconds, of the function alone. Windows are measured once the first one is full.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, rounded
from benchmarks.workers.quotes import fits, quotes
from windrow.operator import row_store
from windrow.operator.workers import Workers
from windrow.query.worker_models import ActiveWorkers

WORKERS = (1, 2)
RATE = 200_000
"""Quotes per second in the paper."""
BATCH = 0.2
"""Seconds of quotes between two watermarks, unless a figure says otherwise."""
PAPER: dict[Any, str] = {
    "5 s / 50 ms": "full rate with 17 workers",
    "1 s / 10 ms": "full rate with 14 workers",
    "active": "3.65 % less time a window",
    600_000: "21 workers, 600 ms a window",
    (1, 4000): "full rate with 5 workers",
    (2, 4000): "full rate with 14 workers",
    (3, 4000): "half of the rate with 21 workers",
    500: "up to 10 % slower",
    5000: "no difference from here on",
}
"""What the paper prints, on 24 cores."""


class Stream(NamedTuple):
    """Quotes, and how they come: some seconds of them fill the first windows, the others are measured."""

    rate: int
    filling: float
    measured: float
    batch: int

    def batches(self) -> Iterator[pa.Table]:
        table, first = quotes(self.filling + self.measured, self.rate), int(self.filling * self.rate)
        yield table.slice(0, first)
        for begin in range(first, table.num_rows, self.batch):
            yield table.slice(begin, self.batch)


class Counted:
    """Workers that say what they did: windows, rows visited, CPU seconds, and the largest row store that they saw."""

    def __init__(self, count: int, clock: Callable[[], float] = time.process_time) -> None:
        self.workers, self.clock = Workers(count), clock
        self.reset()

    def reset(self) -> None:
        self.windows = self.visits = self.stored = 0
        self.seconds = 0.0

    def compute(self, whole: Any, windows: Any, results: Any) -> None:
        before = self.clock()
        self.workers.compute(whole, windows, results)
        self.seconds += self.clock() - before
        self.windows += len(windows.lo)
        self.visits += int((windows.hi - windows.lo).sum())
        self.stored = max(self.stored, sum(column.nbytes for column in windows.columns))


class Measured(NamedTuple):
    """What came of a stream."""

    windows: int
    seconds: float
    """On the clock, for all."""
    each: float
    """CPU seconds of one window, in the function."""
    visits: float
    """Rows that a worker visits in a CPU second."""
    stored: int
    """Bytes of the row store."""

    @property
    def rate(self) -> float:
        return self.windows / self.seconds


def agnostic(stream: Stream, query: wr.Query, workers: int) -> Measured:
    """One operator keeps the rows; its workers take windows on demand."""
    counted = Counted(workers)
    first, *rest = stream.batches()
    operator = wr.Operator(query, first.schema, workers=counted)
    _step(operator, first)
    counted.reset()
    before = time.perf_counter()
    for batch in rest:
        _step(operator, batch)
    return _measured([counted], time.perf_counter() - before)


def active(stream: Stream, query: wr.Query, workers: int) -> Measured:
    """Every worker owns each so manieth window and the rows in them: all rows, if a row is in as many windows."""
    counted = [Counted(1, time.thread_time) for _ in range(workers)]
    first, *rest = stream.batches()
    operators = [
        wr.Operator(own, first.schema, workers=each)
        for own, each in zip(ActiveWorkers(query, workers).queries, counted, strict=True)
    ]
    for operator, each in zip(operators, counted, strict=True):
        _step(operator, first)
        each.reset()

    def run(operator: wr.Operator) -> None:
        for batch in rest:
            _step(operator, batch)

    with ThreadPoolExecutor(workers) as pool:
        before = time.perf_counter()
        list(pool.map(run, operators))
        return _measured(counted, time.perf_counter() - before)


MODELS = {"agnostic": agnostic, "active": active}


def models(rounds: int) -> Iterator[Row]:
    """Fig. 11: both models, two windows."""
    for name, length, slide in (("5 s / 50 ms", "5s", "50ms"), ("1 s / 10 ms", "1s", "10ms")):
        window = wr.TimeWindow(length, slide)
        stream = Stream(RATE, window.range / 1e6, 1.5, int(BATCH * RATE))
        for workers in WORKERS:
            runs = {model: _best(rounds, run, stream, fits(window), workers) for model, run in MODELS.items()}
            for model, found in runs.items():
                yield {
                    "window": name,
                    "model": model,
                    "workers": workers,
                    **_row(found, 1e6 / window.slide),
                    "time_of_active": rounded(found.each / runs["active"].each),
                    "the_paper": PAPER[name if model == "agnostic" else model],
                }


def chunks(rounds: int) -> Iterator[Row]:
    """Figs 12 and 13: rows that come at a time, and the room of the row store. 2,000 rows are gcd(W, S) = 10 ms."""
    window = wr.TimeWindow("1s", "10ms")
    for batch in (500, 1000, 2000, 5000, 20_000, 80_000):
        for workers in WORKERS:
            stream = Stream(RATE, 1.0, 1.2, batch)
            found = _best(rounds, agnostic, stream, fits(window), workers)
            yield {
                "rows_at_a_time": batch,
                "slab": row_store.SLAB,
                **_chunk(found, workers, window),
                "the_paper": PAPER.get(batch, ""),
            }
    usual = row_store.SLAB
    for slab in (4, 8):
        row_store.SLAB = slab
        stream = Stream(RATE, 1.0, 1.2, 20_000)
        found = _best(rounds, agnostic, stream, fits(window), 2)
        yield {"rows_at_a_time": 20_000, "slab": slab, **_chunk(found, 2, window)}
    row_store.SLAB = usual


def rates(rounds: int) -> Iterator[Row]:
    """Fig. 14: how many workers a rate of quotes needs."""
    window = wr.TimeWindow("1s", "25ms")
    for rate in (100_000, 200_000, 400_000, 600_000, 1_200_000):
        for workers in WORKERS:
            stream = Stream(rate, 1.0, 1.0, int(BATCH * rate))
            found = _best(rounds, agnostic, stream, fits(window), workers)
            needed = math.ceil(found.each / 0.025)
            yield {
                "quotes_per_second": rate,
                "workers": workers,
                **_row(found, 40.0),
                "workers_needed": needed,
                "the_paper": PAPER.get(rate, ""),
            }


def ranges(rounds: int) -> Iterator[Row]:
    """Fig. 15: slide-by-tuple windows, over the range."""
    for seconds in (1, 2, 3):
        yield from _by_tuple(rounds, seconds, 4000)


def slides(rounds: int) -> Iterator[Row]:
    """Fig. 16: slide-by-tuple windows, over the slide."""
    for rows in (4000, 5000, 6000):
        yield from _by_tuple(rounds, 3, rows)


def _by_tuple(rounds: int, seconds: int, rows: int) -> Iterator[Row]:
    window = wr.SlideByTuple(f"{seconds}s", rows)
    for workers in WORKERS:
        stream = Stream(RATE, float(seconds), 1.2, 10 * rows)
        found = _best(rounds, agnostic, stream, fits(window), workers)
        yield {
            "range_s": seconds,
            "slide_rows": rows,
            "workers": workers,
            **_row(found, RATE / rows),
            "the_paper": PAPER.get((seconds, rows), ""),
        }


def _step(operator: wr.Operator, batch: pa.Table) -> None:
    operator.process(batch)
    operator.advance(int(batch["ts"][-1].as_py()))


def _measured(counted: Sequence[Counted], seconds: float) -> Measured:
    windows, cpu = sum(each.windows for each in counted), sum(each.seconds for each in counted)
    visits = sum(each.visits for each in counted)
    return Measured(windows, seconds, cpu / windows, visits / cpu, max(each.stored for each in counted))


def _best(rounds: int, run: Callable[..., Measured], *arguments: Any) -> Measured:
    return max((run(*arguments) for _ in range(rounds)), key=lambda found: found.rate)


def _row(found: Measured, ideal: float) -> Row:
    return {
        "windows_per_second": rounded(found.rate),
        "ideal_per_second": rounded(ideal),
        "of_the_rate": rounded(min(found.rate / ideal, 1.0)),
        "milliseconds_per_window": rounded(1e3 * found.each),
        "million_visits_per_second": rounded(found.visits / 1e6),
    }


def _chunk(found: Measured, workers: int, window: wr.TimeWindow) -> Row:
    held = found.stored / (16.0 * RATE * window.range / 1e6)  # a row has two numbers
    return {"workers": workers, **_row(found, 1e6 / window.slide), "row_store_in_windows": rounded(held)}
