# SPDX-License-Identifier: Apache-2.0
"""A policy compiled together with the aggregates that its functions read."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numba
import numpy as np

from windrow.kernels.partials import allocate, slots
from windrow.kernels.slices import enforce
from windrow.kernels.slices.enforce import SUFFIX
from windrow.kernels.specialise import compiled_for
from windrow.operator.bucket_state import BucketState
from windrow.operator.extents import ExtentState
from windrow.operator.plan import Ints
from windrow.operator.policy_forest import PolicyForest
from windrow.windows import PolicyWindow

if TYPE_CHECKING:
    from windrow.operator.partials import AggregateState
    from windrow.operator.slices import SliceTable

NODES = 128
"""How many nodes cover a window at most."""


class CompiledPolicy:
    """The search for the beginning of windows as one compiled loop over rows."""

    def __init__(self, table: SliceTable, window: PolicyWindow, forest: PolicyForest, run: Any) -> None:
        self._table, self._forest, self._run = table, forest, run
        self._evicts = window.evict is not None
        self._states = _read(table.aggregates, window)
        self._work = _work(self._states)
        self._cover = np.zeros(NODES + 1, dtype=np.int64)

    @classmethod
    def of(cls, table: SliceTable, window: PolicyWindow, forest: PolicyForest) -> CompiledPolicy | None:
        """Compiled, if everything that takes part can be: the functions, the partials and the results."""
        states = _read(table.aggregates, window)
        plain = all(s.monoid.compiles and not isinstance(s, ExtentState) for s in states)
        if not (
            states
            and table.compiled
            and window.monotone
            and plain
            and all(s.name.isidentifier() for s in states)
        ):
            return None
        policy = cls(table, window, forest, None)
        nothing = np.zeros(0, dtype=np.int64)
        arguments = policy.arguments(nothing, nothing, nothing)
        run = compiled_for(enforce, _seam(states, window), "enforce_rows", arguments)
        return None if run is None else cls(table, window, forest, run)

    def enforce(self, row: int, keys: Ints, left: Ints, heads: Ints) -> int:
        """Fill in the first position of the window of each row, from a row on; the row that has to be searched in Python."""
        self._cover[0] = row
        return int(self._run(*self.arguments(keys, left, heads)))

    def arguments(self, keys: Ints, left: Ints, heads: Ints) -> tuple[Any, ...]:
        """What the compiled loop takes. Arrays may have grown since the last call."""
        parts: tuple[Any, ...] = ()
        above: tuple[Any, ...] = ()
        for state in self._states:
            parts, above = parts + state.partials.parts, above + state.partials.lcs
        arrays = (self._table.slices, self._forest.forest, parts, above, self._work, self._cover)
        return *arrays, keys, left, heads, self._evicts


def _read(states: list[AggregateState], window: PolicyWindow) -> list[AggregateState]:
    """The aggregates whose results the functions read, by name. A function that reads them in another way does not compile."""
    functions = (window.valid, window.evict)
    names = {name for f in functions for name in getattr(getattr(f, "__code__", None), "co_names", ())}
    return [state for state in states if state.name in names and not isinstance(state, BucketState)]


def _work(states: list[AggregateState]) -> tuple[Any, ...]:
    work: tuple[Any, ...] = ()
    for state in states:
        work += allocate(state.monoid, SUFFIX + NODES)
    return work


def _seam(states: list[AggregateState], window: PolicyWindow) -> Mapping[str, Any]:
    """The functions of a kernel over the fields of all aggregates, and the user's."""
    names: dict[str, Any] = {"Window": namedtuple("Window", [state.name for state in states])}
    merge, copy, outcome, defined, at = [], [], [], [], 0
    for n, state in enumerate(states):
        seam = slots(state.monoid)
        names.update({f"{name}_{n}": seam[name] for name in ("merge", "copy", "lower", "defined")})
        part = f"[{at}:{at + len(state.monoid.fields or ())}]"
        at += len(state.monoid.fields or ())
        merge.append(f"merge_{n}(d{part}, i, a{part}, j, b{part}, k)")
        copy.append(f"copy_{n}(d{part}, i, s{part}, j)")
        outcome.append(f"lower_{n}(p{part}, i)")
        defined.append(f"defined_{n}(p{part}, i)")
    source = "\n".join(
        [
            _function("merge(d, i, a, j, b, k)", *merge),
            _function("copy(d, i, s, j)", *copy),
            _function("outcome(p, i)", f"return Window({', '.join(outcome)})"),
            _function("defined(p, i)", f"return {' and '.join(defined)}"),
        ]
    )
    exec(source, names)
    return {
        **{name: names[name] for name in ("merge", "copy", "outcome", "defined")},
        "valid": _compiled(window.valid or _always),
        "evict": _compiled(window.evict or _never),
        "NAMES": tuple(state.name for state in states),
        "LEAN": True,
    }


def _function(head: str, *lines: str) -> str:
    return f"def {head}:\n    " + "\n    ".join(lines)


def _compiled(function: Callable[..., bool]) -> Any:
    """The function for compiled code to call. A division by zero and a wrong index are errors, as they are in Python."""
    return numba.njit(function, error_model="python", nogil=True, boundscheck=True)


def _always(window: Any) -> bool:
    return True


def _never(candidate: Any, after: Any, before: Any) -> bool:
    return False
