# SPDX-License-Identifier: Apache-2.0
"""One aggregate's partials of all slices, and the results of due windows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Monoid
from windrow.aggregates.bulk import absorb_many
from windrow.columns import arrow
from windrow.errors import AggregateError, ArithmeticOverflow, ColumnError, QueryError
from windrow.kernels.partials import allocate, blank, slots
from windrow.kernels.slices import combine, place
from windrow.kernels.slices.layout import DueWindows, Partials, Results, RowOrder, Slices
from windrow.kernels.specialise import specialise
from windrow.operator.plan import Ints

if TYPE_CHECKING:
    from windrow.operator.slices import SliceTable

MANY = 10_000
"""So many slices or windows are worth a second thread."""


class AggregateState:
    """The partials of one aggregate: of every slice, and the lcs and csa of every window."""

    def __init__(
        self, name: str, monoid: Monoid, columns: tuple[str, ...], windows: int, compiled: bool
    ) -> None:
        self.name, self.monoid, self.columns, self.windows = name, monoid, columns, windows
        compiles = compiled and monoid.compiles
        seam = slots(monoid)
        # Rows are added without lower, so that can be compiled also where results are objects.
        adds = compiles or (compiled and monoid.typed and monoid.add is not None)
        self.place = specialise(place, seam, compiled=adds)
        self.combine = specialise(combine, seam, compiled=compiles)
        self.partials = Partials(*(allocate(monoid, count) for count in (0, 0, 0, 1)))
        self.output = monoid.results

    def grow_slots(self, old: int, room: int) -> None:
        """Room for so many slices; there was room for ``old``."""
        parts = allocate(self.monoid, room)
        for new, known in zip(parts, self.partials.parts, strict=True):
            new[:old] = known
        lcs = _by_window(self.partials.lcs, blank(self.monoid, self.windows * room), self.windows, old, room)
        self.partials = self.partials._replace(parts=parts, lcs=lcs)

    def grow_keys(self, old: int, room: int) -> None:
        """Room for so many keys; there was room for ``old``."""
        fresh = allocate(self.monoid, self.windows * room)
        self.partials = self.partials._replace(
            csa=_by_window(self.partials.csa, fresh, self.windows, old, room)
        )

    def absorb(
        self, columns: Mapping[str, arrow.Physical], slots: Ints, rows: RowOrder | None, slices: Slices
    ) -> None:
        """Combine rows with the partials of their slices. ``rows`` is their order by key, if they need one."""
        values, valid = self.read(columns, self.monoid.keeps_nulls)
        try:
            bulk = self.monoid.lift_many is not None
            if not (bulk and absorb_many(self.monoid, self.partials.parts[0], slots, values, valid)):
                self.place.absorb(self.partials.parts, slots, tuple(values), valid, len(slots))
        except Exception as error:
            raise self._explained(error, values, valid) from error

    def read(self, columns: Mapping[str, arrow.Physical], keeps_nulls: bool) -> tuple[list[Any], Any]:
        """The input columns, and which rows have no null in them; an empty array if all have none, or nulls are kept."""
        values, valid = [], np.empty(0, dtype=np.bool_)
        for name in self.columns:
            column, ok = columns[name]
            if keeps_nulls:
                column = arrow.with_nan(column, ok)
            elif ok is not None:
                valid = ok if len(valid) == 0 else valid & ok
            values.append(column)
        return values, valid

    def absorb_partials(self, data: pa.Table, slots: Ints) -> None:
        """Combine ready-made partials, from the columns ``name.field``, with those of their slices."""
        if self.monoid.fields is None:
            raise QueryError(f"{self.name}: {self.monoid.name} has no typed partial; give the operator rows")
        incoming = []
        for field, identity in zip(self.monoid.fields, self.monoid.identity, strict=True):
            name = f"{self.name}.{field.name}"
            if name not in data.column_names:
                raise ColumnError.unknown(name, f"partial of aggregate {self.name!r}", data.column_names)
            values, valid = arrow.to_numpy(data.column(name))
            if valid is not None:
                values = np.where(valid, values, np.asarray(identity, dtype=values.dtype))
            incoming.append(values.astype(field.dtype, copy=False))
        self.place.absorb_partials(self.partials.parts, slots, tuple(incoming))

    def results(self, table: SliceTable, due: DueWindows, count: int) -> Results:
        """The results of due windows."""
        results = self.room(count)
        self.slide(table, due, results, 0, count, covered=False)
        return results

    def room(self, count: int) -> Results:
        """Room for so many results."""
        return arrow.blanks(Results, count, {"out": self.output, "ok": np.bool_}, fill=0)

    def slide(
        self, table: SliceTable, due: DueWindows, results: Results, begin: int, end: int, covered: bool
    ) -> None:
        """The results of some of the due windows. ``covered`` says that their lcs was computed before."""
        with self.no_overflow():
            self.combine.slide(
                self.own_scratch(),
                table.slices,
                due,
                table.slot_room,
                table.key_room,
                results,
                begin,
                end,
                covered,
            )

    def own_scratch(self) -> Partials:
        """The partials, with a scratch that no other thread writes to."""
        return self.partials._replace(scratch=tuple(part.copy() for part in self.partials.scratch))

    def cover(self, table: SliceTable, due: DueWindows, begin: int, end: int) -> None:
        """The lcs of some of the due windows. Any number of threads may do this side by side."""
        parts, lcs = self.partials.parts, self.partials.lcs
        self.combine.cover(parts, lcs, table.slices.older, due, table.slot_room, begin, end)

    def rebuild(self, table: SliceTable, numbers: Ints) -> None:
        """lcs and csa of some keys, from their slices."""
        self.combine.rebuild(
            self.partials, table.slices, table.slides, table.slot_room, table.key_room, numbers
        )

    def forget(self, keys: Ints) -> None:
        """These keys have no slices any more; their numbers may be given to other keys."""
        return

    def renumber(self, slots: Ints, old: int, room: int) -> None:
        """The slices in these slots move to the first ones; there was room for ``old``, and will be for ``room``."""
        parts, count = allocate(self.monoid, room), len(slots)
        for new, known in zip(parts, self.partials.parts, strict=True):
            new[:count] = known[slots]
        lcs = blank(self.monoid, self.windows * room)
        for which in range(self.windows):
            for new, known in zip(lcs, self.partials.lcs, strict=True):
                new[which * room : which * room + count] = known[which * old + slots]
        self.partials = self.partials._replace(parts=parts, lcs=lcs)

    def shrink(self, slices: Slices) -> None:
        """Give back room for rows that have left."""
        return

    def take_out(self, keys: Ints) -> None:
        """The slices of these keys are about to leave the table, and will come back."""
        return

    @property
    def nbytes(self) -> int:
        """The size of all arrays; of objects, the references to them."""
        return sum(part.nbytes for parts in self.partials for part in parts)

    def wipe(self, slices: Slices, begin: int, end: int) -> None:
        """Some unused slots become the identity again."""
        self.combine.wipe(self.partials.parts, slices.free, begin, end)

    def fold(self, slots: Ints) -> None:
        """The first of these slots becomes the aggregate of them all."""
        self.combine.fold(self.partials.parts, slots)

    def merge_slices(self, into: Ints, gone: Ints) -> None:
        """Slices ``gone`` become part of the next older ones, in this order."""
        self.combine.merge_slices(self.partials.parts, into, gone)

    def unfold(self, slots: Ints, newer: int, base: int) -> None:
        """The lcs of slices that took the place of a folded one."""
        self.combine.unfold(self.partials.parts, self.partials.lcs, slots, newer, base)

    def lowered(self, partial: Any) -> Any:
        """The result of one partial."""
        with self.no_overflow():
            return self.monoid.lower(partial)

    def written(self, slots: Ints, lengths: Ints | None) -> tuple[Any, ...]:
        """The partials of slices, as they are stored. ``lengths`` is how many slices each key has, if it matters."""
        return tuple(part[slots] for part in self.partials.parts)

    def partial(self, slot: int) -> Any:
        """The partial of one slice."""
        parts = self.partials.parts
        return tuple(part[slot] for part in parts) if self.monoid.typed else parts[0][slot]

    @contextmanager
    def no_overflow(self) -> Iterator[None]:
        """A result that does not fit its type is an error that says so."""
        try:
            yield
        except OverflowError as cause:
            raise ArithmeticOverflow(
                f"{self.name}: {self.monoid.name} does not fit {self.monoid.output}; cast its column to float64 or decimal first"
            ) from cause

    def _explained(self, error: Exception, columns: list[Any], valid: Any) -> AggregateError:
        """An error that a user's function raised, with the aggregate and the row that it raised for."""
        where, partial = "", self.monoid.identity
        for row in range(len(columns[0]) if columns else 0):
            values = tuple(column[row] for column in columns)
            try:
                if len(valid) == 0 or valid[row]:
                    partial = self.monoid.combine(partial, self.monoid.lift(*values))
            except Exception:
                where = f" at row {row}, for {', '.join(repr(value) for value in values)}"
                break
        return AggregateError(
            f"{self.name}: {self.monoid.name} raised {type(error).__name__}{where}: {error}"
        )


