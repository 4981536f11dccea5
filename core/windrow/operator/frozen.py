# SPDX-License-Identifier: Apache-2.0
"""What a cold block holds of its keys, and the way back: columns for :mod:`windrow.storage.cold_block`.

Only what cannot be computed again is in it: slices with their partials, how far windows have slid, and the rows of
functions of whole windows. ``lcs``, ``csa`` and links are rebuilt when a key thaws, in the same grouping. Counters
are small and stay where they are. Windows point to slices by their number among those of the key, so that some
keys can be taken out of a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from windrow.columns.encoding import decode_checked, decode_value, encode, encode_value
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import NONE
from windrow.operator.extents import ExtentState
from windrow.operator.partials import AggregateState
from windrow.operator.plan import Ints
from windrow.storage.image import load_state, state_of
from windrow.storage.validate import POINTERS
from windrow.storage.validate_slices import KeyState, SliceState, check_counters, check_stamps, check_state

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

Columns = Mapping[str, Any]


def columns_of(table: SliceTable, numbers: Ints) -> dict[str, Any]:
    """The slices, windows and rows of some keys, none of which has a folded slice, as columns of a block."""
    state = state_of(table, numbers)
    begins = np.cumsum(state.lengths) - state.lengths
    stamps, stops = state.slices.stamps, state.slices.stops
    columns = {"lengths": state.lengths, "stamps": stamps, "following": state.following.reshape(-1)}
    columns |= {} if (stops == stamps).all() else {"stops": stops}
    for name, pointers in state.pointers.items():
        columns[name] = np.where(pointers == NONE, NONE, pointers - begins).reshape(-1)
    for place, each in enumerate(table.aggregates):
        parts = state.slices.partials[each.name]
        if each.monoid.fields is None:
            columns[f"{place}"] = encode(each.monoid, parts, 0, len(stamps))
        else:
            columns |= {f"{place}.{field}": part.reshape(-1) for field, part in enumerate(parts)}
        if isinstance(each, ExtentState):
            columns |= _rows_of(each, table, numbers, place)
    return columns


def load_columns(columns: Columns, some: Ints, table: SliceTable, numbers: Ints, name: str) -> None:
    """Put keys of a block back into the table, which holds no slices of theirs; ``some`` is which of its keys.

    What follows from slices is still to be rebuilt. The columns are checked before anything changes.
    """
    state = _chosen(_checked(columns, table, name), some)
    counters = {each: counter[..., numbers] for each, counter in table.slicer.counters.items()}
    check_counters(state._replace(counters=counters), table)
    rows = [_checked_rows(columns, table, place, some, name) for place in range(len(table.aggregates))]
    load_state(state, table, numbers)
    for each, found in zip(table.aggregates, rows, strict=True):
        if isinstance(each, ExtentState) and found is not None:
            each.put_back(table.slices, numbers, *found)


def _rows_of(state: ExtentState, table: SliceTable, numbers: Ints, place: int) -> dict[str, Any]:
    rows = state.rows
    begins = np.maximum(state.needed(table.slices, numbers), rows.begin[numbers])
    values = rows.rows(numbers, begins, rows.end[numbers])
    columns: dict[str, Any] = {f"{place}.begins": begins, f"{place}.counts": rows.end[numbers] - begins}
    for number, column in enumerate(values):
        columns[f"{place}.rows.{number}"] = (
            encode_value(column.tolist()) if column.dtype.hasobject else column
        )
    return columns


def _checked(columns: Columns, table: SliceTable, name: str) -> KeyState:
    """The arrays of all keys of a block, as they may be followed."""
    windows, stamps = table.slicer.windows, _column(columns, "stamps", name)
    lengths = _column(columns, "lengths", name)
    count = len(lengths)
    begins = np.cumsum(lengths) - lengths
    following = _column(columns, "following", name, windows * count).reshape(windows, count)
    pointers = {}
    for each in POINTERS:
        relative = _column(columns, each, name, windows * count).reshape(windows, count)
        pointers[each] = np.where(relative == NONE, NONE, relative + begins)
    if stamps.dtype != table.slices.stamp.dtype:
        raise CorruptSnapshot(f"{name}: 'stamps' are {stamps.dtype}, not {table.slices.stamp.dtype}")
    stops = columns.get("stops", stamps)
    if len(stops) != len(stamps) or stops.dtype != stamps.dtype:
        raise CorruptSnapshot(f"{name}: 'stops' do not fit 'stamps'")
    partials = {
        each.name: _partials(columns, each, place, len(stamps), name)
        for place, each in enumerate(table.aggregates)
    }
    slices = SliceState(stamps, stops, np.zeros(len(stamps), np.int64), partials)
    check_stamps(slices, table)
    state = KeyState(lengths, slices, following, pointers, {})
    check_state(state, table, stored=False, counted=False)
    return state


def _column(columns: Columns, column: str, name: str, count: int | None = None) -> Any:
    found = columns.get(column)
    if not isinstance(found, np.ndarray) or (count is not None and len(found) != count):
        raise CorruptSnapshot(f"{name}: column {column!r} is missing or has the wrong length")
    return found


def _partials(columns: Columns, state: AggregateState, place: int, count: int, name: str) -> tuple[Any, ...]:
    fields = state.monoid.fields
    if fields is None:
        blob = columns.get(f"{place}")
        if not isinstance(blob, bytes):
            raise CorruptSnapshot(f"{name} has no partials of {state.name!r}")
        objects = decode_checked(state.monoid, blob)
        if len(objects[0]) != count:
            raise CorruptSnapshot(
                f"{name} has {len(objects[0])} partials of {state.name!r}, of {count} slices"
            )
        return objects
    parts = []
    for number, field in enumerate(fields):
        column = _column(columns, f"{place}.{number}", name, count * max(field.width, 1))
        if column.dtype != field.dtype:
            raise CorruptSnapshot(f"{name}: partials of {state.name!r} are {column.dtype}, not {field.dtype}")
        parts.append(column.reshape(count, field.width) if field.width else column)
    return tuple(parts)


def _checked_rows(columns: Columns, table: SliceTable, place: int, some: Ints, name: str) -> Any:
    """Begins, counts and values of the rows of some keys; none for an aggregate that keeps no rows."""
    state = table.aggregates[place]
    if not isinstance(state, ExtentState):
        return None
    keys = len(columns["lengths"])
    begins, counts = (_column(columns, f"{place}.{each}", name, keys) for each in ("begins", "counts"))
    total = int(counts.sum())
    if (counts < 0).any() or (begins < 0).any() or (begins > 1 << 60).any():
        raise CorruptSnapshot(f"{name}: rows of {state.name!r} are out of range")
    chosen = np.zeros(keys, np.bool_)
    chosen[some] = True
    wanted, values = np.repeat(chosen, counts), []
    for number, dtype in enumerate(column.dtype for column in state.rows.columns):
        column = columns.get(f"{place}.rows.{number}")
        if isinstance(column, bytes):
            cells = decode_value(column)
            column = np.empty(len(cells), object)
            column[:] = cells
        if column is None or len(column) != total or column.dtype != dtype:
            raise CorruptSnapshot(f"{name}: rows of {state.name!r} are missing")
        values.append(column[wanted])
    return begins[some], counts[some], values


def _chosen(state: KeyState, some: Ints) -> KeyState:
    """The state of some keys only, which are in their order."""
    if len(some) == len(state.lengths):
        return state
    begins = np.cumsum(state.lengths) - state.lengths
    lengths = state.lengths[some]
    chosen = np.zeros(len(state.lengths), np.bool_)
    chosen[some] = True
    wanted = np.repeat(chosen, state.lengths)
    moved = begins[some] - (np.cumsum(lengths) - lengths)
    stamps, stops, pages, partials = state.slices
    slices = SliceState(
        stamps[wanted],
        stops[wanted],
        pages[wanted],
        {name: tuple(part[wanted] for part in parts) for name, parts in partials.items()},
    )
    pointers = {
        name: np.where(numbers[:, some] == NONE, NONE, numbers[:, some] - moved)
        for name, numbers in state.pointers.items()
    }
    return KeyState(lengths, slices, state.following[:, some], pointers, {})
