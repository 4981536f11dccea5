"""Where rows go and which windows are due: the structure of runs, without any aggregate in it.

``place_*`` put rows into slices and tell the slot of each; ``plan_*`` slide the windows over the slices and
list those that are due;
``evict`` frees the slices that no window needs any more. Rows are given in an ``order`` that groups them by
key, each key's rows by time. A function that runs out of slots or of room for windows returns where it
stopped, and is called again.
"""

from __future__ import annotations

from windrow.kernels.layout import LEVEL, NONE, UNFOLD, UNSET


def append(runs, key, after, stamp):
    """A new slice of a key after the given one (NONE: before all others)."""
    runs.meta[0] -= 1
    slot = runs.free[runs.meta[0]]
    runs.stamp[slot] = stamp
    runs.stop[slot] = stamp
    runs.page[slot] = 0
    runs.held[key] += 1
    runs.leader[slot] = after
    if after == NONE:
        newer = runs.first[key]
        runs.first[key] = slot
    else:
        newer = runs.follower[after]
        runs.follower[after] = slot
    runs.follower[slot] = newer
    if newer == NONE:
        runs.last[key] = slot
    else:
        runs.leader[newer] = slot
    return slot


def place_in_slices(runs, order, keys, times, every, at, ranges, slides, offsets, gaps, slot, begin):
    """Slices are cut at ``at + k·every`` for each pair of these (Cutty: the starts and ends of all windows).
    ``keys`` and ``times`` are already in the order."""
    start = 0
    end = 0
    current = NONE
    here = NONE
    for n in range(begin, len(order)):
        row = order[n]
        key = keys[n]
        time = times[n]
        if key == current and start <= time < end and here != NONE:
            slot[row] = here
            continue
        if runs.meta[0] == 0:
            return n
        current = key
        if gaps:
            inside = False
            for w in range(len(ranges)):
                inside = inside or (time - offsets[w]) % slides[w] < ranges[w]
            if not inside:
                slot[row] = NONE
                here = NONE
                continue
        start = time - (time - at[0]) % every[0]
        end = start + every[0]
        for c in range(1, len(every)):
            cut = time - (time - at[c]) % every[c]
            start = max(start, cut)
            end = min(end, cut + every[c])
        c = runs.cursor[key]
        if c == NONE:
            c = runs.last[key]
        if c != NONE and runs.stamp[c] < start:
            while runs.follower[c] != NONE and runs.stamp[runs.follower[c]] <= start:
                c = runs.follower[c]
        else:
            while c != NONE and runs.stamp[c] > start:
                c = runs.leader[c]
        if c == NONE or runs.stamp[c] != start:
            c = append(runs, key, c, start)
        runs.cursor[key] = c
        here = c
        slot[row] = c
    return len(order)


def place_each(runs, order, keys, stamps, slot, begin):
    """Every row is a slice of its own."""
    for n in range(begin, len(order)):
        if runs.meta[0] == 0:
            return n
        row = order[n]
        slot[row] = append(runs, keys[row], runs.last[keys[row]], stamps[row])
    return len(order)


def place_in_sessions(runs, order, keys, times, gap, slot, begin):
    """Rows no further apart than the gap share a slice."""
    for n in range(begin, len(order)):
        row = order[n]
        key = keys[row]
        c = runs.last[key]
        if c == NONE or times[row] - runs.stop[c] > gap:
            if runs.meta[0] == 0:
                return n
            c = append(runs, key, c, times[row])
        runs.stop[c] = times[row]
        slot[row] = c
    return len(order)


def number(order, keys, seen, position):
    """The position of each row among the rows of its key."""
    for n in range(len(order)):
        row = order[n]
        position[row] = seen[keys[row]]
        seen[keys[row]] += 1


