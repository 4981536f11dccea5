"""What aggregates compute, what they refuse, and how their partials are written down."""

from __future__ import annotations

import dataclasses
import datetime
import math
import struct
import tracemalloc
import zlib
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_laws import example

import windrow as wr
from windrow.aggregates import Aggregate
from windrow.aggregates.algebra import Monoid
from windrow.aggregates.bulk import absorb_many
from windrow.columns import arrow
from windrow.columns.encoding import decode, encode
from windrow.errors import CorruptSnapshot
from windrow.kernels.partials import allocate
from windrow.names_elsewhere import ELSEWHERE

NAN, INF = math.nan, math.inf


def result(aggregate: Aggregate, values: list[Any], *types: pa.DataType) -> Any:
    """The answer over rows, through Arrow both ways: as a user sees it."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    monoid = aggregate.bind(types or None)
    inputs = [pa.array([row[c] for row in rows], type=type_) for c, type_ in enumerate(monoid.inputs)]
    scalars = [arrow.scalars(column) for column in inputs]
    physical = list(zip(*scalars, strict=True)) if scalars else rows
    return monoid.column([monoid.result(monoid.fold(physical))])[0].as_py()


@pytest.mark.parametrize(
    ("aggregate", "values", "expected"),
    [
        (wr.Count("x"), [1.0, None, NAN], 2),
        (wr.Sum("x"), [1e16, 1.0, -1e16], 1.0),
        (wr.Sum("x"), [1.0, INF, 2.0], INF),
        (wr.Sum("x"), [INF, -INF], NAN),
        (wr.Sum("x", invertible=True), [1.0, -INF, 2.0], -INF),
        (wr.Mean("x"), [1.0, 2.0, None, 6.0], 3.0),
        (wr.Product("x"), [1e200, 1e200, 1e-300, -1.0], -1e100),
        (wr.Product("x"), [1e200, 1e200], INF),
        (wr.Product("x"), [1e-200, 1e-200], 0.0),
        (wr.Product("x"), [0.0, INF], NAN),
        (wr.GeometricMean("x"), [1.0, 4.0, 16.0], 4.0),
        (wr.GeometricMean("x"), [1e308] * 5, 1e308),
        (wr.GeometricMean("x"), [3.0, 0.0], 0.0),
        (wr.GeometricMean("x"), [3.0, -1.0], NAN),
        (wr.Var("x"), [1.0, 2.0, 4.0], 7 / 3),
        (wr.Var("x"), [1.0], None),
        (wr.Var("x", ddof=0), [1.0], 0.0),
        (wr.Var("x"), [1e200, 1e200], 0.0),
        (wr.Std("x"), [1e9, 1e9 + 2], math.sqrt(2)),
        (wr.Min("x"), [2.0, NAN, 1.0], NAN),
        (wr.Max("x"), [2.0, None, -1.0], 2.0),
        (wr.MinCount("x"), [2.0, 1.0, 1.0, 3.0], 2),
        (wr.MaxCount("x"), [NAN, 1.0, NAN], 2),
        (wr.MaxCount("x"), [-INF, -INF], 2),
        (wr.First("x"), [None, 2.0, 3.0], 2.0),
        (wr.Last("x"), [1.0, 2.0, None], 2.0),
        (wr.LongestIncreasingRun("x"), [1.0, 2.0, 2.0, 3.0, 5.0, None, 7.0, 1.0], 4),
        (wr.LongestIncreasingRun("x"), [3.0, 2.0], 1),
        (wr.Stops("x"), [0.0, 0.0, 5.0, 0.0, 3.0, 4.0, 0.0], 3),
        (wr.Stops("x"), [NAN, 1.0], 0),
        (wr.Collect("x"), [2.0, None, 1.0], [2.0, 1.0]),
        (wr.TopK("x", k=2), [2.0, 9.0, 1.0, 9.0], [9.0, 9.0]),
        (wr.Median("x"), [4.0, 1.0, 2.0, 3.0], 2.5),
        (wr.Quantile("x", q=1.0), [4.0, 1.0], 4.0),
        (wr.Median("x"), [1.0, NAN], NAN),
        (wr.Median("x"), [1.0, INF], INF),
        (wr.Median("x"), [1.0, -INF], -INF),
        (wr.Median("x"), [1.0, 2.0, INF], 2.0),
        (wr.Median("x"), [INF, INF], INF),
        (wr.Median("x"), [-INF, INF], NAN),
        (wr.Quantile("x", q=0.25), [-INF, 1.0, 2.0], -INF),
        (wr.Quantile("x", q=0.75), [1.0, 2.0, INF], INF),
        (wr.Quantile("x", q=0.25), [1.0, 2.0, INF], 1.5),
        (wr.Median("x"), [-1.7e308, 1.7e308], 0.0),
        (wr.Quantile("x", q=0.25), [-1.6e308, 1.6e308], -8e307),
        (wr.Quantile("x", q=0.75), [-1.6e308, 1.6e308], 8e307),
    ],
    ids=lambda value: str(value)[:40],
)
def test_results_of_floats(aggregate: Aggregate, values: list[Any], expected: Any) -> None:
    got = result(aggregate, values)
    assert got is None if expected is None else got == pytest.approx(expected, rel=1e-12, nan_ok=True)


@pytest.mark.parametrize(
    ("aggregate", "values", "types", "expected"),
    [
        (wr.Sum("x"), [2**62, 2**62, -(2**63)], [pa.int64()], 0),
        (wr.Sum("x"), [2**64 - 1], [pa.uint64()], 2**64 - 1),
        (wr.Sum("x"), [-(2**63), 2**63 - 1], [pa.int64()], -1),
        (wr.Sum("x"), [127, 127, -128], [pa.int8()], 126),
        (wr.Sum("x"), [True, None, True], [pa.bool_()], 2),
        (wr.Sum("x"), [0.5, 0.25], [pa.float32()], 0.75),
        (wr.Mean("x"), [2**62, 2**62, 2**62], [pa.int64()], float(2**62)),
        (wr.Mean("x"), [True, False], [pa.bool_()], 0.5),
        (wr.Mean("x"), [2**62, 2**62 + 1, 2**62 + 1024], [pa.int64()], (3 * 2**62 + 1025) / 3),
        (wr.Var("x"), [2**60, 2**60 + 1, 2**60 + 2], [pa.int64()], 1.0),
        (wr.Std("x"), [2**60, 2**60 + 4], [pa.int64()], math.sqrt(8)),
        (wr.Var("x", ddof=0), [-(2**63), 2**63 - 1], [pa.int64()], (2**64 - 1) ** 2 / 4),
        (wr.Var("x"), [2**64 - 1, 2**64 - 2, 2**64 - 3], [pa.uint64()], 1.0),
        (wr.Var("x"), [2**31 - 1, 2**31, 2**31 + 1], [pa.int64()], 1.0),
        (wr.Var("x"), [True, False], [pa.bool_()], 0.5),
        (wr.Var("x"), [7], [pa.int64()], None),
        (wr.Mean("x"), [Decimal("0.10"), Decimal("0.20")], [pa.decimal128(5, 2)], 0.15),
        (wr.Sum("x"), [Decimal("9.9") * 10**27] * 2, [pa.decimal128(38, 1)], Decimal("19.8") * 10**27),
        (
            wr.Sum("x"),
            [datetime.timedelta(1), datetime.timedelta(2)],
            [pa.duration("us")],
            datetime.timedelta(3),
        ),
        (wr.Max("x"), ["b", None, "ab"], [pa.string()], "b"),
        (wr.Min("x"), [True, False], [pa.bool_()], False),
        (
            wr.Max("x"),
            [datetime.date(2024, 2, 29), datetime.date(2023, 1, 1)],
            [pa.date32()],
            datetime.date(2024, 2, 29),
        ),
        (
            wr.ArgMax("x", "y"),
            [("a", 1.0), ("b", 3.0), ("c", 3.0), ("d", None)],
            [pa.string(), pa.float64()],
            "b",
        ),
        (wr.ArgMin("x", "y"), [(1, -INF), (2, -INF)], [pa.int32(), pa.float64()], 1),
        (wr.MinCount("x"), ["a", "b", "a"], [pa.string()], 2),
        (wr.Collect("x"), [True, False], [pa.bool_()], [True, False]),
        (wr.Collect("x"), [datetime.date(2024, 1, 1)], [pa.date32()], [datetime.date(2024, 1, 1)]),
        (wr.Collect("x"), [{"a": 1}, None], [pa.struct([("a", pa.int64())])], [{"a": 1}]),
        (wr.TopK("x", k=2), ["a", "c", "b"], [pa.string()], ["c", "b"]),
        (wr.Median("x"), [1, 2], [pa.int8()], 1.5),
        (wr.LongestIncreasingRun("x"), ["a", "b", "a"], [pa.string()], 2),
        (wr.First("x"), [None, [1], [2]], [pa.list_(pa.int64())], [1]),
        (wr.Max("x"), ["a", "b"], [pa.dictionary(pa.int32(), pa.string())], "b"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_results_of_other_types(aggregate: Aggregate, values: Any, types: Any, expected: Any) -> None:
    assert result(aggregate, values, *types) == expected


@pytest.mark.parametrize("kind", sorted(Aggregate.kinds))
def test_no_row_and_only_nulls_are_alike(kind: str) -> None:
    aggregate = example(kind)
    nothing = {"Count": 0, "CountDistinct": 0, "HyperLogLog": 0, "Collect": []}.get(kind)
    assert result(aggregate, []) == nothing if aggregate.arity else True
    assert result(aggregate, [(None,) * aggregate.arity] * 2) == (nothing if aggregate.arity else 2)


def test_ten_tenths_are_one() -> None:
    one_by_one = reduce(add, [0.1] * 10)  # from Python 3.12 on, sum() has an error term too
    assert one_by_one != 1.0 == result(wr.Sum("x"), [0.1] * 10)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300), min_size=1)
)
def test_float_sums_are_right_to_the_last_bits(values: list[float]) -> None:
    exact = sum(map(Fraction, values))
    error = abs(Fraction(result(wr.Sum("x"), values)) - exact)
    assert error <= Fraction(2**-52) * abs(exact) + Fraction(len(values) ** 2 * 2**-104) * sum(
        abs(Fraction(v)) for v in values
    )


INTEGERS = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(2**60, 2**60 + 9) | st.integers(-9, 9),
    pa.uint64(): st.integers(0, 2**64 - 1) | st.integers(2**63 - 9, 2**63 + 9),
    pa.int8(): st.integers(-128, 127),
}


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@settings(deadline=None)
@given(data=st.data())
def test_means_of_integers_are_rounded_once(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(INTEGERS[type_], min_size=1))
    assert result(wr.Mean("x"), values, type_) == sum(values) / len(values)  # Python's division is exact


@pytest.mark.parametrize("type_", INTEGERS, ids=str)
@given(data=st.data())
def test_variances_of_integers_are_right_to_the_last_bits(type_: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(INTEGERS[type_], min_size=2))
    n = len(values)
    exact = Fraction(n * sum(x * x for x in values) - sum(values) ** 2, n * (n - 1))
    assert abs(Fraction(result(wr.Var("x"), values, type_)) - exact) <= Fraction(2**-51) * exact


@pytest.mark.parametrize("aggregate", [wr.Mean(), wr.Var(), wr.Std()], ids=str)
@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_compiled_integers_are_those_of_the_definition(aggregate: Aggregate, dtype: Any) -> None:
    info = np.iinfo(dtype)
    values = np.random.default_rng(4).integers(info.min, info.max, 40, dtype=dtype, endpoint=True)
    type_ = pa.from_numpy_dtype(np.dtype(dtype))
    windows = [values[i : i + 7].tolist() for i in range(len(values) - 6)]
    found = wr.sliding(values, aggregate, range=7)
    assert found.tolist() == [result(aggregate, window, type_) for window in windows]


@pytest.mark.parametrize("aggregate", [wr.Var("x"), wr.MomentSketch("x")], ids=str)
def test_partials_of_earlier_versions_are_refused_by_name(aggregate: Aggregate) -> None:
    """Var of integers had a count and two doubles, MomentSketch one number more."""
    monoid = aggregate.bind([pa.int64()])
    width = 24 if isinstance(aggregate, wr.Var) else 192
    body = bytes(2 * width)
    with pytest.raises(CorruptSnapshot, match=r"2 partials of \w+\(x\) take .* another aggregate or version"):
        decode(monoid, struct.pack("<II", zlib.crc32(body, 2), 2) + body)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20), st.floats(0, 1))
def test_quantiles_are_those_of_numpy(values: list[float], q: float) -> None:
    assert result(wr.Quantile("x", q=q), values) == np.quantile(values, q)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30))
def test_runs_are_those_of_the_definition(values: list[int]) -> None:
    longest = max(
        j - i
        for i in range(len(values))
        for j in range(i + 1, len(values) + 1)
        if all(a < b for a, b in zip(values[i:j], values[i + 1 : j], strict=False))
    )
    stops = sum(v == 0 and (i == 0 or values[i - 1] != 0) for i, v in enumerate(values))
    start = next(
        i for i in range(len(values)) if sorted(set(values[i : i + longest])) == values[i : i + longest]
    )
    located = wr.LongestIncreasingRun("x", at="y").bind([pa.int64(), pa.timestamp("us")])
    halves = [
        located.fold([(v, i) for i, v in enumerate(values)][part]) for part in (slice(0, 7), slice(7, None))
    ]
    assert located.result(located.combine(*halves)) == (longest, start, start + longest - 1)
    assert result(wr.LongestIncreasingRun("x"), values, pa.int64()) == longest
    assert result(wr.Stops("x"), values, pa.int64()) == stops


@pytest.mark.parametrize("type_", [pa.float64(), pa.int64()], ids=str)
def test_sql_computes_every_field_of_the_partial(type_: pa.DataType) -> None:
    offered = set()
    for kind in Aggregate.kinds:
        monoid = example(kind).bind([type_] * example(kind).arity)
        for engine in ("spark", "flink"):
            expressions = monoid.sql and monoid.sql.on(engine)
            if expressions is not None:
                offered.add((kind, engine))
                assert sorted(expressions) == sorted(f.name for f in monoid.fields or ())
                assert all(e.format("x") for e in expressions.values())
    assert {(k, e) for k in ("Count", "Sum", "Mean", "Min", "Max") for e in ("spark", "flink")} <= offered


def test_overflow_is_never_silent() -> None:
    for values, type_ in (([2**63 - 1, 1], pa.int64()), ([2**64 - 1, 1], pa.uint64())):
        with pytest.raises(OverflowError, match="does not fit"):
            result(wr.Sum("x"), values, type_)
    with pytest.raises(OverflowError, match="decimal"):
        result(wr.Sum("x"), [Decimal("9" * 38)] * 2, pa.decimal128(38, 0))


# What is refused.


SEVERAL = wr.product({"all": wr.Collect("x"), "mean": wr.Mean("x"), "middle": wr.Median("y")})


@pytest.mark.parametrize(
    ("aggregate", "type_"),
    [
        (aggregate, type_)
        for aggregate in (wr.Collect("x"), wr.TopK("x", k=2), wr.Median("x"), SEVERAL)
        for type_ in (pa.float64(), pa.int8(), pa.string())
        if type_ != pa.string() or isinstance(aggregate, wr.Collect | wr.TopK)
    ],
    ids=str,
)
def test_many_rows_are_lifted_as_one_by_one(aggregate: Aggregate, type_: pa.DataType) -> None:
    """A row without a slot, or with a null, is left out; partials of other slots stay."""
    monoid = aggregate.bind([type_] * aggregate.arity)
    column = pa.array([4, 1, 3, 1, 2, 7, 5, 3, 6, 2], pa.int8()).cast(type_)
    columns = [arrow.to_numpy(column)[0]] * aggregate.arity
    slots = np.array([2, 0, 2, -1, 2, 0, 0, 2, 0, 0])
    valid = np.array([True] * 8 + [False, True])
    together, alone = allocate(monoid, 3), allocate(monoid, 3)
    for _ in range(2):
        assert absorb_many(monoid, together[0], slots, columns, valid)
        for row in np.flatnonzero((slots >= 0) & valid):
            lifted = monoid.lift(*(column[row] for column in columns))
            alone[0][slots[row]] = monoid.combine(alone[0][slots[row]], lifted)
    assert encode(monoid, together, 0, 3) == encode(monoid, alone, 0, 3)


@pytest.mark.parametrize(("many", "few"), [(1, 1), (50, 3), (3000, 2999), (9000, 2)])
def test_sorted_values_are_merged_bit_by_bit(many: int, few: int) -> None:
    """Few into many and many into many are merged in different ways; 0.0 and -0.0 keep their places."""
    random = np.random.default_rng(many)
    combine = wr.Median("x").bind([pa.float64()]).combine
    values = np.array([-1.0, -0.0, 0.0, 1.0, NAN])
    a, b = (np.sort(random.choice(values, count), kind="stable") for count in (many, few))
    assert combine(a, b).tobytes() == np.insert(a, np.searchsorted(a, b), b).tobytes()


def test_rows_are_lifted_one_by_one_where_that_is_cheaper() -> None:
    """Few rows to a slot, or a partial that does not grow with them."""
    rows, every = np.arange(8), np.empty(0, dtype=bool)
    growing, constant = wr.Collect("x").bind(), wr.Max("x").bind([pa.string()])
    assert absorb_many(growing, allocate(growing, 8)[0], rows // 4, [rows], every)
    assert not absorb_many(growing, allocate(growing, 8)[0], rows // 2, [rows], every)
    assert not absorb_many(constant, allocate(constant, 8)[0], rows // 4, [rows], every)


@pytest.mark.parametrize("kind", [wr.Collect, wr.Median, wr.TopK])
def test_a_batch_is_combined_once_with_a_slice(kind: Any) -> None:
    """Row by row, 100,000 rows in one window took 12 seconds."""
    combined = 0

    class Counting(kind, builtin=False):  # type: ignore[misc]
        def dense(self, types: Any) -> Monoid:
            monoid = super().dense(types)

            def combine(a: Any, b: Any) -> Any:
                nonlocal combined
                combined += 1
                return monoid.combine(a, b)

            return dataclasses.replace(monoid, combine=combine)

    query = wr.Query(time="ts", window=wr.TimeWindow("1s"), aggregates={"x": Counting("x")})
    operator = wr.Operator(query)
    operator.process(pa.table({"ts": range(20_000), "x": [float(x) for x in range(20_000)]}))
    assert operator.flush().num_rows == 1 and combined < 20


def test_product_is_typed_if_its_parts_are() -> None:
    typed = wr.product({"a": wr.Max("x"), "h": wr.HyperLogLog("x", precision=4)}).bind()
    assert typed.typed and not typed.compiles
    assert typed.output == pa.struct([("a", pa.float64()), ("h", pa.int64())])
    mixed = wr.product({"a": wr.Max("x"), "c": wr.Collect("x")}).bind()
    assert not mixed.typed and mixed.commutative is False
    assert result(wr.product({"s": wr.Std("x"), "c": wr.Collect("x")}), [(1.0, 1.0)]) == {
        "s": None,
        "c": [1.0],
    }


# Partials as bytes.


def test_collect_does_not_keep_the_values_of_every_suffix() -> None:
    """A window of 400 slices with a value each: all of its suffixes would be 80,000 references, of 640 KB."""
    query = wr.Query(window=wr.TimeWindow(400, 1), aggregates={"all": wr.Collect("x")})
    operator = wr.Operator(query, compiled=False)
    for begin in range(0, 1200, 40):
        if begin == 400:  # what is loaded and cached once is not counted
            tracemalloc.start()
        rows = range(begin, begin + 40)
        operator.process(pa.table({"ts": [*rows], "x": [float(row) for row in rows]}))
        windows = operator.advance(begin + 40)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert windows["all"].to_pylist()[-1] == [float(row) for row in range(800, 1200)]
    assert held < 320_000, held


@pytest.mark.parametrize("name", ["Avg", "StdDev", "approx_count_distinct", "TumblingWindow", "Quantil"])
def test_the_name_of_another_system_is_answered_with_ours(name: str) -> None:
    with pytest.raises(AttributeError, match=f"windrow has no '{name}'; did you mean '") as caught:
        getattr(wr, name)
    assert hasattr(wr, str(caught.value).split("'")[3])


def test_every_name_that_is_meant_is_there() -> None:
    assert set(ELSEWHERE.values()) <= set(wr.__all__)
    assert not [name for name in wr.__all__ if name.lower() in ELSEWHERE]
    assert not hasattr(wr, "nothing_like_it")
