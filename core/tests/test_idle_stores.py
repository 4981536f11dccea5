"""Idle keys in stores: commits, crashes, loading, and what a commit writes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from silent_keys import CASES, HOT, SECOND, canonical, query, rows, rows_of

import windrow as wr
from windrow import errors
from windrow.columns.encoding import decode_value
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import WindowWorker
from windrow.storage import snapshot
from windrow.storage.codec import compress, decompress
from windrow.storage.pages import MemoryPages
from windrow.storage.rocksdb import RocksDBPages
from windrow.storage.scrub import scrub


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("PBA", "tumbling")])
def test_a_store_goes_on_after_crashes_between_freeze_and_commit(name: str) -> None:
    data, asked = rows_of(name, 5), query(name)
    steps = [data.slice(begin, 20) for begin in range(0, data.num_rows, 20)]

    def step(operator: wr.Operator, number: int) -> list[Any]:
        found = [operator.process(steps[number])]
        seen = pa.concat_tables(steps[: number + 1])["ts"].cast(pa.int64()).to_numpy().max()
        return canonical(pa.concat_tables([*found, operator.advance(int(seen) - 5 * SECOND)]))

    plain = wr.Operator(asked, data.schema, compiled=False)
    expected = [step(plain, number) for number in range(len(steps))]
    store, done, freezes = MemoryPages(), 0, 0
    given: list[Any] = [wr.Idle("0s", cohort=1), wr.Idle("20s", codec="none", cohort=1), None]
    for life in range(9):
        operator = wr.Operator.open(asked, data.schema, store, compiled=False, idle=given[life % 3])
        for number in range(done, min(done + 5, len(steps))):
            assert step(operator, number) == expected[number], (life, number)
            if number < done + 4 or number == len(steps) - 1:  # what came after the last commit is lost
                operator.commit()
        done = min(done + 4, len(steps))
        freezes += operator.idle.freezes
    assert done == len(steps)
    assert canonical(operator.flush()) == canonical(plain.flush())
    assert (freezes > 3) != (name in HOT)
    report = scrub(store)
    assert not report.damaged and not report.unneeded


def killed_job(folder: Path) -> None:
    """Goes on where the store is, commits three batches, and dies after the next batch has frozen keys."""
    data, asked = rows(12, disorder=8), query("time")
    pages = RocksDBPages(folder / "state")
    operator = wr.Operator.open(asked, data.schema, pages, compiled=False, idle=wr.Idle("0s", cohort=1))
    for number in range(operator.commits, data.num_rows // 60):
        operator.process(data.slice(60 * number, 60))
        seen = int(data.slice(0, 60 * (number + 1))["ts"].to_numpy().max())
        windows = canonical(operator.advance(seen - 5 * SECOND))
        (folder / f"{number}.json").write_text(json.dumps(windows))
        if number % 4 == 3 and not (folder / f"{number}.killed").exists():
            (folder / f"{number}.killed").write_text(str(operator.idle.freezes))
            os.kill(os.getpid(), signal.SIGKILL)
        operator.commit()
    (folder / "rest.json").write_text(json.dumps(canonical(operator.flush())))


def test_a_process_that_is_killed_between_freeze_and_commit(tmp_path: Path) -> None:
    data, asked, codes = rows(12, disorder=8), query("time"), []
    while codes[-1:] != [0]:
        process = multiprocessing.get_context("forkserver").Process(target=killed_job, args=(tmp_path,))
        process.start()
        process.join()
        codes.append(process.exitcode)
        assert process.exitcode in (0, -signal.SIGKILL)
    frozen = [int(path.read_text()) for path in tmp_path.glob("*.killed")]
    assert len(frozen) == len(codes) - 1 == 2 and min(frozen) > 2
    plain = wr.Operator(asked, data.schema, compiled=False)
    for number in range(data.num_rows // 60):
        plain.process(data.slice(60 * number, 60))
        seen = int(data.slice(0, 60 * (number + 1))["ts"].to_numpy().max())
        windows = json.dumps(canonical(plain.advance(seen - 5 * SECOND)))
        assert (tmp_path / f"{number}.json").read_text() == windows
    assert (tmp_path / "rest.json").read_text() == json.dumps(canonical(plain.flush()))


def test_rows_of_a_key_that_thawed_are_written_again_and_read_once() -> None:
    """Two keys share a page of rows. One is frozen and thaws; the other one still needs the page."""
    asked, store = query("whole, counted"), MemoryPages()
    schema = rows(0).schema
    blank = {"load": 1.5, "n": 0, "rise": 0}

    def reports(keys: str, second: int) -> pa.Table:
        cells = [{"key": key, "ts": second * SECOND, "exact": second + 0.1, **blank} for key in keys]
        return pa.Table.from_pylist(cells, schema=schema)

    for life, (keys, second) in enumerate((("aab", 1), ("b", 30), ("ab", 31), ("aaaabbbb", 32))):
        operator = wr.Operator.open(asked, schema, store, compiled=False, idle=wr.Idle("20s", cohort=1))
        assert operator.idle.cold_keys == (life == 2)
        operator.process(reports(keys, second))
        windows = operator.advance((second + 1) * SECOND)
        operator.commit()
        assert operator.idle.thaws == (life == 2) and operator.idle.cold_keys == (life == 1)
        extents = [
            decode_value(decompress(page)[22:]) for name, page in store.held.items() if "extent" in name
        ]
        pages = sum(("a",) in each["keys"] for each in extents)
        assert life != 2 or pages == 2  # that of the first life, and one with all of its rows
    totals = [2 * 1.1 + 31.1 + 4 * 32.1, 1.1 + 30.1 + 31.1 + 4 * 32.1]
    assert windows["total"].to_pylist() == pytest.approx(totals)


def test_workers_go_on_with_keys_that_an_operator_has_frozen() -> None:
    """An emitter has positions of rows in place of results, so it thaws what it finds."""
    data, asked, store = rows(10, disorder=8), query("whole, of texts"), MemoryPages()
    first, rest = data.slice(0, 300), data.slice(300)
    reached = int(first["ts"].to_numpy().max()) - 5 * SECOND
    operator = wr.Operator.open(asked, data.schema, store, compiled=False, idle=wr.Idle("0s", cohort=1))
    operator.process(first)
    operator.advance(reached)
    operator.commit()
    assert operator.idle.cold_keys > 2
    emitter, worker = Emitter(asked, data.schema, store), WindowWorker(asked, data.schema)
    found = []
    for watermark in (reached, reached + 3 * SECOND, reached + 20 * SECOND):
        found += emitter.advance(watermark)["batch"].to_pylist()
    emitter.process(rest)
    found += emitter.advance(500 * SECOND)["batch"].to_pylist()
    expected = [operator.advance(reached + 20 * SECOND)]
    operator.process(rest)
    expected.append(operator.advance(500 * SECOND))
    windows = pa.concat_tables([worker.windows(batch) for batch in found])
    assert sorted(map(repr, canonical(windows))) == sorted(map(repr, canonical(pa.concat_tables(expected))))


@pytest.mark.parametrize("idle", [None, wr.Idle("0s", cohort=1)])
def test_a_reader_of_an_earlier_version_refuses_a_store(idle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would give out windows again, whose leaf was not written since, and know nothing of cold blocks."""
    data, asked, store = rows(9, 60).slice(0, 15), query("time"), MemoryPages()
    operator = wr.Operator.open(asked, data.schema, store, compiled=False, idle=idle)
    operator.process(data)
    operator.commit()
    operator.advance(100 * SECOND)
    operator.commit()
    versions = {name: int.from_bytes(decompress(page)[8:10], "little") for name, page in store.held.items()}
    assert {name for name, version in versions.items() if version > 1} == {"header"}
    assert any(name.startswith("cold.") for name in versions) == (idle is not None)
    snapshot_of_it = operator.snapshot()
    for known, latest in ((2, 3), (1, 2)):
        monkeypatch.setattr(snapshot, "VERSION", known)
        page = decompress(store.held["header"])
        store.held["header"] = compress(page[:8] + latest.to_bytes(2, "little") + page[10:])
        with pytest.raises(errors.FormatTooNew, match=f"version {latest}.*up to {known}; upgrade windrow"):
            wr.Operator.open(asked, data.schema, store, compiled=False)
    wr.Operator.restore(asked, snapshot_of_it, compiled=False)


