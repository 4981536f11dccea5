# SPDX-License-Identifier: Apache-2.0
"""FPBA: the parallel boundary aggregator as a Flink function, for streams that are keyed already."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyflink.common.typeinfo import TypeInformation
from pyflink.datastream import DataStream, KeyedProcessFunction, RuntimeContext

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.durations import Duration
from windrow.errors import QueryError
from windrow.query.query import Query
from windrow_flink.function import WindowFunction, Wiring, current_key, rows_out
from windrow_flink.inputs import kept_columns
from windrow_flink.rowcodec import RowCodec
from windrow_flink.rowtypes import schema_of, type_of
from windrow_flink.stream import StreamOptions, windows_of

LOG = 1 << 16
"""How many bytes of a key are logged before its operator writes its pages."""


class FPBA(KeyedProcessFunction):
    """``stream.key_by(…).process(FPBA(query, row_type), output_type=FPBA.output_type(query, row_type))``

    Sliding windows by the parallel boundary aggregator of the core. ``csa`` is computed in the slot's own thread. The
    ``lcs`` of finished chunks is computed by a pool of ``threads``, one pool for each slot. Small chunks are not handed
    over, because that would cost more than it saves. ``row_type`` is the type of the stream's rows, or their
    ``pyarrow.Schema``. The query's keys (``by``) must be the same for all rows of a Flink key, so name the columns that
    the stream is keyed by. State is one operator per Flink key, and rows cross into Python one by one. :meth:`over` gathers
    them, which saves these crossings. In thread mode, ``.disable_chaining()`` the result of ``process``.

    - Order: rows of one key by time, then arrival; disorder as far as the watermark allows.
    - Operator: any monoid. Combines per slide: fewer than 3 amortised, 3 worst, in the slot's own thread.
    - Paper: Zhang et al., *Parallel Boundary Aggregator*, sections 4 and 5.
    """

    def __init__(
        self, query: Query, row_type: TypeInformation | pa.Schema, *, threads: int | None = None
    ) -> None:
        _check(query)
        if query.late == "side":
            raise QueryError(
                "FPBA in process() has no side output for late rows; use late='drop' or 'update', or FPBA.over()"
            )
        schema = _schema(row_type)
        parallel = _with_pba(query)
        parallel.bind(schema)
        kept = kept_columns(parallel, schema)
        codec = RowCodec(
            kept, parallel.time, [schema.get_field_index(name) for name in kept.names], parallel.time_unit
        )
        self._codec = codec
        self._windows = WindowFunction(Wiring(parallel, codec, rows_out, threads=threads, log=LOG))

    @staticmethod
    def output_type(query: Query, row_type: TypeInformation | pa.Schema) -> TypeInformation:
        """The type of the rows that come out."""
        return type_of(query.bind(_schema(row_type)).output_schema)

    @staticmethod
    def over(
        stream: DataStream,
        query: Query,
        *,
        disorder: Duration | None = None,
        buckets: int | None = None,
        ttl: Duration | None = None,
        threads: int | None = None,
        uid: str = "windrow-fpba",
    ) -> DataStream:
        """The same windows of a stream that is not keyed yet.

        The JVM gathers rows by the query's own keys, and they cross into Python together, as those of
        :func:`windrow_flink.windowed` do, whose arguments the others are. That saves the crossings of a Python ``key_by``
        and of a ``process`` row by row. Late rows may go to a side output (``late="side"``).
        """
        _check(query)
        return windows_of(
            stream, _with_pba(query), StreamOptions(disorder, buckets, ttl, None, uid, threads=threads)
        )

    def open(self, context: RuntimeContext) -> None:
        self._windows.open(context)

    def process_element(self, row: Any, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        key, time = current_key(context), self._codec.time_of(row)
        return self._windows.take(key, 1, time, self._codec.encode(0, row), context.timer_service())

    def close(self) -> None:
        self._windows.close()

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        return self._windows.on_timer(timestamp, context)


def _check(query: Query) -> None:
    if not isinstance(query, Query):
        raise QueryError(f"FPBA needs a windrow.Query, not {type(query).__name__}")
    if query.algorithm not in ("auto", "PBA"):
        raise QueryError(f"FPBA runs the algorithm 'PBA'; the query asks for {query.algorithm!r}")


def _schema(row_type: TypeInformation | pa.Schema) -> pa.Schema:
    return row_type if isinstance(row_type, pa.Schema) else schema_of(row_type)


def _with_pba(query: Query) -> Query:
    if query.algorithm == "PBA" or query.late == "update":
        return query
    return replace(query, algorithm="PBA")
