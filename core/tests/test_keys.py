"""Keys are Arrow values: two are one key if and only if their values are equal. Null is a value, NaN is one value."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Context, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.columns.encoding import decode_value, encode_value
from windrow.columns.words import flat
from windrow.errors import ColumnError, CorruptSnapshot
from windrow.operator.keys import Keys

NAN = float("nan")
STOCKHOLM = "Europe/Stockholm"


def _integers(bits: int, *special: int) -> st.SearchStrategy[Any]:
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    chosen = [0, 1, 2, -1, 255, 256, 999, 1000, least, most, *special]
    return st.sampled_from([value for value in chosen if least <= value <= most]) | st.integers(least, most)


def _floats(dtype: Any) -> st.SearchStrategy[Any]:
    other = np.array([NAN], dtype=dtype)
    other.view(f"u{other.itemsize}")[0] += 1  # a NaN with other bits
    numbers = [0.0, -0.0, 1.5, -1.5, float("inf"), -float("inf"), NAN, -NAN]
    return st.sampled_from([*map(np.dtype(dtype).type, numbers), other[0]])


TEXTS = st.sampled_from(
    ["", "a", "b", "\0", "a\0", "abcdefg", "abcdefgh", "abcdefg\0", "ÿ", "ÿÿÿÿÿÿÿ"]
) | st.text(max_size=20)
BYTES = st.sampled_from([b"", b"\0", b"\xff" * 7, b"\xff" * 8, b"abcdefg"]) | st.binary(max_size=20)
REPEATED_HOUR = [1_729_987_200 + step * 1800 for step in range(8)]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def _moments(type_: pa.DataType) -> tuple[pa.DataType, st.SearchStrategy[Any]]:
    special = [time * UNITS[type_.unit] for time in REPEATED_HOUR] if pa.types.is_timestamp(type_) else []
    return type_, _integers(64 if type_.bit_width == 64 else 32, *special)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Any]:
    whole = st.sampled_from([0, 1, -1, 10**digits - 1, 1 - 10**digits]) | st.integers(
        1 - 10**digits, 10**digits - 1
    )
    return whole.map(lambda number: Decimal(number).scaleb(-scale, _CONTEXT))


_CONTEXT = Context(prec=80)
KINDS: dict[pa.DataType, Any] = {
    pa.null(): st.none(),
    pa.bool_(): st.booleans(),
    **{pa.from_numpy_dtype(f"i{n // 8}"): _integers(n) for n in (8, 16, 32, 64)},
    **{
        pa.from_numpy_dtype(f"u{n // 8}"): _integers(n).map(lambda i, n=n: i + (1 << (n - 1)))
        for n in (8, 16, 32, 64)
    },
    **{pa.from_numpy_dtype(f"f{n}"): _floats(f"f{n}") for n in (2, 4, 8)},
    pa.decimal128(38, 10): _decimals(38, 10),
    pa.decimal256(76, 0): _decimals(76, 0),
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.binary(): BYTES,
    pa.large_binary(): BYTES,
    pa.binary(9): st.binary(min_size=9, max_size=9),
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    **dict(_moments(pa.timestamp(unit)) for unit in UNITS),
    **dict(_moments(pa.timestamp(unit, STOCKHOLM)) for unit in UNITS),
    **dict(_moments(pa.duration(unit)) for unit in UNITS),
    **dict(_moments(type_) for type_ in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"))),
    pa.date32(): _integers(32, 2_932_896, 2_932_897),
    pa.date64(): _integers(64, 86_400_000, 2_932_896 * 86_400_000, 2_932_897 * 86_400_000),
}
if hasattr(pa, "decimal32"):
    KINDS |= {pa.decimal32(9, 2): _decimals(9, 2), pa.decimal64(18, 2): _decimals(18, 2)}
if hasattr(pa, "uuid"):
    KINDS |= {pa.uuid(): st.sampled_from([b"\0" * 16, b"\xff" * 16]) | st.binary(min_size=16, max_size=16)}


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    """An array of any type from what :data:`KINDS` draws: the integers of dates and times."""
    if pa.types.is_temporal(type_):
        return pa.array(values, pa.int32() if type_.bit_width == 32 else pa.int64()).view(type_)
    if pa.types.is_floating(type_):
        mask = np.array([value is None for value in values], dtype=np.bool_)
        dtype = type_.to_pandas_dtype()
        return pa.array(np.array([0 if value is None else value for value in values], dtype=dtype), mask=mask)
    if isinstance(type_, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(type_, pa.array(values, type_.storage_type))
    return pa.array(values, type_)


def _scalars(array: pa.Array) -> list[pa.Scalar]:
    return list(flat(array))


def _is_nan(scalar: pa.Scalar) -> bool:
    return pa.types.is_floating(scalar.type) and scalar.is_valid and bool(np.isnan(scalar.as_py()))


def _is_same(one: pa.Scalar, other: pa.Scalar) -> bool:
    if not (one.is_valid and other.is_valid):
        return one.is_valid == other.is_valid
    return bool(one.equals(other)) or (_is_nan(one) and _is_nan(other))


def _rank(scalar: pa.Scalar) -> tuple[Any, ...]:
    """Null, then values, then NaN."""
    if not scalar.is_valid:
        return (0,)
    if _is_nan(scalar):
        return (2,)
    if pa.types.is_temporal(scalar.type):
        return (
            1,
            pa.array([scalar]).view(pa.int32() if scalar.type.bit_width == 32 else pa.int64())[0].as_py(),
        )
    value = scalar.as_py()
    return (1, value.encode() if isinstance(value, str) else value)


class Model:
    """Keys by brute force: a list of Arrow scalars, compared one by one."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[pa.Scalar, ...]] = {}

    def find(self, key: tuple[pa.Scalar, ...]) -> int | None:
        return next((n for n, known in self.known.items() if all(map(_is_same, known, key))), None)

    def take(self, key: tuple[pa.Scalar, ...], number: int) -> None:
        found = self.find(key)
        assert found == number if found is not None else number not in self.known
        self.known.setdefault(number, key)


