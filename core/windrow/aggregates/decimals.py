# SPDX-License-Identifier: Apache-2.0
"""Sums of decimals: Python's own numbers, in a context that never rounds, so partials are objects.

>>> from decimal import Decimal
>>> import pyarrow as pa
>>> import windrow as wr
>>> total = wr.Sum("price").bind([pa.decimal128(6, 2)])
>>> total.result(total.fold([(Decimal("0.10"),), (Decimal("0.20"),)])), total.output
(Decimal('0.30'), Decimal128Type(decimal128(38, 2)))
"""

from __future__ import annotations

from decimal import Context, Decimal

import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid

_EXACT = Context(prec=200, Emax=999_999, Emin=-999_999)


def decimal_sum(aggregate: Aggregate, type_: pa.DataType) -> Monoid:
    digits = 38 if pa.types.is_decimal128(type_) else 76
    make = pa.decimal128 if digits == 38 else pa.decimal256
    limit = Decimal(1).scaleb(digits - type_.scale)

    def fitting(p: Decimal) -> Decimal:
        if not -limit < p < limit:
            raise OverflowError("the exact sum does not fit the decimal type")
        return p

    return Monoid(
        name=aggregate.label,
        fields=None,
        identity=Decimal(0),
        lift=_exactly,
        combine=_EXACT.add,
        lower=fitting,
        invert=_EXACT.subtract,
        output=make(digits, type_.scale),
        inputs=(type_,),
    )


def decimal_mean(aggregate: Aggregate, type_: pa.DataType) -> Monoid:
    return Monoid(
        name=aggregate.label,
        fields=None,
        identity=(Decimal(0), 0),
        lift=lambda x: (x, 1),
        combine=lambda a, b: (_EXACT.add(a[0], b[0]), a[1] + b[1]),
        lower=lambda p: float(_EXACT.divide(p[0], Decimal(p[1]))),
        invert=lambda a, b: (_EXACT.subtract(a[0], b[0]), a[1] - b[1]),
        defined=lambda p: p[1] > 0,
        output=pa.float64(),
        inputs=(type_,),
    )


def _exactly(x: Decimal) -> Decimal:
    return x
