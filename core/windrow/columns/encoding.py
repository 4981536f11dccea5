# SPDX-License-Identifier: Apache-2.0
"""Partials as bytes, and back. The bytes are the same on every machine. They are data: nothing in them is ever run.

Typed partials are their columns, little-endian. Object partials are written as tagged values: ``None``,
booleans, numbers of any size, text, bytes, decimals, dates and times, tuples, lists, sets, dicts and numpy
arrays, nested at will.

>>> import windrow as wr
>>> from windrow.kernels.partials import allocate
>>> largest = wr.Max().bind()
>>> blob = encode(largest, allocate(largest, 3), 0, 2)
>>> decode(largest, blob)
(array([-inf, -inf]), array([0, 0]))
>>> decode_value(encode_value(("a", 2**70, [1.5, None])))
('a', 1180591620717411303424, [1.5, None])
"""

from __future__ import annotations

import re
import struct
import sys
import zlib
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.columns.object_partials import check_objects, examples
from windrow.errors import AggregateError, CorruptSnapshot

__all__ = ["decode", "decode_checked", "decode_value", "encode", "encode_value"]

DEPTH = 100
_HEADER = struct.Struct("<II")  # checksum of what follows, number of partials


def encode(monoid: Monoid, parts: tuple[Any, ...], lo: int, hi: int) -> bytes:
    """The partials in slots ``lo`` … ``hi - 1``."""
    count = hi - lo
    if monoid.fields is None:
        body = b"".join(_named(monoid, partial) for partial in parts[0][lo:hi])
    else:
        columns = zip(monoid.fields, parts, strict=True)
        body = b"".join(np.ascontiguousarray(p[lo:hi], dtype=_little(f.dtype)).tobytes() for f, p in columns)
    return _HEADER.pack(zlib.crc32(body, count), count) + body


def decode(monoid: Monoid, blob: bytes | memoryview) -> tuple[Any, ...]:
    """The partials that :func:`encode` wrote for this monoid, in slots 0, 1, … of new arrays."""
    blob = bytes(blob)
    if len(blob) < _HEADER.size:
        raise CorruptSnapshot(f"partials of {monoid.name} are truncated: {len(blob)} bytes are too few")
    checksum, count = _HEADER.unpack_from(blob)
    body = blob[_HEADER.size :]
    if zlib.crc32(body, count) != checksum:
        raise CorruptSnapshot(
            f"partials of {monoid.name} were changed or cut off: their checksum does not match"
        )
    if monoid.fields is None:
        return _objects(monoid, body, count)
    if len(body) != count * monoid.width:
        raise CorruptSnapshot(
            f"{count} partials of {monoid.name} take {count * monoid.width} bytes, not {len(body)}; "
            "were they written by another aggregate or version?"
        )
    parts, at = [], 0
    for f in monoid.fields:
        length = count * max(f.width, 1)
        column = np.frombuffer(body, dtype=_little(f.dtype), count=length, offset=at).astype(f.dtype)
        parts.append(column.reshape(count, f.width) if f.width else column)
        at += length * f.dtype.itemsize
    return tuple(parts)


def decode_checked(monoid: Monoid, blob: bytes) -> tuple[Any, ...]:
    """As :func:`decode`, for bytes that anyone may have written: objects have the form of partials of this monoid."""
    parts = decode(monoid, blob)
    if monoid.fields is None:
        check_objects(monoid, parts[0], _examples(monoid))
    return parts


def encode_value(value: Any) -> bytes:
    """One Python value as bytes. Equal values of equal types have equal bytes (a dict keeps its order)."""
    out = bytearray()
    _write(value, out, DEPTH)
    return bytes(out)


def decode_value(blob: bytes) -> Any:
    """The value that :func:`encode_value` wrote."""
    value, at = _read(blob, 0, DEPTH)
    if at != len(blob):
        raise CorruptSnapshot(f"{len(blob) - at} bytes are left over after an encoded value")
    return value


def _named(monoid: Monoid, partial: Any) -> bytes:
    try:
        return encode_value(partial)
    except AggregateError as error:
        raise AggregateError(f"a partial of {monoid.name} cannot be stored: {error}") from None


