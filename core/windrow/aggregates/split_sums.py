# SPDX-License-Identifier: Apache-2.0
"""Sums of floats in an engine's SQL, as exact as ours: each value is split into parts whose sums do not round.

SQL's ``sum`` rounds at every row. Here a value is split into multiples of 2^e, multiples of 2^(e-31), multiples of 2^(e-62), and
what is left. A sum of the first three kinds is exact, in any order and grouping, as long as it has fewer than 53 bits
(Rump, Ogita and Oishi, "Accurate floating-point summation", 2008, split so too). Only what is left is rounded.

Where the parts lie follows from a *scale*: the largest magnitude that values are known to have. Up to 2²³ values of a window
with up to 2²⁰ times the scale are added without rounding. If some are larger than that, the sum is rounded as SQL's own.

>>> split_scale(1000.0), split_scale(0.0)
(1024.0, None)
>>> multiples(1000.0, 1024.0)
[1000.0, 0.0, 0.0, 0.0]
>>> sum(multiples(0.1, 1024.0)) == 0.1
True
"""

from __future__ import annotations

import math

__all__ = ["PARTS", "multiples", "split_columns", "split_scale", "split_sums", "split_total"]

PARTS = ("high", "middle", "low", "rest")
BELOW_SCALE = 10
"""The first part has multiples of the scale over 2^10."""
APART = 31
"""How many bits lie between the units of two parts."""
LARGEST, SMALLEST = 2.0**500, 2.0**-500


def split_scale(largest: float) -> float | None:
    """The power of two that is not below a magnitude; none if values cannot be split by it."""
    if not SMALLEST <= largest <= LARGEST:
        return None
    fraction, exponent = math.frexp(largest)
    return math.ldexp(1.0, exponent - (fraction == 0.5))


def split_columns(x: str, scale: float) -> tuple[tuple[str, str], ...]:
    """SQL of columns that split ``x``, a double, into its parts, each from those before it. Infinities and NaN are left aside."""
    found = [("value", x), ("finite", f"if({_FINITE}, {{value}}, if({{value}} is null, null, 0D))")]
    rest = "finite"
    for name, magic in zip(PARTS, _magic(scale), strict=False):
        found.append((name, f"{{{rest}}} + {_literal(magic)} - {_literal(magic)}"))
        found.append((f"without_{name}", f"{{{rest}}} - {{{name}}}"))
        rest = f"without_{name}"
    return (*found[:-1], (PARTS[-1], found[-1][1]))


def split_sums() -> dict[str, str]:
    """SQL of the sums of the parts. Infinities and NaN are in the first one."""
    first, *others = PARTS
    return {
        first: f"sum({{{first}}} + if({_FINITE}, 0D, {{value}}))",
        **{name: f"sum({{{name}}})" for name in others},
    }


_FINITE = "abs({value}) < double('inf')"


def split_total(high: str, middle: str, low: str, rest: str) -> tuple[str, str]:
    """SQL of a total and its rounding error, from the sums of the parts."""
    total = f"(({high}) + ({middle}))"
    back = f"({total} - ({high}))"
    error = f"(({high}) - ({total} - {back})) + (({middle}) - {back}) + (({low}) + ({rest}))"
    return total, f"if(abs({total}) < double('inf'), {error}, 0D)"


def multiples(x: float, scale: float) -> list[float]:
    """The parts of a finite value, as SQL computes them."""
    found = []
    for magic in _magic(scale):
        part = (x + magic) - magic
        found.append(part)
        x -= part
    return [*found, x]


def _magic(scale: float) -> list[float]:
    """Adding and subtracting these rounds a number to multiples of the units of the parts."""
    return [1.5 * math.ldexp(scale, 52 - BELOW_SCALE - APART * number) for number in range(len(PARTS) - 1)]


def _literal(number: float) -> str:
    return f"double('{number!r}')"
