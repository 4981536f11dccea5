# SPDX-License-Identifier: Apache-2.0
"""SBA over whole columns for the largest or smallest number, with vectors: as fast as memory allows.

:mod:`windrow.kernels.columns.boundary` says which other forms of SBA there are, and why. Its two passes over a
chunk are scans, and a scan of single numbers waits for each comparison before it starts the next. Here a scan
takes a vector at a time: within the vector in log₂(lanes) steps, each combining every lane with the lane
1, 2, 4 … places before it, then one step with what was carried so far.

    lanes    3 1 4 1 5 9 2 6        distance 1    3 3 4 4 5 9 9 6        2    3 3 4 4 5 9 9 9        4 …

Ranges up to :data:`SHORT` need no scan: the extreme is idempotent, so a window is a few overlapping windows
of a few rows.

Vectors are compared with one instruction, which gives wrong results for NaN. So each pass also returns whether
it saw one, and a chunk with a NaN is computed again with the aggregate's own ``combine``. Either way the results
have the bits of the generic kernel: NaN beats numbers, and the first of equals stays (−0.0 equals 0.0).

numba has no vector type, so the three loops over vectors are written as LLVM instructions
(:mod:`windrow.kernels.columns.vectors`); everything else is Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.core.cgutils
import numba.extending

from windrow.kernels.columns.layout import RowSegments
from windrow.kernels.columns.lifted import join, nothing
from windrow.kernels.columns.vectors import Vectors

types: Any = numba.types
cgutils: Any = numba.core.cgutils

LARGER = True
"""Which extreme; bound when the module is specialised."""

LANES = 8
"""Numbers in a vector; bound when the module is specialised."""

SHORT = 36
"""Up to this range, windows are overlapped instead of scanned."""

PIECE = 128
"""A chunk is worked on in pieces of about this many rows, in the nearest cache."""

AHEAD = 2 * PIECE
"""How many rows ahead a scan from right to left prefetches: those rows have left the cache."""

TILE = 1024
"""Windows that are overlapped at a time, in the nearest cache."""

SPARE = 2 * 16
"""How many more slots than a chunk, or a tile, the scratch has: vectors may overrun it on both sides."""


def slots_needed(range_: int) -> int:
    """The length of ``scratch``."""
    return max(range_, 2 * (TILE + SHORT)) + 2 * SPARE + pieces_of(range_) + 1


def pieces_of(chunk: int) -> int:
    """How many pieces a chunk has; piece i begins at row ``i * chunk // pieces`` of it."""
    return max(1, chunk // PIECE)


def run(values: Any, segments: RowSegments, scratch: Any, out: Any, range_: int) -> None:
    """All windows that slide by one row. ``scratch`` is of :func:`slots_needed`."""
    offsets, places = segments.offsets, segments.places
    for segment in range(len(offsets) - 1):
        windows = places[segment + 1] - places[segment]
        if windows > 0:
            if range_ <= SHORT:
                tiles(values, offsets[segment], windows, scratch, out, places[segment], range_)
            else:
                chunks(values, offsets[segment], windows, scratch, out, places[segment], range_)


def chunks(values: Any, begin: int, windows: int, scratch: Any, out: Any, place: int, chunk: int) -> None:
    """The windows of one segment, a chunk at a time, and a chunk a piece at a time.

    A window that begins in a piece is the rest of that piece, the pieces up to one chunk later, and the
    beginning of that one. The pieces between are a single number, the same for all windows of the piece.
    """
    identity = nothing()[0]
    pieces = pieces_of(chunk)
    best = len(scratch) - pieces - 1  # here begin the extremes of a chunk's pieces
    was_odd = False
    for i in range(pieces if pieces > 1 else 0):
        start, stop = i * chunk // pieces, (i + 1) * chunk // pieces
        was_odd |= right_to_left(values, begin + start, stop - start, scratch, identity)
        scratch[best + i] = scratch[LANES]
    scratch[best + pieces] = identity
    for first in range(0, windows, chunk):
        count = min(chunk, windows - first)
        row, at = begin + first, place + first
        for i in range(pieces - 2, -1, -1):
            scratch[best + i] = better(scratch[best + i], scratch[best + i + 1])
        odd, csa = False, identity
        for i in range(pieces):
            start, stop = i * chunk // pieces, min((i + 1) * chunk // pieces, count)
            if start >= stop:
                break
            between = better(scratch[best + i + 1], csa)
            size = (i + 1) * chunk // pieces - start
            odd |= right_to_left(values, row + start, size, scratch, between)
            out[at + start] = scratch[LANES]
            last = row + chunk + stop - 1
            met, young = left_to_right(
                values, last - (stop - 1 - start), stop - 1 - start, scratch, out, at + start + 1, pieces == 1
            )
            odd |= met
            if pieces > 1 and last < len(values):
                odd |= values[last] != values[last]
                young = better(young, values[last])
                scratch[best + i] = young
                csa = better(csa, young)
        if odd or was_odd:
            carefully(values, row, chunk, scratch, out, at, count)
        was_odd = odd


def right_to_left(values: Any, row: int, count: int, lcs: Any, carry: Any) -> bool:
    """Fill ``lcs``, of which row k has slot LANES + k; true if a NaN was seen."""
    vectors = count // LANES
    if count > vectors * LANES and row + count >= (vectors + 1) * LANES:
        vectors += 1
    acc, odd = scan_back(values, row + count, vectors, lcs, LANES + count, carry)
    for k in range(count - vectors * LANES - 1, -1, -1):
        value = values[row + k]
        odd |= value != value
        acc = better(value, acc)
        lcs[LANES + k] = acc
    return bool(odd)


def left_to_right(
    values: Any, row: int, count: int, lcs: Any, out: Any, at: int, overrun: bool
) -> tuple[bool, Any]:
    """Fill ``out`` with the windows that reach ``count`` rows further than the first of their piece.

    True if a NaN was seen, and the extreme of those rows, or of a few more if it may ``overrun`` them.
    """
    vectors = count // LANES
    if overrun and row + (vectors + 1) * LANES <= len(values) and at + (vectors + 1) * LANES <= len(out):
        vectors += count > vectors * LANES
    csa, odd = scan_on(values, row, vectors, lcs, LANES + 1, out, at, nothing()[0])
    for k in range(vectors * LANES, count):
        value = values[row + k]
        odd |= value != value
        csa = better(csa, value)
        out[at + k] = better(lcs[LANES + 1 + k], csa)
    return bool(odd), csa


def carefully(values: Any, row: int, chunk: int, lcs: Any, out: Any, at: int, count: int) -> None:
    """The windows of one chunk, one number at a time, with NaN."""
    acc = nothing()
    for k in range(chunk - 1, -1, -1):
        acc = join((values[row + k],), acc)
        lcs[LANES + k] = acc[0]
    out[at] = acc[0]
    csa = nothing()
    for k in range(1, count):
        csa = join(csa, (values[row + chunk + k - 1],))
        out[at + k] = join((lcs[LANES + k],), csa)[0]


def tiles(values: Any, begin: int, windows: int, scratch: Any, out: Any, place: int, range_: int) -> None:
    """The windows of one segment when the range is short: windows of ``width`` rows, then as many of those
    as make one of ``range_``.
    """
    width = 4 if range_ <= 16 else 6
    for first in range(0, windows, TILE):
        count = min(TILE, windows - first)
        row, at = begin + first, place + first
        if range_ <= width:
            odd = overlap(values, row, 1, range_ - 1, out, at, count, width)
        else:
            odd = overlap(values, row, 1, width - 1, scratch, 0, count + range_ - width, width)
            overlap(scratch, 0, width, range_ - width, out, at, count, width)
        if odd:
            for w in range(count):
                acc = nothing()
                for i in range(row + w, row + w + range_):
                    acc = join(acc, (values[i],))
                out[at + w] = acc[0]


def overlap(source: Any, row: int, step: int, last: int, target: Any, at: int, count: int, ways: int) -> bool:
    """target[at + i] becomes the extreme of ``ways`` rows: i, i + step, i + 2 · step …, none after i + last.

    True if a NaN was seen.
    """
    vectors = (count + LANES - 1) // LANES
    if row + vectors * LANES + last > len(source) or at + vectors * LANES > len(target):
        vectors = count // LANES
    if ways == 4:
        odd = combine_four(source, row, step, last, vectors, target, at)
    else:
        odd = combine_six(source, row, step, last, vectors, target, at)
    for i in range(vectors * LANES, count):
        acc = source[row + i]
        odd |= acc != acc
        for way in range(1, ways):
            value = source[row + i + min(way * step, last)]
            odd |= value != value
            acc = better(acc, value)
        target[at + i] = acc
    return bool(odd)


def better(a: Any, b: Any) -> Any:
    """The extreme of two numbers; the first of equals."""
    return b if (b > a if LARGER else b < a) else a


# Loops over vectors.


def vector_loop(define: Callable[..., Any]) -> Any:
    """A function that is written as LLVM instructions."""
    return numba.extending.intrinsic(define)


@vector_loop
def scan_back(
    context: Any, values: Any, end: Any, vectors: Any, lcs: Any, slot: Any, carry: Any
) -> tuple[Any, Any]:
    """From right to left over the vectors that end before row ``end``, into those before ``slot``."""
    signature = types.Tuple((carry, types.boolean))(values, types.intp, types.intp, lcs, types.intp, carry)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v = Vectors(context, builder, values.dtype, LANES, LARGER)
        rows, count = v.at(values, arguments[0], arguments[1]), arguments[2]
        slots = v.at(lcs, arguments[3], arguments[4])
        carried, odd = v.variable(v.all_lanes(arguments[5])), v.none_odd()
        with cgutils.for_range(builder, count) as loop:
            place = builder.mul(builder.not_(loop.index), v.lanes)  # −(index + 1) vectors
            v.prefetch(rows, builder.add(place, v.whole(AHEAD)))
            vector = v.load(rows, place)
            v.note_odd(odd, vector)
            for distance in v.distances():
                vector = v.better(vector, v.lanes_after(vector, distance))
            before = builder.load(carried)
            v.store(v.better(vector, before), slots, place)
            builder.store(v.better(v.lane(vector, 0), before), carried)
        return v.result(signature, v.first(builder.load(carried)), v.any_odd(odd))

    return signature, generate


@vector_loop
def scan_on(
    context: Any, values: Any, row: Any, vectors: Any, lcs: Any, slot: Any, out: Any, place: Any, carry: Any
) -> tuple[Any, Any]:
    """From left to right over vectors of rows; each, combined with that of ``lcs``, into ``out``."""
    signature = types.Tuple((carry, types.boolean))(
        values, types.intp, types.intp, lcs, types.intp, out, types.intp, carry
    )

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        v = Vectors(context, builder, values.dtype, LANES, LARGER)
        rows, count = v.at(values, arguments[0], arguments[1]), arguments[2]
        slots, places = v.at(lcs, arguments[3], arguments[4]), v.at(out, arguments[5], arguments[6])
        carried, odd = v.variable(v.all_lanes(arguments[7])), v.none_odd()
        with cgutils.for_range(builder, count) as loop:
            place = builder.mul(loop.index, v.lanes)
            vector = v.load(rows, place)
            v.note_odd(odd, vector)
            for distance in v.distances():
                vector = v.better(v.lanes_before(vector, distance), vector)
            before = builder.load(carried)
            v.store(v.better(v.load(slots, place), v.better(before, vector)), places, place)
            builder.store(v.better(before, v.lane(vector, LANES - 1)), carried)
        return v.result(signature, v.first(builder.load(carried)), v.any_odd(odd))

    return signature, generate


def overlapping(ways: int) -> Any:
    """A loop over vectors of the extreme of ``ways`` rows, as :func:`overlap` says."""

    @vector_loop
    def combine(
        context: Any, source: Any, row: Any, step: Any, last: Any, vectors: Any, target: Any, at: Any
    ) -> tuple[Any, Any]:
        signature = types.boolean(source, types.intp, types.intp, types.intp, types.intp, target, types.intp)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            v = Vectors(context, builder, source.dtype, LANES, LARGER)
            rows: Any = v.at(source, arguments[0], arguments[1])
            step, last, count = arguments[2:5]
            places, odd = v.at(target, arguments[5], arguments[6]), v.none_odd()
            distances = [v.least(builder.mul(step, v.whole(way)), last) for way in range(1, ways)]
            with cgutils.for_range(builder, count) as loop:
                place = builder.mul(loop.index, v.lanes)
                best = v.load(rows, place)
                v.note_odd(odd, best)
                for distance in distances:
                    vector = v.load(rows, builder.add(place, distance))
                    best = v.better(best, vector)
                v.note_odd(odd, vector)
                v.store(best, places, place)
            return v.any_odd(odd)

        return signature, generate

    return combine


combine_four, combine_six = overlapping(4), overlapping(6)
