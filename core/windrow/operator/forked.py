# SPDX-License-Identifier: Apache-2.0
"""Processes that compute a Python function of whole windows over shared memory.

The processes are forked when they are first needed, so they have the function. Each call puts the rows that its
windows need into shared memory, and room for the results. Pieces of windows are sent to whoever is free. A process
leaves when the other end of its pipe is closed.
"""

from __future__ import annotations

import json
import multiprocessing
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.shared_memory import SharedMemory
from typing import Any, cast

import numpy as np

from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow
from windrow.errors import AggregateError
from windrow.kernels.slices.layout import Results

Piece = tuple[int, int]


class Forked:
    """A number of processes for one function."""

    def __init__(self, whole: WholeWindow, count: int) -> None:
        resource_tracker.ensure_running()  # one for all processes, so that each segment is known once
        context = multiprocessing.get_context("fork")
        self._pipes: list[Connection] = []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(whole, theirs, [*self._pipes, ours]), daemon=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # the children only run the function
                process.start()
            theirs.close()
            self._pipes.append(ours)

    def __len__(self) -> int:
        """How many processes there are."""
        return len(self._pipes)

    def compute(self, windows: Extents, results: Results, pieces: Sequence[Piece]) -> None:
        """The results of windows, piece by piece, each taken by the next process that is free."""
        low, high = int(windows.lo.min()), int(windows.hi.max())
        given = [
            *(column[low:high] for column in windows.columns),
            windows.lo - low,
            windows.hi - low,
            *results,
        ]
        with ExitStack() as stack:
            shared = [_Shared.of(array) for array in given]
            for each in shared:
                stack.callback(each.free)
            self._share_out([each.name for each in shared], len(windows.lo), pieces)
            for array, each in zip(results, shared[-2:], strict=True):
                array[:] = each.array

    def _share_out(self, names: list[str], count: int, pieces: Sequence[Piece]) -> None:
        left, failed = list(reversed(pieces)), None
        busy: dict[Connection, Piece] = {}
        free = list(self._pipes)
        while busy or (left and not failed):
            while free and left and not failed:
                pipe = free.pop()
                busy[pipe] = _send(pipe, names, count, left.pop())
            for ready in wait(list(busy)):
                pipe = cast(Connection, ready)
                failed = _received(pipe, busy.pop(pipe)) or failed
                free.append(pipe)
        if failed is not None:
            raise failed


class _Shared:
    """An array in shared memory."""

    def __init__(self, memory: SharedMemory, count: int, dtype: Any) -> None:
        self.name, self._memory = memory.name, memory
        self.array: Any = np.ndarray(count, dtype, memory.buf)

    @classmethod
    def of(cls, array: Any) -> _Shared:
        """A copy of an array."""
        shared = cls(SharedMemory(create=True, size=max(array.nbytes, 1)), len(array), array.dtype)
        shared.array[:] = array
        return shared

    @classmethod
    def named(cls, name: str, dtype: Any, count: int | None = None) -> _Shared:
        """One that another process has made. Its length is that of the memory, or given."""
        memory, kind = SharedMemory(name=name), np.dtype(dtype)
        return cls(memory, memory.size // kind.itemsize if count is None else count, kind)

    def close(self) -> None:
        self.array = None
        self._memory.close()

    def free(self) -> None:
        self.close()
        self._memory.unlink()


def _send(pipe: Connection, names: list[str], count: int, piece: Piece) -> Piece:
    pipe.send_bytes(json.dumps({"arrays": names, "count": count, "piece": piece}).encode())
    return piece


def _received(pipe: Connection, piece: Piece) -> FunctionFailed | None:
    """What went wrong with a piece; nothing if it was computed."""
    try:
        answer = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        return FunctionFailed(piece[0], AggregateError("the process that ran the function has died"))
    return FunctionFailed(piece[0] + answer["window"], RuntimeError(answer["error"])) if answer else None


def _serve(whole: WholeWindow, pipe: Connection, others: list[Connection]) -> None:
    """What a process does until its pipe is closed."""
    for other in others:
        other.close()  # or it would stay open for as long as this process lives
    while True:
        try:
            asked = json.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        pipe.send_bytes(json.dumps(_computed(whole, **asked)).encode())


def _computed(whole: WholeWindow, arrays: list[str], count: int, piece: Piece) -> dict[str, Any]:
    """Compute a piece; returns what went wrong."""
    *columns, lo, hi, out, ok = arrays
    with ExitStack() as stack:

        def opened(name: str, dtype: Any, count: int | None = None) -> Any:
            shared = _Shared.named(name, dtype, count)
            stack.callback(shared.close)
            return shared.array

        rows = tuple(opened(name, dtype) for name, dtype in zip(columns, whole.dtypes, strict=True))
        windows = Extents(rows, opened(lo, np.int64, count), opened(hi, np.int64, count)).some(*piece)
        begin, end = piece
        results = opened(out, whole.dtype, count)[begin:end], opened(ok, np.bool_, count)[begin:end]
        try:
            whole.compute(windows, *results)
        except FunctionFailed as failed:
            return {"window": failed.window, "error": f"{type(failed.cause).__name__}: {failed.cause}"}
        finally:
            del rows, windows, results
    return {}
