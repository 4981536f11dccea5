# SPDX-License-Identifier: Apache-2.0
"""Small batches put together into larger tables, so that fixed costs are paid once for many rows.

>>> import pyarrow as pa
>>> batches = pa.table({"load": [1, 2, 3, 4, 5]}).to_batches(max_chunksize=1)
>>> [table.num_rows for table in gather(batches, 2)]
[2, 2, 1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from windrow.columns.arrow import as_table
from windrow.errors import ColumnError

__all__ = ["gather"]

BYTES = 1 << 28
"""A table of so many bytes is large enough, however few rows it has."""


def gather(batches: Iterable[Any], rows: int | Callable[[], int]) -> Iterator[pa.Table]:
    """Tables of at least ``rows`` rows, in the order of the batches; the last one holds what is left.

    ``rows`` may be a function, which is asked after each batch that has rows. Batches are anything that
    :func:`~windrow.columns.arrow.as_table` takes. If none of them has a row, the result is one empty table, which
    shows the columns. Without any batch there is no table.

    The columns of the first batch are those of all tables. In later batches they may be in another order. A batch
    with other columns is refused. A table has fewer rows if it is large, or if a column has another type in the next
    batch: whether that is a mistake depends on what the column is for.
    """
    held: list[pa.Table] = []
    first: pa.Table | None = None
    count, size, given = 0, 0, False
    for number, batch in enumerate(batches):
        table = as_table(batch)
        first = table if first is None else first
        table = _in_order(table, first.schema.names, number)
        if not table.num_rows:
            continue
        if held and table.schema.types != held[0].schema.types:
            yield pa.concat_tables(held)
            held, count, size, given = [], 0, 0, True
        held.append(table)
        count += table.num_rows
        enough = count >= (rows if isinstance(rows, int) else rows())
        if not enough:
            size += _size(table)
        if enough or size >= BYTES:
            yield pa.concat_tables(held)
            held, count, size, given = [], 0, 0, True
    if held:
        yield pa.concat_tables(held)
    elif first is not None and not given:
        yield first


def _in_order(table: pa.Table, names: list[str], number: int) -> pa.Table:
    """The columns of a batch in the order of the first one; an error if it has other columns."""
    found = table.schema.names
    if found == names:
        return table
    if len(found) == len(names) and set(found) == set(names):
        return table.select(names)
    wrong = [f"no column {name!r}" for name in names if name not in found]
    wrong += [
        f"a column {name!r}, which the batches before did not have" for name in found if name not in names
    ]
    raise ColumnError(
        f"batch {number + 1} has {' and '.join(wrong) or 'a column twice'}; all batches of a stream need the same "
        f"columns as the first, in any order: {', '.join(map(repr, names))}"
    )


def _size(table: pa.Table) -> int:
    """The bytes of a table, if dictionaries were repeated in every row."""
    size = int(table.nbytes)
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            for chunk in column.chunks:
                size += len(chunk) * chunk.dictionary.nbytes // max(len(chunk.dictionary), 1)
    return size
