"""Keys as small integers: every distinct key gets the next number, and keeps it.

>>> import pyarrow as pa
>>> keys = Keys([pa.field("plug", pa.string())])
>>> keys.number(pa.table({"plug": ["b", "a", None, "b"]})).tolist()
[0, 1, 2, 0]
>>> [keys.values[number] for number in keys.order]
[(None,), ('a',), ('b',)]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from windrow.aggregates import arrow
from windrow.kernels.layout import NONE

NAN = float("nan")


class Keys:
    """The keys seen so far. A key is a tuple of values, one per key column; null is a value like any
    other."""

    def __init__(self, fields: Sequence[pa.Field]) -> None:
        self.fields = tuple(fields)
        self.values: list[tuple[Any, ...]] = []
        self._numbers: dict[tuple[Any, ...], int] = {}
        self._free: list[int] = []
        self._columns: list[pa.Array] | None = None
        self._order: NDArray[np.int64] | None = None
        if not fields:
            self.add(())

    def __len__(self) -> int:
        return len(self.values)

    def add(self, key: tuple[Any, ...]) -> int:
        """The number of a key, new or known."""
        key = tuple(NAN if value != value else value for value in key)
        number = self._numbers.get(key)
        if number is None:
            number = self._free.pop() if self._free else len(self.values)
            self.values[number : number + 1] = [key]
            self._numbers[key] = number
            self._columns = self._order = None
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        """Give these numbers to other keys: theirs have no state left."""
        for number in numbers:
            del self._numbers[self.values[number]]
            self._free.append(number)
        self._columns = self._order = None

    def number(self, data: pa.Table | pa.RecordBatch) -> NDArray[np.int64]:
        """The key number of each row."""
        rows = data.num_rows
        if not self.fields or not rows:
            return np.zeros(rows, dtype=np.int64)
        codes, distinct = _encode(data.column(self.fields[0].name))
        if len(self.fields) == 1:
            return self._looked_up(distinct)[codes]
        values = [(value,) for value in distinct.to_pylist()]
        for field in self.fields[1:]:
            more, encoded = _encode(data.column(field.name))
            further = encoded.to_pylist()
            codes, pairs = _encode(pa.array(codes * len(further) + more))
            values = [
                (*values[pair // len(further)], further[pair % len(further)]) for pair in pairs.to_pylist()
            ]
        numbers = np.fromiter((self.add(value) for value in values), dtype=np.int64, count=len(values))
        taken: NDArray[np.int64] = numbers[codes]
        return taken

    def _looked_up(self, values: pa.Array) -> NDArray[np.int64]:
        """The numbers of values of the only key column. If they are not few, those that are known are found all at once."""
        numbers = np.full(len(values), NONE, dtype=np.int64)
        if 0 < len(self) < 16 * len(values):
            with suppress(pa.ArrowNotImplementedError):  # there are types that Arrow does not look up
                known = pc.index_in(values, value_set=self._table()[0], skip_nulls=False)
                numbers = np.asarray(known.fill_null(NONE), dtype=np.int64)
                numbers = np.where(np.isin(numbers, self._free), NONE, numbers)
        new = np.flatnonzero(numbers == NONE)
        numbers[new] = [self.add((value,)) for value in values.take(pa.array(new)).to_pylist()]
        return numbers

    def source(self, column: int, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """What :meth:`column` needs to know of some keys: their values if numbers can hold them."""
        values, valid = arrow.to_numpy(self._table()[column])
        return numbers if values.dtype == object or valid is not None else values[numbers]

    def column(self, column: int, sources: NDArray[Any]) -> pa.Array:
        """A key column from what :meth:`source` gave, in whatever order."""
        known = self._table()[column]
        values, valid = arrow.to_numpy(known)
        if values.dtype == object or valid is not None:
            return known.take(pa.array(sources))
        return arrow.from_numpy(sources, None, known.type)

    @property
    def order(self) -> NDArray[np.int64]:
        """All key numbers in the order of their values: null, then values, then NaN, column by column."""
        if self._order is None:
            order = np.arange(len(self))
            if self.fields:
                columns: dict[str, Any] = {}
                for position, column in enumerate(self._table()):
                    columns[f"{position} null"] = pc.is_valid(column).cast(pa.int8())
                    columns[f"{position}"] = column
                ascending = [(name, "ascending") for name in columns]
                order = np.asarray(pc.sort_indices(pa.table(columns), ascending), dtype=np.int64)
            self._order = order[~np.isin(order, self._free)] if self._free else order
        return self._order

    def ranks(self) -> NDArray[np.int64]:
        """The position of each key number in :attr:`order`."""
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[self.order] = np.arange(len(self.order))
        return ranks

    def _table(self) -> list[pa.Array]:
        if self._columns is None:
            plain = [_plain(field.type) for field in self.fields]
            self._columns = [
                pa.array([key[c] for key in self.values], type=type_) for c, type_ in enumerate(plain)
            ]
        return self._columns


def _encode(column: pa.Array | pa.ChunkedArray) -> tuple[NDArray[np.int64], pa.Array]:
    """Codes of the rows, and the distinct values they stand for."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode")
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.unify_dictionaries().combine_chunks()
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_
