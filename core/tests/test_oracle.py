"""The oracle against answers worked out by hand, and its windows against the windows' own extents."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.aggregates import Count, Max, Min
from windrow.errors import DeltaOrderError, TimeColumnError
from windrow.query.query import Query
from windrow.testing import oracle
from windrow.testing.oracle import evaluate, evaluate_stream
from windrow.windows import (
    KINDS,
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)


def ask(window, **changes):
    return Query(
        **{"window": window, "aggregates": {"low": Min("x"), "high": Max("x"), "n": Count()}, **changes}
    )


def rows(*pairs):
    times, values = [time for time, _ in pairs], [x for _, x in pairs]
    return pa.table({"ts": pa.array(times, pa.int64()), "x": pa.array(values, pa.int64())})


def answer(table):
    """Each window as a tuple: start, end, low, high, n."""
    return [tuple(row.values()) for row in table.to_pylist()]


# By hand: one case per kind of window.


def test_count_windows():
    """The worked example of the PBA paper: max over W[10, 2]."""
    values = [5, 4, 6, 3, 0, 0, 1, 0, 2, 3, 1, 2, 7, 5, 3, 4, 9, 5, 4, 8]
    data = rows(*enumerate(values))
    found = evaluate(data, Query(window=CountWindow(10, 2), aggregates={"max": Max("x")}))
    assert answer(found) == [(0, 10, 6), (2, 12, 6), (4, 14, 7), (6, 16, 7), (8, 18, 9), (10, 20, 9)]


def test_count_windows_that_are_incomplete_are_never_emitted():
    data = rows((0, 1), (0, 2), (1, 3), (5, 4), (5, 5))
    assert answer(evaluate(data, ask(CountWindow(2)))) == [(0, 2, 1, 2, 2), (2, 4, 3, 4, 2)]
    assert answer(evaluate(data, ask(CountWindow(2, 3)))) == [(0, 2, 1, 2, 2), (3, 5, 4, 5, 2)]  # a gap
    assert answer(evaluate(data, ask(CountWindow(6)))) == []


def test_time_windows():
    #  time  -5 -4 -3 -2 -1  0  1  2  3  4  5  6  7
    #  row             ×     ×        ×  ×
    #  k=-3   ├───────────┤
    #  k=-2         ├───────────┤
    #  k=-1               ├───────────┤
    #  k=0                      ├───────────┤
    #  k=1                            ├───────────┤
    data = rows((4, 30), (-2, 10), (0, 20), (3, 40))
    assert answer(evaluate(data, ask(TimeWindow(4, 2, offset=1)))) == [
        (-5, -1, 10, 10, 1),
        (-3, 1, 10, 20, 2),
        (-1, 3, 20, 20, 1),
        (1, 5, 30, 40, 2),
        (3, 7, 30, 40, 2),
    ]
    assert answer(evaluate(data, ask(TimeWindow(5)))) == [(-5, 0, 10, 10, 1), (0, 5, 20, 40, 3)]


def test_time_windows_with_gaps_and_far_apart():
    data = rows((0, 1), (2, 2), (10**15, 3))
    assert answer(evaluate(data, ask(TimeWindow(2, 5)))) == [(0, 2, 1, 1, 1), (10**15, 10**15 + 2, 3, 3, 1)]


def test_session_windows():
    data = rows((0, 1), (5, 2), (10, 3), (16, 4), (16, 5))  # 5 apart is close enough, 6 is not
    assert answer(evaluate(data, ask(SessionWindow(5)))) == [(0, 15, 1, 3, 3), (16, 21, 4, 5, 2)]


def test_slide_by_tuple_windows():
    """A row that is too old when the next trigger comes is in no window; the one after it is in."""
    #  time    0  1  2  3  4  5  6  7  8  9 10 11 12 13
    #  row     ×              i           j  r     ×  × × × ×
    #  w=0                       (───────────]
    #  w=1                                (───────────]
    data = rows((0, 1), (5, 2), (9, 3), (10, 4), (12, 5), (13, 6), (13, 7), (13, 8), (13, 9))
    assert answer(evaluate(data, ask(SlideByTuple(4, 4)))) == [
        (6, 10, 3, 4, 2),
        (9, 13, 4, 9, 6),  # all rows of time 13, also the one that comes after the trigger
    ]


def test_slide_by_time_windows():
    data = rows((1, 1), (2, 2), (3, 3), (25, 4), (30, 5))  # no row in [10, 20): no window ends at 20
    assert answer(evaluate(data, ask(SlideByTime(2, 10)))) == [
        (2, 10, 2, 3, 2),
        (3, 30, 3, 4, 2),
        (25, 40, 4, 5, 2),
    ]
    assert answer(evaluate(data, ask(SlideByTime(9, 10, offset=5)))) == [
        (1, 5, 1, 3, 3),
        (1, 35, 1, 5, 5),
    ]


def test_delta_windows():
    data = pa.table({"ts": range(6), "x": range(6), "km": [0.0, 3.0, 5.0, 9.0, 10.0, 17.5]})
    found = evaluate(data, ask(DeltaWindow("km", range=10, slide=4)))
    assert found.schema.field("window_end").type == pa.float64()
    # Triggered by km 0 (nothing before it), 5, 10 and 17.5; the trigger is not part of its window.
    assert answer(found) == [(-5.0, 5.0, 0, 1, 2), (0.0, 10.0, 0, 3, 4), (7.5, 17.5, 3, 4, 2)]


def test_delta_windows_over_timestamps():
    at = pa.array([0, 3, 6], pa.timestamp("ms"))
    found = evaluate(
        pa.table({"ts": range(3), "x": range(3), "at": at}), ask(DeltaWindow("at", "4ms", "2ms"))
    )
    assert found.schema.field("window_end").type == pa.timestamp("us")
    ends = found.column("window_end").cast(pa.int64()).to_pylist()
    assert list(zip(ends, found.column("n").to_pylist(), strict=True)) == [(3000, 1), (6000, 1)]


def test_a_delta_attribute_must_not_fall():
    data = pa.table({"ts": [0, 1], "x": [2, 1]})
    with pytest.raises(DeltaOrderError, match=r"attribute 'x' of DeltaWindow fell from 2 to 1"):
        evaluate(data, ask(DeltaWindow("x", 1)))
    assert evaluate(data, ask(DeltaWindow("x", 1), by="x")).num_rows == 0  # each key has its own order


def test_policy_windows():
    """At most 3 rows, and none that is older than the largest."""
    policy = PolicyWindow(
        valid=lambda window: window.n <= 3,
        evict=lambda candidate, after, before: candidate.high <= after.high,
    )
    data = rows((0, 5), (1, 4), (2, 3), (3, 2), (4, 6), (5, 1))
    assert answer(evaluate(data, ask(policy))) == [
        (0, 0, 5, 5, 1),
        (0, 1, 4, 5, 2),
        (0, 2, 3, 5, 3),
        (1, 3, 2, 4, 3),  # 5 left because of the count
        (4, 4, 6, 6, 1),  # everything older than the new largest left
        (4, 5, 1, 6, 2),
    ]


def test_policy_windows_keep_the_newest_row():
    data = rows((0, 1), (1, 2))
    newest = [(0, 0, 1, 1, 1), (1, 1, 2, 2, 1)]
    assert answer(evaluate(data, ask(PolicyWindow(valid=lambda window: False)))) == newest
    assert answer(evaluate(data, ask(PolicyWindow(evict=lambda candidate, after, before: True)))) == newest


def test_policies_see_the_candidate_grow():
    """Valid evicts first; the candidate of evict is all that would go, and `before` the window as it was."""
    seen = []

    def evict(candidate, after, before):
        if before.high == 9:
            seen.append((candidate.n, after.n, before.n))
        return before.high == 9 and candidate.n < 3

    policy = PolicyWindow(valid=lambda window: window.low > 1 or window.high < 9, evict=evict)
    data = rows((0, 1), (1, 5), (2, 6), (3, 7), (4, 9))
    assert answer(evaluate(data, ask(policy)))[-2:] == [(0, 3, 1, 7, 4), (2, 4, 6, 9, 3)]
    assert seen == [(2, 3, 5), (3, 2, 5)]


# Rows, keys and results.


def test_rows_are_ordered_by_time_then_arrival():
    data = rows((5, 1), (0, 2), (5, 3), (0, 4))  # in order: 2 4 1 3
    found = evaluate(data, ask(CountWindow(2)))
    assert answer(found) == [(0, 2, 2, 4, 2), (2, 4, 1, 3, 2)]


def test_keys_have_their_own_windows_and_sort_nulls_first():
    data = pa.table(
        {
            "ts": [0, 1, 2, 3, 4, 5],
            "x": [1, 2, 3, 4, 5, 6],
            "k": [2.0, float("nan"), None, 2.0, float("nan"), None],
            "g": ["b", "a", "a", "a", "a", "a"],
        }
    )
    found = evaluate(data, ask(TimeWindow(3), by=["k", "g"])).select(["k", "g", "window_end", "low", "n"])
    assert [tuple(map(str, row)) for row in answer(found)] == [
        ("None", "a", "3", "3", "1"),
        ("2.0", "b", "3", "1", "1"),
        ("nan", "a", "3", "2", "1"),
        ("None", "a", "6", "6", "1"),
        ("2.0", "a", "6", "4", "1"),
        ("nan", "a", "6", "5", "1"),
    ]
    both = evaluate(data, ask(TimeWindow(6), by="k")).column("n").to_pylist()
    assert both == [2, 2, 2]  # all NaN are one key


def test_nulls_are_ignored_and_all_nulls_are_null():
    data = rows((0, None), (1, 7), (10, None))
    assert answer(evaluate(data, ask(TimeWindow(10)))) == [(0, 10, 7, 7, 2), (10, 20, None, None, 1)]


def test_several_windows_are_told_apart_and_sorted_by_end_then_start():
    windows = {"twenty": TimeWindow(20), "ten": TimeWindow(10), "five": TimeWindow(5)}
    assert answer(evaluate(rows((0, 1), (7, 2)), ask(windows, aggregates={"n": Count()}))) == [
        ("five", 0, 5, 1),
        ("ten", 0, 10, 2),
        ("five", 5, 10, 1),
        ("twenty", 0, 20, 2),
    ]


def test_timestamps_keep_their_zone_and_answers_their_schema():
    data = pa.table({"ts": pa.array([0, 1500], pa.timestamp("ms", "Europe/Rome")), "x": [1, 2]})
    asked = ask(TimeWindow("1s"), by="x", early="1s")
    found = evaluate(data, asked)
    assert found.schema == asked.bind(data.schema).output_schema
    assert found.column("window_start").cast(pa.int64()).to_pylist() == [0, 1_000_000]
    assert found.column("emission").to_pylist() == ["final", "final"]
    assert evaluate(data.slice(0, 0), asked).schema == found.schema


def test_a_row_without_a_time_is_an_error():
    with pytest.raises(TimeColumnError, match="'ts' has at least 1 null"):
        evaluate(pa.table({"ts": pa.array([1, None]), "x": [1, 2]}), ask(TimeWindow(5)))


# Streams.


def test_late_rows_are_those_before_the_watermark_at_their_arrival():
    events = [
        ("rows", rows((1, 1), (12, 2))),
        ("watermark", 10),
        ("watermark", 3),  # watermarks do not go back
        ("rows", rows((9, 3), (10, 4), (25, 5))),  # 9 is late, 10 is not
    ]
    found, late = evaluate_stream(events, ask(TimeWindow(10)))
    assert answer(found) == [(0, 10, 1, 1, 1)]
    assert answer(late) == [(9, 3)]
    found, late = evaluate_stream([*events, ("flush",), ("rows", rows((99, 6)))], ask(TimeWindow(10)))
    assert answer(found) == [(0, 10, 1, 1, 1), (10, 20, 2, 4, 2), (20, 30, 5, 5, 1)]
    assert answer(late) == [(9, 3), (99, 6)]


def test_lateness_holds_windows_back_unless_they_are_updated():
    events = [("rows", rows((1, 1))), ("watermark", 12), ("rows", rows((9, 3), (8, 4)))]
    held = ask(TimeWindow(10), lateness=3)
    assert [answer(table) for table in evaluate_stream(events, held)] == [[], [(8, 4)]]
    assert [answer(table) for table in evaluate_stream([*events, ("watermark", 13)], held)] == [
        [(0, 10, 1, 3, 2)],
        [(8, 4)],
    ]
    updated = ask(TimeWindow(10), lateness=3, late="update")
    assert [answer(table) for table in evaluate_stream(events, updated)] == [
        [(0, 10, 1, 3, 2, "final")],
        [(8, 4)],
    ]


@pytest.mark.parametrize(
    ("window", "watermark"),
    [
        (TimeWindow(10), 10),  # window_end
        (CountWindow(2), 5),  # after the time of the last row
        (SessionWindow(3), 8),  # after window_end
        (SlideByTuple(9, 2), 5),  # after window_end
        (SlideByTime(2, 10), 10),  # window_end
        (DeltaWindow("x", 6, 5), 5),  # after the time of the trigger
        (PolicyWindow(valid=lambda window: window.n == 1), 5),  # after the time of the row
    ],
)
def test_when_windows_are_final(window, watermark):
    """Rows at 2 and 4: the last window is not there just before the watermark, and is there at it."""
    events = [("rows", rows((2, 1), (4, 7)))]
    everything = evaluate(events[0][1], ask(window)).num_rows
    before, _ = evaluate_stream([*events, ("watermark", watermark - 1)], ask(window))
    after, _ = evaluate_stream([*events, ("watermark", watermark)], ask(window))
    assert (before.num_rows, after.num_rows) == (everything - 1, everything)


def test_events_that_are_none():
    with pytest.raises(ValueError, match="no event 'wait'"):
        evaluate_stream([("wait",)], ask(TimeWindow(10)))
    with pytest.raises(ValueError, match="no event has rows"):
        evaluate_stream([("flush",)], ask(TimeWindow(10)))


# The oracle's windows are those of the specifications, which find them in another way.

sizes = st.integers(1, 9)
ordered = st.lists(st.integers(-20, 20), max_size=25).map(sorted)


def found(window, times, deltas=()):
    stream = oracle.KeyRows(origin=[], times=times, deltas=list(deltas), result=lambda positions: None)
    return [each for each in oracle.KINDS[type(window)](window, stream) if each.rows]


@settings(deadline=None)
@given(ordered, sizes, sizes, st.integers(-9, 9))
def test_time_extents(times, W, S, offset):
    window = TimeWindow(W, S, offset)
    ids = sorted({k for time in times for k in window.mapping(time)})
    assert [(each.start, each.end) for each in found(window, times)] == [window.bounds(k) for k in ids]
    assert [each.rows for each in found(window, times)] == [
        [i for i, time in enumerate(times) if time in window.extent(k)] for k in ids
    ]


@settings(deadline=None)
@given(ordered, sizes, sizes)
def test_count_extents(times, W, S):
    window = CountWindow(W, S)
    complete = [w for w in range(len(times)) if window.extent(w).stop <= len(times)]
    assert [each.rows for each in found(window, times)] == [list(window.extent(w)) for w in complete]


@settings(deadline=None)
@given(ordered, sizes)
def test_session_extents(times, gap):
    window = SessionWindow(gap)
    ids = sorted({w for i in range(len(times)) for w in window.mapping(i, times)})
    assert [each.rows for each in found(window, times)] == [list(window.extent(w, times)) for w in ids]


@settings(deadline=None)
@given(ordered, sizes, sizes)
def test_slide_by_tuple_extents(times, W, S):
    window = SlideByTuple(W, S)
    assert [each.rows for each in found(window, times)] == [
        list(window.extent(w, times)) for w in range(len(times) // S)
    ]


@settings(deadline=None)
@given(ordered, sizes, sizes, st.integers(-9, 9))
def test_slide_by_time_extents(times, W, S, offset):
    window = SlideByTime(W, S, offset)
    triggered = [k for k in range(-40, 41) if window.extent(k, times)]
    assert [each.rows for each in found(window, times)] == [list(window.extent(k, times)) for k in triggered]


@settings(deadline=None)
@given(ordered, sizes, sizes)
def test_delta_extents(deltas, W, S):
    window = DeltaWindow("x", W, S)
    extents = [list(window.extent(w, deltas)) for w in range(len(window.triggers(deltas)))]
    assert [each.rows for each in found(window, deltas, deltas)] == [extent for extent in extents if extent]


def test_every_kind_of_window_has_its_definition():
    assert set(oracle.KINDS) == set(KINDS.values())


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(-20, 20), st.one_of(st.none(), st.integers(-5, 5))), max_size=15),
    st.lists(st.integers(-25, 40), max_size=4),
    sizes,
    sizes,
    st.integers(0, 10),
)
def test_a_stream_with_nothing_late_ends_like_the_batch(pairs, watermarks, W, S, lateness):
    data = rows(*pairs)
    asked = ask(TimeWindow(W, S), lateness=lateness)
    events = [("rows", data), *[("watermark", each) for each in watermarks], ("flush",)]
    windows, late = evaluate_stream(events, asked)
    assert windows == evaluate(data, asked)
    assert late.num_rows == 0
