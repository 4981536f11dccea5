"""A job that the tests stop, kill and resume: slow rows, sliding windows, one line in a file for each window."""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import owned
import pyarrow as pa
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import MapFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway

import windrow as wr
from windrow_flink import environment, stop_with_savepoint, windowed, windowed_by_workers

ROWS = int(os.environ.get("WINDROW_JOB_ROWS", "2400"))
QUERY = wr.Query(
    by="plug",
    window=wr.TimeWindow("3s", "500ms"),
    aggregates={"n": wr.Count(), "peak": wr.Max("load"), "all": wr.Collect("number")},
)
COUNTED = wr.Query(
    by="plug", window=wr.CountWindow(50, 10), aggregates={"first": wr.First("number"), "n": wr.Count()}
)
FITTED = wr.Query(
    window=wr.SlideByTuple("2s", 30),
    aggregates={"middle": wr.Median("number"), "last": wr.Apply(owned.discounted, "number"), "n": wr.Count()},
)
TYPE = Types.ROW_NAMED(
    ["plug", "ts", "load", "number"], [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.LONG()]
)


def row(number: int) -> tuple[str, int, float, int]:
    """Rows a few milliseconds apart and a little out of order."""
    return (
        f"plug {number * 7 % 11}",
        (number * 10 + number * 13 % 30) * 1000,
        float(number * 37 % 1009),
        number,
    )


def table() -> pa.Table:
    columns = np.array([row(number) for number in range(ROWS)], dtype=object).T
    names, types = TYPE.get_field_names(), [pa.string(), pa.int64(), pa.float64(), pa.int64()]
    return pa.table([pa.array(c.tolist(), t) for c, t in zip(columns, types, strict=True)], names=names)


class SlowRow(MapFunction):  # type: ignore[misc]
    """A row every now and then; fails once, if it is asked to, after a twelfth of the rows.

    From row ``linger_at`` on, rows come so slowly that whoever means to stop the job finds it running. They do come: a source that
    stands still lets no checkpoint pass.
    """

    def __init__(self, fail_once: str | None, linger_at: int) -> None:
        self.fail_once = fail_once
        self.linger_at = linger_at

    def map(self, number: int) -> Row:
        time.sleep(0.002 if number < self.linger_at else 0.05)
        if self.fail_once and number == ROWS // 12 and not os.path.exists(self.fail_once):
            Path(self.fail_once).touch()
            raise RuntimeError("a failure that happens once")
        return Row(*row(number))


class Write(MapFunction):  # type: ignore[misc]
    """Appends a line per window; after a failure a window may be written again."""

    def __init__(self, path: str) -> None:
        self.path = path

    def map(self, window: Any) -> int:
        with open(self.path, "a") as out:
            out.write(repr(list(window)) + "\n")
        return 1


def main() -> None:
    parse = argparse.ArgumentParser()
    options = (
        "mode",
        "state",
        "folder",
        "resume",
        "fail-once",
        "parallelism",
        "stop-after",
        "detached",
        "way",
        "restarts",
        "linger-at",
        "compaction",
    )
    for name in options:
        parse.add_argument(f"--{name}")
    asked = parse.parse_args()
    folder = Path(asked.folder)
    settings = {"python.fn-execution.bundle.size": "20"}
    if asked.compaction:
        settings["state.backend.rocksdb.compaction.style"] = asked.compaction
    flink = environment(
        int(asked.parallelism),
        asked.mode,
        state=asked.state,
        checkpoints=folder / "checkpoints",
        every="500ms",
        resume=asked.resume,
        restarts=int(asked.restarts or 3),
        settings=settings,
    )
    source = flink.from_source(
        NumberSequenceSource(0, ROWS - 1), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    ).uid("numbers")
    source.set_parallelism(1)
    slow = SlowRow(asked.fail_once, int(asked.linger_at or ROWS))
    rows = source.map(slow, output_type=TYPE).uid("rows").set_parallelism(1)
    results = {
        name: windowed(rows, query, disorder="50ms", gather=asked.way == "batches", uid=name)
        for name, query in {"time": QUERY, "count": COUNTED}.items()
    }
    if asked.way is None:
        results["workers"] = windowed_by_workers(rows, FITTED, 2, disorder="50ms", uid="workers")
    for name, found in results.items():
        written = found.map(Write(str(folder / name)), output_type=Types.INT()).uid(f"write-{name}")
        if name == "workers":
            written.set_parallelism(1)  # so that the file has the order of the windows
        discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        written._j_data_stream.sinkTo(discard).uid(f"end-{name}")
    job = flink.execute_async("windrow")
    if asked.stop_after:
        while not (folder / "time").exists() or len((folder / "time").read_text().splitlines()) < int(
            asked.stop_after
        ):
            time.sleep(0.2)
        (folder / "savepoint").write_text(stop_with_savepoint(job, folder / "savepoints"))
    elif not asked.detached:
        job.get_job_execution_result().result()
        (folder / "finished").touch()


if __name__ == "__main__":
    main()
