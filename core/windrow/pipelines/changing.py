# SPDX-License-Identifier: Apache-2.0
"""A change takes effect: on the graph, in the log, and on the state of the streams that it restarts or drops."""

from __future__ import annotations

from collections.abc import Iterable

from windrow.errors import PipelineError, WindrowError
from windrow.pipelines.changes import Change, Id
from windrow.pipelines.emissions import Emissions
from windrow.pipelines.execution import Execution
from windrow.pipelines.ledger import Ledger
from windrow.pipelines.stored import StoredStreams

__all__ = ["Changing"]


class Changing:
    """Applies changes when their time has come. ``sinks`` are the names that composites may send to."""

    def __init__(
        self, execution: Execution, stored: StoredStreams, ledger: Ledger, sinks: Iterable[str]
    ) -> None:
        self.execution, self.stored, self.ledger = execution, stored, ledger
        self.sinks = frozenset(sinks)

    def apply(self, change: Change, number: int, out: Emissions, at: Id) -> None:
        """Apply the change with this number in the log, at an id. A refusal is written down there, and is an error."""
        execution = self.execution
        try:
            self._check_sink(change)
            applied = execution.graph.apply(change)
        except WindrowError:
            self.ledger.refuse(number)
            raise
        self.ledger.apply(number, execution.graph.version)
        execution.changed()
        for name in applied.restarted:
            self.restart(name)
            execution.export_restart(name, at)
        for name in applied.dropped:
            self._drop(name)
            execution.export_restart(name, at)
        for name in (*applied.added, *applied.restarted):
            plan = execution.graph.plans.get(name)
            if plan is not None and plan.stream.start == "replay":
                execution.replay(name, out)

    def restart(self, name: str) -> None:
        """A stream is computed differently from now on: its values and windows are forgotten."""
        self._forget_windows(name)
        self.stored.restart(name)
        self.execution.dirty.add(name)

    def _drop(self, name: str) -> None:
        self._forget_windows(name)
        self.stored.drop(name)
        self.execution.dirty.discard(name)

    def _forget_windows(self, name: str) -> None:
        self.execution.windows.forget(name)
        self.ledger.renew(name)

    def _check_sink(self, change: Change) -> None:
        sink = change.form.get("sink") if change.operation == "put" else None
        if sink is not None and sink not in self.sinks:
            raise PipelineError(f"no sink {sink!r}; there is {', '.join(sorted(self.sinks)) or 'none'}")
