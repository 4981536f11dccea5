"""The `windrow` command: see a window slide, run a query over a file, ask why, and check a machine.

    windrow demo                                   a sliding window over bundled data
    windrow run query.json --input rows.parquet    a query of your own over a file
    windrow explain query.json                     the chosen algorithm, and why
    windrow doctor                                 is this machine ready, and what to do if not

An error that a user can cause is printed as one message, and the command exits with code 2.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(main, ["version"]).output.split()[0]
'windrow'
"""

from __future__ import annotations

import importlib
import json
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.query import Query

__all__ = ["main"]

DEMO_EDGE = 9  # rows shown at either end of a long result: three windows of three plugs


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Sliding-window aggregation: in this process, on PySpark and on PyFlink."""


@main.command()
@click.option(
    "--save",
    type=click.Path(file_okay=False, path_type=Path),
    help="Also write the data (plugs.csv) and the query (query.json) to this folder.",
)
def demo(save: Path | None) -> None:
    """Slide a window over bundled data: three smart plugs, half an hour."""
    import windrow as wr
    from windrow.data import plugs

    console = Console(highlight=False)
    with refusals():
        rows = plugs()
        query = wr.Query(
            by=["plug"],
            time="ts",
            window=wr.TimeWindow(range="5m", slide="1m"),
            aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
        )
        started = perf_counter()
        with console.status("The first run on a machine compiles, which takes a while"):
            windows = wr.aggregate(rows, query)
        seconds = perf_counter() - started
    if save is not None:
        keep(query, save)

    show(console, windows, title="Load in watts per plug: 5-minute windows that slide by 1 minute")
    compiled = " (a first run compiles)" if seconds > 2 else ""
    console.print(
        f"\n[bold]{rows.num_rows}[/] readings became [bold]{windows.num_rows}[/] windows "
        f"in {seconds:.2f} s{compiled}: highest load (peak), mean load (mean) and number of readings (n) "
        "of every plug, every minute, over the five minutes before. The first and the last windows reach "
        "beyond the data, so they hold fewer readings.\n"
    )
    folder = "demo" if save is None else str(save)
    steps = [
        (f"windrow demo --save {folder}", "keep this data and this query"),
        (
            f"windrow run {folder}/query.json --input {folder}/plugs.csv --output peaks.csv",
            "the same, on files",
        ),
        (f"windrow explain {folder}/query.json", "how it is computed, and why"),
        ("windrow doctor", "is this machine ready for Spark or Flink?"),
    ]
    console.print("[bold]Next[/]")
    for command, purpose in steps if save is None else steps[1:]:
        console.print(f"  [cyan]{escape(command)}[/]\n      {purpose}", soft_wrap=True)


@main.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input",
    "input_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The rows: a .parquet, .csv, .jsonl or .arrow file.",
)
@click.option(
    "--output",
    "output_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the windows go, by ending as for --input. Without it they are shown.",
)
def run(query_file: Path, input_file: Path, output_file: Path | None) -> None:
    """Compute QUERY (a .json or .toml file) over the rows of a file."""
    import windrow as wr

    with refusals():
        query = read_query(query_file)
        if output_file:
            file_format(output_file)  # an ending that is not known is refused before any work is done
        rows = read_rows(input_file)
        windows = wr.aggregate(rows, query)
    console = Console(highlight=False)
    if output_file:
        write_windows(windows, output_file)
    else:
        show(console, windows)
    where = f" in {output_file}" if output_file else ""
    console.print(f"{rows.num_rows} rows → {windows.num_rows} windows{escape(where)}", soft_wrap=True)


@main.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def explain(query_file: Path) -> None:
    """Say how QUERY (a .json or .toml file) would be computed, and why."""
    import windrow as wr

    with refusals():
        query = read_query(query_file)
        click.echo(str(wr.explain(query)))


@main.command()
def doctor() -> None:
    """Check this machine; exit with 1 if windrow cannot work on it."""
    from windrow.doctor import examine

    console = Console(highlight=False)
    signs = {
        "ok": "[green]ok[/]",
        "missing": "[yellow]–[/]",
        "warning": "[yellow]warning[/]",
        "bad": "[red]bad[/]",
    }
    findings = examine()
    table = Table("", "what", Column("found", overflow="fold"), "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(signs[finding.state], finding.what, escape(finding.found), escape(finding.advice))
    console.print(table)
    if any(finding.state == "bad" for finding in findings):
        console.print("\nwindrow cannot work here until the lines marked [red]bad[/] are put right.")
        sys.exit(1)
    console.print("\nwindrow works on this machine; what is marked [yellow]–[/] is optional.")


@main.command()
def version() -> None:
    """Print the versions of windrow and of what it stands on."""
    import windrow as wr

    parts = [f"Python {sys.version.split()[0]}"]
    parts += [f"{name} {importlib.import_module(name).__version__}" for name in ("numpy", "numba", "pyarrow")]
    click.echo(f"windrow {wr.__version__} ({', '.join(parts)})")


class Refusal(click.ClickException):
    """One friendly message on standard error, and exit code 2."""

    exit_code = 2


@contextmanager
def refusals() -> Iterator[None]:
    """Turns an error of windrow inside the block into a `Refusal`."""
    from windrow.errors import WindrowError

    try:
        yield
    except WindrowError as error:
        raise Refusal(str(error)) from error


def read_query(path: Path) -> Query:
    """The query in a JSON file, or in a TOML file with the same keys."""
    from windrow.query import Query

    parse = {".json": json.loads, ".toml": tomllib.loads}.get(path.suffix.lower())
    if parse is None:
        raise Refusal(f"{path}: a query is read from a .json or a .toml file")
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except ValueError as error:  # both parsers' errors, and text that is not UTF-8
        raise Refusal(f"{path} is not valid {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(document, dict):
        raise Refusal(f"{path}: expected an object with the keys of a query: 'window', 'aggregates', …")
    return Query.from_dict(document)


def keep(query: Query, folder: Path) -> None:
    """Writes the bundled data and a query to a folder, to go on from."""
    from windrow.data import plugs_csv

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "plugs.csv").write_bytes(plugs_csv())
        (folder / "query.json").write_text(query.to_json() + "\n", encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{folder} cannot be written: {error}") from error


FORMATS = {
    ".parquet": "Parquet",
    ".csv": "CSV",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".arrow": "Arrow",
    ".feather": "Arrow",
}


def file_format(path: Path) -> str:
    """The format that the ending of a file's name tells."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise Refusal(f"{path}: the ending tells the format; use one of {', '.join(FORMATS)}") from None


