"""The generators: the same rows for the same seed however they are cut, and the statistics that each one promises."""

import itertools
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windrow as wr
from windrow.data import GENERATORS, linear_road, manufacturing, quotes, server_memory, smart_home
from windrow.errors import GeneratorError

ROWS = 300_000


def seconds(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.cast(pa.int64())) // 1_000_000


@pytest.mark.parametrize("name", GENERATORS)
def test_rows_depend_on_the_seed_alone(name: str) -> None:
    generate = GENERATORS[name]
    whole = generate(rows=ROWS, seed=5).read_all().combine_chunks()
    assert whole.num_rows == ROWS
    cut = generate(rows=ROWS, seed=5, batch_rows=7_777)
    batches = list(cut)
    assert max(batch.num_rows for batch in batches) == 7_777
    assert pa.Table.from_batches(batches).combine_chunks().equals(whole)
    beginning = generate(rows=1_001, seed=5).read_all().combine_chunks()
    assert beginning.equals(whole.slice(0, 1_001).combine_chunks())
    assert not generate(rows=1_001, seed=6).read_all().equals(beginning)
    assert sum(column.null_count for column in whole.columns) == 0
    time = next(field.name for field in whole.schema if pa.types.is_timestamp(field.type))
    assert (np.diff(np.asarray(whole[time].cast(pa.int64()))) >= 0).all(), "in order of time"


@pytest.mark.parametrize("name", GENERATORS)
def test_it_is_fast_and_holds_one_block_at_a_time(name: str) -> None:
    """More than two million rows a second on a quiet core; a busy machine gets some slack here."""
    generate = GENERATORS[name]
    next(iter(generate(rows=1)))
    held = pa.total_allocated_bytes()
    began = perf_counter()
    assert sum(batch.num_rows for batch in generate(rows=1_000_000)) == 1_000_000
    assert perf_counter() - began < 2.0
    assert pa.total_allocated_bytes() - held < 1 << 24


def test_mistakes_are_refused() -> None:
    for wrong in (
        lambda: smart_home(rows=-1),
        lambda: smart_home(rows=1, plugs=3, houses=4),
        lambda: smart_home(rows=1, skip="31d"),
        lambda: quotes(rows=1, symbols=0),
        lambda: linear_road(rows=1, seed=-1).read_all(),
        lambda: server_memory(rows=1, batch_rows=0),
    ):
        with pytest.raises(GeneratorError):
            wrong()


def test_smart_home() -> None:
    rows = smart_home(rows=1_000_000, seed=2).read_all()
    assert rows.schema.names == [
        "id",
        "timestamp",
        "value",
        "property",
        "plug_id",
        "household_id",
        "house_id",
    ]
    assert rows["id"].to_pylist()[-1] == 999_999
    loads = rows.filter(pc.equal(rows["property"], 1))
    work = rows.filter(pc.equal(rows["property"], 0))
    keys = ["house_id", "household_id", "plug_id"]
    plugs = loads.group_by(keys).aggregate([("id", "count"), ("timestamp", "min"), ("timestamp", "max")])
    assert plugs.num_rows == 2125 and pc.count_distinct(rows["house_id"]).as_py() == 40
    assert pc.max(rows["plug_id"]).as_py() == 13
    by_id = np.bincount(np.asarray(loads["plug_id"]))
    assert by_id[0] > by_id[13] > 0, "low plug ids are more frequent"
    spread = np.ptp(seconds(loads["timestamp"])) + 1
    rate = loads.num_rows / 2125 / spread
    assert 0.96 < rate <= 1.0, "each plug about once a second"
    value = np.asarray(loads["value"])
    assert value.min() >= 0 and value.max() < 4000 and np.median(value) < 10 < value.mean() * 3
    metered = work.group_by(keys, use_threads=False).aggregate([("value", "first"), ("value", "last")])
    assert (np.asarray(metered["value_last"]) >= np.asarray(metered["value_first"])).all()
    # What all meters gained is the mean load, over the time.
    gained = pc.sum(pc.subtract(metered["value_last"], metered["value_first"])).as_py()
    assert gained == pytest.approx(value.mean() * spread * 2125 / 3.6e6, abs=0.0015 * 2125 / 2)


def test_smart_home_of_few_plugs_in_the_evening() -> None:
    rows = smart_home(rows=40_000, seed=3, plugs=5, houses=4, skip="18h").read_all()
    assert pc.count_distinct(rows["house_id"]).as_py() == 4
    assert rows["timestamp"][0].as_py().isoformat() == "2013-09-01T16:00:00+00:00"


def test_manufacturing() -> None:
    rows = manufacturing(rows=ROWS, seed=2).read_all()
    assert len(rows.schema) == 66
    assert rows.schema.names[:5] == ["ts", "index", "mf01", "mf02", "mf03"]
    assert sum(pa.types.is_boolean(field.type) for field in rows.schema) == 54
    gaps = np.diff(np.asarray(rows["ts"].cast(pa.int64())))
    assert gaps.mean() == pytest.approx(10_000, rel=1e-3) and gaps.min() > 9_000, "100 Hz"
    power = np.asarray(rows["mf01"])
    assert 0 < power.min() < 5_000 and 12_000 < power.max() < 25_000
    for name in ("bm05", "pp36", "pc24"):
        states = np.asarray(rows[name].cast(pa.int8()))
        assert 0.2 < states.mean() < 0.8
        assert 0 < np.abs(np.diff(states)).sum() < ROWS / 40, "a sensor keeps its state for a while"


