# SPDX-License-Identifier: Apache-2.0
"""How a query will be computed: the algorithm and why, its cost, and the state that it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow import durations
from windrow.aggregates.algebra import Monoid
from windrow.kernels.slices.layout import FOLD
from windrow.query.approximation import described
from windrow.query.bound import from_partials
from windrow.query.drawing import Drawing, draw, html_table, text_table
from windrow.query.query import Query
from windrow.query.slicing import ENGINES, panes, time_windows, why_not_pushed_down
from windrow.windows import CountWindow, PolicyWindow, SessionWindow, TimeWindow, Window

CONTEXTS = {
    "FCF": "a row's windows are known when it arrives",
    "FCA": "a row's windows depend on later rows",
}
"""What forward context free and forward context aware mean. All windows of a query are of one kind."""
SLICE = 40  # stamp, stop, page, and two links of four bytes each, per slice


@dataclass(frozen=True)
class Explanation:
    """How a query is computed. ``str()`` is for people; the fields are for programs.

    ``slices`` is how many slices a full window spans (``None`` if that depends on the data). ``combines`` is the
    worst amortised number of combines per slide and aggregate. ``chunk`` is the number of slices in a chunk, for
    an algorithm that works in chunks of one size. It is ``None`` otherwise: the operator's own boundary
    aggregator moves its boundary to the end of the window, wherever that is.
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
    push_down: str
    windows_per_row: int | None
    model: str
    """Who computes windows: "active" workers, which combine partials, or "agnostic" ones, which get all rows."""
    whole: str
    """What is computed from all rows of a window, and what that costs; empty if nothing is."""
    idle: str
    """Whether keys that fall silent can be frozen, or why they stay hot."""

    approximate: str = ""
    """How slices are merged, how many leaves are expected, and what that saves; empty if results are exact."""

    def draw(self, windows: int = 6) -> Drawing:
        """A picture of the first few windows and the slices that they share; as :meth:`windrow.Query.plot`."""
        return draw(self.query, windows)

    def __str__(self) -> str:
        return text_table(self.lines)

    def _repr_html_(self) -> str:
        return html_table(self.lines)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """What it says, as names and texts."""
        windows = self.query.windows
        return [
            ("window", f"{', '.join(label for label, _ in windows)} ({CONTEXTS[windows[0][1].context]})"),
            ("due when", windows[0][1].trigger),
            ("algorithm", f"{self.algorithm}: {self.why}"),
            ("combines per slide", self.combines),
            *([] if self.chunk is None else [("chunk size", f"{self.chunk:,} slices")]),
            ("slices per window", _number(self.slices)),
            ("windows per row", _number(self.windows_per_row)),
            *([("whole windows", self.whole)] if self.whole else []),
            *([("approximate", self.approximate)] if self.approximate else []),
            ("partials", ", ".join(f"{name} {_size(size)}" for name, size in self.partial_bytes.items())),
            ("state per key", _size(self.state_bytes)),
            ("in a store", self.stored),
            ("idle keys", self.idle),
            ("push-down", self.push_down),
        ]

    @property
    def pushdown(self) -> str:
        """Another spelling of ``push_down``."""
        return self.push_down


def explain(query: Query, schema: pa.Schema | None = None) -> Explanation:
    """How a query is computed, and why so. Without the schema of the data, inputs are taken to be float64.

    >>> import windrow as wr
    >>> plan = wr.explain(wr.Query(window=wr.TimeWindow("1h", "1s"), aggregates={"peak": wr.Max("load")}))
    >>> plan.algorithm, plan.slices, plan.windows_per_row
    ('SBA', 3600, 3600)
    """
    monoids = _monoids(query, schema)
    slices = [_slices(window) for _, window in query.windows]
    known = None if None in slices else max(count for count in slices if count is not None)
    sizes = {name: monoid.width if monoid.typed else None for name, monoid in monoids.items()}
    state = None
    if known is not None and None not in sizes.values():
        # A slice holds its partial and, for each window, its lcs.
        partials = sum(size for size in sizes.values() if size is not None)
        state = known * (SLICE + partials * (1 + len(slices)))
    algorithm, why, combines = _algorithm(query, monoids)
    whole = _whole(query, schema)
    return Explanation(
        query=query,
        algorithm=algorithm,
        why=why,
        chunk=_chunk(query, monoids),
        combines=combines,
        slices=known,
        partial_bytes=sizes,
        state_bytes=state,
        stored=_stored(query, known),
        push_down=_push_down(query, monoids),
        windows_per_row=_windows_per_row(query),
        model="agnostic" if whole else "active",
        whole=whole,
        idle=f"stay hot: {why}" if (why := why_hot(query)) else "frozen, if idle= is given",
        approximate=described(query, known),
    )


def _monoids(query: Query, schema: pa.Schema | None) -> dict[str, Monoid]:
    if schema is None:
        return {name: aggregate.bind() for name, aggregate in query.aggregates.items()}
    return dict(query.bind(schema).monoids)


