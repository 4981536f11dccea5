"""Idle keys: frozen, thawed and emitted from cold blocks. Nothing that comes out may tell."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import struct
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import errors
from windrow.columns.encoding import decode_value, encode_value
from windrow.operator import row_store, shrinking
from windrow.operator import workers as sharing
from windrow.operator.auto_idle import AutoIdle, Costs
from windrow.operator.emitter import Emitter
from windrow.operator.window_batches import WindowWorker
from windrow.storage import snapshot
from windrow.storage.codec import compress, decompress
from windrow.storage.cold_block import LARGEST, Codec, pack, unpack
from windrow.storage.cold_codec import CODECS
from windrow.storage.pages import MemoryPages
from windrow.storage.rocksdb import RocksDBPages
from windrow.storage.scrub import scrub

SECOND = 1_000_000


def rows(seed: int, count: int = 600, keys: int = 12, disorder: int = 0) -> pa.Table:
    """Rows of keys that are silent for long stretches, some out of order."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, 400, count)) * SECOND
    epoch = ts // (40 * SECOND)
    key = (random.integers(0, 3, count) + 3 * epoch) % keys  # a few keys at a time, the others silent
    if disorder:
        ts = np.maximum(ts - random.integers(0, disorder, count) * SECOND, 0)
    load = np.round(random.normal(20, 5, count), 1)
    exact = random.normal(size=count) * 10.0 ** random.integers(-8, 8, count)
    return pa.table(
        {
            "key": pa.array([f"k{each}" for each in key]),
            "ts": ts,
            "load": pa.array(np.where(random.random(count) < 0.1, np.nan, load), from_pandas=True),
            "exact": exact,
            "n": random.integers(-5, 5, count),
            "rise": ts,
        }
    )


def total(values: Any) -> float:
    return float(np.sum(values))


def joined(names: Any, numbers: Any) -> str:
    return " ".join(f"{name}{number}" for name, number in zip(names, numbers, strict=True))


AGGREGATES = {
    "n": wr.Count(),
    "sum": wr.Sum("exact"),
    "peak": wr.Max("load"),
    "mean": wr.Mean("exact"),
}
HOLISTIC = {"seen": wr.Collect("n"), "first": wr.First("exact"), "middle": wr.Median("load")}
CASES = {
    "time": dict(window=wr.TimeWindow("60s", "7s"), aggregates=AGGREGATES),
    "tumbling": dict(window=wr.TimeWindow("30s"), aggregates=AGGREGATES | HOLISTIC),
    "gaps": dict(window=wr.TimeWindow("12s", "20s"), aggregates=AGGREGATES),
    "two windows": dict(
        window={"short": wr.TimeWindow("20s", "5s"), "long": wr.TimeWindow("90s", "10s")},
        aggregates=AGGREGATES,
    ),
    "holistic": dict(window=wr.TimeWindow("60s", "10s"), aggregates=HOLISTIC),
    "lateness": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, lateness="15s", late="side"),
    "update": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, lateness="30s", late="update"),
    "update in order": dict(
        window=wr.TimeWindow("60s", "10s"),
        aggregates={"first": wr.First("exact"), "n": wr.Count()},
        lateness="30s",
        late="update",
    ),
    "sessions": dict(window=wr.SessionWindow("15s"), aggregates=AGGREGATES | HOLISTIC),
    "sessions, updated": dict(
        window=wr.SessionWindow("15s"), aggregates=AGGREGATES, lateness="10s", late="update"
    ),
    "count": dict(window=wr.CountWindow(7, 3), aggregates=AGGREGATES),
    "forgotten": dict(window=wr.CountWindow(7, 3), aggregates=AGGREGATES, forget_after="70s"),
    "slide by tuple": dict(window=wr.SlideByTuple("50s", 4), aggregates=AGGREGATES),
    "slide by time": dict(window=wr.SlideByTime(9, "8s"), aggregates=AGGREGATES),
    "delta": dict(window=wr.DeltaWindow("rise", 40 * SECOND, 7 * SECOND), aggregates=AGGREGATES),
    "early": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, early="20s"),
    "policy": dict(window=wr.PolicyWindow(valid=lambda found: found.n < 9), aggregates=AGGREGATES),
    "within": dict(
        window=wr.TimeWindow("60s", "7s"), aggregates={"n": wr.Count()}, within=wr.Within(relative=0.1)
    ),
    "PBA": dict(window=wr.TimeWindow("60s", "7s"), aggregates=AGGREGATES, algorithm="PBA"),
    "zone": dict(window=wr.TimeWindow("1d", zone="Europe/Stockholm"), aggregates=AGGREGATES),
    "zone, updated": dict(
        window=wr.TimeWindow("1d", zone="Europe/Stockholm"),
        aggregates=AGGREGATES,
        lateness="5h",
        late="update",
    ),
    "whole": dict(
        window=wr.TimeWindow("60s", "10s"),
        aggregates={"total": wr.Apply(total, "exact", returns=pa.float64()), "n": wr.Count()},
    ),
    "whole, of texts": dict(
        window={"short": wr.TimeWindow("20s", "5s"), "long": wr.TimeWindow("90s", "10s")},
        aggregates={
            "names": wr.Apply(joined, ["key", "n"], returns=pa.string()),
            "middle": wr.Median("load"),
        },
    ),
    "whole, counted": dict(
        window=wr.CountWindow(7, 3), aggregates={"total": wr.Apply(total, "exact", returns=pa.float64())}
    ),
}
HOT = {"early", "sessions, updated", "policy", "within"}


