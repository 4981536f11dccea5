# SPDX-License-Identifier: Apache-2.0
"""Times in another unit than they are read in: what the job says where it is built, and its workers in Flink's log.

Rows are seen by workers only. Python's warnings do not leave a worker that runs inside the JVM. What is logged does, in both
of Flink's modes.
"""

from __future__ import annotations

import logging
import warnings
from threading import Lock

import pyarrow as pa

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.columns.arrow import event_times
from windrow.errors import TimeUnitWarning
from windrow.query.query import Query

log = logging.getLogger(__name__)
_alone = Lock()
"""Threads of one interpreter share its warnings."""


def log_assumed_unit(schema: pa.Schema, query: Query) -> None:
    """Log that times without a unit are microseconds. Called where a job is built, whose terminal does not have Flink's log."""
    if query.time_unit is None and pa.types.is_integer(schema.field(query.time).type):
        log.warning(
            "the integers in time column %r are read as microseconds since 1970; if they are in another unit, set it with "
            "Query(time_unit=), such as time_unit='ms'",
            query.time,
        )


def log_another_unit(rows: pa.Table, query: Query) -> None:
    """Log the `TimeUnitWarning` that these rows are worth, if any. Called with the first rows that a worker takes."""
    with _alone, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", TimeUnitWarning)
        event_times(rows, query.time, query.time_unit)
    for warning in told:
        log.warning("%s", warning.message)
