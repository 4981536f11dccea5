"""Every mistake has its error, which names the thing; what is written is read back."""

import dataclasses
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest

from windrow.aggregates import Count, Max, Min
from windrow.errors import (
    ColumnError,
    DeltaOrderError,
    DurationError,
    PropertyError,
    QueryError,
    TimeColumnError,
    TimeUnitWarning,
    WindowError,
    WindrowError,
)
from windrow.query.query import Query
from windrow.windows import (
    CountWindow,
    DeltaWindow,
    PolicyWindow,
    SessionWindow,
    SlideByTime,
    SlideByTuple,
    TimeWindow,
)

HOUR = TimeWindow("1h", "1s")
SCHEMA = pa.schema(
    {
        "plug": pa.string(),
        "ts": pa.timestamp("ms", "UTC"),
        "load": pa.float64(),
        "tags": pa.list_(pa.string()),
    }
)


def query(**changes):
    return Query(
        **{"by": "plug", "window": HOUR, "aggregates": {"peak": Max("load"), "n": Count()}, **changes}
    )


# Building.


def test_spellings_of_one_query_are_equal():
    spelled = query(by=["plug"], time="ts", window=TimeWindow("60m", "1000ms"), lateness="0s")
    assert spelled == query()
    assert hash(spelled) == hash(query())
    assert spelled.fingerprint == query().fingerprint
    assert query(aggregates=[("peak", Max("load")), ("n", Count())]) == query()


@pytest.mark.parametrize(
    "changes",
    [
        {"by": ()},
        {"by": ("plug", "house")},
        {"time": "at"},
        {"window": TimeWindow("1h", "2s")},
        {"window": CountWindow(10)},
        {"window": [HOUR]},
        {"aggregates": {"n": Count(), "peak": Max("load")}},  # another order of columns
        {"aggregates": {"peak": Max("volt"), "n": Count()}},
        {"lateness": "1s"},
        {"late": "side"},
        {"early": "1m"},
    ],
)
def test_every_part_counts(changes):
    assert query(**changes) != query()
    assert query(**changes).fingerprint != query().fingerprint


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"by": 3}, QueryError, "by has to be the name of a column or a list of names, not 3"),
        ({"by": ["plug", None]}, QueryError, "by has to be the name of a column, not None"),
        ({"by": ["plug", "plug"]}, QueryError, r"duplicate output name 'plug' \(key\)"),
        ({"by": "window"}, QueryError, r"'window' \(key\) is reserved"),
        ({"time": ""}, QueryError, "time has to be the name of a column, not ''"),
        ({"time": None}, QueryError, "time has to be the name of a column, not None"),
        (
            {"aggregates": {"m": Max(object)}},  # type: ignore[arg-type]
            QueryError,
            "aggregate 'm': Max takes the name of a column, or an expression, as text, not",
        ),
        ({"window": None}, QueryError, "window has to be a window, a list or a dict of them, not None"),
        ({"window": "1h"}, QueryError, "window has to be a window"),
        ({"window": []}, QueryError, "window is empty"),
        ({"window": [HOUR, CountWindow(3)]}, QueryError, r"TimeWindows, not CountWindow\(range=3, slide=3\)"),
        (
            {"window": [HOUR, HOUR]},
            QueryError,
            "every window needs its own label, as text; '1h/1s' is not text, or is used twice",
        ),
        ({"window": {1: HOUR}}, QueryError, "every window needs its own label, as text; 1 is not text"),
        ({"aggregates": {}}, QueryError, "aggregates is empty"),
        ({"aggregates": None}, QueryError, "aggregates has to be a dict"),
        ({"aggregates": [Max("x")]}, QueryError, r"it has Max\(column='x'\) without a name"),
        ({"by": (name for name in ["plug"])}, QueryError, "by has to be the name of a column or a list"),
        ({"aggregates": {"plug": Count()}}, QueryError, r"duplicate output name 'plug' \(aggregate\)"),
        ({"aggregates": [("n", Count()), ("n", Count())]}, QueryError, "duplicate output name 'n'"),
        ({"aggregates": {"emission": Count()}}, QueryError, r"'emission' \(aggregate\) is reserved"),
        ({"aggregates": {"window_start": Count()}}, QueryError, r"'window_start' \(aggregate\) is reserved"),
        ({"aggregates": {"n": "count"}}, QueryError, "aggregate 'n' has to be an aggregate .* not 'count'"),
        ({"aggregates": {"n": Count}}, QueryError, "aggregate 'n' has to be an aggregate"),
        ({"aggregates": {"": Count()}}, QueryError, "output name of an aggregate"),
        (
            {"aggregates": {"peak": Max()}},
            QueryError,
            "aggregate 'peak': .* needs the name of its input column",
        ),
        ({"lateness": "-1s"}, QueryError, "lateness has to be zero or longer, not '-1s'"),
        ({"lateness": "soon"}, DurationError, "lateness: cannot read 'soon'"),
        ({"lateness": float("inf")}, DurationError, "lateness: inf is not finite"),
        ({"early": "0s"}, QueryError, "early has to be longer than zero"),
        ({"early": True}, DurationError, "early: True"),
        (
            {"early": "1s", "window": SlideByTuple("1m", 3)},
            QueryError,
            "SlideByTuple depends on .* leave early",
        ),
        ({"late": "keep"}, QueryError, "late has to be 'drop', 'side' or 'update', not 'keep'"),
    ],
)
def test_mistakes_in_building(changes, error, message):
    with pytest.raises(error, match=message) as raised:
        query(**changes)
    assert isinstance(raised.value, WindrowError)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"window": TimeWindow("10m", 60), "time_unit": "s"},
            "slide of TimeWindow is 60 microseconds, less than the times' unit of one second; "
            "write '60s' if you mean 60 seconds",
        ),
        (
            {"window": SessionWindow(1), "time_unit": "ms"},
            "gap of SessionWindow is 1 microsecond, .* '1ms' if",
        ),
    ],
)
def test_a_number_that_seems_to_be_in_the_unit_of_times_is_a_warning(changes, message):
    with pytest.warns(TimeUnitWarning, match=message) as told:
        query(**changes)
    assert len(told) == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"window": TimeWindow("10m", 60)},
        {"window": TimeWindow("10m", 60), "time_unit": "us"},
        {"window": TimeWindow("10m", "250ms"), "time_unit": "s", "lateness": "5ms"},
        {"window": TimeWindow(2_000_000, 1_000_000), "time_unit": "s"},
        {"window": CountWindow(10, 5), "time_unit": "s"},
    ],
)
def test_a_duration_with_a_unit_is_no_warning(changes):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Query.from_dict(query(**changes).to_dict()) == query(**changes)


