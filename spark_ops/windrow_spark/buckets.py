"""The stateful half of streaming: one operator per bucket of keys, its state in Spark's state store.

State variables of a bucket: ``mark`` (small: which commit this is, when to wake), ``header`` and ``pages`` (the operator's
pages). They are all that survives a task; the operators that a worker process keeps are a cache, used only if the
commit that they have seen last is the one that the state store has.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from windrow import Operator, Query
from windrow.errors import FingerprintMismatch
from windrow.kernels.compiling import compile_seconds
from windrow.state.pages import HEADER
from windrow_spark.packing import from_bytes, to_bytes

FINISHED = "windows binary, late binary, emitted long, late_rows long, pages long, written long, compile_seconds double"
MARK, HEADER_STATE, PAGES_STATE = "mark", "header", "pages"
MARK_SCHEMA = "token binary, wake long, buckets int"
CACHED_BUCKETS = 64


class StatePages:
    """The operator's pages in the state variables of the current bucket."""

    def __init__(self) -> None:
        self.header: Any = None
        self.pages: Any = None
        self.written = 0
        """How many pages were written so far."""

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            if name == HEADER:
                if self.header.exists():
                    found[name] = bytes(self.header.get()[0])
            elif (page := self.pages.getValue((name,))) is not None:
                found[name] = bytes(page[0])
        return found

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self.written += len(put)
        for name, page in put.items():
            if name == HEADER:
                self.header.update((page,))
            else:
                self.pages.updateValue((name,), (page,))
        for name in delete:
            self.pages.removeKey((name,))


_CACHE: OrderedDict[tuple[str, int], tuple[bytes, Operator, StatePages]] = OrderedDict()


class Buckets(StatefulProcessor):
    """Feeds each bucket's operator with rows and watermarks.

    Spark calls ``handleInputRows`` for every bucket that has rows in a micro-batch, then ``handleExpiredTimer`` for every
    bucket whose timer the watermark has passed, so windows of idle keys are finished too. The watermark is that of the
    micro-batch, known before its rows are read, and the same if the micro-batch is run again.
    """

    def __init__(self, query: Query, schema: pa.Schema, buckets: int, *, partials: bool = False) -> None:
        self.query, self.schema, self.buckets, self.partials = query, schema, buckets, partials

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.mark = handle.getValueState(MARK, MARK_SCHEMA)
        self.header = handle.getValueState(HEADER_STATE, "page binary")
        self.pages = handle.getMapState(PAGES_STATE, "name string", "page binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        pieces = sorted((row.number, row.rows) for row in rows)
        tables = [from_bytes(packed) for _, packed in pieces]
        yield from self._step(int(key[0]), pa.concat_tables(tables), timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._step(int(key[0]), None, timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        pass

    def _step(self, bucket: int, rows: pa.Table | None, watermark: int) -> Iterator[Row]:
        mark = self.mark.get() if self.mark.exists() else None
        compiled_before = compile_seconds()
        operator, pages = self._operator(bucket, mark)
        late_before, pages_before = operator.late_rows, pages.written
        found = list(self._fed(operator, rows, watermark * 1000))
        late = operator.late() if self.query.late == "side" else None
        nothing = self.query.bind(self.schema).output_schema.empty_table()
        windows = pa.concat_tables([table for table in found if table.num_rows] or [nothing])
        written = operator.commit()
        token = os.urandom(8)
        wake = self._wake_at(operator.wake, None if mark is None else mark[1], fired=rows is None)
        self.mark.update((token, wake, self.buckets))
        self._keep(bucket, token, operator, pages)
        late_rows = operator.late_rows - late_before
        yield Row(
            windows=to_bytes(windows) if windows.num_rows else None,
            late=to_bytes(late) if late is not None and late.num_rows else None,
            emitted=windows.num_rows,
            late_rows=late_rows,
            pages=pages.written - pages_before,
            written=written,
            compile_seconds=compile_seconds() - compiled_before,
        )

    def _fed(self, operator: Operator, rows: pa.Table | None, watermark: int) -> Iterator[pa.Table]:
        """The operator with new rows and the watermark. A watermark of zero is Spark's word for none."""
        if self.partials:  # slices that the watermark has just finished: they are older than it
            if rows is not None:
                yield operator.process_partials(rows)
            if watermark > 0:
                yield operator.advance(watermark)
            return
        if watermark > 0:
            yield operator.advance(watermark)
        if rows is not None:
            yield operator.process(rows)
            if watermark > 0:  # what late rows within the lateness have finished
                yield operator.advance(watermark)

    def _operator(self, bucket: int, mark: Any) -> tuple[Operator, StatePages]:
        known = _CACHE.pop((self.query.fingerprint, bucket), None)
        if mark is not None and mark[2] != self.buckets:
            raise FingerprintMismatch(
                f"the checkpoint was written with buckets={mark[2]}, this query has buckets={self.buckets}; "
                "start it with the same number, or with a new checkpoint"
            )
        if known is not None and mark is not None and known[0] == bytes(mark[0]):
            _, operator, pages = known
            pages.header, pages.pages = self.header, self.pages
            return operator, pages
        pages = StatePages()
        pages.header, pages.pages = self.header, self.pages
        return Operator.open(self.query, self.schema, pages), pages

    def _keep(self, bucket: int, token: bytes, operator: Operator, pages: StatePages) -> None:
        pages.header = pages.pages = None
        _CACHE[self.query.fingerprint, bucket] = token, operator, pages
        while len(_CACHE) > CACHED_BUCKETS:
            _CACHE.popitem(last=False)

    def _wake_at(self, due: int | None, set_before: int | None, *, fired: bool) -> int | None:
        """Set the bucket's one timer to the millisecond at which a window is due; Spark has no watermark before 1970."""
        wake = None if due is None else max(-(-due // 1000), 1)
        if fired:
            set_before = None
        if wake != set_before:
            if set_before is not None:
                self.handle.deleteTimer(set_before)
            if wake is not None:
                self.handle.registerTimer(wake)
        return wake
