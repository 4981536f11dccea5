# SPDX-License-Identifier: Apache-2.0
"""What every final-aggregation algorithm offers, and how its one source is interpreted or compiled.

An algorithm is a module of kernel functions over a *state*, a tuple of arrays: ``meta`` (int64: pointers and
counters) followed by parts (see :mod:`windrow.kernels.partials`). All of them have

===============================  =====================================================================
``insert(state, parts, i)``      The partial in slot i of ``parts`` joins the window, as its newest.
                                 There is room for it.
``evict(state)``                 The oldest partial leaves. There is one.
``query(state, out, i)``         Slot i of ``out`` becomes the window's aggregate, oldest first; the
                                 identity if the window is empty. ``out`` is no part of the state.
``evict_many(state, n)``         Optional: n partials leave, cheaper than by n times ``evict``. Called
                                 with n > 1, and no more than there are.
===============================  =====================================================================

and a class, which wraps them for Python and keeps these promises. Positions are absolute: ``meta[HEAD]`` is that of the oldest
partial, ``meta[TAIL]`` one past the newest, and both only grow. A ring keeps position p in slot ``p &
(capacity - 1)``, so pointers stay valid when a ring grows.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numba.core.errors import NumbaError

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.errors import AggregateError, PropertyError, WindowError
from windrow.kernels.columns.layout import ColumnOutput, Input
from windrow.kernels.partials import Parts, allocate, slots
from windrow.kernels.specialise import specialise

State = tuple[Any, ...]

HEAD, TAIL = 0, 1
"""Where ``meta`` holds the position of the oldest partial, and one past that of the newest."""


class Algorithm(ABC):
    """A window of partials and its aggregate; subclasses say how.

    ``aggregate`` is an aggregate, taken over columns without nulls, or a monoid. ``capacity`` is how many
    partials fit before the arrays double. With ``compiled=False``, and for partials that are Python objects,
    the kernels run interpreted. A window is used by one thread at a time.

    A subclass defines ``_allocate`` and the kernel functions. It overrides ``_span``, ``capacity``,
    ``_make_room`` or ``_grow`` if its parts are no rings of one partial per position.
    """

    requires: ClassVar[frozenset[str]] = frozenset()
    """Properties that an aggregate must have: a subset of commutative, invertible, selective."""

    kernels: ClassVar[str] = ""
    """The module that holds the kernel functions, if it is not the one that holds the class."""

    def __init__(self, aggregate: Aggregate | Monoid, capacity: int = 16, compiled: bool = True) -> None:
        self.monoid = monoid_of(aggregate)
        self.check(self.monoid)
        self.compiled = compiled and self.monoid.typed
        self._kernel = specialised(self._kernel_module(), self.monoid, self.compiled)
        self._state = self._allocate(power_of_two(capacity))
        self._slot = allocate(self.monoid, 1)

    @classmethod
    def check(cls, monoid: Monoid) -> None:
        """Refuse a monoid that lacks a property which the algorithm relies on. Called before anything is made."""
        for name in sorted(cls.requires):
            if not getattr(monoid, name):
                raise PropertyError(
                    f"{cls.__name__} needs an aggregate that is {name}, and {monoid.name} is not; "
                    "TwoStacksLite, DABALite and PBA take any aggregate"
                )

    def insert(self, partial: Partial) -> None:
        """Append a partial as the newest of the window."""
        self._make_room()
        self._kernel.insert(self._state, self._placed(partial), 0)

    def evict(self, n: int = 1) -> None:
        """Remove the ``n`` oldest partials."""
        if self._evictable(n):
            self._evict(n)

    def query(self) -> Partial:
        """The aggregate of the window, from oldest to newest; the identity if it is empty."""
        self._kernel.query(self._state, self._slot, 0)
        return self._taken()

    def __len__(self) -> int:
        return self._held()

    @property
    def capacity(self) -> int:
        """How many partials fit before the arrays grow."""
        return len(self._state[1][0])

    @property
    def partials(self) -> int:
        """How many partials the window occupies at this moment, copies and aggregates included."""
        capacity, held = self.capacity, len(self)
        lengths = (len(parts[0]) for parts in self._state[1:])
        return sum(held if length == capacity else length for length in lengths)

    @abstractmethod
    def _allocate(self, capacity: int) -> State:
        """An empty state for this many partials, which is a power of two.

        Called once when the window is made, and again, with twice the capacity, whenever it grows. ``monoid``
        is set by then.
        """

    def _span(self) -> tuple[int, int]:
        """The positions that the rings hold: from the first, up to but without the second."""
        meta = self._state[0]
        return int(meta[HEAD]), int(meta[TAIL])

    def _held(self) -> int:
        """How many partials the kernels hold."""
        meta = self._state[0]
        return int(meta[TAIL] - meta[HEAD])

    def _grow(self) -> None:
        """Double the rings; every position keeps its partial. Called before an insertion for which there is no
        room.
        """
        bigger = self._allocate(2 * self.capacity)
        bigger[0][:] = self._state[0]
        begin, end = self._span()
        positions = np.arange(begin, end)
        for old, new in zip(self._state[1:], bigger[1:], strict=True):
            for source, target in zip(old, new, strict=True):
                if len(source) == len(target):
                    target[:] = source
                else:
                    target[positions & (len(target) - 1)] = source[positions & (len(source) - 1)]
        self._state = bigger

    def _make_room(self) -> None:
        """Called before each insertion: afterwards there is room for one partial."""
        if self._held() == self.capacity:
            self._grow()

    def _evictable(self, n: int) -> bool:
        """Is there anything to evict? Raises if there are fewer than ``n`` partials."""
        if n < 0 or n > len(self):
            raise WindowError(
                f"{type(self).__name__} holds {len(self)} partials and cannot evict {n}; "
                "evict at most len(window)"
            )
        return n > 0

    def _evict(self, n: int) -> None:
        """Called with 1 ≤ n ≤ len(self)."""
        if n > 1 and hasattr(self._kernel, "evict_many"):
            self._kernel.evict_many(self._state, n)
            return
        for _ in range(n):
            self._kernel.evict(self._state)

    def _placed(self, partial: Partial) -> Parts:
        """The partial, in the slot from which kernels read."""
        place(self.monoid, self._slot, 0, partial)
        return self._slot

    def _taken(self) -> Partial:
        """The partial that a kernel left in that slot."""
        return take(self.monoid, self._slot, 0)

    @classmethod
    def for_range(cls, monoid: Monoid, slices: int, compiled: bool = True) -> Algorithm:
        """An empty window that will hold up to this many slices."""
        return cls(monoid, capacity=max(slices, 1), compiled=compiled)

    @classmethod
    def sliding(
        cls,
        monoid: Monoid,
        columns: Sequence[Any],
        range: int,
        slide: int,
        out: Any,
        ok: Any,
        valid: Any = None,
        compiled: bool = True,
    ) -> None:
        """Every count-based window of ``range`` rows, each ``slide`` rows after the last, over whole columns.

        ``columns`` are equally long arrays, one per input; ``valid`` says which rows hold no null (default:
        all). Result w goes to ``out[w]``, and ``ok[w]`` says whether it is one; a result that is null leaves
        ``out[w]`` as it was.
        """
        rows = Input(tuple(columns), np.ones(0, dtype=np.bool_) if valid is None else valid)
        try:
            cls.for_range(monoid, range // slide, compiled).run_over(
                rows, range, slide, ColumnOutput(out, ok)
            )
        except NumbaError:  # an operation does not compile, of which there has been a warning
            cls.for_range(monoid, range // slide, False).run_over(rows, range, slide, ColumnOutput(out, ok))

    def run_over(self, rows: Input, range_: int, slide: int, out: ColumnOutput) -> None:
        """Every window of whole columns, on a window that is still empty."""
        run = driven(self._kernel_module(), self.monoid, self.compiled)
        end = out_rows(len(out.values), range_, slide)
        run(self._state, allocate(self.monoid, 2), rows, 0, end, range_, slide, out)

    @classmethod
    def _kernel_module(cls) -> ModuleType:
        return sys.modules[cls.kernels or cls.__module__]


def out_rows(windows: int, range_: int, slide: int) -> int:
    """How many rows these many windows cover."""
    return (windows - 1) * slide + range_ if windows else 0


def monoid_of(aggregate: Aggregate | Monoid) -> Monoid:
    """The monoid itself, or that of an aggregate over columns without nulls, whose properties are its own."""
    if isinstance(aggregate, Monoid):
        return aggregate
    return aggregate.bind_dense()


def place(monoid: Monoid, parts: Parts, i: int, partial: Partial) -> None:
    """Put a partial into slot i."""
    if monoid.fields is None:
        parts[0][i] = partial
        return
    try:
        for array, value in zip(parts, partial, strict=True):
            array[i] = value
    except (TypeError, ValueError, OverflowError) as cause:
        fields = ", ".join(field.name for field in monoid.fields)
        raise AggregateError(
            f"{monoid.name}: {partial!r} is not a partial; expected a tuple ({fields}), as lift returns it"
        ) from cause


def take(monoid: Monoid, parts: Parts, i: int) -> Partial:
    """The partial in slot i, as Python numbers; a vector is a copy."""
    if not monoid.typed:
        return parts[0][i]
    return tuple(array[i].copy() if array.ndim > 1 else array[i].item() for array in parts)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least this.

    >>> [power_of_two(n) for n in (0, 1, 2, 3, 8, 9)]
    [1, 1, 2, 4, 8, 16]
    """
    return 1 << max(int(least) - 1, 0).bit_length()


