# SPDX-License-Identifier: Apache-2.0
"""Sums of doubles without rounding, in the SQL of an engine that has only plain sums.

Doubles between two powers of 65,536 are whole multiples of the smaller one divided by 2^53. So rows are grouped by that power,
the *bin*, and each value is cut into three whole numbers of up to 24 bits, the sums of which are exact for up to 2^39 rows. The sum
of a bin is then a double and its error, as :mod:`windrow.aggregates.sums` has it.
"""

from __future__ import annotations

from windrow.aggregates.monoid import SliceSql

_OTHER = 1000
"""The bin of infinities and NaN, which are added as they are."""
_SIZE = "abs({x})"
_BIN = (
    f"case when {_SIZE} >= 1D and {_SIZE} < 65536D or {_SIZE} = 0D then 0 "
    f"when {_SIZE} >= 65536D and {_SIZE} < 4294967296D then 1 when {_SIZE} >= 1.52587890625E-5D and {_SIZE} < 1D then -1 "
    f"when {_SIZE} < double('inf') then cast(floor(log2({_SIZE}) / 16D) as int) when {{x}} is not null then {_OTHER} end"
)
_SCALED = (
    "case {bin} when 0 then {x} * 256D when 1 then {x} * 0.00390625D when -1 then {x} * 16777216D "
    f"when {_OTHER} then null else {{x}} * pow(2D, 4 - 8 * {{bin}}) * pow(2D, 4 - 8 * {{bin}}) end"
)
_UNIT = "pow(2D, 8 * {bin} - 4) * pow(2D, 8 * {bin} - 4)"
"""Of the first whole number. It is a product because it may be less than the least double."""

UNROUNDED = SliceSql(
    {
        "sum": f"case when {{bin}} = {_OTHER} then sum({{x}}) else sum({{high}}) * {_UNIT} end",
        "error": f"case when {{bin}} <> {_OTHER} then (sum({{middle}}) + sum({{low}}) / 8388608D) / 8388608D * {_UNIT} end",
    },
    engines=("spark",),
    columns={
        "x": "cast({0} as double)",
        "bin": _BIN,
        "scaled": _SCALED,
        "high": "cast({scaled} as bigint)",
        "rest": "({scaled} - {high}) * 8388608D",
        "middle": "cast({rest} as bigint)",
        "low": "cast(({rest} - {middle}) * 8388608D as bigint)",
    },
    group="bin",
)
"""The partial of a slice and a bin: several for a slice, which are merged as those of several slices are."""
