# SPDX-License-Identifier: Apache-2.0
"""Expressions over columns: arithmetic, comparisons, conditions and a few functions, as text.

The text is data: it is read with Python's parser and never run, only what is listed here is accepted, and its size is
bounded. So expressions may come from strangers. One typed tree gives the value of a row, of an Arrow batch, and the
SQL of both engines; all follow SQL's rules for null.

>>> from windrow.expressions import Expression
>>> import pyarrow as pa
>>> celsius = Expression("round((f - 32) / 1.8, 1)").bind({"f": pa.float64()})
>>> celsius.row({"f": 100.0}), celsius.row({"f": None})
(37.8, None)

| written | is |
|---|---|
| `+ - * /` `%` `**` | arithmetic; `/` and `**` give doubles; x / 0 is null; `%` is of whole numbers, with the sign of the first |
| `== != < <= > >=`, `a < x < b` | comparisons of numbers, texts, truth values, times |
| `and or not`, `x in (1, 2)`, `x is null` | SQL's logic of three values |
| `a if c else b`, `coalesce`, `nullif` | choices |
| `abs least greatest round floor ceil sqrt exp ln log10 sin cos tan atan atan2 radians degrees is_nan double integer` | numbers |
| `lower upper length contains starts_with ends_with concat` | texts |
"""

from windrow.expressions.expression import Expression, Typed
from windrow.expressions.functions import Registered

__all__ = ["Expression", "Registered", "Typed"]