def query(name: str) -> wr.Query:
    return wr.Query(by="key", time="ts", **CASES[name])  # type: ignore[arg-type]


def run(operator: wr.Operator, data: pa.Table, batch: int, step: int = 20) -> Iterator[tuple[str, Any]]:
    """What comes out at every watermark, and the snapshot at some of them."""
    disorder = 5 * SECOND
    for number, begin in enumerate(range(0, data.num_rows, step)):
        found = []
        for at in range(begin, min(begin + step, data.num_rows), batch):
            found.append(operator.process(data.slice(at, min(batch, begin + step - at))))
        late = operator.late() if operator.query.late == "side" else None
        seen = data.slice(0, begin + step)["ts"].cast(pa.int64()).to_numpy().max()
        found.append(operator.advance(int(seen) - disorder))
        yield "windows", (canonical(pa.concat_tables(found)), late)
        if number % 9 == 4:
            yield "snapshot", operator.snapshot()
    yield "rest", canonical(operator.flush())


def canonical(table: pa.Table) -> list[Any]:
    """Rows, with floats as their bits."""
    columns = []
    for column in table.itercolumns():
        values = column.to_pylist()
        columns.append([each.hex() if isinstance(each, float) else each for each in values])
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_nothing_tells_whether_keys_are_frozen(name: str) -> None:
    data = rows(1, disorder=8)
    if "zone" in name:  # hours around the end of summer time
        hours = pa.array(
            1_761_200_000 * SECOND + 3600 * data["ts"].to_numpy() // 4, pa.timestamp("us", "UTC")
        )
        data = data.set_column(1, "ts", hours)
    expected = list(run(wr.Operator(query(name), compiled=False), data, 20))
    freezes, cut = 0, 20 if query(name).late == "update" else 3  # corrections come out with each batch
    codec = CODECS[list(CASES).index(name) % len(CODECS)]  # every codec has several kinds of windows
    for idle, batch in ((wr.Idle("10s", cohort=1), 20), (wr.Idle("0s", codec=codec, cohort=1), cut)):
        operator = wr.Operator(query(name), compiled=False, idle=idle)
        assert list(run(operator, data, batch)) == expected
        assert (operator.idle.after is None) == (name in HOT)
        freezes += operator.idle.freezes
    assert (freezes > 5) != (name in HOT)


