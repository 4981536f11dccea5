# SPDX-License-Identifier: Apache-2.0
"""A line that shows how far a batch job is.

>>> with progress(spark):                                                           # doctest: +SKIP
...     windowed(loads, query).write.parquet("windows")
windrow: 31 of 200 tasks done, 2 running, 12 s
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from windrow_spark.cluster import connected

EVERY = 0.5


class Tasks(NamedTuple):
    """How many tasks of the jobs in the block are done, are running, and are known of."""

    done: int
    running: int
    known: int

    def __str__(self) -> str:
        return f"{self.done:,} of {self.known:,} tasks done, {self.running:,} running"


@contextmanager
def progress(spark: Any, tell: Callable[[str], None] | None = None) -> Iterator[None]:
    """Show a line on the terminal while Spark works on what the block starts; also through Spark Connect.

    ``tell`` is called with the line instead, twice a second, and once at the end.
    """
    watching: _Classic | _Connected = _Connected(spark) if connected(spark) else _Classic(spark)
    told, begin, over = tell or _line, time.perf_counter(), threading.Event()

    def show() -> None:
        tasks = watching.tasks()
        if tasks.known:
            told(f"windrow: {tasks}, {time.perf_counter() - begin:.0f} s")

    def watch() -> None:
        while not over.wait(EVERY):
            show()

    thread = threading.Thread(target=watch, daemon=True, name="windrow-progress")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        show()
        watching.close()
        if tell is None:
            sys.stderr.write("\n")


class _Classic:
    """The jobs of this thread's group, by Spark's status tracker."""

    def __init__(self, spark: Any) -> None:
        self.context = spark.sparkContext
        self.group = f"windrow-{id(self)}"
        self.before = {
            name: self.context.getLocalProperty(name)
            for name in ("spark.jobGroup.id", "spark.job.description")
        }
        self.context.setJobGroup(self.group, "windrow")

    def tasks(self) -> Tasks:
        tracker = self.context.statusTracker()
        stages: dict[int, Any] = {}
        for job in tracker.getJobIdsForGroup(self.group):
            found = tracker.getJobInfo(job)
            for stage in found.stageIds if found else ():
                stages[stage] = tracker.getStageInfo(stage)
        known = [stage for stage in stages.values() if stage is not None]
        return Tasks(
            sum(stage.numCompletedTasks for stage in known),
            sum(stage.numActiveTasks for stage in known),
            sum(stage.numTasks for stage in known),
        )

    def close(self) -> None:
        for name, value in self.before.items():
            self.context.setLocalProperty(name, value)


class _Connected:
    """What the server reports of this client's operations."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.operations: dict[str, Tasks] = {}
        spark.registerProgressHandler(self.note)

    def note(self, stages: Any, inflight_tasks: int, operation_id: str, done: bool, **_: Any) -> None:
        finished = sum(stage.num_completed_tasks for stage in stages or ())
        known = sum(stage.num_tasks for stage in stages or ())
        self.operations[operation_id] = Tasks(finished, inflight_tasks, known)

    def tasks(self) -> Tasks:
        return Tasks(*(sum(column) for column in zip((0, 0, 0), *self.operations.values(), strict=True)))

    def close(self) -> None:
        self.spark.removeProgressHandler(self.note)


def _line(text: str) -> None:
    sys.stderr.write(f"\r\033[K{text}")
    sys.stderr.flush()
