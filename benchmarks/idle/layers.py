"""Which layer compresses the pages of a store: windrow, the engine, or both?

The pages are those of 100,000 keys, most of them silent, with D = 60 s and without. They are written to a RocksDB, once as
windrow writes them, and once as they were before it compressed them, under each codec that RocksDB has. Spark's state store
uses lz4 by default, Flink's Snappy. The size is that of the files after a compaction; processor time is that of writing all
pages and reading them once, with windrow's part of it; the median of some rounds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from benchmarks.idle import million
from windrow.storage.codec import compress, decompress
from windrow.storage.pages import MemoryPages

ROCKSDB = ("none", "snappy", "lz4", "zstd")


def compared(keys: int, rounds: int) -> Iterator[dict[str, Any]]:
    """A line for each D, codec of RocksDB, and whether windrow compresses."""
    for after in (None, "60s"):
        raw = {name: decompress(page) for name, page in pages(keys, after).items()}
        for ours in (True, False):
            for theirs in ROCKSDB:
                found = [stored(raw, ours, theirs) for _ in range(rounds)]
                yield {
                    "keys": keys,
                    "after": str(after),
                    "windrow": "compresses" if ours else "does not",
                    "rocksdb": theirs,
                    "raw_kb": round(sum(map(len, raw.values())) / 1e3),
                    "disk_kb": round(found[0][0] / 1e3),
                    "cpu_ms": round(1000 * median(seconds for _, seconds in found), 1),
                }


def pages(keys: int, after: str | None) -> dict[str, bytes]:
    """What a store holds after some minutes with rows of all keys, and some with rows of a hundred."""
    store = MemoryPages()
    buckets = million.Buckets([store], after)
    million.fill(buckets, keys)
    buckets.step(million.table(np.repeat(np.arange(100), 10), 7, 7), 8 * million.MINUTE)
    buckets.commit()
    return dict(store.held)


def stored(raw: dict[str, bytes], ours: bool, theirs: str) -> tuple[int, float]:
    """The bytes of the files, and processor time."""
    import rocksdict

    options = rocksdict.Options(raw_mode=True)
    options.set_compression_type(getattr(rocksdict.DBCompressionType, theirs)())
    with TemporaryDirectory() as folder:
        database = rocksdict.Rdict(folder, options)
        began = process_time()
        for name, page in raw.items():
            database[name.encode()] = compress(page) if ours else page
        database.flush()
        database.compact_range(None, None)
        for name, page in raw.items():
            found = database[name.encode()]
            assert (decompress(found) if ours else found) == page
        seconds = process_time() - began
        size = sum(path.stat().st_size for path in Path(folder).glob("*.sst"))
        database.close()
    return size, seconds