def test_idle_keys_cost_a_commit_nothing() -> None:
    """Silent keys with windows in progress: a commit writes the leaves of keys that got rows, whatever else is due."""
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("100s", "1s"), aggregates={"n": wr.Sum("n")})
    sizes = {}
    for idle in (None, wr.Idle("5s", cohort=64)):
        for count in (1000, 8000):
            store = MemoryPages()
            schema = pa.schema({"key": pa.int64(), "ts": pa.int64(), "n": pa.int64()})
            operator = wr.Operator.open(asked, schema, store, idle=idle)
            first = np.arange(count)
            operator.process(pa.table({"key": first, "ts": first % 5 * SECOND, "n": first}, schema=schema))
            operator.advance(5 * SECOND)
            operator.commit()
            operator.advance(12 * SECOND)
            operator.commit()
            written = []
            for second in range(12, 20):
                operator.process(
                    pa.table({"key": [1, 2], "ts": [second * SECOND] * 2, "n": [1, 1]}, schema=schema)
                )
                assert operator.advance((second + 1) * SECOND).num_rows >= count
                written.append(operator.commit())
            sizes[idle is None, count] = max(written[2:])
            leaves = {name for name in store.held if name.startswith("leaf.")}
            assert len(leaves) == (-(-count // 32) if idle is None else 1)  # cold keys are in none
            again = wr.Operator.open(asked, schema, store, idle=idle)
            assert again.idle.cold_keys == operator.idle.cold_keys == (0 if idle is None else count - 2)
            assert canonical(again.flush()) == canonical(operator.flush())
    # The header names every leaf and every cold block, a few bytes each; no leaf and no block of a silent key is written.
    assert sizes[True, 8000] < 8000 and sizes[False, 8000] < 8000
