"""State in a store: folded runs give the same answer, commits are small, and a damaged store is found out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scenarios import AGGREGATES, SCHEMA, WINDOWS, dominated, feed, query
from unreliable import Prefetching

import windrow as wr
from windrow import errors
from windrow.kernels.slices.layout import UNSET
from windrow.storage import paging
from windrow.storage.pages import HEADER, MemoryPages
from windrow.storage.segments import Segments
from windrow.testing import oracle


def forty(window: Any) -> bool:
    return bool(window.n <= 40)


def _kind(window: Any) -> str:
    return type(window).__name__


LONG = [
    wr.TimeWindow(200, 5),
    wr.TimeWindow(71, 3, 1),
    wr.CountWindow(40, 3),
    [wr.TimeWindow(100, 5), wr.TimeWindow(70, 3, 1)],
    wr.SlideByTuple(200, 3),
    wr.SlideByTuple(90, 25),
    wr.SlideByTime(40, 15),
    wr.SlideByTime(12, 70, 2),
    wr.DeltaWindow("d", 150, 10),
    wr.DeltaWindow("d", 80, 60),
    wr.PolicyWindow(valid=forty),
    wr.PolicyWindow(valid=forty, evict=dominated),
]


class Unreliable(MemoryPages):
    """Fails before it writes anything, when told to."""

    fail = False

    def commit(self, put: Any, delete: Any) -> None:
        if self.fail:
            self.fail = False
            raise errors.StoreError("no route to the store")
        super().commit(put, delete)


class Lifetime(RuleBasedStateMachine):
    """Rows, watermarks, commits, failures and crashes in any order: the output is that of the uninterrupted
    run.

    What an operator emits counts once it is committed; after a crash the source is replayed from the last
    commit, as engines do.
    """

    @initialize(
        window=st.sampled_from([*WINDOWS.values(), *LONG]),
        names=st.lists(st.sampled_from(sorted(AGGREGATES)), min_size=1, max_size=3, unique=True),
        algorithm=st.sampled_from(["auto", "auto", "PBA", "DABALite"]),
        fold=st.sampled_from([2, 3, 32]),
        in_segments=st.booleans(),
        idle=st.sampled_from([None, wr.Idle(0, cohort=1), wr.Idle(15, cohort=4)]),
    )
    def begin(
        self, window: Any, names: list[str], algorithm: str, fold: int, in_segments: bool, idle: Any
    ) -> None:
        self.idle = idle
        self.default, paging.FOLD = paging.FOLD, fold
        self.in_segments = in_segments
        self.query = query(window, names, algorithm=algorithm)
        self.store = Unreliable()
        self.operator = self.opened()
        self.clock = 0
        self.accepted: list[pa.Table] = []
        self.committed: list[pa.Table] = []
        self.log: list[tuple[str, Any]] = []
        self.done = 0

    def opened(self) -> wr.Operator:
        store = Segments(self.store) if self.in_segments else self.store
        return wr.Operator.open(self.query, SCHEMA, store, compiled=False, idle=self.idle)

    def happen(self, kind: str, argument: Any) -> None:
        self.log.append((kind, argument))
        self.outputs = self.apply(self.operator, self.log[-1:])
        self.uncommitted = [*getattr(self, "uncommitted", []), *self.outputs]

    @staticmethod
    def apply(operator: wr.Operator, log: list[tuple[str, Any]]) -> list[pa.Table]:
        return [operator.process(what) if kind == "rows" else operator.advance(what) for kind, what in log]

    @rule(data=st.data(), count=st.integers(1, 40))
    def rows(self, data: st.DataObject, count: int) -> None:
        seed = data.draw(st.integers(0, 2**16))
        random = np.random.default_rng(seed)
        times = np.sort(self.clock + random.integers(0, 60, count))
        table = pa.table(
            {
                "k": random.choice(["a", "b"], count),
                "ts": random.permutation(times) if data.draw(st.booleans()) else times,
                "x": random.integers(-5, 5, count).astype(float),
                "i": random.integers(-5, 5, count),
                "d": np.zeros(count, np.int64),
            }
        ).cast(SCHEMA)
        table = table.set_column(4, SCHEMA.field("d"), table.column("ts"))
        self.accepted.append(table)
        self.happen("rows", table)

    @rule(step=st.integers(0, 80))
    def watermark(self, step: int) -> None:
        self.clock += step
        self.happen("watermark", self.clock)

    @rule()
    def commit(self) -> None:
        self.operator.commit()
        self.settle()

    @rule()
    def commit_fails_once(self) -> None:
        self.store.fail = True
        with pytest.raises(errors.StoreError):
            self.operator.commit()
        self.operator.commit()
        self.settle()

    def settle(self) -> None:
        self.committed += getattr(self, "uncommitted", [])
        self.uncommitted = []
        self.done = len(self.log)

    @rule()
    def crash(self) -> None:
        self.operator = self.opened()
        self.uncommitted = self.apply(self.operator, self.log[self.done :])

    @rule()
    def snapshot(self) -> None:
        blob = self.operator.snapshot()
        assert wr.Operator.restore(self.query, blob, compiled=False).snapshot() == blob

    @precondition(lambda self: hasattr(self, "query"))
    @invariant()
    def wake_is_not_in_the_past(self) -> None:
        assert self.operator.wake is None or self.operator.wake > self.operator.watermark - 10**9

    def teardown(self) -> None:
        if not hasattr(self, "query"):
            return
        self.happen("watermark", 2**62)
        self.operator.commit()
        self.settle()
        paging.FOLD = self.default
        whole = pa.concat_tables([SCHEMA.empty_table(), *self.accepted])
        expected = oracle.evaluate(whole, self.query)
        got = pa.concat_tables([expected.slice(0, 0), *self.committed])
        assert self.query.bind(SCHEMA).sort(got).equals(expected)
        if not isinstance(
            self.query.window,
            wr.CountWindow | wr.DeltaWindow | wr.SlideByTime | wr.PolicyWindow | wr.SlideByTuple,
        ):
            assert set(self.store.held) == {HEADER}, "nothing is left of windows that are over"


TestLifetime = Lifetime.TestCase
TestLifetime.settings = settings(max_examples=80, stateful_step_count=20, deadline=None)


def _filled(slices: int, store: Any) -> tuple[wr.Operator, int]:
    asked = wr.Query(window=wr.TimeWindow(slices * 10, 10), aggregates={"peak": wr.Max("x")})
    operator = wr.Operator.open(asked, pa.schema({"ts": pa.int64(), "x": pa.float64()}), store)
    end = (slices + 64) * 10
    step = 1 << 16
    for begin in range(0, end, step * 10):
        times = np.arange(begin, min(end, begin + step * 10), 10)
        operator.process(pa.table({"ts": times, "x": np.sin(times)}))
        operator.advance(int(times[-1]))
        operator.commit()
    return operator, end


def test_a_commit_writes_what_is_new_not_the_window() -> None:
    """1,000 rows into a window of 2**17 slices: as many bytes as into one of 2**10, give or take a level of
    pages."""
    written = {}
    for slices in (2**10, 2**17):
        store = MemoryPages()
        operator, end = _filled(slices, store)
        reopened = wr.Operator.open(operator.query, pa.schema({"ts": pa.int64(), "x": pa.float64()}), store)
        times = end + 10 * np.arange(1000)
        reopened.process(pa.table({"ts": times, "x": np.sin(times)}))
        reopened.advance(int(times[-1]))
        written[slices] = reopened.commit()
        assert reopened._parts.table.slices.held.sum() < 2000, "most slices are not in memory"
    assert written[2**17] <= 64 * 1024
    assert written[2**17] <= 1.5 * written[2**10]


KINDS = {
    "count": lambda rows: wr.CountWindow(rows, 1),
    "several": lambda rows: [wr.TimeWindow(10 * rows, 10), wr.TimeWindow(5000, 10)],
    "slide by tuple": lambda rows: wr.SlideByTuple(10 * rows, 7),
    "slide by time": lambda rows: wr.SlideByTime(rows, 100),
    "slide by time, seldom": lambda rows: wr.SlideByTime(64, 40 * rows),
    "delta": lambda rows: wr.DeltaWindow("ts", 10 * rows, 50),
}


@pytest.mark.parametrize("late", ["drop", "update"])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_the_window_a_commit_writes_what_is_new(kind: str, late: Any) -> None:
    schema, written = pa.schema({"ts": pa.int64(), "x": pa.float64()}), {}
    for rows in (2**10, 2**14):
        asked = wr.Query(window=KINDS[kind](rows), aggregates={"peak": wr.Max("x")}, late=late, lateness=200)
        store = MemoryPages()
        operator = wr.Operator.open(asked, schema, store)
        for begin in range(0, 10 * (rows + 4000), 10_000):
            times = begin + 10 * np.arange(1000)
            operator.process(pa.table({"ts": times, "x": np.sin(times)}))
            operator.advance(begin + 10_000)
            written[rows] = operator.commit()
            if begin % 50_000 == 0:
                operator = wr.Operator.open(asked, schema, store)
        assert operator._parts.table.slices.held.sum() < 2500, "most slices are not in memory"
    assert written[2**14] <= 64 * 1024
    # Pages between the beginnings of several windows are folded once only.
    assert written[2**14] <= (2.5 if kind == "several" else 1.5) * written[2**10]


def test_a_window_that_was_filled_before_its_watermark_came_is_folded_when_it_comes() -> None:
    """It has as many slices as before, however far it slides, and no commit may write them all."""
    asked = wr.Query("k", window=wr.TimeWindow(600, 1), aggregates={"x": wr.Max("x")})
    schema = pa.schema({"k": pa.int64(), "ts": pa.int64(), "x": pa.float64()})

    def rows(begin: int, end: int) -> pa.Table:
        times = np.repeat(np.arange(begin, end), 2)
        return pa.table([np.tile([1, 2], end - begin), times, times * 7919 % 101 / 8], schema=schema)

    store, found, written, begin = MemoryPages(), [], [], 0
    for _ in range(2):  # the second time after a restart
        operator = wr.Operator.open(asked, schema, store, compiled=False)
        for end in (begin + 600, *range(begin + 610, begin + 800, 10)):
            found.append(operator.advance(begin))  # the watermark is that of the rows before, as on Spark
            found.append(operator.process(rows(begin, end)))
            written.append(operator.commit())
            begin = end
        assert max(written[-17:]) < max(written) / 3, written
    found.append(operator.flush())
    expected = oracle.evaluate(rows(0, begin), asked)
    assert asked.bind(schema).sort(pa.concat_tables(found)).equals(expected)


@pytest.mark.parametrize("window", [w for w in LONG if not isinstance(w, list | wr.TimeWindow)], ids=_kind)
@given(data=st.data())
@settings(max_examples=8, deadline=None)
def test_late_rows_move_windows_over_folded_slices(window: Any, data: st.DataObject) -> None:
    asked = query(window, ["total", "last"], late="update", lateness=data.draw(st.sampled_from([10, 60])))
    random, store = np.random.default_rng(data.draw(st.integers(0, 2**16))), MemoryPages()
    default, paging.FOLD = paging.FOLD, data.draw(st.sampled_from([2, 3]))
    stream: list[tuple[Any, ...]] = []
    there: list[str] = []
    folded = 0
    try:
        operator = wr.Operator.open(asked, SCHEMA, store, compiled=False)
        for begin in range(0, 240, 40):
            times = begin + random.integers(-30, 40, 40)
            columns = {"k": ["a"] * 40, "ts": times, "x": random.random(40), "i": random.integers(-5, 5, 40)}
            stream.append(("rows", pa.table({**columns, "d": times // 2}).cast(SCHEMA)))
            stream.append(("watermark", begin + 30) if begin < 200 else ("flush",))
            for event in stream[-2:]:
                for row in feed(operator, event).to_pylist():
                    emission, shown = row.pop("emission"), repr(row)
                    there.remove(shown) if emission == "withdrawn" else there.append(shown)
            operator.commit()
            folded += any(name[0].isdigit() for name in store.held)
            if data.draw(st.booleans()):
                operator = wr.Operator.open(asked, SCHEMA, store, compiled=False)
    finally:
        paging.FOLD = default
    final, _ = oracle.evaluate_stream(stream, asked)
    assert sorted(there) == sorted(map(repr, final.drop_columns(["emission"]).to_pylist()))
    assert folded


@pytest.mark.parametrize("algorithm", ["auto", "DABALite"])
@pytest.mark.parametrize(
    "window",
    [
        [wr.TimeWindow(5000, 10), wr.TimeWindow(2000, 10)],
        wr.SlideByTuple(4000, 70),
        wr.SlideByTime(300, 700),
        wr.DeltaWindow("d", 1500, 300),
    ],
    ids=["several", "slide by tuple", "slide by time", "delta"],
)
def test_windows_that_come_seldom(window: Any, algorithm: str) -> None:
    """Pages may hold the end of the last window; many rows may come before one that reaches a page."""
    asked = query(window, ["total", "all"], algorithm=algorithm)
    memory, stored = wr.Operator(asked, SCHEMA), wr.Operator.open(asked, SCHEMA, MemoryPages())
    for begin in range(0, 20_000, 1500):
        times = np.arange(begin, begin + 1500, 10)
        columns = {"k": ["a"] * 150, "ts": times, "x": np.sin(times), "i": times % 7, "d": times // 400 * 200}
        rows = pa.table(columns).cast(SCHEMA)
        assert stored.process(rows).equals(memory.process(rows))
        assert stored.advance(begin + 1500).equals(memory.advance(begin + 1500))
        stored.commit()
    assert stored._parts.table.slices.held.sum() < memory._parts.table.slices.held.sum(), "slices were folded"


def test_windows_wait_for_no_page_once_they_slide_evenly() -> None:
    operator, end = _filled(2**14, store := Prefetching())
    for batch in range(5):
        waits = store.waits
        times = end + 10 * np.arange(1000 * batch, 1000 * (batch + 1))
        operator.process(pa.table({"ts": times, "x": np.sin(times)}))
        operator.advance(int(times[-1]))
        assert (waits == store.waits) == (batch > 0)
        operator.commit()
        assert 30 < len(store.coming) < 40


def test_the_pages_that_windows_reach_are_read_together() -> None:
    """At the end of a stream every page is needed. One by one, with the windows between, takes many times as long."""

    class Asked(MemoryPages):
        times = 0

        def get(self, names: Any) -> dict[str, bytes]:
            self.times += 1
            return super().get(names)

    operator, _ = _filled(2**12, store := Asked())
    operator.commit()
    pages, store.times = sum(name[0].isdigit() for name in store.held), 0
    assert operator.flush().num_rows >= 2**12
    assert store.times < 10 < pages


def test_pages_that_time_alone_evicts_are_in_no_leaf() -> None:
    asked = query(wr.SlideByTuple(4000, 1000), ["total"])
    operator = wr.Operator.open(asked, SCHEMA, store := MemoryPages())
    times = np.arange(0, 4000, 10)
    rows = pa.table({"k": ["a"] * 400, "ts": times, "x": np.sin(times), "i": times % 7, "d": times})
    operator.process(rows.cast(SCHEMA))
    for watermark in (4000, 6000):
        operator.advance(watermark)
        operator.commit()
    assert wr.Operator.open(asked, SCHEMA, store).snapshot() == operator.snapshot()


def test_slices_that_were_kept_for_late_rows_leave_the_store_too() -> None:
    """They go when no row can change them any more, long after their last window has come out."""
    asked = query(wr.TimeWindow(10), ["n"], late="update", lateness=20)
    operator = wr.Operator.open(asked, SCHEMA, store := MemoryPages())
    operator.process(pa.table({"k": ["a"], "ts": [1], "x": [1.0], "i": [1], "d": [1]}).cast(SCHEMA))
    for watermark, left in ((15, {HEADER, "leaf.0"}), (100, {HEADER})):
        operator.advance(watermark)
        operator.commit()
        assert set(store.held) == left


def test_state_of_before_goes_on() -> None:
    """Slide-by-time windows were not folded once, and their state did not number windows."""
    operator = wr.Operator(query(wr.SlideByTime(4, 15, 2), ["n"]), SCHEMA)
    rows = {"k": ["a", "b", "a", "c"], "ts": [3, 17, 18, 90], "x": [1.0] * 4, "i": [1] * 4, "d": [1] * 4}
    operator.process(pa.table(rows).cast(SCHEMA))
    operator.advance(40)
    expected = operator.snapshot()
    operator._parts.table.slides.following[:] = UNSET
    assert wr.Operator.restore(operator.query, operator.snapshot()).snapshot() == expected


def test_a_store_that_fails_when_windows_are_due_leaves_no_gap() -> None:
    class Lost(MemoryPages):
        lost = False

        def get(self, names: Any) -> dict[str, bytes]:
            if self.lost:
                raise errors.StoreError("no route to the store")
            return super().get(names)

    operator, _ = _filled(2**10, store := Lost())
    store.lost = True
    with pytest.raises(errors.StoreError, match="no route"):
        operator.flush()
    store.lost = False
    for call in (operator.flush, operator.commit):
        with pytest.raises(
            errors.OperatorBroken, match=r"no route to the store.*open it again from its store"
        ):
            call()
    assert wr.Operator.open(operator.query, pa.schema({"ts": pa.int64(), "x": pa.float64()}), store).flush()


@pytest.mark.parametrize("damage", ["stale leaf", "flipped byte", "lost page", "another query"])
def test_a_damaged_store_is_refused(damage: str) -> None:
    store = MemoryPages()
    operator, end = _filled(2**10, store)
    schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
    asked = operator.query
    old = dict(store.held)
    operator.process(pa.table({"ts": [end + 10], "x": [1.0]}))
    operator.commit()
    if damage == "stale leaf":
        store.held["leaf.0"] = old["leaf.0"]
    elif damage == "flipped byte":
        store.held["leaf.0"] = store.held["leaf.0"][:-9] + b"!" + store.held["leaf.0"][-8:]
    elif damage == "lost page":
        for name in [name for name in store.held if name[0].isdigit()]:
            del store.held[name]
    else:
        asked = wr.Query(window=wr.TimeWindow(20), aggregates={"peak": wr.Max("x")})
    expected = errors.FingerprintMismatch if damage == "another query" else errors.StoreError
    with pytest.raises(expected, match=r"leaf\.0|0\.1|another query"):
        reopened = wr.Operator.open(asked, schema, store)
        reopened.flush()


@given(st.integers(0, 5000))
@settings(max_examples=3, deadline=None)
def test_a_snapshot_of_folded_state_is_whole(seed: int) -> None:
    store = MemoryPages()
    operator, _ = _filled(300 + seed % 100, store)
    restored = wr.Operator.restore(operator.query, operator.snapshot())
    assert restored.flush().equals(operator.flush())


def test_windows_that_late_rows_correct_are_kept_whole() -> None:
    """Slices that may still change are not folded: a store gives the same corrections as memory."""
    asked = wr.Query(
        window=wr.TimeWindow(3000, 10), aggregates={"t": wr.Sum("x")}, late="update", lateness=500
    )
    schema, store = pa.schema({"ts": pa.int64(), "x": pa.int64()}), MemoryPages()
    memory = wr.Operator(asked, schema)
    stored = wr.Operator.open(asked, schema, store)
    for begin in range(0, 4000, 500):
        times = np.append(np.arange(begin, begin + 500, 7), max(begin - 450, 0))
        rows = pa.table({"ts": times, "x": np.arange(len(times))})
        assert stored.process(rows).equals(memory.process(rows))
        assert stored.advance(begin + 500).equals(memory.advance(begin + 500))
        stored.commit()
        stored = wr.Operator.open(asked, schema, store)
    assert stored.flush().equals(memory.flush())
