# SPDX-License-Identifier: Apache-2.0
"""Words of an array that two threads share, for compiled code that does not return to Python in between.

Compiled code may keep an array's element in a register and write it back later. That is right as long as one
thread works on it. These four functions are for words that another thread watches: a thread that :func:`read`
a word sees everything that was written before the :func:`write` of that word. Interpreted, they do the same
under the interpreter's lock.

Kernels call them as ``mailbox.read(words, i)``, so that numba finds the compiled forms below.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from threading import Lock
from typing import Any

import llvmlite.ir as ir
import numba.core.cgutils
from numba import extending, types

_building: Any = numba.core.cgutils
_LOCK = Lock()
_X86 = platform.machine().lower() in ("x86_64", "amd64")


def read(words: Any, i: int) -> int:
    """The word as it is now."""
    return int(words[i])


def write(words: Any, i: int, value: int) -> None:
    """The word becomes this value, after all that the thread has written before."""
    words[i] = value


def swap(words: Any, i: int, old: int, new: int) -> bool:
    """If the word is ``old`` it becomes ``new``; true for the one thread that did it."""
    with _LOCK:
        if words[i] != old:
            return False
        words[i] = new
        return True


def rest(turns: int) -> None:
    """What to do while waiting, for the ``turns``-th time: little at first, then let other threads run."""
    time.sleep(0)


def _instruction(define: Callable[..., Any]) -> Any:
    """A function that is written as LLVM instructions."""
    return extending.intrinsic(define)


def _compiled(interpreted: Any) -> Callable[..., Any]:
    """What compiled code runs instead of an interpreted function."""
    made: Callable[..., Any] = extending.overload(interpreted)
    return made


def _address(context: Any, builder: Any, kind: Any, words: Any, i: Any) -> Any:
    array = context.make_array(kind)(context, builder, words)
    return _building.get_item_pointer(context, builder, kind, array, [i])


@_instruction
def _read(context: Any, words: Any, i: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, words, arguments[0], arguments[1])
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(words, types.intp), generate


@_instruction
def _write(context: Any, words: Any, i: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, words, arguments[0], arguments[1])
        builder.store_atomic(arguments[2], place, "release", 8)
        return context.get_dummy_value()

    return types.void(words, types.intp, types.int64), generate


@_instruction
def _swap(context: Any, words: Any, i: Any, old: Any, new: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, words, arguments[0], arguments[1])
        found = builder.cmpxchg(place, arguments[2], arguments[3], "acq_rel", "acquire")
        return builder.extract_value(found, 1)

    return types.boolean(words, types.intp, types.int64, types.int64), generate


@_instruction
def _spin(context: Any) -> Any:
    """Tell a processor whose core runs another thread that this one only waits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(_building.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


_give_way: Any = types.ExternalFunction("sched_yield", types.intc()) if os.name == "posix" else None
_POLITE = 256
"""After how many turns in vain a waiting thread lets others run."""

_compiled(read)(lambda words, i: lambda words, i: _read(words, i))
_compiled(write)(lambda words, i, value: lambda words, i, value: _write(words, i, value))
_compiled(swap)(lambda words, i, old, new: lambda words, i, old, new: _swap(words, i, old, new))


@_compiled(rest)
def _rest(turns: Any) -> Any:
    def spin(turns: Any) -> None:
        _spin()

    def spin_or_give_way(turns: Any) -> None:
        _spin()
        if turns >= _POLITE:
            _give_way()

    return spin if _give_way is None else spin_or_give_way
