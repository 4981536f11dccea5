"""Batch: every plan gives the rows that the in-process engine gives, and those that Spark's own window() gives."""

import re
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import windrow as wr
from windrow.errors import AggregateError, ColumnError, QueryError, TimeColumnError
from windrow.query.slicing import PushDown, sql_forms
from windrow_spark import explain, plans, progress, register, slices, windowed
from windrow_spark.key_ranges import cut_of
from windrow_spark.ranges import has_hot_key
from windrow_spark.schemas import fit
from windrow_spark.spark_alone import by_spark

ROWS = """
    select case when id % 7 = 0 then null else concat('plug ', id % 5) end as plug,
           timestamp_micros(-3000000 + id * 300000 - (id % 3) * 1000000 + case when id > 300 then 60000000 else 0 end) as ts,
           case when id % 11 = 0 then null when id = 400 then double('nan') else cast((id * 7919) % 1000 as double) / 8 end as load,
           cast((id * 31) % 97 as decimal(10, 2)) as price, id % 13 as n, cast(id as double) as meter, id
    from range(600)
"""


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Ties, disorder, a gap, nulls, a NaN, times before the epoch."""
    return spark.sql(ROWS).cache()


def answer(frame: DataFrame, query: wr.Query, data: pa.Table) -> pa.Table:
    """What Spark answers, in the order and with the types of an answer in process."""
    bound = query.bind(data.schema)
    return bound.sort(frame.toArrow().rename_columns(bound.output_schema.names)).cast(bound.output_schema)


def mean_of_squares() -> wr.Aggregate:
    @wr.aggregate_type(partial={"total": "f8", "n": "i8"}, identity=(0.0, 0))
    class MeanOfSquares:
        def lift(x):
            return x * x, 1

        def combine(a, b):
            return a[0] + b[0], a[1] + b[1]

        def lower(p):
            return p[0] / p[1]

    return MeanOfSquares("load")


EXACT = {
    "peak": wr.Max("load"), "low": wr.Min("n"), "n": wr.Count(), "loads": wr.Count("load"), "total": wr.Sum("n"), "latest": wr.Max("ts"),
}  # fmt: skip
ALONE = {name: aggregate for name, aggregate in EXACT.items() if name != "total"} | {"least": wr.Min("load")}
ROUNDED = {"mean": wr.Mean("load"), "sum": wr.Sum("load"), "spread": wr.Std("load")}
OTHERS = {
    "first": wr.First("id"), "price": wr.Sum("price"), "median": wr.Median("load"), "where": wr.ArgMax("load", "plug"),
    "ids": wr.Collect("id"), "top": wr.TopK("n", 3),
}  # fmt: skip
MANY = [wr.TimeWindow("10s", "1s"), wr.TimeWindow("7s", "3s", "500ms"), wr.TimeWindow("2s", "5s")]


@pytest.mark.parametrize(
    ("query", "options"),
    [
        (wr.Query("plug", window=MANY[0], aggregates=EXACT), {}),  # Spark alone: there are few rows
        (wr.Query("plug", window=MANY[1], aggregates=EXACT | ROUNDED), {"push_down": True}),
        (wr.Query("plug", window=wr.TimeWindow("3s", offset="500ms"), aggregates=EXACT | {"low": wr.Min("load")}), {}),  # total sums
        (wr.Query("plug", "id", window=wr.TimeWindow(7), aggregates=ALONE), {}),  # Spark alone
        (wr.Query(["plug", "n"], window=MANY, aggregates={"peak": wr.Max("load")}), {}),
        (wr.Query("plug", window=MANY[0], aggregates=EXACT | ROUNDED | OTHERS), {}),
        (wr.Query(window=MANY[0], aggregates=OTHERS), {}),  # ranges of eight windows
        (wr.Query(window=MANY, aggregates=ROUNDED), {"parallel": 3}),
        (wr.Query("plug", window=MANY[1], aggregates=EXACT), {"parallel": 5}),
        (wr.Query("plug", window=MANY[1], aggregates=EXACT), {"parallel": True}),
        (wr.Query("plug", window=wr.CountWindow(7, 3), aggregates=OTHERS | EXACT), {}),
        (wr.Query(window=wr.CountWindow(60, 7), aggregates=OTHERS), {"parallel": 4}),  # ranges of rows
        (wr.Query("plug", window=wr.SlideByTuple("9s", 4), aggregates=OTHERS), {"parallel": 20}),
        (wr.Query("plug", window=wr.SlideByTime(9, "4s"), aggregates=OTHERS), {"parallel": 12}),
        (wr.Query(window=wr.SessionWindow("250ms"), aggregates=OTHERS), {"parallel": 5}),
        (wr.Query("plug", window=wr.SessionWindow("1s"), aggregates=OTHERS), {}),
        (wr.Query("plug", window=wr.SlideByTuple("9s", 4), aggregates=OTHERS), {}),
        (wr.Query("plug", window=wr.SlideByTime(9, "4s"), aggregates=OTHERS), {}),
        (wr.Query("plug", "id", window=wr.DeltaWindow("meter", 20.0, 5.0), aggregates=OTHERS), {}),
        (wr.Query("plug", window=wr.PolicyWindow(valid=lambda r: r.n < 9), aggregates={"n": wr.Count(), "ids": wr.Collect("id")}), {}),
        (wr.Query("plug", window=MANY[0], aggregates={"own": mean_of_squares()}), {}),
    ],
    ids=lambda value: "" if isinstance(value, dict) else type(value.window).__name__,
)  # fmt: skip
def test_every_plan_gives_the_answer_of_the_process(
    rows: DataFrame, query: wr.Query, options: dict[str, Any]
) -> None:
    data = rows.orderBy("ts", "id").toArrow()
    expected = wr.aggregate(data, query)
    got = answer(windowed(rows, query, **options), query, data)
    assert_same(got, expected)


WHOLE = {
    "peak": wr.Max("load"), "low": wr.Min("load"), "n": wr.Count(), "loads": wr.Count("load"), "total": wr.Sum("n"), "latest": wr.Max("ts"),
    "mean": wr.Mean("load"), "sum": wr.Sum("load"),  # these loads are added without rounding
}  # fmt: skip


@pytest.mark.parametrize(
    "window", [wr.TimeWindow("3s", offset="500ms"), wr.TimeWindow("10s", "1s", "-300ms")]
)
def test_ways_of_spark_alone_have_the_bits_of_the_process(rows: DataFrame, window: wr.TimeWindow) -> None:
    query = wr.Query("plug", window=window, aggregates=WHOLE)
    data = rows.orderBy("ts", "id").toArrow()
    expected = wr.aggregate(data, query)
    fitted = fit(query, rows)
    forms = sql_forms(fitted.bound, rounded=True)
    assert plans.look(rows, fitted).complete and forms is not None
    ways = {
        "copies": by_spark(rows, fitted, forms, two_steps=False),
        "two steps": by_spark(rows, fitted, forms, two_steps=True),
        "slices": slices.by_slices(rows, fitted, forms),
        "slices without rounding": slices.by_slices(rows, fitted, sql_forms(fitted.bound)),
    }
    for name, found in ways.items():
        got = answer(found, query, data)
        for column in expected.column_names:
            ours, theirs = (each.column(column).to_pylist() for each in (got, expected))
            assert [repr(x) for x in ours] == [repr(x) for x in theirs], (name, column)


def test_slices_of_every_sql_form(rows: DataFrame) -> None:
    query = wr.Query("plug", window=MANY[1], aggregates=EXACT | ROUNDED)
    data = rows.orderBy("ts", "id").toArrow()
    got = answer(slices.by_slices(rows, fit(query, rows)), query, data)
    assert_same(got, wr.aggregate(data, query))


def test_a_plan_is_chosen_by_what_it_copies(spark: SparkSession) -> None:
    """Dense rows: Spark alone while it copies little, then slices. Sparse rows, and sums that Spark would round: all to Python."""

    def chosen(
        rows: int,
        a_second: int,
        window: wr.TimeWindow,
        push_down: PushDown = "auto",
        **aggregates: wr.Aggregate,
    ) -> str:
        frame = spark.sql(
            f"select timestamp_micros(id * {1_000_000 // a_second}) ts, 0.1D * id as load from range({rows})"
        )
        return explain(frame, wr.Query(window=window, aggregates=aggregates), push_down=push_down).name

    peak, hour = {"peak": wr.Max("load")}, wr.TimeWindow("1h", "1s")
    assert chosen(1_000, 1, wr.TimeWindow("1m"), **peak) == "groups"
    assert chosen(1_000_000, 1, wr.TimeWindow("2s", "1s"), **peak) == "copies"
    assert chosen(1_000_000, 100, wr.TimeWindow("8s", "1s"), **peak) == "two steps"
    assert chosen(10_000, 1000, hour, **peak) == "two steps"
    assert chosen(100_000_000, 1000, hour, **peak) == "slices"
    assert chosen(1_000_000, 1, hour, **peak) == "rows"
    assert chosen(1_000, 1, hour, spread=wr.Std("load")) == "rows"
    mean, minute = {"mean": wr.Mean("load")}, wr.TimeWindow("1m")
    assert chosen(1_000, 1, minute, **mean) == "slices"
    assert chosen(1_000, 1, hour, **mean) == chosen(10_000, 3, hour, **mean) == "rows"
    assert chosen(1_000, 1, minute, True, **mean) == "groups"
    assert chosen(100_000_000, 1000, hour, True, **mean) == "slices"


def test_a_hot_key_is_looked_for_if_one_task_leaves_a_core_idle(spark: SparkSession) -> None:
    """One task sorts and computes at once, so with two cores only functions of whole windows are worth a second one."""

    def tasks(aggregate: wr.Aggregate, **options: Any) -> bool:
        frame = spark.range(400_000).selectExpr("id", HOT)
        query = wr.Query("k", "id", window=wr.CountWindow(10), aggregates={"it": aggregate})
        return (
            "__windrow_range" in windowed(frame, query, **options)._jdf.queryExecution().analyzed().toString()
        )

    assert not tasks(wr.Max("id")) and tasks(wr.Max("id"), parallel=2)
    assert tasks(wr.Apply(max, ["id"], returns="i8"))


def assert_same(got: pa.Table, expected: pa.Table) -> None:
    """Equal to the last bit, except sums of doubles, which may be grouped differently."""
    assert got.schema.names == expected.schema.names
    assert got.num_rows == expected.num_rows > 0
    for name in expected.schema.names:
        ours, theirs = got.column(name).to_pylist(), expected.column(name).to_pylist()
        if pa.types.is_floating(expected.schema.field(name).type):
            ours, theirs = ([float("nan") if x is None else x for x in each] for each in (ours, theirs))
            assert got.column(name).null_count == expected.column(name).null_count
            assert ours == pytest.approx(theirs, rel=1e-12, abs=1e-9, nan_ok=True), name
        else:
            assert ours == theirs, name


def test_same_rows_as_sparks_own_windows(rows: DataFrame) -> None:
    """The same keys, bounds and values as groupBy(window(…)), for data with gaps, ties and disorder."""
    rows = rows.filter("id <> 400")  # Spark's min skips NaN
    aggregates = {
        "peak": wr.Max("load"),
        "low": wr.Min("load"),
        "total": wr.Sum("n"),
        "n": wr.Count(),
        "mean": wr.Mean("n"),
    }
    query = wr.Query("plug", window=wr.TimeWindow("10s", "1s"), aggregates=aggregates)
    same = [F.max("load"), F.min("load"), F.sum("n"), F.count("*"), F.avg("n")]
    native = rows.groupBy("plug", F.window("ts", "10 seconds", "1 second").alias("w")).agg(*same)
    native = native.select("plug", "w.start", "w.end", *native.columns[2:])
    data = rows.toArrow()
    assert_same(answer(windowed(rows, query), query, data), answer(native, query, data))


@pytest.mark.parametrize(
    ("query", "error", "says"),
    [
        (
            wr.Query("plg", window=MANY[0], aggregates=EXACT),
            ColumnError,
            "no column 'plg' .key.; did you mean 'plug'",
        ),
        (wr.Query("plug", "plug", window=MANY[0], aggregates=EXACT), TimeColumnError, "'plug' is a string"),
        (wr.Query("plug", window=MANY[0], aggregates={"s": wr.Sum("plug")}), AggregateError, "plug"),
        (wr.Query("parts", window=MANY[0], aggregates={"n": wr.Count()}), ColumnError, "'parts' is a list"),
        (
            wr.Query("plug", window=MANY[0], aggregates={"v": wr.Max("v")}),
            ColumnError,
            "'v' is a variant.*cast",
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_mistakes_are_told_before_a_job_starts(
    rows: DataFrame, query: wr.Query, error: type[Exception], says: str
) -> None:
    odd = rows.withColumn("parts", F.split("plug", " ")).withColumn("v", F.parse_json(F.lit("1")))
    with pytest.raises(error, match=says):
        windowed(odd, query)


def test_spark_computes_tumbling_windows_alone(rows: DataFrame) -> None:
    """No row goes to Python, and a row without a time is refused as everywhere."""
    query = wr.Query("plug", window=wr.TimeWindow("3s", offset="500ms"), aggregates=ALONE)
    alone = windowed(rows, query)
    plan = alone._jdf.queryExecution().executedPlan().toString()
    assert "MapInArrow" not in plan
    data = rows.orderBy("ts", "id").toArrow()
    assert_same(answer(alone, query, data), wr.aggregate(data, query))
    without = rows.withColumn("ts", F.when(F.col("id") != 5, F.col("ts")))
    told = "TimeColumnError: time column 'ts' has .*null.*where.*ts IS NOT NULL"
    for push_down in (True, False):
        with pytest.raises(Exception, match=told):
            windowed(without, query, push_down=push_down).collect()


def test_a_hot_key_is_found(spark: SparkSession) -> None:
    """A key that has more than a core's share of the rows; the first rows alone do not decide."""
    shares = {
        "id % 50": False,
        "1": True,
        "if(id % 10 < 7, 0, id)": True,
        "if(id < 30000, 0, id)": False,
    }
    query = wr.Query("k", window=MANY[0], aggregates={"n": wr.Count()})
    for key, hot in shares.items():
        frame = spark.range(100_000).selectExpr(f"{key} as k", "timestamp_millis(id) as ts")
        assert has_hot_key(frame, query) is hot, key


