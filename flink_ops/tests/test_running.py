"""What a running job shows and forgets: metrics, early results, idle keys; and rows that are packed on the way."""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import owned
import pyarrow as pa
import pytest
from cluster import free_port
from job import Write
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.java_gateway import get_gateway
from test_windowed import TYPE, in_order, shuffled, table

import windrow as wr
from windrow.errors import EngineError
from windrow.metrics import Meter
from windrow.testing import oracle
from windrow_flink import FPBA, PACKED, environment, metered, pack, unpack, windowed, windowed_packed
from windrow_flink import stream as stream_module
from windrow_flink.function import LOG, Wiring
from windrow_flink.metrics import JobFigures

PATIENCE = 300
"""How many seconds a job may take on a machine that is busy otherwise."""
ROW = Types.ROW_NAMED(["plug", "ts", "load"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])


def made(flink: StreamExecutionEnvironment, rows: int, by: Any) -> Any:
    numbers = NumberSequenceSource(0, rows - 1)
    source = flink.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    return source.set_parallelism(1).map(by, output_type=ROW).set_parallelism(1)


def metrics(port: int, job: Any, operators: Iterable[str]) -> dict[str, dict[str, float]]:
    """What the operators of a job show now; nothing if they are not up yet, or too busy to answer."""

    def ask(path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{port}/jobs/{job.get_job_id()}{path}", timeout=30) as answer:
            return json.load(answer)

    found: dict[str, dict[str, float]] = {name: {} for name in operators}
    with suppress(OSError, HTTPException, ValueError, KeyError):
        for vertex in ask("")["vertices"]:
            if vertex["name"] in found:
                path = f"/vertices/{vertex['id']}/subtasks/metrics"
                names = [each["id"] for each in ask(path) if ".windrow." in each["id"]]
                values = ask(f"{path}?get={','.join(names)}") if names else []
                sums = {each["id"].rsplit(".", 1)[1]: each["sum"] for each in values if "sum" in each}
                found[vertex["name"]] = sums
        return found
    return {}


def test_metrics_count_windows_late_rows_state_and_lcs_tasks(tmp_path: Path) -> None:
    rows, port, late, end = 3_031, free_port(), tmp_path / "late", tmp_path / "end"
    flink = environment(settings={"rest.bind-port": str(port), "metrics.fetcher.update-interval": "200"})
    # A worker may hold rows back until its function has returned for all of a bundle, so rows that wait have sources of their own.
    stream = made(flink, 3_010, owned.Gated(str(tmp_path))).union(
        made(flink, 20, owned.Gated(str(late), 3_010, late=10)), made(flink, 1, owned.Gated(str(end), 3_030))
    )
    timed = wr.Query(by="plug", window=wr.TimeWindow("1s"), aggregates={"n": wr.Count()})
    counted = wr.Query(by="plug", window=wr.CountWindow(1000, 1), aggregates={"n": wr.HyperLogLog("load")})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(owned.Second())
    keyed = stream.assign_timestamps_and_watermarks(strategy).key_by(owned.plug, key_type=Types.STRING())
    results = {
        "timed": windowed(stream, timed, disorder=0, uid="timed"),
        "fpba": keyed.process(FPBA(counted, ROW), output_type=FPBA.output_type(counted, ROW))
        .name("fpba")
        .disable_chaining(),
    }
    for found in results.values():
        discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
        found._j_data_stream.sinkTo(discard)
    job = flink.execute_async()
    # Only a row that comes after the watermark is late, so the watermark has to be seen first.
    passed = {"timed": {"windows": 3}, "fpba": {"windows": 3_009 - 999}}
    expected = {"timed": {"windows": 3, "late_rows": 10}, "fpba": {"late_rows": 10}}

    def wait_for(least: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        """The metrics, as soon as they have reached these, or when the time is over."""
        deadline, shown = time.monotonic() + PATIENCE, {name: {} for name in results}
        while time.monotonic() < deadline and not ended.done():
            shown = metrics(port, job, results) or shown
            if all(shown[name].get(key, 0) >= value for name in least for key, value in least[name].items()):
                break
            time.sleep(0.3)
        return shown

    ended = job.get_job_execution_result()
    wait_for(passed)
    late.touch()
    shown = wait_for(expected)
    meter = Meter("plugs")
    with metered(job, meter, rest=f"http://127.0.0.1:{port}", every="100ms"):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and meter.values()["late_rows_total"] < 20:
            time.sleep(0.1)
    end.touch()
    ended.result()
    seen = meter.values()
    assert seen["late_rows_total"] == 20, seen  # of both operators
    assert seen["windows_total"] >= shown["timed"]["windows"] + shown["fpba"]["windows"], seen
    assert seen["rows_total"] > 0 and seen["state_bytes"] > 0 and seen["watermark_seconds"] >= 1, seen
    with pytest.raises(EngineError, match="cannot read the metrics of Flink"):
        JobFigures("nothing", f"http://127.0.0.1:{port}").update(meter)
    assert all(expected[name].items() <= shown[name].items() for name in results), shown
    for name in results:
        assert 0 < shown[name]["state_bytes"] < 8 << 20, shown
    assert rows - 31 - 1000 < shown["fpba"]["windows"] <= rows - 10 - 999, shown
    assert shown["fpba"]["lcs_tasks"] >= 1 and shown["timed"]["lcs_tasks"] == 0, shown


def test_keys_are_frozen_emit_and_thaw_across_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cold blocks are in the checkpoint that the job goes on from, because pages are written after a few rows."""
    monkeypatch.setattr(stream_module, "Wiring", partial(Wiring, log=1 << 10))
    port, failed = free_port(), tmp_path / "failed"
    settings = {"rest.bind-port": str(port), "metrics.fetcher.update-interval": "200"}
    settings["pipeline.auto-watermark-interval"] = "10 ms"
    flink = environment(checkpoints=tmp_path / "checkpoints", every="200ms", settings=settings)
    aggregates = {"n": wr.Count(), "peak": wr.Max("load"), "first": wr.First("load")}
    query = wr.Query(by="plug", window=wr.TimeWindow("3s", "200ms"), aggregates=aggregates)
    rows = made(flink, owned.Silent.ROWS, owned.Silent(str(tmp_path)))
    found = windowed(rows, query, disorder=0, buckets=1, idle=wr.Idle("500ms", cohort=1), uid="frozen")
    written = found.map(Write(str(tmp_path / "windows")), output_type=Types.INT())
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    written._j_data_stream.sinkTo(discard)
    job = flink.execute_async()
    ended, deadline = job.get_job_execution_result(), time.monotonic() + PATIENCE
    shown: dict[str, float] = {}
    while time.monotonic() < deadline and not ended.done():
        since_failure = failed.exists()
        shown = metrics(port, job, ["frozen"]).get("frozen", {})
        if since_failure and min(shown.get(each, 0) for each in ("cold_keys", "freezes", "thaws")) > 0:
            break
        time.sleep(0.2)
    (tmp_path / "end").touch()
    ended.result()
    assert failed.exists() and shown["cold_keys"] > 0 and shown["freezes"] > 0 and shown["thaws"] > 0, shown
    columns = zip(*map(owned.Silent.row, range(owned.Silent.ROWS)), strict=True)
    data = pa.table(dict(zip(ROW.get_field_names(), map(list, columns), strict=True)))
    expected = {repr(list(window.values())) for window in oracle.evaluate(data, query).to_pylist()}
    assert set((tmp_path / "windows").read_text().splitlines()) == expected


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_an_idle_key_is_forgotten_after_its_time_to_live(mode: str, collected: Any) -> None:
    flink = environment(
        mode=mode, settings={"python.fn-execution.bundle.size": "1"}
    )  # no row waits for another
    stream = made(flink, 4, owned.Resting())
    query = wr.Query(by="plug", window=wr.CountWindow(3), aggregates={"total": wr.Sum("load")})
    found = collected(
        {
            "kept": windowed(stream, query, disorder=0, uid="kept"),
            "forgotten": windowed(stream, query, disorder=0, ttl="2s", uid="forgotten"),
        }
    )
    assert found == {"kept": [["a", 0, 3, 3.0]], "forgotten": []}


def test_packed_streams_and_early_results(collected: Any) -> None:
    data = table()
    flink = environment()
    stream = flink.from_collection(shuffled(data, 100_000), type_info=TYPE)
    aggregates = {"n": wr.Count(), "peak": wr.Max("load"), "total": wr.Sum("work")}
    query = wr.Query(by=["plug", "house"], window=wr.TimeWindow("700ms", "200ms"), aggregates=aggregates)
    early = wr.Query(by="house", window=wr.TimeWindow("2s"), aggregates={"n": wr.Count()}, early="100ms")
    elements = [
        each for begin in range(0, data.num_rows, 100) for each in pack(data.slice(begin, 100), query)
    ]
    ready = flink.from_collection(elements, type_info=PACKED)
    found = collected(
        {
            "stream": windowed_packed(
                pack(stream, query), query, data.schema, disorder="150ms", uid="stream"
            ),
            "data": windowed_packed(ready, query, data.schema, disorder=0, packed_output=True, uid="data"),
            "early": windowed(stream, early, disorder="150ms", uid="early"),
        }
    )
    expected = in_order(oracle.evaluate(data, query))
    assert in_order(found["stream"]) == expected
    assert in_order(pa.concat_tables([unpack(element) for element in found["data"]])) == expected
    finals = {tuple(row[:3]): row[3] for row in found["early"] if row[4] == "final"}
    whole = wr.Query(by="house", window=wr.TimeWindow("2s"), aggregates={"n": wr.Count()})
    assert finals == {
        tuple(row[:3]): row[3]
        for row in map(list, map(dict.values, oracle.evaluate(data, whole).to_pylist()))
    }
    assert all(row[3] <= finals[tuple(row[:3])] for row in found["early"] if row[4] == "early")


def test_the_state_of_a_count_window_does_not_grow(tmp_path: Path) -> None:
    """Rows of one key, of which a checkpoint would hold megabytes if they were kept; benchmarks/flink/state.py has 10 million.

    A checkpoint has the log, and the rows that wait for the next watermark. On a fast machine these are many, unless it comes soon.
    """
    rows, waiting = 400_000, 1 << 18
    settings = {"pipeline.auto-watermark-interval": "10 ms"}
    flink = environment(checkpoints=tmp_path, every="200ms", settings=settings)
    query = wr.Query(by="plug", window=wr.CountWindow(1000, 100), aggregates={"peak": wr.Max("load")})
    found = windowed(made(flink, rows, owned.OneKey()), query, disorder=0)
    discard = get_gateway().jvm.org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink()
    found._j_data_stream.sinkTo(discard)
    ended = flink.execute_async().get_job_execution_result()
    sizes: dict[str, int] = {}
    while not ended.done():
        for metadata in tmp_path.glob("*/chk-*/_metadata"):
            with suppress(FileNotFoundError):  # a newer one has come
                size = sum(each.stat().st_size for each in metadata.parent.iterdir())
                sizes[metadata.parent.name] = max(size, sizes.get(metadata.parent.name, 0))
        time.sleep(0.05)
    ended.result()
    assert len(sizes) >= 3, sizes
    assert max(sizes.values()) < LOG + waiting < rows * 48 / 3, sizes
