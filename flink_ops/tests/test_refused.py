"""What cannot work is refused when the job is put together, by an error that names the thing."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyflink.common import Duration, Types, WatermarkStrategy
from pyflink.datastream.connectors.file_system import FileSource, StreamFormat

import windrow as wr
from windrow import errors
from windrow_flink import FPBA, environment, late_rows, pack, windowed, windowed_by_workers, windowed_packed

ROW = Types.ROW_NAMED(
    ["plug", "ts", "load", "at"], [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.SQL_TIMESTAMP()]
)
SCHEMA = pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()})


def query(**change: Any) -> wr.Query:
    usual = {"by": "plug", "window": wr.TimeWindow("1s"), "aggregates": {"n": wr.Count()}}
    return wr.Query(**{**usual, **change})


def test_what_is_missing_or_does_not_fit_is_named(tmp_path: Path) -> None:
    flink = environment()
    stream = flink.from_collection([], type_info=ROW)
    bytes_ = flink.from_collection(["x"], type_info=Types.STRING())
    refused: list[tuple[Any, type[Exception], str]] = [
        (lambda: query(aggregates={"window_start": wr.Count()}), errors.WindrowError, "window_start"),
        (lambda: FPBA(query(by="plgu"), ROW), errors.ColumnError, "did you mean 'plug'"),
        (lambda: FPBA(query(late="side"), ROW), errors.QueryError, "late"),
        (lambda: FPBA(query(algorithm="DABA"), ROW), errors.QueryError, "DABA"),
        (lambda: FPBA("query", ROW), errors.QueryError, "windrow.Query"),
        (lambda: pack(stream, query(aggregates={"x": wr.Sum("laod")})), errors.ColumnError, "'load'"),
        (lambda: pack(stream, query(time="at")), errors.ColumnError, "whole microseconds"),
        (lambda: windowed_packed(bytes_, query(), SCHEMA), errors.ColumnError, "pack()"),
        (lambda: windowed(stream, query(), ttl="0s"), errors.QueryError, "ttl"),
        (lambda: windowed(SCHEMA, query()), errors.QueryError, "DataStream"),
        (lambda: windowed_by_workers(stream, query(), 0), errors.QueryError, "workers"),
        (
            lambda: windowed_by_workers(stream, query(window=wr.CountWindow(3)), 2),
            errors.QueryError,
            "Apply or Median",
        ),
        (
            lambda: windowed_by_workers(stream, query(window=wr.CountWindow(3)), 2, model="active"),
            errors.QueryError,
            "TimeWindow",
        ),
    ]
    for call, error, says in refused:
        with pytest.raises(error, match=says):
            call()


def test_late_rows_of_another_stream_say_which_it_is() -> None:
    stream = environment().from_collection([], type_info=ROW)
    side = windowed(stream, query(late="side"), disorder="1s")
    for wrong, says in (
        (windowed(stream, query(), disorder="1s", uid="drop"), "give it late='side'"),
        (side.map(lambda row: row), "before .map"),
        (stream, "given to windowed"),
        (SCHEMA, "this is a Schema"),
    ):
        with pytest.raises(errors.QueryError, match=says):
            late_rows(wrong)
    late_rows(side)


def test_a_stream_without_end_and_watermarks_is_refused(tmp_path: Path) -> None:
    format_ = StreamFormat.text_line_format()
    files = FileSource.for_record_stream_format(format_, str(tmp_path)).monitor_continuously(
        Duration.of_seconds(1)
    )
    lines = environment().from_source(files.build(), WatermarkStrategy.no_watermarks(), "lines")
    rows = lines.map(lambda line: line, output_type=ROW)
    with pytest.raises(errors.TimeColumnError, match="disorder="):
        windowed(rows, query())
    windowed(rows, query(), disorder="1s")


def test_the_unit_of_integer_times_is_said_where_the_job_is_built(caplog: pytest.LogCaptureFixture) -> None:
    stream = environment().from_collection([], type_info=ROW)
    for change in ({"time_unit": "ms"}, {"time": "at"}):
        windowed(stream, query(**change), disorder="1s", uid=str(change))
    assert not caplog.records
    windowed(stream, query(), disorder="1s")
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "'ts' are read as microseconds" in record.message
    assert "time_unit=" in record.message
