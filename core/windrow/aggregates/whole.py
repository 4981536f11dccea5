# SPDX-License-Identifier: Apache-2.0
"""Functions of whole windows: results that come from all rows of a window, not from partials of slices.

A window is an *extent*: a range of rows in contiguous columns. The operator keeps the rows and finds the extents
(:mod:`windrow.operator.extents`); what is here computes the results of many extents in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.columns.arrow import Array, physical_dtype
from windrow.errors import AggregateError

__all__ = [
    "CallEach",
    "Extents",
    "FunctionFailed",
    "WholeWindow",
    "count_extents",
    "failure",
    "read_only",
    "results_dtype",
]


class Extents(NamedTuple):
    """Windows over columns: window w has the rows ``lo[w]`` to ``hi[w]``, without ``hi[w]``.

    Windows of one key follow each other in their order, so both bounds mostly move on. Nothing may rely on it.
    """

    columns: tuple[Array, ...]
    lo: NDArray[np.int64]
    hi: NDArray[np.int64]

    def some(self, begin: int, end: int) -> Extents:
        return Extents(self.columns, self.lo[begin:end], self.hi[begin:end])


def count_extents(columns: tuple[Array, ...], valid: Array, segments: Any, rows: int, slide: int) -> Extents:
    """All windows of ``rows`` rows in segments of columns, without the rows that are not valid.

    Segment s is the rows ``segments.offsets[s]`` to ``segments.offsets[s + 1]``, and has the results
    ``segments.places[s]`` to ``segments.places[s + 1]``. An empty ``valid`` means that all rows are.
    """
    counts = np.diff(segments.places)
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    lo = np.repeat(segments.offsets[: len(counts)], counts) + slide * within
    if not len(valid):
        return Extents(columns, lo, lo + rows)
    before = np.append(0, np.cumsum(valid))
    return Extents(tuple(column[valid] for column in columns), before[lo], before[lo + rows])


class FunctionFailed(Exception):
    """A function raised an error for one of the windows. The operator says for which."""

    def __init__(self, window: int, cause: Exception) -> None:
        super().__init__(f"window {window}: {cause}")
        self.window, self.cause = window, cause


def failure(
    name: str, function: str, key: Sequence[Any], bounds: tuple[str, str], cause: Exception
) -> AggregateError:
    """The error of an aggregate whose function raised an error for the window of a key. ``bounds`` are for people."""
    of = f" of key {', '.join(map(repr, key))}" if key else ""
    return AggregateError(
        f"{name}: {function} raised {type(cause).__name__} for the window{of} from {bounds[0]} to {bounds[1]}: {cause}"
    )


SEVERAL = (np.ndarray, list, tuple)
"""What a function returns that returns more than one value."""


@dataclass(frozen=True)
class WholeWindow:
    """Computes results of windows from their rows. It holds no state: any piece of the windows can be computed by itself."""

    stored: tuple[pa.DataType, ...]
    """The types in which its columns are kept."""
    dtype: np.dtype[Any]
    """The numpy type of its results; a record for a struct of numbers."""
    keeps_nulls: bool = False
    """Rows with nulls are kept: NaN in columns of numbers, ``None`` in others. If not, they are left out."""

    compiled: ClassVar[bool] = True
    """It runs without the interpreter, so several threads can share the windows."""
    carries: ClassVar[bool] = False
    """A window is computed from the one before. A piece of the windows has to read its first one anew."""

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """The numpy types of its columns."""
        return tuple(physical_dtype(type_) for type_ in self.stored)

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        """Write the results of windows, and which of them are not null. A window without rows has a null result.

        Raises :class:`FunctionFailed` if the user's function raises.
        """
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class CallEach(WholeWindow):
    """A Python function, called for one window after the other."""

    function: Callable[..., Any]
    fields: tuple[str, ...] = ()
    """The names of the fields of its results, if they are structs."""

    compiled = False

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        columns = [read_only(column) for column in windows.columns]
        records = bool(self.fields) and out.dtype.names is None
        for place, (lo, hi) in enumerate(zip(windows.lo.tolist(), windows.hi.tolist(), strict=True)):
            if lo == hi:
                continue
            try:
                result = self.function(*(column[lo:hi] for column in columns))
                ok[place] = result is not None
                if isinstance(result, SEVERAL) and not self.fields and out.dtype.kind != "O":
                    raise ValueError(
                        f"it returned {len(result)} values, not one; for several, returns= is a dict of types"
                    )
                if result is not None:
                    values = fields_of(result, self.fields) if self.fields else result
                    out[place] = dict(zip(self.fields, values, strict=True)) if records else values
            except Exception as cause:
                raise FunctionFailed(place, cause) from cause


def results_dtype(output: pa.DataType) -> np.dtype[Any]:
    """The numpy type of results: a number, a record of numbers for a struct of them, or an object."""
    if pa.types.is_struct(output):
        fields = [(field.name, physical_dtype(field.type)) for field in output]
        if all(dtype.kind != "O" for _, dtype in fields):
            return np.dtype(fields)
    return physical_dtype(output)


def fields_of(result: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """The fields of a struct that a function returned: a dict, or a sequence in the order of the names."""
    if isinstance(result, dict):
        if set(result) != set(names):
            raise ValueError(f"it returned the fields {sorted(result)}, not {sorted(names)}")
        return tuple(result[name] for name in names)
    values = tuple(result)
    if len(values) != len(names):
        raise ValueError(f"it returned {len(values)} values for the fields {', '.join(names)}")
    return values


def read_only(column: Array) -> Array:
    """The same array, which cannot be written to."""
    view = column.view()
    view.setflags(write=False)
    return view
