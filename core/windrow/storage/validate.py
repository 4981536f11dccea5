# SPDX-License-Identifier: Apache-2.0
"""What the entries of stored state have to be: names, types, sizes and ranges.

A checksum says that bytes are as they were written, not that windrow wrote them. So every entry is checked before it
is used. Each check is linear in the state. One that fails raises a :class:`~windrow.errors.CorruptSnapshot` that
names the entry. :mod:`windrow.storage.validate_slices` checks what needs the slice table.

>>> check_entries({"rows": b"", "times": 7}, ROWS, "a page of rows")
Traceback (most recent call last):
windrow.errors.CorruptSnapshot: a page of rows: 'times' has to be bytes, not int
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns.arrow import event_times
from windrow.columns.ipc import checked_ipc
from windrow.columns.plain import from_plain
from windrow.columns.times import FARTHEST, TimeUnit
from windrow.columns.words import plain_type
from windrow.errors import CorruptSnapshot, WindrowError
from windrow.kernels.slices.layout import FOREVER
from windrow.storage.pages import HEADER

__all__ = ["check_body", "check_entries", "check_keys", "check_number", "check_rows", "numbers"]

Shape = Mapping[str, type]

OF_QUERY: Shape = {"fingerprint": str, "query": str, "watermark": int, "late_rows": int, "side": list}
OF_SCHEMA: Shape = {"schema": bytes, "wake": int}
SLICES: Shape = {"stamps": bytes, "stops": bytes, "pages": bytes, "partials": dict}
POINTERS = ("lo", "front", "back")
KEYS: Shape = {
    **{"keys": list, "lengths": bytes, "following": bytes, "counters": dict, "slices": dict},
    **dict.fromkeys(POINTERS, bytes),
}
EXTENT: Shape = {"of": str, "rows": bytes, "keys": list, "firsts": bytes, "counts": bytes}
ROWS: Shape = {"rows": bytes, "times": bytes, "keys": list, "of": bytes}
COMMIT: Shape = {"commit": int, "leaves": list, "next_tag": int, "waiting": list}
COLD: Shape = {
    **{"keys": list, "counters": dict, "block": bytes, "cards": bytes},
    **{"empty": bytes, "following": bytes},
}
LEAF: Shape = {**KEYS, "tags": list, "made": list, "commit": int}

MOST = 1 << 47
"""No count of pages or keys comes near."""


def check_body(image: Any) -> None:
    """The body of a snapshot or of a page in a store has the entries of its kind."""
    if not isinstance(image, dict) or not isinstance(image.get("fingerprint"), str):
        raise CorruptSnapshot("the snapshot's body is not a windrow state")
    name = image.get("name")
    if name is None:
        _check_snapshot(image)
    elif not isinstance(name, str):
        raise CorruptSnapshot(f"the name of a page has to be text, not {type(name).__name__}")
    elif name == HEADER:
        _check_header(image)
    elif name.startswith("leaf."):
        _check_leaf(image, name)
    elif name.startswith("shown."):
        _check_shown(image, f"page {name!r}")
    elif name.startswith("cold."):
        check_entries(image, COLD, f"page {name!r}")
    elif name.startswith("extent."):
        check_entries(image, EXTENT, f"page {name!r}")
    elif name.startswith("rows."):
        check_entries(image, ROWS, f"page {name!r}")
        _check_row_counts(image, f"page {name!r}")
    else:
        check_entries(image, SLICES, f"page {name!r}")


def check_entries(image: Any, shape: Shape, where: str) -> None:
    """All entries of a shape are there, each of its type."""
    if not isinstance(image, dict):
        raise CorruptSnapshot(f"{where} has to be a dict, not {type(image).__name__}")
    for name, kind in shape.items():
        if name not in image:
            raise CorruptSnapshot(f"{where}: there is no {name!r}")
        if type(image[name]) is not kind:
            raise CorruptSnapshot(
                f"{where}: {name!r} has to be {kind.__name__}, not {type(image[name]).__name__}"
            )


def check_number(value: Any, least: int, most: int, where: str) -> None:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        shown = value if type(value) is int and abs(value) < 1 << 64 else type(value).__name__
        raise CorruptSnapshot(f"{where} has to be a number from {least} to {most}, not {shown}")


def numbers(image: Mapping[str, Any], name: str, count: int, dtype: Any = np.int64) -> Any:
    """So many numbers from the bytes of an entry."""
    blob, size = image[name], np.dtype(dtype).itemsize
    if len(blob) != count * size:
        raise CorruptSnapshot(f"{name!r} has {len(blob)} bytes; {count} numbers take {count * size}")
    return from_bytes(blob, dtype)


def to_bytes(array: Any) -> bytes:
    """The numbers of an array, little-endian."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).tobytes()


