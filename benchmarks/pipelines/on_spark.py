"""``python -m benchmarks.pipelines.on_spark``: micro-batches of ``pipelined`` on Spark, and changes of a query that runs.

Updates are files, one for each micro-batch. The graph is a file of changes, which the first micro-batch reads. The peer is a
plain stateful map: it keeps the latest value of each stream and emits a row for each update, whatever the graph. Spark has
three ways to write it in Python; all of them run first, and the fastest is the peer. Ours and the peer take turns in one
session, over the same files; their rows go nowhere. The first micro-batches, in which workers start, do not count. Before all
that, everything runs for a while, until the JVM has compiled what it runs often: a stream runs for days. The title of
the table has the median of a micro-batch before that.

A deep graph emits many rows for each update. ``ratio_to_as_many_rows`` is beside a plain stateful map that emits as many:
the same rows in, as many rows out. Of the two ratios it is the fair one.

A change is put while a query has updates in every micro-batch. ``micro_batches`` is how many began after the change and had no
update of the new composite yet; 0 means that the very next one had it. ``seconds`` are from the change to the end of that one.

Workers of Spark print to standard error; ``2> spark.log`` keeps the tables readable.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from pyspark.sql.streaming import StatefulProcessor
from rich.console import Console

from benchmarks.algorithms.measure import Row, ratio, rounded, write
from benchmarks.pipelines.__main__ import RESULTS, shown
from benchmarks.pipelines.topologies import Streams, pipeline, streams_of
from benchmarks.spark.session import session
from windrow.pipelines import CHANGES, UPDATES, Change, Composite, changes_to_table
from windrow_spark import pipelined

SIZE, FIRST = 1000, 3
"""Updates of a micro-batch, and micro-batches that do not count."""
WARM_UP = 3
"""How often everything runs before it counts."""
SHAPES = (("chain", 1), ("chain", 10), ("chain", 100), ("out-degree", 100))


@dataclass(frozen=True)
class Files:
    """A folder of updates, a file for each micro-batch, and folders of changes, one for each graph."""

    spark: SparkSession
    folder: Path

    def add_updates(self, files: int) -> None:
        for file in range(files):
            rows = [
                {"stream": "o/s0", "ts": n * 1000, "sequence": n, "values": f'{{"v": {n}.0}}'}
                for n in range(file * SIZE, (file + 1) * SIZE)
            ]
            self._add("updates", file, pa.Table.from_pylist(rows, UPDATES))

    def add_changes(self, graph: str, number: int, streams: Streams) -> None:
        puts = [Change.put(stream.to_dict(), by="o") for stream in streams]
        self._add(graph, number, changes_to_table(puts))

    def add_graph(self, shape: str, depth: int) -> str:
        """Write the changes that make a graph; returns its name."""
        graph, kind = f"{shape}-{depth}", "length" if shape == "chain" else shape
        self.add_changes(graph, 0, streams_of(pipeline(kind, depth + 1)))
        return graph

    def _add(self, name: str, number: int, rows: pa.Table) -> None:
        """A file that is there from one moment to the next. Spark reads files by their time, so each is a second younger."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, self.folder / "new")
        os.utime(self.folder / "new", (1_700_000_000 + number,) * 2)
        os.replace(self.folder / "new", self.folder / name / f"{number:05}.parquet")

    def ours(self, graph: str) -> DataFrame:
        updates = self._updates("values").withWatermark("ts", "1 second")
        return pipelined(updates, self._read(graph, CHANGES), order="arrival")

    def plain(self) -> DataFrame:
        """The updates with their channel as a column, for the peers: the JVM reads the JSON."""
        return self._updates("cast(get_json_object(values, '$.v') as double) as v")

    def _updates(self, values: str) -> DataFrame:
        rows = self._read("updates", UPDATES)
        return rows.selectExpr("stream", "timestamp_micros(ts) as ts", "sequence", values)

    def _read(self, name: str, schema: pa.Schema) -> DataFrame:
        types = self.spark.createDataFrame(schema.empty_table()).schema
        reader = self.spark.readStream.schema(types).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.folder / name))


OUT, LATEST = "stream string, ts timestamp, sequence long, v double", "v double"


class OfFrames(StatefulProcessor):  # type: ignore[misc]
    def init(self, handle: Any) -> None:
        self.latest = handle.getValueState("latest", LATEST)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            self.latest.update((float(frame["v"].iloc[-1]),))
            yield frame

    def close(self) -> None:
        pass


class OfRows(OfFrames):
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for row in rows:
            yield SparkRow(stream=row.stream, ts=row.ts, sequence=row.sequence, v=row.v)
        self.latest.update((row.v,))


def of_groups(times: int = 1) -> Callable[..., Iterator[Any]]:
    """A function that emits every row so many times."""

    def emit(key: Any, frames: Iterator[Any], state: Any) -> Iterator[Any]:
        for frame in frames:
            state.update((float(frame["v"].iloc[-1]),))
            yield frame if times == 1 else frame.loc[frame.index.repeat(times)]

    return emit


PEERS: dict[str, tuple[Any, ...]] = {
    "applyInPandasWithState": (of_groups(), OUT, LATEST, "append", "NoTimeout"),
    "transformWithStateInPandas": (OfFrames(), OUT, "append", "None"),
    "transformWithState": (OfRows(), OUT, "append", "None"),
}
"""Methods of the updates of each stream, and their arguments."""


def run(frame: DataFrame) -> list[Any]:
    """The progress of every micro-batch with rows, until all files are read."""
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    return [each for each in query.recentProgress if each["numInputRows"]]


def run_peer(files: Files, peer: str) -> list[float]:
    return steady(run(getattr(files.plain().groupBy("stream"), peer)(*PEERS[peer])))


