"""The windows of a stream are those of the definition: every kind, many aggregates, disorder, late rows, both modes."""

from typing import Any

import numpy as np
import owned
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import StreamExecutionEnvironment
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

import windrow as wr
from windrow import errors
from windrow.testing import oracle
from windrow_flink import (
    FPBA,
    environment,
    late_rows,
    read_packed,
    unpack,
    windowed,
    windowed_by_workers,
    windowed_packed,
)
from windrow_flink.function import Wiring, rows_out
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import BYTES
from windrow_flink.time_units import log_another_unit

ROWS = 400
TYPE = Types.ROW_NAMED(
    ["plug", "house", "ts", "load", "work"],
    [Types.STRING(), Types.INT(), Types.LONG(), Types.DOUBLE(), Types.LONG()],
)
WINDOWS = {
    "time": wr.TimeWindow("700ms", "250ms", "10ms"),
    "gaps": wr.TimeWindow("100ms", "300ms"),
    "several": [wr.TimeWindow("1s", "200ms"), wr.TimeWindow("500ms")],
    "count": wr.CountWindow(7, 3),
    "session": wr.SessionWindow("30ms"),
    "tuple": wr.SlideByTuple("200ms", 4),
    "rows": wr.SlideByTime(6, "300ms"),
    "delta": wr.DeltaWindow("work", 50, 20),
    "policy": wr.PolicyWindow(valid=owned.at_most_five),
}


def table(seed: int = 7) -> pa.Table:
    """Rows with null keys and values, ties of time, microseconds inside a millisecond, and times before the epoch."""
    rng = np.random.default_rng(seed)
    load = [None if rng.random() < 0.1 else float(x) for x in rng.normal(size=ROWS)]
    load[11] = float("nan")
    return pa.table(
        {
            "plug": pa.array(rng.choice(["a", "b", "c", None], ROWS).tolist(), pa.string()),
            "house": pa.array(rng.integers(0, 2, ROWS), pa.int32()),
            "ts": np.cumsum(rng.choice([0, 1, 300, 9_000, 40_000], ROWS)) - 500_000,
            "load": pa.array(load, pa.float64()),
            "work": pa.array(np.arange(ROWS)),
        }
    )


def shuffled(rows: pa.Table, by: int) -> list[Row]:
    """The rows out of order by up to so many microseconds, those of equal time in their order."""
    rng = np.random.default_rng(1)
    times = rows.column("ts").to_numpy()
    delay = {time: rng.integers(0, by) for time in np.unique(times)}
    order = np.argsort([time + delay[time] for time in times], kind="stable")
    return [Row(*row.values()) for row in rows.take(pa.array(order)).to_pylist()]


def in_order(rows: list[list[Any]] | pa.Table) -> list[str]:
    values = [list(row.values()) for row in rows.to_pylist()] if isinstance(rows, pa.Table) else rows
    return sorted(repr([tuple(v) if isinstance(v, list) else v for v in row]) for row in values)


@pytest.mark.parametrize(("mode", "gathered"), [("process", ("several", "session")), ("thread", ())])
def test_every_kind_of_window_gives_the_rows_of_the_definition(
    mode: str, gathered: tuple[str, ...], collected: Any
) -> None:
    data, flink = table(), environment(mode=mode)
    stream = flink.from_collection(shuffled(data, 100_000), type_info=TYPE)
    queries = {
        name: wr.Query(
            by=["plug", "house"],
            window=window,
            aggregates={
                "n": wr.Count(),
                "peak": wr.Max("load"),
                "total": wr.Sum("work"),
                "last": wr.Last("work"),
                **({} if name == "policy" else {"spread": owned.Spread("load"), "all": wr.Collect("work")}),
            },
        )
        for name, window in WINDOWS.items()
    }
    found = collected(
        {
            name: windowed(
                stream,
                query,
                disorder="150ms",
                gather=name in gathered,
                idle=wr.Idle("0s", cohort=1),
                uid=name,
            )
            for name, query in queries.items()
        }
    )
    for name, query in queries.items():
        assert in_order(found[name]) == in_order(oracle.evaluate(data, query)), name
        assert found[name], name


