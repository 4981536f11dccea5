"""Days and months of time zones: any window, zone and rows against the oracle, which only reads clocks."""

from __future__ import annotations

import random
import warnings
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import windrow as wr
from windrow import oracle
from windrow.errors import QueryError, TimeColumnError, TimeUnitWarning, WindowError

DAY = 86_400_000_000
CHANGES = {
    "Europe/Stockholm": [(2024, 3, 31), (2024, 10, 27)],
    "America/Havana": [(2018, 3, 11), (2018, 11, 4)],  # clocks skip midnight, and show it twice
    "Pacific/Apia": [(2011, 12, 30)],  # a day that was not
    "America/Sitka": [(1867, 10, 18)],  # a day that was twice
    "Asia/Kathmandu": [(1986, 1, 1)],
    "UTC": [(2024, 2, 29), (1969, 12, 31)],
}
DAYS = (["1d", "2d", "1w"], [None, "1d", "3d", "1w"], [0, "6h", "-90m", "1d"])
MONTHS = (["1mo", "1q", "1y"], [None, "1mo", "5mo"], [0, "3mo", "6h", "-1mo"])


@pytest.mark.parametrize("seed", range(24))
def test_any_calendar_window_is_what_clocks_say(seed: int) -> None:
    chance = random.Random(seed)
    zone = list(CHANGES)[seed % len(CHANGES)]
    window = wr.TimeWindow(*(chance.choice(each) for each in chance.choice([DAYS, MONTHS])), zone=zone)
    assert wr.TimeWindow(**window.parameters()) == window
    aggregates = {"n": wr.Count(), "sum": wr.Sum("x")} | ({"last": wr.Last("x")} if seed % 2 else {})
    lateness = chance.choice([0, "12h", "40d"])
    query = wr.Query("k", window=window, aggregates=aggregates, lateness=lateness)
    change = int(datetime(*chance.choice(CHANGES[zone]), tzinfo=UTC).timestamp()) * 1_000_000
    span = chance.choice([2, 40, 400]) * DAY
    times = [change + chance.randint(-span, span) for _ in range(30)]
    times += [change + hour * DAY // 24 + less for hour in range(-30, 31, 3) for less in (-1, 0)]
    chance.shuffle(times)
    keys = [chance.choice("ab") for _ in times]
    rows = pa.table({"k": keys, "ts": pa.array(times), "x": range(len(times))})
    assert wr.aggregate(rows, query).equals(oracle.evaluate(rows, query))
    if seed < 8:
        _stream(rows, query, change - span, span, chance)


def _stream(rows: pa.Table, query: wr.Query, watermark: int, span: int, chance: random.Random) -> None:
    """Batches, watermarks and restarts; nothing comes before ``wake``, and something does at it."""
    operator, found, events = wr.Operator(query), [], []
    for begin in range(0, rows.num_rows, 17):
        events += [("rows", rows.slice(begin, 17)), ("watermark", watermark)]
        operator.process(rows.slice(begin, 17))
        operator = wr.Operator.restore(query, operator.snapshot())
        wake = operator.wake
        found.append(operator.advance(watermark))
        assert bool(found[-1].num_rows) <= (wake is not None and wake <= watermark)
        watermark += chance.randint(0, span)
    events.append(("flush",))
    found.append(operator.flush())
    expected, _ = oracle.evaluate_stream(events, query)
    assert query.bind(rows.schema).sort(pa.concat_tables(found)).equals(expected)


def test_what_a_calendar_refuses() -> None:
    for arguments, message in [
        ({"range": "1d", "zone": "Europe/Atlantis"}, "no time zone 'Europe/Atlantis'"),
        ({"range": "1h", "zone": "UTC"}, "range of TimeWindow is '1h'; with a zone it has to be whole days"),
        ({"range": "1mo", "slide": "1d"}, "both in months, quarters and years"),
        ({"range": "1d", "offset": "1mo"}, "give days and hours"),
        ({"range": "0d", "zone": "UTC"}, "longer than zero"),
        ({"range": "9000y"}, "at most 5000 years"),
    ]:
        with pytest.raises(WindowError, match=message):
            wr.TimeWindow(**arguments)
    day, month = wr.TimeWindow("1d", zone="UTC"), wr.TimeWindow("1mo")
    with pytest.raises(QueryError, match="write one query for each"):
        wr.Query(window=[day, month], aggregates={"n": wr.Count()})
    far = wr.Operator(wr.Query(window=day, aggregates={"n": wr.Count()}))
    with pytest.raises(TimeColumnError, match="years 1 and 9999"):
        far.process({"ts": [1 << 60]})
    assert far.process({"ts": [0]}).num_rows == 0  # it is not broken


def test_the_unit_of_numbers() -> None:
    query = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()}, time_unit="s")
    bounds = wr.aggregate({"ts": [1_700_000_000.25]}, query).column("window_start")
    assert bounds.to_pylist() == [datetime(2023, 11, 14, 22, tzinfo=UTC)]
    assert wr.Query.from_json(query.to_json()) == query
    for data, message in [
        ({"ts": pa.array([0], pa.timestamp("s"))}, "leave time_unit='s' out"),
        ({"ts": [float("nan")]}, "which is not a time"),
        ({"ts": [1 << 50]}, "more than 70,000 years"),
    ]:
        with pytest.raises(TimeColumnError, match=message):
            wr.aggregate(data, query)
    guessed = wr.Query(window=wr.TimeWindow("1h"), aggregates={"n": wr.Count()})
    with pytest.raises(TimeColumnError, match="which has no unit"):
        wr.aggregate({"ts": [1.5]}, guessed)
    for number, unit in [(1_700_000_000, "s"), (1_700_000_000_000, "ms"), (1_700_000_000_000_000_000, "ns")]:
        with pytest.warns(TimeUnitWarning, match=f"time_unit='{unit}'"):
            wr.aggregate({"ts": [number]}, guessed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wr.aggregate({"ts": [1, 7, 1_700_000_000_000_000]}, guessed)
