"""What the page on pandas and Polars says about functions is so: every cell of its table runs and gives what windrow gives."""

import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import windrow as wr

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402
import functions  # noqa: E402

PAGE = DOCS / "migrate" / "pandas-polars.md"
ALMOST = "INTERVAL 59999999 MICROSECONDS"
"""DuckDB includes the start of a range, the others do not."""


def test_functions_of_pandas_polars_and_duckdb(tmp_path: Path) -> None:
    names: dict[str, Any] = {"wr": wr, "pl": pl, "np": np, **blocks.run(PAGE, "core", tmp_path)}
    data = functions.rows(plugs=("desk",))
    table, frame = pa.table(data), pd.DataFrame(data).set_index("ts")
    lines = functions.functions(PAGE)
    assert len(lines) > 20
    query = wr.Query(
        window=wr.SlideByTuple("1m", 1),
        aggregates={f"f{n}": eval(line.ours, names) for n, line in enumerate(lines)},
    )
    ours = wr.aggregate(table, query)
    assert ours.num_rows == len(data["ts"])
    names["r"] = frame.rolling("1min")["load"]
    in_polars = {
        f"f{n}": eval(line.theirs["Polars"], names) for n, line in enumerate(lines) if "Polars" in line.theirs
    }
    polars = pl.DataFrame(data).rolling("ts", period="1m").agg(**in_polars)
    in_duckdb = [
        f"{over(line.theirs['DuckDB'])} AS f{n}" for n, line in enumerate(lines) if "DuckDB" in line.theirs
    ]
    rows = duckdb.sql(
        f'SELECT {", ".join(in_duckdb)} FROM "table" '
        f"WINDOW w AS (ORDER BY ts RANGE BETWEEN {ALMOST} PRECEDING AND CURRENT ROW) ORDER BY ts"
    ).to_arrow_table()
    for n, line in enumerate(lines):
        expected = ours[f"f{n}"].to_pylist()
        if "pandas" in line.theirs:
            functions.compare(line, "pandas", eval(line.theirs["pandas"], names).to_list(), expected)
        if "Polars" in line.theirs:
            functions.compare(line, "Polars", polars[f"f{n}"].to_list(), expected)
        if "DuckDB" in line.theirs:
            functions.compare(line, "DuckDB", rows[f"f{n}"].to_pylist(), expected)


def test_a_line_that_is_not_so_is_found() -> None:
    line = functions.Function({"pandas": "r.sum()"}, 'wr.Sum("load")', None, functions.ROUNDED)
    functions.compare(line, "pandas", [1.0 + 1e-12, float("nan")], [1.0, None])
    with pytest.raises(AssertionError, match="are not same up to rounding"):
        functions.compare(line, "pandas", [1.001], [1.0])


def over(code: str) -> str:
    """Each call of a function over the window ``w``."""
    return " - ".join(f"{call} OVER w" for call in code.split(" - "))