def test_packed_rows_and_fpba_agree_with_the_definition(
    tmp_path: Any, flink: StreamExecutionEnvironment, collected: Any
) -> None:
    data = table()
    rows = [Row(*row.values()) for row in data.to_pylist()]
    stream = flink.from_collection(rows, type_info=TYPE)
    aggregates = {"peak": wr.Max("load"), "n": wr.Count(), "all": wr.Collect("work")}
    query = wr.Query(by="plug", window=wr.TimeWindow("500ms", "100ms"), aggregates=aggregates)
    single = wr.Query(window=wr.CountWindow(20, 6), aggregates=aggregates)
    few = {name: aggregates[name] for name in ("peak", "n")}
    numbers_only = wr.Query(by=["plug", "house"], window=wr.CountWindow(20, 1), aggregates=few)
    path = tmp_path / "rows.parquet"
    pq.write_table(data, path)
    packed, schema = read_packed(flink, path, query, rows=150)
    by_bytes = [pack_ipc(data.slice(start, 90)) for start in range(0, ROWS, 90)]
    numbers = NumberSequenceSource(0, len(by_bytes) - 1)
    ipc = flink.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()).map(
        owned.Blob(by_bytes), output_type=Types.PRIMITIVE_ARRAY(Types.BYTE())
    )
    keyed = windowed_by_hand(stream)
    found = collected(
        {
            "file": windowed_packed(packed, query, schema, idle=wr.Idle("0s", cohort=1), uid="file"),
            "ipc": windowed_packed(ipc, single, data.schema, disorder=0, uid="ipc"),
            "fpba": keyed.process(FPBA(query, TYPE), output_type=FPBA.output_type(query, TYPE))
            .uid("fpba")
            .disable_chaining(),
            "gathered": FPBA.over(stream, numbers_only, disorder=0, threads=2),
        }
    )
    assert in_order(found["file"]) == in_order(found["fpba"]) == in_order(oracle.evaluate(data, query))
    assert in_order(found["gathered"]) == in_order(oracle.evaluate(data, numbers_only))
    assert in_order(found["ipc"]) == in_order(oracle.evaluate(data, single))


def test_files_are_read_in_their_order_whatever_the_parallelism(tmp_path: Any, collected: Any) -> None:
    """Rows of one time: only the order in which they are read tells which is the first."""
    flink, rows = environment(2), 2000
    data = pa.table({"ts": pa.array([5] * rows), "work": pa.array(range(rows))})
    pq.write_table(data, tmp_path / "rows.parquet")
    query = wr.Query(window=wr.TimeWindow("1s"), aggregates={"all": wr.Collect("work")})
    packed, schema = read_packed(flink, tmp_path / "rows.parquet", query, rows=20)
    found = collected({"all": windowed_packed(packed, query, schema)})
    assert [list(row[2]) for row in found["all"]] == [list(range(rows))]


def test_workers_that_share_a_window_give_its_windows_in_order(collected: Any) -> None:
    data = table()
    times = data.column("ts").to_numpy() + np.arange(
        ROWS
    )  # two tasks read, so that rows of equal time would have no order
    data = data.set_column(data.column_names.index("ts"), "ts", pa.array(times))
    flink = environment(2)
    stream = flink.from_collection(shuffled(data, 100_000), type_info=TYPE)
    aggregates = {"n": wr.Count(), "peak": wr.Max("load"), "total": wr.Sum("work")}
    queries = {
        "none": wr.Query(window=wr.TimeWindow("700ms", "200ms"), aggregates=aggregates),
        "hot": wr.Query(by="house", window=wr.TimeWindow("300ms", "250ms", "10ms"), aggregates=aggregates),
    }
    # Functions of whole windows: an emitter finds the windows, workers that know nothing of windows compute them.
    whole = {"f": wr.Apply(owned.discounted, "work"), "n": wr.Count(), "middle": wr.Median("work")}
    queries |= {
        name: wr.Query(by="house", window=WINDOWS[name], aggregates=whole)
        for name in ("tuple", "session", "delta", "gaps")
    }
    found = collected(
        {
            name: windowed_by_workers(
                stream, query, 3, disorder="150ms", model="agnostic" if name == "gaps" else "auto", uid=name
            )
            for name, query in queries.items()
        }
    )
    for name, query in queries.items():
        expected = [list(row.values()) for row in oracle.evaluate(data, query).to_pylist()]
        houses = (0, 1) if name == "delta" else (None,)  # those of each key are in order
        for house in houses:
            got, right = (
                [row for row in rows if house in (None, row[0])] for rows in (found[name], expected)
            )
            assert [repr(row) for row in got] == [repr(row) for row in right], name


def pack_ipc(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue().to_pybytes()


def windowed_by_hand(stream: Any) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(owned.Milliseconds())
    return stream.assign_timestamps_and_watermarks(strategy).key_by(owned.plug, key_type=Types.STRING())


@pytest.mark.parametrize(
    ("range_", "slide", "due"), [("10us", "5us", 10), ("1us", "1us", 8), ("2us", "5us", 8)]
)
def test_a_timer_is_set_for_the_end_of_the_first_window(range_: str, slide: str, due: int) -> None:
    query = wr.Query(window=wr.TimeWindow(range_, slide), aggregates={"n": wr.Count()})
    codec = RowCodec(pa.schema({"ts": pa.int64()}), "ts", [0])
    assert Wiring(query, codec, rows_out).due(7) == due  # in a gap: as soon as no earlier row can come


def test_a_forgotten_time_unit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    query = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()})
    log_another_unit(pa.table({"ts": [1_700_000_000_000_000]}), query)
    assert not caplog.records
    log_another_unit(pa.table({"ts": [1_700_000_000]}), query)
    (record,) = caplog.records
    assert record.levelname == "WARNING" and "time_unit='s'" in record.message


