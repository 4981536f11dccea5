"""Equations (1)-(8) of the window semantics against brute force, and what a window refuses."""

import math
import pickle
from datetime import timedelta
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.errors import ColumnError, DurationError, NoMapping, WindowError
from windrow.testing import oracle
from windrow.windows import (
    KINDS,
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
    Window,
)
from windrow.windows.grid import Grid

sizes = st.integers(1, 12)
moments = st.integers(-60, 60)
ordered = st.lists(st.integers(-30, 30), max_size=40).map(sorted)  # bursts and ties are likely
increasing = st.sets(st.integers(-100, 100), max_size=40).map(sorted)


# Count windows.


@given(sizes, sizes, st.integers(0, 15))
def test_equation_1(W, S, w):
    stream = range(300)
    assert set(CountWindow(W, S).extent(w)) == {i for i in stream if w * S <= i < W + w * S}


@given(sizes, sizes, st.integers(0, 60))
def test_equations_5_and_6(W, S, i):
    first = 0 if i < W else math.ceil(Fraction(i - W + 1, S))
    last = 0 if i < S else math.floor(Fraction(i, S))
    assert CountWindow(W, S).mapping(i) == range(first, last + 1)


@given(sizes, sizes, st.integers(0, 60))
def test_count_mapping_inverts_extent(W, S, i):
    window = CountWindow(W, S)
    assert set(window.mapping(i)) == {w for w in range(i + 1) if i in window.extent(w)}


def test_count_has_neither_negative_windows_nor_negative_rows():
    with pytest.raises(WindowError, match="no window -1"):
        CountWindow(3).extent(-1)
    with pytest.raises(WindowError, match="no row -1"):
        CountWindow(3).mapping(-1)


# Time windows.


@given(sizes, sizes, st.integers(-20, 20), st.integers(-30, 30))
def test_equation_2(W, S, offset, w):
    stream = range(-500, 500)
    extent = {t for t in stream if w * S + offset <= t < W + w * S + offset}
    assert set(TimeWindow(W, S, offset).extent(w)) == extent


@given(sizes, sizes, st.integers(-20, 20), moments)
def test_time_mapping_inverts_extent(W, S, offset, t):
    window = TimeWindow(W, S, offset)
    assert set(window.mapping(t)) == {k for k in range(-100, 101) if t in window.extent(k)}


@given(sizes, sizes, st.integers(-20, 20), st.lists(moments))
def test_time_helpers_take_arrays(W, S, offset, times):
    window = TimeWindow(W, S, offset)
    array = np.array(times, dtype=np.int64)
    first, last = window.first_window(array), window.last_window(array)
    assert first.dtype == last.dtype == np.int64
    assert [range(f, n + 1) for f, n in zip(first.tolist(), last.tolist(), strict=True)] == [
        window.mapping(t) for t in times
    ]
    start, end = window.bounds(last)
    assert list(zip(start.tolist(), end.tolist(), strict=True)) == [window.bounds(k) for k in last.tolist()]


@given(st.lists(st.tuples(sizes, sizes, st.integers(-20, 20)), min_size=1, max_size=4), moments)
def test_a_grid_is_its_windows_side_by_side(parameters, time):
    windows = [TimeWindow(*each) for each in parameters]
    grid = Grid.of(windows)
    first, last = grid.first_window(time), grid.last_window(time)
    assert all(array.dtype == np.int64 for array in (*grid, first, last, grid.start(last), grid.end(last)))
    for at, window in enumerate(windows):
        assert range(first[at], last[at] + 1) == window.mapping(time)
        assert (grid.start(last)[at], grid.end(last)[at]) == window.bounds(last[at])
    column = np.array([[time], [time + 1]])
    assert grid.first_window(column).tolist() == [first.tolist(), grid.first_window(time + 1).tolist()]


def test_a_grid_of_count_windows_starts_at_the_first_row():
    grid = Grid.of([CountWindow(4, 3), CountWindow(5)])
    assert (grid.start(1).tolist(), grid.end(1).tolist()) == ([3, 5], [7, 10])
    assert [array.shape for array in Grid.of([])] == [(0,), (0,), (0,)]


