"""SQL: ``SELECT * FROM windrow(TABLE(loads) PARTITION BY plug ORDER BY ts, query => '…')``.

The query is the JSON of :meth:`windrow.Query.to_json`. All rows of a key have to be in one partition, so its keys (or some of
them) are the columns after ``PARTITION BY``; for a query without keys write ``WITH SINGLE PARTITION``. The columns and types of
the answer are known before the query runs. Spark gives a table function its rows one by one: for speed use
:func:`windrow_spark.windowed`.
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
from windrow_spark.schemas import plan_of

CHUNK_ROWS = 1 << 14


@dataclass
class Analysis(AnalyzeResult):
    """What is known before the query runs, for those who run it."""

    query: str = ""
    columns: str = ""


class Windrow:
    """The table function. Spark makes one per partition, gives it all rows, and asks for the answer at the end."""

    def __init__(self, analysis: Analysis) -> None:
        columns = StructType.fromJson(json.loads(analysis.columns))
        self.plan = plan_of(Query.from_json(analysis.query), columns)
        self.operator = Operator(self.plan.query, self.plan.schema)
        self.rows: list[Any] = []
        # Spark hands over timestamps as local times of this process; their microseconds are what was meant.
        self.instants = {field.name for field in columns if isinstance(field.dataType, TimestampType)}

    @staticmethod
    def analyze(rows: AnalyzeArgument, query: AnalyzeArgument) -> Analysis:
        if not rows.isTable or not isinstance(rows.dataType, StructType):
            raise QueryError(
                "windrow() takes a table first: windrow(TABLE(loads) PARTITION BY plug, query => '…')"
            )
        if query.isTable or not isinstance(query.dataType, StringType) or query.value is None:
            raise QueryError('windrow() takes the query as a JSON text: query => \'{"by": ["plug"], …}\'')
        text = str(query.value)
        planned = plan_of(Query.from_json(text), rows.dataType)
        return Analysis(schema=planned.output, query=text, columns=rows.dataType.json())

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
                pa.table([self._column(field, rows) for field in self.plan.schema], schema=self.plan.schema)
            )

    def _column(self, field: pa.Field, rows: list[Any]) -> pa.Array:
        values = [row[field.name] for row in rows]
        if field.name in self.instants:
            internal = TimestampType().toInternal
            return pa.array([internal(value) for value in values], pa.int64()).cast(field.type)
        return pa.array(values, field.type)


def register(spark: Any, name: str = "windrow") -> None:
    """Make the table function known to a session.

    >>> register(spark)                                                             # doctest: +SKIP
    """
    spark.udtf.register(name, udtf(Windrow, useArrow=False))
