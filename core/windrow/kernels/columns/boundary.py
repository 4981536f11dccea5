# SPDX-License-Identifier: Apache-2.0
"""SBA over whole columns, for ``wr.sliding``: every count-based window of every segment.

A window is ⌊range/slide⌋ slices of ``slide`` rows and, if the slide does not divide the range, a fragment of
the slice that follows. A chunk is as many slices as a window has. When a chunk is complete, one pass from
right to left leaves in slot k of ``lcs`` the aggregate of slice k and all that follow it in the chunk; then,
as slices of the next chunk are read, ``csa`` aggregates them from left to right, and

    window k of the chunk  =  lcs[k]  ⊕  csa  ⊕  fragment

That is two or three combines per window. Two forms give the same result: :func:`fused` holds partials in
registers and lifts rows as it reads them; :func:`in_place` works on slots, for vectors and Python objects.

The boundary aggregator exists four times, because its callers know different things:

================================  ===========================================================================
:mod:`windrow.algorithms.sba`     one window that a caller inserts into, evicts from and queries as it likes.
                                  The chunk size is that of the paper, and the state is n + 3 partials. A query
                                  that names SBA or PBA runs it.
this module                       all rows are there, and all windows have the same length. A chunk is a window
                                  long, so there is no chunk aggregate (``ca``), no ring and no eviction.
``kernels/columns/simd_minmax``   as this module, for the largest or smallest number: scans over vectors.
``kernels/slices/combine``        the operator's slices, many keys at once, windows of any shape. The boundary
                                  moves to a window's end when the window has passed it, so no size is needed.
================================  ===========================================================================

Zhang, Akbarinia, Toumani, *Efficient Incremental Computation of Aggregations over Sliding Windows*, KDD 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windrow.kernels.columns.layout import Chunks, ColumnOutput, Input, RowSegments
from windrow.kernels.columns.lifted import emit, join, nothing, row
from windrow.kernels.partials import add, clear, defined, load, lower, merge, store

NONE: Any = np.uint64(0)
ONE: Any = np.uint64(1)
"""Positions are unsigned: no compiled access has to ask whether a position counts from the end."""

FIRST: Any = np.int64(0)
CSA: Any = np.int64(0)
PART: Any = np.int64(1)
WINDOW: Any = np.int64(2)
"""Slots, as numbers that are no literals: for each literal, numba would compile what is called with it anew."""


def fused(
    rows: Input, segments: RowSegments, chunks: Chunks, out: ColumnOutput, range_: int, slide: int
) -> None:
    """All windows, partials in registers. ``chunks`` has room for range // slide partials each."""
    offsets, places = segments.offsets, segments.places
    for segment in range(len(offsets) - 1):
        begin, place = np.uint64(offsets[segment]), np.uint64(places[segment])
        windows = np.uint64(places[segment + 1] - places[segment])
        if windows > NONE:
            if slide == 1:
                by_row(rows, begin, windows, chunks, out, place, np.uint64(range_))
            else:
                by_slice(rows, begin, windows, chunks, out, place, np.uint64(range_), np.uint64(slide))


def by_row(
    rows: Input, begin: Any, windows: Any, chunks: Chunks, out: ColumnOutput, place: Any, chunk: Any
) -> None:
    """Windows that slide by one row: the two passes over a chunk are one loop of two independent chains."""
    lcs, after = chunks.lcs, chunks.after
    acc = nothing()
    for k in range(chunk):
        j = chunk - ONE - k
        acc = join(row(rows, begin + j), acc)
        store(lcs, j, acc)
    at = begin + chunk
    left = windows - ONE
    while left >= chunk:
        csa = nothing()
        acc = nothing()
        for k in range(chunk):
            emit(out, place + k, join(load(lcs, k), csa))
            csa = join(csa, row(rows, at + k))
            j = chunk - ONE - k
            acc = join(row(rows, at + j), acc)
            store(after, j, acc)
        lcs, after = after, lcs
        at += chunk
        place += chunk
        left -= chunk
    csa = nothing()
    emit(out, place, join(load(lcs, NONE), csa))
    for k in range(left):
        csa = join(csa, row(rows, at + k))
        emit(out, place + k + ONE, join(load(lcs, k + ONE), csa))


