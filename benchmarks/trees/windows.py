"""What is measured: windows of one size, policies, memory, dimensions, and a process that is killed."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import windrow as wr
from benchmarks.trees import daba_by_hand
from benchmarks.trees.measure import Row, in_turns
from windrow.algorithms import REGISTRY
from windrow.algorithms.stored_amta import StoredAMTA
from windrow.data import server_memory
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.storage.pages import MemoryPages
from windrow.storage.redis import RedisPages
from windrow.storage.rocksdb import RocksDBPages

MEMORY = ("AMTA", "LMTA", "DABA")
AGGREGATES: dict[str, Any] = {
    "sum": wr.Sum(),
    "mean": wr.Mean(),
    "geomean": wr.GeometricMean(),
    "std": wr.Std(),
    "max": wr.Max(),
}


def readings(count: int) -> Any:
    """Readings of the generator, in KB: the first 2²² of them, again and again if more are wanted."""
    table = server_memory(rows=min(count, 1 << 22)).read_all()
    return np.resize(table.column(1).to_numpy().astype(np.float64), count)


def stored(pages: Any, aggregate: Any, values: Any, size: int, batch: int) -> int:
    """Slide a stored window over a column."""
    window = StoredAMTA(aggregate, pages, f"w{time.perf_counter_ns()}", batch=batch)
    out = ColumnOutput(np.zeros(len(values)), np.zeros(len(values), dtype=np.bool_))
    window.slide((values,), size, out)
    return len(values)


def pages_alone(pages: Any, aggregate: Any, rows: int, size: int, batch: int) -> int:
    """The pages that such a window writes, reads and deletes, and nothing is computed: what a store takes at the least."""
    name, page = f"p{time.perf_counter_ns()}", os.urandom(batch * aggregate.bind_dense().width)
    for number in range(rows // batch):
        gone = number - size // batch
        if gone >= 0:
            pages.get([f"{name}/{gone}"])
        pages.commit({f"{name}/{number}": page}, [f"{name}/{gone}"] if gone >= 0 else [])
    return rows


@contextmanager
def rocksdb() -> Iterator[RocksDBPages]:
    with tempfile.TemporaryDirectory() as folder, RocksDBPages(f"{folder}/pages", sync=False) as pages:
        yield pages


@contextmanager
def redis() -> Iterator[str]:
    """A server on a free port of the loopback interface; its address."""
    binary = shutil.which("redis-server")
    if binary is None:
        raise SystemExit("redis-server is not installed: apt-get install redis-server")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        server = subprocess.Popen([binary, *options], stdout=subprocess.DEVNULL)
        try:
            time.sleep(1.0)
            yield f"redis://127.0.0.1:{port}/0"
        finally:
            server.terminate()
            server.wait()


def sizes(exponents: list[int], rounds: int) -> Iterator[list[Row]]:
    """Figure 4.6: a window of n rows slides by one, n times or 2²² times; compiled, over a column."""
    for exponent in exponents:
        size = 1 << exponent
        values = readings(size + max(min(size, 1 << 22), 1 << 16))
        turns = rounds if exponent < 22 else 1
        found = in_turns(_over_columns(wr.Max(), values, size), turns)
        with rocksdb() as pages:
            some = _on_pages(wr.Max(), values, size, pages, (512, 4096))
            found |= in_turns(some, turns, warm=exponent < 22)
        yield [{"size": size, "window": name, **taken} for name, taken in found.items()]


def operations(exponent: int, rows: int, rounds: int) -> Iterator[list[Row]]:
    """Table 4.2: windows of 2²⁰ rows, compiled over a column and update by update from Python; and the policies."""
    size = 1 << exponent
    values = readings(2 * size)
    for name, aggregate in AGGREGATES.items():
        found = in_turns(_over_columns(aggregate, values, size), rounds)
        yield _table(name, "column", found)
        with rocksdb() as pages:
            yield _table(name, "updates", in_turns(_slid(aggregate, values, size, pages), rounds))
    for name in ("max", "LIS"):
        yield _table(name, "policy", in_turns(_one_by_one(name, values[:rows], size), rounds))


def column(exponent: int, rounds: int) -> Iterator[list[Row]]:
    """The first columns of Table 4.2 alone: windows of 2²⁰ rows in memory, compiled over a column."""
    size = 1 << exponent
    values = readings(2 * size)
    for name, aggregate in AGGREGATES.items():
        some = _over_columns(aggregate, values, size)
        del some["LMTA"]
        yield _table(name, "column", in_turns(some, rounds))


def stored_columns(exponent: int, rounds: int) -> Iterator[list[Row]]:
    """A stored window of 2²⁰ rows over a column, its pages in memory and in RocksDB, beside AMTA and beside the pages alone."""
    size = 1 << exponent
    values = readings(2 * size)
    for name, aggregate in AGGREGATES.items():
        with rocksdb() as pages:
            some = {"AMTA": _over_columns(aggregate, values, size)["AMTA"]}
            for where, store in {"in memory": MemoryPages, "RocksDB": lambda: pages}.items():
                some[f"StoredAMTA 4096, {where}"] = lambda store=store, aggregate=aggregate: stored(
                    store(), aggregate, values, size, 4096
                )
                some[f"pages of 4096 alone, {where}"] = lambda store=store, aggregate=aggregate: pages_alone(
                    store(), aggregate, len(values), size, 4096
                )
            yield _table(name, "column", in_turns(some, rounds))


def _over_columns(aggregate: Any, values: Any, size: int) -> dict[str, Callable[[], int]]:
    """The contenders in memory over a column; a run counts the rows that fill the window, too."""
    some: dict[str, Callable[[], int]] = {
        kind: lambda kind=kind: len(wr.sliding(values, aggregate, size, algorithm=kind)) + size - 1
        for kind in MEMORY
    }
    some["DABA by hand"] = lambda: len(daba_by_hand.sliding(values, aggregate, size)) + size - 1
    return some


def _on_pages(
    aggregate: Any, values: Any, size: int, pages: Any, batches: tuple[int, ...]
) -> dict[str, Callable[[], int]]:
    """The contenders on a store. They take turns among themselves: a store goes on in the background when they are done."""
    some: dict[str, Callable[[], int]] = {}
    for batch in batches:
        some[f"StoredAMTA {batch}"] = lambda batch=batch: stored(pages, aggregate, values, size, batch)
        some[f"pages of {batch} alone"] = lambda batch=batch: pages_alone(
            pages, aggregate, len(values), size, batch
        )
    return some


def _slid(aggregate: Any, values: Any, size: int, pages: Any) -> dict[str, Callable[[], int]]:
    """The contenders with a full window, each to be slid by so many updates: one call each to evict, insert and query."""
    lift = aggregate.bind_dense().lift
    partials = [lift(value) for value in values[:20_000].tolist()]
    some: dict[str, Any] = {name: filled(name, aggregate, values[:size]) for name in MEMORY}
    for name, store in {"StoredAMTA 512, in memory": MemoryPages(), "StoredAMTA 512, RocksDB": pages}.items():
        window = some[name] = StoredAMTA(aggregate, store, f"updates {type(aggregate).__name__}")
        window.slide((values[:size],), size + 1, ColumnOutput(np.zeros(size), np.zeros(size, dtype=np.bool_)))

    def slide(window: Any) -> int:
        for partial in partials:
            window.evict()
            window.insert(partial)
            window.query()
        return len(partials)

    return {name: lambda window=window: slide(window) for name, window in some.items()}


def filled(name: str, aggregate: Any, values: Any) -> Any:
    """A window of an algorithm in memory that has all of these values."""
    window = REGISTRY[name](aggregate, capacity=len(values) + 1)
    rows = Input((values,), np.ones(0, dtype=np.bool_))
    window.run_over(rows, len(values), 1, ColumnOutput(np.zeros(1), np.zeros(1, dtype=np.bool_)))
    return window


def _table(operation: str, way: str, measured: dict[str, Row]) -> list[Row]:
    return [{"operation": operation, "way": way, "window": name, **taken} for name, taken in measured.items()]


def _one_by_one(name: str, values: Any, size: int) -> dict[str, Callable[[], int]]:
    """Update by update through the Python interface, with the policies of section 4.5.6.

    The eviction invariant of a maximum drives out what is older than it, that of a run what is older than the run. DABA
    has no bulk eviction: it looks at its oldest partial, again and again, as in the thesis.
    """
    aggregate = {"max": wr.Max(), "LIS": wr.LongestIncreasingRun("x", at="i")}[name]
    lift = aggregate.bind_dense().lift
    partials = [lift(v, i) if name == "LIS" else lift(v) for i, v in enumerate(values.tolist())]
    goes = {"max": lambda c, a, b: c[0] <= a[0], "LIS": lambda c, a, b: c[7] < b[10]}[name]
    oldest = {"max": lambda c, b: c[0] < b[0], "LIS": lambda c, b: c[7] < b[10]}[name]

    def tree(kind: Any) -> int:
        window = kind()
        for partial in partials:
            window.insert(partial)
            if len(window) > size:
                window.evict()
            window.enforce(evict=goes)
            window.query()
        return len(partials)

    def daba() -> int:
        window, held = REGISTRY["DABA"](aggregate), deque[Any]()
        for partial in partials:
            window.insert(partial)
            held.append(partial)
            if len(held) > size:
                window.evict()
                held.popleft()
            total = window.query()
            while len(held) > 1 and oldest(held[0], total):
                window.evict()
                held.popleft()
                total = window.query()
        return len(partials)

    return {
        "AMTA": lambda: tree(lambda: REGISTRY["AMTA"](aggregate)),
        "LMTA": lambda: tree(lambda: REGISTRY["LMTA"](aggregate)),
        "DABA": daba,
        "StoredAMTA 512": lambda: tree(lambda: StoredAMTA(aggregate, MemoryPages())),
    }


def evictions(exponent: int, rounds: int) -> Iterator[list[Row]]:
    """Figure 4.7: from a full window, any number of rows leave at once, and the result is asked for. Microseconds.

    A window is filled once. It is evicted from, in growing steps, and asked after each.
    """
    size = 1 << exponent
    values = readings(size)
    steps = [1 << k for k in range(0, exponent, 3)]
    with rocksdb() as pages:
        for name in ("AMTA", "LMTA", "StoredAMTA, in memory", "StoredAMTA, RocksDB", "DABA"):
            taken: dict[int, float] = {}
            for turn in range(rounds):
                if name.startswith("Stored"):
                    window: Any = StoredAMTA(
                        wr.Max(), pages if "Rocks" in name else MemoryPages(), f"evictions {turn}"
                    )
                    out = ColumnOutput(np.zeros(size), np.zeros(size, dtype=np.bool_))
                    window.slide((values,), size + 1, out)
                else:
                    window = filled(name, wr.Max(), values)
                window.query()
                window.evict(1)
                for gone in steps if name != "DABA" else steps[:-1]:
                    begin = time.perf_counter_ns()
                    window.evict(gone)
                    window.query()
                    took = (time.perf_counter_ns() - begin) / 1e3
                    taken[gone] = min(taken.get(gone, took), took)
            yield [
                {"size": size, "evicted": gone, "window": name, "microseconds": round(took, 1)}
                for gone, took in taken.items()
            ]


def memory(exponents: list[int]) -> Iterator[list[Row]]:
    """Figure 4.8: the bytes of arrays that a full window has in this process."""
    for exponent in exponents:
        size = 1 << exponent
        values = readings(size)
        with rocksdb() as pages:
            window = StoredAMTA(wr.Max(), pages)
            out = ColumnOutput(np.zeros(size), np.zeros(size, dtype=np.bool_))
            window.slide((values,), size + 1, out)
            local = window.nbytes
        width = wr.Max().bind_dense().width
        in_memory = {
            "AMTA": 2 * size * width,
            "LMTA": 3 * size * width,
            "DABA": 2 * size * width,
            "naive": size * width,
        }
        yield [
            {"size": size, "window": name, "bytes": count, "times_stored": round(count / local, 1)}
            for name, count in {"StoredAMTA 512": local, **in_memory}.items()
        ]


def dimensions(counts: list[int], updates: int, rounds: int) -> Iterator[list[Row]]:
    """Figure 4.9: k counts in one stored window of 2¹⁵ rows, update by update, beside k windows of one count."""
    one_count = 0.0
    for count in counts:
        aggregate = _counts(count)
        one = (np.ones(count, dtype=np.int64),)
        window = StoredAMTA(aggregate, MemoryPages())
        for _ in range(1 << 15):
            window.insert(one)

        def slide(window: Any = window, one: Any = one) -> int:
            for _ in range(updates):
                window.insert(one)
                window.evict()
                window.query()
            return updates

        rows = [{"dimensions": count, **taken} for taken in in_turns({"one window": slide}, rounds).values()]
        one_count = one_count or rows[0]["cpu_ns"]
        yield [{**row, "windows_of_one": round(count * one_count / row["cpu_ns"], 1)} for row in rows]


def _counts(count: int) -> Any:
    @wr.aggregate_type(partial={"counts": f"i8[{count}]"}, identity=(0,), output="int64")
    class Counts:
        def lift(x):  # type: ignore[no-untyped-def]
            return (np.full(count, x),)

        def combine(a, b):  # type: ignore[no-untyped-def]
            return (a[0] + b[0],)

        def lower(p):  # type: ignore[no-untyped-def]
            return p[0][0]

    return Counts("x")


def killed(exponent: int, store: str) -> list[Row]:
    """A window of 2²⁵ rows is filled by a process that is killed in the middle, and finished by another."""
    size = 1 << exponent
    with tempfile.TemporaryDirectory() as folder, redis() as server:
        address = f"{folder}/pages" if store == "RocksDB" else server
        job = [sys.executable, "-m", "benchmarks.trees.fill", store, address, str(size)]
        process = subprocess.Popen(job, env={**os.environ}, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        seen = 0
        for line in process.stdout:
            seen = int(line)
            if seen > size // 2:
                break
        process.send_signal(signal.SIGKILL)
        process.wait()
        begin = time.perf_counter()
        done = subprocess.run(job, check=True, capture_output=True, text=True).stdout.splitlines()
        recovered, result, local = int(done[0]), float(done[-2]), int(done[-1])
        values = readings(size)
        assert result == float(values.max()), "the result is that of the whole window"
        return [
            {
                "store": store, "size": size, "killed_after": seen, "recovered_at": recovered,
                "seconds_to_finish": round(time.perf_counter() - begin, 1), "local_bytes": local,
            }
        ]  # fmt: skip


def pages_of(store: str, address: str) -> Any:
    return RocksDBPages(address, sync=False) if store == "RocksDB" else RedisPages(address)