def test_time_windows_by_hand():
    #  time  -5 -4 -3 -2 -1  0  1  2  3  4  5
    #  k=-2   ├───────────┤
    #  k=-1            ├───────────┤
    #  k=0                      ├───────────┤
    window = TimeWindow(range=4, slide=3, offset=1)
    assert window.extent(-2) == range(-5, -1)
    assert window.extent(-1) == range(-2, 2)
    assert window.extent(0) == range(1, 5)
    assert window.mapping(-2) == range(-2, 0)  # in two
    assert window.mapping(-1) == range(-1, 0)  # in one
    assert TimeWindow(4).mapping(-1) == range(-1, 0)  # tumbling, before the epoch


def test_rows_in_a_gap_are_in_no_window():
    window = TimeWindow(range=2, slide=5)
    assert [len(window.mapping(t)) for t in range(-5, 6)] == [1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1]
    assert (window.first_window(3), window.last_window(3)) == (1, 0)


# Slide-by-tuple windows.


@given(ordered, sizes, sizes)
def test_equation_3(times, W, S):
    window = SlideByTuple(W, S)
    triggered = len(times) // S
    for w in range(triggered):
        r = (w + 1) * S - 1
        extent = {i for i, t in enumerate(times) if times[r] - W < t <= times[r]}
        assert set(window.extent(w, times)) == extent
    with pytest.raises(WindowError, match=f"window {triggered} is triggered by row"):
        window.extent(triggered, times)


@given(increasing, sizes, sizes)
def test_equations_7_and_8(times, W, S):
    """As written, which is for times that differ."""

    def is_trigger(j):
        return (j + 1) % S == 0

    window = SlideByTuple(W, S)
    for i in range(len(times)):
        after = [j for j in range(i, len(times)) if is_trigger(j)]  # row i itself included
        holding = [k for k in after if times[i] > times[k] - W]
        if after and times[i] > times[after[0]] - W:
            first = (after[0] + 1) // S - 1
            last = (holding[-1] + 1) // S - 1
            assert window.mapping(i, times) == range(first, last + 1)
        else:
            assert not window.mapping(i, times)  # ⊥


