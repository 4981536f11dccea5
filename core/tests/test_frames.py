"""Frames of other libraries in and out, pictures, and an own aggregate that a type checker accepts."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import annotated
import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest
from click.testing import CliRunner

import windrow as wr
from windrow.cli import main
from windrow.columns import text
from windrow.columns.arrow import as_table
from windrow.errors import ColumnError, QueryError
from windrow.kernels import compiling
from windrow.kernels.compiling import telling

ROWS = pa.table({"k": ["a", "b", "a"], "ts": [1, 7, 12], "x": [1.0, 2.0, None]})
QUERY = wr.Query("k", window=wr.TimeWindow(10, 5), aggregates={"n": wr.Count(), "peak": wr.Max("x")})
FRAMES = {
    "pandas": (ROWS.to_pandas, pd.DataFrame),
    "pandas index": (lambda: ROWS.to_pandas().set_index("ts"), pd.DataFrame),
    "polars": (lambda: pl.from_arrow(ROWS), pl.DataFrame),
    "lazy": (lambda: pl.from_arrow(ROWS).lazy(), pl.LazyFrame),
    "duckdb": (lambda: duckdb.from_arrow(ROWS), duckdb.DuckDBPyRelation),
    "table": (lambda: ROWS, pa.Table),
    "reader": (ROWS.to_reader, pa.Table),
    "dataset": (lambda: pyarrow.dataset.dataset(ROWS), pa.Table),
    "dicts": (ROWS.to_pylist, list),
    "columns": (ROWS.to_pydict, pa.Table),
    "batches": (lambda: ROWS.to_batches(max_chunksize=1), pa.Table),
}


@pytest.mark.parametrize("name", FRAMES)
def test_what_comes_in_goes_out(name: str) -> None:
    make, kind = FRAMES[name]
    expected = wr.aggregate(ROWS, QUERY)
    assert wr.aggregate(make(), QUERY).cast(expected.schema).equals(expected)
    same = wr.aggregate(make(), QUERY, to="same")
    assert isinstance(same, kind)
    windows = same.collect() if isinstance(same, pl.LazyFrame) else same
    assert as_table(windows).cast(expected.schema).equals(expected)


def test_a_relation_comes_back_on_its_own_connection() -> None:
    with duckdb.connect() as connection:
        connection.execute(
            "CREATE TABLE readings AS FROM (VALUES ('a', 1, 1.0), ('b', 7, 2.0)) AS t(k, ts, x)"
        )
        windows = wr.aggregate(connection.table("readings"), QUERY, to="same")
        joined = windows.set_alias("w").join(connection.table("readings").set_alias("r"), "w.k = r.k")
        joined = joined.aggregate("w.k, max(n), count(x)").order("ALL")
        assert joined.fetchall() == [("a", 1, 2), ("b", 1, 2)]
        assert connection.sql("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]


def test_the_index_of_a_frame_needs_a_name() -> None:
    frame = pd.DataFrame({"k": ["a"], "x": [1.0]}, index=pd.Index([pd.Timestamp(0)]))
    with pytest.raises(ColumnError, match=r"and an index without a name: give it one, rename_axis\('ts'\)"):
        wr.aggregate(frame, QUERY)
    assert wr.aggregate(frame.rename_axis("ts"), QUERY).num_rows == 2


def test_text_of_polars_is_read_where_arrow_cannot_cast_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "casts_views", lambda: False)
    expected, frame = wr.aggregate(ROWS, QUERY), pl.from_arrow(ROWS)
    assert text.castable(frame).schema.field("k").type == pa.large_string()
    operator = wr.Operator(QUERY)
    operator.process(frame)
    for found in (wr.aggregate(frame, QUERY), wr.aggregate(frame.lazy(), QUERY), operator.flush()):
        assert found.cast(expected.schema).equals(expected)


def test_a_kind_of_frame_can_be_chosen() -> None:
    expected = wr.aggregate(ROWS, QUERY)
    assert pl.DataFrame(expected).equals(wr.aggregate(ROWS, QUERY, to="polars"))
    assert wr.aggregate(ROWS, QUERY, to="duckdb").fetchall() == [
        tuple(r.values()) for r in expected.to_pylist()
    ]
    assert wr.aggregate(ROWS, QUERY, to="pandas").equals(expected.to_pandas())
    assert wr.aggregate(ROWS, QUERY, to="dicts") == expected.to_pylist()
    with pytest.raises(QueryError, match="to has to be one of 'arrow', 'same'"):
        wr.aggregate(ROWS, QUERY, to="excel")  # type: ignore[call-overload]


def test_pictures_have_a_bar_for_each_window_and_a_line_for_each_cut() -> None:
    windows = [wr.TimeWindow("1h", "20m"), wr.TimeWindow("40m", offset="5m")]
    query = wr.Query(window=windows, aggregates={"n": wr.Count(where="x > 0")}, time_unit="s")
    picture = ElementTree.fromstring(str(wr.explain(query).draw(3)))
    tags = [element.tag.split("}")[1] for element in picture]
    assert tags.count("rect") == 6
    starts, tumbling = {0, 20, 40, 60, 80, 100, 120}, {5, 45, 85, 125}
    assert tags.count("line") == len(starts | tumbling)
    assert "Count() where x &gt; 0" in query._repr_html_()
    assert "ts in s" in str(query)
    with pytest.raises(QueryError, match="SessionWindow"):
        wr.Query(window=wr.SessionWindow("1s"), aggregates={"n": wr.Count()}).plot()


def never_compiled(place: Path) -> wr.Query:
    """A query with an aggregate that no cache knows."""
    number = len(str(place)) + hash(str(place)) % 10_000
    body = {
        "lift": lambda x: (x * number,),
        "combine": lambda a, b: (a[0] + b[0],),
        "lower": lambda p: p[0],
    }
    own = wr.aggregate_type(partial={"total": "f8"}, identity=(0.0,))(type("Own", (), body))
    return replace(QUERY, aggregates={"own": own("x")})


def test_warm_compiles_what_a_query_needs(tmp_path: Path) -> None:
    (tmp_path / "query.json").write_text(QUERY.to_json())
    ROWS.to_pandas().to_parquet(tmp_path / "rows.parquet")
    arguments = ["warm", str(tmp_path / "query.json"), "--input", str(tmp_path / "rows.parquet")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0 and "the query is ready" in result.output
    with telling(told := [].append):
        assert wr.aggregate(ROWS, never_compiled(tmp_path)).num_rows
    assert told.__self__[-1] is None and any("absorb" in str(name) for name in told.__self__)


def test_a_wait_for_the_compiler_is_announced_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "PATIENCE", -1.0)
    monkeypatch.setattr(compiling._clock, "announced", False)
    caplog.set_level(logging.WARNING, "windrow.compiling")  # whoever asks for more sees every kernel instead
    wr.aggregate(ROWS, never_compiled(tmp_path))
    (said,) = (each.getMessage() for each in caplog.records if each.name == "windrow.compiling")
    assert (
        "compiles the kernels of a query when it first runs" in said and "the next run does not wait" in said
    )


def test_an_annotated_aggregate_runs() -> None:
    assert wr.aggregate(ROWS, annotated.QUERY).column("mean").to_pylist() == [2.0]
    assert annotated.HALF == 0.5