def from_bytes(blob: bytes, dtype: Any) -> Any:
    """The array that :func:`to_bytes` wrote."""
    if type(blob) is not bytes or len(blob) % np.dtype(dtype).itemsize:
        raise CorruptSnapshot(f"numbers of {np.dtype(dtype)} are cut off")
    return np.frombuffer(blob, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)


def check_keys(keys: Any, fields: Sequence[pa.Field]) -> None:
    """Each key is a tuple with a value for every key column, of its type."""
    if not all(type(key) is tuple and len(key) == len(fields) for key in keys):
        raise CorruptSnapshot(f"a key has to be a tuple of {len(fields)} value(s)")
    for position, field in enumerate(fields):
        try:
            column = from_plain([key[position] for key in keys], plain_type(field.type))
            column.validate(full=True)
        except (
            CorruptSnapshot,
            pa.ArrowException,
            ValueError,
            TypeError,
            ArithmeticError,
            AttributeError,
        ) as cause:
            raise CorruptSnapshot(f"the values of key column {field.name!r} do not fit: {cause}") from None


def check_rows(
    image: Any, schema: pa.Schema, time: tuple[str, TimeUnit | None], fields: Sequence[pa.Field]
) -> None:
    """Rows that wait have the columns that the operator reads, and their own times and keys.

    ``time`` is the name and the unit of the time column.
    """
    where = "rows that wait"
    check_entries(image, ROWS, where)
    rows = _check_row_counts(image, where)
    check_keys(image["keys"], fields)
    if _listed(rows.schema) != _listed(schema):
        raise CorruptSnapshot(f"{where} have the columns {_listed(rows.schema)}, not {_listed(schema)}")
    try:
        found = event_times(rows, *time)
    except WindrowError as cause:
        raise CorruptSnapshot(f"{where}: {cause}") from None
    if not np.array_equal(found, from_bytes(image["times"], np.int64)):
        raise CorruptSnapshot(f"{where} do not have the times of their column {time[0]!r}")


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


# The kinds of bodies.


def _check_snapshot(image: dict[str, Any]) -> None:
    check_entries(image, OF_QUERY, "the state")
    if "schema" in image or any(name in image for name in KEYS):
        check_entries(image, {**OF_SCHEMA, **KEYS, "waiting": list}, "the state")
        for batch in image["waiting"]:
            check_entries(batch, ROWS, "rows that wait")
            _check_row_counts(batch, "rows that wait")
        for rows in _listed_entries(image, "extents"):
            check_entries(rows, EXTENT, "rows of windows")
        for shown in _listed_entries(image, "shown"):
            _check_shown(shown, "windows that have come out")
    _check_clock(image)


def _listed_entries(image: dict[str, Any], name: str) -> list[Any]:
    entries = image.get(name, [])
    if type(entries) is not list:
        raise CorruptSnapshot(f"{name!r} has to be list, not {type(entries).__name__}")
    return entries