@given(ordered, sizes, sizes)
def test_slide_by_tuple_mapping_inverts_extent_also_with_ties(times, W, S):
    window = SlideByTuple(W, S)
    for i in range(len(times)):
        assert set(window.mapping(i, times)) == {
            w for w in range(len(times) // S) if i in window.extent(w, times)
        }


def test_slide_by_tuple_includes_later_rows_with_the_time_of_the_trigger():
    assert list(SlideByTuple(5, 2).extent(0, [1, 4, 4, 4, 5])) == [0, 1, 2, 3]


# Slide-by-time windows.


@given(ordered, sizes, sizes, st.integers(-20, 20))
def test_slide_by_time_extent(times, W, S, offset):
    window = SlideByTime(W, S, offset)
    for k in range(-60, 61):
        e = k * S + offset
        triggered = any(e - S <= t < e for t in times)
        before = [i for i, t in enumerate(times) if t < e]
        assert list(window.extent(k, times)) == (before[-W:] if triggered else [])


@given(ordered, sizes, sizes, st.integers(-20, 20))
def test_slide_by_time_mapping_inverts_extent(times, W, S, offset):
    window = SlideByTime(W, S, offset)
    for i in range(len(times)):
        assert list(window.mapping(i, times)) == [k for k in range(-60, 61) if i in window.extent(k, times)]


# Delta windows.


@given(st.one_of(ordered, st.lists(st.floats(-9, 9), max_size=30).map(sorted)), sizes, sizes)
def test_equation_4(deltas, W, S):
    window = DeltaWindow("x", W, S)
    triggers = [0] if deltas else []
    while deltas:
        beyond = [
            i for i, delta in enumerate(deltas) if delta - deltas[triggers[-1]] > S
        ]  # the set N of the last
        if not beyond:
            break
        triggers.append(min(beyond))
    assert window.triggers(deltas) == triggers
    for w, r in enumerate(triggers):
        extent = {i for i, delta in enumerate(deltas) if deltas[r] - W <= delta < deltas[r]}
        assert set(window.extent(w, deltas)) == extent


@given(ordered, sizes, sizes)
def test_delta_mapping_inverts_extent(deltas, W, S):
    window = DeltaWindow("x", W, S)
    windows = range(len(window.triggers(deltas)))
    for i in range(len(deltas)):
        assert set(window.mapping(i, deltas)) == {w for w in windows if i in window.extent(w, deltas)}


# Session windows.


@given(ordered, sizes)
def test_sessions_are_runs_of_close_rows(times, gap):
    window = SessionWindow(gap)
    sessions = []
    while sum(map(len, sessions)) < len(times):
        sessions.append(window.extent(len(sessions), times))
    assert [i for session in sessions for i in session] == list(range(len(times)))
    for session in sessions:
        assert all(times[i + 1] - times[i] <= gap for i in session[:-1])
    for before, after in pairwise(sessions):
        assert times[after[0]] - times[before[-1]] > gap
    with pytest.raises(WindowError, match=f"no session {len(sessions)}"):
        window.extent(len(sessions), times)


@given(ordered, sizes)
def test_session_mapping_inverts_extent_and_needs_no_later_row(times, gap):
    window = SessionWindow(gap)
    for i in range(len(times)):
        (w,) = window.mapping(i, times)
        assert i in window.extent(w, times)
        assert window.mapping(i, times[: i + 1]) == window.mapping(i, times)


# All windows.


def keep(result):
    return True


def never(candidate, after, before):
    return False


EVERY = [
    (TimeWindow("1h", "1s"), "1h/1s", "FCF"),
    (TimeWindow("1h", offset="5m"), "1h+5m", "FCF"),
    (TimeWindow("1h", "1s", "-5m"), "1h/1s-5m", "FCF"),
    (CountWindow(10, 2), "10/2", "FCF"),
    (CountWindow(10), "10", "FCF"),
    (SessionWindow("30s"), "session 30s", "FCF"),
    (SlideByTuple("1h", 5), "1h/5 rows", "FCA"),
    (SlideByTime(100, "1s"), "100 rows/1s", "FCA"),
    (SlideByTime(100, "1s", "500ms"), "100 rows/1s+500ms", "FCA"),
    (DeltaWindow("x", 10, 2.5), "x 10/2.5", "FCA"),
    (DeltaWindow("at", "1h", "1s"), "at 1h/1s", "FCA"),
    (DeltaWindow("x", 10), "x 10", "FCA"),
    (PolicyWindow(keep, never), "policy keep, never", "FCA"),
    (PolicyWindow(evict=never), "policy never", "FCA"),
]


@pytest.mark.parametrize(("window", "label", "context"), EVERY, ids=[label for _, label, _ in EVERY])
def test_every_window_describes_itself(window, label, context):
    assert (window.label, window.context) == (label, context)
    assert window.trigger
    assert Window.from_json(window.to_json(), allow=__name__) == window
    assert hash(Window.from_dict(window.to_dict(), allow=__name__)) == hash(window)
    assert pickle.loads(pickle.dumps(window)) == window
    with pytest.raises(AttributeError):
        window.range = 1


def test_every_kind_is_covered():
    assert {type(window) for window, _, _ in EVERY} == set(KINDS.values())


def test_spellings_of_one_window_are_equal():
    assert (
        TimeWindow("1h", "60s") == TimeWindow(timedelta(hours=1), 60_000_000) == TimeWindow("60m", slide="1m")
    )
    assert TimeWindow("1h") == TimeWindow("1h", "1h")
    assert DeltaWindow("x", 2.0) == DeltaWindow("x", np.int64(2))
    assert CountWindow(np.int32(3)) == CountWindow(3)
    assert TimeWindow("1h") != TimeWindow("1h", "1s")


def test_repr_reads_like_the_call():
    assert repr(TimeWindow("1h", "1s")) == "TimeWindow(range='1h', slide='1s')"
    assert repr(DeltaWindow("x", 10, 2.5)) == "DeltaWindow(attribute='x', range=10, slide=2.5)"
    assert "<lambda>" in repr(PolicyWindow(valid=lambda result: True))


@pytest.mark.parametrize("wrong", [0, -1, "0s", "-1h", timedelta(0)])
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda value: TimeWindow(value), "range of TimeWindow"),
        (lambda value: TimeWindow("1h", value), "slide of TimeWindow"),
        (lambda value: SessionWindow(value), "gap of SessionWindow"),
        (lambda value: SlideByTuple(value, 1), "range of SlideByTuple"),
        (lambda value: SlideByTime(1, value), "slide of SlideByTime"),
        (lambda value: DeltaWindow("x", value), "range of DeltaWindow"),
        (lambda value: DeltaWindow("x", 1, value), "slide of DeltaWindow"),
    ],
)
def test_lengths_are_longer_than_zero(build, name, wrong):
    with pytest.raises(WindowError, match=name):
        build(wrong)


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, 2.0, float("inf"), "10", None, 2**60 + 1, 2**63])
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda value: CountWindow(value), "range of CountWindow"),
        (lambda value: CountWindow(10, 0 if value is None else value), "slide of CountWindow"),
        (lambda value: SlideByTuple("1h", value), "slide of SlideByTuple"),
        (lambda value: SlideByTime(value, "1s"), "range of SlideByTime"),
    ],
)
def test_counts_are_whole_and_positive(build, name, wrong):
    with pytest.raises(WindowError, match=name):
        build(wrong)