HOT = "if(id % 10 < 8, 'hot', cast(id as string)) as k"


def test_ranges_of_rows_agree_on_the_order_of_ties(spark: SparkSession) -> None:
    """Rows of one time are in several partitions and in several ranges. One row is far from all others."""
    time = "id % 50 + if(id = 7, -1000000000000000, 0) as ts"
    frame = spark.range(0, 4000, 1, 8).selectExpr(time, "id", HOT)
    data = frame.orderBy("ts", "id").toArrow()
    for window in (wr.CountWindow(7, 5), wr.SlideByTuple(3, 5)):
        query = wr.Query("k", window=window, aggregates={"ids": wr.Collect("id"), "last": wr.Last("id")})
        cut = cut_of(frame, fit(query, frame), 6, look=False)
        assert cut is not None and len(cut.ranges) == 5 and len({key for key, _ in cut.ranges}) == 1
        got = answer(windowed(frame, query, parallel=6), query, data)
        assert got.equals(wr.aggregate(data, query))


def test_a_hot_key_is_cut_if_that_is_worth_it(spark: SparkSession) -> None:
    """By itself only if it has many rows, more than a core's share, and more than a few windows."""
    count = {"n": wr.Count()}
    hot, cold = (
        wr.Query("k", "id", window=wr.CountWindow(10), aggregates=count),
        wr.Query("id", "id", window=wr.CountWindow(10), aggregates=count),
    )
    few, far = (
        wr.Query("k", "id", window=wr.CountWindow(300_000), aggregates=count),
        wr.Query("k", "id", window=wr.SessionWindow("1s"), aggregates=count),
    )
    small = spark.range(20_000).selectExpr("id", HOT)
    large = spark.range(400_000).selectExpr("id", HOT)
    ranges = {}
    for name, frame, query in (
        ("small", small, hot),
        ("hot", large, hot),
        ("cold", large, cold),
        ("few windows", large, few),
        ("one session", large, far),
    ):
        cut = cut_of(frame, fit(query, frame), None, look=True)
        ranges[name] = 0 if cut is None else len(cut.ranges)
    assert ranges == {"small": 0, "hot": 4, "cold": 0, "few windows": 0, "one session": 0}


