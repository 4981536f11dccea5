# SPDX-License-Identifier: Apache-2.0
"""What goes wrong: the events of a schedule, from a seed.

An event happens before an action of the job, an action being a step of the stream that is processed or processed again.
Stores keep what they promise under the events of :data:`HARMLESS`, and break it under those of :data:`DAMAGING`. After
the former the job needs nothing but what is in its store; after the latter a store may refuse its state, and the job
goes back to a backup.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import windrow as wr

CRASHES = ("crash", "crash", "crash", "snapshot", "backup")
COMMITS = ("refused", "unheard", "full disk")
HARMLESS = (*CRASHES, *COMMITS, "unreadable", "recut", "slow")
"""A store is so slow that the process is killed while it waits, for a page or for a commit, which takes place or not."""
DAMAGING = ("torn", "lost", "stale", "missing", "rot", "reordered", "went back", "duplicated")
REDIS = (*HARMLESS, "unheard", "reordered", "duplicated", "went back", "wiped", "second process")
"""Redis writes a commit only on top of the one before it, so it stays whole also if it loses or reorders commits."""
BLOB = (*CRASHES, "crash", "torn", "rot", "went back", "recut", "slow")
SPACE = (*HARMLESS, "rot")
"""A space of pipelines numbers its commits in its header only, so it relies on a store that keeps commits whole."""
KINDS = {
    "pages": (HARMLESS, DAMAGING),
    "segments": (HARMLESS, DAMAGING),
    "redis": (REDIS, ()),
    "blob": (BLOB, ()),
    "space": (SPACE, ()),
    "space in redis": (REDIS, ()),
}
"""Where the state is: in pages, in pages put together into segments, in Redis, in snapshots; or it is that of a space of
pipelines, in pages or in Redis. And what can happen there."""

IDLE = (None, None, wr.Idle(0, cohort=1), wr.Idle(10, cohort=1), wr.Idle(30, "lz4", cohort=20))
"""When the windows of silent keys are frozen."""


@dataclass(frozen=True)
class Event:
    """Something that happens before action ``when``; ``chance`` decides its details."""

    when: int
    what: str
    chance: int


@dataclass(frozen=True)
class Setting:
    """Where the state of some lives is, how large its pages are, and after which steps it is committed."""

    kind: str
    fold: int
    pace: float
    """The share of steps after which there is a commit."""
    chance: int
    how: tuple[tuple[str, Any], ...] = ()
    """Options of the operator, which change nothing of its output."""

    def positions(self, steps: int) -> list[int]:
        """How many steps are done at each commit; the first entry is before all commits."""
        random = Random(self.chance)
        after = [number + 1 for number in range(steps - 1) if random.random() < self.pace]
        return [0, *after, steps]


def setting_of(number: int, *, space: bool) -> Setting:
    """The setting of the lives that share stream ``number``, which may be one of a space of pipelines."""
    random = Random(f"windrow setting {number}")
    kind = random.choice(["pages", "pages", "pages", "segments", "segments", "redis", "redis", "blob"])
    fold, pace, chance = random.choice([2, 3, 32]), random.choice([0.2, 0.5, 1.0]), random.getrandbits(32)
    kind = random.choice(["space", "space in redis"]) if space else kind
    return Setting(kind, fold, pace, chance, (("idle", random.choice(IDLE)),))


def events_of(seed: int, kind: str, steps: int, kept: tuple[int, ...] | None = None) -> tuple[Event, ...]:
    """The events of a seed, in a life of so many steps; with ``kept``, only those of them."""
    random = Random(f"windrow schedule {seed}")
    harmless, damaging = KINDS[kind]
    choice = harmless if random.random() < 0.5 else (*harmless, *damaging)
    whens = sorted(random.randrange(max(steps, 1)) for _ in range(random.choice([1, 2, 2, 3, 4, 6])))
    events = tuple(Event(when, random.choice(choice), random.getrandbits(32)) for when in whens)
    return events if kept is None else tuple(each for number, each in enumerate(events) if number in kept)
