# SPDX-License-Identifier: Apache-2.0
"""SQL: ``SELECT * FROM windrow(TABLE(loads) PARTITION BY plug ORDER BY ts, query => '…')``.

The query is the JSON of :meth:`windrow.Query.to_json`. All rows of a key have to be in one partition, so ``PARTITION BY`` names
its keys, or some of them. For a query without keys write ``WITH SINGLE PARTITION``. The columns and types of the result are
known before the query runs. Spark gives a table function its rows one by one; :func:`windrow_spark.windowed` is faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.functions import udtf
from pyspark.sql.types import StringType, StructType, TimestampType
from pyspark.sql.udtf import AnalyzeArgument, AnalyzeResult

from windrow import Operator, Query
from windrow.errors import QueryError
from windrow.imports import Allow, allowed
from windrow_spark.schemas import fit_columns

CHUNK_ROWS = 1 << 14


@dataclass
class Analysis(AnalyzeResult):
    """What ``analyze`` finds before the query runs, handed to each instance of the table function."""

    query: str = ""
    columns: str = ""
    allow: tuple[str, ...] = ()


class Windrow:
    """The table function. Spark makes one per partition, calls ``eval`` for each row, and ``terminate`` at the end."""

    def __init__(self, analysis: Analysis) -> None:
        columns = StructType.fromJson(json.loads(analysis.columns))
        self.fitted = fit_columns(Query.from_json(analysis.query, allow=analysis.allow), columns)
        self.operator = Operator(self.fitted.query, self.fitted.schema)
        self.rows: list[Any] = []
        # Spark hands over timestamps as local times of this process; they are turned back into microseconds since 1970.
        self.instants = {field.name for field in columns if isinstance(field.dataType, TimestampType)}

    @staticmethod
    def analyze(rows: AnalyzeArgument, query: AnalyzeArgument) -> Analysis:
        return analysis_of(rows, query, ())

    def eval(self, rows: Any, query: str) -> None:
        self.rows.append(rows)
        if len(self.rows) == CHUNK_ROWS:
            self._take()

    def terminate(self) -> Iterator[tuple[Any, ...]]:
        self._take()
        for batch in self.operator.flush().to_batches(max_chunksize=CHUNK_ROWS):
            columns = [column.to_pylist() for column in batch.columns]
            yield from zip(*columns, strict=True)

    def _take(self) -> None:
        rows, self.rows = self.rows, []
        if rows:
            self.operator.process(
                pa.table(
                    [self._column(field, rows) for field in self.fitted.schema], schema=self.fitted.schema
                )
            )

    def _column(self, field: pa.Field, rows: list[Any]) -> pa.Array:
        values = [row[field.name] for row in rows]
        if field.name in self.instants:
            internal = TimestampType().toInternal
            return pa.array([internal(value) for value in values], pa.int64()).cast(field.type)
        return pa.array(values, field.type)


def analysis_of(rows: AnalyzeArgument, query: AnalyzeArgument, allow: tuple[str, ...]) -> Analysis:
    """The columns of the result. Called by Spark before the query runs."""
    if not rows.isTable or not isinstance(rows.dataType, StructType):
        raise QueryError(
            "windrow() takes a table first: windrow(TABLE(loads) PARTITION BY plug, query => '…')"
        )
    if query.isTable or not isinstance(query.dataType, StringType) or query.value is None:
        raise QueryError('windrow() takes the query as a JSON text: query => \'{"by": ["plug"], …}\'')
    text = str(query.value)
    fitted = fit_columns(Query.from_json(text, allow=allow), rows.dataType)
    return Analysis(schema=fitted.output, query=text, columns=rows.dataType.json(), allow=allow)


def register(spark: Any, name: str = "windrow", *, allow: Allow = ()) -> None:
    """Make the table function known to a session.

    The queries may name aggregates and policies in the modules of ``allow``, and in those modules only: whoever may
    write SQL in the session could import any other module on its workers.

    >>> register(spark, allow=["jobs.aggregates"])                                  # doctest: +SKIP
    """
    prefixes = allowed(allow)

    class Allowing(Windrow):
        @staticmethod
        def analyze(rows: AnalyzeArgument, query: AnalyzeArgument) -> Analysis:
            return analysis_of(rows, query, prefixes)

    spark.udtf.register(name, udtf(Allowing if prefixes else Windrow, useArrow=False))