def _check(keys: Keys, model: Model) -> None:
    order = keys.order.tolist()
    assert order == sorted(model.known, key=lambda number: [_rank(value) for value in model.known[number]])
    ranks = keys.ranks()[keys.order].tolist()
    assert ranks == list(range(len(order)))
    some = keys.order[::3]
    assert np.argsort(keys.ranks_of(some[::-1]))[::-1].tolist() == list(range(len(some)))
    columns = keys.columns([sources[0] for sources in keys.sources([keys.order])])
    for column, (field, array) in enumerate(zip(keys.fields, columns, strict=True)):
        array.validate(
            full=not pa.types.is_temporal(field.type)
        )  # not every integer that was drawn is a time
        assert array.type == field.type
        pairs = zip(_scalars(array), order, strict=True)
        assert all(_is_same(scalar, model.known[number][column]) for scalar, number in pairs)


def _try_out(kinds: list[pa.DataType], data: st.DataObject, *, compiled: bool) -> None:
    fields = [pa.field(str(place), kind) for place, kind in enumerate(kinds)]
    keys, model = Keys(fields, compiled=compiled), Model()
    row = st.tuples(*(KINDS[kind] | st.none() for kind in kinds))
    for batch in data.draw(st.lists(st.lists(row, max_size=12), max_size=5)):
        arrays = [_array([key[place] for key in batch], kind) for place, kind in enumerate(kinds)]
        split = data.draw(st.integers(0, len(batch)))
        chunked = [pa.chunked_array([array[:split], array[split:]], array.type) for array in arrays]
        got = keys.number(pa.table(chunked, schema=pa.schema(fields))).tolist()
        for key, number in zip(zip(*map(_scalars, arrays), strict=True), got, strict=True):
            model.take(key, number)
        gone = data.draw(st.lists(st.sampled_from(sorted(model.known)), unique=True)) if model.known else []
        keys.forget(gone)
        for number in gone:
            del model.known[number]
        _check(keys, model)
        stored = encode_value(keys.plain(keys.order))
        restored, again = Keys(fields, compiled=compiled), Model()
        for number, old in zip(
            restored.load(decode_value(stored)).tolist(), keys.order.tolist(), strict=True
        ):
            again.take(model.known[old], number)
        _check(restored, again)
        assert encode_value(restored.plain(restored.order)) == stored
        if data.draw(st.booleans()):
            keys, model = restored, again


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=15)
def test_keys_are_arrow_values(kind: pa.DataType, data: st.DataObject) -> None:
    _try_out([kind], data, compiled=True)


@given(data=st.data(), compiled=st.booleans())
@settings(deadline=None, max_examples=60)
def test_keys_of_several_columns_are_arrow_values(data: st.DataObject, compiled: bool) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=4))
    _try_out(kinds, data, compiled=compiled)