def emit(windows, count, slides, key, which, start, end, lo, hi, times):
    """List due windows over the slices lo to hi, and slide to them."""
    flip = slides.front[which, key] == NONE
    windows.key[count] = key
    windows.which[count] = which
    windows.start[count] = start
    windows.end[count] = end
    windows.lo[count] = lo
    windows.hi[count] = hi
    windows.back[count] = slides.back[which, key]
    windows.flip[count] = flip
    windows.times[count] = times
    if flip:
        slides.front[which, key] = hi
    slides.back[which, key] = hi
    slides.lo[which, key] = lo
    return count + 1


def pass_by(slides, which, key, slot):
    """A window leaves a slice behind; when it leaves the last slice that lcs covers, lcs is used up."""
    if slides.front[which, key] == slot:
        slides.front[which, key] = NONE


def stopped(begin, reached, count, folded):
    """What a plan returns if a window begins inside a slice that stands for a page: first where it has come to, so
    that the windows listed so far are computed over the slices as they are, then, once it begins there, the slice."""
    if count > 0 or reached > begin:
        return reached, count
    return UNFOLD, folded


def plan_slices(runs, slides, windows, key_order, limit, ranges, every, offsets, begin, wake):
    """Windows k·every+offset … +range that end at or before the key's limit. ``wake[0]`` becomes the next
    end.

    ``begin`` is (position in key_order, count of windows listed); returned again when the list is full.
    """
    count = 0
    room = len(windows.key)
    for position in range(begin, len(key_order)):
        key = key_order[position]
        due = limit[key] if len(limit) > 1 else limit[0]
        for which in range(len(ranges)):
            if runs.first[key] == NONE:
                continue
            p = slides.lo[which, key]
            k = slides.following[which, key]
            if p == NONE or k == UNSET:
                p = runs.first[key]
            else:
                while (
                    runs.leader[p] != NONE and runs.stamp[runs.leader[p]] >= offsets[which] + k * every[which]
                ):
                    p = runs.leader[p]
            back = slides.back[which, key]
            following = k  # a window that is not due yet may still be preceded by one whose rows are to come
            while True:
                folded = NONE
                if k != UNSET:
                    begins = offsets[which] + k * every[which]
                    while p != NONE and runs.stamp[p] < begins:
                        if runs.page[p] != 0 and runs.stop[p] >= begins:
                            folded = p
                            break
                        pass_by(slides, which, key, p)
                        p = runs.follower[p]
                if p == NONE:
                    break
                earliest = (runs.stamp[p] - offsets[which] - ranges[which]) // every[which] + 1
                if k == UNSET or earliest > k:
                    k = earliest
                    if (runs.stamp[p] - offsets[which]) // every[which] < k:  # in a gap of this window
                        if runs.page[p] == 0:
                            pass_by(slides, which, key, p)
                            p = runs.follower[p]
                            continue
                        folded = p
                if folded != NONE:
                    slides.following[which, key] = following
                    slides.lo[which, key] = p
                    return stopped(begin, position, count, folded)
                end = offsets[which] + k * every[which] + ranges[which]
                if end > due:
                    wake[0] = min(wake[0], end)
                    break
                if count == room:
                    slides.following[which, key] = following
                    slides.lo[which, key] = p
                    return position, count
                if slides.front[which, key] == NONE or back == NONE:
                    back = p
                h = back
                while runs.follower[h] != NONE and runs.stamp[runs.follower[h]] < end:
                    h = runs.follower[h]
                times = 1
                f = runs.follower[h]
                if runs.stamp[p] >= end - ranges[which] + every[which] and (
                    f == NONE or runs.stamp[f] >= end + every[which]
                ):
                    same = (runs.stamp[p] - offsets[which]) // every[
                        which
                    ]  # the last window that begins before p
                    same = min(same, (due - offsets[which] - ranges[which]) // every[which])
                    if f != NONE:
                        same = min(same, (runs.stamp[f] - offsets[which] - ranges[which]) // every[which])
                    times = same - k + 1
                count = emit(windows, count, slides, key, which, end - ranges[which], end, p, h, times)
                back = h
                k += times
                following = k
            slides.following[which, key] = following
            slides.lo[which, key] = p
    return len(key_order), count


def plan_sessions(runs, slides, windows, key_order, watermark, gap, begin, wake):
    """Sessions are due when no row can join them."""
    count = 0
    for position in range(begin, len(key_order)):
        key = key_order[position]
        p = runs.first[key]
        while p != NONE:
            if runs.stamp[p] < slides.following[0, key]:
                p = runs.follower[p]
                continue
            if runs.stop[p] + gap >= watermark:
                wake[0] = min(wake[0], runs.stop[p] + gap + 1)
                break
            if count == len(windows.key):
                return position, count
            slides.front[0, key] = NONE
            slides.following[0, key] = runs.stamp[p] + 1
            count = emit(windows, count, slides, key, 0, runs.stamp[p], runs.stop[p] + gap, p, p, 1)
            p = runs.follower[p]
    return len(key_order), count


def plan_tuple_slides(runs, slides, windows, order, keys, times, position, slot, length, every, begin):
    """Slide-by-tuple: every ``every``-th row of a key triggers (time - length, time]."""
    count = 0
    for n in range(begin, len(order)):
        row = order[n]
        if (position[row] + 1) % every != 0:
            continue
        if count == len(windows.key):
            return n, count
        key = keys[row]
        end = times[row]
        p = slides.lo[0, key]
        if p == NONE:
            p = runs.first[key]
        while runs.stamp[p] <= end - length:
            if runs.page[p] != 0 and runs.stop[p] > end - length:
                slides.lo[0, key] = p
                return stopped(begin, n, count, p)
            pass_by(slides, 0, key, p)
            p = runs.follower[p]
        h = slot[row]
        while runs.follower[h] != NONE and runs.stamp[runs.follower[h]] <= end:
            h = runs.follower[h]
        count = emit(windows, count, slides, key, 0, end - length, end, p, h, 1)
    return len(order), count


def plan_time_slides(
    runs, slides, windows, key_order, watermark, length, every, offset, held, fold, begin, wake
):
    """Slide-by-time: at every boundary that follows new rows, the last ``length`` rows. ``held`` counts the rows lo …
    back. A slice that stands for a page has ``fold`` rows to the power of its level; those of them that are new, if
    any, came after the same boundary."""
    count = 0
    for position in range(begin, len(key_order)):
        key = key_order[position]
        rows = held[key]
        h = slides.back[0, key]
        if h != NONE:
            h = runs.follower[h]
        elif slides.following[0, key] == UNSET:
            h = runs.first[key]
        else:  # folded, perhaps with newer rows: counted again, with them
            rows = 0
            h = slides.lo[0, key]
            while h != NONE and runs.stop[h] < offset + (slides.following[0, key] - 1) * every:
                rows += fold ** (runs.page[h] >> LEVEL)
                h = runs.follower[h]
        while h != NONE:
            end = runs.stop[h] - (runs.stop[h] - offset) % every + every
            if end > watermark:
                wake[0] = min(wake[0], end)
                break
            if count == len(windows.key):
                return position, count
            p = slides.lo[0, key]
            if p == NONE:
                p = h
            rows += fold ** (runs.page[h] >> LEVEL)
            while runs.follower[h] != NONE and runs.stamp[runs.follower[h]] < end:
                h = runs.follower[h]
                rows += fold ** (runs.page[h] >> LEVEL)
            while rows > length:
                leaving = fold ** (runs.page[p] >> LEVEL)
                if rows - leaving < length:
                    return stopped(begin, position, count, p)
                pass_by(slides, 0, key, p)
                p = runs.follower[p]
                rows -= leaving
            count = emit(windows, count, slides, key, 0, runs.stamp[p], end, p, h, 1)
            slides.following[0, key] = (end - offset) // every + 1
            held[key] = rows
            h = runs.follower[h]
    return len(key_order), count


def plan_deltas(runs, slides, windows, order, keys, values, slot, length, every, trigger, begin):
    """Delta: a row more than ``every`` above the last trigger triggers [value - length, value).

    ``trigger`` is [set?, last trigger, last value] per key. Returns (NONE, row) for a value that decreases.
    """
    count = 0
    for n in range(begin, len(order)):
        row = order[n]
        key = keys[row]
        value = values[row]
        if trigger[0, key] == 0:
            trigger[0, key] = 1
            trigger[1, key] = value
            trigger[2, key] = value
            continue
        if value < trigger[2, key]:
            return NONE, row
        if value - trigger[1, key] > every:
            if count == len(windows.key):
                return n, count
            h = runs.leader[slot[row]]
            p = slides.lo[0, key]
            if p == NONE:
                p = runs.first[key]
            while p != slot[row] and runs.stamp[p] < value - length:
                if runs.page[p] != 0 and runs.stop[p] >= value - length:
                    slides.lo[0, key] = p
                    return stopped(begin, n, count, p)
                pass_by(slides, 0, key, p)
                p = runs.follower[p]
            trigger[1, key] = value
            if p != slot[row]:
                count = emit(windows, count, slides, key, 0, value - length, value, p, h, 1)
            else:
                slides.lo[0, key] = p
                slides.front[0, key] = NONE
        trigger[2, key] = value
    return len(order), count


def evict(runs, slides, key, bound):
    """Free the slices of a key before the bound."""
    p = runs.first[key]
    while p != NONE and runs.stamp[p] < bound and (runs.page[p] == 0 or runs.stop[p] < bound):
        newer = runs.follower[p]
        for which in range(slides.lo.shape[0]):
            if slides.front[which, key] == p:
                slides.front[which, key] = NONE
            if slides.back[which, key] == p:
                slides.back[which, key] = NONE
            if slides.lo[which, key] == p:
                slides.lo[which, key] = newer
        if runs.cursor[key] == p:
            runs.cursor[key] = NONE
        runs.free[runs.meta[0]] = p
        runs.meta[0] += 1
        runs.held[key] -= 1
        p = newer
    runs.first[key] = p
    if p == NONE:
        runs.last[key] = NONE
    else:
        runs.leader[p] = NONE


def evict_slices(runs, slides, key_order, ranges, every, offsets):
    """Free what lies before the next window of every specification."""
    for position in range(len(key_order)):
        key = key_order[position]
        if runs.first[key] == NONE:
            continue
        bound = runs.stop[runs.last[key]] + 1
        for which in range(len(ranges)):
            k = slides.following[which, key]
            begins = runs.stamp[runs.first[key]] if k == UNSET else offsets[which] + k * every[which]
            bound = min(bound, begins)
        evict(runs, slides, key, bound)


def evict_below(runs, slides, key_order, bounds):
    """Free the slices before each key's bound."""
    for position in range(len(key_order)):
        key = key_order[position]
        if runs.first[key] != NONE:
            evict(runs, slides, key, bounds[key] if len(bounds) > 1 else bounds[0])


def evict_before_lo(runs, slides, key_order):
    """Free the slices before the first one of the last window (stamps may be equal there)."""
    for position in range(len(key_order)):
        key = key_order[position]
        lo = slides.lo[0, key]
        while lo != NONE and runs.first[key] != lo:
            p = runs.first[key]
            if runs.cursor[key] == p:
                runs.cursor[key] = NONE
            runs.first[key] = runs.follower[p]
            runs.leader[runs.first[key]] = NONE
            runs.free[runs.meta[0]] = p
            runs.meta[0] += 1
            runs.held[key] -= 1


def release(runs, key_order):
    """Free all slices of some keys."""
    for position in range(len(key_order)):
        key = key_order[position]
        p = runs.first[key]
        while p != NONE:
            runs.free[runs.meta[0]] = p
            runs.meta[0] += 1
            p = runs.follower[p]
        runs.first[key] = NONE
        runs.last[key] = NONE
        runs.cursor[key] = NONE
        runs.held[key] = 0


def walk(runs, key_order, lengths, slots):
    """The slots of all runs, key after key, oldest first, and how many each key has."""
    n = 0
    for position in range(len(key_order)):
        slot = runs.first[key_order[position]]
        while slot != NONE:
            slots[n] = slot
            n += 1
            lengths[position] += 1
            slot = runs.follower[slot]


def group_by_key(keys, times, starts, order, grouped, grouped_keys, grouped_times):
    """``grouped`` becomes ``order`` sorted by key, stable, the other two the keys and times in that order;
    ``starts`` (keys + 1 zeros) is used up."""
    for n in range(len(order)):
        starts[keys[n] + 1] += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    for n in range(len(order)):
        row = order[n]
        grouped[starts[keys[row]]] = row
        starts[keys[row]] += 1
    n = 0
    for key in range(len(starts) - 1):
        while n < starts[key]:
            grouped_keys[n] = key
            grouped_times[n] = times[grouped[n]]
            n += 1


def extent(end, times, slide):
    """The earliest and the latest end of the windows that some entries stand for."""
    least, most = end[0], end[0]
    for entry in range(len(end)):
        least = min(least, end[entry])
        most = max(most, end[entry] + (times[entry] - 1) * slide)
    return least, most


def tally(end, times, least, slide, first, counts):
    """``first`` becomes the index of each entry's first end; ``counts`` by how many more windows end at an end than at the one before."""
    for entry in range(len(end)):
        index = (end[entry] - least) // slide
        first[entry] = index
        counts[index] += 1
        counts[index + times[entry]] -= 1


def bounds(places, low, high, least, slide, length, starts, ends):
    """The starts and ends of the windows that end at one of some ends; ``places`` is where those of each end begin."""
    for position in range(low, high):
        end = least + slide * position
        for n in range(places[position], places[position + 1]):
            starts[n] = end - length
            ends[n] = end


def spread(
    first, times, begins, cursor, following, low, high, block, columns, a, b, c, d, to_a, to_b, to_c, to_d
):
    """Entries in the order of keys become windows in the order of ends, then keys: those of the ends from ``low`` to ``high``.

    ``following`` is the next place of each end, ``begins`` where the entries of each key begin. Ends are done ``block`` at
    a time, so that the places written to stay in reach of the cache; up to four columns at a time, since finding a place
    takes longer than writing to it.
    """
    keys = len(begins) - 1
    for key in range(keys):
        cursor[key] = begins[key]
    for begin in range(low, high, block):
        stop = min(begin + block, high)
        for key in range(keys):
            entry = cursor[key]
            while entry < begins[key + 1] and first[entry] < stop:
                until = first[entry] + times[entry]
                if until > begin:
                    from_ = max(first[entry], begin)
                    to = min(until, stop)
                    if columns == 1:
                        value = a[entry]
                        for end in range(from_, to):
                            to_a[following[end]] = value
                            following[end] += 1
                    else:
                        write(entry, from_, to, following, columns, a, b, c, d, to_a, to_b, to_c, to_d)
                if until > stop:
                    break
                entry += 1
            cursor[key] = entry


def write(entry, begin, stop, following, columns, a, b, c, d, to_a, to_b, to_c, to_d):
    """Up to four results of an entry, to each of its ends."""
    first, second = a[entry], b[entry]
    third = c[entry] if columns > 2 else second
    fourth = d[entry] if columns > 3 else second
    for end in range(begin, stop):
        place = following[end]
        following[end] = place + 1
        to_a[place] = first
        to_b[place] = second
        if columns > 2:
            to_c[place] = third
        if columns > 3:
            to_d[place] = fourth
