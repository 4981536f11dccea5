# SPDX-License-Identifier: Apache-2.0
"""`windrow warm`: compile what a query needs before its first row comes."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import click

from windrow.cli.refusals import refusals

if TYPE_CHECKING:
    import pyarrow as pa

    from windrow.cli.files import RowSource
    from windrow.query.query import Query

ROWS = 1 << 14
"""So many rows are enough for every kernel, also those for many rows of few keys."""


@click.command()
@click.argument("query_file", metavar="QUERY", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--input",
    "source",
    required=True,
    help="Rows with the column types of the real ones: a file, or a folder.",
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
def warm(query_file: Path, source: str, form: str | None, allow: tuple[str, ...]) -> None:
    """Compile the kernels of a query, so that the first batch of a job does not wait.

    Runs the query over a few rows of --input and keeps no result. Compiled kernels are cached on disk: run this where
    the job will run, as the same user, or while its image is built.
    """
    from rich.console import Console

    from windrow.cli.binding import bind_rows
    from windrow.cli.files import open_rows
    from windrow.cli.job import Progress
    from windrow.cli.queries import read_query
    from windrow.kernels.compiling import compile_seconds, compiled_kernels, telling

    with refusals():
        query = read_query(query_file, allow)
        rows = open_rows(source, form)
        bind_rows(query, rows)
        began = perf_counter()
        messages = Console(stderr=True, highlight=False)
        with Progress(messages, announced="") as progress, telling(progress.compiling):
            run_once(query, _some(rows))
    click.echo(
        f"{compiled_kernels()} kernels compiled in {compile_seconds():.1f} s; the query is ready after {perf_counter() - began:.1f} s"
    )


def run_once(query: Query, rows: pa.Table) -> None:
    """Take rows through everything that a job does: in memory and in a store, watermarks, a restart, the end."""
    from windrow.operator.operator import Operator
    from windrow.storage.pages import MemoryPages

    whole = Operator(query, rows.schema)
    whole.process(rows)
    Operator.restore(query, whole.snapshot()).flush()
    whole.flush()
    stored = Operator.open(query, rows.schema, MemoryPages())
    for begin in range(0, rows.num_rows, max(rows.num_rows // 4, 1)):
        stored.process(rows.slice(begin, rows.num_rows // 4 or 1))
        if rows.num_rows:
            stored.advance(int(query.bind(rows.schema).times(rows).min()))
        stored.commit()
    stored.flush()


def _some(rows: RowSource) -> pa.Table:
    import pyarrow as pa

    for batch in rows:
        return pa.Table.from_batches([batch.slice(0, ROWS)], rows.schema)
    return rows.schema.empty_table()
