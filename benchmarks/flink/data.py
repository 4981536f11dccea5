"""The rows that all contenders get: files that Flink SQL, Flink's streams and windrow can read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq

MILLISECONDS = 1000


@dataclass(frozen=True)
class Rows:
    """So many rows of so many keys, a fixed number of them in each second."""

    count: int
    keys: int
    per_second: int

    def table(self) -> pa.Table:
        rng = np.random.default_rng(4)
        times = (np.arange(self.count) * 1000 // self.per_second).astype(np.int64)  # milliseconds
        return pa.table(
            {
                "k": rng.integers(0, self.keys, self.count),
                "ms": times,
                "v": rng.integers(0, 1_000_000, self.count),
            }
        )

    def files(self, folder: Path) -> tuple[Path, Path]:
        """A CSV file (for Flink's readers) and a Parquet file with microseconds (for packed rows)."""
        name = f"{self.count}-{self.keys}-{self.per_second}"
        text, parquet = folder / f"{name}.csv", folder / f"{name}.parquet"
        if not parquet.exists():
            rows = self.table()
            csv.write_csv(rows, text, csv.WriteOptions(include_header=False))
            micros = pa.array(rows.column("ms").to_numpy() * MILLISECONDS)
            pq.write_table(pa.table({"k": rows["k"], "ts": micros, "v": rows["v"]}), parquet)
        return text, parquet
