# SPDX-License-Identifier: Apache-2.0
"""Keys as words: a hash index that grows, and texts as words and back.

A key is a row of 64-bit words (see :mod:`windrow.columns.words`). No row is the beginning of another one. So two rows
can be compared word by word, and no length is stored.

Rows have ``width`` words each, one row after the other; or, if ``width`` is 0, any number of words from where ``begins``
says.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

NONE = -1
"""No number."""

NUMBERS, FREE, NEW, USED, WASTE = 0, 1, 2, 3, 4
"""What ``counts`` counts: numbers given out, those that are free, and those that are new; words in use, and those of them
that are wasted on free numbers. Words are counted only if the length of rows varies."""

PRIME = np.int64(-7046029254386353131)
LOW = np.int64(0xFFFFFFFF)
HASH = np.int64(0x7FFFFFFF)
LARGEST = np.int64(0x7FFFFFFFFFFFFFFF)
EIGHT, BYTE = np.int64(8), np.int64(0xFF)
LETTERS = 7
"""How many bytes of a text are in a word. The last byte of the word says how many there are, and whether more follow."""
MORE = np.int64(0xFF)


class KeyIndex(NamedTuple):
    """The rows of all keys, and where to find a row."""

    words: Any  #: the rows
    begins: Any  #: per number: where its row begins; empty if all rows have the same width
    hashes: Any  #: per number: the hash of its row; NONE if the number is free
    table: Any  #: open addressing: numbers, or NONE; a power of two of them
    free: Any  #: a stack of free numbers
    new: Any  #: numbers that were given out since these were last looked at
    counts: Any  #: NUMBERS, FREE, NEW, USED, WASTE


def number_rows(index, rows, begins, width, row, numbers):
    """Find the number of each row, and give the next number to a new one. Returns how far that went: there may be no room."""
    mask = len(index.table) - 1
    while row < len(numbers):
        begin = row * width if width else begins[row]
        end = begin + width if width else begins[row + 1]
        hashed = hash_row(rows, begin, end)
        slot = hashed & mask
        number = index.table[slot]
        while number != NONE and not is_row(index, width, number, hashed, rows, begin, end):
            slot = (slot + 1) & mask
            number = index.table[slot]
        if number == NONE:
            number = add_row(index, width, hashed, rows, begin, end)
            if number == NONE:
                return row
            index.table[slot] = number
        numbers[row] = number
        row += 1
    return row


def find_distinct(values, least, table, rows):
    """The first row of each distinct value, of values that are close to each other; returns how many there are.

    ``table`` has an entry, NONE at first, for each value from the least one on.
    """
    count = 0
    for row in range(len(values)):
        place = values[row] - least
        if table[place] == NONE:
            table[place] = count
            rows[count] = row
            count += 1
    return count


def number_by_value(values, least, table, numbers):
    """The number of each row: that of its value in the table."""
    for row in range(len(values)):
        numbers[row] = table[values[row] - least]


def hash_row(rows, begin, end):
    """A hash of all bits of a row. A product spreads bits upwards only, so they are also moved down."""
    hashed = PRIME
    for position in range(begin, end):
        hashed ^= rows[position]
        hashed = (hashed ^ ((hashed >> 32) & LOW)) * PRIME
        hashed ^= (hashed >> 32) & LOW
    return hashed & HASH


def is_row(index, width, number, hashed, rows, begin, end):
    if index.hashes[number] != hashed:
        return False
    own = number * width if width else index.begins[number]
    position = begin
    while position < end and index.words[own + position - begin] == rows[position]:
        position += 1
    return position == end


def add_row(index, width, hashed, rows, begin, end):
    """A number for a new row; NONE if there is no room."""
    counts = index.counts
    reused = counts[FREE] > 0
    number = index.free[counts[FREE] - 1] if reused else counts[NUMBERS]
    if 2 * (counts[NUMBERS] - counts[FREE] + 1) > len(index.table) or number >= len(index.hashes):
        return NONE
    own = number * width if width else counts[USED]
    if own + end - begin > len(index.words):
        return NONE
    for position in range(end - begin):
        index.words[own + position] = rows[begin + position]
    if width == 0:
        index.begins[number] = own
        counts[USED] += end - begin
    index.hashes[number] = hashed
    if reused:
        counts[FREE] -= 1
    else:
        counts[NUMBERS] += 1
    index.new[counts[NEW]] = number
    counts[NEW] += 1
    return number


def fill_table(index):
    """Put all numbers into an empty table."""
    mask = len(index.table) - 1
    for number in range(index.counts[NUMBERS]):
        if index.hashes[number] != NONE:
            slot = index.hashes[number] & mask
            while index.table[slot] != NONE:
                slot = (slot + 1) & mask
            index.table[slot] = number


def forget(index, width, columns, numbers):
    """Take numbers out of the table, and make them free."""
    mask = len(index.table) - 1
    for number in numbers:
        if width == 0:
            begin = index.begins[number]
            index.counts[WASTE] += skip(index.words, begin, columns, len(columns)) - begin
        slot = index.hashes[number] & mask
        while index.table[slot] != number:
            slot = (slot + 1) & mask
        close_gap(index, slot, mask)
        index.hashes[number] = NONE
        index.free[index.counts[FREE]] = number
        index.counts[FREE] += 1


def close_gap(index, gap, mask):
    """Empty a slot. Those behind it that were moved on because of it move back."""
    slot = (gap + 1) & mask
    while index.table[slot] != NONE:
        home = index.hashes[index.table[slot]] & mask
        if (slot - home) & mask >= (slot - gap) & mask:
            index.table[gap] = index.table[slot]
            gap = slot
        slot = (slot + 1) & mask
    index.table[gap] = NONE


def compact(index, columns, words):
    """Copy the rows of all numbers that are not free to other words, one after the other."""
    used = 0
    for number in range(index.counts[NUMBERS]):
        if index.hashes[number] == NONE:
            index.begins[number] = 0
            continue
        position = index.begins[number]
        end = skip(index.words, position, columns, len(columns))
        index.begins[number] = used
        while position < end:
            words[used] = index.words[position]
            used += 1
            position += 1
    index.counts[USED], index.counts[WASTE] = used, 0


def skip(words, position, columns, count):
    """Where some columns of a row end. ``columns`` says how many words each has; 0 for a text."""
    for column in range(count):
        if columns[column] > 0:
            position += columns[column]
        else:
            while words[position] & BYTE == MORE:
                position += 1
            position += 1
    return position


def seek(words, begins, columns, count, places):
    """Where in each row its first columns end."""
    for row in range(len(begins)):
        places[row] = skip(words, begins[row], columns, count)


def find_places(index, width, order, numbers, places):
    """Before which key in the order each of these numbers belongs."""
    for n in range(len(numbers)):
        low, high = 0, len(order)
        while low < high:
            middle = (low + high) // 2
            if is_before(index, width, order[middle], numbers[n]):
                low = middle + 1
            else:
                high = middle
        places[n] = low


def is_before(index, width, one, other):
    a = one * width if width else index.begins[one]
    b = other * width if width else index.begins[other]
    while index.words[a] == index.words[b]:
        a += 1
        b += 1
    return index.words[a] < index.words[b]


def write_texts(data, offsets, valid, words, places):
    """Texts as words at their places. The places move to the end of what was written.

    ``valid`` may be empty, if all are. The order of words, as signed numbers, is that of the texts.
    """
    for row in range(len(places)):
        at = places[row]
        if len(valid) > 0 and not valid[row]:
            words[at] = np.int64(0) ^ ~LARGEST
            places[row] = at + 1
            continue
        position, end = offsets[row], offsets[row + 1]
        while True:
            word = np.int64(0)
            for letter in range(LETTERS):
                word <<= EIGHT
                if position + letter < end:
                    word |= np.int64(data[position + letter])
            left = end - position
            words[at] = ((word << EIGHT) | (MORE if left > LETTERS else np.int64(left + 1))) ^ ~LARGEST
            at += 1
            position += LETTERS
            if left <= LETTERS:
                break
        places[row] = at


def measure_texts(words, places, lengths, valid):
    """The length of each text in words, and whether there is one."""
    for row in range(len(places)):
        at = places[row]
        length = 0
        while words[at] & BYTE == MORE:
            length += LETTERS
            at += 1
        last = words[at] & BYTE
        valid[row] = last != 0
        lengths[row] = length + max(last - 1, 0)


def read_texts(words, places, offsets, data):
    """The texts that were written at these places."""
    for row in range(len(places)):
        at = places[row]
        position, end = offsets[row], offsets[row + 1]
        while position < end:
            word = words[at] ^ ~LARGEST
            for letter in range(min(LETTERS, end - position)):
                data[position + letter] = (word >> (EIGHT * (LETTERS - letter))) & BYTE
            position += LETTERS
            at += 1