def test_a_query_does_not_change():
    aggregates = {"n": Count()}
    asked = query(aggregates=aggregates)
    aggregates["peak"] = Max("load")
    assert list(asked.aggregates) == ["n"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        asked.time = "at"
    with pytest.raises(TypeError):
        asked.aggregates["peak"] = Max("load")
    assert dataclasses.replace(asked, late="side") == query(aggregates={"n": Count()}, late="side")


# Algorithms and properties.


def test_algorithms_are_known_by_name():
    assert query(algorithm="TwoStacks").bind(SCHEMA)
    with pytest.raises(QueryError, match=r"no algorithm 'magic'; there are auto, A2MTA, AMTA, .*TwoStacks"):
        query(algorithm="magic")
    with pytest.raises(QueryError, match="no algorithm None"):
        query(algorithm=None)


def test_an_algorithm_refuses_an_aggregate_without_the_property_it_needs():
    assert query(aggregates={"n": Count()}, algorithm="SubtractOnEvict").bind(SCHEMA)
    with pytest.raises(PropertyError, match=r"'peak': SubtractOnEvict needs .* invertible, and Max\(load\)"):
        query(algorithm="SubtractOnEvict").bind(SCHEMA)


# Binding.


def test_output_schema():
    assert query().bind(SCHEMA).output_schema == pa.schema(
        {
            "plug": pa.string(),
            "window_start": pa.timestamp("us", "UTC"),
            "window_end": pa.timestamp("us", "UTC"),
            "peak": pa.float64(),
            "n": pa.int64(),
        }
    )


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"by": ()}, ["window_start", "window_end", "peak", "n"]),
        ({"window": [HOUR]}, ["plug", "window", "window_start", "window_end", "peak", "n"]),
        ({"window": {"a": HOUR, "b": HOUR}}, ["plug", "window", "window_start", "window_end", "peak", "n"]),
        ({"late": "update"}, ["plug", "window_start", "window_end", "peak", "n", "emission"]),
        ({"early": "1m"}, ["plug", "window_start", "window_end", "peak", "n", "emission"]),
    ],
)
def test_output_columns(changes, names):
    assert query(**changes).bind(SCHEMA).output_schema.names == names


