# SPDX-License-Identifier: Apache-2.0
"""Values of key columns as 64-bit words, whose equality and order are those of the Arrow values.

Null is a value and comes first. All NaNs are one value and come last. -0.0 is 0.0. Two values of a column are equal if
their words are. They are in the order of their words, compared one by one as signed numbers.

=====================================  =================================================================================
numbers and times of up to 32 bits     one word: the value << 8 | 1; the least number for null
those of 64 bits                       two words: 1 (0 for null), and the value
decimals of 128 and 256 bits           1 (0 for null), then the value, two or four words, the highest first
text and bytes                         seven bytes in each word. The lowest byte of the word is 255 if more follow, else
                                       one more than how many there are, or 0 for null
=====================================  =================================================================================

The value of a floating-point number is its bits, with all but the sign inverted if it is negative. Where the order is
that of unsigned numbers, the sign bit of the word is inverted.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.columns import arrow, text
from windrow.kernels import keys as kernels_of_keys
from windrow.kernels.specialise import specialise

Words = NDArray[np.int64]
LEAST, LARGEST = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)
EVERY_WORD = np.zeros(0, dtype=np.int64)


class WordRows(NamedTuple):
    """Rows of words: ``begins`` says where each begins, and where the last one ends; empty if all are equally long."""

    words: Words
    begins: Words
    total: int

    def length(self, row: int, width: int) -> int:
        """How many words a row has."""
        return width or int(self.begins[row + 1] - self.begins[row])


def plain_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values themselves: that in a dictionary, or that which stores an extension type."""
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    return plain_type(type_.value_type) if pa.types.is_dictionary(type_) else type_


def can_be_key(type_: pa.DataType) -> bool:
    """Whether values of this type have words."""
    plain = plain_type(type_)
    known = is_text(plain) or pa.types.is_decimal(plain) or pa.types.is_null(plain)
    return known or arrow.physical_dtype(plain).kind != "O"


def is_text(type_: pa.DataType) -> bool:
    """Whether values are text or bytes."""
    return text.is_text(type_) or pa.types.is_fixed_size_binary(type_)


