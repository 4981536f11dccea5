# SPDX-License-Identifier: Apache-2.0
"""The seam between kernels and aggregates: partials in numbered slots of arrays.

``parts`` is a tuple of arrays, one per field of the partial; a slot is an index into all of them. Kernels
and algorithms work on slots only, through the functions below, so that numbers, vectors and Python objects
are all the same to them:

=============================  =======================================================================
``clear(p, i)``                slot i becomes the identity
``copy(d, i, s, j)``           d[i] = s[j]
``merge(d, i, a, j, b, k)``    d[i] = a[j] ⊕ b[k]; d[i] may be one of the two
``unmerge(d, i, a, j, b, k)``  d[i] = a[j] ⊖ b[k], if the aggregate is invertible
``load(p, i)``                 the partial in slot i
``store(p, i, partial)``       slot i becomes the partial
``lower(p, i)``                the result of slot i; called only if it is defined
``defined(p, i)``              false if that result is null
``same(a, i, b, j)``           are the two partials equal (for selective aggregates)
``add(p, i, row, columns)``    row ``row`` of the input columns is absorbed into slot i
=============================  =======================================================================

The functions are generated as text, because the number of fields differs; :func:`slots` makes them for a
monoid.
"""

from __future__ import annotations

from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Field, Monoid
from windrow.aggregates.monoid import first_field, wrapped
from windrow.columns import arrow

Parts = tuple[Any, ...]
Fields = tuple[Field, ...] | None


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
    """An array of one value. Zeros come from the system, which gives memory only where it is used."""
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
    """The seam's functions for one monoid, plain Python, ready to be interpreted or compiled.

    A monoid that counts rows (``monoid.inner``) is counted here: its inner functions see the inner fields
    only, and the last field is a number beside them. Whoever asks again for the same monoid gets the same functions, so
    that their code need not be hashed again.
    """
    known = _SEAMS.get(id(monoid))
    if known is not None and known[0] is monoid:
        return known[1]
    seam = _seam(monoid)
    if len(_SEAMS) >= MOST_SEAMS:
        _SEAMS.clear()
    _SEAMS[id(monoid)] = monoid, seam
    return seam


_SEAMS: dict[int, tuple[Monoid, dict[str, Any]]] = {}
MOST_SEAMS = 256


def _seam(monoid: Monoid) -> dict[str, Any]:
    inner = monoid.inner or monoid
    source = "\n\n".join(_whole_slots(monoid) + _combining(monoid) + _lowering(monoid))
    names: dict[str, Any] = {
        "__name__": "windrow.kernels.partials",
        "IDENTITY": monoid.identity,
        "inner_lift": inner.lift,
        "inner_combine": inner.combine,
        "inner_invert": inner.invert,
        "inner_add": inner.add,
        "inner_merge": inner.merge,
        "tuple_lower": monoid.lower if monoid.lowers_count else inner.lower,
        "tuple_defined": monoid.defined,
    }
    exec(_code(source), names)
    return {
        **{name: names[name] for name in _NAMES if name in names},
        "AGGREGATE": monoid.name,
        "IDENTITY": monoid.identity,
        "LEAN": monoid.fields is not None and not any(field.width for field in monoid.fields),
        "lift": monoid.lift,
        "combine": monoid.combine,
    }


@lru_cache(maxsize=256)
def _code(source: str) -> CodeType:
    """Text as code. Many aggregates have the same text: an operator that is opened again need not parse it again."""
    return compile(source, "<string>", "exec", dont_inherit=True)


_NAMES = ("load", "store", "clear", "copy", "same", "lower", "defined", "add", "merge", "unmerge")


def _whole_slots(monoid: Monoid) -> list[str]:
    """What reads and writes all fields of a slot."""
    fields = monoid.fields
    if fields is None:
        same = "a[0][i] == b[0][j]"
    else:
        same = " and ".join(
            f"(a[{f}][i] == b[{f}][j]).all()"
            if field.width
            else f"(a[{f}][i] == b[{f}][j] or (a[{f}][i] != a[{f}][i] and b[{f}][j] != b[{f}][j]))"
            for f, field in enumerate(fields)
        )
    return [
        _function("load(p, i)", f"return {_read(fields, 'p', 'i')}"),
        _function("store(p, i, v)", *_write(fields, "p", "v")),
        _function("clear(p, i)", "store(p, i, IDENTITY)"),
        _function("copy(d, i, s, j)", "store(d, i, load(s, j))"),
        _function("same(a, i, b, j)", f"return {same}"),
    ]


