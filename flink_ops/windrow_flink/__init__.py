"""windrow on PyFlink: a stream in, a stream of finished windows out."""

from windrow_flink.elements import PACKED
from windrow_flink.environment import environment, stop_with_savepoint, why_not_thread
from windrow_flink.fpba import FPBA
from windrow_flink.packed import pack, read_packed, unpack, windowed_packed
from windrow_flink.stream import late_rows, windowed
from windrow_flink.table import pushed_down, windowed_table
from windrow_flink.workers import windowed_by_workers

__all__ = [
    "FPBA",
    "PACKED",
    "environment",
    "late_rows",
    "pack",
    "pushed_down",
    "read_packed",
    "stop_with_savepoint",
    "unpack",
    "why_not_thread",
    "windowed",
    "windowed_by_workers",
    "windowed_packed",
    "windowed_table",
]