def read_rows(path: Path) -> pa.Table:
    """The table in a file."""
    import pyarrow as pa
    from pyarrow import csv, json, parquet

    form = file_format(path)
    try:
        match form:
            case "Parquet":
                return parquet.read_table(path, partitioning=None)
            case "CSV":
                return csv.read_csv(path)
            case "JSON lines":
                return json.read_json(path)
            case _:
                return read_arrow(path)
    except (pa.ArrowException, OSError) as error:
        raise Refusal(f"{path} cannot be read as {form}: {error}") from error


def read_arrow(path: Path) -> pa.Table:
    """The table in an Arrow file, of the file format or the stream format."""
    import pyarrow as pa

    with pa.OSFile(str(path)) as source:
        try:
            return pa.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pa.ipc.open_stream(source).read_all()


def write_windows(windows: pa.Table, path: Path) -> None:
    """Writes a table to a file, in the format of its ending."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    form = file_format(path)
    try:
        match form:
            case "Parquet":
                parquet.write_table(windows, path)
            case "CSV":
                csv.write_csv(windows, path)
            case "JSON lines":
                with path.open("w", encoding="utf-8") as file:
                    file.writelines(json.dumps(row, default=plain) + "\n" for row in windows.to_pylist())
            case _:
                with pa.ipc.new_file(str(path), windows.schema) as sink:
                    sink.write_table(windows)
    except (pa.ArrowException, OSError) as error:
        raise Refusal(f"{path} cannot be written as {form}: {error}") from error


def plain(value: Any) -> Any:
    """A value as JSON can hold it: times in ISO form, bytes in hexadecimal, anything else as its text."""
    if isinstance(value, bytes):
        return value.hex()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def show(console: Console, table: pa.Table, title: str | None = None) -> None:
    """Prints a table; of a long one, both ends."""
    import pyarrow as pa

    shown = Table(title=title, title_justify="left")
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        shown.add_column(field.name, justify="right" if number else "left", no_wrap=True)
    short = table.num_rows <= 2 * DEMO_EDGE
    for row in table.slice(0, table.num_rows if short else DEMO_EDGE).to_pylist():
        shown.add_row(*map(cell, row.values()))
    if not short:
        shown.add_row(*["⋮"] * table.num_columns)
        for row in table.slice(table.num_rows - DEMO_EDGE).to_pylist():
            shown.add_row(*map(cell, row.values()))
    console.print(shown)


def cell(value: Any) -> str:
    """One value as a person reads it."""
    if value is None:
        return "[dim]null[/]"
    if isinstance(value, float):
        return f"{value:.2f}" if value == 0 or 0.01 <= abs(value) < 1e9 else f"{value:.3g}"
    return escape(str(value))
