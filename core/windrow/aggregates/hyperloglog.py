# SPDX-License-Identifier: Apache-2.0
"""Approximate number of distinct values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates import datasketches
from windrow.aggregates.algebra import Aggregate, Field, Monoid, dtype_of, link
from windrow.aggregates.hashing import digest, hash_float, hash_signed, hash_unsigned
from windrow.errors import AggregateError


@dataclass(frozen=True)
class HyperLogLog(Aggregate):
    """About how many different values there are, int64; 0 if there are none.

    The partial is ``2 ** precision`` bytes, whatever the number of rows; the standard error is ``1.04 /
    sqrt(2 ** precision)``: 1.6 % for the default of 12. Small counts are nearly exact. Combining is
    idempotent.

    Registers as in Flajolet et al., *HyperLogLog*, 2007, over a 64-bit hash; estimator of Ertl, *New
    Cardinality Estimation Algorithms for HyperLogLog Sketches*, 2017, which needs no correction tables.

    With ``returns="datasketches"`` the result is the sketch itself, as bytes that Apache DataSketches reads as its own of the
    type ``HLL_8`` and of ``lg_k = precision``; so do Spark's ``hll_sketch_estimate`` and ``hll_union``. Values are hashed as
    DataSketches does it, so a union with other sketches of the same column counts each value once. The column holds
    integers, floats, times, text or bytes. An empty text is not counted there. The bytes hold registers only, so the estimate
    is that of a merged sketch, with the standard error above.

    >>> import windrow as wr
    >>> wr.sliding([7.0, 8.0, 7.0, 7.0, 9.0], wr.HyperLogLog(), range=3)
    array([2, 2, 2])
    >>> users = wr.HyperLogLog("user", precision=4, returns="datasketches").bind()
    >>> users.result(users.fold([(7.0,), (8.0,)]))[:4].hex()
    '0a010704'
    """

    column: str | None = None
    precision: int = 12
    returns: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.precision, int) or not 4 <= self.precision <= 18:
            raise AggregateError(
                f"{self.label}: precision is {self.precision!r}; expected a whole number from 4 to 18"
            )
        if self.returns not in (None, "datasketches"):
            raise AggregateError(
                f"{self.label}: returns is {self.returns!r}; expected None, for the count, or 'datasketches'"
            )

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        dtype = dtype_of(types[0], self, numeric=False)
        objects = dtype.kind == "O"
        names: dict[str, Any] = {"P": self.precision, "M": 2**self.precision}
        if self.returns is None:
            names["_place"] = link(_place, {**names, "hashed": _HASHES[dtype.kind]})
        else:
            self._check_datasketches(types[0], objects)
            names["_place"] = link(_place_theirs, {**names, "placed": datasketches.PLACES[dtype.kind]})
        for function in (_registers, _estimate):
            names[function.__name__] = link(function, names)
        lower: Any = names["_estimate"] if objects else link(_lower, names)
        if self.returns is not None:
            lower = partial(_written, precision=self.precision, field=None if objects else 0)
        return Monoid(
            name=self.label,
            fields=None if objects else (Field("registers", np.dtype(np.uint8), 2**self.precision),),
            identity=np.zeros(2**self.precision, dtype=np.uint8) if objects else (0,),
            lift=names["_registers"] if objects else link(_lift, names),
            combine=np.maximum if objects else _combine,
            lower=lower,
            defined=_always,
            output=pa.int64() if self.returns is None else pa.binary(),
            inputs=tuple(types),
            add=None if objects else link(_add, names),
            merge=None if objects else _merge,
        )

    def _check_datasketches(self, type_: pa.DataType, objects: bool) -> None:
        if objects and not datasketches.is_text(type_):
            raise AggregateError(
                f"{self.label}: DataSketches has no form for values of {type_}; cast the column to a number, text or bytes"
            )


P, M = 12, 4096


def hashed(_: Any) -> int:
    raise NotImplementedError("linked by HyperLogLog.dense")


def _digested(x: Any) -> int:
    return digest(x) & 0xFFFFFFFFFFFFFFFF


_HASHES = {"f": hash_float, "i": hash_signed, "u": hash_unsigned, "O": _digested}


def _place(x: Any) -> Any:
    """The register of a value, and its rank: the position of the first one among the remaining bits."""
    h = hashed(x)
    rank = 1
    while rank <= 64 - P and (h >> (64 - P - rank)) & 1 == 0:
        rank += 1
    return int(h >> (64 - P)), rank


def placed(_: Any) -> Any:
    raise NotImplementedError("linked by HyperLogLog.dense")


def _place_theirs(x: Any) -> Any:
    """As :func:`_place`, where DataSketches puts a value."""
    index, rank = placed(x)
    return index % M, rank


def _registers(x: Any) -> Any:
    registers = np.zeros(M, dtype=np.uint8)
    index, rank = _place(x)
    registers[index] = rank
    return registers


def _lift(x: Any) -> Any:
    return (_registers(x),)


def _combine(a: Any, b: Any) -> Any:
    return (np.maximum(a[0], b[0]),)


def _add(parts: Any, i: int, x: Any) -> None:
    index, rank = _place(x)
    if rank > parts[0][i, index]:
        parts[0][i, index] = rank


def _merge(dst: Any, i: int, a: Any, j: int, b: Any, k: int) -> None:
    np.fmax(a[0][j], b[0][k], dst[0][i])


def _lower(p: Any) -> int:
    registers = np.zeros(M, dtype=np.uint8)
    registers[:] = p[0]  # of no rows at all, the identity is a single zero
    return _estimate(registers)


def _written(p: Any, precision: int, field: int | None) -> bytes:
    return datasketches.written(p if field is None else p[field], precision)


def _estimate(registers: Any) -> Any:
    counts = np.bincount(registers, minlength=66)
    longest = 64 - P
    z = M * _tau(1.0 - counts[longest + 1] / M)
    for rank in range(longest, 0, -1):
        z = 0.5 * (z + counts[rank])
    z += M * _sigma(counts[0] / M)
    return np.int64(round(M * M / (2.0 * math.log(2.0) * z)))


def _sigma(x: float) -> float:
    """x + Σ x^(2^k) · 2^(k-1): the term of the empty registers."""
    if x == 1.0:
        return math.inf
    y, z, before = 1.0, x, -1.0
    while z != before:
        x, before = x * x, z
        z += x * y
        y += y
    return z


def _tau(x: float) -> float:
    """(1 - x - Σ (1 - x^(2^-k))² · 2^-k) / 3: the term of the full registers."""
    if x == 0.0 or x == 1.0:
        return 0.0
    y, z, before = 1.0, 1.0 - x, -1.0
    while z != before:
        x, before = math.sqrt(x), z
        y *= 0.5
        z -= (1.0 - x) ** 2 * y
    return z / 3.0


def _always(_: Any) -> bool:
    return True
