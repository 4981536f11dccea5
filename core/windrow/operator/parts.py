# SPDX-License-Identifier: Apache-2.0
"""The parts of an operator, by name."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.columns import text
from windrow.errors import CorruptSnapshot, QueryError
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.buffer import Buffer
from windrow.operator.cold_pages import checked_list, page_name
from windrow.operator.freezing import nbytes
from windrow.operator.idle import IdleFigures
from windrow.operator.keys import Keys
from windrow.operator.late import LateRows
from windrow.operator.output import Output
from windrow.operator.plan import Ints
from windrow.operator.slices import SliceTable
from windrow.operator.stored_rows import StoredRows
from windrow.query import BoundQuery
from windrow.storage.image import image_of, live_keys, load_image
from windrow.storage.paging import Paging
from windrow.storage.validate_slices import check_reached


@dataclass(frozen=True)
class Parts:
    """What an operator consists of. Every part was given those that it needs."""

    bound: BoundQuery
    keys: Keys
    table: SliceTable
    buffer: Buffer
    output: Output
    paging: Paging | None
    rows: StoredRows
    """Reads and writes the rows of whole windows."""
    inputs: list[str]
    """The columns that are read beside the keys."""
    why_hot: str = ""
    """Why no key is ever frozen; empty if keys are."""

    @property
    def ordered(self) -> bool:
        """Whether rows wait in the buffer, because the window or an aggregate needs them in their order."""
        return self.table.slicer.ordered or self.order_matters

    @property
    def order_matters(self) -> bool:
        """Whether an aggregate needs rows in their order."""
        commutes = all(monoid.commutative for monoid in self.bound.monoids.values())
        return not commutes or bool(self.rows.states)

    def check(self, schema: pa.Schema, *, stored: bool = False) -> None:
        """Refuse a batch of another schema, or state of one (``stored``), unless the columns that are read are the same."""
        query, bound = self.bound.query, self.bound.schema
        query.bind(schema)
        before, now = (schema, bound) if stored else (bound, schema)
        where = "the state" if stored else "earlier batches"
        for name in (*query.by, *self.bound.columns_needed):
            was, type_ = before.field(name).type, now.field(name).type
            if not text.alike(was, type_):
                raise QueryError(f"column {name!r} was {was} in {where} and is {type_} now; cast it to {was}")

    def image(self) -> dict[str, Any]:
        """The slices and rows of all keys as plain values. Folded and frozen slices are among them."""
        table, cold = self.table, self.table.cold
        if self.paging is not None:
            self.paging.unfold_all(table)
        with nullcontext() if cold is None else cold.melted(table):
            live = live_keys(table, self.keys)
            extents = self.rows.images(live)
            image = image_of(table, self.keys, live, relative=True)
            return {**image, "extents": extents} if extents else image

    def idle(self) -> IdleFigures:
        """What of the state is frozen."""
        if self.table.cold is not None:
            return self.table.cold.figures(self.table)
        hot = int((self.table.slices.held > 0).sum())
        return IdleFigures(hot_keys=hot, hot_bytes=nbytes(self.table), why=self.why_hot)

    def idle_keys(self) -> Ints:
        """The keys without any state, if they are the majority: a stream may have ever new keys."""
        order, cold = self.keys.order, self.table.cold
        if cold is not None and 2 * cold.count >= len(order):
            return order[:0]  # of many cold keys, none is looked at
        live = self.table.live()
        if 2 * np.count_nonzero(live) >= len(order):
            return order[:0]
        for batch in self.buffer.batches:
            live[batch.keys] = True
        idle: Ints = order[~live[order]]
        return idle if self.bound.query.by and 2 * len(idle) > len(order) else idle[:0]

    def forget(self, keys: Ints) -> None:
        """Give the numbers of these keys, which have no state, to other keys."""
        self.table.forget(keys)
        self.keys.forget(keys.tolist())

    def load(self, image: dict[str, Any], late: LateRows, watermark: int) -> None:
        """Load the state that a snapshot holds, or that the header of a store names."""
        reached = max(watermark - late.behind, -FOREVER) if watermark < FOREVER else FOREVER
        self.load_slices(image, reached)
        self.rows.load(self.stored(image.get("extents", [])))
        for name, rows in self.stored(image["waiting"]):
            self.buffer.load(rows, self.keys, name)
        for name, shown in self.stored(image.get("shown", [])):
            late.load_shown(shown, name)
        self.table.ensure_keys()
        check_reached(self.table, reached)
        self.table.resume(image["wake"], reached)
        late.restored(watermark)

    def load_slices(self, image: dict[str, Any], reached: int) -> None:
        """Load the slices of all keys, from a snapshot or from the store that the header names."""
        if self.paging is None:
            load_image(image, self.table, self.keys)
        else:
            self.paging.load(image, self.table, self.keys)
        self.table.catch_up(reached)
        if self.paging is not None and "cold" in image:
            blocks = checked_list(image["cold"])
            if self.table.cold is None:
                raise CorruptSnapshot("the state has cold blocks, but keys of this query are never frozen")
            pages = self.paging.read([page_name(number) for number, _ in blocks])
            self.table.cold.load(self.table, blocks, (page for _, page in pages))

    def stored(self, entries: list[Any]) -> Iterable[tuple[str, dict[str, Any]]]:
        """What a snapshot lists, or the pages of a store that a header names; under their names, if they have any."""
        return [("", entry) for entry in entries] if self.paging is None else self.paging.read(entries)

    def row_pages(self, commit: int) -> tuple[dict[str, Any], dict[str, dict[str, Any]], list[str]]:
        """Rows for the pages of a commit: entries of the header that name all pages, those that are new, and names
        of pages that are gone."""
        waiting = self.buffer.unnamed(commit, self.keys)
        extents, fresh, unneeded = self.rows.pages(commit)
        entries = {"waiting": [batch.name for batch in self.buffer.batches], "extents": extents}
        return (
            {name: each for name, each in entries.items() if each or name == "waiting"},
            {**waiting, **fresh},
            [*self.buffer.gone, *unneeded],
        )

    def commit(self, header: dict[str, Any], late: LateRows, reached: int) -> int:
        """Write what changed since the last commit to the store; returns how many bytes that were."""
        if self.paging is None:
            raise QueryError(
                "commit() needs a store: create the operator with Operator.open(query, schema, pages)"
            )
        number = self.paging.commits + 1
        entries, pages, gone = self.row_pages(number)
        names, shown, withdrawn = late.shown_pages(number)
        header = {**header, **entries, **({"shown": names} if names else {})}
        self.paging.fold_long(self.table, reached)
        header |= {} if self.table.cold is None else self.table.cold.header()
        count = self.paging.commit(self.table, self.keys, header, pages | shown, gone + withdrawn)
        self.buffer.committed()
        self.rows.committed()
        late.committed()
        return count

    def unfinished(self, watermark: int) -> pa.Table:
        """The results so far of windows that have begun."""
        return self.output.table(self.table.unfinished(self.keys.order, watermark), "early")

    def accept_partials(self, partials: pa.Table, times: Ints) -> pa.Table:
        """Put ready-made partials into slices; nothing comes out."""
        self.table.take_partials(self.table.read(partials, times))
        return self.output.empty

    def wait(self, rows: pa.Table, times: Ints) -> Ints:
        """Put rows into the buffer; returns the numbers of their keys."""
        keys = self.keys.number(rows)
        self.table.ensure_keys()
        self.buffer.add(rows.select(self.inputs), times, keys)
        return keys