def test_progress_of_a_batch(rows: DataFrame) -> None:
    lines: list[str] = []
    with progress(rows.sparkSession, lines.append):
        windowed(rows, wr.Query("plug", window=MANY[0], aggregates=EXACT), push_down=False).count()
    done = re.fullmatch(r"windrow: (\d+) of (\d+) tasks done, 0 running, \d+ s", lines[-1])
    assert done and int(done[1]) > 0, lines


def test_options_are_checked(rows: DataFrame) -> None:
    with pytest.raises(QueryError, match="has no SQL form for Spark"):
        windowed(rows, wr.Query("plug", window=MANY[0], aggregates={"m": wr.Median("load")}), push_down=True)
    with pytest.raises(QueryError, match="push_down and pushdown are the same option"):
        windowed(rows, wr.Query("plug", window=MANY[0], aggregates=EXACT), push_down=True, pushdown=True)
    with pytest.raises(QueryError, match="a DeltaWindow depends on all rows before it"):
        delta = wr.DeltaWindow("meter", 20.0, 5.0)
        windowed(rows, wr.Query("plug", window=delta, aggregates={"n": wr.Count()}), parallel=4)
    with pytest.raises(QueryError, match=r"needs a windrow\.Query, not dict"):
        windowed(rows, {})


def test_names_and_zones_of_sparks_own(spark: SparkSession) -> None:
    """A column with a dot in its name; a time without zone; the session's zone changes what is shown, not what is computed."""
    frame = spark.sql(
        "select 'a' as `the.key`, timestamp_ntz '2024-03-10 02:30:00' as `t.s`, timestamp '2024-03-10 12:00:00' as z"
    )
    by_ntz = wr.Query("the.key", "t.s", window=wr.TimeWindow("1h"), aggregates={"last": wr.Max("z")})
    for push_down in (False, True):
        found = windowed(frame, by_ntz, push_down=push_down)
        assert [kind for _, kind in found.dtypes] == ["string", "timestamp_ntz", "timestamp_ntz", "timestamp"]
        row = found.selectExpr("*", "string(window_start) as shown").first()
        assert (row["the.key"], row.shown) == ("a", "2024-03-10 02:00:00")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        by_z = wr.Query(time="z", window=wr.TimeWindow("1d"), aggregates={"n": wr.Count()})
        shown = windowed(frame, by_z).selectExpr("string(window_start)").first()[0]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert shown == "2024-03-09 19:00:00"


