# SPDX-License-Identifier: Apache-2.0
"""The codecs of cold blocks: zstd by default, lz4, Snappy, none, and pcodec for floats.

pcodec is an extra. It writes columns of floats; what it wrote, and all other columns, are compressed by zstd as ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns.arrow import Array
from windrow.errors import CorruptSnapshot, QueryError

NUMBERS = {"none": 0, "zstd": 1, "lz4": 2, "snappy": 3}
"""What stands for each codec in a block."""
CODECS = (*NUMBERS, "pcodec")
LEVELS = {"zstd": range(1, 23), "pcodec": range(13)}


@dataclass(frozen=True)
class Codec:
    """How the columns of a block are compressed.

    >>> Codec("brotli")
    Traceback (most recent call last):
    windrow.errors.QueryError: codec of idle has to be one of none, zstd, lz4, snappy, pcodec, not 'brotli'
    """

    name: str = "zstd"
    level: int | None = None

    def __post_init__(self) -> None:
        if self.name not in CODECS:
            raise QueryError(f"codec of idle has to be one of {', '.join(CODECS)}, not {self.name!r}")
        levels = LEVELS.get(self.name, range(0))
        if self.level is not None and (type(self.level) is not int or self.level not in levels):
            known = f"from {levels[0]} to {levels[-1]}" if levels else "None: it has no levels"
            raise QueryError(f"level of idle with codec {self.name!r} has to be {known}, not {self.level!r}")
        if self.name == "pcodec":
            _pcodec("codec 'pcodec' of idle", QueryError)

    @property
    def number(self) -> int:
        """What stands for it in a block."""
        return NUMBERS.get(self.name, NUMBERS["zstd"])

    def compress(self, raw: bytes) -> bytes:
        if self.name == "none":
            return raw
        name, level = ("zstd", None) if self.name == "pcodec" else (self.name, self.level)
        return _arrow_codec(name, level).compress(raw, asbytes=True)

    def floats(self, values: Array) -> bytes | None:
        """A column of floats as pcodec writes it; none if another codec was chosen."""
        if self.name != "pcodec":
            return None
        pcodec = _pcodec("codec 'pcodec' of idle", QueryError)
        level = pcodec.DEFAULT_COMPRESSION_LEVEL if self.level is None else self.level
        written: bytes = _standalone(pcodec).simple_compress(
            values, pcodec.ChunkConfig(compression_level=level)
        )
        return written


def decompress(number: int, body: memoryview, raw: int, name: str) -> memoryview:
    """What was compressed to these bytes, of which there were ``raw``; ``name`` is used in errors."""
    codecs = {each: codec for codec, each in NUMBERS.items()}
    if number not in codecs:
        raise CorruptSnapshot(f"{name} has the unknown codec {number}")
    if codecs[number] == "none":
        if len(body) != raw:
            raise CorruptSnapshot(f"{name} has {len(body)} bytes instead of {raw}")
        return body
    try:
        found = _arrow_codec(codecs[number], None).decompress(pa.py_buffer(body), decompressed_size=raw)
    except (pa.ArrowException, OSError, ValueError) as cause:
        raise CorruptSnapshot(f"{name} cannot be decompressed: {cause}") from None
    return memoryview(found)


def floats_of(body: bytes, count: int, dtype: str, name: str) -> Array:
    """The floats that :meth:`Codec.floats` wrote."""
    values = np.empty(count, np.dtype(dtype))
    standalone = _standalone(_pcodec(f"{name} has floats that pcodec wrote, so it", CorruptSnapshot))
    try:
        progress = standalone.simple_decompress_into(body, values)
    except (RuntimeError, TypeError) as cause:
        raise CorruptSnapshot(f"{name} cannot be decompressed: {cause}") from None
    if progress.n_processed != count or not progress.finished:
        raise CorruptSnapshot(f"{name} does not have the {count} floats that it declares")
    return values


@cache
def _arrow_codec(name: str, level: int | None) -> Any:
    if name == "zstd":
        return pa.Codec(name, compression_level=1 if level is None else level)
    return pa.Codec("lz4_raw" if name == "lz4" else name)


def _pcodec(who: str, error: type[Exception]) -> Any:
    try:
        import pcodec
    except ImportError as cause:
        raise error(f"{who} needs the package pcodec, which is not installed: pip install pcodec") from cause
    return pcodec


def _standalone(pcodec: Any) -> Any:
    from pcodec import standalone

    return standalone
