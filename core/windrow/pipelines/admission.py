# SPDX-License-Identifier: Apache-2.0
"""Which updates may enter a space: those of a source that is there, that fit its channels, and that are new."""

from __future__ import annotations

from typing import Any

from windrow.errors import PipelineError
from windrow.pipelines.changes import Id
from windrow.pipelines.execution import Execution
from windrow.pipelines.state import Values
from windrow.pipelines.streams import Source
from windrow.pipelines.values import checked

__all__ = ["Admission"]


class Admission:
    """Looks at every update that runs by itself. What may not enter is reported, or counted."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution

    def values(self, stream: str, named: Any, at: Id, home: str | None) -> Values | None:
        """The values of an update of a source. ``home`` is the space that emitted it, None if it comes from outside."""
        execution = self.execution
        source = execution.graph.streams.get(stream)
        if not isinstance(source, Source) or source.space != home:
            if home is None:  # an import that nobody has put here is of no interest
                execution.report("refused", stream, at, f"there is no source {stream!r} to push to")
            return None
        state = execution.states(stream)
        try:
            values = checked(source, named)
        except PipelineError as error:
            state.figures.count("failed")
            execution.report("refused", stream, at, str(error))
            return None
        if state.last is not None and at <= state.last:
            state.figures.count("discarded")
            execution.dirty.add(stream)
            return None
        return values
