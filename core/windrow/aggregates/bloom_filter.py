"""Which values may have occurred."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.hashing import digest
from windrow.errors import AggregateError


@dataclass(frozen=True)
class BloomFilter(Aggregate):
    """A filter, as bytes, that answers whether a value occurred: "no" is certain, "yes" is wrong with
    probability ``error``.

    The error holds for up to ``capacity`` different values in a window and grows beyond. The result is
    asked with :meth:`contains`; numbers are told apart by value (3 and 3.0 are the same), times by their
    integer (microseconds for ``timestamp[us]``). The partial is a Python integer used as a set of bits, so
    a slide costs one ``or`` of a kilobyte or two.

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
                f"{self.label}: capacity is {self.capacity!r}; expected a whole number from 1 on"
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
            lower=lambda p: bytes([hashes]) + p.to_bytes(size, "little"),
            output=pa.binary(),
            inputs=tuple(types),
        )

    @staticmethod
    def contains(blob: bytes, value: Any) -> bool:
        """May this value be among those of the window whose result is ``blob``?"""
        bits = (len(blob) - 1) * 8
        if bits < 8 or not blob[0]:
            raise AggregateError("these bytes are not a result of BloomFilter")
        return all(
            blob[1 + position // 8] >> position % 8 & 1 for position in _positions(value, bits, blob[0])
        )


def _positions(value: Any, bits: int, hashes: int) -> list[int]:
    high, low = divmod(digest(value), 2**64)
    return [(low + number * (high | 1)) % bits for number in range(hashes)]