def test_threads_and_compiled_code_freeze_alike() -> None:
    data, asked = rows(2, 3000, keys=300), query("time")
    expected = list(run(wr.Operator(asked), data, 100, 100))
    for threads in (1, 2):
        operator = wr.Operator(asked, idle=wr.Idle("5s", cohort=8), threads=threads)
        assert list(run(operator, data, 100, 100)) == expected
        assert operator.idle.freezes > 20


def test_functions_of_whole_windows_shared_by_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOOK", "START", "WORTH"):
        monkeypatch.setattr(sharing, name, 0.0)
    data, asked = rows(11, disorder=8), query("whole, of texts")
    expected = list(run(wr.Operator(asked, compiled=False), data, 20))
    operator = wr.Operator(asked, compiled=False, idle=wr.Idle("5s", cohort=1), workers=2)
    assert list(run(operator, data, 20)) == expected and operator.idle.thaws > 5


@pytest.mark.parametrize("name", [*CASES, "DABA"])
def test_explain_says_whether_keys_are_frozen(name: str) -> None:
    asked = wr.Query(by="key", time="ts", **CASES["time"], algorithm=name) if name == "DABA" else query(name)
    told, hot = wr.explain(asked, rows(0).schema).idle, name in {*HOT, "DABA"}
    operator = wr.Operator(asked, rows(0).schema, compiled=False, idle="0s")
    assert (operator.idle.after is None) == hot
    assert told == (f"stay hot: {operator.idle.why}" if hot else "frozen, if idle= is given")


def test_a_snapshot_goes_on_under_another_duration() -> None:
    data, asked = rows(3), query("time")
    first, rest = data.slice(0, 300), data.slice(300)
    middle = wr.Operator(asked, compiled=False, idle=wr.Idle("5s", cohort=1))
    middle.process(first)
    middle.advance(int(first["ts"].to_numpy().max()))
    blob = middle.snapshot()
    ends = []
    for idle in (None, wr.Idle("0s", cohort=1), wr.Idle("30s", cohort=1)):
        again = wr.Operator.restore(asked, blob, compiled=False, idle=idle)
        ends.append(list(run(again, rest, 20)))
    assert ends[0] == ends[1] == ends[2]


def counted(data: pa.Table, after: int, range_: int, slide: int, step: int, cohort: int) -> tuple[int, int]:
    """Compressions and decompressions by the paper's definition, at every watermark; windows of one query."""
    ts, keys = data["ts"].to_numpy(), data["key"].to_pylist()
    last: dict[str, int] = {}
    slices: dict[str, set[int]] = {}
    cold: set[str] = set()
    freezes = thaws = 0
    for begin in range(0, len(ts), step):
        for time, key in zip(ts[begin : begin + step].tolist(), keys[begin : begin + step], strict=True):
            thaws += key in cold
            cold.discard(key)
            last[key] = max(last.get(key, time), time)
            slices.setdefault(key, set()).add(time // slide * slide)
        watermark = int(ts[: begin + step].max()) - 5 * SECOND
        for key in list(slices):  # a slice goes when the last window with it has ended
            slices[key] = {each for each in slices[key] if each + range_ > watermark}
            if not slices[key]:
                del slices[key]
                cold.discard(key)
        idle = [key for key in slices if key not in cold and watermark - last[key] >= after]
        if idle and sum(len(slices[key]) for key in idle) >= cohort:
            freezes += len(idle)
            cold.update(idle)
    return freezes, thaws


@pytest.mark.parametrize(("after", "cohort"), [(0, 1), (10, 1), (25, 1), (60, 1), (10, 12), (25, 9), (6, 5)])
def test_freezes_and_thaws_are_those_of_the_papers_definition(after: int, cohort: int) -> None:
    data = rows(4, 500)
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("80s", "10s"), aggregates={"n": wr.Count()})
    for batch in (20, 7):
        operator = wr.Operator(asked, compiled=False, idle=wr.Idle(f"{after}s", cohort=cohort))
        for begin in range(0, data.num_rows, 20):
            for at in range(begin, begin + 20, batch):
                operator.process(data.slice(at, min(batch, begin + 20 - at)))
            operator.advance(int(data.slice(0, begin + 20)["ts"].to_numpy().max()) - 5 * SECOND)
        expected = counted(data, after * SECOND, 80 * SECOND, 10 * SECOND, 20, cohort)
        assert (operator.idle.freezes, operator.idle.thaws) == expected
        assert expected[0] > 5


