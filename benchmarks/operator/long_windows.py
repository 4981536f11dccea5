"""What a batch into a long window costs, and what late rows cost."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, rounded
from benchmarks.operator.data import AGGREGATES, Case
from windrow.storage.pages import MemoryPages


def into_a_long_window(slices: int, batches: int) -> Row:
    """Batches of 1,000 rows, each a new slice, into a window that is full; state in a store."""
    taken, written = [], []
    for seconds, size, _ in _batches_into(slices, batches):
        taken.append(seconds)
        written.append(size)
    tracemalloc.start()  # which takes time, so in a run of its own
    before = pa.total_allocated_bytes()
    for _, _, store in _batches_into(slices, 3):
        held = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
        stored = sum(map(len, store.held.values()))
    tracemalloc.stop()
    return {
        "slices": slices,
        "milliseconds_per_batch_median": rounded(1e3 * float(np.median(taken))),
        "bytes_written_median": int(np.median(written)),
        "bytes_written_most": max(written),
        "kilobytes_in_store": stored // 1024,
        "kilobytes_in_memory": max(0, held - stored) // 1024,
    }


def _batches_into(slices: int, batches: int) -> Iterator[tuple[float, int, MemoryPages]]:
    """Seconds and bytes of each batch, and the store."""
    schema, store = pa.schema({"ts": pa.int64(), "load": pa.float64()}), MemoryPages()
    query = wr.Query(window=wr.TimeWindow(slices * 10, 10), aggregates={"peak": wr.Max("load")})
    operator = wr.Operator.open(query, schema, store)
    at = 0

    def batch(count: int) -> int:
        nonlocal at
        times = at + 10 * np.arange(count)
        at += 10 * count
        operator.process(pa.table({"ts": times, "load": np.sin(times)}, schema=schema))
        operator.advance(at)
        return operator.commit()

    while at < slices * 10:
        batch(1 << 15)
    for _ in range(batches):
        begin = time.perf_counter()
        written = batch(1000)
        yield time.perf_counter() - begin, written, store


def with_late_rows(case: Case, rounds: int) -> list[Row]:
    """A stream in batches, one row in a hundred up to five seconds late: corrected, or waited for."""
    table, random = case.table(), np.random.default_rng(8)
    times = np.asarray(table.column("ts").cast(pa.int64())).copy()
    late = random.random(case.rows) < 0.01
    times[late] -= random.integers(0, 5_000_000, int(late.sum()))
    table = table.set_column(1, "ts", pa.array(times, pa.timestamp("us")))
    size = case.rows // 200

    def run(query: wr.Query) -> dict[str, int]:
        operator, found = wr.Operator(query, table.schema), {"results": 0, "corrections": 0}
        for begin in range(0, case.rows, size):
            found["corrections"] += operator.process(table.slice(begin, size)).num_rows
            found["results"] += operator.advance(int(times[begin : begin + size].max())).num_rows
        return {**found, "results": found["results"] + operator.flush().num_rows}

    measured: list[Row] = []
    for how in ("drop", "update"):
        query = wr.Query(
            by="plug", window=wr.TimeWindow("1m", "1s"), aggregates=AGGREGATES, late=how, lateness="5s"
        )
        run(query)  # compiles
        taken = []
        for _ in range(rounds):
            begin = time.perf_counter()
            found = run(query)
            taken.append(time.perf_counter() - begin)
        rows, results = case.rows / min(taken) / 1e6, sum(found.values()) / min(taken) / 1e6
        rates = {"million_rows_per_second": rounded(rows), "million_results_per_second": rounded(results)}
        measured.append({"late": how, "rows": case.rows, "keys": case.keys, **found, **rates})
    return measured
