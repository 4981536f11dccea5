# SPDX-License-Identifier: Apache-2.0
"""HyperLogLog sketches as Apache DataSketches has them: the same hash, the same registers, the same bytes.

Bytes are those of an ``hll_sketch`` of the type ``HLL_8``, which every version of the library and Spark's
``hll_sketch_estimate`` and ``hll_union`` read. A value is hashed by MurmurHash3 (x64, 128 bits, seed 9001): an integer as
8 bytes, a float as those of its float64, text as UTF-8. So a value that is in two sketches is counted once.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.hashing import canonical

SEED = 9001
ALL = 0xFFFFFFFFFFFFFFFF

# Of numbers: compiled as well as interpreted. Numbers of 64 bits without sign are made with np.uint64, because a sum of one
# with and one without sign is a float to numba.


def hash_number(bits: int) -> Any:
    """Both halves of the hash of 8 bytes."""
    seed, length = int(np.uint64(9001)), int(np.uint64(8))
    return _finished(seed ^ _scattered(bits), seed, length)


def place_signed(x: Any) -> Any:
    return _place(hash_number(int(np.int64(x).view(np.uint64))))


def place_unsigned(x: Any) -> Any:
    return _place(hash_number(int(np.uint64(x))))


def place_float(x: Any) -> Any:
    return _place(hash_number(int(np.float64(canonical(x)).view(np.uint64))))


def _place(halves: Any) -> Any:
    """The register, of 2 ** 26, and its rank: the position of the first one in the second half, at most 63."""
    rank = 1
    while rank < 63 and (halves[1] >> (64 - rank)) & 1 == 0:
        rank += 1
    return int(halves[0] & int(np.uint64(0x3FFFFFF))), rank


def _scattered(k: int) -> int:
    k = (k * 0x87C37B91114253D5) & 0xFFFFFFFFFFFFFFFF
    k = ((k << 31) & 0xFFFFFFFFFFFFFFFF) | (k >> 33)
    return (k * int(np.uint64(0x4CF5AD432745937F))) & 0xFFFFFFFFFFFFFFFF


def _finished(one: int, other: int, length: int) -> Any:
    one, other = one ^ length, other ^ length
    one = (one + other) & 0xFFFFFFFFFFFFFFFF
    other = (other + one) & 0xFFFFFFFFFFFFFFFF
    one, other = _avalanche(one), _avalanche(other)
    one = (one + other) & 0xFFFFFFFFFFFFFFFF
    return one, (other + one) & 0xFFFFFFFFFFFFFFFF


def _avalanche(k: int) -> int:
    k = ((k ^ (k >> 33)) * 0xFF51AFD7ED558CCD) & 0xFFFFFFFFFFFFFFFF
    k = ((k ^ (k >> 33)) * 0xC4CEB9FE1A85EC53) & 0xFFFFFFFFFFFFFFFF
    return k ^ (k >> 33)


# Of text and bytes: interpreted.


def place_text(x: Any) -> Any:
    """As for numbers. An empty text has rank 0, which changes no register: DataSketches ignores it."""
    data = x.encode() if isinstance(x, str) else bytes(x)
    return _place(hash_bytes(data)) if data else (0, 0)


def hash_bytes(data: bytes) -> tuple[int, int]:
    """Both halves of the hash of some bytes.

    >>> hash_bytes(b"windrow") == hash_bytes(b"window")
    False
    >>> hash_bytes((42).to_bytes(8, "little")) == hash_number(42)
    True
    """
    one = other = SEED
    whole = len(data) // 16 * 16
    for low, high in struct.iter_unpack("<QQ", data[:whole]):
        one = (_turned(one ^ _scattered(low), 27) + other) & ALL
        one = (one * 5 + 0x52DCE729) & ALL
        other = (_turned(other ^ _scattered_second(high), 31) + one) & ALL
        other = (other * 5 + 0x38495AB5) & ALL
    low, high = struct.unpack("<QQ", data[whole:].ljust(16, b"\0"))
    found: tuple[int, int] = _finished(one ^ _scattered(low), other ^ _scattered_second(high), len(data))
    return found


def _scattered_second(k: int) -> int:
    return _turned(k * 0x4CF5AD432745937F & ALL, 33) * 0x87C37B91114253D5 & ALL


def _turned(k: int, bits: int) -> int:
    return (k << bits | k >> (64 - bits)) & ALL


def is_text(type_: pa.DataType) -> bool:
    """Is it a type of texts or bytes?"""
    types = pa.types
    return bool(
        types.is_string(type_)
        or types.is_large_string(type_)
        or types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_fixed_size_binary(type_)
    )


PLACES = {"f": place_float, "i": place_signed, "u": place_unsigned, "O": place_text}
"""By the kind of a column's physical type."""


def written(registers: Any, precision: int) -> bytes:
    """The bytes of a sketch, as a sketch that was merged has them: its order of updates is not known, so DataSketches
    estimates from the registers alone.
    """
    ranks = np.zeros(2**precision, dtype=np.uint8)
    ranks[:] = registers  # of no rows at all, the identity is a single zero
    if not ranks.any():
        return bytes([2, VERSION, FAMILY, precision, 3, EMPTY | COMPACT, 0, LIST | HLL_8])
    counts = np.bincount(ranks, minlength=64)
    shares = counts * 0.5 ** np.arange(64)
    head = bytes([10, VERSION, FAMILY, precision, 0, OUT_OF_ORDER, 0, DENSE | HLL_8])
    sums = struct.pack("<3d2I", 0.0, shares[:32].sum(), shares[32:].sum(), counts[0], 0)
    return head + sums + ranks.tobytes()


VERSION, FAMILY = 1, 7
EMPTY, COMPACT, OUT_OF_ORDER = 4, 8, 16
LIST, DENSE, HLL_8 = 0, 2, 8
