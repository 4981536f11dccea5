# SPDX-License-Identifier: Apache-2.0
"""Windows into a table of PostgreSQL, where corrections replace what they correct.

A query with ``late="update"`` emits a window again when a late row changes it, and withdraws windows that a late row
moves. :class:`PostgresTable` applies that: a row per window, inserted, replaced or deleted. Writing the same windows
twice changes nothing, so a job that is restarted and repeats its last batch leaves the table right. It works with any
connection of the DB-API that has the parameter style ``%s``, such as psycopg's.

>>> import windrow as wr
>>> query = wr.Query("plug", window=wr.TimeWindow("1h"), aggregates={"peak": wr.Max("load")}, late="update")
>>> import pyarrow as pa
>>> schema = pa.schema({"plug": pa.string(), "ts": pa.timestamp("us", "UTC"), "load": pa.float64()})
>>> print(PostgresTable("peaks", query, schema).create_sql)
CREATE TABLE IF NOT EXISTS "peaks" ("plug" text, "window_start" timestamptz, "window_end" timestamptz, "peak" double precision, \
UNIQUE NULLS NOT DISTINCT ("plug", "window_start", "window_end"))
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import Any

import pyarrow as pa

from windrow.errors import ColumnError, QueryError
from windrow.query.query import Query

__all__ = ["PostgresTable"]

BATCHES = "windrow_batches"
"""The table that remembers the last batch of each target, so that a repeated one is left out."""
ROWS = 1000
"""How many windows a statement has at most."""
_TYPES = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.uint8(): "smallint",
    pa.uint16(): "integer",
    pa.uint32(): "bigint",
    pa.uint64(): "numeric",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.large_string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
}


class PostgresTable:
    """A table with a row for each window of a query over rows of a schema.

    The columns are those of the result, without ``emission``. Keys and bounds identify a window.
    """

    def __init__(self, name: str, query: Query, schema: pa.Schema) -> None:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", name):
            raise QueryError(
                f"the name of a table has to be letters, digits and _, such as 'windows' or 'public.windows', not {name!r}"
            )
        output = query.bind(schema).output_schema
        if wrong := [each for each in output.names if "%" in each]:
            raise ColumnError(f"column {wrong[0]!r} contains a %, which the DB-API does not allow; rename it")
        self.name = name
        self.fields = [field for field in output if field.name != "emission"]
        bounds = ["window_start", "window_end"]
        self.identity = [*query.by, *(["window"] if query.labelled else []), *bounds]
        self.results = [field.name for field in self.fields if field.name not in self.identity]

    @property
    def create_sql(self) -> str:
        """The statement that makes the table. Needs PostgreSQL 15, where null keys are equal."""
        columns = [f"{_quoted(field.name)} {_sql_type(field)}" for field in self.fields]
        unique = f"UNIQUE NULLS NOT DISTINCT ({', '.join(map(_quoted, self.identity))})"
        return f"CREATE TABLE IF NOT EXISTS {_path(self.name)} ({', '.join([*columns, unique])})"

    def create(self, connection: Any) -> None:
        """Make the table, and the one that remembers batches, if they are not there."""
        with closing(connection.cursor()) as cursor:
            cursor.execute(self.create_sql)
            cursor.execute(
                f"CREATE TABLE IF NOT EXISTS {BATCHES} (target text, stream text, batch bigint, PRIMARY KEY (target, stream))"
            )
        connection.commit()

    def write(self, connection: Any, windows: Any, *, batch: int | None = None, stream: str = "") -> int:
        """Apply emitted windows in one transaction; returns how many were applied.

        ``windows`` is what an operator, a micro-batch or a job emitted, in that order. With the number of a ``batch`` that grows,
        as in Spark's ``foreachBatch``, a batch that was applied before is left out. ``stream`` names what the numbers belong to:
        several writers of a table, and a job with a new checkpoint, whose numbers begin again, need different names.
        """
        table = pa.table(windows)
        try:
            with closing(connection.cursor()) as cursor:
                applied = 0 if self._repeated(cursor, batch, stream) else self._apply(cursor, table)
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        return applied

    def _repeated(self, cursor: Any, batch: int | None, stream: str) -> bool:
        if batch is None:
            return False
        cursor.execute(
            f"INSERT INTO {BATCHES} AS known VALUES (%s, %s, %s) ON CONFLICT (target, stream) DO UPDATE "
            f"SET batch = excluded.batch WHERE known.batch < excluded.batch",
            (self.name, stream, batch),
        )
        return bool(cursor.rowcount == 0)

    def _apply(self, cursor: Any, table: pa.Table) -> int:
        """Runs of windows that are written, and of windows that are withdrawn, in their order."""
        names = [field.name for field in self.fields]
        kinds = (
            table.column("emission").to_pylist()
            if "emission" in table.column_names
            else ["final"] * table.num_rows
        )
        rows = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
        begin = 0
        for end in range(1, len(rows) + 1):
            if end == len(rows) or (kinds[end] == "withdrawn") != (kinds[begin] == "withdrawn"):
                (self._delete if kinds[begin] == "withdrawn" else self._upsert)(cursor, rows[begin:end])
                begin = end
        return len(rows)

    def _upsert(self, cursor: Any, rows: list[tuple[Any, ...]]) -> None:
        latest = {
            tuple(row[self._at(name)] for name in self.identity): row for row in rows
        }  # the last one counts
        columns = ", ".join(_quoted(field.name) for field in self.fields)
        changed = ", ".join(f"{_quoted(name)} = excluded.{_quoted(name)}" for name in self.results)
        conflict = f"ON CONFLICT ({', '.join(map(_quoted, self.identity))}) DO UPDATE SET {changed}"
        values = list(latest.values())
        for begin in range(0, len(values), ROWS):
            some = values[begin : begin + ROWS]
            cell = "(" + ", ".join(["%s"] * len(self.fields)) + ")"
            statement = f"INSERT INTO {_path(self.name)} ({columns}) VALUES {', '.join([cell] * len(some))} {conflict}"
            cursor.execute(statement, [value for row in some for value in row])

    def _delete(self, cursor: Any, rows: list[tuple[Any, ...]]) -> None:
        condition = " AND ".join(f"{_quoted(name)} IS NOT DISTINCT FROM %s" for name in self.identity)
        for row in rows:
            cursor.execute(
                f"DELETE FROM {_path(self.name)} WHERE {condition}",
                [row[self._at(name)] for name in self.identity],
            )

    def _at(self, name: str) -> int:
        return [field.name for field in self.fields].index(name)


def _sql_type(field: pa.Field) -> str:
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_timestamp(type_):
        return "timestamptz" if type_.tz else "timestamp"
    if pa.types.is_decimal(type_):
        return f"numeric({type_.precision}, {type_.scale})"
    if pa.types.is_list(type_):
        return f"{_sql_type(pa.field(field.name, type_.value_type))}[]"
    found = _TYPES.get(type_)
    if found is None:
        raise ColumnError(
            f"column {field.name!r} is a {field.type}, which has no type in PostgreSQL; leave it out or cast it"
        )
    return found


def _path(name: str) -> str:
    return ".".join(map(_quoted, name.split(".")))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
