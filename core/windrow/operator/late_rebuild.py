# SPDX-License-Identifier: Apache-2.0
"""Windows that a late row may move: ``late="update"`` for all kinds but time windows.

A late row shifts every later count window, joins two sessions, makes other rows trigger. So there are two slice
tables. The *settled* one works as it does for ``late="drop"``: rows wait in the buffer until no row can come before
them. The *current* one is ahead of it: it takes rows as soon as the watermark has passed them, and its windows come
out at once. A late row makes the current slices of its key wrong. They are then made again, from the settled slices
and the rows in the buffer, and the difference comes out: what is no window any more is withdrawn.

The current slices follow from the settled state, so they are in no snapshot and in no store. The windows that have come
out are: what is withdrawn has to be bit by bit what came out, and windows that are computed again may be grouped otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.columns.ipc import checked_ipc, to_ipc
from windrow.errors import CorruptSnapshot
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.buffer import MOST_PAGES
from windrow.operator.late import LateRows
from windrow.operator.parts import Parts
from windrow.operator.plan import Due, Ints
from windrow.operator.room import longer
from windrow.operator.slices import SliceTable
from windrow.storage.image import image_of, load_image


class Shown(NamedTuple):
    """Windows that have come out and may still be withdrawn; ``number`` counts those of a key.

    ``name`` is that of their page in a store, if they are in one.
    """

    windows: pa.Table
    key: Ints
    number: Ints
    name: str = ""

    def some(self, chosen: Any) -> Shown:
        return Shown(self.windows.filter(pa.array(chosen)), self.key[chosen], self.number[chosen])


class Rebuild(LateRows):
    """Windows come out as if no row came late any more; late rows withdraw them and give others."""

    def __init__(self, parts: Parts, current: SliceTable) -> None:
        self.parts, self.current = parts, current
        self.behind = parts.bound.query.lateness
        self.watermark = -FOREVER
        self.out: list[Shown] = []
        """Windows that have come out, in the order in which they did."""
        self.gone: list[str] = []
        """Pages of windows that are no longer remembered as they are there."""
        self.settled = self.made = np.zeros(0, dtype=np.int64)
        """For each key, how many of its windows no row can move any more, and how many were made in all."""

    def accept(self, rows: pa.Table, times: Ints) -> pa.Table:
        keys = self.parts.wait(rows, times)
        late = np.unique(keys[times < self.watermark])
        if not len(late):
            return self.parts.output.empty
        self._ensure_keys()
        before = self._take_out(lambda shown: np.isin(shown.key, late))
        self.made[late] = self.settled[late]
        return self._difference(before, self._show(self._rebuilt(late), "update"))

    def advance(self, watermark: int) -> pa.Table:
        before, self.watermark = self.watermark, watermark
        windows = self._show(self._slide(before), "final")
        reached = watermark - self.behind if watermark < FOREVER else FOREVER
        self._settle(self.parts.table.advance(self.parts.buffer.settle(reached), reached))
        return windows

    def unfinished(self, watermark: int) -> pa.Table:
        self._ensure_keys()
        return self.parts.output.table(self.current.unfinished(self.parts.keys.order, watermark), "early")

    def due(self) -> list[int]:
        wake, earliest = self.current.wake, self.parts.buffer.earliest_from(self.watermark)
        return [*([wake] if wake < FOREVER else []), *([] if earliest is None else [earliest + 1])]

    def shown(self) -> list[dict[str, Any]]:
        return [_image(shown) for shown in self.out]

    def shown_pages(self, commit: int) -> tuple[list[str], dict[str, dict[str, Any]], list[str]]:
        if len(self.out) > MOST_PAGES:
            self.gone += [shown.name for shown in self.out if shown.name]
            self.out = [_gathered(self.out)]
        self.out = [
            shown if shown.name else shown._replace(name=f"shown.{commit}.{position}")
            for position, shown in enumerate(self.out)
        ]
        fresh = [shown for shown in self.out if shown.name.startswith(f"shown.{commit}.")]
        return [shown.name for shown in self.out], {shown.name: _image(shown) for shown in fresh}, self.gone

    def committed(self) -> None:
        self.gone = []

    def load_shown(self, image: dict[str, Any], name: str = "") -> None:
        windows = checked_ipc(image["windows"])
        if windows.schema != self.parts.bound.output_schema:
            raise CorruptSnapshot("the emitted windows do not have the columns of the query")
        key = self.parts.keys.number(windows)
        self._ensure_keys()
        self.out.append(Shown(windows, key, self.made[key] + _nth(key), name))
        np.add.at(self.made, key, 1)

    def restored(self, watermark: int) -> None:
        self.watermark = watermark
        found = self._rebuilt(self.parts.keys.order)
        if not self.out:  # state that was written before it held the windows that had come out
            self._show(found, "update")

    def forget(self, keys: Ints) -> None:
        self._ensure_keys()
        self.current.forget(keys)
        self.settled[keys] = self.made[keys] = 0

    def _settle(self, found: list[Due]) -> None:
        """These windows are settled: no late row can move them."""
        self._ensure_keys()
        for due in found:
            np.add.at(self.settled, due.key, due.repeat)
        self._take_out(lambda shown: shown.number < self.settled[shown.key])

    def _rebuilt(self, keys: Ints) -> list[Due]:
        """Make the current slices of these keys from the settled ones and the buffer; the windows that are due."""
        self._ensure_keys()
        current, parts = self.current, self.parts
        current.release(keys)
        for counter in current.slicer.counters.values():
            counter[..., keys] = 0
        load_image(image_of(parts.table, parts.keys, keys), current, parts.keys)
        if parts.paging is not None:
            parts.paging.unfold_copies(current, keys)
        wake = current.wake
        found = self._slide(-FOREVER, keys)
        current.wake_by(wake)
        return found

    def _slide(self, since: int, keys: Ints | None = None) -> list[Due]:
        """Take the rows from a time to the watermark, of some keys or all; the windows that are due then."""
        self._ensure_keys()
        batch = self.parts.buffer.between(since, self.watermark, keys)
        self.current.settle(batch.data, batch.times, batch.keys)
        order = self.parts.keys.order
        return self.current.slide(order if keys is None else order[np.isin(order, keys)], self.watermark)

    def _show(self, found: list[Due], emission: str) -> pa.Table:
        self._ensure_keys()
        windows = self.parts.output.table(found, emission)
        if windows.num_rows:
            key = self.parts.keys.number(windows)
            self.out.append(Shown(windows, key, self.made[key] + _nth(key)))
            np.add.at(self.made, key, 1)
        return windows

    def _take_out(self, chosen: Callable[[Shown], Any]) -> pa.Table:
        """Forget some windows that have come out; returns them in their order."""
        out, left = [self.parts.output.empty], []
        for shown in self.out:
            some = chosen(shown)
            if some.any():
                out.append(shown.some(some).windows)
                self.gone += [shown.name] if shown.name else []
            if not some.all():
                left.append(shown.some(~some) if some.any() else shown)
        self.out = left
        return self.parts.bound.sort(pa.concat_tables(out))

    def _difference(self, before: pa.Table, after: pa.Table) -> pa.Table:
        """The windows that are in only one of the tables: those of the first as withdrawn.

        A window that takes the place of a withdrawn one with the same key and bounds is an update; any other is final.
        """
        new = {*self.parts.bound.monoids, "emission"}
        bounds = [name for name in after.column_names if name not in new]
        gone, come = _unmatched(before.drop_columns(["emission"]), after.drop_columns(["emission"]))
        withdrawn, made = before.filter(pa.array(gone)), after.filter(pa.array(come))
        _, first = _unmatched(withdrawn.select(bounds), made.select(bounds))
        emission = np.where(first, "final", "update").tolist()
        return pa.concat_tables(
            [_marked(withdrawn, ["withdrawn"] * withdrawn.num_rows), _marked(made, emission)]
        )

    def _ensure_keys(self) -> None:
        count = self.parts.keys.count
        self.current.ensure_keys()
        if len(self.settled) < count:
            self.settled, self.made = longer(self.settled, 2 * count, 0), longer(self.made, 2 * count, 0)


def _unmatched(first: pa.Table, second: pa.Table) -> tuple[Any, Any]:
    """Which rows of each table have no equal in the other; equal ones are matched one by one."""
    old, new = np.split(_codes(pa.concat_tables([first, second])), [first.num_rows])
    most = 1 + max(old.max(initial=0), new.max(initial=0))
    return _nth(old) >= np.bincount(new, minlength=most)[old], _nth(new) >= np.bincount(old, minlength=most)[
        new
    ]


def _codes(windows: pa.Table) -> Ints:
    """A number for each window; the same for equal windows, NaN included."""
    codes = np.zeros(windows.num_rows, dtype=np.int64)
    for column in windows.itercolumns():
        if pa.types.is_nested(column.type):
            column = pa.chunked_array([[repr(value) for value in column.to_pylist()]], pa.string())
        distinct = column.combine_chunks().dictionary_encode(null_encoding="encode")
        pairs = codes * len(distinct.dictionary) + np.asarray(distinct.indices)
        codes = np.unique(pairs, return_inverse=True)[1]
    return codes


def _nth(codes: Ints) -> Ints:
    """How many equal ones come before each."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    nth = np.empty(len(codes), dtype=np.int64)
    nth[order] = np.arange(len(codes)) - np.searchsorted(ordered, ordered)
    return nth


def _marked(windows: pa.Table, emission: list[str]) -> pa.Table:
    place = windows.schema.get_field_index("emission")
    return windows.set_column(place, windows.schema.field(place), pa.array(emission, pa.string()))


def _image(shown: Shown) -> dict[str, Any]:
    return {"windows": to_ipc(shown.windows)}


def _gathered(out: list[Shown]) -> Shown:
    """All windows in one: many small pages cost more than writing them again."""
    return Shown(
        pa.concat_tables([shown.windows for shown in out]),
        np.concatenate([shown.key for shown in out]),
        np.concatenate([shown.number for shown in out]),
    )
