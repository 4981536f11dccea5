"""Idle keys: frozen, thawed and emitted from cold blocks. Nothing that comes out may tell."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from cli_runs import read, windrow, write
from silent_keys import CASES, HOT, SECOND, canonical, query, rows, rows_of, run

import windrow as wr
from windrow import errors
from windrow.operator import cold
from windrow.operator import workers as sharing
from windrow.storage.cold_codec import CODECS


@pytest.mark.parametrize("name", CASES)
def test_nothing_tells_whether_keys_are_frozen(name: str) -> None:
    data = rows_of(name, 1)
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


@pytest.mark.parametrize("late", ["drop", "side", "update"])
@pytest.mark.parametrize("name", ["time", "whole"])
def test_rows_out_of_order_and_late_ones_reach_cold_keys(name: str, late: str) -> None:
    asked = wr.Query(by="key", time="ts", **CASES[name], lateness="30s", late=late)  # type: ignore[arg-type]
    steps = (
        ("a1 a50 b52", 110),
        ("a84 b82", 111),  # behind the watermark
        ("b99", 140),
        ("a70", 141),  # too late: its key stays cold
        ("a115", 180),
        ("a160", 220),
    )
    thaws = 4  # with other modes than "update", rows wait for the watermark: those of b join each other
    if late == "update":
        steps = (*steps, ("a195", 221), ("a193 a220", 246))  # between two rows of a cold key, and after them
        thaws = 7
    told = []
    for idle in (None, wr.Idle("20s", cohort=1), wr.Idle("0s", cohort=1)):
        operator, found = wr.Operator(asked, compiled=False, idle=idle), []
        for cells, watermark in steps:
            times = [int(cell[1:]) for cell in cells.split()]
            columns = {"load": 0.5, "exact": 1 / 7, "n": 1, "rise": 0}
            came = [
                {"key": cell[0], "ts": at * SECOND, **{name: at * each for name, each in columns.items()}}
                for cell, at in zip(cells.split(), times, strict=True)
            ]
            out = [operator.process(pa.Table.from_pylist(came, schema=rows(0).schema))]
            found.append(operator.late() if late == "side" else None)
            out.append(operator.advance(watermark * SECOND))
            found += [canonical(pa.concat_tables(out)), operator.snapshot()]
        told.append([*found, operator.late_rows, canonical(operator.flush())])
        assert idle is None or operator.idle.thaws == thaws
    assert told[0] == told[1] == told[2] and told[0][-2] == 1


def test_streams_and_the_command_freeze_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, pack = [], cold.pack

    def counted(*columns: Any, **options: Any) -> bytes:
        blocks.append(pack(*columns, **options))
        return blocks[-1]

    monkeypatch.setattr(cold, "pack", counted)
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("5m", "1m"), aggregates={"n": wr.Count()})
    batches = [
        pa.table({"key": np.arange(keys), "ts": np.full(keys, second * SECOND)})
        for keys, second in ((9000, 0), (10, 40), (10, 80), (9000, 120))
    ]
    expected = canonical(pa.concat_tables(wr.stream(batches, asked, delay="1s")))
    assert not blocks
    assert canonical(pa.concat_tables(wr.stream(batches, asked, delay="1s", idle="30s"))) == expected
    assert blocks
    (tmp_path / "query.toml").write_text(
        'by = ["key"]\ntime = "ts"\nwindow = { kind = "time", range = "5m", slide = "1m" }\naggregates = { n = "Count()" }\n'
    )
    (tmp_path / "rows").mkdir()
    for number, batch in enumerate(batches):
        write(batch, tmp_path / "rows" / f"{number}.parquet")
    for idle, frozen in ((), False), (("--idle", "30s"), True):
        blocks.clear()
        files = ("--input", tmp_path / "rows", "--output", tmp_path / "windows.parquet", "--delay", "1s")
        result = windrow("run", tmp_path / "query.toml", *files, *idle)
        assert result.exit_code == 0, result.output
        assert canonical(read(tmp_path / "windows.parquet")) == expected
        assert bool(blocks) == frozen
    refused = windrow("run", tmp_path / "query.toml", *files, "--idle", "soon")
    assert refused.exit_code == 2 and "idle: cannot read 'soon'" in refused.output


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