def test_a_window_that_would_raise_is_not_computed_before_it_is_due() -> None:
    def picky(values: Any) -> float:
        if len(values) == 1:
            raise ValueError("one value is too few")
        return float(values.sum())

    asked = wr.Query(
        by="key",
        time="ts",
        window=wr.TimeWindow("40us", "10us"),
        aggregates={"x": wr.Apply(picky, "n", returns=pa.float64())},
    )
    for more in (True, False):
        outcome = []
        for idle in (None, wr.Idle("0s", cohort=1)):
            operator = wr.Operator(asked, compiled=False, idle=idle)
            operator.process(pa.table({"key": [*"aabbb"], "ts": [1, 2, 1, 2, 12], "n": [1, 2, 3, 4, 5]}))
            found = [operator.advance(13), operator.advance(40)]
            if more:  # a row comes before the window with one row is due
                operator.process(pa.table({"key": ["b"], "ts": [45], "n": [5]}))
                found.append(operator.advance(50))
                outcome.append(canonical(pa.concat_tables(found)))
            else:
                with pytest.raises(errors.AggregateError, match="one value is too few"):
                    operator.advance(50)
        assert not more or outcome[0] == outcome[1]


COLUMNS: dict[str, Any] = {
    "stamps": np.cumsum(np.arange(40)) * 60,
    "wide": np.array([-(2**63), 2**63 - 1, 0]),
    "decimal": np.array([1.25, -3.5, 0.0, 1e6]),
    "float": np.array([np.nan, -0.0, np.inf, 1 / 3]),
    "small": np.array([1.5, np.nan], np.float32),
    "flags": np.array([True, False, True]),
    "unsigned": np.array([2**64 - 1, 0], np.uint64),
    "none": np.zeros(0, np.int32),
    "bytes": b"objects",
}


@pytest.mark.parametrize("codec", CODECS)
def test_columns_come_back_bit_by_bit(codec: str) -> None:
    found = unpack(pack(COLUMNS, Codec(codec), compiled=False), "cold.1", compiled=False)
    for name, column in COLUMNS.items():
        same = column if isinstance(column, bytes) else column.tobytes()
        assert (found[name] if isinstance(column, bytes) else found[name].tobytes()) == same, name


@pytest.mark.parametrize(("codec", "version"), [("zstd", 1), ("pcodec", 2)])
def test_every_changed_byte_and_every_cut_of_a_block_is_refused_by_name(codec: str, version: int) -> None:
    block = pack(COLUMNS, Codec(codec), compiled=False)
    assert block[4] == version  # an earlier version of windrow refuses what it cannot read
    for at in range(len(block)):
        for changed in (block[:at] + bytes([block[at] ^ 0x41]) + block[at + 1 :], block[:at]):
            with pytest.raises((errors.CorruptSnapshot, errors.FormatTooNew), match=r"cold\.7"):
                unpack(changed, "cold.7", compiled=False)