@pytest.mark.parametrize(
    "wrong", [float("inf"), float("nan"), 1.5, True, None, "soon", b"1h", 2**60 + 1, 2**63]
)
def test_durations_of_windows_are_durations(wrong):
    with pytest.raises(DurationError, match="range of TimeWindow"):
        TimeWindow(wrong)
    with pytest.raises(DurationError, match="offset of TimeWindow"):
        TimeWindow("1h", offset=wrong)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), True, None, b"1h", 1j, 10**400])
def test_delta_lengths_are_finite_numbers(wrong):
    with pytest.raises(WindowError, match="range of DeltaWindow"):
        DeltaWindow("x", wrong)


def test_a_slide_in_months_needs_such_a_range():
    with pytest.raises(
        WindowError, match="with a slide in months, as '1mo' is, range has to be months"
    ) as raised:
        TimeWindow("5m", "1mo")
    assert "zone" not in str(raised.value)


def test_delta_mistakes():
    with pytest.raises(WindowError, match="attribute of DeltaWindow"):
        DeltaWindow("", 1)
    with pytest.raises(WindowError, match="two durations or two numbers"):
        DeltaWindow("x", "1h", 2.5)
    with pytest.raises(WindowError, match="trigger 1 windows; there is no window 1"):
        DeltaWindow("x", 10).extent(1, [0, 3])


def test_policy_mistakes():
    with pytest.raises(WindowError, match="give valid=, evict=, or both"):
        PolicyWindow()
    with pytest.raises(WindowError, match="valid of PolicyWindow has to be a function"):
        PolicyWindow(valid=1)
    with pytest.raises(WindowError, match="cannot import 'nowhere:f'"):
        PolicyWindow(evict="nowhere:f")
    with pytest.raises(WindowError, match="is not a function"):
        PolicyWindow(evict="math:pi")
    for unnamed in (lambda result: True, keep.__get__(1)):
        with pytest.raises(WindowError, match=r"valid of PolicyWindow: .* cannot be written to JSON"):
            PolicyWindow(valid=unnamed).to_json()
    for ask in (PolicyWindow(keep).extent, PolicyWindow(keep).mapping):
        with pytest.raises(NoMapping, match="PolicyWindow"):
            ask(0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "no window kind None"),
        ('{"kind": "hop"}', "no window kind 'hop'; 'kind' has to be one of count, delta"),
        ('{"kind": "time"}', "TimeWindow: missing a required argument: 'range'"),
        (
            '{"kind": "time", "range": "1h", "slip": "1s"}',
            "TimeWindow: got an unexpected keyword argument 'slip'; did you mean 'slide'",
        ),
        ("[]", "has to be an object"),
        ("{", "a window in JSON"),
    ],
)
def test_json_mistakes(text, message):
    with pytest.raises(WindowError, match=message):
        Window.from_json(text)


