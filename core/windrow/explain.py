"""What a query will do, before it does it: the algorithm and why, its cost, and the state it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow import durations
from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.query import Query
from windrow.state.paging import FOLD
from windrow.windows import CountWindow, SessionWindow, TimeWindow, Window, pane

SLICE = 40  # stamp, stop, page, and two links of four bytes each, per slice


@dataclass(frozen=True)
class Explanation:
    """The plan of a query. ``str()`` is for people; the fields are for programs.

    ``slices`` is how many slices a full window spans (``None`` if that depends on the data), ``chunk`` the
    optimal chunk size of the boundary aggregator, in slices, and ``combines`` the worst amortised number of
    combines per slide and aggregate.
    """

    query: Query
    algorithm: str
    why: str
    chunk: int | None
    combines: str
    slices: int | None
    partial_bytes: dict[str, int | None]
    state_bytes: int | None
    stored: str
    pushdown: str
    windows_per_row: int | None

    def __str__(self) -> str:
        lines = [
            ("window", ", ".join(f"{label} ({window.context})" for label, window in self.query.windows)),
            ("due when", self.query.windows[0][1].trigger),
            ("algorithm", f"{self.algorithm}: {self.why}"),
            ("combines per slide", self.combines),
            ("chunk size", "none" if self.chunk is None else f"{self.chunk:,} slices"),
            ("slices per window", _number(self.slices)),
            ("windows per row", _number(self.windows_per_row)),
            ("partials", ", ".join(f"{name} {_size(size)}" for name, size in self.partial_bytes.items())),
            ("state per key", _size(self.state_bytes)),
            ("in a store", self.stored),
            ("push-down", self.pushdown),
        ]
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def explain(query: Query, schema: pa.Schema | None = None) -> Explanation:
    """How a query is computed, and why so. Without the schema of the data, inputs are taken to be float64.

    >>> import windrow as wr
    >>> plan = wr.explain(wr.Query(window=wr.TimeWindow("1h", "1s"), aggregates={"peak": wr.Max("load")}))
    >>> plan.algorithm, plan.slices, plan.windows_per_row
    ('SBA', 3600, 3600)
    """
    monoids = {name: _monoid(aggregate, schema) for name, aggregate in query.aggregates.items()}
    slices = [_slices(window) for _, window in query.windows]
    known = None if None in slices else max(count for count in slices if count is not None)
    sizes = {name: monoid.width if monoid.typed else None for name, monoid in monoids.items()}
    state = None
    if known is not None and None not in sizes.values():
        # every slice holds its partial and, for each window, its lcs
        partials = sum(size for size in sizes.values() if size is not None)
        state = known * (SLICE + partials * (1 + len(slices)))
    algorithm, why, combines = _algorithm(query, monoids)
    return Explanation(
        query=query,
        algorithm=algorithm,
        why=why,
        chunk=_chunk(query.windows[0][1], monoids) if algorithm in ("SBA", "PBA") else None,
        combines=combines,
        slices=known,
        partial_bytes=sizes,
        state_bytes=state,
        stored=_stored(query, known),
        pushdown=_pushdown(query, monoids),
        windows_per_row=_windows_per_row(query),
    )


def _monoid(aggregate: Aggregate, schema: pa.Schema | None) -> Monoid:
    if schema is None:
        return aggregate.bind()
    return aggregate.bind([schema.field(column).type for column in aggregate.columns])


def _algorithm(query: Query, monoids: dict[str, Monoid]) -> tuple[str, str, str]:
    in_time = all(isinstance(window, TimeWindow) for _, window in query.windows)
    if query.late == "update" and in_time:
        return (
            "Treap",
            "late rows change slices in the middle of windows",
            "O(log n), for a window as for a late row",
        )
    if query.late == "update":
        return (
            "SBA",
            "constant time for any aggregate and any range; a late row moves windows, so those of its key are made again",
            "fewer than 3, amortised; for a late row as many as its key has slices",
        )
    if query.algorithm != "auto":
        return query.algorithm, "the query names it", "as its documentation says"
    order = (
        ""
        if all(m.commutative for m in monoids.values())
        else "; rows wait for the watermark, because order matters"
    )
    kind = type(query.windows[0][1])
    if kind is SessionWindow:
        return "SBA", f"a session is one slice, so there is nothing to slide{order}", "1"
    shared = " over slices shared by all windows" if len(query.windows) > 1 else ""
    return "SBA", f"constant time for any aggregate and any range{shared}{order}", "fewer than 3, amortised"


def _slices(window: Window) -> int | None:
    if isinstance(window, TimeWindow | CountWindow):
        whole, rest = divmod(window.range, window.slide)
        return max(whole if not rest else 2 * whole + 1, 1)
    return 1 if isinstance(window, SessionWindow) else None


def _windows_per_row(query: Query) -> int | None:
    counts = [
        -(-w.range // w.slide) if isinstance(w, TimeWindow | CountWindow) else None for _, w in query.windows
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _chunk(window: Window, monoids: dict[str, Monoid]) -> int | None:
    from windrow.algorithms.chunk import chunk_size_count, chunk_size_time, measure_tu

    if isinstance(window, CountWindow):
        return chunk_size_count(window.range, window.slide)
    if isinstance(window, TimeWindow):
        slowest = max(measure_tu(monoid) for monoid in monoids.values())
        return chunk_size_time(window.range / 1e6, window.slide / 1e6, slowest)
    return None


def _stored(query: Query, slices: int | None) -> str:
    if slices is not None and slices <= 4 * FOLD:
        return "a leaf per 32 keys with all their slices: they are few"
    in_time = all(isinstance(window, TimeWindow) for _, window in query.windows)
    changing = ", and the slices that a late row may change" if query.late == "update" and in_time else ""
    return (
        f"a leaf per 32 keys with the two ends of each run{changing}; the slices between in pages of {FOLD}"
    )


def _pushdown(query: Query, monoids: dict[str, Monoid]) -> str:
    if not all(isinstance(window, TimeWindow) for _, window in query.windows) or query.late == "update":
        return "no: the engine can only pre-aggregate slices of time windows that are not corrected"
    without = [name for name, monoid in monoids.items() if monoid.sql is None]
    if without:
        return f"no: {', '.join(without)} has no SQL form"
    length = pane([window for _, window in query.windows if isinstance(window, TimeWindow)])
    return f"possible: slices of {durations.format(length)} can be made in the engine's SQL"


def _number(value: int | None) -> str:
    return "depends on the data" if value is None else f"{value:,}"


def _size(size: Any) -> str:
    if size is None:
        return "depends on the data"
    for unit in ("B", "KiB", "MiB"):
        if size < 1024 or unit == "MiB":
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError(size)
