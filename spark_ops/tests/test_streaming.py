"""Streaming: what the sink gets, and what `remaining` adds, are together the answer of the in-process engine."""

import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from windrow.errors import EngineError, FingerprintMismatch, QueryError, StoreError, TimeColumnError
from windrow.storage.pages import MemoryPages
from windrow.storage.segments import Segments, header_in
from windrow_spark import inspect_state, remaining, split_late, windowed
from windrow_spark.checkpoints import check_header
from windrow_spark.schemas import fit

# Two files in order of time with a little disorder, an idle plug, nulls; one row comes far too late.
FILES = """
    select case when id % 7 = 0 then null when id < 40 then 'idle' else concat('plug ', id % 5) end as plug,
           timestamp_micros(1700000000000000 + id * 250000 - (id % 4) * 900000
                            - case when id = 301 then 60000000 else 0 end) as ts,
           case when id % 11 = 0 then null else cast((id * 7919) % 1000 as double) / 8 end as load, id
    from range({first}, {last}, 1, 1)
"""
TIME = wr.TimeWindow("10s", "1s")


class Files:
    """A folder of rows, one file per micro-batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder = spark, folder

    def add(self, rows: DataFrame) -> None:
        rows.coalesce(1).write.mode("append").parquet(str(self.folder / "rows"))

    def rows(self) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / "rows"))

    def stream(self) -> DataFrame:
        read = (
            self.spark.readStream.schema(self.rows().schema)
            .option("maxFilesPerTrigger", 1)
            .option("latestFirst", "false")
        )
        return read.parquet(str(self.folder / "rows")).withWatermark("ts", "2 seconds")

    def start(self, frame: DataFrame, name: str) -> Any:
        writer = frame.writeStream.option("checkpointLocation", self.checkpoint(name)).trigger(
            availableNow=True
        )
        return writer.format("parquet").option("path", str(self.folder / f"out_{name}")).start()

    def run(self, frame: DataFrame, name: str) -> Any:
        """Everything that is final is written; the query's progress."""
        query = self.start(frame, name)
        query.awaitTermination()
        return query.recentProgress

    def written(self, name: str) -> DataFrame:
        return self.spark.read.parquet(str(self.folder / f"out_{name}"))

    def checkpoint(self, name: str) -> str:
        return str(self.folder / f"checkpoint_{name}")


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    found = Files(spark, tmp_path_factory.mktemp("stream"))
    for first in range(0, 400, 200):
        found.add(spark.sql(FILES.format(first=first, last=first + 200)))
    yield found


def on_time(rows: DataFrame) -> pa.Table:
    return rows.filter("id <> 301").orderBy("ts", "id").toArrow()


def final(windows: pa.Table, data: pa.Table) -> pa.Table:
    watermark = pc.subtract(pc.max(data.column("ts")), pa.scalar(2_000_000, pa.duration("us")))
    return windows.filter(pc.less_equal(windows.column("window_end"), watermark))


def test_a_stream_and_what_remains_are_the_answer(files: Files) -> None:
    """Late rows go aside; the watermark finishes windows exactly, also those of idle plugs; the rest is in the checkpoint."""
    aggregates = {"peak": wr.Max("load"), "n": wr.Count(), "first": wr.First("id")}
    query = wr.Query("plug", window=TIME, aggregates=aggregates, late="side")
    frozen = windowed(files.stream(), query, buckets=3, idle=wr.Idle("0s", cohort=1))
    progress = files.run(frozen, "side")
    data = on_time(files.rows())
    expected = wr.aggregate(data, query)
    bound = query.bind(data.schema)

    windows, late = split_late(files.written("side"))
    assert late.columns == files.rows().columns
    assert [row.id for row in late.collect()] == [301]
    finished = bound.sort(windows.toArrow()).cast(expected.schema)
    assert finished.equals(final(expected, data))

    rest = remaining(files.stream(), query, files.checkpoint("side")).toArrow().cast(expected.schema)
    assert bound.sort(pa.concat_tables([finished, rest])).equals(expected)

    facts = inspect_state(files.checkpoint("side"), query, files.stream()).toPandas()
    assert (
        facts.open_windows.sum() == rest.num_rows and facts.late_rows.sum() == 1 and (facts.bytes > 0).all()
    )
    assert inspect_state(files.checkpoint("side")).count() == len(facts)

    metrics = [next(iter(each["observedMetrics"].values())) for each in progress]
    assert sum(each.windows or 0 for each in metrics) == finished.num_rows
    assert sum(each.late_rows or 0 for each in metrics) == 1
    assert sum(each.freezes or 0 for each in metrics) > sum(each.thaws or 0 for each in metrics) > 0


