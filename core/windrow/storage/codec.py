# SPDX-License-Identifier: Apache-2.0
"""Compression of stored bytes: Snappy, unless that does not make them smaller.

>>> blob = compress(b"slices " * 100)
>>> len(blob) < 100, decompress(blob) == b"slices " * 100
(True, True)
"""

from __future__ import annotations

import snappy

from windrow.errors import CorruptSnapshot

_RAW, _SNAPPY = b"\0", b"\1"
CODECS = (_RAW, _SNAPPY)
"""What compressed bytes begin with."""


def compress(blob: bytes) -> bytes:
    smaller: bytes = snappy.compress(blob)
    return _SNAPPY + smaller if len(smaller) < len(blob) else _RAW + blob


def decompress(blob: bytes) -> bytes:
    codec, body = bytes(blob[:1]), bytes(blob[1:])
    if codec == _RAW:
        return body
    if codec == _SNAPPY:
        _check_length(body)
        try:
            return bytes(snappy.decompress(body))
        except Exception as cause:
            raise CorruptSnapshot(f"the stored bytes cannot be decompressed: {cause}") from cause
    raise CorruptSnapshot(f"the stored bytes begin with {codec!r}, which is not a codec of windrow")


def _check_length(body: bytes) -> None:
    """The length that Snappy data claims, a varint at its beginning, is one that the data can have."""
    length = 0
    for shift, byte in zip(range(0, 35, 7), body, strict=False):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if length > 64 * len(body):  # two bytes or more give 64 at most
        raise CorruptSnapshot(f"{len(body)} stored bytes cannot be decompressed to {length}")
