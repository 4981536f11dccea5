"""What the documentation shows of Flink runs: the blocks of its pages, and the example job."""

import runpy
import sys
from contextlib import chdir
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import windrow as wr
from windrow_flink import windowed_table

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402
import functions  # noqa: E402

MIGRATION = DOCS / "migrate" / "flink.md"


@pytest.mark.parametrize(
    "page", blocks.pages_of("flink"), ids=lambda page: str(page.relative_to(DOCS.parent))
)
def test_pages(page: Path, tmp_path: Path) -> None:
    names = blocks.run(page, "flink", tmp_path)
    if page == MIGRATION:
        compare_functions(names, tmp_path)


def compare_functions(names: dict[str, Any], folder: Path) -> None:
    """Every line of the table of functions, over the same sliding windows of both, in one job."""
    lines = functions.functions(MIGRATION)
    assert len(lines) > 15
    data, tables = functions.rows(seconds=200), names["tables"]
    text = "".join(",".join(map(str, row)) + "\n" for row in zip(*data.values(), strict=True))
    (folder / "rows.csv").write_text(text, encoding="utf-8")
    tables.execute_sql(
        "CREATE TEMPORARY TABLE data (plug STRING, ts TIMESTAMP(3), load DOUBLE, units BIGINT, state STRING, "
        f"WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', 'path' = '{folder}/rows.csv', 'format' = 'csv')"
    )
    query = wr.Query(
        by="plug",
        window=wr.TimeWindow("2m", "30s"),
        aggregates={f"f{n}": eval(line.ours, names) for n, line in enumerate(lines)},
    )
    tables.create_temporary_view("ours", windowed_table(tables.from_path("data"), query, uid="functions"))
    columns = ", ".join(f"{line.theirs['Flink SQL']} AS f{n}" for n, line in enumerate(lines))
    theirs = (
        f"SELECT 'theirs', plug, window_end, {columns} FROM TABLE(HOP(TABLE data, DESCRIPTOR(ts), "
        "INTERVAL '30' SECOND, INTERVAL '2' MINUTE)) GROUP BY plug, window_start, window_end"
    )
    ours = f"SELECT 'ours', plug, window_end, {', '.join(f'f{n}' for n in range(len(lines)))} FROM ours"
    found: dict[str, dict[tuple[str, datetime], list[Any]]] = {"theirs": {}, "ours": {}}
    with tables.execute_sql(f"{theirs} UNION ALL {ours}").collect() as rows:
        for whose, plug, end, *results in map(list, rows):
            found[whose.strip()][plug, end] = results
    assert found["ours"].keys() == found["theirs"].keys()
    assert len(found["ours"]) > 15
    for n, line in enumerate(lines):
        pairs = [(found["theirs"][window][n], found["ours"][window][n]) for window in found["ours"]]
        functions.compare(line, "Flink SQL", [a for a, _ in pairs], [b for _, b in pairs])


def test_example_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(tmp_path):
        runpy.run_path(str(DOCS / "examples" / "flink_job.py"), run_name="__main__")
    assert "196 windows" in capsys.readouterr().out
