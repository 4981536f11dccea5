"""Windows that a late row may move: ``late="update"`` for all kinds but time windows.

A late row shifts every later count window, joins two sessions, makes other rows trigger. So the operator
works as it does for ``late="drop"``: rows wait until no row can come before them. A *draft* is ahead of it: a
second operator that takes rows as soon as the watermark has passed them, and whose windows come out at once.
A late row makes the draft of its key wrong. That key's draft is then made again, from the operator's state
and the rows that wait, and the difference comes out: what is no window any more is withdrawn.

The draft follows from the operator's state, so it is in no snapshot and in no store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from windrow.answer import answer
from windrow.kernels.layout import FOREVER
from windrow.runs import Due, Ints, longer
from windrow.state.image import image_of, load_image

if TYPE_CHECKING:
    from windrow.operator import Operator
    from windrow.state.paging import Paging


class Shown(NamedTuple):
    """Windows that have come out and may still be withdrawn; ``number`` counts those of a key."""

    windows: pa.Table
    key: Ints
    number: Ints

    def some(self, chosen: Any) -> Shown:
        return Shown(self.windows.filter(pa.array(chosen)), self.key[chosen], self.number[chosen])


class Draft:
    """The windows of an operator as they are if no row comes late any more; ``ahead`` is fed by the draft
    alone."""

    def __init__(self, operator: Operator, ahead: Operator) -> None:
        assert operator._bound is not None
        self.bound, self.state, self.discipline = operator._bound, operator._state, operator._discipline
        self.keys, self.waiting, self.ahead = operator._keys, operator._waiting, ahead
        ahead._keys = self.keys
        self.paging: Paging | None = None
        """Where slices of the operator are that it does not hold."""
        self.watermark = -FOREVER
        self.shown: list[Shown] = []
        self.settled = self.made = np.zeros(0, dtype=np.int64)
        """For each key, how many of its windows no row can move any more, and how many were made in all."""

    def advance(self, watermark: int) -> pa.Table:
        """The windows that are due now."""
        before, self.watermark = self.watermark, watermark
        return self._show(self._slide(before), "final")

    def unfinished(self) -> pa.Table:
        """Results so far of the windows that have begun and are not due."""
        self._ensure_keys()
        ahead = self.ahead
        begun = list(ahead._discipline.begun(self.keys.order, self.watermark))
        return answer(self.bound, self.keys, begun, "early", ahead._state.kernels, ahead._pool)

    def settle(self, found: list[Due]) -> None:
        """The operator has made these windows: no late row can move them."""
        self._ensure_keys()
        for due in found:
            np.add.at(self.settled, due.key, due.times)
        self._take_out(lambda shown: shown.number < self.settled[shown.key])

    def correct(self, keys: Ints) -> pa.Table:
        """What late rows of these keys, which wait already, change; withdrawn windows come first."""
        before = self._take_out(lambda shown: np.isin(shown.key, keys))
        return _difference(before, self._make_again(keys))

    def resume(self, watermark: int) -> None:
        """Make the draft of a state that was loaded."""
        self.watermark = watermark
        self._make_again(self.keys.order)

    def forget(self, keys: Ints) -> None:
        """These keys have no state any more."""
        self._ensure_keys()
        self.ahead._discipline.forget(keys)
        self.settled[keys] = self.made[keys] = 0

    def due(self) -> list[int]:
        """Watermarks at which a further window may be due."""
        wake, earliest = self.ahead._discipline.wake, self.waiting.earliest_from(self.watermark)
        return [*([wake] if wake < FOREVER else []), *([] if earliest is None else [earliest + 1])]

    def _make_again(self, keys: Ints) -> pa.Table:
        self._ensure_keys()
        state, discipline = self.ahead._state, self.ahead._discipline
        state.release(keys)
        for counter in discipline.counted().values():
            counter[..., keys] = 0
        load_image(image_of(self.state, self.discipline, self.keys, keys), state, discipline, self.keys)
        if self.paging is not None:
            self.paging.unfold_copies(state, keys)
        self.made[keys] = self.settled[keys]
        wake = discipline.wake
        found = self._slide(-FOREVER, keys)
        discipline.wake = min(wake, discipline.wake)
        return self._show(found, "update")

    def _slide(self, since: int, keys: Ints | None = None) -> list[Due]:
        """Let the rows from a time to the watermark take their places; the windows that are due. Of some keys, or all."""
        batch = self.waiting.between(since, self.watermark, keys)
        self.ahead._take(self.ahead._grouped(batch.data, batch.times, batch.keys))
        order = self.keys.order
        return self.ahead._slide(order if keys is None else order[np.isin(order, keys)], self.watermark)

    def _show(self, found: list[Due], emission: str) -> pa.Table:
        self._ensure_keys()
        ahead = self.ahead
        windows = answer(self.bound, self.keys, found, emission, ahead._state.kernels, ahead._pool)
        if windows.num_rows:
            key = self.keys.number(windows)
            self.shown.append(Shown(windows, key, self.made[key] + _nth(key)))
            np.add.at(self.made, key, 1)
        return windows

    def _take_out(self, chosen: Callable[[Shown], Any]) -> pa.Table:
        """Windows that are no longer remembered, in their order."""
        out, left = [self.bound.output_schema.empty_table()], []
        for shown in self.shown:
            some = chosen(shown)
            if some.any():
                out.append(shown.some(some).windows)
            if not some.all():
                left.append(shown.some(~some) if some.any() else shown)
        self.shown = left
        return self.bound.sort(pa.concat_tables(out))

    def _ensure_keys(self) -> None:
        self.ahead._state.ensure_keys(len(self.keys))
        if len(self.settled) < len(self.keys):
            room = 2 * len(self.keys)
            self.settled, self.made = longer(self.settled, room, 0), longer(self.made, room, 0)


def _difference(before: pa.Table, after: pa.Table) -> pa.Table:
    """The windows that are in only one of the tables: those of the first as withdrawn."""
    old, new = np.split(_codes(pa.concat_tables([before, after])), [before.num_rows])
    most = 1 + max(old.max(initial=0), new.max(initial=0))
    gone = _nth(old) >= np.bincount(new, minlength=most)[old]
    come = _nth(new) >= np.bincount(old, minlength=most)[new]
    return pa.concat_tables(
        [_marked(before.filter(pa.array(gone)), "withdrawn"), after.filter(pa.array(come))]
    )


def _codes(windows: pa.Table) -> Ints:
    """A number for each window; the same for equal windows, NaN included."""
    codes = np.zeros(windows.num_rows, dtype=np.int64)
    for column in windows.drop_columns(["emission"]).itercolumns():
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


def _marked(windows: pa.Table, emission: str) -> pa.Table:
    place = windows.schema.get_field_index("emission")
    return windows.set_column(
        place, windows.schema.field(place), pa.array([emission] * windows.num_rows, pa.string())
    )
