"""Stores that misbehave, and a job that survives them: what the tests of stores share."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

import windrow as wr
from windrow.errors import StoreError
from windrow.storage.pages import MemoryPages, Pages


class Failing:
    """Raises at random; a commit that raises may have taken place all the same."""

    def __init__(self, pages: Pages, rate: float, seed: int) -> None:
        self.pages, self.rate, self.random = pages, rate, random.Random(seed)
        self.failures = 0

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        self._maybe_fail()
        return self.pages.get(names)

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self._maybe_fail()
        self.pages.commit(put, delete)
        self._maybe_fail()

    def _maybe_fail(self) -> None:
        if self.random.random() < self.rate:
            self.failures += 1
            raise StoreError("the store fails, as it should in this test")


class Stale:
    """Returns older bytes of some pages, and pages that were deleted, as a replica that lags behind."""

    def __init__(
        self, pages: Pages, rate: float, seed: int, only: Callable[[str], bool] = lambda name: True
    ) -> None:
        self.pages, self.rate, self.random, self.only = pages, rate, random.Random(seed), only
        self.older: dict[str, bytes] = {}
        self.lies = 0

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        wanted = list(names)
        found = dict(self.pages.get(wanted))
        for name in wanted:
            if name in self.older and self.only(name) and self.random.random() < self.rate:
                self.lies += self.older[name] != found.get(name)
                found[name] = self.older[name]
        return found

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        gone = list(delete)
        self.older.update(self.pages.get([*put, *gone]))
        self.pages.commit(put, gone)


class Counted(MemoryPages):
    """Counts requests and what they move."""

    def __init__(self) -> None:
        super().__init__()
        self.gets = self.commits = self.read = self.written = self.deleted = 0
        self.most_read = 0

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(names)
        self.gets += 1
        self.read += len(wanted)
        self.most_read = max(self.most_read, len(wanted))
        return super().get(wanted)

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        gone = list(delete)
        self.commits += 1
        self.written += len(put)
        self.deleted += len(gone)
        super().commit(put, gone)


class Prefetching(Counted):
    """Has read in the background, before it is asked, what it was told to; counts the requests that had to wait."""

    def __init__(self) -> None:
        super().__init__()
        self.coming: dict[str, bytes | None] = {}
        self.waits = 0

    def prefetch(self, names: Iterable[str]) -> None:
        for name in names:
            self.coming[name] = self.held.get(name)

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(names)
        ready = {name: self.coming.pop(name) for name in wanted if name in self.coming}
        rest = [name for name in wanted if name not in ready]
        self.waits += bool(rest)
        found = super().get(rest) if rest else {}
        return {**found, **{name: page for name, page in ready.items() if page is not None}}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        gone = list(delete)
        for name in (*put, *gone):
            self.coming.pop(name, None)
        super().commit(put, gone)


# A job: batches of rows, each followed by a watermark. Its output is kept by batch, so that doing a batch again changes nothing.

SCHEMA = pa.schema({"plug": pa.string(), "ts": pa.int64(), "load": pa.float64()})
QUERY = wr.Query(
    by="plug",
    window=wr.TimeWindow("400us", "2us"),
    aggregates={"peak": wr.Max("load"), "n": wr.Count()},
)
STEP = 24
"""Microseconds between the watermarks of two batches."""


def batch(number: int) -> pa.Table:
    """The rows of a batch: the same whenever it is asked for."""
    chance = random.Random(number)
    rows = [
        ("ab"[chance.random() < 0.3], number * STEP + chance.randrange(STEP), chance.random())
        for _ in range(18)
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)


def watermark(number: int) -> int:
    return (number + 1) * STEP


def run(pages: Pages | None, batches: int, keep: Callable[[int, pa.Table], None]) -> None:
    """Do the batches that the state in the store has not seen; output goes to ``keep`` before it is committed."""
    operator = (
        wr.Operator(QUERY, SCHEMA, compiled=False)
        if pages is None
        else wr.Operator.open(QUERY, SCHEMA, pages, compiled=False)
    )
    done = bisect_right(range(STEP, (batches + 1) * STEP, STEP), operator.watermark)
    for number in range(done, batches):
        tables = [operator.process(batch(number)), operator.advance(watermark(number))]
        keep(number, pa.concat_tables(tables))
        if pages is not None:
            operator.commit()
    keep(batches, operator.flush())


def uninterrupted(batches: int) -> dict[int, pa.Table]:
    output: dict[int, pa.Table] = {}
    run(None, batches, output.__setitem__)
    return output
