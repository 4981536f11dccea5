# SPDX-License-Identifier: Apache-2.0
"""Cold blocks: columns of the keys that fell silent together, narrowed, compressed and checked.

::

    4 bytes   b"wrcb"
    1 byte    format version
    1 byte    codec
    4 bytes   CRC-32 of all that follows
    4 bytes   length of the directory
    8 bytes   length of the columns before compression
    …         the directory, one tagged value: name, type, count, width, base, step, first, kind of each column
    …         the columns, one after the other, compressed

Integers are written as ``base + step · n`` in the narrowest type, or their differences are; a column of one value takes
no byte. Floats that are decimal numbers with few places are written as integers, other floats with their bytes transposed,
or as pcodec writes them if that is the codec: such a block has version 2. Each column comes back bit by bit.

>>> import numpy as np
>>> columns = {"stamps": np.arange(1000) * 60_000_000, "speed": np.full(1000, 21.5)}
>>> block = pack(columns, Codec("zstd"))
>>> len(block) < 200, (unpack(block, "cold.7")["speed"] == columns["speed"]).all()
(True, np.True_)
>>> unpack(block[:-1], "cold.7")
Traceback (most recent call last):
windrow.errors.CorruptSnapshot: cold.7 was changed or cut off: its checksum does not match
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from windrow.columns.arrow import Array
from windrow.columns.encoding import decode_value, encode_value
from windrow.errors import CorruptSnapshot, FormatTooNew, QueryError
from windrow.kernels import narrow
from windrow.kernels.specialise import specialise
from windrow.storage.cold_codec import NUMBERS, Codec, decompress, floats_of

__all__ = ["LARGEST", "Codec", "pack", "unpack"]

LARGEST = 1 << 28
"""No block has more bytes before compression. One that says so is refused before anything is allocated."""
MAGIC, VERSION, PLAIN = b"wrcb", 2, 1
"""PLAIN is the version of a block without a column that pcodec wrote."""
_HEAD = struct.Struct("<4sBBIIQ")
_WIDTHS = {0: None, 1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SCALES = (1.0, 10.0, 100.0, 1000.0)
_AS_IS, _VALUES, _DIFFERENCES, _TRANSPOSED, _BYTES, _PCODEC = range(6)


def pack(columns: Mapping[str, Array | bytes], codec: Codec, *, compiled: bool = True) -> bytes:
    """Columns of numbers, and bytes, as the bytes of a block."""
    kernels = _kernels(compiled)
    directory, written = [], []
    for name, column in columns.items():
        entry, body = _written(column, kernels, codec)
        directory.append((name, *entry))
        written.append(body)
    raw = b"".join(written)
    if len(raw) > LARGEST:
        raise QueryError(f"a cold block of {len(raw):,} bytes is larger than {LARGEST:,}")
    head, body = encode_value(directory), codec.compress(raw)
    number = codec.number
    if len(body) >= len(raw):
        number, body = NUMBERS["none"], raw
    version = VERSION if any(entry[-1] == _PCODEC for entry in directory) else PLAIN
    sizes = struct.pack("<IQ", len(head), len(raw))
    checksum = _checksum(number, sizes, head, body)
    return _HEAD.pack(MAGIC, version, number, checksum, len(head), len(raw)) + b"".join([head, body])


def unpack(block: bytes, name: str, *, compiled: bool = True) -> dict[str, Any]:
    """The columns of a block. Bytes that :func:`pack` did not write so are refused; ``name`` is used in errors."""
    if len(block) < _HEAD.size or not block.startswith(MAGIC):
        raise CorruptSnapshot(f"{name} is not a cold block: it does not begin with {MAGIC!r}")
    _, version, number, checksum, head, raw = _HEAD.unpack_from(block)
    if version > VERSION:
        raise FormatTooNew(
            f"{name} is a cold block of version {version}, this windrow reads up to {VERSION}; upgrade windrow"
        )
    begin = _HEAD.size + head
    directory, body = block[_HEAD.size : begin], memoryview(block)[begin:]
    if version < 1 or checksum != _checksum(number, block[10 : _HEAD.size], directory, body):
        raise CorruptSnapshot(f"{name} was changed or cut off: its checksum does not match")
    columns = _checked_directory(decode_value(directory), raw, name)
    return _columns(columns, decompress(number, body, raw, name), _kernels(compiled), name)


def _checksum(codec: int, sizes: bytes, directory: bytes, body: Any) -> int:
    return zlib.crc32(body, zlib.crc32(directory, zlib.crc32(sizes, codec)))


def _written(column: Array | bytes, kernels: SimpleNamespace, codec: Codec) -> tuple[tuple[Any, ...], bytes]:
    """The entry of a column in the directory, without its name, and its bytes."""
    if isinstance(column, bytes):
        return ("", len(column), 1, 0, 1, 0, _BYTES), column
    values = np.ascontiguousarray(column).reshape(-1)
    dtype = values.dtype
    if dtype.kind in "iub":
        numbers = values.view(np.int64) if dtype.itemsize == 8 else values.astype(np.int64)
        return _narrowed(dtype.str, numbers, 0, kernels)
    if dtype.kind == "f" and len(values) and (body := codec.floats(values)) is not None:
        return (dtype.str, len(values), dtype.itemsize, 0, 1, len(body), _PCODEC), body
    if dtype == np.float64 and len(values):
        whole = np.empty(len(values), np.int64)
        for place, scale in enumerate(_SCALES):
            if kernels.decimals(values, scale, whole):
                return _narrowed(dtype.str, whole, place + 1, kernels)
    if dtype.kind == "f":
        size = dtype.itemsize
        body = values.view(np.uint8).reshape(len(values), size).T.tobytes()
        return (dtype.str, len(values), size, 0, 1, 0, _TRANSPOSED), body
    return (dtype.str, len(values), dtype.itemsize, 0, 1, 0, _AS_IS), values.tobytes()


def _narrowed(dtype: str, values: Any, place: int, kernels: SimpleNamespace) -> tuple[tuple[Any, ...], bytes]:
    """Integers in as few bytes as they need. ``place`` is that of the scale which made them from floats, plus 1."""
    if not len(values):
        return (dtype, 0, 0, 0, 1, 0, _VALUES + 8 * place), b""
    found = np.empty(4, np.int64)
    close = kernels.spread(values, found)
    least, most, nearest, farthest = found.tolist()
    if most - least >= 1 << 62:
        return (dtype, len(values), 8, 0, 1, 0, _AS_IS + 8 * place), values.tobytes()
    differences = bool(close) or farthest - nearest < most - least
    base, span = (nearest, farthest - nearest) if differences else (least, most - least)
    step = int(kernels.common_step(values, differences, base)) if span else 1
    width = next(width for width in _WIDTHS if span // step < 1 << (8 * width))
    kind = (_DIFFERENCES if differences else _VALUES) + 8 * place
    entry = (dtype, len(values), width, base, step, int(values[0]), kind)
    if not width:
        return entry, b""
    out = np.empty(len(values), _WIDTHS[width])
    kernels.squeeze(values, differences, base, step, out)
    return entry, out.tobytes()


def _columns(
    directory: list[tuple[Any, ...]], stored: memoryview, kernels: SimpleNamespace, block: str
) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    at = 0
    for name, dtype, count, width, base, step, first, kind in directory:
        size = _size(count, width, first, kind)
        body, at = stored[at : at + size], at + size
        kind, place = kind % 8, kind // 8
        if kind == _BYTES:
            columns[name] = bytes(body)
        elif kind == _PCODEC:
            columns[name] = floats_of(bytes(body), count, dtype, block)
        elif kind == _TRANSPOSED:
            values = np.frombuffer(body, np.uint8).reshape(width, count).T
            columns[name] = np.ascontiguousarray(values).view(np.dtype(dtype)).reshape(count)
        elif kind == _AS_IS:
            values = np.frombuffer(body, np.int64 if place else np.dtype(dtype))
            columns[name] = _as_typed(values, dtype, place)
        else:
            whole = np.empty(count, np.int64)
            written = np.frombuffer(body, _WIDTHS[width]) if width else np.broadcast_to(np.uint8(0), count)
            kernels.stretch(np.ascontiguousarray(written), kind == _DIFFERENCES, first, base, step, whole)
            columns[name] = _as_typed(whole, dtype, place)
    return columns


def _size(count: int, width: int, first: int, kind: int) -> int:
    """How many bytes a column takes."""
    return first if kind == _PCODEC else count * width


def _as_typed(values: Any, dtype: str, place: int) -> Any:
    if place:
        return values / _SCALES[place - 1]
    kind = np.dtype(dtype)
    if values.dtype == kind:
        return values
    return values.view(kind) if kind.itemsize == 8 else values.astype(kind)


def _checked_directory(directory: Any, raw: int, name: str) -> list[tuple[Any, ...]]:
    """The directory, if columns of its sizes are what the block says it holds, and can be written to arrays."""
    if not isinstance(directory, list) or raw > LARGEST:
        raise CorruptSnapshot(f"{name} declares {raw:,} bytes, more than a cold block can")
    total = 0
    for entry in directory:
        if type(entry) is not tuple or [type(each) for each in entry] != [str, str, *[int] * 6]:
            raise CorruptSnapshot(f"{name} has a column whose entry cannot be read")
        column, dtype, count, width, base, step, first, kind = entry
        if (not 0 <= count <= LARGEST // 8 and kind != _BYTES) or not 0 <= count <= LARGEST:
            raise CorruptSnapshot(f"{name}: column {column!r} cannot have {count} values")
        if not _is_possible(dtype, width, kind) or max(map(abs, (base, step, first))) >= 1 << 63:
            raise CorruptSnapshot(f"{name}: column {column!r} cannot be {dtype!r} in {width} byte(s)")
        if kind == _PCODEC and not 0 < first <= LARGEST:
            raise CorruptSnapshot(f"{name}: column {column!r} cannot take {first} byte(s)")
        total += _size(count, width, first, kind)
    if total != raw:
        raise CorruptSnapshot(f"{name} declares {raw:,} bytes, but its columns take {total:,}")
    return directory


def _is_possible(dtype: str, width: int, kind: int) -> bool:
    """Whether a column of this type may be written so."""
    kind, place = kind % 8, kind // 8
    if kind == _BYTES:
        return dtype == "" and width == 1 and place == 0
    if len(dtype) not in (3, 4) or dtype[0] not in "<|" or dtype[1] not in "biuf" or not dtype[2:].isdigit():
        return False
    try:
        known = np.dtype(dtype)
    except TypeError:
        return False
    if kind == _PCODEC:
        return place == 0 and known.kind == "f" and width == known.itemsize
    if not 0 <= place <= len(_SCALES) or (place > 0) != (known.kind == "f" and kind != _TRANSPOSED):
        return False
    if kind == _AS_IS:
        return width == (8 if place else known.itemsize)
    return width == known.itemsize if kind == _TRANSPOSED else kind < _TRANSPOSED and width in _WIDTHS


@cache
def _kernels(compiled: bool) -> SimpleNamespace:
    return specialise(narrow, {}, compiled=compiled)