REPORTS = """
    select concat('plug ', plug) as plug, timestamp_micros(1700000000000000 + id) as ts, plug / 8.0D as load, id
    from values {rows} as reports(plug, id)
"""


def test_keys_are_frozen_emit_and_thaw_across_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    """Ten plugs, of which plug 0 goes on and plug 1 comes back. They share a bucket, so the figures of each micro-batch are known."""
    aggregates = {"peak": wr.Max("load"), "n": wr.Count(), "first": wr.First("id")}
    query = wr.Query("plug", window=TIME, aggregates=aggregates)
    all_plugs = [(plug, second * 1_000_000 + plug) for second in range(2) for plug in range(10)]
    files, figures = Files(spark, tmp_path), []
    lives = [
        [[*all_plugs, (0, 6_000_000)], [(0, 9_000_000)]],
        [[(0, 10_000_000), (1, 10_000_001), (0, 14_000_000)]],
    ]
    for batches in lives:
        for reports in batches:
            files.add(spark.sql(REPORTS.format(rows=", ".join(map(str, reports)))))
        frozen = windowed(files.stream(), query, buckets=1, idle=wr.Idle("2s", cohort=1))
        metrics = [next(iter(each["observedMetrics"].values())) for each in files.run(frozen, "frozen")]
        figures.append([(each.cold_keys, each.freezes, each.thaws, each.windows) for each in metrics])
    # Cold keys, freezes, thaws and windows at the watermarks 4 s and 7 s; after the restart again 7 s, then 12 s, when
    # plug 1 thaws, plug 0 is frozen, and the last windows of the other plugs have ended.
    assert figures == [
        [(0, 0, 0, 0), (10, 10, 0, 40), (9, 0, 1, 30)],
        [(9, 0, 0, 0), (1, 1, 1, 42)],
    ]
    data = files.rows().orderBy("ts").toArrow()
    expected, bound = wr.aggregate(data, query), query.bind(data.schema)  # without idle
    windows = files.written("frozen").toArrow().cast(expected.schema)
    assert bound.sort(windows).equals(final(expected, data))
    rest = remaining(files.stream(), query, files.checkpoint("frozen")).toArrow().cast(expected.schema)
    assert bound.sort(pa.concat_tables([windows, rest])).equals(expected)


def test_all_windows_stream(files: Files) -> None:
    windows = {
        "count": wr.CountWindow(7, 3),
        "session": wr.SessionWindow("1s"),
        "tuples": wr.SlideByTuple("9s", 4),
        "times": wr.SlideByTime(9, "4s"),
        "delta": wr.DeltaWindow("ts", "9s", "4s"),
        "policy": wr.PolicyWindow(valid=at_most_nine),
        "several": [TIME, wr.TimeWindow("7s", "3s", "500ms")],
    }
    aggregates = {"ids": wr.Collect("id"), "n": wr.Count()}
    queries = {
        name: wr.Query("plug", window=window, aggregates=aggregates) for name, window in windows.items()
    }
    running = [
        files.start(windowed(files.stream(), query, buckets=2), name) for name, query in queries.items()
    ]
    for each in running:
        each.awaitTermination()
    data = on_time(files.rows())
    for name, query in queries.items():
        expected = wr.aggregate(data, query)
        got = files.written(name).toArrow().cast(expected.schema)
        rest = remaining(files.stream(), query, files.checkpoint(name)).toArrow().cast(expected.schema)
        assert got.num_rows > rest.num_rows, name
        assert query.bind(data.schema).sort(pa.concat_tables([got, rest])).equals(expected), name


def test_workers_compute_the_windows_that_a_stateful_task_has_found(files: Files) -> None:
    aggregates = {"f": wr.Apply(discounted, ["load", "id"]), "middle": wr.Median("load"), "n": wr.Count()}
    query = wr.Query("plug", window=wr.SlideByTuple("9s", 4), aggregates=aggregates, late="side")
    progress = files.run(windowed(files.stream(), query, buckets=2, workers=2), "workers")
    data = on_time(files.rows())
    expected = wr.aggregate(data, query)
    windows, late = split_late(files.written("workers"))
    assert [row.id for row in late.collect()] == [301]
    got = windows.toArrow().cast(expected.schema)
    metrics = [next(iter(each["observedMetrics"].values())) for each in progress]
    assert sum(each.windows or 0 for each in metrics) == got.num_rows
    # The state is that of a stream without workers, so all that reads it still does.
    rest = remaining(files.stream(), query, files.checkpoint("workers")).toArrow().cast(expected.schema)
    assert query.bind(data.schema).sort(pa.concat_tables([got, rest])).equals(expected)


