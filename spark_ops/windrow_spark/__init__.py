# SPDX-License-Identifier: Apache-2.0
"""windrow on PySpark: a DataFrame in, a DataFrame of finished windows out.

Names are loaded when they are used, because workers that only pack rows import a part of this package.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windrow_spark.checkpoints import inspect_state, remaining
    from windrow_spark.cluster import library_archive, prepare, session_conf
    from windrow_spark.frames import explain, windowed
    from windrow_spark.metrics import Measured, Metrics
    from windrow_spark.pipelines import pipelined
    from windrow_spark.progress_line import progress
    from windrow_spark.schemas import arrow_schema
    from windrow_spark.sql import register
    from windrow_spark.streaming import split_late

__all__ = [
    "Measured",
    "Metrics",
    "arrow_schema",
    "explain",
    "inspect_state",
    "library_archive",
    "pipelined",
    "prepare",
    "progress",
    "register",
    "remaining",
    "session_conf",
    "split_late",
    "windowed",
]

_MODULES = {
    "checkpoints": ("inspect_state", "remaining"),
    "cluster": ("library_archive", "prepare", "session_conf"),
    "frames": ("explain", "windowed"),
    "metrics": ("Measured", "Metrics"),
    "pipelines": ("pipelined",),
    "progress_line": ("progress",),
    "schemas": ("arrow_schema",),
    "sql": ("register",),
    "streaming": ("split_late",),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
