# SPDX-License-Identifier: Apache-2.0
"""Several spaces of this process, joined: a stream of one is imported by others.

>>> from windrow.pipelines import Composite, Source, Space
>>> rounds = {"city": 1}
>>> north, city = (Space(name, order="event", rounds=rounds) for name in ("north", "city"))
>>> north.put(Source("north/t", channels={"f": "double"}), by="north")
>>> celsius = Composite("north/c", {"t": "north/t"}, {"c": "(t.f - 32) / 1.8"}, export="city")
>>> north.put(celsius, by="north")
>>> city.put(Source("north/c", channels={"c": "double"}, space="north", read="*"), by="north")
>>> city.put(Composite("ann/frost", {"t": "north/c"}, where="c < 0"), by="ann")
>>> joined = Joined(north, city)
>>> _ = north.push([{"stream": "north/t", "ts": 1, "f": 50.0}, {"stream": "north/t", "ts": 2, "f": 14.0}])
>>> [update.named for update in joined.advance(10)["city"].of("ann/frost")]
[{'c': -10.0}]
"""

from __future__ import annotations

from typing import Any

from windrow.errors import PipelineError
from windrow.pipelines.emissions import Emissions
from windrow.pipelines.space import Space

__all__ = ["Joined"]


class Joined:
    """Spaces with one watermark. They run by their rounds; what one exports, the others take before they go on.

    Put and push as always, into the spaces themselves. If the process ends in between, what was exported and not taken
    is in the exporting space's store, and is taken when the spaces are joined again.
    """

    def __init__(self, *spaces: Space) -> None:
        self.spaces = {space.name: space for space in spaces}
        if len(self.spaces) < len(spaces):
            raise PipelineError("spaces that are joined have different names")
        self._deliver()

    def advance(self, watermark: Any) -> dict[str, Emissions]:
        """No update before this time will come to any of them; returns what each space emits."""
        found: dict[str, Emissions] = {}
        for space in sorted(self.spaces.values(), key=lambda space: space.runtime.graph.place.round):
            found[space.name] = space.advance(watermark)
            self._hand_on(space)
        self._sent()
        return found

    def _deliver(self) -> None:
        """Hand on what was exported before the process ended."""
        for space in self.spaces.values():
            self._hand_on(space)
        for space in self.spaces.values():
            space.runtime.commit()
        self._sent()

    def _hand_on(self, space: Space) -> None:
        for name, imported in space.runtime.exports().items():
            if name in self.spaces:
                self.spaces[name].take(imported)

    def _sent(self) -> None:
        for space in self.spaces.values():
            space.runtime.sent()