def test_late_rows_go_where_the_query_says(collected: Any) -> None:
    """The last rows are behind the watermark, which has passed by then."""
    flink = environment(settings={"pipeline.auto-watermark-interval": "1 ms"})
    numbers = flink.from_source(
        NumberSequenceSource(0, 59), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
    )
    stream = numbers.map(
        owned.LateRow(), output_type=Types.ROW_NAMED(["ts", "x"], [Types.LONG(), Types.LONG()])
    )
    window = wr.TimeWindow("10ms")
    queries = {
        late: wr.Query(window=window, aggregates={"n": wr.Count()}, late=late, lateness=lateness)
        for late, lateness in {"drop": 0, "side": 0, "update": "1h"}.items()
    }
    results = {late: windowed(stream, query, disorder=0, uid=late) for late, query in queries.items()}
    results["untaken"] = windowed(stream, queries["side"], disorder=0, uid="untaken")
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(owned.First())
    own = stream.assign_timestamps_and_watermarks(strategy)
    for name, gather in {"own": False, "gathered": True}.items():
        results[name] = windowed(own, queries["drop"], gather=gather, uid=name)
    side, schema = queries["side"], pa.schema({"ts": pa.int64(), "x": pa.int64()})
    rows = pa.table([[*range(0, 50_000, 1000), *[3000] * 10], range(60)], schema=schema)
    blobs = [pack_ipc(rows.slice(begin, 10)) for begin in range(0, 60, 10)]
    packed = flink.from_source(
        NumberSequenceSource(0, 5), WatermarkStrategy.no_watermarks(), "batches", Types.LONG()
    ).map(owned.LateBlob(blobs), output_type=BYTES)
    for name, packed_output in {"packed": True, "rows": False}.items():
        results[name] = windowed_packed(
            packed, side, schema, disorder=0, packed_output=packed_output, uid=name
        )
    late = {f"late {name}": late_rows(results[name]) for name in ("side", "packed", "rows")}
    found = collected({**results, **late})
    for name in ("packed", "late packed"):
        tables = pa.concat_tables([unpack(element) for element in found[name]])
        found[name] = [list(row.values()) for row in tables.to_pylist()]
    # 50 rows, 1 ms apart; then ten rows of the third millisecond.
    whole = [[start * 1000, (start + 10) * 1000, 10] for start in range(0, 50, 10)]
    on_time = ("drop", "side", "untaken", "own", "gathered", "packed", "rows")
    assert all(sorted(found[name]) == whole for name in on_time), found
    assert all(sorted(found[name]) == [[3000, number] for number in range(50, 60)] for name in late), found
    finals = [row[:3] for row in found["update"] if row[3] == "final"]
    updates = [row for row in found["update"] if row[3] == "update"]
    assert sorted(finals) == whole
    assert max(updates, key=lambda row: row[2]) == [0, 10_000, 20, "update"]


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"by": "plgu"}, errors.ColumnError, "did you mean 'plug'"),
        ({"time": "load"}, errors.TimeColumnError, "cast it to a timestamp"),
        ({"aggregates": {"x": wr.Sum("plug")}}, errors.WindrowError, "plug"),
        ({"buckets": 0}, errors.QueryError, "buckets has to be"),
        ({"disorder": "-1s"}, errors.WindrowError, "disorder"),
        ({"keyed": True}, errors.QueryError, "before key_by"),
        ({"untyped": True}, errors.ColumnError, "schema="),
    ],
)
def test_bad_input_is_refused_when_the_job_is_put_together(
    change: dict[str, Any], error: type, says: str
) -> None:
    flink = environment()
    rows = [("a", 0, 1, 2.0, 3)]
    stream = (
        flink.from_collection(rows) if change.get("untyped") else flink.from_collection(rows, type_info=TYPE)
    )
    query: dict[str, Any] = {"by": "plug", "window": wr.TimeWindow("1s"), "aggregates": {"n": wr.Count()}}
    query |= {name: value for name, value in change.items() if name in ("by", "time", "aggregates")}
    options = {name: value for name, value in change.items() if name in ("buckets", "disorder")}
    with pytest.raises(error, match=says):
        windowed(stream.key_by(owned.plug) if change.get("keyed") else stream, wr.Query(**query), **options)
