"""Executors whose cache is empty use what the driver has compiled."""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkFiles
from pyspark.sql import SparkSession

import windrow as wr
from windrow.errors import EngineError
from windrow.kernels import carried
from windrow_spark import sent_code, windowed
from windrow_spark.sent_code import SETTING, SentCode, arrive, sha256

SECOND = 1_000_000


@wr.aggregate_type(partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")))
class Spread:
    """An aggregate that no cache has."""

    def lift(x):  # type: ignore[no-untyped-def]
        return x, x

    def combine(a, b):  # type: ignore[no-untyped-def]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p):  # type: ignore[no-untyped-def]
        return p[1] - p[0]


@pytest.fixture
def another_machine(spark: SparkSession, tmp_path: Path) -> Iterator[SparkSession]:
    """The session, with Python workers that have a cache of their own, and nothing in it."""
    environment = spark.sparkContext.environment
    environment["NUMBA_CACHE_DIR"] = str(
        tmp_path / "cache"
    )  # workers with other variables have a daemon of their own
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.unset(SETTING)
    del environment["NUMBA_CACHE_DIR"]


def test_a_worker_with_an_empty_cache_compiles_nothing(another_machine: SparkSession) -> None:
    query = wr.Query(
        "plug", window=wr.TimeWindow("20s", "1s"), aggregates={"spread": Spread("load"), "n": wr.Count()}
    )
    rows = pa.table(
        {
            "plug": [f"plug {number % 3}" for number in range(600)],
            "ts": pa.array([number * SECOND // 10 for number in range(600)]).cast(pa.timestamp("us", "UTC")),
            "load": [number * 7919 % 101 / 8 for number in range(600)],
        }
    )
    found = windowed(another_machine.createDataFrame(rows), query).toArrow()
    bound = query.bind(rows.schema)
    assert bound.sort(found.cast(bound.output_schema)).equals(wr.aggregate(rows, query))
    told = (
        another_machine.range(2).repartition(2).mapInArrow(facts, "compiled long, taken_over long").collect()
    )
    assert {row.compiled for row in told} == {0}
    assert max(row.taken_over for row in told) == 1


def facts(batches: Any) -> Any:
    from windrow.kernels.compiling import compiled_kernels
    from windrow_spark import sent_code

    list(batches)
    taken_over = sent_code.files_taken_over()
    yield pa.RecordBatch.from_pydict({"compiled": [compiled_kernels()], "taken_over": [taken_over]})


def test_a_local_session_sends_nothing_unless_asked(spark: SparkSession) -> None:
    assert sent_code.send(spark, "nothing", lambda: pytest.fail("rehearsed in vain")) is None
    spark.conf.set(SETTING, "perhaps")
    try:
        with pytest.raises(EngineError, match="set it to auto, true or false"):
            sent_code.send(spark, "nothing", lambda: None)
    finally:
        spark.conf.unset(SETTING)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an executor has its files."""
    monkeypatch.setattr(SparkFiles, "get", classmethod(lambda _, name: str(tmp_path / name)))
    return tmp_path


def test_code_that_is_missing_swapped_or_foreign_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each is told by name, and none is an error: a worker compiles instead."""
    caplog.set_level(logging.INFO, "windrow.compiling")

    def told(code: SentCode) -> str:
        caplog.clear()
        arrive(code)
        arrive(code)  # once is enough
        (record,) = caplog.records
        return record.getMessage()

    packed = carried.pack([])
    assert "gone.bin has not reached this executor" in told(SentCode("gone.bin", sha256(packed)))
    (folder / "swapped.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert "swapped.bin is refused: it is not the file that the driver has sent" in told(
        SentCode("swapped.bin", sha256(packed))
    )
    here = dict(carried.surroundings())
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(carried, "surroundings", lambda: {**here, "CPU": "z80", "numba": "0.1"})
        foreign = carried.pack([])
    (folder / "foreign.bin").write_bytes(foreign)
    assert "made for another numba (0.1, here" in told(SentCode("foreign.bin", sha256(foreign)))
    (folder / "fitting.bin").write_bytes(packed)
    assert "took over 0 compiled kernels" in told(SentCode("fitting.bin", sha256(packed)))