def _objects(monoid: Monoid, body: bytes, count: int) -> tuple[Any, ...]:
    if count > len(body):
        raise CorruptSnapshot(f"{len(body)} bytes cannot hold {count} partials of {monoid.name}")
    objects = np.empty(count, dtype=object)
    at = 0
    for position in range(count):
        objects[position], at = _read(body, at, DEPTH)
    if at != len(body):
        raise CorruptSnapshot(f"{len(body) - at} bytes are left over after {count} partials of {monoid.name}")
    return (objects,)


def _examples(monoid: Monoid) -> list[Any]:
    """Partials of this monoid as they are when they were read from bytes."""
    if monoid not in _EXAMPLES:
        _EXAMPLES[monoid] = [decode_value(_named(monoid, partial)) for partial in examples(monoid)]
    return _EXAMPLES[monoid]


_EXAMPLES: WeakKeyDictionary[Monoid, list[Any]] = WeakKeyDictionary()


def _little(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype.newbyteorder("<")


# Writing: a tag, then the value; whatever varies in size is preceded by its length.


def _write(value: Any, out: bytearray, depth: int) -> None:
    if depth == 0:
        raise AggregateError(f"it is nested more than {DEPTH} levels deep; keep partials flat")
    if isinstance(value, np.generic):
        _write_array(b"g", np.asarray(value), out)
        return
    kind = type(value)
    if value is None:
        out += b"N"
    elif kind is bool:
        out += b"T" if value else b"F"
    elif kind is int:
        _write_bytes(b"i", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True), out)
    elif kind is float:
        out += b"f" + struct.pack("<d", value)
    elif kind is np.ndarray:
        _write_array(b"a", value, out)
    elif kind in _TEXTS:
        tag, text, _ = _TEXTS[kind]
        _write_bytes(tag, text(value), out)
    elif kind in (tuple, list):
        out += (b"t" if kind is tuple else b"l") + _size(len(value))
        for entry in value:
            _write(entry, out, depth - 1)
    elif kind in (set, frozenset):
        entries = []
        for entry in value:
            written = bytearray()
            _write(entry, written, depth - 1)
            entries.append(bytes(written))
        out += (b"s" if kind is set else b"z") + _size(len(entries)) + b"".join(sorted(entries))
    elif kind is dict:
        out += b"d" + _size(len(value))
        for key, entry in value.items():
            _write(key, out, depth - 1)
            _write(entry, out, depth - 1)
    else:
        raise AggregateError(
            f"{kind.__module__}.{kind.__qualname__} has no byte encoding; make partials of None, bool, int, "
            "float, str, bytes, Decimal, date, time, tuple, list, set, dict and numpy arrays"
        )


def _size(length: int) -> bytes:
    return struct.pack("<I", length)


def _write_bytes(tag: bytes, body: bytes, out: bytearray) -> None:
    out += tag + _size(len(body)) + body


def _write_array(tag: bytes, array: np.ndarray[Any, Any], out: bytearray) -> None:
    if array.dtype.kind not in "biufMmSU":
        raise AggregateError(
            f"an array of {array.dtype} has no byte encoding; use one of numbers, or a tuple"
        )
    name = _little(array.dtype).str.encode()
    shape = _size(array.ndim) + b"".join(_size(length) for length in array.shape)
    body = np.ascontiguousarray(array, dtype=_little(array.dtype)).tobytes()
    out += tag + _size(len(name)) + name + shape + _size(len(body)) + body


def _timedelta_text(value: timedelta) -> bytes:
    return f"{value.days} {value.seconds} {value.microseconds}".encode()


def _timedelta(text: bytes) -> timedelta:
    days, seconds, microseconds = (int(part) for part in text.decode().split(" "))
    return timedelta(days, seconds, microseconds)


