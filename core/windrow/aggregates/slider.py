# SPDX-License-Identifier: Apache-2.0
"""``wr.Slider``: state that is carried from window to window, for what is cheap to update and has no inverse of its own.

>>> import windrow as wr
>>> def enter(state, load): return state[0] + load, state[1] + (load > 4.0)
>>> def leave(state, load): return state[0] - load, state[1] - (load > 4.0)
>>> def high_share(state): return state[1] / state[0]
>>> high = wr.Slider("load", (0.0, 0), insert=enter, evict=leave, result=high_share)
>>> query = wr.Query(window=wr.CountWindow(2, 1), aggregates={"high": high})
>>> wr.aggregate({"ts": [1, 2, 3], "load": [3.0, 5.0, 5.0]}, query).column("high").to_pylist()
[0.125, 0.2]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.compiled_windows import CompiledWindows, sample, writing
from windrow.aggregates.of_rows import OfRows, Returns, function_of
from windrow.aggregates.whole import Extents, FunctionFailed, WholeWindow, fields_of, results_dtype
from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.errors import AggregateError
from windrow.kernels.extents import carry
from windrow.kernels.specialise import compiled_for

__all__ = ["Slider"]


@dataclass(frozen=True, init=False, repr=False)
class Slider(OfRows):
    """The result of a state that rows enter and leave, in their order.

    columns
        The name of a column, or several.
    initial
        The state of a window without rows: a number or a tuple of numbers, or a function that makes one. A state that
        is changed in place, such as an array, needs a function.
    insert, evict
        ``insert(state, *values)`` returns the state after a row has come, ``evict(state, *values)`` the one after the
        oldest row has left.
    result
        ``result(state)`` is the result of the window, ``None`` for null.
    returns, nulls, version
        As for :class:`~windrow.Apply`.

    The functions are compiled with numba if they can be. A window whose rows do not continue those of the last one
    starts anew. Evicting has to undo inserting: with floats, the last bits may depend on where windows started anew.
    """

    initial: Any
    insert: Callable[..., Any]
    evict: Callable[..., Any]
    result: Callable[[Any], Any]
    has_own_functions = True

    def __init__(
        self,
        columns: str | Sequence[str],
        initial: Any,
        *,
        insert: Callable[..., Any] | str,
        evict: Callable[..., Any] | str,
        result: Callable[[Any], Any] | str,
        returns: Returns = "f8",
        nulls: str = "drop",
        version: str | int | None = None,
    ) -> None:
        given = {"insert": insert, "evict": evict, "result": result}
        functions = {name: function_of("Slider", name, each) for name, each in given.items()}
        start = function_of("Slider", "initial", initial) if isinstance(initial, str) else initial
        if isinstance(start, list):
            start = tuple(start)
        if not callable(start) and not _is_number(start):
            numbers = start if isinstance(start, tuple) else (start,)
            if not numbers or not all(map(_is_number, numbers)):
                raise AggregateError(
                    f"initial of Slider has to be a number, a tuple of numbers, or a function that makes a state, not "
                    f"{initial!r}"
                )
        self.assign(columns, returns, nulls, version, initial=start, **functions)

    @property
    def label(self) -> str:
        return f"{getattr(self.result, '__name__', 'Slider')}({', '.join(self.reads)})"

    def functions(self) -> dict[str, Callable[..., Any]]:
        made = {"initial": self.initial} if callable(self.initial) else {}
        return {**made, "insert": self.insert, "evict": self.evict, "result": self.result}

    def _form(self) -> dict[str, Any]:
        initial = self.initial
        plain = (
            {} if callable(initial) else {"initial": list(initial) if isinstance(initial, tuple) else initial}
        )
        return {**super()._form(), **plain}

    def start(self) -> Any:
        """The state of a window without rows."""
        return self.initial() if callable(self.initial) else self.initial

    def of_window(self, *columns: Array) -> Any:
        state = self.start()
        for values in zip(*columns, strict=True):
            state = self.insert(state, *values)
        return self.result(state)

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow:
        stored, dtype = self.stored(types), results_dtype(self.returns)
        keeps_nulls = self.nulls == "keep"
        kernel = (
            _compiled(self, [arrow.physical_dtype(type_) for type_ in stored], dtype) if compiled else None
        )
        if kernel is not None:
            return CarryCompiled(stored, dtype, keeps_nulls, kernel=kernel)
        return Carry(stored, dtype, keeps_nulls, slider=self)


@dataclass(frozen=True, kw_only=True)
class CarryCompiled(CompiledWindows):
    """A compiled slider."""

    carries = True


@dataclass(frozen=True, kw_only=True)
class Carry(WholeWindow):
    """A slider of Python functions."""

    slider: Slider

    compiled = False
    carries = True

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        slider, columns = self.slider, windows.columns
        state, begin, end = slider.start(), 0, 0
        for place, (lo, hi) in enumerate(zip(windows.lo.tolist(), windows.hi.tolist(), strict=True)):
            try:
                if lo < begin or hi < end or lo >= end:
                    state, begin, end = slider.start(), lo, lo
                for row in range(begin, lo):
                    state = slider.evict(state, *(column[row] for column in columns))
                for row in range(end, hi):
                    state = slider.insert(state, *(column[row] for column in columns))
                begin, end = lo, hi
                result = slider.result(state) if hi > lo else None
                ok[place] = result is not None
                if result is not None:
                    out[place] = fields_of(result, slider.fields) if slider.fields else result
            except Exception as cause:
                raise FunctionFailed(place, cause) from cause


def _compiled(slider: Slider, dtypes: list[np.dtype[Any]], dtype: np.dtype[Any]) -> Any | None:
    """A kernel that slides over many windows; none if a function does not compile."""
    if dtype.kind == "O" or any(each.kind == "O" for each in dtypes):
        return None
    values = ", ".join(f"columns[{n}][row]" for n in range(len(dtypes)))
    source = [
        "def initial():",
        "    return made()" if callable(slider.initial) else f"    return {slider.initial!r}",
        "def insert(state, columns, row):",
        f"    return inserted(state, {values})",
        "def evict(state, columns, row):",
        f"    return evicted(state, {values})",
        "def put(out, ok, w, state):",
        "    value = lowered(state)",
        *writing(dtype),
    ]
    names: dict[str, Any] = {
        "__name__": "windrow.kernels.extents.seam",
        **{
            "made": slider.initial,
            "inserted": slider.insert,
            "evicted": slider.evict,
            "lowered": slider.result,
        },
    }
    exec("\n".join(source), names)
    seam = {name: names[name] for name in ("initial", "insert", "evict", "put")}
    return compiled_for(carry, seam, "carry", sample(dtypes, dtype))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