def _check_header(image: dict[str, Any]) -> None:
    check_entries(image, {**OF_QUERY, **OF_SCHEMA, **COMMIT}, "the header")
    _check_clock(image)
    check_number(image["commit"], 1, MOST, "'commit'")
    check_number(image["next_tag"], 0, MOST, "'next_tag'")
    seen = set()
    for pair in image["leaves"]:
        if type(pair) not in (tuple, list) or len(pair) != 2:
            raise CorruptSnapshot("'leaves' has to be pairs of a leaf and a commit")
        check_number(pair[0], 0, image["next_tag"], "the number of a leaf")
        check_number(pair[1], 1, image["commit"], "the commit of a leaf")
        seen.add(pair[0])
    if len(seen) < len(image["leaves"]):
        raise CorruptSnapshot("'leaves' names a leaf twice")
    for entry, kind in (("waiting", "rows."), ("shown", "shown."), ("extents", "extent.")):
        names = image.get(entry, [])
        if type(names) is not list or not all(type(name) is str and name.startswith(kind) for name in names):
            raise CorruptSnapshot(f"{entry!r} has to be names of pages that begin with {kind!r}")
        if len(set(names)) < len(names):
            raise CorruptSnapshot(f"{entry!r} names a page twice")


def _check_shown(image: Any, where: str) -> None:
    """Windows that have come out and may be withdrawn."""
    check_entries(image, {"windows": bytes}, where)
    checked_ipc(image["windows"])


def _check_clock(image: dict[str, Any]) -> None:
    """The watermark and the counts, and the rows that came late."""
    check_number(image["watermark"], -FOREVER, 2 * FOREVER, "'watermark'")
    check_number(image["late_rows"], 0, 2 * FOREVER, "'late_rows'")
    if "wake" in image:
        check_number(image["wake"], -2 * FOREVER, 2 * FOREVER, "'wake'")
    schema = _schema(image["schema"]) if "schema" in image else None
    for blob in image["side"]:
        side = checked_ipc(blob).schema
        types = {} if schema is None else {field.name: field.type for field in schema}
        wrong = [field.name for field in side if types.get(field.name, field.type) != field.type]
        if wrong or not set(side.names) & set(types):
            raise CorruptSnapshot(f"late rows have the columns {_listed(side)}, which are not the stream's")


def _schema(blob: bytes) -> pa.Schema:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(blob))
        schema.names  # noqa: B018 - raises if a name is no text
        return schema
    except (pa.ArrowException, OSError, ValueError, TypeError) as cause:
        raise CorruptSnapshot(f"'schema' cannot be read: {cause}") from None


def _check_leaf(image: dict[str, Any], name: str) -> None:
    where = f"page {name!r}"
    check_entries(image, LEAF, where)
    check_number(image["commit"], 1, MOST, f"{where}: 'commit'")
    for entry in ("tags", "made"):
        if len(image[entry]) != len(image["keys"]):
            raise CorruptSnapshot(
                f"{where}: {entry!r} has {len(image[entry])} entries for {len(image['keys'])} keys"
            )
        for number in image[entry]:
            check_number(number, 0, MOST, f"{where}: an entry of {entry!r}")
    if len(set(image["tags"])) < len(image["tags"]):
        raise CorruptSnapshot(f"{where}: two keys have the same tag")


def _check_row_counts(image: dict[str, Any], where: str) -> pa.Table:
    """There is a time and a key for every row."""
    rows = checked_ipc(image["rows"])
    for name in ("times", "of"):
        if len(image[name]) != 8 * rows.num_rows:
            raise CorruptSnapshot(
                f"{where}: {name!r} has {len(image[name])} bytes for {rows.num_rows} row(s)"
            )
    of = from_bytes(image["of"], np.int64)
    if len(of) and not 0 <= of.min() <= of.max() < len(image["keys"]):
        raise CorruptSnapshot(f"{where}: 'of' points beyond the {len(image['keys'])} key(s)")
    times = from_bytes(image["times"], np.int64)
    if len(times) and not -FARTHEST < times.min() <= times.max() < FARTHEST:
        raise CorruptSnapshot(f"{where}: a time is more than 70,000 years from 1970")
    return rows
