# SPDX-License-Identifier: Apache-2.0
"""Which values may have occurred."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Field, Monoid, link
from windrow.aggregates.hashing import digest, hash_float, hash_signed, hash_unsigned, mixed
from windrow.columns.arrow import physical_dtype
from windrow.errors import AggregateError


@dataclass(frozen=True)
class BloomFilter(Aggregate):
    """A filter, as bytes, that answers whether a value occurred: "no" is certain, "yes" is wrong with
    probability ``error``.

    The error holds for up to ``capacity`` different values in a window and grows beyond. :meth:`contains` asks
    a result. The partial is a set of bits, a kilobyte or two: an array for columns of numbers, whose rows are added by
    compiled code, and a Python integer for others. A slide costs one ``or`` of it.

    Bloom, *Space/time trade-offs in hash coding with allowable errors*, 1970; two hashes do the work of many
    (Kirsch and Mitzenmacher, 2006).

    >>> import windrow as wr
    >>> seen = wr.BloomFilter("plug", capacity=100).bind()
    >>> blob = seen.result(seen.fold([(3,), (5,)]))
    >>> wr.BloomFilter.contains(blob, 5), wr.BloomFilter.contains(blob, 4)
    (True, False)
    """

    column: str | None = None
    capacity: int = 1000
    error: float = 0.01

    def __post_init__(self) -> None:
        if not isinstance(self.capacity, int) or self.capacity < 1:
            raise AggregateError(
                f"{self.label}: capacity is {self.capacity!r}; expected a whole number of at least 1"
            )
        if not isinstance(self.error, float) or not 0 < self.error < 1:
            raise AggregateError(
                f"{self.label}: error is {self.error!r}; expected a probability between 0 and 1"
            )

    @property
    def size(self) -> tuple[int, int]:
        """Bytes of bits, and how many bits a value sets."""
        bits = math.ceil(-self.capacity * math.log(self.error) / math.log(2) ** 2)
        size = (bits + 63) // 64 * 8
        return size, min(max(1, round(size * 8 / self.capacity * math.log(2))), 255)

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        size, hashes = self.size
        dtype = physical_dtype(types[0])
        if dtype.kind != "O":
            return _of_numbers(self.label, types, dtype, size, hashes)
        scale = _scale_byte(types[0])

        def lift(x: Any) -> int:
            word = 0
            for position in _positions(x, size * 8, hashes):
                word |= 1 << position
            return word

        return Monoid(
            name=self.label,
            fields=None,
            identity=0,
            lift=lift,
            combine=int.__or__,
            lower=lambda p: bytes([hashes]) + p.to_bytes(size, "little") + scale,
            output=pa.binary(),
            inputs=tuple(types),
        )

    @staticmethod
    def contains(blob: bytes, value: Any) -> bool:
        """May this value be among those of the window whose result is ``blob``?

        Values are compared as in SQL. The value is taken as one of the column's type: 3, 3.0 and
        ``Decimal("3")`` are the same in every column of numbers, and so is 3.00 in a column of decimals. A number
        that the column's type cannot hold did not occur. Times are asked for by their integer (microseconds
        for ``timestamp[us]``); others are refused.
        """
        if isinstance(value, _TIMES):
            raise AggregateError(
                f"a filter holds times as integers, so {value!r} cannot be looked up; "
                "give days for date32, microseconds for timestamp[us]"
            )
        if len(blob) % 8 == 3:
            return _holds_number(blob, value)
        scaled = len(blob) % 8 == 2
        bits = (len(blob) - 1 - scaled) * 8
        if bits < 8 or bits % 64 or not blob[0]:
            raise AggregateError("these bytes are not a result of BloomFilter")
        forms = _decimal_forms(value, blob[-1] - SCALES) if scaled else _forms(value)
        return any(
            all(blob[1 + position // 8] >> position % 8 & 1 for position in _positions(form, bits, blob[0]))
            for form in forms
        )


# Columns of numbers: bits in an array, and hashes that compile. A result has two bytes more, which say so.

NUMBERS = b"\x01\x00"
BITS, HASHES = 64, 1
SECOND = 0x5851F42D4C957F2D
"""What makes the second hash of a value out of the first."""


def _of_numbers(
    label: str, types: Sequence[pa.DataType], dtype: np.dtype[Any], size: int, hashes: int
) -> Monoid:
    number = {"f": hash_any_float, "i": hash_signed, "u": hash_unsigned}[dtype.kind]
    names: dict[str, Any] = {"BITS": size * 8, "HASHES": hashes, "hashed": number}
    names["_add"] = link(_add, names)
    return Monoid(
        name=label,
        fields=(Field("bits", np.dtype(np.uint8), size),),
        identity=(0,),
        lift=link(_lift, names),
        combine=_combine,
        lower=lambda p: bytes([hashes]) + np.broadcast_to(p[0], size).astype(np.uint8).tobytes() + NUMBERS,
        output=pa.binary(),
        inputs=tuple(types),
        add=names["_add"],
        merge=_merge,
    )


def hashed(_: Any) -> int:
    raise NotImplementedError("linked by _of_numbers")


def hash_any_float(x: Any) -> int:
    """As the hash of an equal integer, if there is one of 64 bits."""
    if -9.2e18 < x < 9.2e18 and x == np.floor(x):
        return hash_signed(np.int64(x))
    return hash_float(x)


def _add(parts: Any, i: int, x: Any) -> None:
    first = np.uint64(hashed(x))  # of unsigned and signed integers numba would make floats
    second = np.uint64(mixed(int(first ^ np.uint64(SECOND)))) | np.uint64(1)
    position = np.int64(first % np.uint64(BITS))
    step = np.int64(second % np.uint64(BITS))
    for _ in range(HASHES):
        parts[0][i, position >> 3] |= np.uint8(1 << (position & 7))
        position = (position + step) % BITS


def _lift(x: Any) -> Any:
    bits = np.zeros((1, BITS // 8), dtype=np.uint8)
    _add((bits,), 0, x)
    return (bits[0],)


def _combine(a: Any, b: Any) -> Any:
    return (np.bitwise_or(a[0], b[0]),)


def _merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    np.bitwise_or(a[0][j], b[0][k], dst[0][i])


def _holds_number(blob: bytes, value: Any) -> bool:
    size = len(blob) - 1 - len(NUMBERS)
    if size < 8 or not blob[0] or blob[-2:] != NUMBERS:
        raise AggregateError("these bytes are not a result of BloomFilter")
    return any(_has(blob, form, size * 8) for form in _number_hashes(value))


def _number_hashes(value: Any) -> list[int]:
    """The hashes that a number has in columns of integers or of floats; none if it is no number, or no column holds it."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, Decimal):
        value = int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
    if not isinstance(value, int | float):
        return []
    if isinstance(value, int) and -(1 << 63) <= value < 1 << 64:
        found = [hash_signed(value)] if value < 1 << 63 else [hash_unsigned(value)]
        return found if abs(value) < 9.2e18 else [*found, hash_float(float(value))]
    return [] if isinstance(value, int) else [hash_any_float(value)]


