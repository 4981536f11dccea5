"""The snapshot format: an operator's state as bytes, checked before a single value in it is used.

::

    8 bytes   b"windrow" and a zero byte
    2 bytes   format version, little-endian
    8 bytes   length of the body
    4 bytes   CRC-32 of the body
    body      one tagged value (windrow.aggregates.encoding): a dict from names to numbers, text, bytes, lists

Nothing in it is ever executed: bytes from a store are data. Equal states give equal bytes. Version 1 is
described name by name in the documentation (``docs/snapshot-format.md``).

>>> image = {"query": '{"time": "ts"}', "watermark": 7}
>>> read(write(image, "f" * 64), "f" * 64)["watermark"]
7
>>> read(write(image, "f" * 64)[:-1], "f" * 64)
Traceback (most recent call last):
windrow.errors.CorruptSnapshot: the snapshot is cut off: 138 bytes of a body of 139
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from typing import Any

from windrow.aggregates.encoding import decode_value, encode_value
from windrow.errors import CorruptSnapshot, FingerprintMismatch, FormatTooNew

MAGIC = b"windrow\0"
VERSION = 1
_HEAD = struct.Struct("<8sHQI")


def write(image: Mapping[str, Any], fingerprint: str) -> bytes:
    """A state as bytes, under the fingerprint of the query that it belongs to."""
    body = encode_value({"fingerprint": fingerprint, **dict(sorted(image.items()))})
    return _HEAD.pack(MAGIC, VERSION, len(body), zlib.crc32(body)) + body


def read(blob: bytes, fingerprint: str, query: str = "") -> dict[str, Any]:
    """The state in the bytes, if they are whole, of a known version, and of this query."""
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
    if zlib.crc32(body) != checksum:
        raise CorruptSnapshot("the snapshot was changed: its checksum does not match; restore an older one")
    image = decode_value(body)
    if not isinstance(image, dict) or "fingerprint" not in image:
        raise CorruptSnapshot("the snapshot's body is not a windrow state")
    if image["fingerprint"] != fingerprint:
        raise FingerprintMismatch(
            f"the snapshot is of another query (fingerprint {image['fingerprint'][:12]}, this query's is {fingerprint[:12]}): "
            f"{difference(str(image.get('query', '')), query)}. Restore it with the query that made it, or start with new state"
        )
    return image


def difference(theirs: str, ours: str) -> str:
    """What differs between two queries in JSON, in words.

    >>> difference('{"by": ["a"], "late": "side"}', '{"by": ["b"]}')
    'by was ["a"] and is ["b"]; late was "side" and is not given'
    """
    try:
        old, new = json.loads(theirs), json.loads(ours)
    except ValueError:
        return "the queries cannot be compared"
    told = []
    for name in sorted({*old, *new}):
        if old.get(name) != new.get(name):
            was, now = (json.dumps(q[name]) if name in q else "not given" for q in (old, new))
            told.append(f"{name} was {was} and is {now}")
    return "; ".join(told) or "the queries read the same, but an aggregate's code or a default changed"