def discounted(load: Any, id: Any) -> Any:
    """Older rows count for less, so order matters."""
    result = 0.0
    for i in range(len(load)):
        result = 0.5 * result + load[i] + id[i]
    return result


def at_most_nine(result: Any) -> bool:
    return bool(result.n < 9)


def test_a_checkpoint_belongs_to_its_query(files: Files) -> None:
    query = wr.Query("plug", window=TIME, aggregates={"n": wr.Count()})
    running = windowed(files.stream(), query).writeStream.option(
        "checkpointLocation", files.checkpoint("own")
    )
    running = running.format("parquet").option("path", str(files.folder / "out_own")).start()
    running.processAllAvailable()
    rest = remaining(files.stream(), query, files.checkpoint("own")).toArrow()
    assert running.isActive, "the windows that remain are read while the stream runs"
    running.stop()
    expected = wr.aggregate(on_time(files.rows()), query)
    found = pa.concat_tables(
        [files.written("own").toArrow().cast(expected.schema), rest.cast(expected.schema)]
    )
    assert query.bind(files.rows().toArrow().schema).sort(found).equals(expected)
    files.add(files.spark.sql(FILES.format(first=400, last=500)))
    other = wr.Query("plug", window=wr.TimeWindow("20s", "1s"), aggregates={"n": wr.Count()})
    place = files.checkpoint("own")
    windowed(files.stream(), query, checkpoint=place)
    windowed(files.stream(), query, checkpoint=files.folder / "nowhere")
    for ask in (
        lambda: windowed(files.stream(), other, checkpoint=Path(place)),
        lambda: remaining(files.rows(), other, Path(place)),
        lambda: inspect_state(Path(place), other, files.rows()),
    ):
        with pytest.raises(FingerprintMismatch, match=r"^the checkpoint .*window was .10s. and is .20s."):
            ask()
    shorter = files.stream().withColumn("plug", F.length("plug"))
    with pytest.raises(QueryError, match=r"'plug' was a string when .* and is a int now; cast it to string"):
        windowed(shorter, query, checkpoint=place)
    with pytest.raises(FingerprintMismatch, match=r"buckets=16.*buckets=5"):
        windowed(files.stream(), query, buckets=5, checkpoint=place)
    with pytest.raises(StoreError, match="no state of a windrow stream"):
        inspect_state(files.folder / "nowhere")


def test_a_query_that_does_not_fit_is_refused_when_its_stream_starts(files: Files) -> None:
    """Without `checkpoint=`: whatever is made of the windows first, and however the writer learns of the checkpoint."""
    query = wr.Query("plug", window=TIME, aggregates={"n": wr.Count()})
    other = wr.Query("plug", window=wr.TimeWindow("20s", "1s"), aggregates={"n": wr.Count()})
    own, fewer = windowed(files.stream(), query), windowed(files.stream(), query, buckets=5)
    cast = windowed(files.stream().withColumn("plug", F.length("plug")), query)
    files.run(deduplicated(own), "once")
    place = files.checkpoint("once")
    changed = windowed(files.stream(), other).where("n > 1").select("n").writeStream
    files.spark.conf.set("spark.sql.streaming.checkpointLocation", str(files.folder))
    try:
        for start in (
            lambda: changed.format("noop").option("CheckpointLocation", place).start(),
            lambda: changed.format("noop").start(checkpointLocation=place),
            lambda: changed.format("noop").queryName("checkpoint_once").start(),
            lambda: changed.toTable("never_made", checkpointLocation=place),
        ):
            with pytest.raises(
                FingerprintMismatch, match=r"^the checkpoint .*window was .10s. and is .20s."
            ) as told:
                start()
            assert len(traceback.format_exception(told.value)) <= 10
    finally:
        files.spark.conf.unset("spark.sql.streaming.checkpointLocation")
    for misfit, says in (fewer, r"buckets=16.*buckets=5"), (cast, "'plug' was a string .* and is a int now"):
        with pytest.raises((FingerprintMismatch, QueryError), match=says) as refused:
            files.run(deduplicated(misfit), "once")
        assert len(traceback.format_exception(refused.value)) <= 10
    files.run(deduplicated(own), "once")


def deduplicated(windows: DataFrame) -> DataFrame:
    """Has a stateful operator of Spark after ours."""
    return windows.withWatermark("window_end", "0 seconds").dropDuplicates(["window_end"])


