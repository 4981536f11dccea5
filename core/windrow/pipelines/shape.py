# SPDX-License-Identifier: Apache-2.0
"""What a graph looks like: the sources of its streams, and their novelty (thesis of Villalba, section 3.4.5)."""

from __future__ import annotations

from windrow.pipelines.graph import Graph

__all__ = ["explained", "novelty", "sources"]


def sources(graph: Graph) -> dict[str, frozenset[str]]:
    """The sources that each stream is computed from."""
    order = sorted(graph.streams, key=lambda name: (graph.rank[name], name))
    found = {name: frozenset() if name in graph.plans else frozenset({name}) for name in order}
    changed = True
    while changed:  # once, and once more for each round that back-edges need
        changed = False
        for name in order:
            if name in graph.plans:
                reached = found[name].union(*(found[other] for other in graph.plans[name].inputs))
                changed = changed or reached != found[name]
                found[name] = reached
    return found


def novelty(graph: Graph) -> dict[str, int]:
    """How far each stream is from the last stream that joined a new source; 0 is novel.

    A composite is novel if some source reaches it through one of its inputs and not through all of them.
    """
    reached = sources(graph)
    found: dict[str, int] = {}
    for name in sorted(graph.streams, key=lambda name: (graph.rank[name], name)):
        inputs = [
            other for other in (graph.plans[name].inputs if name in graph.plans else ()) if other != name
        ]
        shared = [reached[other] for other in inputs]
        joins = len(inputs) > 1 and frozenset.union(*shared) != frozenset.intersection(*shared)
        near = [found[other] for other in inputs if other in found]
        found[name] = 0 if not inputs or joins or not near else 1 + min(near)
    return found


def explained(graph: Graph, name: str) -> str:
    """A stream in words: its channels and their types, what it is computed from, and what depends on it.

    >>> from windrow.pipelines import Change, Composite, Graph, Source
    >>> graph = Graph()
    >>> for stream in (Source("ann/t", channels={"f": "double"}), Composite("ann/c", {"t": "ann/t"}, {"c": "t.f / 2"})):
    ...     _ = graph.apply(Change.put(stream.to_dict(), by="ann"))
    >>> print(explained(graph, "ann/c"))
    ann/c is a composite of ann: rank 1, novelty 1
    channels   c double = t.f / 2
    inputs     t: ann/t
    sources    ann/t
    """
    graph.check(None, "read", name)
    stream, channels = graph.streams[name], graph.channels(name) or {}
    rank, new = graph.rank[name], novelty(graph)[name]
    lines = [f"{name} is a {stream.kind} of {stream.owner}: rank {rank}, novelty {new}"]
    texts = {} if name not in graph.plans or graph.plans[name].query is not None else stream.channels
    shown = [
        f"{channel} {kind}" + (f" = {texts[channel]}" if channel in texts else "")
        for channel, kind in channels.items()
    ]
    lines += _listed("channels", shown)
    plan = graph.plans.get(name)
    if plan is not None:
        where = [plan.stream.where] if plan.stream.where else []
        lines += _listed("where", where)
        lines += _listed("inputs", [f"{alias}: {', '.join(names)}" for alias, names in plan.members.items()])
        if plan.query is not None:
            lines += _listed("window", [str(window) for _, window in plan.query.windows])
        closed = [other for other in plan.inputs if other != name and not graph.open(name, other)]
        lines += _listed("revoked", closed)
        later = [other for other in plan.inputs if graph.rank[other] >= rank]
        lines += _listed("back-edges", later)
        lines += _listed("sources", sorted(sources(graph)[name]))
    lines += _listed("dependants", sorted(graph.subscribers.get(name, ())))
    return "\n".join(lines)


def _listed(title: str, texts: list[str]) -> list[str]:
    return [f"{title if not n else '':<10} {text}" for n, text in enumerate(texts)]
