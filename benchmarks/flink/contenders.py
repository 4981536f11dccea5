"""Each contender computes the same windows; the time is the job's own, from start to end, as Flink reports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyflink.common import Row, Time, Types, WatermarkStrategy
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import DataStream, KeyedProcessFunction, StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.datastream.window import SlidingEventTimeWindows
from pyflink.java_gateway import get_gateway
from pyflink.table import StreamTableEnvironment

import windrow as wr
from windrow_flink import FPBA, environment, read_packed, windowed, windowed_packed, windowed_table

ROW = Types.ROW_NAMED(["k", "ts", "v"], [Types.LONG(), Types.LONG(), Types.LONG()])


def query(range_: str, slide: str) -> wr.Query:
    return wr.Query(by="k", window=wr.TimeWindow(range_, slide), aggregates={"peak": wr.Max("v")})


def packed(parquet: Path, asked: wr.Query, buckets: int = 4) -> float:
    """windrow, packed rows from a file."""
    flink = environment()
    stream, schema = read_packed(flink, parquet, asked, buckets=buckets)
    return ran(flink, windowed_packed(stream, asked, schema, buckets=buckets, packed_output=True))


def pushed_down(text: Path, asked: wr.Query) -> float:
    """windrow, slices by Flink SQL."""
    flink = environment()
    tables = source(flink, text)
    tables.create_temporary_view("answer", windowed_table(tables.from_path("rows"), asked, buckets=4))
    return inserted(tables, "SELECT k, peak FROM answer")


def hop(text: Path, seconds: int, slide: int) -> float:
    """Flink SQL's HOP."""
    flink = environment()
    tables = source(flink, text)
    return inserted(
        tables,
        f"SELECT k, MAX(v) FROM TABLE(HOP(TABLE `rows`, DESCRIPTOR(ts), INTERVAL '{slide}' SECOND(4), "
        f"INTERVAL '{seconds}' SECOND(6))) GROUP BY k, window_start, window_end",
    )


def source(flink: StreamExecutionEnvironment, text: Path) -> StreamTableEnvironment:
    tables = StreamTableEnvironment.create(flink)
    tables.get_config().set_local_timezone("UTC")
    tables.execute_sql(
        "CREATE TEMPORARY TABLE `rows` (k BIGINT, ms BIGINT, v BIGINT, ts AS TO_TIMESTAMP_LTZ(ms, 3), "
        f"WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{text}', 'format' = 'csv')"
    )
    return tables


def inserted(tables: StreamTableEnvironment, select: str) -> float:
    tables.execute_sql(
        "CREATE TEMPORARY TABLE nowhere (k BIGINT, peak BIGINT) WITH ('connector' = 'blackhole')"
    )
    job = tables.execute_sql(f"INSERT INTO nowhere {select}").get_job_client()
    return float(job.get_job_execution_result().result().get_net_runtime()) / 1000


def ran(flink: StreamExecutionEnvironment, stream: DataStream) -> float:
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    stream._j_data_stream.sinkTo(discard)
    return float(flink.execute().get_net_runtime()) / 1000


class Times(TimestampAssigner):  # type: ignore[misc]
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) // 1000


class Nothing(KeyedProcessFunction):  # type: ignore[misc]
    """The floor: what Flink takes to bring a row into a keyed Python function."""

    def process_element(self, value: Any, context: KeyedProcessFunction.Context) -> Any:
        return ()


def key(row: Any) -> int:
    return int(row[0])


def larger(a: Any, b: Any) -> Any:
    return a if a[2] >= b[2] else b


def rows(flink: StreamExecutionEnvironment, count: int, keys: int, per_second: int) -> DataStream:
    numbers = flink.from_source(
        NumberSequenceSource(0, count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    numbers.set_parallelism(1)
    step = 1_000_000 // per_second
    return numbers.map(
        lambda n: Row(n * 7919 % keys, n * step, n * 31 % 1009), output_type=ROW
    ).set_parallelism(1)


def timed(stream: DataStream) -> DataStream:
    return stream.assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Times())
    )


def row_by_row(count: int, keys: int, per_second: int, asked: wr.Query) -> float:
    """windrow, one row per element."""
    flink = environment()
    return ran(flink, windowed(timed(rows(flink, count, keys, per_second)), asked))


def floor(count: int, keys: int, per_second: int) -> float:
    """An empty function on a keyed stream."""
    flink = environment()
    keyed = timed(rows(flink, count, keys, per_second)).key_by(key, key_type=Types.LONG())
    return ran(flink, keyed.process(Nothing(), output_type=Types.LONG()))


def sliding_reduce(count: int, keys: int, per_second: int, seconds: int, slide: int) -> float:
    """Flink's sliding windows with a Python reduce."""
    flink = environment(mode="process")
    keyed = timed(rows(flink, count, keys, per_second)).key_by(key, key_type=Types.LONG())
    windows = keyed.window(SlidingEventTimeWindows.of(Time.seconds(seconds), Time.seconds(slide)))
    return ran(flink, windows.reduce(larger))


def fpba(count: int, keys: int, parallelism: int) -> float:
    """FPBA: max over 1024 rows, at every row (fig. 8 of the paper)."""
    flink = environment(parallelism)
    asked = wr.Query(by="k", window=wr.CountWindow(1024, 1), aggregates={"peak": wr.Max("v")})
    keyed = timed(rows(flink, count, keys, 1000)).key_by(key, key_type=Types.LONG())
    return ran(
        flink, keyed.process(FPBA(asked, ROW), output_type=FPBA.output_type(asked, ROW)).disable_chaining()
    )


def count_windows(count: int, keys: int, parallelism: int) -> float:
    """Flink's count windows with a Python reduce."""
    flink = environment(parallelism, mode="process")
    keyed = timed(rows(flink, count, keys, 1000)).key_by(key, key_type=Types.LONG())
    return ran(flink, keyed.count_window(1024, 1).reduce(larger))
