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
HARMLESS = (*CRASHES, *COMMITS, "unreadable", "recut")
DAMAGING = ("torn", "lost", "stale", "missing", "rot", "reordered", "went back", "duplicated")
REDIS = (*HARMLESS, "unheard", "reordered", "duplicated", "went back", "wiped", "second process")
"""Redis writes a commit only on top of the one before it, so it stays whole also if it loses or reorders commits."""
BLOB = (*CRASHES, "crash", "torn", "rot", "went back", "recut")
KINDS = {
    "pages": (HARMLESS, DAMAGING),
    "segments": (HARMLESS, DAMAGING),
    "redis": (REDIS, ()),
    "blob": (BLOB, ()),
}
"""Where the state is: in pages, in pages put together into segments, in Redis, or in snapshots. And what can happen there."""


IDLE = (None, None, wr.Idle(0, cohort=1), wr.Idle(10, cohort=1), wr.Idle(30, "lz4", cohort=20))
"""When the windows of silent keys are frozen."""


@dataclass(frozen=True)
class Event:
    """Something that happens before action ``when``; ``chance`` decides its details."""

    when: int
    what: str
    chance: int


@dataclass(frozen=True)
class Schedule:
    """Where the state of a life is, how large its pages are, after which steps it is committed, and what goes wrong."""

    kind: str
    fold: int
    pace: float
    """The share of steps after which there is a commit."""
    chance: int
    events: tuple[Event, ...]
    how: tuple[tuple[str, Any], ...] = ()
    """Options of the operator, which change nothing of its output."""


def schedule_of(seed: int, kept: tuple[int, ...] | None = None) -> Schedule:
    """The schedule of a seed; with ``kept``, only those of its events."""
    random = Random(f"windrow schedule {seed}")
    kind = random.choice(["pages", "pages", "pages", "segments", "segments", "redis", "redis", "blob"])
    harmless, damaging = KINDS[kind]
    choice = harmless if random.random() < 0.5 else (*harmless, *damaging)
    whens = sorted(random.randrange(30) for _ in range(random.choice([1, 2, 2, 3, 4, 6])))
    events = tuple(Event(when, random.choice(choice), random.getrandbits(32)) for when in whens)
    if kept is not None:
        events = tuple(event for number, event in enumerate(events) if number in kept)
    fold, pace, chance = random.choice([2, 3, 32]), random.choice([0.2, 0.5, 1.0]), random.getrandbits(32)
    return Schedule(kind, fold, pace, chance, events, (("idle", random.choice(IDLE)),))
