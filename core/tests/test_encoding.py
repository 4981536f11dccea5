"""Values as bytes: what is written is read again, and damaged bytes are refused."""

from __future__ import annotations

import contextlib
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.columns.encoding import decode, decode_value, encode, encode_value
from windrow.errors import AggregateError, CorruptSnapshot
from windrow.kernels.partials import allocate

VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
        st.decimals(allow_nan=False),
        st.datetimes(),
        st.dates(),
        st.times(),
        st.timedeltas(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.frozensets(st.integers() | st.text(), max_size=4),
        st.sets(st.integers(), max_size=4),
    ),
    max_leaves=10,
)


@given(VALUES)
def test_values_survive(value: Any) -> None:
    blob = encode_value(value)
    back = decode_value(blob)
    assert back == value and type(back) is type(value) and encode_value(back) == blob


def test_arrays_and_numpy_numbers_survive() -> None:
    for array in (
        np.arange(6, dtype=">i4").reshape(2, 3),
        np.array([], dtype=np.float32),
        np.array(["a", "bc"]),
    ):
        back = decode_value(encode_value(array))
        assert back.shape == array.shape and (back == array).all()
    assert decode_value(encode_value(np.float32(1.5))) == np.float32(1.5)
    assert encode_value({2, 1, 300}) == encode_value({300, 1, 2})


@pytest.mark.parametrize(
    "value", [object(), 1 + 2j, np.array([None]), {1: {2: [print]}}], ids=lambda value: type(value).__name__
)
def test_what_cannot_be_stored_is_named(value: Any) -> None:
    with pytest.raises(AggregateError, match="has no byte encoding; "):
        encode_value(value)


@settings(max_examples=300)
@given(VALUES, st.data())
def test_damaged_values_are_corrupt_and_nothing_else(value: Any, data: st.DataObject) -> None:
    blob = bytearray(encode_value(value))
    for _ in range(data.draw(st.integers(1, 3))):
        blob[data.draw(st.integers(0, len(blob) - 1))] = data.draw(st.integers(0, 255))
    blob = blob[: data.draw(st.integers(0, len(blob)))]
    with contextlib.suppress(CorruptSnapshot):
        decode_value(bytes(blob))


def test_damaged_partials_are_corrupt() -> None:
    for monoid in (wr.Mean("x").bind(), wr.HyperLogLog("x", precision=4).bind(), wr.Collect("x").bind()):
        blob = encode(monoid, allocate(monoid, 4), 1, 4)
        assert len(decode(monoid, blob)[0]) == 3
        assert len(decode(monoid, encode(monoid, allocate(monoid, 0), 0, 0))[0]) == 0
        for cut in range(len(blob)):
            with pytest.raises(CorruptSnapshot):
                decode(monoid, blob[:cut])
        for position in range(len(blob)):
            with pytest.raises(CorruptSnapshot):
                decode(monoid, blob[:position] + bytes([blob[position] ^ 1]) + blob[position + 1 :])
    with pytest.raises(CorruptSnapshot, match="another aggregate"):
        decode(wr.Max("x").bind(), encode(wr.Mean("x").bind(), allocate(wr.Mean("x").bind(), 1), 0, 1))


@pytest.mark.parametrize(
    "body",
    [
        b"t\xff\xff\xff\xff",
        b"t\x01\0\0\0" * 200 + b"N",
        b"a\x03\0\0\0|O8\0\0\0\0\0\0\0\0",
        b"i\xff\xff\xff\x7f",
        b"?",
    ],
)
def test_bytes_that_ask_for_too_much(body: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_value(body)
    objects = wr.Collect("x").bind()
    with pytest.raises(CorruptSnapshot):
        decode(objects, struct.pack("<II", zlib.crc32(body, 2**31), 2**31) + body)