def test_a_block_that_says_it_is_huge_is_refused_before_memory_is_taken() -> None:

    for raw, entry in (
        (1 << 40, ("x", "<i8", 1 << 37, 8, 0, 1, 0, 0)),
        (LARGEST + 8, ("x", "<i8", LARGEST // 8 + 1, 8, 0, 1, 0, 0)),
        (0, ("x", "<i8", 1 << 40, 0, 0, 1, 0, 1)),
        (8, ("x", "<i8", 2, 8, 0, 1, 0, 0)),
        (8, ("x", "|O8", 1, 8, 0, 1, 0, 0)),
        (8, ("x", "<f8", 1 << 40, 8, 0, 1, 8, 5)),
        (8, ("x", "<f8", 1, 8, 0, 1, 1 << 40, 5)),
        (8, ("x", "<i8", 1, 8, 0, 1, 8, 5)),
    ):
        directory = encode_value([entry])
        sizes = struct.pack("<IQ", len(directory), raw)
        crc = zlib.crc32(b"", zlib.crc32(directory, zlib.crc32(sizes, 1)))
        block = b"wrcb\1\1" + crc.to_bytes(4, "little") + sizes + directory
        with pytest.raises(errors.CorruptSnapshot, match=r"cold\.7"):
            unpack(block, "cold.7", compiled=False)


def test_without_pcodec_its_codec_and_its_blocks_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    block = pack(COLUMNS, Codec("pcodec"), compiled=False)
    monkeypatch.setitem(sys.modules, "pcodec", None)
    with pytest.raises(errors.QueryError, match=r"pip install pcodec"):
        wr.Idle("1s", codec="pcodec")
    with pytest.raises(errors.SnapshotError, match=r"cold\.7 .* pip install pcodec"):
        unpack(block, "cold.7", compiled=False)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ("soon", errors.DurationError, "idle: cannot read 'soon'"),
        ("-1s", errors.DurationError, "idle has to be zero or longer"),
        (True, errors.DurationError, "idle"),
        (lambda: wr.Idle("1s", codec="gzip"), errors.QueryError, "codec of idle has to be one of none, zstd"),
        (lambda: wr.Idle("1s", level=99), errors.QueryError, "level of idle with codec 'zstd'"),
        (lambda: wr.Idle("1s", codec="lz4", level=1), errors.QueryError, "it has no levels"),
        (lambda: wr.Idle("auto", memory="lots"), errors.QueryError, "memory of idle: cannot read 'lots'"),
        (lambda: wr.Idle("60s", memory="1GB"), errors.QueryError, "memory of idle works with 'auto' only"),
        (lambda: wr.Idle("auto", cpu=0), errors.QueryError, "cpu of idle has to be a share"),
        (lambda: wr.Idle("1s", cohort=0), errors.QueryError, "cohort of idle"),
    ],
)
def test_what_idle_cannot_be_is_refused_by_name(given: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        wr.Operator(query("time"), idle=given() if callable(given) else given)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("PBA", "tumbling")])
def test_a_store_goes_on_after_crashes_between_freeze_and_commit(name: str) -> None:
    data, asked = rows(5, disorder=8), query(name)
    if "zone" in name:
        hours = pa.array(
            1_761_200_000 * SECOND + 3600 * data["ts"].to_numpy() // 4, pa.timestamp("us", "UTC")
        )
        data = data.set_column(1, "ts", hours)
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


def clairvoyant(closed: Any, lasting: Any, after: float, buy: float) -> float:
    """What a D costs against the least cost for each silence, known in advance."""

    def cost(silences: Any) -> Any:
        return np.where(silences > after, after + buy, silences)

    best = np.minimum(closed, buy).sum() + np.minimum(lasting, buy).sum()
    return float((cost(closed).sum() + cost(lasting).sum()) / best)


def test_auto_is_close_to_a_clairvoyant_and_never_above_break_even() -> None:
    random = np.random.default_rng(6)
    buy = Costs().break_even
    for closed, lasting in (
        (np.full(20_000, 30 * SECOND), np.full(2000, 3600 * SECOND)),  # reports, and vehicles that left
        (random.exponential(2000 * SECOND, 5000).astype(np.int64), np.full(5, SECOND)),
        (random.exponential(60 * SECOND, 20_000).astype(np.int64), np.full(500, 7200 * SECOND)),
    ):
        tuned = AutoIdle(cpu=1.0, costs=Costs(row=1.0))
        tuned.heard(closed)
        tuned.decide(*tuned.histogram_of(lasting), size=0)
        assert tuned.after <= buy
        found = clairvoyant(closed, lasting, tuned.after, buy)
        fixed = [clairvoyant(closed, lasting, SECOND * 1.1**n, buy) for n in range(100)]
        assert found <= min(2.0, 1.1 * min(fixed)), (found, min(fixed), tuned.after)


