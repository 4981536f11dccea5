# SPDX-License-Identifier: Apache-2.0
"""Windows over slices: which are due, and which slices they leave behind. No aggregate takes part here.

``plan_*`` slide the windows of each key on and list those that are due. They go through keys or rows from
``begin`` on and return ``(reached, count, wake)``: the position reached, the number of entries listed, and
the earliest end of a window that is not due yet. If the list is full, ``reached`` is where the next call
begins. If a window begins inside a folded slice, they return ``(UNFOLD, slot, …)``; see :func:`stopped`.

``evict_*`` free the slices that no window needs any more.
"""

from __future__ import annotations

from windrow.kernels.slices.layout import FOREVER, LEVEL, NONE, UNFOLD, UNSET


def emit(due, count, slides, key, which, start, end, lo, hi, repeat):
    """List windows over the slices lo to hi, and slide to them."""
    flip = slides.front[which, key] == NONE
    due.key[count] = key
    due.which[count] = which
    due.start[count] = start
    due.end[count] = end
    due.lo[count] = lo
    due.hi[count] = hi
    due.back[count] = slides.back[which, key]
    due.flip[count] = flip
    due.repeat[count] = repeat
    if flip:
        slides.front[which, key] = hi
    slides.back[which, key] = hi
    slides.lo[which, key] = lo
    return count + 1


def pass_by(slides, which, key, slot):
    """A window leaves a slice behind. When it leaves the last slice that lcs covers, lcs is used up."""
    if slides.front[which, key] == slot:
        slides.front[which, key] = NONE


def stopped(begin, reached, count, folded, wake):
    """What a plan returns at a folded slice inside which a window begins.

    Windows that were listed before are computed over the slices as they are. So the plan first returns where
    it has come to. Called again from there, it returns the slice to unfold.
    """
    if count > 0 or reached > begin:
        return reached, count, wake
    return UNFOLD, folded, wake


def first_window(stamp, grid, which):
    """The id of the first window that holds a stamp, as ``windrow.windows.grid`` has it."""
    return (stamp - grid.offset[which] - grid.range[which]) // grid.slide[which] + 1


def last_window(stamp, grid, which):
    """The id of the last window that holds a stamp, or in a gap the last one that starts before it."""
    return (stamp - grid.offset[which]) // grid.slide[which]


def plan_fixed(slices, slides, due, begin, keys, limit, grid):
    """Windows of a grid that end at or before the limit of their key (an array of one: of all keys)."""
    count = 0
    wake = FOREVER
    for position in range(begin, len(keys)):
        key = keys[position]
        until = limit[key] if len(limit) > 1 else limit[0]
        for which in range(len(grid.range)):
            if slices.first[key] == NONE:
                continue
            count, end, folded = slide_on(slices, slides, due, count, key, which, grid, until)
            if folded != NONE:
                return stopped(begin, position, count, folded, wake)
            if end == UNSET:
                return position, count, wake
            wake = min(wake, end)
    return len(keys), count, wake


def slide_on(slices, slides, due, count, key, which, grid, until):
    """Slide one window of one key on and list what is due.

    Returns the number of entries, the end of the first window that is not due (UNSET if the list is full), and
    the folded slice that has to be unfolded first (NONE if there is none).
    """
    length, slide, offset = grid.range[which], grid.slide[which], grid.offset[which]
    k = slides.following[which, key]
    following = k  # rows to come may still make an earlier window than the next one found here
    p = resumed(slices, slides, which, key, grid)
    back = slides.back[which, key]
    next_end = FOREVER
    folded = NONE
    while True:
        if k != UNSET:
            p, folded = leave_before(slices, slides, which, key, p, offset + k * slide)
        if p == NONE:
            break
        if k == UNSET or slices.stamp[p] - offset - length >= k * slide:  # it begins behind window k
            k = first_window(slices.stamp[p], grid, which)
            if last_window(slices.stamp[p], grid, which) < k:  # in a gap of this window
                if slices.page[p] == 0:
                    pass_by(slides, which, key, p)
                    p = slices.newer[p]
                    continue
                folded = p
        if folded != NONE:
            break
        end = offset + k * slide + length
        if end > until:
            next_end = end
            break
        if count == len(due.key):
            next_end = UNSET
            break
        if slides.front[which, key] == NONE or back == NONE:
            back = p
        while slices.newer[back] != NONE and slices.stamp[slices.newer[back]] < end:
            back = slices.newer[back]
        repeat = same_slices(slices, p, slices.newer[back], k, which, grid, until)
        count = emit(due, count, slides, key, which, end - length, end, p, back, repeat)
        k += repeat
        following = k
    slides.following[which, key] = following
    slides.lo[which, key] = p
    return count, next_end, folded


def resumed(slices, slides, which, key, grid):
    """Where the window goes on: its first slice when it was planned last, or slices before it that came since."""
    p = slides.lo[which, key]
    k = slides.following[which, key]
    if p == NONE or k == UNSET:
        return slices.first[key]
    begins = grid.offset[which] + k * grid.slide[which]
    while slices.older[p] != NONE and slices.stamp[slices.older[p]] >= begins:
        p = slices.older[p]
    return p


