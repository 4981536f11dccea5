# SPDX-License-Identifier: Apache-2.0
"""The stateful half of streaming: what Spark calls for each bucket, and the bucket's state variables.

A bucket is a group of keys of a query, or a space of pipelines. Its state is a ``mark`` (small: which commit this is, when to
wake), and a ``header`` and ``pages`` (the pages of its state, in segments: every call of Spark's state store goes through a
socket). Those of keys are three state variables. Those of a space are entries of one, because every task of every micro-batch
makes encoders for each variable. A space whose checkpoint has three goes on with them.

Spark also loads the processor on the driver, only to learn its state variables. So this module does not import windrow. What
a worker does with a bucket is pickled apart, and unpickled where rows come.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Protocol

from pyspark import cloudpickle
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

FINISHED = (
    "windows binary, late binary, emitted long, late_rows long, pages long, written long, compile_seconds double, "
    "cold_keys long, freezes long, thaws long"
)
MARK, HEADER_STATE, PAGES_STATE = "mark", "header", "pages"
# Not as text: every task of every micro-batch would have Spark parse each of them, twice.
MARK_SCHEMA = StructType().add("token", BinaryType()).add("wake", LongType()).add("buckets", IntegerType())
TOKEN = 8
"""Bytes of a token: see :mod:`windrow_spark.worker_cache`."""
PAGE, PAGE_NAME = StructType().add("page", BinaryType()), StructType().add("name", StringType())


class BucketWorker(Protocol):
    """What a stateful worker does with a bucket. It is pickled, and loaded where rows come."""

    def step(self, bucket: Any, state: BucketVariables, packed: list[bytes] | None, watermark: int) -> Row:
        """Take the rows of a bucket and a watermark, in milliseconds, or a watermark alone; what comes out."""
        ...


class RoundWorker(Protocol):
    """What a stateful worker of one of several rounds does with a bucket."""

    def step(
        self, bucket: Any, state: BucketVariables, packed: list[bytes] | None, watermark: int
    ) -> list[Row]:
        """Take the rows of a bucket and a watermark; what comes out, and what buckets of later rounds get."""
        ...


class BucketProcessor(StatefulProcessor):
    """Hands rows and watermarks to the worker of buckets.

    Spark calls ``handleInputRows`` for every bucket that has rows in a micro-batch. Then it calls ``handleExpiredTimer`` for
    every bucket whose timer the watermark has passed, so windows of idle keys are finished too. The watermark is that of
    the micro-batch. It is known before the rows are read, and is the same if the micro-batch is run again.
    """

    def __init__(
        self, worker: BucketWorker | RoundWorker, variables: type[BucketVariables] | None = None
    ) -> None:
        self.pickled = cloudpickle.dumps(worker)
        self.variables = variables or BucketVariables

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.state = self.variables(handle)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        pieces = [packed for _, packed in sorted((row.number, row.rows) for row in rows)]
        yield self._step(key, pieces, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield self._step(key, None, timerValues)

    def close(self) -> None:
        pass

    def _step(self, key: Any, packed: list[bytes] | None, timers: Any) -> Any:
        worker = _unpickled(self.pickled)
        return worker.step(key[0], self.state, packed, timers.getCurrentWatermarkInMs())


class RoundProcessor(BucketProcessor):
    """One of several rounds: buckets of other rounds, and what earlier rounds have found, are handed on."""

    def __init__(
        self, worker: RoundWorker, own: int, rounds: dict[str, int], variables: type[BucketVariables]
    ) -> None:
        super().__init__(worker, variables)
        self.own, self.rounds = own, rounds

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        given = list(rows)
        if self.rounds.get(key[0], 0) != self.own:
            yield from given
            return
        yield from (row for row in given if row.rows is None)
        pieces = sorted((row.number, row.rows) for row in given if row.rows is not None)
        if pieces:
            yield from self._step(key, [packed for _, packed in pieces], timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield from self._step(key, None, timerValues)


@lru_cache(maxsize=8)
def _unpickled(worker: bytes) -> Any:
    """What the driver pickled: part of the job, as Spark's own pickles of functions are."""
    found: BucketWorker | RoundWorker = cloudpickle.loads(worker)
    return found


class BucketVariables:
    """The state variables and the timer of the bucket that Spark has called for."""

    mark: Any
    header: Any
    pages: Any

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.make(handle)

    def make(self, handle: StatefulProcessorHandle) -> None:
        self.mark = handle.getValueState(MARK, MARK_SCHEMA)
        self.header = handle.getValueState(HEADER_STATE, PAGE)
        self.pages = handle.getMapState(PAGES_STATE, PAGE_NAME, PAGE)

    def wake_at(self, due: int | None, set_before: int | None, *, fired: bool) -> int | None:
        """Set the bucket's one timer to the millisecond at which a window is due, but not before 1970, where Spark has no watermark."""
        wake = None if due is None else max(-(-due // 1000), 1)
        if fired:
            set_before = None
        if wake != set_before:
            if set_before is not None:
                self.handle.deleteTimer(set_before)
            if wake is not None:
                self.handle.registerTimer(wake)
        return wake


class OneVariable(BucketVariables):
    """Mark, header and pages as entries of one map.

    It has the name of the mark, which was a value. So Spark refuses to start a stream over a checkpoint with three variables,
    and the other way round; a variable of a new name would begin without the state that is there.
    """

    def make(self, handle: StatefulProcessorHandle) -> None:
        self.pages = handle.getMapState(MARK, PAGE_NAME, PAGE)
        self.mark = MarkEntry(self.pages, MARK)
        self.header = Entry(self.pages, HEADER_STATE)


class Entry:
    """An entry of a map, used as a state variable of its own."""

    def __init__(self, pages: Any, name: str) -> None:
        self.pages, self.name = pages, name

    def get(self) -> Any:
        return self.pages.getValue((self.name,))

    def update(self, value: tuple[Any, ...]) -> None:
        self.pages.updateValue((self.name,), value)


class MarkEntry(Entry):
    """The token and the time to wake, one after the other. A space has no number of buckets."""

    def get(self) -> tuple[bytes, int | None, int] | None:
        if (found := super().get()) is None:
            return None
        token, wake = bytes(found[0][:TOKEN]), bytes(found[0][TOKEN:])
        return token, int.from_bytes(wake, "little") if wake else None, 0

    def update(self, value: tuple[Any, ...]) -> None:
        token, wake, _ = value
        super().update((token + (b"" if wake is None else wake.to_bytes(8, "little")),))
