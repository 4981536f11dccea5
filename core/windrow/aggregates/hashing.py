# SPDX-License-Identifier: Apache-2.0
"""Hashes that are the same in every process, on every engine and in every version: sketches outlive the
program.

Numbers are mixed by the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), in arithmetic that gives the
same bits compiled and interpreted; everything else is digested from its byte encoding.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from windrow.columns.encoding import encode_value


def mixed(z: int) -> int:
    """64 bits in, 64 bits out, every input bit spread over all of them.

    >>> hex(mixed(1)), hex(mixed(2))
    ('0x910a2dec89025cc1', '0x975835de1c9756ce')
    """
    z = (z + 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & 0xFFFFFFFFFFFFFFFF
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & 0xFFFFFFFFFFFFFFFF
    return z ^ (z >> 31)


def hash_signed(x: Any) -> int:
    return mixed(int(np.int64(x).view(np.uint64)))


def hash_unsigned(x: Any) -> int:
    return mixed(int(np.uint64(x)))


def hash_float(x: Any) -> int:
    """By the bits of the float64; both zeros are one value, and so are all NaN."""
    return mixed(int(np.float64(canonical(x)).view(np.uint64)))


def canonical(x: Any) -> Any:
    """The form of a float that stands for all that are the same value."""
    return x + 0.0 if x == x else np.nan


def digest(value: Any) -> int:
    """A hash of 128 bits of any value that can be encoded; integers and floats that are equal have equal hashes.

    Decimals are hashed with their scale, which all values of a column share.

    >>> digest(3) == digest(3.0) == digest(True + 2)
    True
    """
    if isinstance(value, np.generic):
        value = value.item()
    if (isinstance(value, float) and value.is_integer()) or isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and value != value:
        value = float("nan")
    return int.from_bytes(hashlib.blake2b(encode_value(value), digest_size=16).digest(), "little")