def leave_before(slices, slides, which, key, p, begins):
    """Leave the slices before the beginning of a window; the first one after, and a folded one it begins in."""
    while p != NONE and slices.stamp[p] < begins:
        if slices.page[p] != 0 and slices.stop[p] >= begins:
            return p, p
        pass_by(slides, which, key, p)
        p = slices.newer[p]
    return p, NONE


def same_slices(slices, p, newer, k, which, grid, until):
    """How many windows, from window k on, are due and have the same slices: p to the one before ``newer``."""
    length, slide, offset = grid.range[which], grid.slide[which], grid.offset[which]
    end = offset + k * slide + length
    if slices.stamp[p] < end - length + slide or (newer != NONE and slices.stamp[newer] < end + slide):
        return 1
    last = min(last_window(slices.stamp[p], grid, which), (until - offset - length) // slide)
    if newer != NONE:
        last = min(last, (slices.stamp[newer] - offset - length) // slide)
    bucket = slices.older[p]
    if bucket != NONE and slices.stop[bucket] >= end - length:
        last = min(
            last, last_window(slices.stop[bucket], grid, which)
        )  # others do not begin inside the bucket
    return last - k + 1


def plan_sessions(slices, slides, due, begin, keys, watermark, gap):
    """Sessions that no row can join any more."""
    count = 0
    wake = FOREVER
    for position in range(begin, len(keys)):
        key = keys[position]
        p = slices.first[key]
        while p != NONE:
            if slices.stamp[p] < slides.following[0, key]:
                p = slices.newer[p]
                continue
            if slices.stop[p] + gap >= watermark:
                wake = min(wake, slices.stop[p] + gap + 1)
                break
            if count == len(due.key):
                return position, count, wake
            slides.front[0, key] = NONE
            slides.following[0, key] = slices.stamp[p] + 1
            count = emit(due, count, slides, key, 0, slices.stamp[p], slices.stop[p] + gap, p, p, 1)
            p = slices.newer[p]
    return len(keys), count, wake


def plan_tuple_slides(slices, slides, due, begin, order, rows, position, slots, length, every):
    """Slide-by-tuple: every ``every``-th row of a key triggers the window (time - length, time]."""
    count = 0
    for n in range(begin, len(order)):
        if (position[n] + 1) % every != 0:
            continue
        if count == len(due.key):
            return n, count, FOREVER
        key = rows.keys[n]
        end = rows.axis[n]
        p = slides.lo[0, key]
        if p == NONE:
            p = slices.first[key]
        while slices.stamp[p] <= end - length:
            if slices.page[p] != 0 and slices.stop[p] > end - length:
                slides.lo[0, key] = p
                return stopped(begin, n, count, p, FOREVER)
            pass_by(slides, 0, key, p)
            p = slices.newer[p]
        h = slots[order[n]]
        while slices.newer[h] != NONE and slices.stamp[slices.newer[h]] <= end:
            h = slices.newer[h]
        count = emit(due, count, slides, key, 0, end - length, end, p, h, 1)
    return len(order), count, FOREVER


def row_count(slices, slot, fold):
    """How many rows a slice stands for: one, or those of the page that a folded slice stands for."""
    return fold ** (slices.page[slot] >> LEVEL)


def newest_counted(slices, slides, key, counted, window):
    """The first slice that is in no window yet, and how many rows there are from the window's first one up to it."""
    h = slides.back[0, key]
    following = slides.following[0, key]
    if h != NONE:
        return slices.newer[h], counted
    if following == UNSET:
        return slices.first[key], counted
    rows = 0  # folded, perhaps with newer rows: counted again, with them
    h = slides.lo[0, key]
    while h != NONE and slices.stop[h] < window.offset + (following - 1) * window.slide:
        rows += row_count(slices, h, window.fold)
        h = slices.newer[h]
    return h, rows


def plan_time_slides(slices, slides, due, begin, keys, watermark, held, window):
    """Slide-by-time: at every boundary that follows new rows, the last ``window.rows`` rows.

    ``held`` counts the rows of the last window. A folded slice stands for several rows; those of them that
    are new, if any, came after the same boundary.
    """
    count = 0
    wake = FOREVER
    for position in range(begin, len(keys)):
        key = keys[position]
        h, rows = newest_counted(slices, slides, key, held[key], window)
        while h != NONE:
            end = slices.stop[h] - (slices.stop[h] - window.offset) % window.slide + window.slide
            if end > watermark:
                wake = min(wake, end)
                break
            if count == len(due.key):
                return position, count, wake
            p = slides.lo[0, key]
            if p == NONE:
                p = h
            rows += row_count(slices, h, window.fold)
            while slices.newer[h] != NONE and slices.stamp[slices.newer[h]] < end:
                h = slices.newer[h]
                rows += row_count(slices, h, window.fold)
            while rows > window.rows:
                leaving = row_count(slices, p, window.fold)
                if rows - leaving < window.rows:
                    return stopped(begin, position, count, p, wake)
                pass_by(slides, 0, key, p)
                p = slices.newer[p]
                rows -= leaving
            count = emit(due, count, slides, key, 0, slices.stamp[p], end, p, h, 1)
            slides.following[0, key] = (end - window.offset) // window.slide + 1
            held[key] = rows
            h = slices.newer[h]
    return len(keys), count, wake


def plan_deltas(slices, slides, due, begin, order, rows, slots, length, every, trigger):
    """Delta: a row more than ``every`` above the last trigger triggers the window [value - length, value).

    ``trigger`` is [set?, last trigger, last value] per key. A value that decreases gives (NONE, position, …).
    """
    count = 0
    for n in range(begin, len(order)):
        key = rows.keys[n]
        value = rows.axis[n]
        slot = slots[order[n]]
        if trigger[0, key] == 0:
            trigger[0, key] = 1
            trigger[1, key] = value
            trigger[2, key] = value
            continue
        if value < trigger[2, key]:
            return NONE, n, FOREVER
        if value - trigger[1, key] > every:
            if count == len(due.key):
                return n, count, FOREVER
            h = slices.older[slot]
            p = slides.lo[0, key]
            if p == NONE:
                p = slices.first[key]
            while p != slot and slices.stamp[p] < value - length:
                if slices.page[p] != 0 and slices.stop[p] >= value - length:
                    slides.lo[0, key] = p
                    return stopped(begin, n, count, p, FOREVER)
                pass_by(slides, 0, key, p)
                p = slices.newer[p]
            trigger[1, key] = value
            if p != slot:
                count = emit(due, count, slides, key, 0, value - length, value, p, h, 1)
            else:
                slides.lo[0, key] = p
                slides.front[0, key] = NONE
        trigger[2, key] = value
    return len(order), count, FOREVER


def free_slot(slices, key, slot):
    """Put a slot back on the stack of unused ones."""
    slices.free[slices.unused[0]] = slot
    slices.unused[0] += 1
    slices.held[key] -= 1


def evict_key(slices, slides, key, bound):
    """Free the slices of a key before the bound; a folded one only if all of it lies before."""
    p = slices.first[key]
    while p != NONE and slices.stamp[p] < bound and (slices.page[p] == 0 or slices.stop[p] < bound):
        newer = slices.newer[p]
        for which in range(slides.lo.shape[0]):
            if slides.front[which, key] == p:
                slides.front[which, key] = NONE
            if slides.back[which, key] == p:
                slides.back[which, key] = NONE
            if slides.lo[which, key] == p:
                slides.lo[which, key] = newer
        if slices.cursor[key] == p:
            slices.cursor[key] = NONE
        free_slot(slices, key, p)
        p = newer
    slices.first[key] = p
    if p == NONE:
        slices.last[key] = NONE
    else:
        slices.older[p] = NONE


def evict_fixed(slices, slides, keys, limit, grid):
    """Free what lies before the next window of the whole grid.

    Windows that end at or before the limit of their key are final, also those that had no row."""
    for key in keys:
        if slices.first[key] != NONE:
            evict_key(slices, slides, key, next_begin(slices, slides, key, limit, grid))


def next_begin(slices, slides, key, limit, grid):
    """Where the next window of the whole grid begins, or what follows the last slice."""
    bound = slices.stop[slices.last[key]] + 1
    final = limit[key] if len(limit) > 1 else limit[0]
    for which in range(len(grid.range)):
        k = max(slides.following[which, key], first_window(final, grid, which))
        bound = min(bound, grid.offset[which] + k * grid.slide[which])
    return bound


def evict_below(slices, slides, keys, bounds):
    """Free the slices before the bound of their key (an array of one: of all keys)."""
    for key in keys:
        if slices.first[key] != NONE:
            evict_key(slices, slides, key, bounds[key] if len(bounds) > 1 else bounds[0])


def evict_before_lo(slices, slides, keys):
    """Free the slices before the first one of the last window; stamps may be equal there."""
    for key in keys:
        evict_before(slices, key, slides.lo[0, key])


def evict_before(slices, key, slot):
    """Free the slices of a key before one of them, if it is one."""
    while slot != NONE and slices.first[key] != slot:
        p = slices.first[key]
        if slices.cursor[key] == p:
            slices.cursor[key] = NONE
        slices.first[key] = slices.newer[p]
        slices.older[slices.first[key]] = NONE
        free_slot(slices, key, p)


def release(slices, slides, keys):
    """Free all slices of some keys."""
    for key in keys:
        p = slices.first[key]
        while p != NONE:
            free_slot(slices, key, p)
            p = slices.newer[p]
        slices.first[key] = NONE
        slices.last[key] = NONE
        slices.cursor[key] = NONE
