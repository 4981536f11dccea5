"""The seam between kernels and aggregates: partials in numbered slots of arrays.

``parts`` is a tuple of arrays, one per field of the partial; a slot is an index into all of them. Kernels
and algorithms work on slots only, through the functions below, so that numbers, vectors and Python objects
are all the same to them:

==========================  ==========================================================================
``clear(p, i)``             slot i becomes the identity
``copy(d, i, s, j)``        d[i] = s[j]
``merge(d, i, a, j, b, k)`` d[i] = a[j] ⊕ b[k]; d may be a or b
``unmerge(d, i, a, j, b, k)`` d[i] = a[j] ⊖ b[k], if the aggregate is invertible
``load(p, i)``              the partial in slot i
``store(p, i, partial)``    slot i becomes the partial
``lower(p, i)``             the result of slot i
``defined(p, i)``           false if that result is null
``same(a, i, b, j)``        are the two partials equal (for selective aggregates)
==========================  ==========================================================================

and, to read rows, ``add(p, i, row, columns)``, which absorbs row ``row`` of the input columns into slot i.

The functions are generated as text, because the number of fields differs; :func:`slots` makes them for a
monoid.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates import arrow
from windrow.aggregates.algebra import Monoid

Parts = tuple[Any, ...]


def allocate(monoid: Monoid, slots: int) -> Parts:
    """Arrays for this many partials, each the identity."""
    if monoid.fields is None:
        objects = np.empty(slots, dtype=object)
        for position in range(slots):
            objects[position] = monoid.identity
        return (objects,)
    return tuple(
        _filled((slots, f.width) if f.width else (slots,), value, f.dtype)
        for f, value in zip(monoid.fields, monoid.identity, strict=True)
    )


def _filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """An array of one value; of zeros, memory is touched only where it is used."""
    bits = np.array(value, dtype=dtype)
    return np.full(shape, bits) if any(bits.tobytes()) else np.zeros(shape, dtype)


def blank(monoid: Monoid, slots: int) -> Parts:
    """Arrays for this many partials, each to be written before it is read."""
    if monoid.fields is None:
        return allocate(monoid, slots)
    return tuple(
        arrow.blank(slots * f.width, f.dtype).reshape(slots, f.width)
        if f.width
        else arrow.blank(slots, f.dtype)
        for f in monoid.fields
    )


def slots(monoid: Monoid) -> dict[str, Any]:
    """The seam's functions for one monoid, plain Python, ready to be interpreted or compiled."""
    fields = monoid.fields
    if fields is None:
        load, store = "p[0][i]", ["p[0][i] = v"]
        same = "a[0][i] == b[0][j]"
    else:
        load = "(" + "".join(f"p[{f}][i], " for f in range(len(fields))) + ")"
        store = [f"p[{f}][i{', :' if field.width else ''}] = v[{f}]" for f, field in enumerate(fields)]
        same = " and ".join(
            f"(a[{f}][i] == b[{f}][j]).all()"
            if field.width
            else f"(a[{f}][i] == b[{f}][j] or (a[{f}][i] != a[{f}][i] and b[{f}][j] != b[{f}][j]))"
            for f, field in enumerate(fields)
        )
    arguments = ", ".join(f"columns[{c}][row]" for c in range(len(monoid.inputs)))
    source = [
        f"def load(p, i):\n    return {load}",
        "def store(p, i, v):\n    " + "\n    ".join(store),
        "def clear(p, i):\n    store(p, i, IDENTITY)",
        "def copy(d, i, s, j):\n    store(d, i, load(s, j))",
        f"def same(a, i, b, j):\n    return {same}",
        "def lower(p, i):\n    return tuple_lower(load(p, i))",
        "def defined(p, i):\n    return "
        + ("True" if monoid.defined is None else "tuple_defined(load(p, i))"),
    ]
    if monoid.add is not None and monoid.merge is not None:
        source += [
            f"def add(p, i, row, columns):\n    wide_add(p, i, {arguments})",
            "def merge(d, i, a, j, b, k):\n    wide_merge(d, i, a, j, b, k)",
        ]
    else:
        source += [
            f"def add(p, i, row, columns):\n    store(p, i, tuple_combine(load(p, i), tuple_lift({arguments})))",
            "def merge(d, i, a, j, b, k):\n    store(d, i, tuple_combine(load(a, j), load(b, k)))",
        ]
    if monoid.invert is not None:
        source.append("def unmerge(d, i, a, j, b, k):\n    store(d, i, tuple_invert(load(a, j), load(b, k)))")
    names: dict[str, Any] = {
        "__name__": "windrow.kernels.slots",
        "IDENTITY": monoid.identity,
        "AGGREGATE": monoid.name,
        "tuple_lift": monoid.lift,
        "tuple_combine": monoid.combine,
        "tuple_lower": monoid.lower,
        "tuple_invert": monoid.invert,
        "tuple_defined": monoid.defined,
        "wide_add": monoid.add,
        "wide_merge": monoid.merge,
    }
    exec("\n\n".join(source), names)
    made = {name: names[name] for name in _NAMES if name in names}
    return {
        **made,
        "AGGREGATE": monoid.name,
        "IDENTITY": monoid.identity,
        "LEAN": fields is not None and not any(field.width for field in fields),
        "lift": monoid.lift,
        "combine": monoid.combine,
    }


_NAMES = ("load", "store", "clear", "copy", "same", "lower", "defined", "add", "merge", "unmerge")


def _placeholder(*_: Any) -> Any:
    raise NotImplementedError(
        "a kernel is specialised for an aggregate before it runs: windrow.kernels.specialise"
    )


load = store = clear = copy = same = lower = defined = add = merge = unmerge = lift = combine = _placeholder
