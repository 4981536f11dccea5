# SPDX-License-Identifier: Apache-2.0
"""windrow on PyFlink: a stream in, a stream of finished windows out.

The threads of a worker process load their functions side by side. A thread that wants a part of a package locks the part,
and then imports the package. If the package in turn imports a part that another thread has locked, each may wait for
the other, and the import fails. So this package imports a part only when one of its names is used, except
``environment``, which no worker locks. And every module of it imports ``windrow`` as a whole before any part of that.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from windrow_flink.environment import environment, stop_with_savepoint, why_not_thread

if TYPE_CHECKING:
    from windrow_flink.elements import PACKED
    from windrow_flink.fpba import FPBA
    from windrow_flink.metrics import metered
    from windrow_flink.packed import pack, read_packed, unpack, windowed_packed
    from windrow_flink.pipelines import pipelined, reports
    from windrow_flink.stream import late_rows, windowed
    from windrow_flink.table import pushed_down, windowed_table
    from windrow_flink.workers import windowed_by_workers

_NAMES = {
    "elements": ("PACKED",),
    "fpba": ("FPBA",),
    "metrics": ("metered",),
    "packed": ("pack", "read_packed", "unpack", "windowed_packed"),
    "pipelines": ("pipelined", "reports"),
    "stream": ("late_rows", "windowed"),
    "table": ("pushed_down", "windowed_table"),
    "workers": ("windowed_by_workers",),
}

__all__ = [
    "FPBA",
    "PACKED",
    "environment",
    "late_rows",
    "metered",
    "pack",
    "pipelined",
    "pushed_down",
    "read_packed",
    "reports",
    "stop_with_savepoint",
    "unpack",
    "why_not_thread",
    "windowed",
    "windowed_by_workers",
    "windowed_packed",
    "windowed_table",
]


def __getattr__(name: str) -> Any:
    for module, names in _NAMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