@pytest.mark.parametrize("kind", [pa.int64(), pa.string()], ids=str)
def test_many_keys_come_and_go(kind: pa.DataType) -> None:
    keys, rng = Keys([pa.field("k", kind)]), np.random.default_rng(7)
    known: dict[int, int] = {}
    for _ in range(30):
        values = rng.integers(0, 30_000, 6000)
        got = keys.number(pa.table({"k": pa.array(values).cast(kind)}))
        for value, number in zip(values.tolist(), got.tolist(), strict=True):
            assert known.setdefault(value, number) == number
        assert len(set(known.values())) == len(known)
        gone = rng.choice(np.array(sorted(known)), len(known) // 3, replace=False).tolist()
        keys.forget([known.pop(value) for value in gone])
        shown = [int(value) for (value,) in keys.plain(keys.order)]
        assert shown == sorted(known, key=None if kind == pa.int64() else str)
    assert keys.count < 30_000


COUNTED = wr.Query(by="k", window=wr.TimeWindow(10), aggregates={"n": wr.Count()})


def _counts(keys: Any, query: wr.Query = COUNTED) -> list[tuple[Any, int]]:
    """How many rows each key has, over a snapshot."""
    operator = wr.Operator(query)
    operator.process(pa.table({"k": keys, "ts": pa.array(range(len(keys)), pa.int64())}))
    windows = wr.Operator.restore(query, operator.snapshot()).flush()
    assert windows.schema.field("k").type == keys.type
    return list(zip(windows.column("k").cast(keys.type), windows.column("n").to_pylist(), strict=True))


def test_the_repeated_hour_has_two_keys_for_each_time() -> None:
    zone = ZoneInfo(STOCKHOLM)
    twice = [datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold) for fold in (0, 1)]
    array = pa.array([time.astimezone(UTC) for time in twice], pa.timestamp("us", STOCKHOLM))
    assert [count for _, count in _counts(array)] == [1, 1]


@pytest.mark.parametrize("kind", [pa.time64("ns"), pa.timestamp("ns"), pa.duration("ns")], ids=str)
def test_a_nanosecond_makes_another_key(kind: pa.DataType) -> None:
    assert [count for _, count in _counts(pa.array([1000, 1001, 1002, 1001]).view(kind))] == [1, 2, 1]


def test_days_beyond_the_year_9999_are_keys() -> None:
    days = pa.array([2_932_897, -800_000, 2_932_897], pa.int32()).view(pa.date32())
    assert [count for _, count in _counts(days)] == [1, 2]


@pytest.mark.skipif(not hasattr(pa, "uuid"), reason="this pyarrow has no such type")
def test_uuids_are_keys() -> None:
    ids = [uuid.UUID(int=2), uuid.UUID(int=1), uuid.UUID(int=2)]
    array = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([each.bytes for each in ids], pa.binary(16)))
    assert [(key.as_py(), count) for key, count in _counts(array)] == [(ids[1], 1), (ids[0], 2)]


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["b", "a"])], ids=str)
def test_categories_of_polars_are_keys(kind: Any) -> None:
    frame = pl.DataFrame({"k": ["b", "a", "b"], "ts": [1, 2, 3]}, schema_overrides={"k": kind})
    windows = wr.aggregate(frame, COUNTED)
    assert windows.select(["k", "n"]).to_pydict() == {"k": ["a", "b"], "n": [1, 2]}
    assert pl.from_arrow(windows)["k"].to_list() == ["a", "b"]


def test_more_keys_than_a_dictionary_can_index_are_refused_by_name() -> None:
    operator = wr.Operator(COUNTED)
    for start in (0, 100):
        names = pa.array([str(start + n) for n in range(100)]).cast(pa.dictionary(pa.int8(), pa.string()))
        operator.process(pa.table({"k": names, "ts": pa.array([1] * 100)}))
    with pytest.raises(
        ColumnError, match=r"key column 'k' is a dictionary<.*cannot count 200 values; cast it"
    ):
        operator.flush()


@pytest.mark.parametrize("data", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("schema", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
@pytest.mark.parametrize("window", [wr.TimeWindow(10), wr.CountWindow(1)], ids=["time", "count"])
def test_text_is_text_in_every_type(schema: pa.DataType, data: pa.DataType, window: Any) -> None:
    query = wr.Query(by="k", window=window, aggregates={"last": wr.Last("v")})
    types = pa.schema({"k": schema, "ts": pa.int64(), "v": schema})
    operator = wr.Operator(query, types)
    for value in ("x", None):
        operator.process(pa.table({"k": pa.array([value], data), "ts": [1], "v": pa.array([value], data)}))
    windows = wr.Operator.restore(query, operator.snapshot()).flush()
    assert windows.select(["k", "last"]).to_pylist() == [{"k": None, "last": None}, {"k": "x", "last": "x"}]
    plain = pa.string() if schema == pa.string_view() else schema
    assert windows.schema.field("k").type == plain


def test_a_key_that_has_no_order_is_refused_when_the_query_is_bound() -> None:
    schema = pa.schema({"k": pa.month_day_nano_interval(), "ts": pa.int64()})
    with pytest.raises(
        ColumnError, match="key column 'k' is a month_day_nano_interval, whose values have no order"
    ):
        COUNTED.bind(schema)


@pytest.mark.parametrize("value", ["a", ("date32[day]", 1), ("time64[ns]", "a"), (1, 2, 3)], ids=str)
def test_stored_keys_of_another_type_are_refused(value: Any) -> None:
    with pytest.raises(CorruptSnapshot, match="keys that are no time64"):
        Keys([pa.field("k", pa.time64("ns"))]).load([(value,)])
