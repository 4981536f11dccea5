# SPDX-License-Identifier: Apache-2.0
"""`windrow explain`."""

from __future__ import annotations

from pathlib import Path

import click

from windrow.cli.refusals import refusals


@click.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input", "source", help="Data that gives the column types: a file, a folder, or - for standard input."
)
@click.option(
    "--format", "form", type=click.Choice(["parquet", "csv", "jsonl", "arrow"]), help="The format of --input."
)
@click.option(
    "--allow",
    multiple=True,
    metavar="MODULE",
    help="A module or package that QUERY may import, for aggregates and policies of your own; may be repeated.",
)
def explain(query_file: Path, source: str | None, form: str | None, allow: tuple[str, ...]) -> None:
    """Print how a query is computed, and why.

    QUERY is a .toml or .json file.
    """
    import windrow as wr
    from windrow.cli.binding import bind_rows
    from windrow.cli.files import open_rows
    from windrow.cli.queries import read_query

    with refusals():
        query = read_query(query_file, allow)
        rows = None if source is None else open_rows(source, form)
        if rows is not None:
            bind_rows(query, rows)
        click.echo(str(wr.explain(query, None if rows is None else rows.schema)))