def _algorithm(query: Query, monoids: dict[str, Monoid]) -> tuple[str, str, str]:
    if query.late == "update" and time_windows(query):
        return (
            "Treap",
            "late rows change slices in the middle of windows",
            "O(log n), for a window as for a late row",
        )
    if query.late == "update":
        return (
            "SBA",
            "constant time for any aggregate and any range; "
            "a late row may move windows, so the windows of its key are computed again",
            "fewer than 3, amortised; for a late row as many as its key has slices",
        )
    if query.algorithm != "auto":
        return query.algorithm, "the query names it", "see its documentation"
    order = (
        ""
        if all(m.commutative for m in monoids.values())
        else "; rows wait for the watermark, because order matters"
    )
    kind = type(query.windows[0][1])
    if kind is SessionWindow:
        return "SBA", f"a session is one slice, so there is nothing to slide{order}", "1"
    if kind is PolicyWindow:
        return (
            "AMTA",
            f"the search for rows to evict uses the nodes of a tree{order}",
            "O(log n), also to evict many rows",
        )
    shared = " over slices shared by all windows" if len(query.windows) > 1 else ""
    return "SBA", f"constant time for any aggregate and any range{shared}{order}", "fewer than 3, amortised"


def _whole(query: Query, schema: pa.Schema | None) -> str:
    """What agnostic workers do: De Matteis and Mencagli (2017) count copies of a row, visits of it, and workers."""
    types = {} if schema is None else {field.name: field.type for field in schema}
    found = {}
    for name, aggregate in query.aggregates.items():
        inputs = [types.get(column, pa.float64()) for column in aggregate.columns]
        if from_partials(query, aggregate.bind(inputs)):
            continue
        whole = aggregate.whole(inputs, compiled=False)
        if whole is not None:
            found[name] = whole.carries
    if not found:
        return ""
    visits = (
        "2, when it enters and when it leaves" if all(found.values()) else _number(_windows_per_row(query))
    )
    return (
        f"{', '.join(found)} from rows that are kept once, in order; visits per row: {visits}; "
        "workers needed: the time to compute one window, divided by the time between two windows"
    )


def _slices(window: Window) -> int | None:
    if isinstance(window, TimeWindow | CountWindow):
        whole, rest = divmod(window.range, window.slide)
        return max(whole if not rest else 2 * whole + 1, 1)
    return 1 if isinstance(window, SessionWindow) else None


def why_hot(query: Query) -> str:
    """Why no key of this query is ever frozen; empty if ``idle=`` freezes keys.

    >>> import windrow as wr
    >>> query = wr.Query(by="plug", window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()}, early="1m")
    >>> why_hot(query)
    'early results read every window of every key'
    """
    if not query.by:
        return "there is one key"
    if query.early is not None:
        return "early results read every window of every key"
    if query.within is not None:
        return "within= keeps the leaves of every key few"
    if isinstance(query.windows[0][1], PolicyWindow):
        return "a policy window keeps a structure of its own for every key"
    if query.algorithm not in ("auto", "PBA"):
        return f"{query.algorithm} keeps a structure of its own for every key"
    if query.late == "update" and not time_windows(query):
        return "a late row computes the windows of its key again from all slices"
    return ""


def _windows_per_row(query: Query) -> int | None:
    counts = [
        -(-w.range // w.slide) if isinstance(w, TimeWindow | CountWindow) else None for _, w in query.windows
    ]
    return None if None in counts else sum(count for count in counts if count is not None)


def _chunk(query: Query, monoids: dict[str, Monoid]) -> int | None:
    """The chunk size of a named SBA. No other algorithm of the operator has chunks of one size, not even PBA."""
    if query.algorithm != "SBA" or query.late == "update":
        return None
    from windrow.algorithms.sba import SBA

    return max(SBA(monoid, compiled=False).chunk for monoid in monoids.values())


def _stored(query: Query, slices: int | None) -> str:
    if query.within is not None:
        return "one leaf per 32 keys with all of their slices, because buckets are few"
    if slices is not None and slices <= 4 * FOLD:
        return "one leaf per 32 keys with all of their slices, because a window has few"
    corrected = query.late == "update" and time_windows(query)
    changing = ", and the slices that a late row may change" if corrected else ""
    return (
        f"one leaf per 32 keys with their oldest and newest slices{changing}; the others in pages of {FOLD}"
    )


def _push_down(query: Query, monoids: dict[str, Monoid]) -> str:
    engines = [name for engine, name in ENGINES.items() if not why_not_pushed_down(query, monoids, engine)]
    if not engines:
        return f"no: {why_not_pushed_down(query, monoids) or why_not_pushed_down(query, monoids, 'spark')}"
    where = "" if len(engines) == len(ENGINES) else f" on {engines[0]}"
    length = durations.format(panes(time_windows(query)).length)
    return f"possible{where}: slices of {length} can be computed in the engine's SQL"


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
