# SPDX-License-Identifier: Apache-2.0
"""The figures of a running job in a :class:`windrow.metrics.Meter`, for Prometheus and OpenTelemetry.

They come from Flink's REST interface: the metric group ``windrow`` of every operator, the watermarks and the checkpoints.
The driver asks, so nothing has to be installed on the cluster.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import NOT_FOUND, HTTPException
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from pyflink.common.job_client import JobClient

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow import durations
from windrow.durations import Duration
from windrow.errors import EngineError

if TYPE_CHECKING:
    from windrow.metrics import Meter

COUNTED = {"rows": "rows_total", "windows": "windows_total", "late_rows": "late_rows_total"}
HELD = ("state_bytes", "cold_keys")
TIMEOUT = 10
"""Seconds to wait for an answer."""
_LOG = logging.getLogger("windrow.metrics")


@contextmanager
def metered(
    job: JobClient | str, meter: Meter, *, rest: str = "http://127.0.0.1:8081", every: Duration = "5s"
) -> Iterator[None]:
    """Keep a meter up to date with a running job, for as long as the block runs.

    job
        The job, as ``execute_async`` returns it, or its id.
    meter
        The meter that is served or exported.
    rest
        The address of Flink's REST interface, the same as that of its web interface.
    every
        How often Flink is asked.

    >>> with meter.serve(), metered(job, meter):                                   # doctest: +SKIP
    ...     job.get_job_execution_result().result()
    """
    figures = JobFigures(job if isinstance(job, str) else str(job.get_job_id()), rest)
    over = Event()
    pause = durations.parse(every, name="every") / 1e6

    def follow() -> None:
        failed = False
        while not over.wait(pause):
            try:
                figures.update(meter)
                failed = False
            except EngineError as error:
                if not failed:
                    _LOG.warning("%s", error)
                failed = True

    thread = Thread(target=follow, name="windrow metrics", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(TIMEOUT)


class JobFigures:
    """What Flink says about a job. Counters start at zero again when Flink restarts a task, and a meter's do not."""

    def __init__(self, job: str, rest: str) -> None:
        self._job = f"{rest.rstrip('/')}/jobs/{quote(job)}"
        self._last: dict[str, float] = {}

    def update(self, meter: Meter) -> None:
        """Ask Flink once, and set the meter to what it says."""
        try:
            counted, held, watermark = self._operators()
            counted |= self._checkpoints()
        except (OSError, HTTPException, ValueError, KeyError) as cause:
            raise EngineError(
                f"cannot read the metrics of Flink at {self._job}: {cause}; is the job running?"
            ) from cause
        for name, value in counted.items():
            before = self._last.get(name, 0)
            meter.add(**{name: value - before if value >= before else value})
        self._last = counted
        meter.set(**held)
        if watermark is not None:
            meter.reached(watermark * 1000)

    def _operators(self) -> tuple[dict[str, float], dict[str, float], int | None]:
        counted = dict.fromkeys(COUNTED.values(), 0.0)
        held = dict.fromkeys(HELD, 0.0)
        watermarks = []
        for vertex in self._ask("")["vertices"]:
            path = f"/vertices/{vertex['id']}/subtasks/metrics"
            names = [each["id"] for each in self._ask(path) if ".windrow." in each["id"]]
            if not names:
                continue
            for each in self._ask(f"{path}?get={quote(','.join(names), safe=',')}"):
                name, value = each["id"].rsplit(".", 1)[1], each.get("sum", 0.0)
                if name in COUNTED:
                    counted[COUNTED[name]] += value
                elif name in HELD:
                    held[name] += value
            shown = self._ask(f"/vertices/{vertex['id']}/watermarks")
            watermarks += [int(each["value"]) for each in shown]
        return counted, held, min(watermarks, default=None)

    def _checkpoints(self) -> dict[str, float]:
        try:
            shown = self._ask("/checkpoints")
        except HTTPError as answer:
            if answer.code == NOT_FOUND:  # the job has no checkpoints
                return {}
            raise
        done = float(shown["counts"]["completed"])
        each = shown.get("summary") or {}
        seconds, written = (
            done * each.get(name, {}).get("avg", 0) for name in ("end_to_end_duration", "checkpointed_size")
        )
        return {
            "commits_total": done,
            "commit_seconds_total": seconds / 1000,
            "written_bytes_total": written,
        }

    def _ask(self, path: str) -> Any:
        with urlopen(self._job + path, timeout=TIMEOUT) as answer:
            return json.load(answer)
