# SPDX-License-Identifier: Apache-2.0
"""``wr.Apply``: your own function of all rows of a window, beside ordinary aggregates.

>>> import windrow as wr
>>> def spread(load): return load.max() - load.min()
>>> query = wr.Query(window=wr.CountWindow(3, 1), aggregates={"spread": wr.Apply(spread, "load")})
>>> wr.aggregate({"ts": [1, 2, 3, 4], "load": [3.0, 5.0, 2.0, 9.0]}, query).column("spread").to_pylist()
[3.0, 7.0]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.aggregates.compiled_windows import CompiledWindows, sample, writing
from windrow.aggregates.of_rows import OfRows, Returns, function_of
from windrow.aggregates.whole import CallEach, WholeWindow, results_dtype
from windrow.columns import arrow
from windrow.columns.arrow import Array
from windrow.kernels.extents import call
from windrow.kernels.specialise import compiled_for

__all__ = ["Apply"]


@dataclass(frozen=True, init=False, repr=False)
class Apply(OfRows):
    """The result of a function that gets all rows of a window.

    function
        Called with one numpy array per column, in the order of ``columns``. The rows are in the order of time, then
        arrival. The arrays are read-only views: nothing is copied. A timestamp or duration is an int64 in microseconds, a
        boolean a byte, and text an array of objects. The function is compiled with numba if it can be; otherwise it runs as
        it is. It should be pure: how often it is called, and in which order, is not promised.
    columns
        The name of a column, or several. The time column may be among them.
    returns
        The type of the result, such as ``"f8"`` (the default), ``"i8"``, ``"bool"`` or an Arrow type. A dict of types
        makes a struct: the function then returns a tuple with a value for each name, in their order. ``None`` is null.
    nulls
        ``"drop"`` (the default) leaves out rows in which a column is null. ``"keep"`` keeps them: as NaN in columns of
        numbers, which are then float64, and as ``None`` in others.
    version
        State is restored only under the code that wrote it. A version stands in for the code; change it when old
        state is of no use to the new code.

    A window without rows has a null result, and the function is not called. In TOML and JSON, the function is its
    import name, ``"package.module:function"``.

    >>> import windrow as wr
    >>> def line(x, y):
    ...     slope = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    ...     return slope, y.mean() - slope * x.mean()
    >>> fit = wr.Apply(line, ["x", "y"], returns={"slope": "f8", "at_0": "f8"}).bind()
    >>> fit.result(fit.fold([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]))
    {'slope': 2.0, 'at_0': 1.0}
    """

    function: Callable[..., Any]
    has_own_functions = True

    def __init__(
        self,
        function: Callable[..., Any] | str,
        columns: str | Sequence[str],
        returns: Returns = "f8",
        *,
        nulls: str = "drop",
        version: str | int | None = None,
    ) -> None:
        found = function_of(type(self).__name__, "function", function)
        self.assign(columns, returns, nulls, version, function=found)

    @property
    def label(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{name}({', '.join(self.reads)})"

    def of_window(self, *columns: Array) -> Any:
        return self.function(*columns)

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {"function": self.function}

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow:
        rows = ApplyColumns(self.stored(types), results_dtype(self.returns), self.nulls == "keep")
        return whole_of(self.function, rows, self.fields, compiled=compiled)


class ApplyColumns(NamedTuple):
    """The columns that a function gets, and the type of its results."""

    stored: tuple[pa.DataType, ...]
    dtype: np.dtype[Any]
    keeps_nulls: bool = False


def whole_of(
    function: Callable[..., Any], rows: ApplyColumns, fields: tuple[str, ...], *, compiled: bool
) -> WholeWindow:
    """A function of one window as one of many: compiled, if it can be."""
    kernel = compiled_call(function, rows.stored, rows.dtype) if compiled else None
    if kernel is not None:
        return CompiledWindows(*rows, kernel=kernel)
    return CallEach(*rows, function=function, fields=fields)


def compiled_call(
    function: Callable[..., Any], stored: Sequence[pa.DataType], dtype: np.dtype[Any]
) -> Any | None:
    """A kernel that calls the function for many windows; none if it does not compile."""
    dtypes = [arrow.physical_dtype(type_) for type_ in stored]
    if dtype.kind == "O" or any(each.kind == "O" for each in dtypes):
        return None
    views = ", ".join(f"columns[{n}][lo:hi]" for n in range(len(dtypes)))
    source = [
        "def result(columns, lo, hi):",
        f"    return function({views})",
        "def put(out, ok, w, value):",
        *writing(dtype),
    ]
    names: dict[str, Any] = {"__name__": "windrow.kernels.extents.seam", "function": function}
    exec("\n".join(source), names)
    seam = {"result": names["result"], "put": names["put"]}
    return compiled_for(call, seam, "call", sample(dtypes, dtype))
