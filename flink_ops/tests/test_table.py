"""Tables: the rows of Flink SQL's own HOP and of the definition, with slices made by SQL or by Python."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyflink.table import StreamTableEnvironment

import windrow as wr
from windrow import errors
from windrow.testing import oracle
from windrow_flink import environment, pushed_down, windowed_table

QUERY = wr.Query(
    by="k",
    window=wr.TimeWindow("2s", "500ms"),
    aggregates={"n": wr.Count(), "hi": wr.Max("v"), "lo": wr.Min("i"), "s": wr.Sum("i"), "m": wr.Mean("i")},
)


def made(folder: Path, kind: str) -> tuple[StreamTableEnvironment, pa.Table]:
    """A table of rows with gaps, ties and disorder; and the same rows as Arrow data."""
    tables = StreamTableEnvironment.create(environment())
    tables.get_config().set_local_timezone("UTC")
    rng = np.random.default_rng(3)
    count = 1500
    ms = (
        np.cumsum(rng.choice([0, 1, 5, 40, 900, 6000], count, p=[0.3, 0.3, 0.2, 0.1, 0.09, 0.01]))
        + 1_600_000_000_000
    )
    order = np.argsort(ms + rng.integers(0, 80, count), kind="stable")
    ms, k, v = ms[order], rng.integers(0, 3, count), rng.normal(size=count)
    i = rng.integers(-(2**40), 2**40, count)
    lines = [f"{a},{b},{c!r},{d}" for a, b, c, d in zip(k, ms, v.tolist(), i, strict=True)]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    time = "TO_TIMESTAMP_LTZ(ms, 3)" if kind == "zoned" else "CAST(TO_TIMESTAMP_LTZ(ms, 3) AS TIMESTAMP(3))"
    tables.execute_sql(
        f"CREATE TEMPORARY TABLE src (k INT, ms BIGINT, v DOUBLE, i BIGINT, ts AS {time}, "
        "WATERMARK FOR ts AS ts - INTERVAL '0.1' SECOND) "
        f"WITH ('connector' = 'filesystem', 'path' = '{folder}/rows.csv', 'format' = 'csv')"
    )
    return tables, pa.table({"k": pa.array(k, pa.int32()), "ts": ms * 1000, "v": v, "i": i})


@pytest.mark.parametrize("kind", ["zoned", "plain"])
def test_push_down_rows_and_hop_give_the_same_windows(tmp_path: Path, kind: str) -> None:
    tables, data = made(tmp_path, kind)
    source = tables.from_path("src")
    assert "Flink SQL aggregates slices of 500 ms" in pushed_down(source, QUERY)
    names = ["n", "hi", "lo", "s", "m"]
    bounds = ", ".join(f"CAST({name} AS TIMESTAMP(3)) AS {name}" for name in ("window_start", "window_end"))
    for name, push_down in {"pushed": True, "crossed": False}.items():
        tables.create_temporary_view(name, windowed_table(source, QUERY, push_down=push_down, uid=name))
    selects = [
        f"SELECT '{name}', k, {bounds}, {', '.join(names)} FROM {name}" for name in ("pushed", "crossed")
    ]
    selects.append(
        f"SELECT 'hop', k, {bounds}, COUNT(*), MAX(v), MIN(i), SUM(i), AVG(CAST(i AS DOUBLE)) FROM TABLE("
        "HOP(TABLE src, DESCRIPTOR(ts), INTERVAL '0.5' SECOND, INTERVAL '2' SECOND)) GROUP BY k, window_start, window_end"
    )
    found: dict[str, list[Any]] = {"pushed": [], "crossed": [], "hop": []}
    with tables.execute_sql(" UNION ALL ".join(selects)).collect() as rows:
        for name, k, start, end, *rest in map(list, rows):
            found[name.strip()].append(
                [k, *((t - datetime(1970, 1, 1)) // timedelta(microseconds=1) for t in (start, end)), *rest]
            )
    expected = sorted([list(row.values()) for row in oracle.evaluate(data, QUERY).to_pylist()])
    assert sorted(found["pushed"]) == sorted(found["crossed"]) == expected
    hop = sorted(found["hop"])
    assert [row[:-1] for row in hop] == [row[:-1] for row in expected]
    assert np.allclose([row[-1] for row in hop], [row[-1] for row in expected], rtol=1e-9)


def test_what_a_table_cannot_do_is_refused_when_it_is_put_together(tmp_path: Path) -> None:
    tables, _ = made(tmp_path, "plain")
    source = tables.from_path("src")
    for table, change, error, says in [
        (source, {"time": "ms"}, errors.TimeColumnError, "WATERMARK FOR ms"),
        (source, {"by": "kk"}, errors.ColumnError, "did you mean 'k'"),
        ("src", {}, errors.QueryError, "needs a Table"),
    ]:
        query: dict[str, Any] = {
            "by": "k",
            "window": wr.TimeWindow("1s"),
            "aggregates": {"n": wr.Count()},
            **change,
        }
        with pytest.raises(error, match=says):
            windowed_table(table, wr.Query(**query))
    counted = wr.Query(by="k", window=wr.CountWindow(3), aggregates={"n": wr.Count()})
    with pytest.raises(errors.QueryError, match="needs time windows"):
        windowed_table(source, counted, push_down=True)
    with pytest.raises(errors.QueryError, match="needs time windows"):
        windowed_table(source, counted, pushdown=True)
    with pytest.raises(errors.QueryError, match="push_down and pushdown are the same option"):
        windowed_table(source, counted, push_down=False, pushdown=True)
