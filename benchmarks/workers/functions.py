"""Functions of one's own: ``wr.Apply`` beside a loop by hand over the same columns, and two workers beside one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numba
import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded
from benchmarks.workers.quotes import decay, fits, quotes
from windrow.aggregates.whole import Extents
from windrow.operator.workers import Workers

WINDOW = 1000
THREE = {"c0": "f8", "c1": "f8", "c2": "f8"}


def parabola(x: Any, y: Any) -> Any:
    """The least squares parabola: centred moments and Cramer's rule."""
    n = len(x)
    centre = x.sum() / n
    middle = y.sum() / n
    s2 = s3 = s4 = t1 = t2 = 0.0
    for i in range(n):
        u, v = x[i] - centre, y[i] - middle
        s2 += u * u
        s3 += u * u * u
        s4 += u * u * u * u
        t1 += u * v
        t2 += u * u * v
    below = s2 * (s4 - s2 * s2 / n) - s3 * s3
    c1 = (t1 * (s4 - s2 * s2 / n) - s3 * t2) / below
    c2 = (s2 * t2 - s3 * t1) / below
    return middle - c2 * s2 / n, c1, c2


def rough(y: Any) -> Any:
    """Work in proportion to the rows, with a call of the mathematics library for each."""
    total = 0.0
    for value in y:
        total += np.sqrt(np.abs(np.sin(value)))
    return total


def fall(y: Any) -> Any:
    """The largest fall from a peak: next to nothing for each row."""
    peak, most = y[0], 0.0
    for value in y:
        peak = max(peak, value)
        most = max(most, peak - value)
    return most


COMPILED: dict[str, tuple[Callable[..., Any], int, int]] = {
    "parabola, slide 1": (parabola, 1, 200_000),
    "sqrt |sin|, slide 100": (rough, 100, 2_000_000),
    "largest fall, slide 100": (fall, 100, 2_000_000),
}
"""Functions over windows of 1,000 rows: the function, the slide, and over how many rows."""