def _has(blob: bytes, first: int, bits: int) -> bool:
    position, step = first % bits, (mixed(first ^ SECOND) | 1) % bits
    for _ in range(blob[0]):
        if not blob[1 + position // 8] >> position % 8 & 1:
            return False
        position = (position + step) % bits
    return True


_TIMES = (date, time, timedelta)
SCALES = 128
"""The last byte of a result over decimals is their scale, plus this."""


def _scale_byte(type_: pa.DataType) -> bytes:
    known = pa.types.is_decimal(type_) and -SCALES <= type_.scale < SCALES
    return bytes([type_.scale + SCALES]) if known else b""


def _decimal_forms(value: Any, scale: int) -> list[Any]:
    """A number as a column of decimals of this scale has it; nothing if it cannot hold it."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, int | float | Decimal):
        return []
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        return []
    rounded = number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
    return [rounded if rounded else abs(rounded)] if rounded == number else []


_WIDE = Context(prec=800, traps=[])


def _forms(value: Any) -> list[Any]:
    """A value as a column of another type has it. Decimals are numbers of a column of integers or floats; results
    of earlier versions hold those of a column of decimals as they were.
    """
    if not isinstance(value, Decimal) or not value.is_finite():
        return [value]
    return [value, int(value) if value == value.to_integral_value() else float(value)]


def _positions(value: Any, bits: int, hashes: int) -> list[int]:
    high, low = divmod(digest(value), 2**64)
    return [(low + number * (high | 1)) % bits for number in range(hashes)]
