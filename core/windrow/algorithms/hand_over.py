# SPDX-License-Identifier: Apache-2.0
"""PBA over a whole column: the loop that inserts and queries in one thread, the worker's in another.

They share a mailbox of a few words (:mod:`windrow.algorithms.mailbox`), so that neither returns to Python before
the end. Between boundaries the column runs through the kernels of SBA; at a boundary the finished chunk is
ordered from the worker, and before the window's first slice enters a chunk its order must be done. No more
than two orders are under way, one for the first chunk of the window and one for the middle one.
"""

from __future__ import annotations

from typing import Any

from windrow.algorithms import mailbox
from windrow.algorithms.base import HEAD, TAIL, fill_lcs, run
from windrow.algorithms.sba import CHUNK, FIRST, LAST, LCS_BEGIN, LCS_END, MIDDLE
from windrow.kernels.columns.layout import ColumnOutput, Input

ORDERED, TAKEN, CLOSED, FROM, TO, DONE, WORDS = 0, 1, 2, 3, 5, 7, 9
"""How many orders were given, how many were taken, and whether the worker shall end; then, for two orders at a
time, where the chunk begins and ends, and the order's number once it is done."""


def run_with_worker(
    state: Any, mail: Any, scratch: Any, rows: Input, end: int, range_: int, slide: int, out: ColumnOutput
) -> None:
    """All rows up to ``end``; each chunk that the kernels leave without its lcs is ordered."""
    meta, saa = state[0], state[1]
    row = 0
    while row < end:
        # Nothing is ordered or waited for until the window is full, a boundary comes, or another chunk is first.
        slides = meta[LAST] + meta[CHUNK] - meta[TAIL]
        missing = range_ // slide - (meta[TAIL] - meta[HEAD])
        left = meta[MIDDLE] - meta[HEAD]
        if missing > 0:
            slides = missing if slides <= 0 else min(slides, missing)
        else:
            settle_chunk(saa, mail, meta[FIRST])
        if left > 0:
            slides = left if slides <= 0 else min(slides, left)
        stop = min(row + slide * max(slides, 1), end)
        run(state, scratch, rows, row, stop, range_, slide, out)
        if meta[LCS_BEGIN] < meta[LCS_END]:
            order = mail[ORDERED] + 1
            mail[FROM + (order & 1)] = meta[LCS_BEGIN]
            mail[TO + (order & 1)] = meta[LCS_END]
            mailbox.write(mail, ORDERED, order)
            meta[LCS_BEGIN] = meta[LCS_END]
        row = stop


def settle_chunk(saa: Any, mail: Any, begin: int) -> None:
    """Return once the lcs of the chunk that begins here is there. If the worker has not begun with it, this
    thread computes it.
    """
    order = mail[ORDERED]
    if order > 0 and mail[FROM + (order & 1)] != begin:
        order -= 1
    if order <= 0 or mail[FROM + (order & 1)] != begin:
        return
    turns = 0
    while mailbox.read(mail, DONE + (order & 1)) != order:
        if mailbox.swap(mail, TAKEN, order - 1, order):
            carry_out(saa, mail, order)
        mailbox.rest(turns)
        turns += 1


def serve(saa: Any, mail: Any) -> None:
    """The worker's loop: carry out orders, until none is left and the mailbox is closed."""
    turns = 0
    while True:
        closed, taken = mailbox.read(mail, CLOSED), mailbox.read(mail, TAKEN)
        if taken < mailbox.read(mail, ORDERED):
            if mailbox.swap(mail, TAKEN, taken, taken + 1):
                carry_out(saa, mail, taken + 1)
            turns = 0
        elif closed:
            return
        else:
            mailbox.rest(turns)
            turns += 1


def carry_out(saa: Any, mail: Any, order: int) -> None:
    """Compute the lcs that was ordered, and mark the order as done. The first entry of the lcs is left out: it
    would be the chunk's ca.
    """
    fill_lcs(saa, mail[FROM + (order & 1)] + 1, mail[TO + (order & 1)])
    mailbox.write(mail, DONE + (order & 1), order)