def slot(ring: Any, position: int) -> int:
    """Where a ring keeps a position."""
    return position & (len(ring[0]) - 1)


@lru_cache(maxsize=256)
def specialised(module: ModuleType, monoid: Monoid, compiled: bool) -> SimpleNamespace:
    """The kernel functions of an algorithm for one monoid; the same object for every window of the two."""
    return specialise(module, slots(monoid), compiled=compiled)


@lru_cache(maxsize=256)
def driven(module: ModuleType, monoid: Monoid, compiled: bool) -> Any:
    """The loop over rows of :mod:`windrow.algorithms.drive`, made of one algorithm and one monoid."""
    from windrow.algorithms import drive

    seam = slots(monoid)
    if not compiled:
        return specialise(drive, {**seam, **linked(module, seam)}, compiled=False).run
    kernel = specialised(module, monoid, compiled)
    return specialise(drive, {**seam, **{name: getattr(kernel, name).compiled for name in OPERATIONS}}).run


def linked(module: ModuleType, seam: dict[str, Any]) -> dict[str, Any]:
    """The window operations of a kernel module as plain functions in which the seam's names are bound."""
    namespace = {**vars(module), **seam}
    for name, function in vars(module).items():
        if isinstance(function, FunctionType) and function.__module__ == module.__name__:
            namespace[name] = FunctionType(function.__code__, namespace, name, function.__defaults__)
    return {name: namespace[name] for name in OPERATIONS}


def _operation(*_: Any) -> Any:
    raise NotImplementedError("bound to an algorithm's own function by windrow.algorithms.base.driven")


insert = evict = query = run = fill_lcs = _operation
evict_run = grow_left = compute_left_result = compute_right_result = _operation
OPERATIONS = ("insert", "evict", "query")
