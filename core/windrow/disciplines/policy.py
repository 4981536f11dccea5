"""Windows whose beginning the user's own invariants decide, row by row."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from windrow.disciplines.each_row import EachRow
from windrow.kernels.layout import NONE, Windows
from windrow.runs import Due, Ints


class ByPolicy(EachRow):
    """Policy windows: after each row, evict as the user's invariants say, and emit (section 5.2 of the A²MTA
    thesis)."""

    def due(self, keys: Ints, watermark: int) -> Iterator[Due]:
        rows = self.rows
        for row in rows.order.tolist():
            yield self._enforce(int(rows.keys[row]), int(self.slot[row]))

    def _enforce(self, key: int, newest: int) -> Due:
        window, state = self.window, self.state
        oldest = int(state.slides.lo[0, key])
        if oldest == NONE:
            oldest = int(state.runs.first[key])
        before = found = self._query(key, oldest, newest)
        candidate = [tower.monoid.identity for tower in state.towers]
        while oldest != newest and window.valid is not None and not window.valid(_named(found)):
            candidate = self._extended(candidate, oldest)
            oldest = self._leave(key, oldest)
            found = self._query(key, oldest, newest)
        while oldest != newest and window.evict is not None:
            more = self._extended(candidate, oldest)
            after = self._peek(key, int(state.runs.follower[oldest]), newest)
            if not window.evict(self._result(more), _named(after), _named(before)):
                break
            candidate = more
            oldest = self._leave(key, oldest)
            found = self._query(key, oldest, newest)
        return found

    def _leave(self, key: int, slot: int) -> int:
        self.state.kernels.pass_by(self.state.slides, 0, key, slot)
        return int(self.state.runs.follower[slot])

    def _query(self, key: int, lo: int, hi: int) -> Due:
        state = self.state
        start, end = state.runs.stamp[lo], state.runs.stamp[hi]

        def one(windows: Windows, begin: int) -> tuple[int, int]:
            return 1, state.kernels.emit(windows, 0, state.slides, key, 0, start, end, lo, hi, 1)

        return next(iter(state.due(one, 1, room=1)))

    def _peek(self, key: int, lo: int, hi: int) -> Due:
        """The result without the oldest slice, before it is known whether that slice goes."""
        slides = self.state.slides
        was = slides.lo[0, key], slides.front[0, key]
        oldest = int(self.state.runs.leader[lo])
        self._leave(key, oldest)
        peeked = self._query(key, lo, hi)
        if slides.front[0, key] == was[1]:
            slides.lo[0, key] = was[0]
        else:  # a new boundary was set at lo; the oldest slice is not covered by it
            slides.lo[0, key], slides.front[0, key] = was[0], NONE
        return peeked

    def _extended(self, candidate: list[Any], slot: int) -> list[Any]:
        """With the partials of the oldest slice, which then stands for no page."""
        while self.state.runs.page[slot] and self.state.unfold is not None:
            self.state.unfold(slot)
        towers = self.state.towers
        return [t.monoid.combine(c, t.partial(slot)) for t, c in zip(towers, candidate, strict=True)]

    def _result(self, candidate: list[Any]) -> SimpleNamespace:
        pairs = zip(self.state.towers, candidate, strict=True)
        return SimpleNamespace(**{tower.name: tower.monoid.result(partial) for tower, partial in pairs})

    def evict(self, keys: Ints, watermark: int) -> None:
        self.state.evict(lambda runs, slides: self.state.kernels.evict_before_lo(runs, slides, keys))


def _named(found: Due) -> SimpleNamespace:
    return SimpleNamespace(
        **{
            name: (out[0].item() if hasattr(out[0], "item") else out[0]) if ok[0] else None
            for name, (out, ok) in found.results.items()
        }
    )
