# SPDX-License-Identifier: Apache-2.0
"""``wr.LevenbergMarquardt``: a model of your own, fitted to the rows of every window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.aggregates.algebra import Monoid, dtype_of
from windrow.aggregates.apply import ApplyColumns, whole_of
from windrow.aggregates.of_rows import OfRows, function_of
from windrow.aggregates.whole import Extents, WholeWindow, results_dtype
from windrow.columns.arrow import Array
from windrow.errors import AggregateError
from windrow.imports import Allow, imported
from windrow.kernels.extents.levenberg_marquardt import levenberg_marquardt

__all__ = ["LevenbergMarquardt"]

PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
TOLERANCE = 1e-6
"""How near two fits of the same rows are: a fit ends when a further step would change little."""
QUALITY = ("r2", "residual", "iterations", "converged")
"""The fields of a result after the parameters."""


@dataclass(frozen=True, init=False, repr=False)
class LevenbergMarquardt(OfRows):
    """The parameters with which a model of your own fits the rows of a window best, by least squares.

    model
        ``model(x, p)``: a function of one x and a tuple of parameters. It is compiled with numba if it can be.
    x, y
        The columns. Of timestamps, the model gets the seconds since the first row of the window.
    p0
        Where every fit begins. So a result does not depend on other windows.
    names
        The names of the parameters in the result; ``p0``, ``p1`` … if none are given.

    The result is a struct: the parameters, then ``r2``, ``residual`` (the sum of squared errors), ``iterations``, and
    ``converged`` (1.0 or 0.0). It is null if there are fewer different x than parameters.

    >>> import math
    >>> import windrow as wr
    >>> def decay(x, p): return p[0] * math.exp(-p[1] * x)
    >>> fit = wr.LevenbergMarquardt(decay, "x", "y", p0=(1.0, 1.0), names=("height", "rate")).bind()
    >>> rows = [(x / 10, 3.0 * math.exp(-0.05 * x)) for x in range(40)]
    >>> found = fit.result(fit.fold(rows))
    >>> round(found["height"], 6), round(found["rate"], 6), found["converged"]
    (3.0, 0.5, 1.0)
    """

    model: Callable[[Any, Any], Any]
    p0: tuple[float, ...]
    names: tuple[str, ...]

    def __init__(
        self,
        model: Callable[[Any, Any], Any] | str,
        x: str,
        y: str,
        p0: Sequence[float],
        *,
        names: Sequence[str] | None = None,
        version: str | int | None = None,
    ) -> None:
        start = tuple(float(value) for value in p0)
        chosen = tuple(f"p{n}" for n in range(len(start))) if names is None else tuple(names)
        if len(chosen) != len(start) or len({*chosen, *QUALITY}) < len(chosen) + len(QUALITY):
            raise AggregateError(
                f"names of LevenbergMarquardt has to be {len(start)} different names, none of them "
                f"{', '.join(QUALITY)}, not {names!r}"
            )
        found = function_of("LevenbergMarquardt", "model", model)
        levenberg_marquardt(found, start)
        returns = dict.fromkeys((*chosen, *QUALITY), "f8")
        self.assign((x, y), returns, "drop", version, model=found, p0=start, names=chosen)

    @property
    def label(self) -> str:
        return f"LevenbergMarquardt({getattr(self.model, '__name__', 'model')}, {', '.join(self.reads)})"

    def functions(self) -> dict[str, Callable[..., Any]]:
        return {"model": self.model}

    def dense(self, types: Sequence[pa.DataType]) -> Monoid:
        for type_ in types if not pa.types.is_timestamp(types[0]) else types[1:]:
            dtype_of(type_, self)
        fit = self._fit(types[0])

        def of_window(*columns: Array) -> Any:
            found = fit(*columns)
            return None if np.isnan(found[0]) else found

        return replace(self.monoid(types, of_window), tolerance=TOLERANCE)

    def whole(self, types: Sequence[pa.DataType], *, compiled: bool = True) -> WholeWindow:
        rows = ApplyColumns(self.stored(types), results_dtype(self.returns))
        fit = whole_of(self._fit(rows.stored[0]), rows, self.fields, compiled=compiled)
        return Fitted(*rows, fit=fit)

    def _fit(self, x: pa.DataType) -> Callable[..., Any]:
        fit = levenberg_marquardt(self.model, self.p0)
        return _since_first_row(fit, PER_SECOND[x.unit]) if pa.types.is_timestamp(x) else fit

    def _form(self) -> dict[str, Any]:
        form = {name: value for name, value in super()._form().items() if name not in ("columns", "returns")}
        x, y = self.reads
        return {**form, "x": x, "y": y, "p0": list(self.p0), "names": list(self.names)}

    @classmethod
    def from_parameters(cls, parameters: dict[str, Any], allow: Allow) -> LevenbergMarquardt:
        path = parameters.get("model")
        if not isinstance(path, str):
            raise AggregateError(
                "a LevenbergMarquardt in a document has a 'model', such as 'jobs.models:decay'"
            )
        return cls(**{**parameters, "model": imported(path, allow, "model of LevenbergMarquardt")})


def _since_first_row(fit: Callable[..., Any], per_second: float) -> Callable[..., Any]:
    """A fit of the seconds since the first row: an epoch time leaves its differences no digits."""

    def fitted(x: Any, y: Any) -> Any:
        return fit((x - x[0]) / per_second, y)

    return fitted


@dataclass(frozen=True, kw_only=True)
class Fitted(WholeWindow):
    """Fits of windows; one without parameters is null."""

    fit: WholeWindow

    @property
    def compiled(self) -> bool:  # type: ignore[override]
        """Whether the model was compiled."""
        return self.fit.compiled

    def compute(self, windows: Extents, out: Array, ok: NDArray[np.bool_]) -> None:
        self.fit.compute(windows, out, ok)
        ok &= ~np.isnan(out[out.dtype.names[0]])
