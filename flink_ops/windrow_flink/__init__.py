"""windrow on PyFlink: a stream in, a stream of finished windows out."""

from windrow_flink.environment import environment, why_not_thread
from windrow_flink.packed import PACKED, pack, read_packed, unpack, windowed_packed
from windrow_flink.stream import late_rows, windowed
from windrow_flink.table import pushed_down, windowed_table

__all__ = [
    "PACKED",
    "environment",
    "late_rows",
    "pack",
    "pushed_down",
    "read_packed",
    "unpack",
    "why_not_thread",
    "windowed",
    "windowed_packed",
    "windowed_table",
]
