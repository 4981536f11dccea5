"""Each contender computes the same windows of the same rows; the time is the job's own, from start to end, as Flink reports it."""

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
from benchmarks.flink.data import Rows
from windrow_flink import FPBA, environment, read_packed, windowed, windowed_packed, windowed_table

ROW = Types.ROW_NAMED(["k", "ts", "v"], [Types.LONG(), Types.LONG(), Types.LONG()])
COUNTED = wr.Query(by="k", window=wr.CountWindow(1024, 1), aggregates={"peak": wr.Max("v")})


def query(range_: int, slide: int) -> wr.Query:
    window = wr.TimeWindow(f"{range_}s", f"{slide}s")
    return wr.Query(by="k", window=window, aggregates={"peak": wr.Max("v")})


def packed(data: Rows, folder: Path, asked: wr.Query, buckets: int = 4) -> float:
    """windrow, packed rows from a Parquet file."""
    flink = environment()
    stream, schema = read_packed(flink, data.parquet(folder), asked, buckets=buckets)
    return ran(flink, windowed_packed(stream, asked, schema, buckets=buckets, packed_output=True))


def pushed_down(data: Rows, asked: wr.Query) -> float:
    """windrow, slices by Flink SQL."""
    tables = source(data)
    answer = windowed_table(tables.from_path("rows"), asked, push_down=True, buckets=1)
    tables.create_temporary_view("answer", answer)
    return inserted(tables, "SELECT k, peak FROM answer")


def gathered(
    data: Rows,
    asked: wr.Query,
    parallelism: int = 1,
    mode: str = "auto",
    settings: dict[str, str] | None = None,
) -> float:
    """windrow, rows of the JVM, which are gathered there."""
    flink, stream = from_sql(data, parallelism, mode, settings)
    return ran(flink, windowed(stream, asked))


def hop(data: Rows, range_: int, slide: int) -> float:
    """Flink SQL's HOP, aggregated in two phases."""
    return inserted(
        source(data),
        f"SELECT k, MAX(v) FROM TABLE(HOP(TABLE `rows`, DESCRIPTOR(ts), {seconds(slide)}, {seconds(range_)})) "
        "GROUP BY k, window_start, window_end",
    )


def java_windows(data: Rows, range_: int, slide: int) -> float:
    """The window operator of Flink's DataStream API with a Java aggregate, which is what SQL makes of a group window."""
    group = f"HOP(ts, {seconds(slide)}, {seconds(range_)})"
    return inserted(source(data), f"SELECT k, MAX(v) FROM `rows` GROUP BY k, {group}")


def two_steps(data: Rows, range_: int, slide: int) -> float:
    """Slices by TUMBLE, then a window over slices: a window for every slice that has rows."""
    slices = (
        f"SELECT k, MAX(v) AS v, window_time AS ts FROM TABLE(TUMBLE(TABLE `rows`, DESCRIPTOR(ts), {seconds(slide)})) "
        "GROUP BY k, window_start, window_end, window_time"
    )
    over = f"PARTITION BY k ORDER BY ts RANGE BETWEEN {seconds(range_ - slide)} PRECEDING AND CURRENT ROW"
    return inserted(source(data), f"SELECT k, MAX(v) OVER ({over}) FROM ({slices})")


def seconds(count: int) -> str:
    return f"INTERVAL '{count}' SECOND({max(2, len(str(count)))})"


PEER_SETTINGS = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "200 ms",
    "table.exec.mini-batch.size": "5000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
"""What the tuning guide of Flink SQL recommends for aggregations."""


def source(data: Rows, parallelism: int = 1) -> StreamTableEnvironment:
    tables = StreamTableEnvironment.create(environment(parallelism))
    tables.get_config().set_local_timezone("UTC")
    for name, value in PEER_SETTINGS.items():
        tables.get_config().set(name, value)
    tables.execute_sql(data.sql("rows"))
    return tables


def from_sql(
    data: Rows, parallelism: int, mode: str = "auto", settings: dict[str, str] | None = None
) -> tuple[StreamExecutionEnvironment, DataStream]:
    """The rows of the same table as a stream, with its watermarks; no Python has touched them."""
    flink = environment(parallelism, mode, settings=settings)
    tables = StreamTableEnvironment.create(flink)
    tables.get_config().set_local_timezone("UTC")
    tables.execute_sql(data.sql("rows"))
    micros = f"id * 1000 / {data.per_second} * 1000"
    select = f"SELECT CAST(k AS BIGINT) AS k, {micros} AS ts, CAST(v AS BIGINT) AS v FROM `rows`"
    return flink, tables.to_data_stream(tables.sql_query(select))


def inserted(tables: StreamTableEnvironment, select: str, columns: str = "k BIGINT, peak BIGINT") -> float:
    tables.execute_sql(f"CREATE TEMPORARY TABLE nowhere ({columns}) WITH ('connector' = 'blackhole')")
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


def rows(flink: StreamExecutionEnvironment, data: Rows) -> DataStream:
    """The rows as a stream with watermarks, as a user's own map makes them."""
    numbers = flink.from_source(
        NumberSequenceSource(0, data.count - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).set_parallelism(1)
    made = numbers.map(lambda n: Row(data.key(n), data.micros(n), data.value(n)), output_type=ROW)
    return made.set_parallelism(1).assign_timestamps_and_watermarks(
        WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Times())
    )


def row_by_row(data: Rows, asked: wr.Query) -> float:
    """windrow, one row per element."""
    flink, stream = from_sql(data, 1)
    return ran(flink, windowed(stream, asked, gather=False))


def floor(data: Rows) -> float:
    """An empty function on a keyed stream."""
    flink, stream = from_sql(data, 1)
    keyed = stream.key_by(key, key_type=Types.LONG())
    return ran(flink, keyed.process(Nothing(), output_type=Types.LONG()))


def sliding_reduce(data: Rows, range_: int, slide: int) -> float:
    """Flink's sliding windows with a Python reduce."""
    flink = environment(mode="process")
    keyed = rows(flink, data).key_by(key, key_type=Types.LONG())
    windows = keyed.window(SlidingEventTimeWindows.of(Time.seconds(range_), Time.seconds(slide)))
    return ran(flink, windows.reduce(larger))


def fpba(data: Rows, parallelism: int) -> float:
    """FPBA: max over 1024 rows, at every row (fig. 8 of the paper), of rows that are gathered."""
    flink, stream = from_sql(data, parallelism)
    return ran(flink, FPBA.over(stream, COUNTED))


def fpba_row_by_row(data: Rows, parallelism: int) -> float:
    """The same on a keyed stream, row by row."""
    flink, stream = from_sql(data, parallelism)
    keyed = stream.key_by(key, key_type=Types.LONG())
    found = keyed.process(FPBA(COUNTED, ROW), output_type=FPBA.output_type(COUNTED, ROW))
    return ran(flink, found.disable_chaining())


def count_windows(data: Rows, parallelism: int) -> float:
    """Flink's count windows with a Python reduce."""
    flink, stream = from_sql(data, parallelism, "process")
    keyed = stream.map(lambda row: row, output_type=ROW).key_by(key, key_type=Types.LONG())
    return ran(flink, keyed.count_window(1024, 1).reduce(larger))