def run_as_many(files: Files, times: int) -> list[float]:
    """The peer that emits as many rows as a graph does."""
    grouped = files.plain().groupBy("stream")
    return steady(run(grouped.applyInPandasWithState(of_groups(times), OUT, LATEST, "append", "NoTimeout")))


def steady(progress: list[Any]) -> list[float]:
    """Seconds of the micro-batches that count."""
    return [seconds(each) for each in progress[FIRST:]]


def warm_up(files: Files, graph: str, times: int, rounds: int) -> float:
    """Run everything until the JVM has compiled it; seconds of a micro-batch of ours at first."""
    cold = median(steady(run(files.ours(graph))))
    for _ in range(rounds - 1):
        run(files.ours(graph))
    for peer in PEERS:
        run_peer(files, peer)
    run_as_many(files, times)
    return cold


def seconds(progress: Any) -> float:
    return float(progress["durationMs"]["triggerExecution"]) / 1000


def beside_peer(files: Files, shape: str, depth: int, peer: str, rounds: int) -> Row:
    graph, mine, theirs, many = files.add_graph(shape, depth), [], [], []
    for _ in range(rounds):
        progress = run(files.ours(graph))
        emitted = {each["observedMetrics"]["windrow pipelines"]["emitted"] for each in progress}
        if emitted != {SIZE * (depth + 1)}:
            raise SystemExit(f"{graph}: micro-batches emitted {emitted} updates, not {SIZE * (depth + 1)}")
        mine.append(steady(progress))
        theirs.append(run_peer(files, peer))
        many.append(run_as_many(files, depth + 1))
    all_mine, all_theirs = ([each for some in runs for each in some] for runs in (mine, theirs))
    return {
        "shape": shape,
        "depth": depth,
        "updates_per_micro_batch": SIZE,
        "median_seconds": rounded(median(all_mine)),
        "worst_seconds": rounded(max(all_mine)),
        "peer_median_seconds": rounded(median(all_theirs)),
        "ratio": rounded(ratio([*map(median, theirs)], [*map(median, mine)])),
        "ratio_to_as_many_rows": rounded(ratio([*map(median, many)], [*map(median, mine)])),
    }


def changes(files: Files, depth: int, count: int) -> Iterator[Row]:
    """Put composites onto a chain that runs, one after the other, at different moments of a micro-batch."""
    graph, names = files.add_graph("chain", depth), [f"o/new{number}" for number in range(count)]
    counted = [F.count_if(F.col("stream") == name).alias(name) for name in names]
    query = files.ours(graph).observe("new", *counted).writeStream.format("noop").start()
    known: list[Any] = []
    try:
        for number, name in enumerate(names):
            least = len(known) + (2 if known else FIRST)
            while len(known := progress_of(query)) < least:
                time.sleep(0.01)
            time.sleep(number / count * seconds(known[-1]))
            put = time.time()
            files.add_changes(graph, 1 + number, [Composite(name, {"i": "o/s0"}, {"v": "i.v"})])
            while not (new := [each for each in known if each["observedMetrics"]["new"][name]]):
                time.sleep(0.01)
                known = progress_of(query)
            missed = [each for each in known if put < began(each) < began(new[0])]
            yield {
                "shape": "chain",
                "depth": depth,
                "change": 1 + number,
                "micro_batches": len(missed),
                "seconds": rounded(began(new[0]) + seconds(new[0]) - put),
            }
    finally:
        query.stop()


def progress_of(query: Any) -> list[Any]:
    """The progress of a query that runs, of micro-batches with rows."""
    if query.exception() is not None or "Waiting for data" in query.status["message"]:
        raise SystemExit(f"the query has ended, or has read all updates: {query.exception()}")
    return [each for each in query.recentProgress if each["numInputRows"]]


def began(progress: Any) -> float:
    """When a micro-batch began, in seconds since 1970."""
    return datetime.fromisoformat(progress["timestamp"]).timestamp()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="less of everything; for a look, not for the docs"
    )
    quick = parser.parse_args().quick
    batches, rounds, shapes, count = (6, 1, SHAPES[:2], 2) if quick else (10, 2, SHAPES, 3)
    console = Console(width=160)
    with TemporaryDirectory(prefix="windrow-pipelines-", ignore_cleanup_errors=True) as folder:
        spark = session(Path(folder), **{"spark.sql.streaming.checkpointLocation": f"{folder}/checkpoints"})
        files = Files(spark, Path(folder, "table"))
        files.add_updates(batches)
        shape, depth = shapes[-1]
        cold = warm_up(files, files.add_graph(shape, depth), depth + 1, WARM_UP)
        turns = [{name: median(run_peer(files, name)) for name in PEERS} for _ in range(rounds)]
        taken = {name: min(turn[name] for turn in turns) for name in PEERS}
        peer = min(taken, key=taken.__getitem__)
        shown(console, "peers", [{"peer": p, "median_seconds": rounded(taken[p])} for p in PEERS])
        rows = [beside_peer(files, *shape, peer, rounds) for shape in shapes]
        title = f"beside {peer}; the ratio should be below 1.5 ({shape} {depth} at first: {cold:.2f} s)"
        shown(console, title, rows)
        changed: list[Row] = []
        for depth in [depth for shape, depth in shapes if shape == "chain"]:
            files = Files(spark, Path(folder, f"changes-{depth}"))
            files.add_updates(100)
            changed += changes(files, depth, count)
        shown(console, "changes of a query that runs", changed)
        spark.stop()
    if not quick:
        write(rows, RESULTS / "spark.csv")
        write(changed, RESULTS / "spark-change.csv")


if __name__ == "__main__":
    main()