def test_sql(spark: SparkSession, rows: DataFrame) -> None:
    register(spark)
    rows.createOrReplaceTempView("loads")
    query = wr.Query("plug", window=MANY[0], aggregates={"peak": wr.Max("load"), "n": wr.Count()})
    found = spark.sql(
        f"select * from windrow(table(loads) partition by plug order by ts, query => '{query.to_json()}')"
    )
    assert found.schema == windowed(rows, query).schema
    data = rows.orderBy("ts", "id").toArrow()
    assert_same(answer(found, query, data), wr.aggregate(data, query))
    wrong = wr.Query("x", window=MANY[0], aggregates={"n": wr.Count()})
    with pytest.raises(Exception, match="no column 'x'"):
        spark.sql(f"select * from windrow(table(loads) partition by plug, query => '{wrong.to_json()}')")


def test_sql_imports_only_what_was_allowed(spark: SparkSession, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("loads")
    window = wr.PolicyWindow(valid="builtins:bool")
    query = wr.Query("plug", window=window, aggregates={"n": wr.Count()})
    rest = f"(table(loads) partition by plug order by ts, query => '{query.to_json()}')"
    register(spark, "refusing")
    with pytest.raises(Exception, match="may not import 'builtins'"):
        spark.sql("select n from refusing" + rest)
    register(spark, "allowing", allow="builtins")
    assert spark.sql("select n from allowing" + rest).count() == 600
