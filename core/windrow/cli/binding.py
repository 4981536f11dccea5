# SPDX-License-Identifier: Apache-2.0
"""A query bound to the rows of a file. If a column is text because of a value, the message names that value."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from windrow.cli.csv_rows import NULL, OddValue
from windrow.cli.files import STANDARD, RowSource
from windrow.cli.refusals import Refusal
from windrow.errors import WindrowError
from windrow.query.bound import BoundQuery
from windrow.query.query import Query
from windrow.query.slicing import columns_sent

__all__ = ["bind_rows", "refuse_null_times"]


def bind_rows(query: Query, rows: RowSource) -> BoundQuery:
    """The query for the columns of these rows.

    If the query would accept them without an odd value in a text column, it is refused because of that value. If it accepts
    them with it, as for a key, and one value in ten or fewer is odd, there is a warning.
    """
    names = [name for name in columns_sent(query, rows.schema.names) if name in rows.schema.names]
    odd = [found for found in map(rows.odd, names) if found is not None]
    try:
        bound = query.bind(rows.schema)
    except WindrowError:
        reason = _reason(query, rows.schema, odd)
        if reason is None:
            raise
        raise Refusal(f"{reason} {_advice(query, reason)}") from None
    for each in odd:
        if 10 * each.odd <= each.total:
            click.echo(f"Warning: {each} {_advice(query, each)}", err=True)
    return bound


def refuse_null_times(query: Query, source: str, rows: RowSource, table: pa.Table, before: int) -> None:
    """Refuse a table in which a row has no time. So many rows of the source came before it."""
    times = table.column(query.time)
    if times.null_count:
        row = before + pc.index(times.is_null(), True).as_py() + 1
        place = rows.null(query.time) or f"{'standard input' if source == STANDARD else source}, row {row:,}"
        raise Refusal(
            f"{place}: {query.time!r} has no value, and every row needs a time; give it one, or remove the row"
        )


def _advice(query: Query, odd: OddValue) -> str:
    if odd.column == query.time:
        return "Correct the line, or remove it"
    return f"Correct it, {NULL}"


def _reason(query: Query, schema: pa.Schema, odd: list[OddValue]) -> OddValue | None:
    """The first odd value without which the query would fit; all the others are taken to be corrected too."""
    for each in odd:
        position = schema.get_field_index(each.column)
        schema = schema.set(position, schema.field(position).with_type(each.type))
        try:
            query.bind(schema)
        except WindrowError:
            continue
        return each
    return None