def test_the_header_of_a_large_state_is_checked_without_its_directory(files: Files) -> None:
    query, other = (wr.Query("plug", window=TIME, aggregates={"n": wr.Count(at)}) for at in ("load", "id"))
    own, store = MemoryPages(), MemoryPages()
    wr.Operator.open(query, fit(query, files.rows()).schema, Segments(own)).commit()
    pages = Segments(store)
    for commit in range(40):
        pages.commit({"header": header_in(own.held["header"]), f"{commit}.1.0": b"slices"}, [])
    assert "block.0" in store.held
    check_header(store.held["header"], fit(query, files.rows()))
    with pytest.raises(FingerprintMismatch):
        check_header(store.held["header"], fit(other, files.rows()))


def test_a_checkpoint_of_another_stream_is_refused(files: Files) -> None:
    query = wr.Query("plug", window=TIME, aggregates={"n": wr.Count()})
    for name, other in {
        "native": files.stream().groupBy("plug", F.window("ts", "10 seconds")).count(),
        "stateless": files.stream().select("plug"),
    }.items():
        files.run(other, name)
        with pytest.raises(StoreError, match="written by another streaming query, not by windrow"):
            windowed(files.stream(), query, checkpoint=files.checkpoint(name))
        with pytest.raises(StoreError, match="written by another streaming query, not by windrow"):
            files.run(windowed(files.stream(), query), name)


def test_what_cannot_stream_is_refused_at_once(files: Files) -> None:
    query = wr.Query("plug", window=TIME, aggregates={"n": wr.Count()})
    bare = files.spark.readStream.schema(files.rows().schema).parquet(str(files.folder / "rows"))
    with pytest.raises(TimeColumnError, match=r"no watermark.*withWatermark"):
        windowed(bare, query)
    later = wr.Query("plug", "later", window=TIME, aggregates={"n": wr.Count()})
    with pytest.raises(TimeColumnError, match="its watermark is on 'ts'"):
        windowed(files.stream().withColumn("later", F.current_timestamp()), later)
    with pytest.raises(TimeColumnError, match=r"'later' is a bigint; a stream needs a timestamp"):
        windowed(bare.withColumnRenamed("id", "later"), later)
    with pytest.raises(TimeColumnError, match=r"'later' is a date; make it a timestamp: .*to_timestamp"):
        windowed(bare.withColumn("later", F.current_date()), later)
    with pytest.raises(QueryError, match="windowed takes the DataFrame first, then the query"):
        windowed(query, files.stream())  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="'late' is reserved"):
        windowed(files.stream(), wr.Query("plug", window=TIME, aggregates={"late": wr.Count()}, late="side"))
    with pytest.raises(QueryError, match="buckets"):
        windowed(files.stream(), query, buckets=0)
    with pytest.raises(QueryError, match="Apply or Median"):
        windowed(files.stream(), query, workers=2)
    with pytest.raises(QueryError, match="parallel="):
        windowed(files.rows(), query, workers=2)
    with pytest.raises(QueryError, match=r"output_mode is 'complete'.*append"):
        windowed(files.stream(), query, output_mode="complete")
    plain = files.spark.newSession()
    rows = plain.readStream.schema(files.rows().schema).parquet(str(files.folder / "rows"))
    plain.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
    )
    with pytest.raises(EngineError, match=r"session_conf\(\).*prepare\(spark\)"):
        windowed(rows.withWatermark("ts", "1 second"), query)


def test_pushed_down_slices_stream(files: Files) -> None:
    """Spark's own streaming aggregation makes the slices, ours slides over them, in one query."""
    aggregates = {"peak": wr.Max("load"), "n": wr.Count(), "total": wr.Sum("id")}
    windows = [TIME, wr.TimeWindow("7s", "3s", "500ms")]
    query = wr.Query("plug", window=windows, aggregates=aggregates)
    files.run(windowed(files.stream(), query, push_down=True), "slices")
    data = (
        files.rows().orderBy("ts", "id").toArrow()
    )  # by Spark's rule the late row is not late: its slice comes with the second file's
    expected = final(wr.aggregate(data, query), data)
    got = query.bind(data.schema).sort(files.written("slices").toArrow().cast(expected.schema))
    assert got.equals(expected)
    with pytest.raises(QueryError, match="push_down=True: in a stream"):
        windowed(
            files.stream(), wr.Query("plug", window=TIME, aggregates=aggregates, late="side"), push_down=True
        )
