"""The rows that all contenders get, by the same formulas: a table that Flink makes in the JVM, a Parquet file, a stream."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Rows:
    """So many rows of so many keys, a fixed number of them in each second."""

    count: int
    keys: int
    per_second: int

    def key(self, number: int) -> int:
        return number * 7919 % self.keys

    def micros(self, number: int) -> int:
        return number * 1000 // self.per_second * 1000

    def value(self, number: int) -> int:
        return number * 40_503 % 1_000_003

    def sql(self, name: str) -> str:
        """The rows as a table of Flink's own generator, the fastest source that Flink SQL has."""
        return (
            f"CREATE TEMPORARY TABLE `{name}` (id BIGINT, k AS MOD(id * 7919, {self.keys}), "
            f"v AS MOD(id * 40503, 1000003), x AS CAST(MOD(id * 40503, 1000003) AS DOUBLE) / 8, "
            f"ts AS TO_TIMESTAMP_LTZ(id * 1000 / {self.per_second}, 3), "
            "WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen', 'rows-per-second' = '1000000000', 'fields.id.kind' = 'sequence', "
            f"'fields.id.start' = '0', 'fields.id.end' = '{self.count - 1}')"
        )

    def parquet(self, folder: Path) -> Path:
        """The rows as a file, for packed rows."""
        path = folder / f"{self.count}-{self.keys}-{self.per_second}.parquet"
        if not path.exists():
            numbers = np.arange(self.count, dtype=np.int64)
            columns = {
                "k": numbers * 7919 % self.keys,
                "ts": numbers * 1000 // self.per_second * 1000,
                "v": numbers * 40_503 % 1_000_003,
                "x": numbers * 40_503 % 1_000_003 / 8,
            }
            pq.write_table(pa.table(columns), path)
        return path