def test_auto_keeps_its_caps() -> None:
    closed = np.full(20_000, 30 * SECOND)
    thrash = AutoIdle(memory=1000, cpu=0.05)
    for _ in range(12):
        thrash.heard(closed)
        thrash.decide(*thrash.histogram_of(np.zeros(0, np.int64)), size=10**9)
    assert 30 * SECOND < thrash.after < 50 * SECOND  # the shortest that is within the cap
    assert (
        "would take more than 5% of the time; 1" in thrash.why and "than the 1.0 kB it may have" in thrash.why
    )
    roomy = AutoIdle(memory=10**12)
    roomy.heard(closed)
    roomy.decide(*roomy.histogram_of(np.full(100, 3600 * SECOND)), size=10**9)
    assert roomy.break_even == Costs().break_even and 30 * SECOND <= roomy.after <= 60 * SECOND


def test_auto_gives_the_same_windows() -> None:
    data, asked = rows(7, 3000), query("time")
    expected = list(run(wr.Operator(asked, compiled=False), data, 20))
    operator = wr.Operator(asked, compiled=False, idle=wr.Idle("auto", memory="100kB", cohort=1))
    assert list(run(operator, data, 20)) == expected
    assert operator.idle.why.startswith("auto")


def test_auto_decides_the_same_again_compiled_or_not() -> None:
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("10m", "1m"), aggregates={"n": wr.Count()})
    decided = []
    for compiled in (True, True, False):
        operator, told = wr.Operator(asked, compiled=compiled, idle=wr.Idle("auto", cohort=64)), []
        for second in range(0, 400, 5):  # a report every 30 seconds; after 200 seconds half of the keys leave
            keys = np.arange(second // 5 % 6, 2000 if second < 200 else 1000, 6)
            operator.process(pa.table({"key": keys, "ts": np.full(len(keys), second * SECOND)}))
            operator.advance(second * SECOND)
            told.append((operator.idle.after, operator.idle.freezes, operator.idle.thaws, operator.idle.why))
        decided.append(told)
    assert decided[0] == decided[1] == decided[2]
    assert decided[0][-1][1:3] == (1000, 0) and len({after for after, *_ in decided[0]}) > 1


@pytest.mark.parametrize("name", ["time", "update in order", "two windows", "whole"])
def test_arrays_shrink_and_nothing_tells(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "LEAST", 64)
    monkeypatch.setattr(row_store, "MUCH", 64)
    data, asked = rows(8, 900, disorder=8), query(name)
    expected = list(run(wr.Operator(asked, compiled=False), data, 20))
    operator = wr.Operator(asked, compiled=False, idle=wr.Idle("1s", cohort=1))
    assert list(run(operator, data, 20)) == expected
    rooms = operator.idle.hot_bytes, wr.Operator(asked, data.schema, compiled=False).idle.hot_bytes
    assert rooms[0] < 2 * rooms[1]


def test_a_small_table_shrinks_too() -> None:
    """An engine has many buckets, each with a table of its own."""
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("100s", "1s"), aggregates={"n": wr.Sum("n")})
    keys, seconds = np.repeat(np.arange(600), 12), np.tile(np.arange(12), 600)
    data, sizes = pa.table({"key": keys, "ts": seconds * SECOND, "n": keys}), []
    for idle in (None, wr.Idle("5s", cohort=64)):
        operator = wr.Operator(asked, compiled=False, idle=idle)
        operator.process(data)
        operator.advance(20 * SECOND)
        sizes.append(operator.idle.hot_bytes)
    assert 4 * sizes[1] < sizes[0]