class FinalAggregation(Protocol):
    """How the results of due windows come from the partials of slices."""

    by_key: bool
    """Windows of different keys may be computed by different threads."""
    tasks: int
    """How many tasks were handed to other threads."""
    exceeded: int = 0
    """How many windows have a larger error than the query promises."""

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        """The results of due windows by aggregate. Called after each plan, in the order of plans, before any slice changes."""
        ...

    def rearranged(self, table: SliceTable, key: int, gone: Ints, new: Ints) -> None:
        """Slices of a key were folded or unfolded: slots ``gone`` will be freed, slots ``new`` hold other partials."""
        return

    def peeked(self) -> None:
        """Unfinished windows were computed: slices that were read may still change."""
        return

    def forget(self, keys: Ints) -> None:
        """These keys have no slices any more."""
        return

    def thawed(self, table: SliceTable, keys: Ints) -> None:
        """The slices of these keys, which were forgotten, are back."""
        return

    def renumbered(self, table: SliceTable) -> None:
        """All slices moved to other slots."""
        return

    def restored(self, table: SliceTable) -> None:
        """The state was loaded from a snapshot or a store."""
        return


class BoundaryAggregation(FinalAggregation):
    """Each aggregate by itself, with the boundary aggregator of :mod:`windrow.kernels.slices.combine`."""

    by_key = True
    tasks = 0

    def results(
        self, table: SliceTable, due: DueWindows, count: int, pool: Executor | None
    ) -> dict[str, Results]:
        alone = pool is None or count < MANY or len(table.aggregates) == 1
        mapped = map if alone or pool is None else pool.map
        found = mapped(lambda state: state.results(table, due, count), table.aggregates)
        return {state.name: results for state, results in zip(table.aggregates, found, strict=True)}


def _by_window(known: tuple[Any, ...], fresh: tuple[Any, ...], windows: int, old: int, room: int) -> Any:
    """Copy entries that are grouped by window into arrays with more room for each window."""
    for which in range(windows):
        for new, array in zip(fresh, known, strict=True):
            new[which * room : which * room + old] = array[which * old : (which + 1) * old]
    return fresh
