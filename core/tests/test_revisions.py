"""Search trees of slices, and the time windows that late rows correct with them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow import errors
from windrow.kernels.partials import slots
from windrow.kernels.slices import combine, place, treap
from windrow.kernels.slices.layout import NONE, Partials, Results, Treaps
from windrow.kernels.specialise import specialise
from windrow.storage import paging
from windrow.storage.pages import MemoryPages
from windrow.testing import oracle

KERNELS = specialise(treap, {}, compiled=False)
STACK = np.empty(100, dtype=np.int32)


class Grove:
    """One tree over slots whose stamps are given, with the concatenation of texts as its aggregate."""

    def __init__(self, stamps: list[int]) -> None:
        room = len(stamps)
        nothing = np.full(room, NONE, dtype=np.int32)
        self.slices = SimpleNamespace(
            stamp=np.array(stamps),
            stop=np.array(stamps),
            page=np.zeros(room, np.int64),
            first=np.array([NONE]),
        )
        self.treaps = Treaps(nothing.copy(), nothing.copy(), np.zeros(room, np.uint8), np.array([NONE]))
        self.monoid = wr.Monoid(
            "Text", None, "", str, lambda a, b: a + b, lambda p: p, pa.string(), (pa.int64(),)
        )
        self.kernels = specialise(combine, slots(self.monoid), compiled=False)
        self.parts = (np.array([f"{stamp} " for stamp in stamps], dtype=object),)
        self.below = (np.full(room, "?", dtype=object),)

    def plant(self, chosen: list[int], marked: int = 0) -> int:
        marked += KERNELS.plant(
            self.slices, self.treaps, np.zeros(len(chosen), np.int64), np.array(chosen, np.int64)
        )
        stale = np.empty(marked, dtype=np.int32)
        count = KERNELS.stale_below(self.treaps, np.zeros(1, np.int64), stale, STACK)
        self.kernels.renew(self.parts, self.below, self.treaps, stale, count)
        assert not self.treaps.stale.any()
        return int(count)

    def text(self, start: int, end: int) -> str:
        out, ok = np.empty(1, dtype=object), np.zeros(1, dtype=np.bool_)
        bounds = (np.zeros(1, np.int64), np.array([start]), np.array([end]))
        scratch = (np.empty(1, dtype=object),)
        partials = Partials(self.parts, self.below, (), scratch)
        self.kernels.search(partials, self.treaps, self.slices.stamp, *bounds, Results(out, ok))
        return str(out[0])

    def shape(self) -> list[list[int]]:
        return [self.treaps.left.tolist(), self.treaps.right.tolist(), self.treaps.root.tolist()]


@given(
    st.lists(st.integers(-60, 60), min_size=1, max_size=40, unique=True),
    st.lists(st.tuples(st.sampled_from(["plant", "uproot", "cut"]), st.integers(0, 39), st.integers(1, 6))),
    st.lists(st.tuples(st.integers(-70, 70), st.integers(0, 100)), min_size=1),
)
@settings(max_examples=80, deadline=None)
def test_a_tree_gives_any_range_in_its_order(
    stamps: list[int], steps: list[tuple[str, int, int]], ranges: list[tuple[int, int]]
) -> None:
    grove, held = Grove(stamps), set()
    for step, at, count in [*steps, ("plant", 0, len(stamps))]:
        some = [(at + n) % len(stamps) for n in range(min(count, len(stamps)))]
        if step == "plant":
            held.update(some)
            grove.plant(some)
        elif step == "uproot":
            gone = [slot for slot in some if slot in held]
            held.difference_update(gone)
            marked = KERNELS.uproot(grove.slices, grove.treaps, 0, np.array(gone, np.int64))
            grove.plant([], marked)
        else:
            bound = stamps[at % len(stamps)]
            grove.slices.first[0] = min(held, key=lambda slot: stamps[slot], default=NONE)
            KERNELS.cut(grove.slices, grove.treaps, np.zeros(1, np.int64), bound)
            held = {slot for slot in held if stamps[slot] >= bound}
        least = min((stamps[slot] for slot in held), default=0)
        for start, length in ranges:
            start = max(start, least)  # what was evicted may still be part of the left spine's aggregates
            chosen = sorted(stamps[slot] for slot in held if start <= stamps[slot] < start + length)
            assert grove.text(start, start + length) == "".join(f"{stamp} " for stamp in chosen)


def test_the_shape_of_a_tree_follows_from_its_slices() -> None:
    stamps = list(range(0, 3000, 3))
    random = np.random.default_rng(5)
    in_order, shuffled = Grove(stamps), Grove(stamps)
    for slot in range(1000):
        in_order.plant([slot])
    shuffled.plant(random.permutation(1000).tolist())
    assert in_order.shape() == shuffled.shape()


@pytest.mark.parametrize("step", [1, 2, 1000, 60_000_000, 2**40])
def test_trees_are_not_deep_and_grow_cheaply(step: int) -> None:
    """For any spacing of slices: a depth of O(log n), and O(1) renewed aggregates per slice that comes in order."""
    slices = 2**12
    grove = Grove([step * n - 10**15 for n in range(slices)])
    renewed = sum(grove.plant([slot]) for slot in range(slices))
    assert renewed <= 1.5 * slices
    depths, level = 0, [int(grove.treaps.root[0])]
    while level:
        depths += 1
        children = [child[slot] for slot in level for child in (grove.treaps.left, grove.treaps.right)]
        level = [int(slot) for slot in children if slot != NONE]
    assert depths <= 4 * math.log2(slices)


def test_a_late_row_into_a_million_slices_costs_few_combines() -> None:
    """O(log n) for the row, and for each window that it corrects. The state is made by compiled code; then the same
    code runs interpreted, with a combine that counts."""
    slices, combines = 2**20, 0
    asked = wr.Query(
        window=wr.TimeWindow(slices, 1), aggregates={"m": wr.Max("x")}, late="update", lateness=slices
    )
    operator = wr.Operator(asked, pa.schema({"ts": pa.int64(), "x": pa.float64()}))
    operator.process(pa.table({"ts": np.arange(slices), "x": np.zeros(slices)}))
    operator.advance(slices - 2)
    state = operator._parts.table.aggregates[0]
    combined = state.monoid.combine

    def counting(a: Any, b: Any) -> Any:
        nonlocal combines
        combines += 1
        return combined(a, b)

    seam = slots(replace(state.monoid, combine=counting, inner=None))
    state.place, state.combine = (specialise(module, seam, compiled=False) for module in (place, combine))
    assert operator.process(pa.table({"ts": [slices - 2], "x": [1.0]})).num_rows == 0
    assert 0 < combines <= 4 * 20, "a row that no emitted window holds"
    combines = 0
    corrected = operator.process(pa.table({"ts": [slices - 9], "x": [5.0]}))
    assert corrected.column("m").to_pylist() == [5.0] * 7
    assert corrected.column("emission").unique().to_pylist() == ["update"]
    assert 0 < combines <= 8 * 4 * 20
    assert operator._parts.table.slices.held.sum() == slices


@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_folded_slices_are_corrected_too(data: st.DataObject) -> None:
    """Pages of slices that take no more rows, in windows that late rows still correct; with restarts in between."""
    names = data.draw(st.sampled_from([["t"], ["t", "m"], ["l"]]))
    aggregates = {"t": wr.Sum("x"), "m": wr.Max("x"), "l": wr.Last("x")}
    windows = [wr.TimeWindow(150, 1), wr.TimeWindow(90, 4, 1), [wr.TimeWindow(100, 5), wr.TimeWindow(20, 2)]]
    asked = wr.Query(
        by="k",
        window=data.draw(st.sampled_from(windows)),
        aggregates={name: aggregates[name] for name in names},
        late="update",
        lateness=data.draw(st.sampled_from([0, 10, 40])),
    )
    schema, store = pa.schema({"k": pa.int64(), "ts": pa.int64(), "x": pa.int64()}), MemoryPages()
    random = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    default, paging.FOLD = paging.FOLD, data.draw(st.sampled_from([2, 3, 5]))
    try:
        operator, last, stream, folded = wr.Operator.open(asked, schema, store), {}, [], 0
        for begin in range(0, 400, 40):
            times = begin + random.integers(-50, 40, 60)
            rows = {"k": random.integers(0, 2, 60), "ts": times, "x": random.integers(-9, 9, 60)}
            stream += [("rows", pa.table(rows, schema=schema)), ("watermark", begin + 30)]
            if begin == 360:
                stream.append(("flush",))
            for event in stream[-3 if begin == 360 else -2 :]:
                kind, *argument = event
                found = (
                    operator.flush()
                    if kind == "flush"
                    else (operator.process(*argument) if kind == "rows" else operator.advance(*argument))
                )
                for row in found.to_pylist():
                    window = tuple(value for name, value in row.items() if name not in (*names, "emission"))
                    assert (window in last) <= (row["emission"] == "update")
                    last[window] = [row[name] for name in names]
            operator.commit()
            folded += any(name[0].isdigit() for name in store.held)
            if data.draw(st.booleans()):
                operator = wr.Operator.open(asked, schema, store)
    finally:
        paging.FOLD = default
    final, late = oracle.evaluate_stream(stream, asked)
    assert folded
    assert operator.late_rows == late.num_rows
    assert last == {
        tuple(value for name, value in row.items() if name not in (*names, "emission")): [
            row[n] for n in names
        ]
        for row in final.to_pylist()
    }


def test_a_commit_writes_what_is_new_not_the_window() -> None:
    written = {}
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
    for slices in (2**10, 2**16):
        asked = wr.Query(
            window=wr.TimeWindow(slices * 10, 10), aggregates={"m": wr.Max("x")}, late="update", lateness=200
        )
        operator, store = wr.Operator.open(asked, schema, store := MemoryPages()), store
        for begin in range(0, slices * 10 + 40_000, 10_000):
            times = begin + 10 * np.arange(1000)
            late = np.array([max(begin - 150, 0)])
            operator.process(pa.table({"ts": np.append(times, late), "x": np.sin(np.append(times, late))}))
            operator.advance(begin + 10_000)
            written[slices] = operator.commit()
            if begin % 70_000 == 0:
                operator = wr.Operator.open(asked, schema, store)
        assert operator._parts.table.slices.held.sum() < 2500, "most slices are not in memory"
    assert written[2**16] <= 64 * 1024
    assert written[2**16] <= 1.5 * written[2**10]


def test_ready_made_partials_correct_windows() -> None:
    asked = wr.Query(
        window=wr.TimeWindow(10, 5),
        aggregates={"m": wr.Max("x"), "n": wr.Count()},
        late="update",
        lateness=10,
    )
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
    operator = wr.Operator(asked, schema)
    monoids = asked.bind(schema).monoids

    def partials(start: int, **values: tuple[Any, ...]) -> dict[str, list[Any]]:
        fields = {
            f"{name}.{field.name}": [value]
            for name, partial in values.items()
            for field, value in zip(monoids[name].fields or (), partial, strict=True)
        }
        return {"ts": [start], **fields}

    assert operator.process_partials(partials(0, m=monoids["m"].lift(3.0), n=(2,))).num_rows == 0
    assert operator.advance(10).column("n").to_pylist() == [2, 2]
    corrected = operator.process_partials(partials(5, m=monoids["m"].lift(4.0), n=(1,)))
    assert corrected.select(["window_end", "m", "n", "emission"]).to_pylist() == [
        {"window_end": 10, "m": 4.0, "n": 3, "emission": "update"}
    ]
    assert operator.flush().column("n").to_pylist() == [1]
    ordered = wr.Operator(replace(asked, aggregates={"l": wr.Last("x")}), schema)
    with pytest.raises(errors.QueryError, match="needs commutative aggregates"):
        ordered.process_partials({"ts": [0]})