_TEXTS: dict[type, tuple[bytes, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
    str: (
        b"u",
        lambda value: value.encode("utf-8", "surrogatepass"),
        lambda b: b.decode("utf-8", "surrogatepass"),
    ),
    bytes: (b"b", bytes, bytes),
    Decimal: (b"c", lambda value: str(value).encode(), lambda b: Decimal(b.decode("ascii"))),
    date: (b"D", lambda value: value.isoformat().encode(), lambda b: date.fromisoformat(b.decode("ascii"))),
    time: (b"H", lambda value: value.isoformat().encode(), lambda b: time.fromisoformat(b.decode("ascii"))),
    datetime: (
        b"M",
        lambda value: value.isoformat().encode(),
        lambda b: datetime.fromisoformat(b.decode("ascii")),
    ),
    timedelta: (b"m", _timedelta_text, _timedelta),
}
_ARRAY_TYPE = re.compile(rb"[<|]([biuf][0-9]{1,2}|[SU][0-9]{1,9}|[Mm]8(\[[0-9]{0,9}[a-zA-Z]{1,2}\])?)")
_PARSERS = {tag[0]: parse for tag, _, parse in _TEXTS.values()}


# Reading: every length is checked against what is there before anything is made of it.


def _read(blob: bytes, at: int, depth: int) -> tuple[Any, int]:
    if depth == 0:
        raise CorruptSnapshot(f"an encoded value is nested more than {DEPTH} levels deep")
    try:
        return _parse(blob, at, depth)
    except (ValueError, TypeError, ArithmeticError, UnicodeError) as cause:
        raise CorruptSnapshot(f"an encoded value is damaged at byte {at}: {cause}") from None


def _parse(blob: bytes, at: int, depth: int) -> tuple[Any, int]:
    _need(blob, at, 1)
    tag, at = blob[at], at + 1
    if tag in b"NTF":
        return {b"N"[0]: None, b"T"[0]: True, b"F"[0]: False}[tag], at
    if tag == b"f"[0]:
        _need(blob, at, 8)
        return struct.unpack_from("<d", blob, at)[0], at + 8
    if tag in b"ga":
        array, at = _array(blob, at)
        return (array[()] if tag == b"g"[0] else array), at
    if tag == b"i"[0]:
        body, at = _body(blob, at)
        return int.from_bytes(body, "little", signed=True), at
    if tag in _PARSERS:
        body, at = _body(blob, at)
        return _PARSERS[tag](body), at
    if tag in b"tlszd":
        length, at = _length(blob, at)
        entries: list[Any] = []
        for _ in range(length * 2 if tag == b"d"[0] else length):
            entry, at = _read(blob, at, depth - 1)
            entries.append(entry)
        if tag == b"d"[0]:
            return dict(zip(entries[::2], entries[1::2], strict=True)), at
        return {b"t"[0]: tuple, b"l"[0]: list, b"s"[0]: set, b"z"[0]: frozenset}[tag](entries), at
    raise CorruptSnapshot(f"an encoded value has the unknown tag {bytes([tag])!r} at byte {at - 1}")


def _need(blob: bytes, at: int, length: int) -> None:
    if length > len(blob) - at:
        raise CorruptSnapshot(
            f"an encoded value ends too early: {length} bytes wanted at byte {at} of {len(blob)}"
        )


def _length(blob: bytes, at: int) -> tuple[int, int]:
    _need(blob, at, 4)
    length: int = struct.unpack_from("<I", blob, at)[0]
    _need(blob, at + 4, length)  # every counted entry takes at least one byte
    return length, at + 4


def _body(blob: bytes, at: int) -> tuple[bytes, int]:
    length, at = _length(blob, at)
    return blob[at : at + length], at + length


def _array(blob: bytes, at: int) -> tuple[np.ndarray[Any, Any], int]:
    name, at = _body(blob, at)
    if not _ARRAY_TYPE.fullmatch(name):
        raise CorruptSnapshot(f"an encoded array has the type {name[:20]!r}")
    dtype = np.dtype(name.decode("ascii"))
    ndim, at = _length(blob, at)
    _need(blob, at, 4 * ndim)
    shape = struct.unpack_from(f"<{ndim}I", blob, at)
    body, at = _body(blob, at + 4 * ndim)
    if ndim > 32 or len(body) != dtype.itemsize * int(np.prod([int(n) for n in shape], dtype=object)):
        raise CorruptSnapshot(f"an encoded array of {dtype} and shape {shape} cannot have {len(body)} bytes")
    array = np.frombuffer(body, dtype=dtype).reshape(shape)
    if dtype.kind == "U" and (array.reshape(-1).view("<u4") > sys.maxunicode).any():
        raise CorruptSnapshot("an encoded array of text has a character that does not exist")
    return array, at