@pytest.mark.parametrize(
    ("column", "window", "bounds"),
    [
        (pa.timestamp("s"), HOUR, pa.timestamp("us")),
        (pa.timestamp("ns", "Asia/Tokyo"), HOUR, pa.timestamp("us", "Asia/Tokyo")),
        (pa.int64(), HOUR, pa.int64()),
        (pa.uint16(), SessionWindow("1s"), pa.int64()),
        (pa.timestamp("us"), SlideByTime(3, "1s"), pa.timestamp("us")),
        (pa.timestamp("us"), CountWindow(3), pa.int64()),
        (pa.timestamp("us"), DeltaWindow("load", 2.5), pa.float64()),
        (pa.timestamp("us"), DeltaWindow("n", 2), pa.int64()),
        (pa.int64(), DeltaWindow("at", "1h"), pa.timestamp("us", "UTC")),
        (pa.int64(), DeltaWindow("at", 5), pa.timestamp("us", "UTC")),
    ],
)
def test_type_of_window_bounds(column, window, bounds):
    schema = pa.schema(
        {
            "ts": column,
            "load": pa.float32(),
            "n": pa.int32(),
            "at": pa.timestamp("ns", "UTC"),
            "plug": pa.string(),
        }
    )
    assert query(window=window).bind(schema).bound_type == bounds


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"by": "plgu"}, ColumnError, r"no column 'plgu' \(key\); did you mean 'plug'\?"),
        ({"by": "tags"}, ColumnError, "key column 'tags' is a list"),
        ({"time": "time"}, ColumnError, r"no column 'time' \(time\)"),
        ({"time": "plug"}, TimeColumnError, "time column 'plug' is a string; cast it to a timestamp"),
        ({"time": "load"}, TimeColumnError, "time column 'load' is a double"),
        (
            {"aggregates": {"peak": Max("Load")}},
            ColumnError,
            r"'Load' \(input of aggregate 'peak'\); did you mean 'load'",
        ),
        (
            {"window": DeltaWindow("lod", 1)},
            ColumnError,
            r"'lod' \(attribute of DeltaWindow\); did you mean 'load'",
        ),
        (
            {"window": DeltaWindow("plug", 1)},
            ColumnError,
            "attribute 'plug' of DeltaWindow is a string; expected a number",
        ),
        (
            {"window": DeltaWindow("load", "1s")},
            WindowError,
            "'load' of DeltaWindow is a double, so range and slide",
        ),
        (
            {"window": DeltaWindow("ts", 1.5)},
            WindowError,
            "'ts' of DeltaWindow is a timestamp.* whole numbers",
        ),
    ],
)
def test_mistakes_in_binding(changes, error, message):
    with pytest.raises(error, match=message):
        query(**changes).bind(SCHEMA)


def test_a_column_that_occurs_twice_is_ambiguous():
    schema = pa.schema([("ts", pa.int64()), ("load", pa.int64()), ("load", pa.int64())])
    with pytest.raises(ColumnError, match=r"column 'load' .* occurs 2 times"):
        query(by=()).bind(schema)


# Columns of the data.


@pytest.mark.parametrize(
    ("column", "micros"),
    [
        (pa.array([-1, 0, 2], pa.timestamp("s")), [-1_000_000, 0, 2_000_000]),
        (pa.array([-1, 0, 2], pa.timestamp("ms", "UTC")), [-1000, 0, 2000]),
        (pa.array([-1, 0, 2], pa.timestamp("us")), [-1, 0, 2]),
        (pa.array([-1, 999, 1000], pa.timestamp("ns")), [-1, 0, 1]),  # down, also before the epoch
        (pa.array([-1, 0, 2], pa.int8()), [-1, 0, 2]),
        (pa.array([0, 2**61 - 1], pa.uint64()), [0, 2**61 - 1]),
        (pa.chunked_array([[1], [2]], pa.timestamp("us")), [1, 2]),
        (pa.chunked_array([], pa.timestamp("ns")), []),
    ],
)
def test_times_are_microseconds(column, micros):
    table = pa.table({"ts": column})
    times = query(by=(), aggregates={"n": Count()}).bind(table.schema).times(table)
    assert times.dtype == np.int64
    assert times.tolist() == micros


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None], pa.int64()), r"time column 'ts' has at least 1 null\(s\)"),
        (pa.array([2**63], pa.uint64()), "time column 'ts' does not fit into 64 bits"),
        (pa.array([2**62], pa.timestamp("s")), "time column 'ts' does not fit into 64 bits"),
    ],
)
def test_times_that_are_none(column, message):
    table = pa.table({"ts": column})
    with pytest.raises(TimeColumnError, match=message):
        query(by=(), aggregates={"n": Count()}).bind(table.schema).times(table)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1, None]), r"attribute 'x' of DeltaWindow has 1 null\(s\)"),
        (pa.array([1.0, float("nan")]), "attribute 'x' of DeltaWindow has NaN"),
    ],
)
def test_delta_attributes_have_an_order(column, message):
    table = pa.table({"ts": [1, 2], "x": column})
    bound = query(by=(), aggregates={"n": Count()}, window=DeltaWindow("x", 1)).bind(table.schema)
    with pytest.raises(DeltaOrderError, match=message):
        bound.deltas(table)


