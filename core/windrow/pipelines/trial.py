# SPDX-License-Identifier: Apache-2.0
"""A change that takes effect later, tried on a copy of the graph, so that a mistake in it is an error now."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from windrow.errors import WindrowError
from windrow.pipelines.changes import Change, Id
from windrow.pipelines.graph import Graph

__all__ = ["try_later"]


def try_later(graph: Graph, scheduled: Iterable[Change], change: Change, at: Id) -> None:
    """Refuse a change that would be refused at its time, as far as is known. ``scheduled`` are those that wait already.

    It may still be refused then: others may change what it builds on before.
    """
    copy = _copied(graph)
    for other in sorted((each for each in scheduled if each.at is not None), key=lambda each: each.at or at):
        if other.at is not None and other.at <= at:
            with suppress(WindrowError):  # that one is reported when its time comes
                copy.apply(other)
    copy.apply(change)


def _copied(graph: Graph) -> Graph:
    return replace(
        graph,
        streams=dict(graph.streams),
        plans=dict(graph.plans),
        rank=dict(graph.rank),
        rights=graph.rights.copied(),
        subscribers={name: dict(others) for name, others in graph.subscribers.items()},
        selectors=dict(graph.selectors),
        owned=dict(graph.owned),
        imports=dict(graph.imports),
        exports=dict(graph.exports),
    )
