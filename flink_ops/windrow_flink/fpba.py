"""FPBA: the parallel boundary aggregator as a Flink function, for streams that are keyed already."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import KeyedProcessFunction, RuntimeContext

from windrow.errors import QueryError
from windrow.query import Query
from windrow_flink.function import Plan, Windows, current_key, rows_out
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import schema_of, type_of
from windrow_flink.stream import kept_columns

LOG = 1 << 16
"""How many bytes of a key are logged before its operator writes its pages."""


class FPBA(KeyedProcessFunction):
    """``stream.key_by(…).process(FPBA(query, row_type), output_type=FPBA.output_type(query, row_type))``

    Sliding windows by the parallel boundary aggregator of the core: ``csa`` is computed in the slot's own thread, the ``lcs``
    of finished chunks by a pool of ``threads``, of which each slot has one; if they are small, a hand-over would cost more
    than it saves. ``row_type`` is the type of the stream's rows, or
    their ``pyarrow.Schema``. The query's keys (``by``) must be the same for all rows of a Flink key, so name the columns
    that the stream is keyed by. State is one operator per Flink key: for very many keys
    :func:`windrow_flink.windowed`, which groups them, is faster. In thread mode, ``.disable_chaining()`` the result.

    - Order: rows of one key by time, then arrival; disorder as far as the watermark allows.
    - Operator: any monoid. Combines per slide: fewer than 3 amortised, 3 worst, in the slot's own thread.
    - Paper: Zhang et al., *Parallel Boundary Aggregator*, sections 4 and 5.
    """

    def __init__(
        self, query: Query, row_type: TypeInformation | pa.Schema, *, threads: int | None = None
    ) -> None:
        if not isinstance(query, Query):
            raise QueryError(f"FPBA needs a windrow.Query, not {type(query).__name__}")
        if query.algorithm not in ("auto", "PBA"):
            raise QueryError(f"FPBA runs the algorithm 'PBA'; the query asks for {query.algorithm!r}")
        if query.late == "side":
            raise QueryError(
                "FPBA has no side output for late rows; use late='drop' or 'update', or windowed()"
            )
        schema = _schema(row_type)
        chosen = _with_pba(query)
        chosen.bind(schema)
        kept = kept_columns(chosen, schema)
        codec = RowCodec(kept, chosen.time, [schema.get_field_index(name) for name in kept.names])
        self._codec = codec
        self._windows = Windows(Plan(chosen, codec, rows_out, threads=threads, log=LOG))

    @staticmethod
    def output_type(query: Query, row_type: TypeInformation | pa.Schema) -> TypeInformation:
        """The type of the rows that come out."""
        return type_of(query.bind(_schema(row_type)).output_schema)

    def open(self, context: RuntimeContext) -> None:
        self._windows.open(context)

    def process_element(self, row: Any, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, time = current_key(context), self._codec.time_of(row)
        return self._windows.take(key, 1, time, self._codec.encode(0, row), context.timer_service())

    def close(self) -> None:
        self._windows.close()

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        return self._windows.on_timer(timestamp, context)


def _schema(row_type: TypeInformation | pa.Schema) -> pa.Schema:
    return row_type if isinstance(row_type, pa.Schema) else schema_of(row_type)


def _with_pba(query: Query) -> Query:
    if query.algorithm == "PBA" or query.late == "update":
        return query
    return Query(
        by=query.by,
        time=query.time,
        window=query.window,
        aggregates=query.aggregates,
        lateness=query.lateness,
        late=query.late,
        algorithm="PBA",
        early=query.early,
    )
