# SPDX-License-Identifier: Apache-2.0
"""Where a window begins under a window slide policy: Algorithms 8 and 9 of Villalba's thesis (2019), on any tree of nodes.

Position j is *evictable* if the window without the partials before j is not valid, or if the partials up to j may be
evicted. The invariants are monotone, so the evictable positions come first. The window is cut into O(log n) nodes. What
follows each of them is combined once, from the newest on (Algorithm 9). Whole nodes are evicted from the oldest on, as
long as they can be; the first that cannot is searched from its root to a leaf (Algorithm 8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from windrow.aggregates.algebra import Partial
from windrow.errors import WindowError

Node = tuple[int, int]
"""A level and an index: node k of level l covers the positions [k·2ˡ, (k + 1)·2ˡ)."""


class Beginning:
    """The search for the first partial that stays.

    ``alone(position)`` is called before a leaf goes by itself, or is asked for alone. It may raise, if the leaf stands for several.
    """

    def __init__(
        self,
        combine: Callable[[Partial, Partial], Partial],
        valid: Callable[[Partial], bool] | None,
        evict: Callable[[Partial, Partial, Partial], bool] | None,
        alone: Callable[[int], object] | None = None,
    ) -> None:
        if valid is None and evict is None:
            raise WindowError(
                "a window slide policy needs a window invariant (valid) or an eviction invariant (evict)"
            )
        self.combine, self.valid, self.evict, self.alone = combine, valid, evict, alone

    def find(
        self, nodes: Sequence[Node], node: Callable[[int, int], Partial], newest: Partial, before: Partial
    ) -> int:
        """The position that the window begins at. ``nodes`` cover it without its newest partial, which stays.

        ``node`` returns the partial of a node. ``before`` is that of the whole window.
        """
        rest = [newest]
        for each in reversed(nodes[1:]):
            rest.append(self.combine(node(*each), rest[-1]))
        gone: list[Partial] = []
        for (level, index), after in zip(nodes, reversed(rest), strict=True):
            candidate = self._with(gone, node(level, index))
            if not self._goes(candidate, after, before):
                return self._descend((level, index), node, gone, after, before)
            gone = [candidate]
        level, index = nodes[-1]
        return (index + 1) << level

    def _descend(
        self,
        root: Node,
        node: Callable[[int, int], Partial],
        gone: list[Partial],
        after: Partial,
        before: Partial,
    ) -> int:
        """The first position of a node that stays, or one past its end."""
        level, index = root
        while level > 0:
            level, index = level - 1, 2 * index
            candidate = self._with(gone, node(level, index))
            rest = self.combine(node(level, index + 1), after)
            if self._goes(candidate, rest, before):
                gone, index = [candidate], index + 1
            else:
                after = rest
        leaf = node(0, index)
        goes = self.valid is not None and not self.valid(self.combine(leaf, after))
        if self.alone is not None and (goes or self.evict is not None):
            self.alone(index)
        if not goes and self.evict is not None:
            goes = self.evict(self._with(gone, leaf), after, before)
        return index + 1 if goes else index

    def _with(self, gone: list[Partial], more: Partial) -> Partial:
        return self.combine(gone[0], more) if gone else more

    def _goes(self, candidate: Partial, after: Partial, before: Partial) -> bool:
        """Whether all of a candidate has to be evicted, as far as can be seen without looking into it."""
        if self.valid is not None and not self.valid(after):
            return True
        return self.evict is not None and bool(self.evict(candidate, after, before))


def cover(begin: int, end: int, highest: Callable[[int], int]) -> Iterator[Node]:
    """The largest nodes that make up these positions, oldest first; ``highest`` is the highest level at a position.

    >>> list(cover(3, 13, lambda begin: 2))
    [(0, 3), (2, 1), (2, 2), (0, 12)]
    """
    while begin < end:
        level = min((end - begin).bit_length() - 1, highest(begin))
        if begin:
            level = min(level, (begin & -begin).bit_length() - 1)
        yield level, begin >> level
        begin += 1 << level
