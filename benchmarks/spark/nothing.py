"""The least that a stateful Python operator costs: windrow's stages of a micro-batch, with an operator that computes nothing.

It takes the packed rows of each bucket, reads and writes eight bytes of state, and gives no windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from windrow_spark.packing import PACKED, pack, unpack

ROWS = pa.schema([("plug", pa.int64()), ("ts", pa.timestamp("us", "UTC")), ("load", pa.float64())])
WINDOWS = pa.schema([("plug", pa.int64()), ("peak", pa.float64())])


class Nothing(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.value = handle.getValueState("value", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        held = self.value.get()
        self.value.update(((0 if held is None else held[0]) + len(list(rows)),))
        yield Row(windows=None)

    def close(self) -> None:
        pass


def nothing(frame: DataFrame, buckets: int) -> DataFrame:
    """No windows of a streaming DataFrame."""
    bucket = F.pmod(F.xxhash64("plug"), F.lit(buckets)).cast("int").alias("bucket")
    packed = frame.select("plug", "ts", "load", bucket).mapInArrow(pack(ROWS), PACKED)
    kept = packed.groupBy("bucket").transformWithState(
        Nothing(), outputStructType="windows binary", outputMode="Append", timeMode="EventTime"
    )
    return kept.mapInArrow(unpack(WINDOWS), "plug long, peak double")