def by_slice(
    rows: Input,
    begin: Any,
    windows: Any,
    chunks: Chunks,
    out: ColumnOutput,
    place: Any,
    range_: Any,
    slide: Any,
) -> None:
    """Windows that slide by several rows."""
    lcs, after = chunks.lcs, chunks.after
    chunk = range_ // slide
    fragment = range_ - chunk * slide
    for k in range(chunk):
        store(lcs, k, fold(nothing(), rows, begin + k * slide, slide))
    suffixes(lcs, chunk)
    k = NONE
    csa = nothing()
    for w in range(windows):
        at = begin + (w + chunk) * slide
        if k == chunk and chunk > NONE:
            suffixes(after, chunk)
            lcs, after = after, lcs
            csa = nothing()
            k = NONE
        part = fold(nothing(), rows, at, fragment)
        if chunk == NONE:
            emit(out, place + w, part)
        else:
            emit(out, place + w, join(join(load(lcs, k), csa), part))
            if w + ONE < windows:
                part = fold(part, rows, at + fragment, slide - fragment)
                store(after, k, part)
                csa = join(csa, part)
            k += ONE


def fold(partial: Any, rows: Input, begin: Any, count: Any) -> Any:
    """The partial, joined with rows."""
    for i in range(count):
        partial = join(partial, row(rows, begin + i))
    return partial


def suffixes(parts: Any, count: Any) -> None:
    """From right to left, every slot becomes the aggregate of itself and all to its right."""
    for k in range(ONE, count):
        j = count - ONE - k
        store(parts, j, join(load(parts, j), load(parts, j + ONE)))


def in_place(
    rows: Input,
    segments: RowSegments,
    chunks: Chunks,
    scratch: Any,
    out: ColumnOutput,
    range_: int,
    slide: int,
) -> None:
    """All windows, partials in slots. ``chunks`` has room for range // slide partials each, ``scratch`` for 3.

    It is one function, because an aggregate's ``lower`` may be large, and each function that is compiled with
    it takes the compiler as long again.
    """
    (lcs, after), (values, ok), places = chunks, out, segments.places
    chunk = range_ // slide
    fragment = range_ - chunk * slide
    for segment in range(len(places) - 1):
        begin, place = segments.offsets[segment], places[segment]
        windows = places[segment + 1] - place
        if windows > 0:
            for k in range(chunk):
                clear(lcs, k)
                absorb(lcs, k, rows, begin + k * slide, slide)
            merge_suffixes(lcs, chunk)
            clear(scratch, CSA)
        k = FIRST
        for w in range(windows):
            at = begin + (w + chunk) * slide
            if k == chunk and chunk > 0:
                merge_suffixes(after, chunk)
                lcs, after = after, lcs
                clear(scratch, CSA)
                k = FIRST
            clear(scratch, PART)
            absorb(scratch, PART, rows, at, fragment)
            if chunk == 0:
                clear(scratch, WINDOW)
                merge(scratch, WINDOW, scratch, WINDOW, scratch, PART)
            else:
                merge(scratch, WINDOW, lcs, k, scratch, CSA)
                if fragment > 0:
                    merge(scratch, WINDOW, scratch, WINDOW, scratch, PART)
            ok[place + w] = defined(scratch, WINDOW)
            if ok[place + w]:
                values[place + w] = lower(scratch, WINDOW)
            if chunk > 0 and w + 1 < windows:
                absorb(scratch, PART, rows, at + fragment, slide - fragment)
                clear(after, k)
                merge(after, k, after, k, scratch, PART)
                merge(scratch, CSA, scratch, CSA, scratch, PART)
            k += 1


def absorb(parts: Any, i: int, rows: Input, begin: int, count: int) -> None:
    """Rows into a slot; all of them if ``valid`` is empty, else those that it calls valid."""
    valid = rows.valid
    for r in range(begin, begin + count):
        if len(valid) == 0 or valid[r]:
            add(parts, i, r, rows.columns)


def merge_suffixes(parts: Any, count: int) -> None:
    for k in range(count - 2, -1, -1):
        merge(parts, k, parts, k, parts, k + 1)
