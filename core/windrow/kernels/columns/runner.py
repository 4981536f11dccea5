# SPDX-License-Identifier: Apache-2.0
"""Which kernel computes the windows of an aggregate over columns, and what it needs beside them.

============================  ==============================================================================
vectors                       the largest or smallest of numbers without nulls that slides by one row
fused                         partials that are a few numbers
in place                      partials with vectors, compiled; Python objects, interpreted
============================  ==============================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid
from windrow.aggregates.extremes import Max, Min
from windrow.columns.arrow import physical_dtype
from windrow.kernels.columns import boundary
from windrow.kernels.columns import simd_minmax as extremes
from windrow.kernels.columns.layout import Chunks, ColumnOutput, Input, RowSegments
from windrow.kernels.columns.lifted import fusible, row_slots
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise

Array = np.ndarray[Any, Any]
ALL_VALID: Array = np.empty(0, dtype=np.bool_)
"""For :class:`Input` without nulls, and for :class:`ColumnOutput` of which no result can be null."""


class Runner:
    """Runs the windows of one monoid; ``masked`` says that rows may be null, ``Input.valid`` is then not empty."""

    def __init__(self, monoid: Monoid, masked: bool, compiled: bool = True) -> None:
        self.monoid = monoid
        self.compiled = compiled and monoid.compiles
        self.fused = fusible(monoid)
        seam = row_slots(monoid, masked) if self.fused else slots(monoid)
        self.kernels = specialise(boundary, seam, compiled=self.compiled)
        self.vectors = None
        which = None if masked or not self.compiled else _extreme(monoid)
        if which is not None:
            lanes = min(32 // physical_dtype(monoid.output).itemsize, 16)
            self.vectors = specialise(extremes, {**seam, "LARGER": which is Max, "LANES": lanes}).run

    @property
    def flags(self) -> bool:
        """Does it say which results are null?"""
        return not self.fused or self.monoid.defined is not None

    def run(self, rows: Input, segments: RowSegments, out: ColumnOutput, range_: int, slide: int) -> None:
        """Every window of every segment into its place of the output."""
        columns = rows.columns
        if self.vectors is not None and slide == 1 and columns[0].flags.c_contiguous:
            room = np.empty(extremes.slots_needed(range_), dtype=out.values.dtype)
            self.vectors(columns[0], segments, room, out.values[: segments.places[-1]], range_)
            return
        if not self.monoid.typed:
            rows = rows._replace(columns=tuple(column.tolist() for column in columns))
        chunk = range_ // slide
        chunks = Chunks(allocate(self.monoid, chunk), allocate(self.monoid, chunk))
        if self.fused:
            self.kernels.fused(rows, segments, chunks, out, range_, slide)
        else:
            self.kernels.in_place(rows, segments, chunks, allocate(self.monoid, 3), out, range_, slide)


def _extreme(monoid: Monoid) -> type | None:
    """Max or Min, if the monoid is that of one of them over numbers."""
    if not monoid.typed or len(monoid.inputs) != 1:
        return None
    for kind in (Max, Min):
        ours = kind().dense(monoid.inputs)
        if (monoid.lift, monoid.combine, monoid.lower) == (ours.lift, ours.combine, ours.lower):
            return kind
    return None
