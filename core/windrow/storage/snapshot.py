# SPDX-License-Identifier: Apache-2.0
"""The snapshot format: an operator's state as bytes, checked before a single value in it is used.

::

    8 bytes   b"windrow" and a zero byte
    2 bytes   format version, little-endian
    8 bytes   length of the body
    4 bytes   CRC-32 of the body; from version 2 on, it begins with the version
    body      one tagged value (windrow.columns.encoding): a dict from names to numbers, text, bytes, lists

Nothing in it is ever executed: bytes from a store are data. Equal states give equal bytes. The versions are
described name by name in the documentation (``docs/snapshot-format.md``).

>>> image = {"query": '{"time": "ts"}', "watermark": 7, "late_rows": 0, "side": []}
>>> read(write(image, "f" * 64), "f" * 64)["watermark"]
7
>>> read(write(image, "f" * 64)[:-1], "f" * 64)
Traceback (most recent call last):
windrow.errors.CorruptSnapshot: the snapshot is cut off: 172 bytes of a body of 173
"""

from __future__ import annotations

import struct
import warnings
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from windrow.columns.encoding import decode_value, encode_value
from windrow.errors import CorruptSnapshot, FingerprintMismatch, FormatTooNew
from windrow.query.difference import difference
from windrow.storage.validate import check_body

MAGIC = b"windrow\0"
VERSION = 2
"""The latest version, up to which bytes are read."""
FIRST, CATCHING_UP = 1, 2
"""The version of snapshots and pages; and that of the header of a store, which since then may name leaves whose windows
have yet to catch up with its watermark, and cold blocks. A reader of version 1 would take neither for what it is."""
_HEAD = struct.Struct("<8sHQI")


def write(image: Mapping[str, Any], fingerprint: str, *, version: int = FIRST) -> bytes:
    """A state as bytes, under the fingerprint of the query that it belongs to."""
    body = encode_value({"fingerprint": str(fingerprint), **dict(sorted(image.items()))})
    return _HEAD.pack(MAGIC, version, len(body), _checksum(body, version)) + body


def read(
    blob: bytes,
    fingerprint: str | None,
    query: str = "",
    *,
    check: Callable[[Any], None] = check_body,
    holder: str = "snapshot",
) -> dict[str, Any]:
    """The state in the bytes, if they are whole, of a known version, and of this query. Without a fingerprint, of any query.

    ``check`` refuses a body that has not the entries of its kind. ``holder`` is what an error about another query calls it.
    """
    blob = bytes(blob)
    if len(blob) < _HEAD.size or not blob.startswith(MAGIC):
        raise CorruptSnapshot(
            f"these {len(blob)} bytes are not a windrow snapshot: they do not begin with {MAGIC!r}"
        )
    _, version, length, checksum = _HEAD.unpack_from(blob)
    if version > VERSION:
        raise FormatTooNew(
            f"the snapshot has format version {version}, this windrow reads up to {VERSION}; upgrade windrow to restore it"
        )
    if version < 1:
        raise CorruptSnapshot(f"the snapshot was changed: there is no format version {version}")
    body = blob[_HEAD.size :]
    if len(body) != length:
        raise CorruptSnapshot(f"the snapshot is cut off: {len(body)} bytes of a body of {length}")
    if _checksum(body, version) != checksum:
        raise CorruptSnapshot("the snapshot was changed: its checksum does not match; restore an older one")
    image = decode_value(body)
    if not isinstance(image, dict) or not isinstance(image.get("fingerprint"), str):
        raise CorruptSnapshot("the snapshot's body is not a windrow state")
    if fingerprint is None:
        check(image)
        return image
    if image["fingerprint"] == getattr(fingerprint, "without_code", fingerprint) != fingerprint:
        _warn_of_code(fingerprint)
    elif image["fingerprint"] != fingerprint:
        raise FingerprintMismatch.of_query(holder, difference(str(image.get("query", "")), query))
    check(image)
    return image


def _checksum(body: bytes, version: int) -> int:
    return zlib.crc32(body, 0 if version == FIRST else version)


def _warn_of_code(fingerprint: str) -> None:
    if fingerprint not in _WARNED:
        _WARNED.add(fingerprint)
        warnings.warn(
            "this state was written before windrow recorded the code of aggregates and policies of your own, so it is "
            "not known whether that code has changed since; what is written from now on records it",
            stacklevel=3,
        )


_WARNED: set[str] = set()
"""Queries that were warned of, once each: a store has many pages."""
