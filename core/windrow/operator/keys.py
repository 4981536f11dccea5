# SPDX-License-Identifier: Apache-2.0
"""Keys as small integers: every distinct key gets the next number, and keeps it.

>>> import pyarrow as pa
>>> keys = Keys([pa.field("plug", pa.string())])
>>> keys.number(pa.table({"plug": ["b", "a", None, "b"]})).tolist()
[0, 1, 2, 0]
>>> keys.plain(keys.order)
[(None,), ('a',), ('b',)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from windrow.columns import arrow, text, words
from windrow.columns.plain import from_plain, to_plain
from windrow.columns.words import Layout
from windrow.errors import ColumnError
from windrow.kernels import keys as kernels_of_keys
from windrow.kernels.keys import FREE, NEW, NONE, NUMBERS, USED, WASTE, KeyIndex
from windrow.kernels.specialise import specialise

Ints = NDArray[np.int64]
ROOM = 64
"""For how many keys there is room at first."""
SPARE = 4
"""Arrays grow by this part of what they are."""
SMALL = 1 << 10
"""Of so many keys, values are kept at hand in the form in which they come and go."""
FEW = 8
"""Keys are few if this many times as many are known."""
CLOSE = 1 << 14
"""Integers in a range of so many are found in a table, without a hash."""
MANY = 1 << 12
"""Of so many rows with few keys, Arrow finds the distinct ones first: it needs no words for that."""


class Keys:
    """The keys seen so far. A key is a value for each key column; null is a value like any other.

    Two keys are one if their Arrow values are equal. All NaNs are one value. -0.0 is 0.0, and comes out as such.
    A key takes its words (see :mod:`windrow.columns.words`) and about 30 bytes more. To find one takes constant time.
    """

    def __init__(self, fields: Sequence[pa.Field], *, compiled: bool = True) -> None:
        self.fields = tuple(fields)
        self._layout = Layout([field.type for field in fields], compiled=compiled)
        self._kernels: SimpleNamespace = specialise(kernels_of_keys, {}, compiled=compiled)
        self._index = KeyIndex(
            words=np.zeros(0, dtype=np.int64), begins=np.zeros(0, dtype=np.int64),
            hashes=np.zeros(0, dtype=np.int32), table=np.full(2, NONE, dtype=np.int32),
            free=np.zeros(0, dtype=np.int32), new=np.zeros(0, dtype=np.int32), counts=np.zeros(5, dtype=np.int64),
        )  # fmt: skip
        self._has_null = [False] * len(fields)
        self._order = np.zeros(0 if fields else 1, dtype=np.int64)
        self._ranks: Ints | None = None

        self.count = 0 if fields else 1
        """How many numbers are given out, to keys or to none any more."""
        self._recent: dict[Any, int] | None = {} if len(fields) == 1 and _is_exact(fields[0].type) else None
        self._small: list[pa.Array] | None = None

    def number(self, data: pa.Table | pa.RecordBatch) -> Ints:
        """The key number of each row."""
        if not self.fields or not data.num_rows:
            return np.zeros(data.num_rows, dtype=np.int64)
        if data.num_rows == 1 and self._recent is not None:
            value = data.column(self.fields[0].name)[0].as_py()
            if (known := self._recent.get(value)) is not None:
                return np.array([known], dtype=np.int64)
        numbers = self._numbered([words.flat(data.column(field.name)) for field in self.fields])
        if data.num_rows == 1 and self._recent is not None:
            self._recent = {} if len(self._recent) >= SMALL else self._recent
            self._recent[value] = int(numbers[0])
        return numbers

    def load(self, keys: Sequence[Sequence[Any]]) -> Ints:
        """The numbers of keys as :meth:`plain` gave them, new or known."""
        if not self.fields or not keys:
            return np.zeros(len(keys), dtype=np.int64)
        columns = zip(zip(*keys, strict=True), self._layout.plain, strict=True)
        return self._numbered([from_plain(values, plain) for values, plain in columns])

    def plain(self, numbers: Ints) -> list[tuple[Any, ...]]:
        """Keys as tuples of plain values, which can be stored."""
        if not self.fields:
            return [()] * len(numbers)
        return list(zip(*(to_plain(self._array(c, numbers)) for c in range(len(self.fields))), strict=True))

    def forget(self, numbers: Iterable[int]) -> None:
        """Give these numbers to other keys: theirs have no state left."""
        gone, order = np.fromiter(numbers, dtype=np.int64), self.order
        self._recent, self._small = None if self._recent is None else {}, None
        if self._index.counts[FREE] + len(gone) > len(self._index.free):
            self._index = self._index._replace(free=_longer(self._index.free, self.count))
        index, layout = self._index, self._layout
        self._kernels.forget(index, layout.width, layout.columns, gone)
        self._order, self._ranks = order[index.hashes[order] != NONE], None
        if 2 * index.counts[WASTE] > index.counts[USED]:
            fresh = np.zeros(int(index.counts[USED] - index.counts[WASTE]), dtype=np.int64)
            self._kernels.compact(index, layout.columns, fresh)
            self._index = index._replace(words=fresh)

    def sources(self, batches: list[Ints]) -> list[list[NDArray[Any]]]:
        """What :meth:`columns` needs to know of the keys of some batches: for each key column and batch an array,
        with the values of the keys if numbers can hold them, else with their numbers."""
        return [
            [self._layout.values(c, self._index.words, self._begins(numbers)) for numbers in batches]
            if self._is_numeric(c)
            else batches
            for c in range(len(self.fields))
        ]

    def columns(self, arranged: list[NDArray[Any]]) -> list[pa.Array]:
        """The key columns from what :meth:`sources` gave, in whatever order."""
        found = []
        for c, (field, rows) in enumerate(zip(self.fields, arranged, strict=True)):
            if self._is_numeric(c):
                found.append(arrow.from_numpy(rows, None, field.type))
            elif pa.types.is_dictionary(field.type):
                distinct, codes = np.unique(rows, return_inverse=True)
                found.append(_dictionary(field, self._array(c, distinct), codes))
            else:
                found.append(_extended(self._taken(c, rows), field.type))
        return found

    @property
    def order(self) -> Ints:
        """All key numbers in the order of their values: null, then values, then NaN, column by column."""
        index = self._index
        count = int(index.counts[NEW])
        if count:
            new, known = index.new[:count].astype(np.int64), self._order
            index.counts[NEW] = 0
            if FEW * count > len(known):
                self._order = self._sorted(np.concatenate([known, new]))
            else:
                new, places = self._sorted(new), np.empty(count, dtype=np.int64)
                self._kernels.find_places(index, self._layout.width, known, new, places)
                self._order = np.insert(known, places, new)
            self._ranks = None
            every = np.arange(self.count)
            few = self.count <= SMALL
            self._small = [self._array(c, every) for c in range(len(self.fields))] if few else None
        return self._order

    def ranks(self) -> Ints:
        """The position of each key number in :attr:`order`."""
        order = self.order
        if self._ranks is None or len(self._ranks) < self.count:
            self._ranks = np.zeros(self.count, dtype=np.int64)
            self._ranks[order] = np.arange(len(order))
        return self._ranks

    def ranks_of(self, numbers: Ints) -> Ints:
        """For each of these key numbers its position among them, or in :attr:`order`. Of few keys this takes the time
        of few."""
        if FEW * len(numbers) > self.count:
            return self.ranks()[numbers]
        distinct, of = np.unique(numbers, return_inverse=True)
        ranks = np.empty(len(distinct), dtype=np.int64)
        ranks[np.searchsorted(distinct, self._sorted(distinct))] = np.arange(len(distinct))
        return ranks[of]

    def _numbered(self, arrays: list[pa.Array]) -> Ints:
        for c, (array, plain) in enumerate(zip(arrays, self._layout.plain, strict=True)):
            if array.type != plain and not text.alike(array.type, plain):
                arrays[c] = array.cast(plain)
            if array.null_count:
                self._has_null[c] = True
        if len(arrays) == 1 and MANY < len(arrays[0]) > FEW * self.count and _is_encodable(arrays[0].type):
            return self._few_numbered(arrays[0])
        return self._looked_up(arrays)

    def _few_numbered(self, array: pa.Array) -> Ints:
        """The numbers of many rows that are likely to have few keys: the distinct ones are looked up."""
        least, width = _close(array)
        if not width:
            encoded = array.dictionary_encode(null_encoding="encode")
            return self._looked_up([encoded.dictionary])[np.asarray(encoded.indices)]
        values, kernels = arrow.to_numpy(array)[0].astype(np.int64, copy=False), self._kernels
        table, rows = np.full(width, NONE, dtype=np.int64), np.empty(width, dtype=np.int64)
        distinct = rows[: kernels.find_distinct(values, least, table, rows)]
        table[values[distinct] - least] = self._looked_up([array.take(pa.array(distinct))])
        numbers: Ints = arrow.blank(len(values), np.int64)
        kernels.number_by_value(values, least, table, numbers)
        return numbers

    def _looked_up(self, arrays: list[pa.Array]) -> Ints:
        layout, rows = self._layout, self._layout.rows(arrays)
        numbers, done = np.empty(rows.total, dtype=np.int64), 0
        while True:
            begin, number_rows = done, self._kernels.number_rows
            done = int(number_rows(self._index, rows.words, rows.begins, layout.width, begin, numbers))
            if done == rows.total:
                count = int(self._index.counts[NUMBERS])
                self.count, self._small = count, self._small if self._index.counts[NEW] == 0 else None
                return numbers
            self._grow(rows.length(done, layout.width))

    def _grow(self, words: int) -> None:
        """Make room for at least one more key of so many words."""
        index = self._index
        counts, width = index.counts, self._layout.width
        if 2 * (counts[NUMBERS] - counts[FREE] + 1) > len(index.table):
            self._index = index = index._replace(table=np.full(2 * len(index.table), NONE, dtype=np.int32))
            self._kernels.fill_table(index)
        room = len(index.hashes)
        if counts[FREE] == 0 and counts[NUMBERS] >= room:
            room = max(ROOM, room + room // SPARE)
            self._index = index = index._replace(
                hashes=_longer(index.hashes, room),
                new=_longer(index.new, room),
                begins=index.begins if width else _longer(index.begins, room),
            )
        needed = room * width if width else int(counts[USED]) + words
        if needed > len(index.words):
            self._index = index._replace(words=_longer(index.words, max(needed, 0 if width else 2 * needed)))

    def _sorted(self, numbers: Ints) -> Ints:
        """Distinct key numbers in the order of their values: by the first word, those alike by the next, and so on."""
        numbers, begins, all_words = numbers.copy(), self._begins(numbers), self._index.words
        places, group = np.arange(len(numbers)), np.zeros(len(numbers), dtype=np.int64)
        depth = 0
        while len(places):
            word = all_words[begins[places] + depth]
            by = np.lexsort((word, group)) if group[-1] else np.argsort(word)
            numbers[places], begins[places] = numbers[places[by]], begins[places[by]]
            word, group = word[by], group[by]
            other = (word[1:] != word[:-1]) | (group[1:] != group[:-1])
            group = np.concatenate([[0], np.cumsum(other)])
            alike = np.bincount(group)[group] > 1
            places, group, depth = places[alike], group[alike], depth + 1
            group -= group[0] if len(group) else 0
        return numbers

    def _begins(self, numbers: Ints) -> Ints:
        width = self._layout.width
        return numbers * width if width else self._index.begins[numbers]

    def _is_numeric(self, column: int) -> bool:
        """Whether the values of a column are numbers, and none is null."""
        return not self._has_null[column] and pa.types.is_primitive(self.fields[column].type)

    def _array(self, column: int, numbers: Ints) -> pa.Array:
        """A key column of some keys, in the type of its values."""
        return self._layout.array(column, self._index.words, self._begins(numbers))

    def _taken(self, column: int, numbers: Ints) -> pa.Array:
        """As :meth:`_array`. Of many rows the keys are read once, and of few keys once for all."""
        if self._small is not None:
            return self._small[column].take(pa.array(numbers))
        if len(numbers) <= self.count:
            return self._array(column, numbers)
        order = self.order
        return self._array(column, order).take(pa.array(self.ranks()[numbers]))


def _is_exact(type_: pa.DataType) -> bool:
    """Whether values are equal in Python if, and only if, they are in Arrow."""
    return pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _is_encodable(type_: pa.DataType) -> bool:
    return text.is_text(type_) or (pa.types.is_integer(type_) and type_.bit_width > 8)


def _close(array: pa.Array) -> tuple[int, int]:
    """The least value, and how many there are up to the largest; 0 if they are too far apart for a table, or no integers."""
    if not pa.types.is_integer(array.type) or array.type == pa.uint64() or array.null_count:
        return 0, 0
    values = arrow.to_numpy(array)[0]
    least, width = int(values.min()), int(values.max()) - int(values.min()) + 1
    return least, width if width <= CLOSE else 0


def _longer(array: Any, room: int) -> Any:
    longer = np.zeros(room, dtype=array.dtype)
    longer[: len(array)] = array
    return longer


def _extended(array: pa.Array, type_: pa.DataType) -> pa.Array:
    """An array of an extension type, from what stores it."""
    if not isinstance(type_, pa.BaseExtensionType):
        return array
    return pa.ExtensionArray.from_storage(type_, _extended(array, type_.storage_type))


def _dictionary(field: pa.Field, values: pa.Array, codes: Ints) -> pa.Array:
    """A dictionary of distinct values. A null is none of them."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    places = np.where(valid, np.cumsum(valid) - 1, 0)
    distinct = values.drop_null()
    try:
        indices = pa.array(places[codes], mask=~valid[codes]).cast(field.type.index_type)
    except pa.ArrowInvalid:
        raise ColumnError(
            f"key column {field.name!r} is a {field.type}, whose indices cannot count {len(distinct)} values; cast it to "
            f"{field.type.value_type}"
        ) from None
    return pa.DictionaryArray.from_arrays(indices, distinct, ordered=field.type.ordered)
