# SPDX-License-Identifier: Apache-2.0
"""Rows as partials in registers: what the fused kernels read and write through.

A kernel whose partials are a few numbers keeps them in local variables, and lifts a row at the moment it is
combined. To the seam of :mod:`windrow.kernels.partials` this adds, for such monoids and rows and results as in
:mod:`windrow.kernels.columns.layout`:

============================  ===============================================================================
``nothing()``                 the identity, in the types of the partial's fields
``row(rows, i)``              row i, lifted; the identity if the rows are masked and row i is not valid
``join(a, b)``                a ⊕ b, in the types of the fields
``emit(out, i, p)``           p's result into ``out.values[i]``; if it may be null, whether it is not into
                              ``out.ok[i]``
``span(p, begin, end)``       the slots from begin up to but without end, counted from 0
``some(rows, begin, end)``    the rows from begin up to but without end, counted from 0
============================  ===============================================================================

Whatever a user's function returns becomes the field's type at once, so that compiled and interpreted code
round and wrap alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.kernels.columns.layout import Input
from windrow.kernels.partials import slots


def fusible(monoid: Monoid) -> bool:
    """Is a partial a few numbers, none of them a vector?"""
    return monoid.fields is not None and not any(field.width for field in monoid.fields)


def row_slots(monoid: Monoid, masked: bool) -> dict[str, Any]:
    """The seam's functions for one fusible monoid, with those above."""
    fields = monoid.fields or ()
    types = {f"type{f}": np.dtype(field.dtype).type for f, field in enumerate(fields)}
    values = ", ".join(f"rows.columns[{c}][i]" for c in range(len(monoid.inputs)))
    lifted = f"cast(tuple_lift({values}))"
    source = [
        "def cast(v):\n    return (" + "".join(f"type{f}(v[{f}]), " for f in range(len(fields))) + ")",
        "def nothing():\n    return cast(IDENTITY)",
        f"def row(rows, i):\n    return {lifted}" + (" if rows.valid[i] else nothing()" if masked else ""),
        "def join(a, b):\n    return cast(tuple_combine(a, b))",
        "def span(p, begin, end):\n    return ("
        + "".join(f"p[{f}][begin:end], " for f in range(len(fields)))
        + ")",
        "def some(rows, begin, end):\n    return Input(("
        + "".join(f"rows.columns[{c}][begin:end], " for c in range(len(monoid.inputs)))
        + "), rows.valid[begin:end])",
        "def emit(out, i, p):\n    " + (_EMIT if monoid.defined is None else _EMIT_DEFINED),
    ]
    names: dict[str, Any] = {
        "__name__": "windrow.kernels.columns.lifted",
        "IDENTITY": monoid.identity,
        "Input": Input,
        "tuple_lift": monoid.lift,
        "tuple_combine": monoid.combine,
        "tuple_lower": monoid.lower,
        "tuple_defined": monoid.defined,
        **types,
    }
    exec("\n\n".join(source), names)
    return {
        **slots(monoid),
        **{name: names[name] for name in ("nothing", "row", "join", "emit", "span", "some")},
    }


_EMIT = "out.values[i] = tuple_lower(p)"
_EMIT_DEFINED = "out.ok[i] = tuple_defined(p)\n    if out.ok[i]:\n        out.values[i] = tuple_lower(p)"


def _placeholder(*_: Any) -> Any:
    raise NotImplementedError(
        "a kernel is specialised for an aggregate before it runs: windrow.kernels.specialise"
    )


nothing = row = join = emit = span = some = _placeholder
