# SPDX-License-Identifier: Apache-2.0
"""How far a result may be from the true one, or how many leaves a window may have: ``Query(within=…)``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from windrow.errors import QueryError

__all__ = ["AtMost", "Within", "within_from_dict"]


@dataclass(frozen=True, kw_only=True)
class Within:
    """Results within a distance of the true ones, in far fewer leaves than the window has slices.

    Give one of these:

    - ``relative``: at most this share of the true result, for ``Sum``, ``Count``, ``Mean``, ``Min`` and ``Max``;
    - ``absolute``: at most this number;
    - ``rows``: at most this share of the window's rows, or from 1 on this number of rows, is missing, for any aggregate.

    Each aggregate gets a column ``<name>_error`` beside its own. The true result is never further away than it says,
    whatever the data does; 0 means exact. Without ``confidence`` the promise is kept for certain; for sums and means in
    relative terms, as long as no value has the other sign. With ``confidence``, recent results predict later ones: that
    takes fewer leaves, and if the prediction fails, a result may be further away than promised. The error column says so,
    and such windows are counted. ``leaves`` is the largest number of leaves of a key; it wins over all other promises.

    >>> import windrow as wr
    >>> query = wr.Query(
    ...     window=wr.CountWindow(1000, 1), aggregates={"total": wr.Sum("load")}, within=wr.Within(relative=0.05)
    ... )
    >>> rows = {"ts": range(5000), "load": [7 + second % 10 for second in range(5000)]}
    >>> last = wr.aggregate(rows, query).to_pylist()[-1]
    >>> sorted(last), abs(last["total"] - 11500) <= last["total_error"] <= 0.05 * 11500
    (['total', 'total_error', 'window_end', 'window_start'], True)
    """

    relative: float | None = None
    absolute: float | None = None
    rows: float | None = None
    confidence: float | None = None
    leaves: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("relative", "absolute", "rows") if getattr(self, name) is not None]
        if len(given) != 1:
            told = " and ".join(given) or "none"
            raise QueryError(f"Within needs one of relative, absolute and rows; given: {told}")
        for name in ("relative", "absolute", "rows", "confidence"):
            _check_number(name, getattr(self, name))
        if self.relative is not None and self.relative >= 1.0:
            raise QueryError(
                f"relative of Within has to be below 1, not {self.relative!r}: 0.01 is one per cent"
            )
        if self.confidence is not None and not 0.5 <= self.confidence < 1.0:
            raise QueryError(
                f"confidence of Within has to be at least 0.5 and below 1, not {self.confidence!r}"
            )
        if self.confidence is not None and self.relative is None:
            raise QueryError(
                "confidence of Within works with relative only: other promises need no prediction; leave it out"
            )
        _check_leaves("Within", self.leaves)

    def to_dict(self) -> dict[str, Any]:
        """The parameters that were given."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class AtMost:
    """At most so many leaves for each key, whatever that does to the error. The error columns say what it does.

    The number holds at every row, not only between calls. Over time windows, slices that still take rows are not
    merged. They count, but half of the leaves stay for the others, however many are open.

    >>> AtMost(leaves=4096)
    AtMost(leaves=4096)
    >>> AtMost(leaves=0)
    Traceback (most recent call last):
    windrow.errors.QueryError: leaves of AtMost has to be a whole number of at least 4, not 0
    """

    leaves: int

    def __post_init__(self) -> None:
        _check_leaves("AtMost", self.leaves)

    def to_dict(self) -> dict[str, Any]:
        return {"leaves": self.leaves}


def within_from_dict(values: Any) -> Within | AtMost:
    """What ``to_dict`` wrote: an object with leaves alone is an :class:`AtMost`.

    >>> within_from_dict({"leaves": 100}), within_from_dict({"relative": 0.01}).relative
    (AtMost(leaves=100), 0.01)
    """
    known = ("relative", "absolute", "rows", "confidence", "leaves")
    if not isinstance(values, Mapping) or not values:
        raise QueryError(f"within has to be an object with some of {', '.join(known)}, not {values!r}")
    for name in values:
        if name not in known:
            raise QueryError(f"within has no parameter {name!r}; it has {', '.join(known)}")
    return AtMost(leaves=values["leaves"]) if list(values) == ["leaves"] else Within(**values)


def _check_number(name: str, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
        raise QueryError(f"{name} of Within has to be a number above 0, not {value!r}")


def _check_leaves(kind: str, leaves: Any) -> None:
    if leaves is None and kind == "Within":
        return
    if isinstance(leaves, bool) or not isinstance(leaves, int) or leaves < 4:
        raise QueryError(f"leaves of {kind} has to be a whole number of at least 4, not {leaves!r}")
