"""wr.sliding against a fold of every window: every kernel, type and shape of window, and bad input."""

from __future__ import annotations

import datetime
import math
import warnings
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.columns.series import read
from windrow.errors import (
    AggregateError,
    ArithmeticOverflow,
    ColumnError,
    CompileWarning,
    PropertyError,
    QueryError,
    WindowError,
)
from windrow.kernels.columns import simd_minmax as extremes
from windrow.kernels.columns.layout import ColumnOutput, Input, RowSegments
from windrow.kernels.columns.runner import ALL_VALID, Runner

FLOATS = st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, 2.0])
TAME = st.floats(-100, 100, width=32)


@wr.aggregate_type(partial={"total": "f8", "n": "i8"}, identity=(0.0, 0))
class Average:
    def lift(x):
        return x, 1

    def combine(a, b):
        return a[0] + b[0], a[1] + b[1]

    def lower(p):
        return p[0] / p[1]


@wr.aggregate_type(identity="", output=pa.string())
class Letters:
    def lift(x):
        return f"{x:.0f},"

    def combine(a, b):
        return a + b

    def lower(p):
        return p


def folded(aggregate: Any, columns: Any, rows: int, slide: int, offsets: Any = None) -> list[Any]:
    """Every window by its definition; ``None`` for null."""
    series = [read(column) for column in columns]
    monoid = aggregate.bind([s.type for s in series][: aggregate.arity])
    cells = [
        s.values.tolist()
        if s.valid is None
        else [v if ok else None for v, ok in zip(s.values.tolist(), s.valid, strict=True)]
        for s in series[: aggregate.arity]
    ]
    length = len(series[0])
    table = list(zip(*cells, strict=True)) if cells else [()] * length
    found = []
    with np.errstate(all="ignore"):
        for begin, end in pairwise(offsets or [0, length]):
            for first in range(begin, end - rows + 1, slide):
                found.append(monoid.result(monoid.fold(table[first : first + rows])))
    return found


def cells_of(result: Any) -> list[Any]:
    return result.to_pylist() if isinstance(result, pa.Array) else result.tolist()


def agree(got: list[Any], want: list[Any], tolerance: float) -> None:
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        if isinstance(theirs, float) and mine is not None:
            if math.isnan(theirs):
                assert math.isnan(mine)
            elif tolerance == 0.0 or math.isinf(theirs):
                assert mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs)
            else:
                assert mine == pytest.approx(theirs, rel=max(tolerance, 1e-6), abs=1e-6)
        else:
            assert mine == theirs


@st.composite
def windows(draw: Any, values: Any, longest: int = 60) -> tuple[list[Any], int, int]:
    rows = draw(st.integers(1, 20))
    length = draw(st.integers(rows, rows + longest))
    return draw(st.lists(values, min_size=length, max_size=length)), rows, draw(st.integers(1, rows + 3))


DENSE = [wr.Max(), wr.Mean(), Average("x"), Letters("x"), wr.HyperLogLog(precision=4), wr.Collect()]


@pytest.mark.parametrize("aggregate", DENSE, ids=lambda a: type(a).__name__)
@given(case=windows(TAME))
@settings(max_examples=40, deadline=None)
def test_windows_are_folds(aggregate: Any, case: Any) -> None:
    values, rows, slide = case
    array = np.array(values)
    tolerance = aggregate.bind([pa.float64()]).tolerance
    agree(
        cells_of(wr.sliding(array, aggregate, rows, slide)),
        folded(aggregate, [array], rows, slide),
        tolerance,
    )


@pytest.mark.parametrize("aggregate", [wr.Min(), Average("x")], ids=lambda a: a.label)
@given(case=windows(TAME | st.none()))
@settings(max_examples=40, deadline=None)
def test_nulls_are_ignored(aggregate: Any, case: Any) -> None:
    values, rows, slide = case
    column = pa.array(values, pa.float64())
    masked = np.ma.masked_invalid(np.array([math.nan if v is None else v for v in values]))
    want = folded(aggregate, [column], rows, slide)
    got = wr.sliding(column, aggregate, rows, slide)
    assert isinstance(got, pa.Array)
    tolerance = aggregate.bind([pa.float64()][: aggregate.arity]).tolerance
    agree(cells_of(got), want, tolerance)
    agree(cells_of(wr.sliding(masked, aggregate, rows, slide)), want, tolerance)