def test_linear_road() -> None:
    rows = linear_road(rows=1_500_000, seed=2).read_all()
    vid, time = np.asarray(rows["vid"]), seconds(rows["time"])
    order = np.lexsort((time, vid))
    same = np.diff(vid[order]) == 0
    assert set(np.diff(time[order])[same].tolist()) == {30}, "a report every 30 s"
    position, speed = np.asarray(rows["pos"]), np.asarray(rows["speed"])
    assert position.min() >= 0 and position.max() < 100 * 5280
    assert (np.asarray(rows["seg"]) == position // 5280).all()
    assert set(np.asarray(rows["lane"]).tolist()) == {0, 1, 2, 3, 4}
    assert set(np.asarray(rows["dir"]).tolist()) == {0, 1} and pc.max(rows["xway"]).as_py() == 3
    # Whoever stands does not move, and moves again or ends; there are stops of four reports.
    stands = (speed[order][1:] == 0) & (speed[order][:-1] == 0) & same
    assert (np.diff(position[order])[stands] == 0).all() and stands.sum() > 1000
    assert 40 < speed.mean() < 70 and speed.max() <= 100
    # Accidents: two vehicles in the same place at the same time, for minutes.
    still = rows.filter(pc.equal(rows["speed"], 0))
    met = still.group_by(["xway", "dir", "pos", "time"]).aggregate([("vid", "count_distinct")])
    met = met.filter(pc.greater(met["vid_count_distinct"], 1)).group_by(["xway", "dir", "pos"])
    lasted = met.aggregate([("time", "count")])
    assert 2 <= lasted.filter(pc.greater(lasted["time_count"], 10)).num_rows <= 24
    journeys = np.bincount(vid)
    finished = journeys[: vid.max() // 2]
    assert 15 < finished.mean() < 30, "journeys of a few to tens of minutes"


def test_linear_road_ends_after_three_hours() -> None:
    total = 0
    for batch in linear_road(seed=1, expressways=1):
        total += batch.num_rows
    assert batch["time"][-1].as_py().isoformat() == "2004-01-01T02:59:59+00:00"
    assert 4 * total == pytest.approx(44_000_000, rel=0.01)


def test_server_memory() -> None:
    readings = server_memory(rows=8 * 86_400, seed=2).read_all()
    assert (np.diff(seconds(readings["timestamp"])) == 1).all(), "1 Hz"
    used = np.asarray(readings["used_kb"]) / (64 * 1024 * 1024)
    assert used.min() >= 0.05 and used.max() <= 0.98 and 0.2 < used.mean() < 0.6
    days = used[: 7 * 86_400].reshape(7, 86_400).mean(axis=1)
    assert days[4] > days[0] + 0.02 and used[7 * 86_400 :].mean() < days[4], "grows in the week, restarts"
    assert np.abs(np.diff(used)).mean() < 0.01, "a second is like the one before"


def test_server_memory_in_regimes() -> None:
    readings = server_memory(rows=30 * 86_400, seed=5, regimes=True).read_all()
    used = np.asarray(readings["used_kb"])
    assert (used % 1024 == 0).all() and used.max() <= 64 * 1024 * 1024, "whole megabytes, below the ceiling"
    assert (np.diff(used) == 0).mean() > 0.02, "ties and plateaus"
    still = np.diff(used.reshape(-1, 3600), axis=1) == 0
    assert still.all(axis=1).any(), "an hour in which nothing changes"
    days = used.reshape(30, 86_400).mean(axis=1)
    assert days.max() > 1.3 * days.min(), "the level changes"
    with pytest.raises(GeneratorError, match="regimes"):
        server_memory(rows=1, regimes=3)  # type: ignore[arg-type]


def test_quotes() -> None:
    rows = quotes(rows=ROWS, seed=2, symbols=50, rate=100_000).read_all()
    bid, ask = np.asarray(rows["bid"]), np.asarray(rows["ask"])
    assert (ask > bid).all() and (bid > 0).all() and (ask - bid).max() < 0.07
    assert np.allclose(bid * 100, np.rint(bid * 100)), "whole cents"
    spread = np.asarray(rows["timestamp"].cast(pa.int64()))
    assert ROWS / (np.ptp(spread) / 1e6) == pytest.approx(100_000, rel=0.02)
    counts = sorted(rows["symbol"].combine_chunks().value_counts().field(1).to_pylist(), reverse=True)
    assert len(counts) == 50 and counts[0] == pytest.approx(2 * counts[1], rel=0.1), "Zipf"
    symbol = rows["symbol"][0].as_py()
    middle = ((bid + ask) / 2)[np.asarray(pc.equal(rows["symbol"], symbol))]
    assert np.abs(np.diff(middle)).max() < 0.011, "a walk of a cent at most"


def test_a_generated_stream_goes_straight_into_a_query() -> None:
    query = wr.Query(
        by="symbol", time="timestamp", window=wr.TimeWindow("1s", "100ms"), aggregates={"top": wr.Max("bid")}
    )
    tables = list(itertools.islice(wr.stream(quotes(rows=100_000, symbols=3), query), 3))
    assert all(table.num_rows for table in tables)
