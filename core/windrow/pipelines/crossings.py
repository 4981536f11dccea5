# SPDX-License-Identifier: Apache-2.0
"""Edges between spaces: which ones there may be, so that the answer is that of one space with all streams.

Spaces run in rounds. A space may import streams of spaces of earlier rounds, so no cycle leads through two spaces. The
rounds are those of a job: they do not change while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from windrow.errors import PipelineError
from windrow.pipelines.plan import CompositePlan
from windrow.pipelines.ranks import groups
from windrow.pipelines.streams import Stream

__all__ = ["Place", "check_imported", "check_rounds"]


def check_rounds(rounds: Mapping[str, int]) -> dict[str, int]:
    """The rounds of spaces, if they are numbers from 0 to 63."""
    for space, number in rounds.items():
        if not isinstance(space, str) or type(number) is not int or not 0 <= number < 64:
            raise PipelineError(
                f"rounds= has the names of spaces and the round of each, such as {{'city': 1}}, not {space!r}: {number!r}"
            )
    return dict(rounds)


@dataclass(frozen=True)
class Place:
    """Where a space stands among others: its name, and the rounds of spaces; that of others is 0."""

    space: str = ""
    rounds: Mapping[str, int] = field(default_factory=dict)
    by_event: bool = True
    """Whether updates run by their ids, and not as they arrive."""

    @property
    def round(self) -> int:
        return self.rounds.get(self.space, 0)

    def check(self, stream: Stream) -> None:
        """Refuse an import from a space that does not run before this one, and an export to one that does not run after."""
        if not self.by_event and (stream.space is not None or stream.export):
            raise PipelineError(
                f"{stream.name!r}: only spaces with order='event' can import and export streams"
            )
        if stream.space is not None and self.rounds.get(stream.space, 0) >= self.round:
            self._refuse(stream.name, f"cannot come from {stream.space!r}", self.space, stream.space)
        for other in stream.export:
            if self.rounds.get(other, 0) <= self.round:
                self._refuse(stream.name, f"cannot be exported to {other!r}", other, self.space)

    def _refuse(self, name: str, what: str, later: str, earlier: str) -> None:
        round_of = self.rounds.get
        raise PipelineError(
            f"{name!r} {what}: space {later!r} runs in round {round_of(later, 0)} and {earlier!r} in round "
            f"{round_of(earlier, 0)}, and only a space of a later round can import; if they do not import from each "
            f"other, start with rounds={{{later!r}: {round_of(earlier, 0) + 1}}}"
        )


def check_imported(streams: Iterable[str], plans: Mapping[str, CompositePlan]) -> None:
    """Refuse what could give another answer beside imports than in one space.

    The ranks of imports here are not those where they come from. They decide who is first, and where a cycle of several
    streams begins.
    """
    inputs = {name: plans[name].inputs if name in plans else () for name in streams}
    for name in inputs:
        if name in plans and plans[name].stream.compose == "first":
            raise PipelineError(
                f"{name!r} has compose='first', which is not possible in a space with imported streams"
            )
    for group in groups(inputs):
        if len(group) > 1:
            raise PipelineError(
                f"{', '.join(map(repr, sorted(group)))} depend on each other, which is not possible in a space with "
                f"imported streams; put them into the space that the streams come from"
            )