class Layout:
    """How the values of some columns lie in a row of words."""

    def __init__(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> None:
        self.types = tuple(types)
        self.plain = [plain_type(type_) for type_ in types]
        self.columns = np.array([_count(type_) for type_ in self.plain], dtype=np.int64)
        """How many words each column has; 0 for text."""
        self.width = int(self.columns.sum()) if self.columns.all() else 0
        """How many words a row has; 0 if that varies."""
        self._kernels: SimpleNamespace = specialise(kernels_of_keys, {}, compiled=compiled)
        self._ends = np.cumsum(self.columns).tolist()

    def rows(self, arrays: Sequence[pa.Array]) -> WordRows:
        """The rows of some columns, each one array of values as :func:`flat` gives it."""
        count = len(arrays[0])
        if self.width:
            matrix = np.empty((count, self.width), dtype=np.int64)
            for array, end, words in zip(arrays, self._ends, self.columns.tolist(), strict=True):
                _write(array, matrix[:, end - words : end])
            return WordRows(matrix.reshape(-1), EVERY_WORD, count)
        texts = {n: _bytes_of(array) for n, array in enumerate(arrays) if not self.columns[n]}
        lengths = np.full(count, int(self.columns.sum()), dtype=np.int64)
        for _, offsets, valid in texts.values():
            many = np.maximum((np.diff(offsets) + kernels_of_keys.LETTERS - 1) // kernels_of_keys.LETTERS, 1)
            lengths += np.where(valid, many, 1) if len(valid) else many
        begins = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(lengths, out=begins[1:])
        words, places = np.empty(int(begins[-1]), dtype=np.int64), begins[:-1].copy()
        for n, array in enumerate(arrays):
            if n in texts:
                self._kernels.write_texts(*texts[n], words, places)
                continue
            values = np.empty((count, self.columns[n]), dtype=np.int64)
            _write(array, values)
            for position in range(values.shape[1]):
                words[places + position] = values[:, position]
            places += values.shape[1]
        return WordRows(words, begins, count)

    def values(self, column: int, words: Words, begins: Words) -> Any:
        """The physical values of a column of numbers, in rows that begin there."""
        last = words[self._places(column, words, begins) + int(self.columns[column]) - 1]
        return _values(last, self.plain[column])

    def array(self, column: int, words: Words, begins: Words) -> pa.Array:
        """A column of some rows, in the type of its values."""
        plain = self.plain[column]
        if pa.types.is_null(plain):
            return pa.nulls(len(begins))
        if is_text(plain):
            return self._texts(plain, words, self._places(column, words, begins))
        places = self._places(column, words, begins)
        valid = words[places] != _null(plain)
        if pa.types.is_decimal(plain):
            return _decimals(words, places, valid, plain)
        return arrow.from_numpy(self.values(column, words, begins), valid, plain)

    def _places(self, column: int, words: Words, begins: Words) -> Words:
        """Where a column begins in each row."""
        if self.columns[:column].all():
            return begins + int(self.columns[:column].sum())
        places = np.empty(len(begins), dtype=np.int64)
        self._kernels.seek(words, begins, self.columns, column, places)
        return places

    def _texts(self, type_: pa.DataType, words: Words, places: Words) -> pa.Array:
        lengths, valid = np.empty(len(places), dtype=np.int64), np.empty(len(places), dtype=np.bool_)
        self._kernels.measure_texts(words, places, lengths, valid)
        if pa.types.is_fixed_size_binary(type_):
            lengths[:] = type_.byte_width
        offsets = np.zeros(len(places) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.zeros(int(offsets[-1]), dtype=np.uint8)
        chosen = np.flatnonzero(valid) if pa.types.is_fixed_size_binary(type_) and not valid.all() else None
        if chosen is None:
            self._kernels.read_texts(words, places, offsets, data)
        else:
            inside = np.empty((len(chosen), type_.byte_width), dtype=np.uint8)
            starts = np.arange(len(chosen) + 1, dtype=np.int64) * type_.byte_width
            self._kernels.read_texts(words, places[chosen], starts, inside.reshape(-1))
            data.reshape(len(places), type_.byte_width)[chosen] = inside
        return _text_array(type_, offsets, data, valid)


def flat(column: arrow.Column) -> pa.Array:
    """A column as one array of plain values: out of its dictionary, or as an extension type stores them."""
    array = arrow.one_array(column)
    while isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _count(type_: pa.DataType) -> int:
    if is_text(type_):
        return 0
    if pa.types.is_null(type_):
        return 1
    bits = type_.bit_width
    return 1 if bits <= 32 else 1 + bits // 64


def _null(type_: pa.DataType) -> np.int64:
    return LEAST if pa.types.is_null(type_) or type_.bit_width <= 32 else np.int64(0)


def _write(array: pa.Array, words: Words) -> None:
    """The words of numbers."""
    type_ = array.type
    if pa.types.is_null(type_):
        words[:] = LEAST
        return
    if pa.types.is_decimal(type_):
        valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
        values = _parts(array)
    else:
        numbers, valid = arrow.to_numpy(array)
        values = _ordered(numbers)
    if words.shape[1] == 1:
        words[:, 0] = values.reshape(-1).astype(np.int64) << 8 | 1
    else:
        words[:, 0] = 1
        words[:, 1:] = values.reshape(len(words), -1)
    if valid is not None:
        words[~valid] = _null(type_)


def _ordered(values: Any) -> Any:
    """Numbers as signed numbers in the same order."""
    if values.dtype.kind == "f":
        values = np.where(
            np.isnan(values), np.array(np.nan, dtype=values.dtype), values + values.dtype.type(0)
        )
        return _fold(values.view(f"i{values.dtype.itemsize}"))
    return values.view(np.int64) ^ LEAST if values.dtype == np.uint64 else values


def _fold(bits: Any) -> Any:
    """The bits of floating-point numbers as numbers in the same order, and back."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max)


def _values(words: Words, type_: pa.DataType) -> Any:
    """The physical values whose last words these are."""
    dtype = arrow.physical_dtype(type_)
    numbers = words >> 8 if type_.bit_width <= 32 else words
    if dtype.kind == "f":
        return _fold(numbers.astype(f"i{dtype.itemsize}")).view(dtype)
    return (numbers ^ LEAST).view(np.uint64) if dtype == np.uint64 else numbers.astype(dtype, copy=False)


def _parts(array: pa.Array) -> Words:
    """Decimals as words, the highest first."""
    size = array.type.bit_width // 8
    dtype = np.dtype(np.int32 if size == 4 else np.int64)
    raw = np.frombuffer(array.buffers()[1] or b"", dtype=dtype)
    parts = raw.reshape(-1, size // dtype.itemsize)[array.offset : array.offset + len(array), ::-1].copy()
    parts[:, 1:] ^= LEAST if size > 4 else 0
    return parts


def _decimals(words: Words, places: Words, valid: Any, type_: pa.DataType) -> pa.Array:
    raw: Any
    if type_.bit_width == 32:
        raw = (words[places] >> 8).astype(np.int32)
    else:
        parts = type_.bit_width // 64
        raw = np.empty((len(places), parts), dtype=np.int64)
        for position in range(parts):
            raw[:, parts - 1 - position] = words[places + position + 1] ^ (LEAST if position else 0)
    return pa.Array.from_buffers(type_, len(places), [_bitmap(valid), pa.py_buffer(raw)])


def _bytes_of(array: pa.Array) -> tuple[Any, Words, Any]:
    """Bytes, where each text begins and ends in them, and which texts are valid; empty if all are."""
    count, buffers = len(array), array.buffers()
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else np.zeros(0, np.bool_)
    data = np.frombuffer(buffers[-1] or b"", dtype=np.uint8)
    data.setflags(write=False)
    if pa.types.is_fixed_size_binary(array.type):
        return data, (np.arange(count + 1) + array.offset) * array.type.byte_width, valid
    if not count:
        return data, np.zeros(1, np.int64), valid
    dtype = np.dtype(np.int64 if text.is_large(array.type) else np.int32)
    offsets = np.frombuffer(buffers[1], dtype=dtype, count=count + 1, offset=array.offset * dtype.itemsize)
    return data, offsets.astype(np.int64), valid


def _text_array(type_: pa.DataType, offsets: Words, data: Any, valid: Any) -> pa.Array:
    count, bitmap, body = len(valid), _bitmap(valid), pa.py_buffer(data)
    if pa.types.is_fixed_size_binary(type_):
        return pa.Array.from_buffers(type_, count, [bitmap, body])
    large = text.is_large(type_) or offsets[-1] >= 1 << 31
    built = text.text_type(type_, large=large)
    places = pa.py_buffer(offsets if large else offsets.astype(np.int32))
    array = pa.Array.from_buffers(built, count, [bitmap, places, body])
    return array if built == type_ else array.cast(type_)


def _bitmap(valid: Any) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
