"""A checkpoint of version 1, written by the first release: it stays readable, and its stream can go on."""

import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
from crash_job import QUERY, ROWS, run
from make_golden import PLACE
from pyspark.sql import SparkSession
from test_crashes import latest, make_rows, windows

from windrow_spark import inspect_state, remaining

GOLDEN = Path(__file__).with_name("golden") / "checkpoint-v1.zip"


def test_a_stream_goes_on_from_a_checkpoint_of_version_1(spark: SparkSession, tmp_path: Path) -> None:
    folder, whole = tmp_path / "golden", tmp_path / "whole"
    with zipfile.ZipFile(GOLDEN) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if "/sources/" in name or "/_metadata/" in name:
                content = content.replace(PLACE.encode(), str(folder).encode())
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    stream = spark.readStream.schema(ROWS).parquet(str(folder / "rows"))
    open_windows = remaining(stream, QUERY, str(folder / "checkpoint")).count()
    facts = inspect_state(str(folder / "checkpoint"), QUERY, stream).toPandas()
    assert open_windows == facts.open_windows.sum() > 0

    make_rows(spark, whole, files=4)  # the same rows, in files of their own, and two more of them
    run(spark, whole)
    known = len(list((folder / "rows").iterdir()))
    for file in sorted((whole / "rows").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)[known:]:
        shutil.copy2(file, folder / "rows")  # with its time: streams read files in the order of those
    run(spark, folder)
    before = spark.read.parquet(str(folder / "before")).toArrow()
    shutil.rmtree(folder / "windows" / "_spark_metadata")  # it misses what was written before
    after = windows(spark, folder)
    assert after.num_rows > 0
    assert latest(pa.concat_tables([before, after])) == latest(windows(spark, whole))
