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
from windrow.aggregates.arrow import physical_dtype
from windrow.aggregates.extremes import Max, Min
from windrow.kernels import boundary, extremes
from windrow.kernels.rows import fusible, row_slots
from windrow.kernels.slots import allocate, slots
from windrow.kernels.specialise import specialise

Array = np.ndarray[Any, Any]
ALL_VALID: Array = np.empty(0, dtype=np.bool_)


class Runner:
    """The boundary algorithm for one monoid; ``masked`` says that rows may be null."""

    def __init__(self, monoid: Monoid, masked: bool, compiled: bool = True) -> None:
        self.monoid = monoid
        self.compiled = compiled and monoid.typed and physical_dtype(monoid.output).kind != "O"
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

    def run(
        self,
        columns: tuple[Any, ...],
        valid: Array | None,
        offsets: Array,
        places: Array,
        out: Array,
        ok: Array,
        range_: int,
        slide: int,
    ) -> None:
        """The windows of rows ``offsets[s]`` … into ``out[places[s]]`` …, for every segment s."""
        if self.vectors is not None and slide == 1 and columns[0].flags.c_contiguous:
            room = np.empty(extremes.slots_needed(range_), dtype=out.dtype)
            self.vectors(columns[0], offsets, places, room, out[: places[-1]], range_)
            return
        if not self.monoid.typed:
            columns = tuple(column.tolist() for column in columns)
        chunk = range_ // slide
        lcs, after = allocate(self.monoid, chunk), allocate(self.monoid, chunk)
        valid = ALL_VALID if valid is None else valid
        if self.fused:
            self.kernels.fused(columns, valid, offsets, places, lcs, after, out, ok, range_, slide)
        else:
            scratch = allocate(self.monoid, 3)
            self.kernels.in_place(
                columns, valid, offsets, places, lcs, after, scratch, out, ok, range_, slide
            )


def _extreme(monoid: Monoid) -> type | None:
    """Max or Min, if the monoid is that of one of them over numbers."""
    if not monoid.typed or len(monoid.inputs) != 1:
        return None
    for kind in (Max, Min):
        ours = kind().dense(monoid.inputs)
        if (monoid.lift, monoid.combine, monoid.lower) == (ours.lift, ours.combine, ours.lower):
            return kind
    return None