# Huge parameters: an error by name, or the right answer.

EDGE = 2**61 - 1  # the farthest time from 1970 that is accepted
TIMES = [-EDGE, -EDGE + 1, -1, 0, 5, EDGE - 7, EDGE]


@st.composite
def lengths(draw):
    """Numbers of every magnitude up to 2**64, most of them at a power of two."""
    return max(1, 2 ** draw(st.integers(0, 64)) + draw(st.integers(-2, 2)))


@st.composite
def huge_windows(draw):
    """The constructor of a window, its arguments, and their names."""
    kind = draw(
        st.sampled_from([TimeWindow, CountWindow, SessionWindow, SlideByTuple, SlideByTime, DeltaWindow])
    )
    first, second = draw(lengths()), draw(lengths())
    offset = draw(st.sampled_from([-1, 1])) * draw(lengths())
    if kind is SessionWindow:
        return kind, {"gap": first}
    if kind is TimeWindow:
        assume(first // second < 100)  # the number of windows of one row
        return kind, {"range": first, "slide": second, "offset": offset}
    if kind is SlideByTime:
        return kind, {"range": first, "slide": second, "offset": offset}
    if kind is DeltaWindow:
        return kind, {"attribute": draw(st.sampled_from(["x", "y"])), "range": first, "slide": second}
    return kind, {"range": first, "slide": second}


@settings(deadline=None, max_examples=150)
@given(
    huge_windows(), st.lists(st.sampled_from(TIMES), min_size=1, max_size=6), lengths(), lengths(), st.data()
)
def test_huge_parameters_give_an_error_by_name_or_the_right_answer(window, times, lateness, delay, data):
    """Of times at both ends of what is accepted, in one piece and as a stream."""
    kind, arguments = window
    times.sort()
    table = pa.table({"ts": times, "x": times, "y": [float(time) for time in times]})
    late, early = data.draw(st.sampled_from(["drop", "update"])), data.draw(st.none() | lengths())
    if kind in (SlideByTuple, DeltaWindow):
        early = None
    too_long = {name: value for name, value in {**arguments, "lateness": lateness, "early": early}.items()}
    too_long = [name for name, value in too_long.items() if isinstance(value, int) and abs(value) > 2**60]
    try:
        query = wr.Query(
            window=kind(**arguments), aggregates={"n": wr.Count(), "sum": wr.Sum("y")}, lateness=lateness,
            late=late, early=early,
        )  # fmt: skip
        expected = oracle.evaluate(table, query)
        tables = list(wr.stream(table.to_batches(max_chunksize=1), query, delay=min(delay, 2**60)))
        streamed = pa.concat_tables(tables) if tables else expected.schema.empty_table()
        found = wr.aggregate(table, query)
    except (DurationError, WindowError) as error:
        assert any(name in str(error) for name in too_long), (error, too_long)
        return
    assert not too_long or arguments.get("attribute") == "y"
    if query.emits:
        final = [emission == "final" for emission in streamed["emission"].to_pylist()]
        streamed = streamed.filter(pa.array(final, pa.bool_()))
    assert found.equals(expected)
    assert streamed.sort_by([("window_end", "ascending"), ("window_start", "ascending")]).equals(expected)


def test_a_delay_beyond_the_longest_duration_is_refused():
    query = wr.Query(window=TimeWindow(10), aggregates={"n": wr.Count()})
    with pytest.raises(DurationError, match=r"delay: 1152921504606846977 is longer than"):
        list(wr.stream([{"ts": [1]}], query, delay=2**60 + 1))


def test_whole_numbers_of_a_delta_attribute_leave_room_for_their_difference():
    query = wr.Query(window=DeltaWindow("x", 5), aggregates={"n": wr.Count()})
    edge = 2**62 - 1
    data = {"ts": [0, 1, 2], "x": [-edge, edge - 3, edge]}
    assert wr.aggregate(data, query).equals(oracle.evaluate(data, query))
    for wrong in (2**62, -(2**62)):
        with pytest.raises(ColumnError, match=f"attribute 'x' of DeltaWindow has {wrong}"):
            wr.aggregate({"ts": [0], "x": [wrong]}, query)
