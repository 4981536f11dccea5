"""What aggregates read: expressions, conditions, and a column whose name looks like an expression."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import oracle
from windrow.errors import AggregateError, ColumnError, LawViolation, QueryError
from windrow.testing import laws

ROWS = pa.table(
    {
        "k": ["a", "b", "a", "a", "b"] * 40,
        "ts": np.random.default_rng(3).integers(0, 300, 200),
        "x": pa.array([None if i % 7 == 0 else float(i % 13) - 4 for i in range(200)]),
        "n": [i * 7 % 11 for i in range(200)],
        "x * n": pa.array([f"text {i % 5}" for i in range(200)]).dictionary_encode(),
    }
)
AGGREGATES = {
    "product": wr.Sum("x*n"),
    "text": wr.Last("x * n", where="n > 3"),
    "count": wr.Count(where="x > 0 or n == 2"),
    "median": wr.Median("x + n", where="k == 'a'"),
    "distinct": wr.CountDistinct("x"),
    "texts": wr.CountDistinct("x * n", where="x is not null"),
    "argmax": wr.ArgMax("n", "-x", where="n != 5"),
    "both": wr.product({"low": wr.Min("x"), "high": wr.Max("n - 1")}),
}


@pytest.mark.parametrize(
    ("window", "late"), [(wr.TimeWindow(50, 20), "update"), (wr.CountWindow(9, 4), "drop")]
)
def test_computed_inputs_are_what_each_row_says(window: wr.Window, late: str) -> None:
    query = wr.Query("k", window=window, aggregates=AGGREGATES, late=late, lateness=300)
    assert wr.Query.from_json(query.to_json()) == query
    assert wr.aggregate(ROWS, query).equals(oracle.evaluate(ROWS, query))
    operator, found = wr.Operator(query), []
    for begin in range(0, 200, 50):
        found.append(operator.process(ROWS.slice(begin, 50)))
        operator = wr.Operator.restore(query, operator.snapshot())
    found.append(operator.flush())
    assert query.bind(ROWS.schema).sort(pa.concat_tables(found)).equals(oracle.evaluate(ROWS, query))


def test_what_is_wrong_with_an_input_is_said() -> None:
    for aggregate, error, message in [
        (wr.Sum("x * m"), ColumnError, "no name 'm'"),
        (wr.Sum("x *"), ColumnError, "does not parse"),
        (wr.Sum("y"), ColumnError, "no column 'y'"),
        (wr.Max("x", where="n"), QueryError, "has to be true or false"),
        (wr.CountDistinct("l"), AggregateError, "needs single values"),
    ]:
        query = wr.Query(window=wr.TimeWindow(10), aggregates={"out": aggregate})
        with pytest.raises(error, match=message):
            query.bind(ROWS.schema.append(pa.field("l", pa.list_(pa.int64()))))
    with pytest.raises(QueryError, match="does not parse"):
        wr.Query(window=wr.TimeWindow(10), aggregates={"out": wr.Count(where="n >")})
    with pytest.raises(AggregateError, match="where= needs the columns of a query"):
        wr.sliding([1.0], wr.Max(where="x > 0"), range=1)


def own(identity: float, lift: object, combine: object, field: str = "f8") -> type:
    body = {"lift": lift, "combine": combine, "lower": lambda p: p[0]}
    return wr.aggregate_type(partial={"total": field}, identity=(identity,))(type("Own", (), body))


def test_own_aggregates_are_told_what_is_wrong_with_them() -> None:
    add = lambda a, b: (a[0] + b[0],)  # noqa: E731
    with pytest.raises(AggregateError, match="'total', which is 'i8' and would lose the fraction"):
        own(0, lambda x: (x,), add, "i8")("x").bind([pa.float64()])
    own(0, lambda x: (x,), add, "i8")("x").bind([pa.int64()])
    with pytest.raises(AggregateError, match=r"returns 1\.5; expected a tuple .* written \(x,\)"):
        own(0.0, lambda x: x, add)("x").bind([pa.float64()])
    with pytest.raises(AggregateError, match=r"identity of Own has 0\.5 for 'total', which is 'i8'"):
        own(0.5, lambda x: (x,), add, "i8")
    with pytest.raises(LawViolation, match="law of identity"):
        laws.check(own(1.0, lambda x: (x,), add)("x"), [1.0, 2.0], examples=50, compiled=False)
    with pytest.raises(LawViolation, match="law of associativity"):
        average = own(0.0, lambda x: (x,), lambda a, b: ((a[0] + b[0]) / 2,))("x")
        laws.check(average, [1.0, 2.0], examples=50, compiled=False)


def test_a_vector_of_an_own_aggregate_has_an_end() -> None:
    @wr.aggregate_type(partial={"counts": "i8[4]"}, identity=(0,))
    class Band:
        def lift(load):  # type: ignore[no-untyped-def]
            counts = np.zeros(4, np.int64)
            counts[int(load // 10)] = 1
            return (counts,)

        def combine(a, b):  # type: ignore[no-untyped-def]
            return (a[0] + b[0],)

        def lower(p):  # type: ignore[no-untyped-def]
            return p[0].argmax()

    query = wr.Query(window=wr.TimeWindow(10), aggregates={"band": Band("load")})
    assert wr.aggregate({"ts": [1], "load": [25.0]}, query)["band"].to_pylist() == [2]
    with pytest.raises(AggregateError, match=r"Band\(load\) raised IndexError"):
        wr.aggregate({"ts": [1, 2], "load": [25.0, 1e9]}, query)


@wr.aggregate_type(partial={"first": "i8", "last": "i8"}, identity=(2**62, -(2**62)))
class Spread:
    """The time between the first and the last row, as the user's functions see it."""

    def lift(t):  # type: ignore[no-untyped-def]
        return t, t

    def combine(a, b):  # type: ignore[no-untyped-def]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p):  # type: ignore[no-untyped-def]
        return p[1] - p[0]


def spread(t: Any) -> Any:
    return t[-1] - t[0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_functions_of_the_user_get_microseconds_whatever_the_unit(unit: str) -> None:
    seconds = pa.array([-7, -1, 2, 3, 9, 20], pa.timestamp("s"))
    rows = pa.table({"ts": seconds.cast(pa.timestamp(unit)), "x": [1, 0, 1, 1, 1, 1]})
    query = wr.Query(
        window=wr.TimeWindow("10s"),
        aggregates={
            "own": Spread("ts"),
            "where": Spread("ts", where="x > 0"),
            "all": wr.Apply(spread, "ts", returns="i8"),
            "last": wr.Max("ts"),
        },
    )
    found = wr.aggregate(rows, query)
    assert found.equals(oracle.evaluate(rows, query))
    assert found["own"].to_pylist() == found["all"].to_pylist() == [6_000_000, 7_000_000, 0]
    assert found["where"].to_pylist() == [0, 7_000_000, 0]
    assert found["last"].type == pa.timestamp(unit)
