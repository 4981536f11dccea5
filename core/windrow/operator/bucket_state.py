# SPDX-License-Identifier: Apache-2.0
"""What the buckets of one aggregate know, and the results with errors that follow from it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from windrow.approximate.bucket import Bucket
from windrow.approximate.estimate import BOUNDS, with_error
from windrow.columns import arrow
from windrow.errors import BoundWarning, QueryError
from windrow.kernels.partials import allocate, slots
from windrow.kernels.slices import bounds
from windrow.kernels.slices.bucket_layout import ROWS, Bounds
from windrow.kernels.slices.layout import DueWindows, Results, RowOrder, Slices
from windrow.kernels.specialise import specialise
from windrow.operator.partials import AggregateState, FinalAggregation
from windrow.operator.plan import Ints
from windrow.query.bound import BoundQuery

if TYPE_CHECKING:
    from windrow.operator.policy_forest import PolicyForest
    from windrow.operator.slices import SliceTable


class BucketState(AggregateState):
    """The partials of the buckets of one aggregate. It stands beside the state of the aggregate itself."""

    def __init__(
        self, name: str, bucket: Bucket, columns: tuple[str, ...], windows: int, compiled: bool
    ) -> None:
        super().__init__(name, bucket.monoid, columns, windows, compiled)
        self.bucket = bucket
        self.kernel = specialise(bounds, slots(bucket.monoid), compiled=compiled)

    def absorb(
        self, columns: Mapping[str, arrow.Physical], slots: Ints, rows: RowOrder | None, slices: Slices
    ) -> None:
        valid = np.empty(0, dtype=np.bool_)
        values: list[Any] = []
        if not self.bucket.keeps_nulls:
            values, valid = self.read(columns, keeps_nulls=False)
        self.place.absorb(
            self.partials.parts, slots, tuple(values) if self.monoid.inputs else (), valid, len(slots)
        )

    def absorb_partials(self, data: pa.Table, slots: Ints) -> None:
        raise QueryError("within= needs rows, not partials of slices: give the operator rows")

    def bounds(
        self, table: SliceTable, due: DueWindows, count: int, *, counting: bool, sampling: bool
    ) -> Bounds:
        """Between which bounds the results of due windows lie. ``sampling`` keeps them for predictions."""
        found = arrow.blanks(Bounds, count, BOUNDS, fill=0)
        self.kernel.bound(
            self.own_scratch(), table.slices, due, table.slot_room, table.key_room, found, count,
            self.bucket.kind, counting, sampling,
        )  # fmt: skip
        return found

    def bounds_searched(
        self, table: SliceTable, forest: PolicyForest, due: DueWindows, *, sampling: bool
    ) -> Bounds:
        """As :meth:`bounds`, for windows whose beginning was searched in a forest."""
        found = arrow.blanks(Bounds, count := len(due.key), BOUNDS, fill=0)
        rests, work = forest.partials(self, due), allocate(self.monoid, 2)
        self.kernel.bound_searched(
            self.partials.parts, table.slices, due, rests, work, found, count, self.bucket.kind, sampling
        )
        return found


class BucketAggregation(FinalAggregation):
    """The boundary aggregator, or a forest of policy windows, with a bound on the error of every result.

    ``relative``, ``absolute`` and ``rows`` are what the query promises; windows that exceed it are counted.
    """

    tasks = 0

    def __init__(self, bound: BoundQuery, *, counting: bool, forest: PolicyForest | None = None) -> None:
        self.bucket, self.counting, self.forest = bound.buckets, counting, forest
        self.by_key = forest is None
        self.within: Any = bound.query.within
        self.sampling = getattr(self.within, "confidence", None) is not None
        self.exceeded = 0
        """How many windows have a larger error than the query promises."""

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        states = {state.name: state for state in table.aggregates}
        due = DueWindows(*(column[:count] for column in due))
        found: dict[str, Results] = {}
        exceeded = np.zeros(count, dtype=np.bool_)
        for name, bucket in self.bucket.items():
            state = states[f"{name}_error"]
            assert isinstance(state, BucketState)
            if self.forest is None:
                results = states[name].results(table, due, count)
                known = state.bounds(table, due, count, counting=self.counting, sampling=self.sampling)
            else:
                results = self.forest.of(table, states[name], due)
                known = state.bounds_searched(table, self.forest, due, sampling=self.sampling)
                cut = table.slices.older[due.lo[known.inside]]
                due.start[known.inside] = table.slices.stamp[cut]  # it may begin there, and not before
            results, error = with_error(bucket, results, known)
            found[name], found[f"{name}_error"] = results, Results(error, np.ones(count, dtype=np.bool_))
            exceeded |= self._exceeds(bucket, results.out, error, known)
        self._tell(int(due.repeat[:count][exceeded].sum()))
        return found

    def rearranged(self, table: SliceTable, key: int, gone: Ints, new: Ints) -> None:
        if self.forest is not None:
            self.forest.rearranged(table, key, gone, new)

    def forget(self, keys: Ints) -> None:
        if self.forest is not None:
            self.forest.forget(keys)

    def peek(self, table: SliceTable, *, begin: bool) -> None:
        """Unfinished windows are computed from here on, or no more: they are no sample."""
        self.sampling = not begin and getattr(self.within, "confidence", None) is not None

    def _tell(self, windows: int) -> None:
        if windows and not self.exceeded:
            warnings.warn(
                f"{windows} window(s) may be further from the true result than {self.within} promises; "
                "the error columns say how far, and Operator.exceeded counts such windows",
                BoundWarning,
                stacklevel=2,
            )
        self.exceeded += windows

    def _exceeds(self, bucket: Bucket, out: Any, error: Any, known: Bounds) -> Any:
        within = self.within
        if getattr(within, "absolute", None) is not None:
            return error > within.absolute * (1.0 + 1e-9)
        if getattr(within, "relative", None) is not None and bucket.kind != ROWS:
            nearest = np.maximum(np.maximum(known.low, -known.high), 0.0)
            return known.inside & (error > within.relative * (1.0 + 1e-9) * nearest + 1e-300)
        return np.zeros(len(error), dtype=np.bool_)
