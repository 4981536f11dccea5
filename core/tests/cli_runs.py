"""The `windrow` command in this process, and the files that its tests run it over."""

from pathlib import Path

import pyarrow as pa
from click.testing import CliRunner, Result

import windrow as wr
from windrow import data
from windrow.cli import main
from windrow.cli.files import Writer, open_rows

TOML = """
by = ["plug"]
time = "ts"

[window]
kind = "time"
range = "5m"
slide = "1m"

[aggregates]
peak = "Max(load)"
mean = { kind = "Mean", column = "load" }
n = "Count()"
"""


def windrow(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=stdin, catch_exceptions=False)


def expected() -> pa.Table:
    query = wr.Query(
        by=["plug"],
        time="ts",
        window=wr.TimeWindow(range="5m", slide="1m"),
        aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
    )
    return wr.aggregate(data.plugs(), query)


def read(path: Path) -> pa.Table:
    rows = open_rows(str(path))
    return pa.Table.from_batches(rows, rows.schema)


def write(table: pa.Table, path: Path) -> None:
    with Writer(str(path), table.schema) as out:
        out.write(table)


def same_values(found: pa.Table) -> bool:
    assert found.column_names == expected().column_names
    return all(
        found[name].to_pylist() == expected()[name].to_pylist() for name in ("plug", "peak", "mean", "n")
    )


# Demo.


COUNT = """
[window]
kind = "time"
range = "10us"

[aggregates]
n = "Count()"
"""


def refused(query: Path, *arguments: object) -> str:
    """The message of a run that has to be refused."""
    result = windrow("run", query, *arguments)
    assert result.exit_code == 2 and "Traceback" not in result.output, result.output
    return " ".join(result.output.split())