def parabolas_by_hand(x: Any, y: Any, slide: int) -> Any:
    """What a user writes with numba: a loop over all windows."""
    out = np.empty(((len(x) - WINDOW) // slide + 1, 3))
    _every_parabola(x, y, slide, out)
    return out


_parabola = numba.njit(nogil=True)(parabola)


@numba.njit(nogil=True)
def _every_parabola(x: Any, y: Any, slide: Any, out: Any) -> None:
    for w in range(len(out)):
        begin, end = w * slide, w * slide + WINDOW
        out[w, 0], out[w, 1], out[w, 2] = _parabola(x[begin:end], y[begin:end])


def by_hand(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a function of one column."""
    called = numba.njit(nogil=True)(function)

    @numba.njit(nogil=True)
    def every(y: Any, slide: Any, out: Any) -> None:
        for w in range(len(out)):
            out[w, 0] = called(y[w * slide : w * slide + WINDOW])

    def run(x: Any, y: Any, slide: int) -> Any:
        out = np.empty(((len(y) - WINDOW) // slide + 1, 1))
        every(y, slide, out)
        return out

    return run


def compiled(share: int, rounds: int) -> Iterator[Row]:
    """``Apply`` of a compiled function: a table with times in, a table of windows out. CPU time, one worker."""
    for name, (function, slide, most) in COMPILED.items():
        rows = most // share
        x = np.arange(rows) / 1e3
        y = np.cumsum(np.random.default_rng(1).normal(size=rows))
        table = pa.table({"ts": np.arange(rows), "x": x, "y": y})
        if function is parabola:
            apply, hand = wr.Apply(function, ["x", "y"], returns=THREE), parabolas_by_hand
        else:
            apply, hand = wr.Apply(function, "y"), by_hand(function)
        query = wr.Query(window=wr.CountWindow(WINDOW, slide), aggregates={"f": apply})
        runs: dict[str, Callable[[], Any]] = {
            "hand": lambda hand=hand, x=x, y=y, slide=slide: hand(x, y, slide),
            "apply": lambda table=table, query=query: wr.aggregate(table, query),
        }
        _check_same(runs["hand"](), runs["apply"]())
        seconds = in_turns(runs, rounds, time.process_time)
        best = {run: min(taken) for run, taken in seconds.items()}
        yield {
            "function": name,
            "rows": rows,
            "by_hand_ns_per_row": rounded(1e9 * best["hand"] / rows),
            "apply_ns_per_row": rounded(1e9 * best["apply"] / rows),
            "more_ns_per_row": rounded(1e9 * (best["apply"] - best["hand"]) / rows),
            "of_by_hand": rounded(ratio(seconds["apply"], seconds["hand"])),
        }


def _check_same(by_hand: Any, found: pa.Table) -> None:
    column = found["f"].combine_chunks()
    columns = column.flatten() if pa.types.is_struct(column.type) else [column]
    for place, values in enumerate(columns):
        assert np.allclose(by_hand[:, place], values.to_numpy(), rtol=1e-9, atol=1e-9)


class Recorded(ThreadPoolExecutor):
    """Threads that know how many CPU seconds each piece of work took."""

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.count = count
        self.taken: list[float] = []

    def submit(self, work: Any, /, *arguments: Any, **options: Any) -> Any:
        def timed() -> Any:
            before = time.thread_time()
            try:
                return work(*arguments, **options)
            finally:
                self.taken.append(time.thread_time() - before)

        return super().submit(timed)


class Watched:
    """Workers, and the CPU seconds that they take if each has a core. Unlike the clock, that holds on a busy machine."""

    def __init__(self, workers: Any, pool: Recorded) -> None:
        self.workers, self.pool = workers, pool
        self.saved = 0.0
        """Seconds that are not spent one after the other."""

    def compute(self, whole: Any, windows: Extents, results: Any) -> None:
        """A worker takes the next piece when it is done with one; all wait for the last."""
        self.pool.taken.clear()
        self.workers.compute(whole, windows, results)
        ends = [0.0] * self.pool.count
        for piece in self.pool.taken:
            ends[ends.index(min(ends))] += piece
        self.saved += sum(ends) - max(ends)

    def longest(self, run: Callable[[Any], Any]) -> float:
        self.saved, before = 0.0, time.process_time()
        run(self)
        return time.process_time() - before - self.saved


class RoundRobin:
    """Window i is computed by thread i mod N, as active workers do."""

    def __init__(self, pool: Recorded) -> None:
        self.count, self.pool = pool.count, pool

    def compute(self, whole: Any, windows: Extents, results: Any) -> None:
        def share(first: int) -> None:
            mine = slice(first, None, self.count)
            own = Extents(windows.columns, windows.lo[mine].copy(), windows.hi[mine].copy())
            out, ok = results.out[mine].copy(), results.ok[mine].copy()
            whole.compute(own, out, ok)
            results.out[mine], results.ok[mine] = out, ok

        list(self.pool.map(share, range(self.count)))


def two_workers(share: int, rounds: int) -> Iterator[Row]:
    """Two workers beside one, on the clock: windows of the same size, and of 1,800 and 200 rows by turns."""
    seconds_of_quotes = 20 // share or 1
    even = quotes(seconds_of_quotes, 20_000)
    yield from _shared("even", even, fits(wr.TimeWindow("1s", "10ms")), rounds)
    rows = 1_600_000 // share
    gaps = np.where(np.arange(rows) % 2000 < 1800, 1, 9)  # 1,800 rows close together, then 200 that are not
    at = (np.cumsum(gaps) - 1) % 1800 / 1800.0
    noise = np.random.default_rng(5).normal(0.0, 0.05, rows)
    uneven = pa.table(
        {"ts": np.cumsum(gaps) - 1, "at": at, "bid": 3.0 + 2.0 * np.exp(-4.0 * np.sqrt(at + 0.01)) + noise}
    )
    fit = wr.LevenbergMarquardt(decay, "at", "bid", p0=(1.0, 1.0, 1.0))
    query = wr.Query(window=wr.TimeWindow(1800, 1800), aggregates={"fit": fit})
    yield from _shared("uneven", uneven, query, rounds)


def _shared(name: str, table: pa.Table, query: wr.Query, rounds: int) -> Iterator[Row]:
    def run(workers: Any) -> pa.Table:
        operator = wr.Operator(query, table.schema, workers=workers)
        operator.process(table)
        return operator.flush()

    first, second = Recorded(2), Recorded(2)
    kinds = {
        "1": Watched(Workers(1), Recorded(1)),
        "2, on demand": Watched(Workers(2, first), first),
        "2, round robin": Watched(RoundRobin(second), second),
    }
    found = {which: run(workers) for which, workers in kinds.items()}
    assert found["1"].equals(found["2, on demand"]) and found["1"].equals(found["2, round robin"])
    seconds = in_turns({which: partial(run, workers) for which, workers in kinds.items()}, rounds)
    cpu = {which: min(workers.longest(run) for _ in range(3)) for which, workers in kinds.items()}
    for which, taken in seconds.items():
        yield {
            "windows": name,
            "workers": which,
            "count": found["1"].num_rows,
            "windows_per_second": rounded(found["1"].num_rows / min(taken)),
            "times_one_worker": rounded(min(seconds["1"]) / min(taken)),
            "times_round_robin": rounded(min(seconds["2, round robin"]) / min(taken)),
            "times_one_worker_by_cpu": rounded(cpu["1"] / cpu[which]),
            "times_round_robin_by_cpu": rounded(cpu["2, round robin"] / cpu[which]),
        }


def ends(y: Any) -> float:
    """Next to nothing, in a way that numba does not compile."""
    return float(y.item(-1) - y.item(0))


def least(y: Any) -> float:
    """Sorts a list of Python numbers, which numba does not compile."""
    return float(sum(sorted(y.tolist())[:10]))


def polynomial(y: Any) -> float:
    return float(np.polynomial.Polynomial.fit(np.arange(len(y)), y, 2).coef[2])


PYTHON: dict[str, tuple[Callable[..., float], int]] = {
    "last less first": (ends, 1_000_000),
    "ten least": (least, 400_000),
    "numpy's polynomial": (polynomial, 400_000),
}


def python(share: int, rounds: int) -> Iterator[Row]:
    """Python functions with two workers beside one, on the clock; windows of 1,000 rows, slide 100."""
    for name, (function, rows) in PYTHON.items():
        y = np.random.default_rng(2).normal(size=rows // share)
        table = pa.table({"ts": np.arange(len(y)), "y": y})
        query = wr.Query(window=wr.CountWindow(WINDOW, 100), aggregates={"f": wr.Apply(function, "y")})
        runs = {
            str(workers): lambda table=table, query=query, workers=workers: wr.aggregate(
                table, query, workers=workers
            )
            for workers in (1, 2)
        }
        found = {which: each() for which, each in runs.items()}
        assert found["1"].equals(found["2"])
        seconds = in_turns(runs, rounds)
        windows = found["1"].num_rows
        yield {
            "function": name,
            "windows": windows,
            "one_worker_per_second": rounded(windows / min(seconds["1"])),
            "two_workers_per_second": rounded(windows / min(seconds["2"])),
            "times_one_worker": rounded(min(seconds["1"]) / min(seconds["2"])),
        }
