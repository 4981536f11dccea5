# SPDX-License-Identifier: Apache-2.0
"""The order in which streams run: after their inputs. A cycle is opened at the stream that was put first.

A stream whose inputs are all ranked has one more than the largest of their ranks; a source has 0. If every stream that
is left waits for another one, some of them wait for each other and for nobody else. Of these, the one that was put first
is ranked by those of its inputs that are ranked. Its other inputs are *back-edges*: they deliver their previous value.

>>> ranks({"a": [], "f": ["a"], "x": ["a", "f"]})
{'a': 0, 'f': 1, 'x': 2}
>>> ranks({"a": [], "c": ["a", "d"], "d": ["c"]})
{'a': 0, 'c': 1, 'd': 2}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

__all__ = ["groups", "ranks"]

Inputs = Mapping[str, Collection[str]]
"""The inputs of each stream, in the order in which the streams were put."""


def ranks(inputs: Inputs) -> dict[str, int]:
    """The rank of every stream. Inputs that are not among the streams do not count."""
    found: dict[str, int] = {}
    left = [inputs]
    while left:
        part = left.pop()
        parts = groups(part)
        for place, group in enumerate(parts):
            if len(group) == 1:
                found[group[0]] = _above(group[0], inputs, found)
                continue
            members = set(group)
            first = next(name for name in part if name in members)
            found[first] = _above(first, inputs, found)
            # What follows waits for the rest of this group, so it is ranked after it.
            later = {name for each in parts[place + 1 :] for name in each}
            left.append({name: part[name] for name in part if name in later})
            left.append(
                {name: [i for i in part[name] if i != first] for name in part if name in members - {first}}
            )
            break
    return {name: found[name] for name in inputs}


def _above(name: str, inputs: Inputs, found: Mapping[str, int]) -> int:
    return max(
        (found[i] + 1 for i in inputs[name] if i in found and i != name), default=0 if not inputs[name] else 1
    )


def groups(inputs: Inputs) -> list[list[str]]:
    """The strongly connected components, each after those that it has inputs from (Tarjan 1972, without recursion)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    waiting: list[str] = []
    inside: set[str] = set()
    groups: list[list[str]] = []
    for root in inputs:
        if root in index:
            continue
        walk = [(root, iter(inputs[root]))]
        index[root] = low[root] = len(index)
        waiting.append(root)
        inside.add(root)
        while walk:
            name, others = walk[-1]
            for other in others:
                if other not in inputs:
                    continue
                if other not in index:
                    index[other] = low[other] = len(index)
                    waiting.append(other)
                    inside.add(other)
                    walk.append((other, iter(inputs[other])))
                    break
                if other in inside:
                    low[name] = min(low[name], index[other])
            else:
                walk.pop()
                if walk:
                    low[walk[-1][0]] = min(low[walk[-1][0]], low[name])
                if low[name] == index[name]:
                    group: list[str] = []
                    while not group or group[-1] != name:
                        group.append(waiting.pop())
                        inside.discard(group[-1])
                    groups.append(group)
    return groups
