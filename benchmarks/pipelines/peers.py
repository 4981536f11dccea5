"""The same static graphs in streamz and Bytewax: in this process, without state that survives it.

Bytewax has no node with two inputs that keeps the latest of both and runs once, so it takes part in the chain only.
``combine_latest`` of streamz runs for each of its inputs, so it emits twice for each update of a diamond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from windrow.pipelines import Composite, Source, Space

ROWS = 20_000
BATCH = 1000


def chain() -> dict[str, Callable[[], Any]]:
    """Contenders that send the same rows through three computations."""
    values = [float(n) for n in range(ROWS)]
    table = pa.table({"ts": pa.array(range(ROWS)), "v": values})
    rows = [{"stream": "o/s0", "ts": n, "v": v} for n, v in enumerate(values)]

    def space() -> Space:
        made = Space("chain")
        made.put(Source("o/s0", channels={"v": "double"}), by="o")
        for n in range(3):
            made.put(Composite(f"o/s{n + 1}", inputs={"a": f"o/s{n}"}, channels={"v": "a.v * 2 + 1"}), by="o")
        return made

    def by_columns() -> None:
        made = space()
        for begin in range(0, ROWS, BATCH):
            made.push(table.slice(begin, BATCH), stream="o/s0")

    def by_rows() -> None:
        made = space()
        for begin in range(0, ROWS, BATCH):
            made.push(rows[begin : begin + BATCH])

    return {"windrow, columns": by_columns, "windrow, rows": by_rows, **_streamz(values), **_bytewax(values)}


def diamond() -> dict[str, Callable[[], Any]]:
    """Contenders that join two arms of one source."""
    values = [float(n) for n in range(ROWS)]
    table = pa.table({"ts": pa.array(range(ROWS)), "v": values})

    def ours() -> None:
        made = Space("diamond")
        made.put(Source("o/a", channels={"v": "double"}), by="o")
        for name in ("f", "g"):
            made.put(Composite(f"o/{name}", inputs={"a": "o/a"}, channels={"v": "a.v * 2 + 1"}), by="o")
        made.put(Composite("o/x", inputs={"f": "o/f", "g": "o/g"}, channels={"v": "f.v + g.v"}), by="o")
        for begin in range(0, ROWS, BATCH):
            made.push(table.slice(begin, BATCH), stream="o/a")

    def theirs() -> None:
        from streamz import Stream

        source = Stream()
        f, g = source.map(_step), source.map(_step)
        f.combine_latest(g).map(sum).sink(_nothing)
        for value in values:
            source.emit(value)

    contenders: dict[str, Callable[[], Any]] = {"windrow, columns": ours}
    try:
        import streamz  # noqa: F401
    except ImportError:
        return contenders
    return {**contenders, "streamz": theirs}


def _step(value: float) -> float:
    return value * 2 + 1


def _nothing(value: Any) -> None:
    return None


def _streamz(values: list[float]) -> dict[str, Callable[[], Any]]:
    try:
        from streamz import Stream
    except ImportError:
        return {}

    def run() -> None:
        source = Stream()
        source.map(_step).map(_step).map(_step).sink(_nothing)
        for value in values:
            source.emit(value)

    return {"streamz": run}


def _bytewax(values: list[float]) -> dict[str, Callable[[], Any]]:
    try:
        import bytewax.operators as op
        from bytewax.dataflow import Dataflow
        from bytewax.testing import TestingSink, TestingSource, run_main
    except ImportError:
        return {}

    def run() -> None:
        flow = Dataflow("chain")
        stream = op.input("in", flow, TestingSource(values, BATCH))
        for n in range(3):
            stream = op.map(f"m{n}", stream, _step)
        out: list[float] = []
        op.output("out", stream, TestingSink(out))
        run_main(flow)

    return {"bytewax": run}
