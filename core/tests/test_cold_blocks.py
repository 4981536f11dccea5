"""Cold blocks: their bytes come back as they were, or are refused by the name of the block."""

from __future__ import annotations

import struct
import sys
import zlib
from typing import Any

import numpy as np
import pytest

import windrow as wr
from windrow import errors
from windrow.columns.encoding import encode_value
from windrow.storage.cold_block import LARGEST, Codec, pack, unpack
from windrow.storage.cold_codec import CODECS

COLUMNS: dict[str, Any] = {
    "stamps": np.cumsum(np.arange(40)) * 60,
    "wide": np.array([-(2**63), 2**63 - 1, 0]),
    "decimal": np.array([1.25, -3.5, 0.0, 1e6]),
    "float": np.array([np.nan, -0.0, np.inf, 1 / 3]),
    "small": np.array([1.5, np.nan], np.float32),
    "flags": np.array([True, False, True]),
    "unsigned": np.array([2**64 - 1, 0], np.uint64),
    "none": np.zeros(0, np.int32),
    "bytes": b"objects",
}


@pytest.mark.parametrize("codec", CODECS)
def test_columns_come_back_bit_by_bit(codec: str) -> None:
    found = unpack(pack(COLUMNS, Codec(codec), compiled=False), "cold.1", compiled=False)
    for name, column in COLUMNS.items():
        same = column if isinstance(column, bytes) else column.tobytes()
        assert (found[name] if isinstance(column, bytes) else found[name].tobytes()) == same, name


@pytest.mark.parametrize(("codec", "version"), [("zstd", 1), ("pcodec", 2)])
def test_every_changed_byte_and_every_cut_of_a_block_is_refused_by_name(codec: str, version: int) -> None:
    block = pack(COLUMNS, Codec(codec), compiled=False)
    assert block[4] == version  # an earlier version of windrow refuses what it cannot read
    for at in range(len(block)):
        for changed in (block[:at] + bytes([block[at] ^ 0x41]) + block[at + 1 :], block[:at]):
            with pytest.raises((errors.CorruptSnapshot, errors.FormatTooNew), match=r"cold\.7"):
                unpack(changed, "cold.7", compiled=False)


def test_a_block_that_says_it_is_huge_is_refused_before_memory_is_taken() -> None:

    for raw, entry in (
        (1 << 40, ("x", "<i8", 1 << 37, 8, 0, 1, 0, 0)),
        (LARGEST + 8, ("x", "<i8", LARGEST // 8 + 1, 8, 0, 1, 0, 0)),
        (0, ("x", "<i8", 1 << 40, 0, 0, 1, 0, 1)),
        (8, ("x", "<i8", 2, 8, 0, 1, 0, 0)),
        (8, ("x", "|O8", 1, 8, 0, 1, 0, 0)),
        (8, ("x", "<f8", 1 << 40, 8, 0, 1, 8, 5)),
        (8, ("x", "<f8", 1, 8, 0, 1, 1 << 40, 5)),
        (8, ("x", "<i8", 1, 8, 0, 1, 8, 5)),
    ):
        directory = encode_value([entry])
        sizes = struct.pack("<IQ", len(directory), raw)
        crc = zlib.crc32(b"", zlib.crc32(directory, zlib.crc32(sizes, 1)))
        block = b"wrcb\1\1" + crc.to_bytes(4, "little") + sizes + directory
        with pytest.raises(errors.CorruptSnapshot, match=r"cold\.7"):
            unpack(block, "cold.7", compiled=False)


def test_without_pcodec_its_codec_and_its_blocks_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    block = pack(COLUMNS, Codec("pcodec"), compiled=False)
    monkeypatch.setitem(sys.modules, "pcodec", None)
    with pytest.raises(errors.QueryError, match=r"pip install pcodec"):
        wr.Idle("1s", codec="pcodec")
    with pytest.raises(errors.SnapshotError, match=r"cold\.7 .* pip install pcodec"):
        unpack(block, "cold.7", compiled=False)
