# SPDX-License-Identifier: Apache-2.0
"""Numbers as keys: 64-bit integers that have the order of the numbers.

Then one kernel sorts integers, unsigned integers and floats, and compares faster than it could compare floats. A
kernel imports ``key_of``, ``number_of`` and ``word_of``, and is specialised with those of a type (:func:`ordering`).

A NaN is above every number, whatever its bits are; -0.0 is below 0.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.errors import AggregateError

Array = np.ndarray[Any, Any]

MAX = 0x7FFFFFFFFFFFFFFF
MIN = -0x8000000000000000
INFINITY = 0x7FF0000000000000
"""The bits of an infinite float; those of a NaN are larger, without the sign."""

NAN_KEY = 0x7FF8000000000000
"""The key of NaN."""


def ordering(dtype: np.dtype[Any]) -> dict[str, Any]:
    """The functions of a kernel's seam for 64-bit words of this type.

    >>> float_key, number = (ordering(np.dtype("f8"))[name] for name in ("key_of", "number_of"))
    >>> keys = [float_key(word) for word in np.array([-np.inf, -2.5, 0.0, 2.5, np.nan]).view(np.int64)]
    >>> keys == sorted(keys), number(keys[1])
    (True, np.float64(-2.5))
    """
    if dtype not in _ORDERINGS:
        raise AggregateError(f"the kernel has no order for {dtype}; expected float64, int64 or uint64")
    key_of, number_of, word_of = _ORDERINGS[dtype]
    return {"key_of": key_of, "number_of": number_of, "word_of": word_of, "FLOATS": dtype.kind == "f"}


def word_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The 64-bit type that holds the numbers of a type."""
    if dtype.kind not in "fiub":
        raise AggregateError(f"values of {dtype} have no order as numbers; cast the column to a number first")
    return np.dtype(np.uint64 if dtype == np.uint64 else np.float64 if dtype.kind == "f" else np.int64)


def words_of(values: Array, word: np.dtype[Any]) -> Array:
    """Numbers as the words that ``key_of`` takes."""
    return np.ascontiguousarray(values, dtype=word).view(np.int64)


def keys_of(values: Array, word: np.dtype[Any]) -> Array:
    """The keys of numbers."""
    words = words_of(values, word)
    if word.kind == "f":
        return np.where((words & MAX) > INFINITY, NAN_KEY, words ^ ((words >> 63) & MAX))
    return words ^ MIN if word.kind == "u" else words


def float_key(word: Any) -> Any:
    """The key of a float, given its bits."""
    if (word & MAX) > INFINITY:
        return np.int64(NAN_KEY)
    return word ^ ((word >> 63) & MAX)


def float_word(key: Any) -> Any:
    return key ^ ((key >> 63) & MAX)


def float_number(key: Any) -> Any:
    return np.int64(float_word(key)).view(np.float64)


def integer_key(word: Any) -> Any:
    return word


def integer_number(key: Any) -> Any:
    return np.float64(key)


def unsigned_key(word: Any) -> Any:
    return word ^ MIN


def unsigned_number(key: Any) -> Any:
    return np.float64(np.int64(key ^ MIN).view(np.uint64))


_ORDERINGS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float64): (float_key, float_number, float_word),
    np.dtype(np.int64): (integer_key, integer_number, integer_key),
    np.dtype(np.uint64): (unsigned_key, unsigned_number, unsigned_key),
}
"""By type: the key of a word, the number of a key as a float64, the word of a key."""


def _placeholder(*_: Any) -> Any:
    raise NotImplementedError("a kernel is specialised for a type before it runs: ordering()")


key_of = number_of = word_of = _placeholder
