# SPDX-License-Identifier: Apache-2.0
"""A stream with what comes of it, and the job that processes it: an operator, or a space of pipelines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

import windrow as wr
from windrow.storage.pages import Pages
from windrow_conformance.case import Step
from windrow_conformance.generated import SCHEMA


@dataclass(frozen=True)
class Stream:
    """The steps of a stream, and what an uninterrupted run gives after each: windows, and rows that are late."""

    steps: tuple[Step, ...]
    windows: tuple[pa.Table, ...]
    late: tuple[pa.Table, ...]
    wrong: str
    """Where the uninterrupted run differs from the oracle; empty if it does not."""
    job: Processor
    """What processes it."""


class Processor(Protocol):
    """What processes a stream, and how it is opened."""

    @property
    def leaves_nothing(self) -> bool:
        """All of its windows are over when the stream is, so its store is empty then."""

    @property
    def recuts(self) -> bool:
        """Its output does not depend on how rows are cut into batches."""

    def open(self, pages: Pages, **how: Any) -> Any:
        """It goes on from what is in a store."""

    def commits(self, running: Any) -> int:
        """How many commits the state that it goes on from has seen."""

    def commit(self, running: Any, number: int) -> None:
        """Commit for the ``number``-th time."""

    def feed(self, running: Any, step: Step) -> tuple[pa.Table, pa.Table]:
        """Take a step; returns windows, and rows that are late."""

    def feed_in_two(self, running: Any, step: Step) -> tuple[pa.Table, pa.Table]:
        """Take a step of rows as two batches."""


@dataclass(frozen=True)
class Windows:
    """A query, computed by an operator."""

    query: wr.Query

    @property
    def leaves_nothing(self) -> bool:
        return all(isinstance(window, wr.TimeWindow | wr.SessionWindow) for _, window in self.query.windows)

    @property
    def recuts(self) -> bool:
        return self.query.late != "update" and self.query.within is None

    def open(self, pages: Pages, **how: Any) -> wr.Operator:
        return wr.Operator.open(self.query, SCHEMA, pages, **how)

    def commits(self, running: wr.Operator) -> int:
        return running.commits

    def commit(self, running: wr.Operator, number: int) -> None:
        running.commit()

    def feed(self, running: wr.Operator, step: Step) -> tuple[pa.Table, pa.Table]:
        if step.kind == "rows":
            return running.process(step.value), running.late()
        windows = running.advance(step.value) if step.kind == "watermark" else running.flush()
        return windows, running.late()

    def feed_in_two(self, running: wr.Operator, step: Step) -> tuple[pa.Table, pa.Table]:
        half = step.value.num_rows // 2
        parts = [running.process(step.value.slice(0, half)), running.process(step.value.slice(half))]
        return pa.concat_tables(parts), running.late()
