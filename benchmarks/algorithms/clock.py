"""A clock that compiled code can read: the processor's cycle counter, in nanoseconds after calibration.

A call through Python takes longer than the slides to be measured. Where the processor is an x86-64, compiled
code reads its time-stamp counter, which ticks at a constant rate (some 0.4 ns) and takes about 10 ns to read;
elsewhere it calls the C library's ``clock_gettime`` (1 ns, some 25 ns to call). :func:`resolution` says what
two readings in a row differ by.

A monoid whose ``lower`` reads the clock (:func:`stamping`) turns every algorithm into its own stopwatch: the
result of window w is the moment it was ready, and the time from one result to the next is what one slide
took, threads, hand-overs and all.
"""

from __future__ import annotations

import ctypes
import platform
import time
from dataclasses import replace
from typing import Any

import llvmlite.ir as ir
import numba
import numpy as np
import pyarrow as pa
from numba.extending import intrinsic

from windrow.aggregates.algebra import Monoid

X86 = platform.machine().lower() in ("x86_64", "amd64")


@intrinsic
def cycles(context: Any) -> Any:
    """The time-stamp counter."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        return builder.call(builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind), [])

    return numba.types.int64(), generate


_gettime = ctypes.CDLL(None).clock_gettime
_gettime.argtypes = (ctypes.c_int, ctypes.c_void_p)
_gettime.restype = ctypes.c_int


def _read_cycles(p: Any) -> Any:
    return cycles()


def _read_clock(p: Any) -> Any:
    moment = np.empty(2, dtype=np.int64)
    _gettime(1, moment.ctypes)
    return moment[0] * 1_000_000_000 + moment[1]


read = _read_cycles if X86 else _read_clock


def stamping(monoid: Monoid) -> Monoid:
    """The same monoid, with the time of reading as its result."""
    return replace(monoid, lower=read, defined=None, inner=None, output=pa.int64())


@numba.njit
def _readings(stamps: Any, read: Any) -> None:
    for i in range(len(stamps)):
        stamps[i] = read(i)


def ticks_per_ns() -> float:
    """How many units of the clock make a nanosecond."""
    compiled, stamps = numba.njit(read), np.empty(1, dtype=np.int64)
    _readings(stamps, compiled)
    wall, begin = time.perf_counter_ns(), _now(stamps, compiled)
    time.sleep(0.2)
    return float((_now(stamps, compiled) - begin) / (time.perf_counter_ns() - wall))


def resolution() -> float:
    """The median time between two readings in a row, ns."""
    stamps = np.empty(100_000, dtype=np.int64)
    _readings(stamps, numba.njit(read))
    return float(np.median(np.diff(stamps)) / ticks_per_ns())


def _now(stamps: Any, compiled: Any) -> int:
    _readings(stamps, compiled)
    return int(stamps[0])
