"""windrow on PySpark: a DataFrame in, a DataFrame of finished windows out."""

from windrow_spark.checkpoints import inspect_state, remaining
from windrow_spark.cluster import library_archive, prepare, session_conf
from windrow_spark.frames import windowed
from windrow_spark.metrics import Measured, Metrics
from windrow_spark.progress import progress
from windrow_spark.sql import register
from windrow_spark.streaming import split_late

__all__ = [
    "Measured",
    "Metrics",
    "inspect_state",
    "library_archive",
    "prepare",
    "progress",
    "register",
    "remaining",
    "session_conf",
    "split_late",
    "windowed",
]