# Writing and reading.


def big(result):
    return result.n < 3


EVERY = [
    query(),
    query(by=(), window=CountWindow(10, 2), time="at"),
    query(by=["plug", "haus ü"], window=SessionWindow("5m"), lateness="1h30m", late="side"),
    query(window=[HOUR, TimeWindow("1d", "1m", "6h")], late="update", early="10s"),
    query(window={"kind": HOUR, "day": TimeWindow("1d")}),
    query(window=DeltaWindow("load", 0.1)),
    query(window=PolicyWindow(valid=big), aggregates={"n": Count(), "low": Min("load")}),
]


@pytest.mark.parametrize("asked", EVERY, ids=range(len(EVERY)))
def test_round_trips(asked):
    assert Query.from_json(asked.to_json(), allow=__name__) == asked
    assert Query.from_dict(asked.to_dict(), allow=[__name__]).fingerprint == asked.fingerprint
    assert pickle.loads(pickle.dumps(asked)) == asked


def test_written_by_hand():
    asked = Query.from_dict(
        {
            "by": "plug",
            "window": [{"kind": "time", "range": "1h", "slide": "1s"}, {"kind": "time", "range": "1d"}],
            "aggregates": {"peak": {"kind": "Max", "column": "load"}, "n": {"kind": "Count"}},
            "lateness": "5s",
        }
    )
    assert asked == query(window=[HOUR, TimeWindow("1d")], lateness="5s")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("{", QueryError, "the query is not valid JSON"),
        ("[]", QueryError, "has to be an object"),
        ("{}", QueryError, "a query needs 'window'"),
        ('{"window": {"kind": "time", "range": "1h"}}', QueryError, "a query needs 'aggregates'"),
        ('{"windows": {}}', QueryError, "no parameter 'windows'; did you mean window"),
        ('{"window": 1, "aggregates": {}}', QueryError, "a window has to be an object with 'kind'"),
        ('{"window": {"a": 1}, "aggregates": {}}', QueryError, "a window has to be an object with 'kind'"),
        ('{"window": {"kind": "hop"}, "aggregates": {}}', WindowError, "no window kind 'hop'"),
        (
            '{"window": {"kind": "count", "range": 1}, "aggregates": 1}',
            QueryError,
            "aggregates have to be objects",
        ),
        ('{"window": {"kind": "count", "range": 1}, "aggregates": {"n": {"kind": "X"}}}', QueryError, "'X'"),
    ],
)
def test_mistakes_in_json(text, error, message):
    with pytest.raises(error, match=message):
        Query.from_json(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"windows": HOUR, "aggregates": {"n": Count()}},
            r"no parameter 'windows'; did you mean window\?",
        ),
        (
            {"window": HOUR, "aggregate": {"n": Count()}},
            r"no parameter 'aggregate'; did you mean aggregates\?",
        ),
        ({"aggregates": {"n": Count()}}, "a query needs 'window'"),
    ],
)
def test_mistakes_in_parameters(given, message):
    with pytest.raises(QueryError, match=message):
        Query("plug", **given)


def test_a_lambda_cannot_be_written():
    with pytest.raises(WindowError, match=r"valid of PolicyWindow: .*lambda.* cannot be written to JSON"):
        query(window=PolicyWindow(valid=lambda result: True)).to_json()


def test_the_fingerprint_never_changes():
    """A changed literal makes all state that users have stored unreadable; change it only with the format."""
    assert json.loads(query().to_json()) == {
        "by": ["plug"],
        "time": "ts",
        "window": {"kind": "time", "range": "1h", "slide": "1s"},
        "aggregates": {"peak": {"kind": "Max", "column": "load"}, "n": {"kind": "Count"}},
    }
    assert query().fingerprint == "be43f4211c358d390d85a018742e7dfca7724f89c82b7dd57d24cf976447f0d1"
    several = query(
        by=("plug", "haus ü"), window=[HOUR, TimeWindow("90m", offset="5m")], lateness="1m", late="update"
    )
    assert several.fingerprint == "3fbc74ac9f5738980fd515cf1157e446f20403b2c00ac80ad254565bdf6db0b3"


def test_the_fingerprint_is_the_same_in_another_process():
    code = "import sys; from windrow.query import Query; print(Query.from_json(sys.stdin.read()).fingerprint)"
    command = [sys.executable, "-c", code]
    environment = {"PYTHONHASHSEED": "1", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        command, input=query().to_json(), env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == query().fingerprint
