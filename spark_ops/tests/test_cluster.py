"""A standalone cluster of a master and two workers, started from the pip package, on loopback; an executor is killed."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from crash_job import run
from pyarrow import parquet
from pyspark.sql import SparkSession
from spark_cluster import standalone
from test_crashes import commits, make_rows, windows

import windrow as wr

pytestmark = pytest.mark.skipif(
    not os.environ.get("WINDROW_LONG"), reason="takes minutes: set WINDROW_LONG=1"
)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    with standalone(tmp_path) as address:
        yield address


def test_a_cluster_gives_the_same_rows_even_if_an_executor_dies(
    spark: SparkSession, master: str, tmp_path: Path
) -> None:
    folder, here = tmp_path / "cluster", tmp_path / "here"
    make_rows(spark, folder, files=6)
    shutil.copytree(folder / "rows", here / "rows")
    run(spark, here)
    script = [sys.executable, str(Path(__file__).with_name("cluster_job.py")), master, str(folder)]
    with (tmp_path / "job.log").open("wb") as log:
        job = subprocess.Popen(script, stdout=log, stderr=log)
        while job.poll() is None and commits(folder) < 2:
            time.sleep(0.1)
        assert job.poll() is None, (tmp_path / "job.log").read_text()[-3000:]
        os.kill(executors(tmp_path)[0], signal.SIGKILL)
        assert job.wait(timeout=400) == 0, (tmp_path / "job.log").read_text()[-3000:]
    assert windows(spark, folder).equals(windows(spark, here))
    assert spark.read.parquet(str(folder / "batch")).count() > 0


def test_executors_with_an_empty_cache_use_what_the_driver_has_compiled(
    spark: SparkSession, master: str, tmp_path: Path
) -> None:
    """Those with another processor say so, and compile."""
    from code_job import QUERY

    make_rows(spark, tmp_path / "same", files=2)
    rows = pa.concat_tables(
        [parquet.read_table(each) for each in (tmp_path / "same" / "rows").glob("*.parquet")]
    )
    expected = wr.aggregate(rows, QUERY)
    for folder, cpu in ((tmp_path / "same", ""), (tmp_path / "other", "generic")):
        if not folder.exists():
            shutil.copytree(tmp_path / "same" / "rows", folder / "rows")
        environment = [f"NUMBA_CACHE_DIR={folder / 'cache'}", *([f"NUMBA_CPU_NAME={cpu}"] if cpu else [])]
        script = [
            sys.executable,
            str(Path(__file__).with_name("code_job.py")),
            master,
            str(folder),
            *environment,
        ]
        before = set(logs(tmp_path))
        done = subprocess.run(script, capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr[-3000:]
        compiled = json.loads(done.stdout.splitlines()[-1])
        said = "".join(each.read_text() for each in logs(tmp_path) if each not in before)
        if cpu:
            assert "it was made for another CPU" in said
            assert "generic" in said
            assert " compiled slide.plan_fixed in " in said
            assert compiled["stream"] > 0
        else:
            assert "took over" in said
            assert not re.search(r" compiled \S+ in ", said)
            assert compiled == {"stream": 0, "workers": 0}
        for name in (["batch"], ["stream", "rest"]):
            assert found(folder, name, QUERY.bind(rows.schema)).equals(expected)


def found(folder: Path, names: list[str], bound: Any) -> pa.Table:
    """The windows in some folders, as the driver alone gives them."""
    tables = [parquet.read_table(folder / name).select(bound.output_schema.names) for name in names]
    return bound.sort(pa.concat_tables([table.cast(bound.output_schema) for table in tables]))


def logs(folder: Path) -> list[Path]:
    """What the executors of all jobs so far have written to standard error, a file for each."""
    return list(folder.glob("worker-*/*/*/stderr"))


def executors(folder: Path) -> list[int]:
    """The executors that the workers of this test have started: they run in folders of their workers."""
    listed = subprocess.run(
        ["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True
    ).stdout
    found = [int(line.split()[0]) for line in listed.splitlines() if "CoarseGrainedExecutorBackend" in line]
    return [pid for pid in found if _folder_of(pid).startswith(str(folder))]


def _folder_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""
