"""Random streams and queries for the tests of the operator: rows with ties, gaps, bursts, disorder and
nulls."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import windrow as wr
from windrow.windows import Window

SCHEMA = pa.schema({"k": pa.string(), "ts": pa.int64(), "x": pa.float64(), "i": pa.int32(), "d": pa.int64()})

AGGREGATES: dict[str, wr.Aggregate] = {
    "peak": wr.Max("x"),
    "low": wr.Min("i"),
    "total": wr.Sum("i"),
    "mean": wr.Mean("i"),
    "n": wr.Count(),
    "some": wr.Count("x"),
    "last": wr.Last("x"),
    "all": wr.Collect("i"),
    "median": wr.Median("x"),
}
"""All exact, so that answers can be compared bit by bit."""


def few(window: Any) -> bool:
    return bool(window.n <= 4)


def dominated(candidate: Any, after: Any, before: Any) -> bool:
    return candidate.peak is None or (after.peak is not None and candidate.peak <= after.peak)


WINDOWS: dict[str, Window | list[Window]] = {
    "sliding": wr.TimeWindow(10, 5),
    "not a multiple, offset": wr.TimeWindow(7, 3, 1),
    "gaps": wr.TimeWindow(3, 10),
    "tumbling": wr.TimeWindow(20),
    "many slices": wr.TimeWindow(100, 1),
    "several": [wr.TimeWindow(10, 5), wr.TimeWindow(7, 3, 1), wr.TimeWindow(40, 10)],
    "count": wr.CountWindow(4, 2),
    "count, not a multiple": wr.CountWindow(5, 3),
    "count, gaps": wr.CountWindow(2, 3),
    "session": wr.SessionWindow(6),
    "slide by tuple": wr.SlideByTuple(20, 3),
    "slide by time": wr.SlideByTime(4, 15),
    "delta": wr.DeltaWindow("d", 30, 10),
    "policy": wr.PolicyWindow(valid=few),
    "policy with eviction": wr.PolicyWindow(valid=few, evict=dominated),
}


@st.composite
def streams(draw: st.DrawFn, most: int = 30, least: int = 0) -> pa.Table:
    """Rows of a few keys around the epoch, not sorted, with a delta attribute that follows time."""
    times = draw(st.lists(st.integers(-40, 120), min_size=least, max_size=most))
    row = st.fixed_dictionaries(
        {
            "k": st.sampled_from(["a", "b", None]),
            "x": st.one_of(st.none(), st.sampled_from([-1.0, 0.0, 0.5, 2.0, 7.0])),
            "i": st.one_of(st.none(), st.integers(-5, 5)),
        }
    )
    rows = [{**draw(row), "ts": time, "d": time // 2} for time in times]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@st.composite
def events(draw: st.DrawFn, table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows in batches, with watermarks between them, and the end of the stream."""
    cuts = sorted(draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    marks = sorted(draw(st.lists(st.integers(-50, 150), min_size=len(cuts), max_size=len(cuts))))
    listed: list[tuple[Any, ...]] = []
    begin = 0
    for cut, mark in zip(cuts, marks, strict=True):
        listed += [("rows", table.slice(begin, cut - begin)), ("watermark", mark)]
        begin = cut
    return [*listed, ("rows", table.slice(begin)), ("flush",)]


def query(window: Window | list[Window], names: list[str], **options: Any) -> wr.Query:
    if isinstance(window, wr.PolicyWindow):
        names = [*names, *(name for name in ("n", "peak") if name not in names)]
    return wr.Query(by="k", window=window, aggregates={name: AGGREGATES[name] for name in names}, **options)


def feed(operator: wr.Operator, event: tuple[Any, ...]) -> pa.Table:
    kind, *argument = event
    if kind == "rows":
        return operator.process(argument[0])
    return operator.advance(argument[0]) if kind == "watermark" else operator.flush()
