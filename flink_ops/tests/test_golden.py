"""Savepoints of version 1, written by the first release: their jobs can go on, at another parallelism too."""

import zipfile
from pathlib import Path

import pytest
from make_golden import WAYS
from test_recovery import check_windows, check_workers, lines, output, run

GOLDEN = Path(__file__).with_name("golden") / "savepoints-v1.zip"


@pytest.mark.parametrize(("way", "state"), [("rows", "rocksdb"), ("batches", "hashmap")])
def test_a_job_goes_on_from_a_savepoint_of_version_1(tmp_path: Path, way: str, state: str) -> None:
    with zipfile.ZipFile(GOLDEN) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / way
    before = lines(folder / "time")
    out = output(run(folder, "thread", state, 2, resume=folder / "saved", **WAYS[way]))
    assert (folder / "finished").exists(), out
    assert 150 <= before < lines(folder / "time")
    check_windows(folder)
    if way == "rows":
        check_workers(folder)