@given(case=windows(st.integers(-5, 5)), keys=st.lists(st.integers(0, 60), max_size=6))
@settings(max_examples=40, deadline=None)
def test_segments_are_separate(case: Any, keys: list[int]) -> None:
    values, rows, slide = case
    array = np.array(values, dtype=np.int64)
    offsets = [0, *sorted(min(key, len(values)) for key in keys), len(values)]
    for aggregate in (wr.Max(), wr.Sum()):
        got, places = wr.sliding(array, aggregate, rows, slide, offsets=offsets, threads=2)
        assert got.tolist() == folded(aggregate, [array], rows, slide, offsets)
        counts = [max((b - a - rows) // slide + 1, 0) for a, b in pairwise(offsets)]
        assert places.tolist() == [0, *np.cumsum(counts)]


NUMBERS = ["f8", "f4", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1"]
INTERPRETED = [wr.Max(), wr.Min(), wr.Count("x"), wr.Count(), wr.Std(), wr.Sum()]


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything without the compiler, so that many types take little time."""
    module = import_module("windrow.sliding")
    monkeypatch.setattr(module, "_runner", lambda monoid, masked: Runner(monoid, masked, compiled=False))


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("aggregate", INTERPRETED, ids=lambda a: a.label)
@given(data=st.data())
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_width(interpreted: Any, aggregate: Any, dtype: str, data: Any) -> None:
    of = numbers(np.dtype(dtype)) if type(aggregate) in (wr.Max, wr.Min) else st.integers(0, 100)
    values, rows, slide = data.draw(windows(of | st.none(), longest=10))
    array = np.ma.array(
        [0 if v is None else v for v in values], dtype=dtype, mask=[v is None for v in values]
    )
    tolerance = aggregate.bind([pa.from_numpy_dtype(array.dtype)][: aggregate.arity]).tolerance
    agree(
        cells_of(wr.sliding(array, aggregate, rows, slide)),
        folded(aggregate, [array], rows, slide),
        tolerance,
    )


def numbers(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "f":
        return FLOATS
    limits = np.iinfo(dtype)
    return st.integers(int(limits.min), int(limits.max)) | st.sampled_from([int(limits.min), int(limits.max)])


@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1"])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_vectors_have_the_bits_of_the_generic_kernel(dtype: str, data: Any) -> None:
    """NaN of any payload, signed zeros, ranges around the lanes, the tiles and the chunks."""
    rows = data.draw(st.sampled_from([1, 2, 3, 4, 5, 8, 15, 16, 17, 23, 24, 25, 31, 33, 64, 100]))
    length = rows + data.draw(st.integers(0, 3 * rows))
    seed = data.draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    array = random.integers(0, 6, length).astype(dtype)
    if dtype[0] == "f":
        array -= 3
        array[random.random(length) < 0.3] *= -1.0  # -0.0 among the zeros
        if data.draw(st.booleans()):
            odd = random.random(length) < data.draw(st.sampled_from([0.001, 0.02, 0.5]))
            array[odd] = np.where(random.random(odd.sum()) < 0.5, np.nan, -np.nan)
            array[random.random(length) < 0.05] = np.inf
    aggregate = wr.Max() if dtype != "f4" else wr.Min()
    cuts = np.array([0, data.draw(st.integers(0, length)), length])
    got, places = wr.sliding(array, aggregate, rows, offsets=cuts)
    want = np.empty_like(got)
    runner = Runner(aggregate.dense([pa.from_numpy_dtype(array.dtype)]), False, compiled=False)
    assert runner.vectors is None
    runner.run(Input((array,), ALL_VALID), RowSegments(cuts, places), ColumnOutput(want, ALL_VALID), rows, 1)
    assert got.tobytes() == want.tobytes()


def test_vectors_over_many_tiles_and_chunks() -> None:
    values = np.random.default_rng(1).normal(size=10_000)
    values[7_000] = np.nan
    for rows in (3, 8, 16, 17, 20, 36, 37, 127, 255, 256, 257, 1_000, 4_000):
        got = wr.sliding(values, wr.Max(), rows)
        want = np.lib.stride_tricks.sliding_window_view(values, rows).max(axis=1)
        assert np.array_equal(got, want, equal_nan=True)
        assert np.array_equal(wr.sliding(values, wr.Max(), rows, threads=3), want, equal_nan=True)


def test_vectors_with_a_long_range() -> None:
    """Many pieces in a chunk; a range that is no multiple of pieces or lanes."""
    rows = 300 * extremes.PIECE + 3
    values = np.random.default_rng(1).normal(size=3 * rows + 17)
    for bad in (None, rows + 5):
        if bad is not None:
            values[bad] = np.nan
        got = wr.sliding(values, wr.Max(), rows)
        segments = RowSegments(np.array([0, len(values)]), np.array([0, len(got)]))
        want = np.empty_like(got)
        runner = Runner(wr.Max().dense([pa.float64()]), False)
        assert runner.vectors is not None
        runner.vectors = None
        runner.run(Input((values,), ALL_VALID), segments, ColumnOutput(want, ALL_VALID), rows, 1)
        assert got.tobytes() == want.tobytes()


def test_threads_change_no_bit() -> None:
    values = np.random.default_rng(2).normal(size=5_000)
    for rows, slide in ((100, 1), (100, 7), (7, 100)):
        one = wr.sliding(values, Average("x"), rows, slide)
        assert wr.sliding(values, Average("x"), rows, slide, threads=4).tobytes() == one.tobytes()


@pytest.mark.parametrize("name", ["TwoStacks"])
def test_any_algorithm(name: str) -> None:
    values = np.random.default_rng(3).integers(0, 100, 300)
    for rows, slide in ((20, 1), (20, 7), (5, 9)):
        got = wr.sliding(values, wr.Max(), rows, slide, algorithm=name)
        assert got.tolist() == wr.sliding(values, wr.Max(), rows, slide).tolist()
    got, places = wr.sliding(values, wr.Max(), 20, algorithm=name, offsets=[0, 150, 160, 300])
    assert len(got) == places[-1] == 131 + 0 + 121


def test_algorithms_refuse_what_they_cannot() -> None:
    with pytest.raises(PropertyError, match="SubtractOnEvict needs an aggregate that is invertible"):
        wr.sliding([1.0, 2.0], wr.Max(), 1, algorithm="SubtractOnEvict")
    with pytest.raises(QueryError, match=r"no algorithm 'Magic'.*TwoStacks"):
        wr.sliding([1.0, 2.0], wr.Max(), 1, algorithm="Magic")


# Forms of values and results.


def test_several_inputs(interpreted: Any) -> None:
    heaviest = wr.sliding(
        (np.array([10, 20, 30, 40]), np.array([1.0, 9.0, 3.0, 4.0])), wr.ArgMax("a", "b"), 3
    )
    assert heaviest.tolist() == [20, 20]


def test_several_columns(interpreted: Any) -> None:
    table = np.arange(12.0).reshape(6, 2)
    got = wr.sliding(table, wr.Max(), 2, threads=2)
    assert got.tolist() == [[2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    columns = wr.sliding([table[:, 0], pa.array([1, None, 3, 4, 5, 6])], wr.Max(), 5)
    assert columns[0].tolist() == [8, 10] and columns[1].to_pylist() == [5, 6]


def test_numpy_kinds(interpreted: Any) -> None:
    days = np.array(["2024-03-01", "2024-01-01", "NaT", "2024-02-01"], dtype="datetime64[D]")
    got = wr.sliding(days, wr.Max(), 2)
    assert got.dtype == days.dtype and got.tolist() == [datetime.date(2024, m, 1) for m in (3, 1, 2)]
    flags = wr.sliding(np.array([True, False, False]), wr.Max(), 2)
    assert flags.dtype == np.bool_ and flags.tolist() == [True, False]
    half = wr.sliding(np.array([1, 3, 2], dtype=np.float16), wr.Max(), 2)
    assert half.dtype == np.float16 and half.tolist() == [3, 3]
    assert wr.sliding(np.array([1, 5, 2], dtype=">i8"), wr.Max(), 2).tolist() == [5, 5]
    assert wr.sliding(np.arange(10)[::-2], wr.Max(), 2).tolist() == [9, 7, 5, 3]
    assert wr.sliding(["b", "a", None], wr.Max(), 2).tolist() == ["b", "a"]
    nothing = wr.sliding([None, None, 3], wr.Max(), 2)
    assert isinstance(nothing, np.ma.MaskedArray) and nothing.mask.tolist() == [True, False]


def test_arrow_kinds(interpreted: Any) -> None:
    stamps = pa.array([3, 1, None], pa.timestamp("ms", tz="UTC"))
    got = wr.sliding(stamps, wr.Max(), 2)
    assert got.type == stamps.type and got.cast(pa.int64()).to_pylist() == [3, 1]
    chunked = pa.chunked_array([pa.array([1, 2], pa.int16()), pa.array([0], pa.int16())])
    got = wr.sliding(chunked, wr.Max(), 2)
    assert got.type == pa.int16() and got.to_pylist() == [2, 2]
    assert wr.sliding(pa.array([1.0, 5.0, 2.0, 0.0])[1:], wr.Max(), 2).to_pylist() == [5, 2]


def test_data_frames_columns(interpreted: Any) -> None:
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    got = wr.sliding(pandas.Series([1.0, math.nan, 2.0]), wr.Max(), 2)
    assert isinstance(got, np.ndarray) and np.isnan(got).all()
    nullable = pandas.Series([1, None, None], dtype="Int64")
    assert wr.sliding(nullable, wr.Max(), 2).tolist() == [1, None]
    assert wr.sliding(polars.Series([1, None, 3]), wr.Max(), 2).to_pylist() == [1, 3]


def test_input_is_neither_copied_nor_changed(interpreted: Any) -> None:
    values = np.random.default_rng(4).normal(size=1000)
    values.flags.writeable = False
    assert np.shares_memory(read(values).values, values)
    column = pa.array(values)
    assert read(column).values.ctypes.data == column.buffers()[1].address
    before = values.tobytes()
    wr.sliding(values, wr.Max(), 10)
    wr.sliding(values, wr.Mean(), 10)
    assert values.tobytes() == before


def test_out_is_filled(interpreted: Any) -> None:
    buffer = np.empty(3)
    got = wr.sliding([3.0, 1.0, 4.0, 1.0], wr.Max(), 2, out=buffer)
    assert got is buffer and buffer.tolist() == [3, 4, 4]
    table = np.empty((2, 2), order="F")
    assert wr.sliding(np.arange(6.0).reshape(3, 2), wr.Max(), 2, out=table) is table
    assert table.tolist() == [[2, 3], [4, 5]]
    days = np.array(["2024-03-01", "2024-01-01"], dtype="datetime64[D]")
    assert wr.sliding(days, wr.Max(), 1, out=np.empty(2, days.dtype)).tolist() == days.tolist()


# Bad input.


@pytest.mark.parametrize("bad", [0, -1, 2.5, "3", None, True])
@pytest.mark.parametrize("name", ["range", "slide", "threads"])
def test_sizes_must_be_whole(name: str, bad: Any) -> None:
    if name == "threads" and bad is None:
        return
    with pytest.raises(WindowError, match=f"{name} is {bad!r}; expected a whole number"):
        wr.sliding([1.0, 2.0, 3.0], wr.Max(), **{"range": 2, name: bad})


def test_range_must_fit() -> None:
    with pytest.raises(
        WindowError, match=r"range is 4 rows and the data has 3; .* shorter range, or more data"
    ):
        wr.sliding([1.0, 2.0, 3.0], wr.Max(), 4)
    with pytest.raises(WindowError, match="the data has 0"):
        wr.sliding([], wr.Max(), 1)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.array([object(), object()]), "Python objects that have no common Arrow type"),
        (np.array([1j, 2j]), "an array of complex128"),
        (np.zeros((2, 2, 2)), "3 dimensions"),
        (np.zeros((2, 0)), "without columns"),
        ([np.zeros(3), np.zeros(4)], "differ in length"),
    ],
)
def test_values_must_be_columns(values: Any, message: str) -> None:
    with pytest.raises(ColumnError, match=message):
        wr.sliding(values, wr.Max(), 1)


def test_aggregate_must_fit_the_values() -> None:
    with pytest.raises(AggregateError, match=r"Mean\(\) needs a numeric column, got string"):
        wr.sliding(np.array(["a", "b"], dtype=object), wr.Mean(), 1)
    with pytest.raises(AggregateError, match=r"expected one such as Max\(\)"):
        wr.sliding([1.0], wr.Max, 1)  # type: ignore[arg-type]
    with pytest.raises(ColumnError, match="has 2 inputs; expected a tuple of 2 columns"):
        wr.sliding([1.0, 2.0, 3.0], wr.ArgMax("a", "b"), 1)


@pytest.mark.parametrize(
    "out",
    [np.empty(3, np.float32), np.empty(2), np.empty((3, 1)), np.empty(6)[::2], [0.0, 0.0, 0.0], "x"],
)
def test_out_must_fit(out: Any) -> None:
    with pytest.raises(ColumnError, match="out is"):
        wr.sliding([3.0, 1.0, 4.0, 1.0], wr.Max(), 2, out=out)


@pytest.mark.parametrize("offsets", [[0, 5], [2, 1], [-1, 2], [], [0.0, 2.0], [[0, 1]], 3])
def test_offsets_must_ascend(offsets: Any) -> None:
    with pytest.raises(ColumnError, match="offsets"):
        wr.sliding([3.0, 1.0, 4.0], wr.Max(), 1, offsets=offsets)


@wr.aggregate_type(partial={"x": "f8"}, identity=(0.0,))
class Picky:
    def lift(x):
        if x < 0:
            raise ValueError("negative")
        return (x,)

    def combine(a, b):
        if a[0] + b[0] > 100:
            raise ValueError("too much")
        return (a[0] + b[0],)

    def lower(p):
        return p[0]


def test_functions_that_raise_are_named() -> None:
    with pytest.raises(
        AggregateError,
        match=r"aggregate 'Picky\(x\)': lift\(.*-3.*\) raised ValueError: negative, at element 2",
    ):
        wr.sliding([1.0, 2.0, -3.0, 4.0], Picky("x"), 2)
    with pytest.raises(AggregateError, match=r"combine\(.*\) raised ValueError: too much, at element 4"):
        wr.sliding([1.0, 2.0, 3.0, 60.0, 70.0, 1.0], Picky("x"), 2)
    with pytest.raises(
        AggregateError, match=r"aggregate 'Letters\(x\)': lift\('b'\) raised ValueError.*element 0"
    ):
        wr.sliding(["b", "a"], Letters("x"), 1)


def test_overflow_is_named() -> None:
    large = np.array([2**62, 2**62, 2**62], dtype=np.int64)
    with pytest.raises(ArithmeticOverflow, match=r"Sum\(x\) does not fit int64"):
        wr.sliding(large, wr.Sum("x"), 2)


def test_what_does_not_compile_runs_interpreted() -> None:
    @wr.aggregate_type(partial={"x": "f8"}, identity=(0.0,), output=pa.float64())
    class Odd:
        def lift(x):
            return (x,)

        def combine(a, b):
            return (a[0] + b[0],)

        def lower(p):
            return float(f"{p[0]:.3f}")

    with pytest.warns(CompileWarning, match="Odd.*interpreted"):
        got = wr.sliding([1.0, 2.0, 3.0], Odd("x"), 2)
    assert got.tolist() == [3, 5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wr.sliding([1.0, 2.0, 3.0], Odd("x"), 2).tolist() == [3, 5]
