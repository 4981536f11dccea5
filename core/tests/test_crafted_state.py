"""State with a correct checksum that windrow has not written: each is the smallest of its kind."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scenarios import SCHEMA, query

import windrow as wr
from windrow import errors
from windrow.columns.encoding import decode_checked, decode_value, encode, encode_value
from windrow.columns.ipc import checked_ipc, from_ipc, to_ipc
from windrow.state.pages import MemoryPages
from windrow.storage import snapshot
from windrow.storage.codec import compress, decompress

ROWS = pa.table(
    {"k": ["a", "a", "b"], "ts": [1, 7, 22], "x": [1.0, 2.0, 3.0], "i": [1, 2, 3], "d": [1, 7, 22]}
).cast(SCHEMA)
HEAD = 22


def sealed(image: Any) -> bytes:
    body = encode_value(image)
    return snapshot._HEAD.pack(snapshot.MAGIC, snapshot.FIRST, len(body), zlib.crc32(body)) + body


def int64s(*numbers: int) -> bytes:
    return np.array(numbers, dtype=np.int64).tobytes()


def state_of(asked: wr.Query) -> dict[str, Any]:
    operator = wr.Operator(asked, SCHEMA)
    operator.process(ROWS)
    operator.advance(12)
    image: dict[str, Any] = decode_value(operator.snapshot()[HEAD:])
    return image


def restored(asked: wr.Query, image: Any) -> wr.Operator:
    return wr.Operator.restore(asked, sealed(image), compiled=False)


TIME = query(wr.TimeWindow(20, 5), ["n", "peak"], late="side")
BY_TIME = query(wr.SlideByTime(4, 15), ["n"])
FIRST = query(wr.TimeWindow(10, 5), ["last"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"front": int64s(0, 0), "lo": int64s(5, 5)}, "'lo' points to no slice"),
        ({"lo": int64s(1, -1), "front": int64s(0, -1), "back": int64s(0, -1)}, "not in order"),
        ({"back": int64s(-2, -1)}, "'back' points to no slice"),
        ({"front": int64s(-1)}, "'front' has 8 bytes"),
        ({"lengths": int64s(3, -1)}, "has -1 or 3"),
        ({"lengths": int64s(2**62, 2**62)}, "of 3 slices"),
        ({"keys": [("a",), ("a",)]}, "is in the state twice"),
        ({"keys": [("a",), (7,)]}, "do not fit.* no string"),
        ({"keys": [("a",), "b"]}, "tuple of 1 value"),
        ({"following": int64s(2**61, 0)}, "out of range"),
        ({"counters": {"seen": int64s(1, 1)}}, "no counter 'seen'"),
        ({"watermark": 2**70}, "'watermark' has to be a number"),
        ({"late_rows": -1}, "'late_rows' has to be a number"),
        ({"wake": None}, "'wake' has to be int"),
        ({"schema": b"none"}, "'schema' cannot be read"),
        ({"side": [to_ipc(pa.table({"other": [1]}))]}, "not the stream's"),
        ({"slices": 7}, "'slices' has to be dict"),
    ],
)
def test_an_image_that_no_operator_writes_is_refused(change: dict[str, Any], message: str) -> None:
    image = state_of(TIME)
    restored(TIME, image)
    with pytest.raises(errors.CorruptSnapshot, match=message):
        restored(TIME, {**image, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stamps": int64s(5, 5, 20)}, "not in order"),
        ({"stamps": int64s(0, 5)}, "partials of 2 slices"),
        ({"stamps": int64s(0, 5, 20)[:-1]}, "not a multiple of 8"),
        ({"stops": int64s(0, 4, 20)}, "ends before it begins"),
        ({"stops": int64s(0, 9, 20)}, "longer than a point"),
        ({"pages": int64s(1 << 48 | 1, 0, 0)}, "in no store"),
        ({"partials": {}}, "no partials of aggregate"),
    ],
)
def test_slices_that_no_operator_writes_are_refused(change: dict[str, Any], message: str) -> None:
    image = state_of(TIME)
    with pytest.raises(errors.CorruptSnapshot, match=message):
        restored(TIME, {**image, "slices": {**image["slices"], **change}})


def test_a_count_of_rows_that_is_not_theirs_is_refused() -> None:
    image = state_of(BY_TIME)
    with pytest.raises(errors.CorruptSnapshot, match="'held'"):
        restored(BY_TIME, {**image, "counters": {"held": int64s(10**9, 0)}})


def test_a_count_of_rows_of_a_cold_key_that_is_not_theirs_is_refused() -> None:
    pages = MemoryPages()
    operator = wr.Operator.open(BY_TIME, SCHEMA, pages, compiled=False, idle=wr.Idle(0, cohort=1))
    times = list(range(60))
    rows = pa.table({"k": ["a"] * 60, "ts": times, "x": [1.0] * 60, "i": times, "d": times}).cast(SCHEMA)
    operator.process(rows)
    operator.advance(70)
    operator.commit()
    (name,) = (name for name in pages.held if name.startswith("cold."))
    image = decode_value(decompress(pages.held[name])[HEAD:])
    image["counters"]["held"] = int64s(44)
    pages.held[name] = compress(sealed(image))
    again = wr.Operator.open(BY_TIME, SCHEMA, pages, compiled=False)
    with pytest.raises(errors.CorruptSnapshot, match="'held'"):
        again.snapshot()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": int64s(9)}, "'of' points beyond"),
        ({"times": int64s(22, 23)}, "'times' has 16 bytes for 1 row"),
        ({"times": int64s(2**62)}, "70,000 years"),
        ({"rows": b"none"}, "cannot be read"),
    ],
)
def test_rows_that_no_operator_keeps_are_refused(change: dict[str, Any], message: str) -> None:
    image = state_of(FIRST)
    (batch,) = image["waiting"]
    with pytest.raises(errors.CorruptSnapshot, match=message):
        restored(FIRST, {**image, "waiting": [{**batch, **change}]})


def test_rows_that_may_not_be_null_wait_beside_others() -> None:
    image = state_of(FIRST)
    (batch,) = image["waiting"]
    rows = from_ipc(batch["rows"])
    strict = rows.cast(
        pa.schema([field.with_nullable(rows[field.name].null_count > 0) for field in rows.schema])
    )
    assert strict.schema != rows.schema
    operator = restored(FIRST, {**image, "waiting": [{**batch, "rows": to_ipc(strict)}]})
    expected = restored(FIRST, image)
    for each in (operator, expected):
        each.process(ROWS)
    assert operator.flush().equals(expected.flush())


def stored_state(asked: wr.Query) -> MemoryPages:
    """A store with leaves, pages of slices and folded pages."""
    pages = MemoryPages()
    operator = wr.Operator.open(asked, SCHEMA, pages)
    times = list(range(300))
    operator.process(
        pa.table({"k": ["a"] * 300, "ts": times, "x": [1.0] * 300, "i": times, "d": times}).cast(SCHEMA)
    )
    operator.advance(300)
    operator.commit()
    return pages


LONG = query(wr.TimeWindow(1000, 1), ["n"])


def opened(asked: wr.Query, pages: MemoryPages, name: str, change: Callable[[dict[str, Any]], None]) -> None:
    image = decode_value(decompress(pages.held[name])[HEAD:])
    change(image)
    pages.held[name] = compress(sealed(image))
    wr.Operator.open(asked, SCHEMA, pages).snapshot()


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("tags", [0, 1], "'tags' has 2 entries for 1 keys"),
        ("made", [-1], "'made'"),
        ("made", [0], "has never had"),
        ("commit", "1", "'commit' has to be int"),
    ],
)
def test_a_leaf_that_no_operator_writes_is_refused(entry: str, value: Any, message: str) -> None:
    pages = stored_state(LONG)
    with pytest.raises((errors.CorruptSnapshot, errors.StoreError), match=message):
        opened(LONG, pages, "leaf.0", lambda image: image.update({entry: value}))


@pytest.mark.parametrize(
    ("entry", "value", "message"),
    [
        ("pages", int64s(*[1 << 48 | 1] * 32), "level below"),
        ("stamps", int64s(*range(32, 0, -1)), "not in order|ends before"),
        ("stamps", int64s(1, 2), "partials of 2 slices"),
    ],
)
def test_a_page_that_no_operator_writes_is_refused(entry: str, value: Any, message: str) -> None:
    """Among them a page of slices that stand for the page itself."""
    pages = stored_state(LONG)
    with pytest.raises((errors.CorruptSnapshot, errors.StoreError), match=message):
        opened(LONG, pages, "0.1.0", lambda image: image.update({entry: value}))


@pytest.mark.parametrize(
    ("page", "message"),
    [(9 << 48 | 1, "cannot exist"), (1 << 48 | 1, "two slices stand for one page")],
)
def test_slices_that_stand_for_no_page_of_their_own_are_refused(page: int, message: str) -> None:
    """One level is deeper than any table has room for. One page has several slices that stand for it."""
    pages = stored_state(LONG)

    def all_stand_for_it(image: dict[str, Any]) -> None:
        folded = np.frombuffer(image["slices"]["pages"], dtype=np.int64).copy()
        folded[folded != 0] = page
        image["slices"]["pages"] = folded.tobytes()

    with pytest.raises(errors.CorruptSnapshot, match=message):
        opened(LONG, pages, "leaf.0", all_stand_for_it)


@pytest.mark.parametrize(
    ("aggregate", "partial"),
    [
        (wr.Collect("x"), 7),
        (wr.Collect("x"), ("text",)),
        (wr.Median("x"), np.array([], dtype=np.float64)),
        (wr.Median("x"), np.array([1], dtype=np.int8)),
        (wr.TopK("x", k=2), (1.0, None)),
    ],
)
def test_objects_that_are_no_partials_are_refused(aggregate: wr.Aggregate, partial: Any) -> None:
    monoid = aggregate.bind()
    objects = np.empty(1, dtype=object)
    objects[0] = partial
    blob = encode(monoid, (objects,), 0, 1)
    with pytest.raises(errors.CorruptSnapshot, match="a partial of"):
        decode_checked(monoid, blob)


def test_own_partials_that_do_not_combine_are_refused() -> None:
    @wr.aggregate_type(identity=(), output="int64", commutative=False)
    class Joined:
        def lift(x: Any) -> Any:  # type: ignore[misc]
            return (x,)

        def combine(a: Any, b: Any) -> Any:  # type: ignore[misc]
            return a + b

        def lower(p: Any) -> Any:  # type: ignore[misc]
            return len(p)

        def defined(p: Any) -> bool:  # type: ignore[misc]
            return True

    joined = Joined("x").bind()
    objects = np.empty(1, dtype=object)
    objects[0] = (1.0,)
    assert decode_checked(joined, encode(joined, (objects,), 0, 1))[0][0] == (1.0,)
    objects[0] = 7
    with pytest.raises(errors.CorruptSnapshot, match="cannot be combined"):
        decode_checked(joined, encode(joined, (objects,), 0, 1))


def test_a_table_is_checked_to_its_last_value() -> None:
    blob = bytearray(to_ipc(pa.table({"k": ["aaaa", "bbbb"]})))
    place = bytes(blob).index(np.array([0, 4, 8], dtype=np.int32).tobytes())
    blob[place + 4 : place + 8] = np.array([2**30], dtype=np.int32).tobytes()
    with pytest.raises(errors.CorruptSnapshot, match=r"damaged|cannot be read"):
        checked_ipc(bytes(blob))


def test_a_length_that_cannot_be_is_refused_before_it_is_allocated() -> None:
    with pytest.raises(errors.CorruptSnapshot, match="cannot be decompressed to 4294967295"):
        decompress(b"\1\xff\xff\xff\xff\x0f" + b"x" * 20)


@pytest.mark.parametrize("name", [b"O", b"(9999,9999)f8", b"f8,f8", b"<V8", b"|O"])
def test_no_array_has_a_type_beyond_numbers_and_text(name: bytes) -> None:
    size = len(name).to_bytes(4, "little")
    with pytest.raises(errors.CorruptSnapshot, match="has the type"):
        decode_value(b"a" + size + name + b"\0" * 12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": to_ipc(pa.table({"other": [1]}))}, "have the columns other"),
        ({"times": int64s(21)}, "the times of their column 'ts'"),
        ({"keys": [(7,)]}, "keys that are no string"),
    ],
)
def test_rows_of_another_query_are_refused(change: dict[str, Any], message: str) -> None:
    image = state_of(FIRST)
    (batch,) = image["waiting"]
    with pytest.raises(errors.CorruptSnapshot, match=message):
        restored(FIRST, {**image, "waiting": [{**batch, **change}]})


def test_a_watermark_behind_the_windows_is_refused() -> None:
    with pytest.raises(errors.CorruptSnapshot, match="the watermark has not reached"):
        restored(TIME, {**state_of(TIME), "watermark": -100})


def test_a_page_of_other_slices_is_refused() -> None:
    pages = stored_state(LONG)

    def earlier(image: dict[str, Any]) -> None:
        image["stamps"] = (np.frombuffer(image["stamps"], dtype=np.int64) - 1).tobytes()

    with pytest.raises(errors.CorruptSnapshot, match="not what its slice stands for"):
        opened(LONG, pages, "0.1.0", earlier)
