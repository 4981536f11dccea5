# SPDX-License-Identifier: Apache-2.0
"""Changes of pipelines that nobody would make, and the pages of a space, damaged or changed under a correct checksum."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

from windrow.pipelines import Change, Id
from windrow.pipelines.runtime import Runtime
from windrow.pipelines.state import read_page, write_page
from windrow.storage.pages import MemoryPages
from windrow_conformance.fuzzing import mutate
from windrow_conformance.pipelines.story import Story

Pages = dict[str, bytes]
WORDS = (
    "name",
    "inputs",
    "channels",
    "v",
    "o/a",
    "o/b",
    "p/total",
    "p/span",
    "matching",
    "window",
    "kind",
    "read",
    "*",
    "a.v",
)


@cache
def _story() -> Story:
    return Story(24, apart=60_000)


@cache
def _stored() -> tuple[Pages, list[Any]]:
    """A space in the middle of its story, with changes that wait; and the updates that are still to come."""
    story, pages = _story(), MemoryPages()
    runtime = Runtime(pages)
    updates = [(ts, sequence, stream, json.loads(values)) for stream, ts, sequence, values in story.updates]
    runtime.process(updates[:14], [*story.first, *story.later])
    runtime.advance(updates[10][0])
    runtime.commit("7")
    return dict(pages.held), updates[14:]


def change(random: Random) -> dict[str, Any]:
    """A row of the log of changes."""
    row = random.choice([*_story().first, *_story().later]).to_row()
    document = json.loads(row["document"])
    for _ in range(random.choice([1, 1, 2, 3])):
        document = mutate.plain(document, random, WORDS)
    row["document"] = json.dumps(document)
    if random.random() < 0.2:
        row["document"] = mutate.text(row["document"], WORDS, random)
    if random.random() < 0.2:
        name = random.choice(list(row))
        row[name] = mutate.plain(row[name], random, WORDS)
    return row


def apply_change(row: dict[str, Any]) -> None:
    """Put the row into the log of a small space, and let updates flow."""
    runtime = Runtime()
    runtime.process(changes=_story().first[:8])
    runtime.process(changes=[Change.from_row(row)])
    runtime.reports()
    for number, stream in enumerate(("o/a", "o/b", "o/a")):
        runtime.process([(1_000_000 + number, number, stream, {"v": number})])
    runtime.advance(2_000_000)


def damaged(random: Random) -> Pages:
    """The pages of a space, one of which has other bytes."""
    held = dict(_stored()[0])
    name = random.choice(sorted(held))
    held[name] = mutate.data(held[name], random)
    return held


def crafted(random: Random) -> Pages:
    """The pages of a space, one of which has other values and a checksum that fits."""
    held = dict(_stored()[0])
    name = random.choice(sorted(name for name in held if not name.startswith("w/")))
    value = read_page(held[name], name)
    for _ in range(random.choice([1, 1, 2, 3])):
        value = mutate.plain(value, random, WORDS)
    held[name] = write_page(json.dumps(value))
    return held


def go_on(held: Pages) -> None:
    """Open the space, and go on as its stream does."""
    pages = MemoryPages()
    pages.commit(held, [])
    runtime = Runtime(pages)
    runtime.process(_stored()[1], [Change.drop("p/meet", by="p", at=Id(1 << 40, 0))])
    runtime.advance(1 << 41)
    runtime.commit("8")
    runtime.reports()