def _combining(monoid: Monoid) -> list[str]:
    """What absorbs rows and combines slots."""
    inner = monoid.inner or monoid
    fields, n = inner.fields, len(inner.fields or ())
    held, a, b = _read(fields, "p", "i"), _read(fields, "a", "j"), _read(fields, "b", "k")
    values = ", ".join(f"columns[{c}][row]" for c in range(len(monoid.inputs)))
    lifted = f"({values},)" if inner.lift is wrapped else f"inner_lift({values})"
    if inner.add is not None and inner.merge is not None:
        part = "" if monoid.inner is None else f"[:{n}]"
        add = [f"inner_add(p{part}, i, {values})"]
        merge = [f"inner_merge(d{part}, i, a{part}, j, b{part}, k)"]
    else:
        add = [f"v = inner_combine({held}, {lifted})", *_write(fields, "p", "v")]
        merge = [f"v = inner_combine({a}, {b})", *_write(fields, "d", "v")]
    if monoid.inner is not None:
        add.append(f"p[{n}][i] = 1" if monoid.marks else f"p[{n}][i] += 1")
    both = "max({a}, {b})" if monoid.marks else "{a} + {b}"
    made = [
        _function("add(p, i, row, columns)", *add),
        _function("merge(d, i, a, j, b, k)", *_with_count(monoid, both, merge)),
    ]
    if inner.invert is not None:
        unmerge = [f"v = inner_invert({a}, {b})", *_write(fields, "d", "v")]
        made.append(_function("unmerge(d, i, a, j, b, k)", *_with_count(monoid, "{a} - {b}", unmerge)))
    return made


def _with_count(monoid: Monoid, count: str, lines: list[str]) -> list[str]:
    """Lines that set the inner fields of d[i], and around them those that set its count.

    The counts are read first, because d[i] may be one of the operands.
    """
    if monoid.inner is None:
        return lines
    n = len(monoid.inner.fields or ())
    return ["n = " + count.format(a=f"a[{n}][j]", b=f"b[{n}][k]"), *lines, f"d[{n}][i] = n"]


def _lowering(monoid: Monoid) -> list[str]:
    """The result of a slot, and whether it has one."""
    inner = monoid.inner or monoid
    lowered = monoid.fields if monoid.lowers_count else inner.fields
    in_place = lowered is not None and inner.lower is first_field and not monoid.lowers_count
    result = "p[0][i]" if in_place else f"tuple_lower({_read(lowered, 'p', 'i')})"
    if monoid.inner is not None:
        defined = f"p[{len(inner.fields or ())}][i] > 0"
    else:
        defined = "True" if monoid.defined is None else "tuple_defined(load(p, i))"
    return [
        _function("lower(p, i)", f"return {result}"),
        _function("defined(p, i)", f"return {defined}"),
    ]


def _function(head: str, *lines: str) -> str:
    return f"def {head}:\n    " + "\n    ".join(lines)


def _read(fields: Fields, parts: str, slot: str) -> str:
    """The partial in a slot; vectors are views."""
    if fields is None:
        return f"{parts}[0][{slot}]"
    return "(" + "".join(f"{parts}[{f}][{slot}], " for f in range(len(fields))) + ")"


def _write(fields: Fields, parts: str, value: str) -> list[str]:
    """A partial into slot i."""
    if fields is None:
        return [f"{parts}[0][i] = {value}"]
    return [f"{parts}[{f}][i{', :' if field.width else ''}] = {value}[{f}]" for f, field in enumerate(fields)]


def _placeholder(*_: Any) -> Any:
    raise NotImplementedError(
        "a kernel is specialised for an aggregate before it runs: windrow.kernels.specialise"
    )


load = store = clear = copy = same = lower = defined = add = merge = unmerge = lift = combine = _placeholder
