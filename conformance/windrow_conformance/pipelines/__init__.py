# SPDX-License-Identifier: Apache-2.0
"""Pipelines on every engine: transcripts of updates and changes, and what has to be emitted.

A transcript is a TOML file: changes of the graph, updates, and the updates that composites emit. It is run with
``order="event"``, so what is emitted does not depend on how rows are cut into batches. Each is a space of its name.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import pyarrow as pa

from windrow.pipelines import CHANGES, UPDATES, Change, changes_to_table
from windrow.pipelines.changes import Id

__all__ = ["PipelineCase", "pipeline_cases", "rounds"]

Emitted = tuple[str, int, str]


@dataclass(frozen=True)
class PipelineCase:
    """Updates and changes of a space, and what its composites emit."""

    name: str
    story: str
    changes: tuple[Change, ...]
    updates: tuple[tuple[str, int, int, dict[str, Any]], ...]
    """Stream, ts, sequence, channels; in the order in which they come."""
    emitted: tuple[Emitted, ...]
    """Stream, ts and values of all updates of composites."""
    refused: int = 0
    """How many changes and updates are refused, or fail."""
    round: int = 0
    """The round of the space. One with a round imports streams of spaces of other cases, whose names are those of the cases."""

    def changes_table(self) -> pa.Table:
        return changes_to_table(self.changes) if self.changes else CHANGES.empty_table()

    def updates_table(self) -> pa.Table:
        rows = [
            {"stream": stream, "ts": ts, "sequence": sequence, "values": json.dumps(values)}
            for stream, ts, sequence, values in self.updates
        ]
        return pa.Table.from_pylist(rows, UPDATES)

    def found(self, table: pa.Table) -> tuple[Emitted, ...]:
        """What an engine gave out, as :attr:`emitted` has it: in order, without the updates of sources."""
        puts = [change.form for change in self.changes if change.operation == "put"]
        sources = {form["name"] for form in puts if "inputs" not in form}
        rows = sorted(table.to_pylist(), key=lambda row: (row["ts"], row["stream"], row["sequence"]))
        return tuple(
            (row["stream"], row["ts"], _plain(json.loads(row["values"])))
            for row in rows
            if row["stream"] not in sources
        )


def pipeline_cases() -> list[PipelineCase]:
    """All transcripts."""
    folder = files("windrow_conformance") / "pipelines"
    texts = [entry.read_text("utf-8") for entry in folder.iterdir() if entry.name.endswith(".toml")]
    return [_case(values) for text in sorted(texts) for values in tomllib.loads(text)["case"]]


def rounds(cases: Iterable[PipelineCase]) -> dict[str, int]:
    """The rounds of spaces that are called as their cases."""
    return {case.name: case.round for case in cases if case.round}


def _case(values: dict[str, Any]) -> PipelineCase:
    return PipelineCase(
        values["name"],
        values["story"],
        tuple(_change(change) for change in values["changes"]),
        tuple((stream, ts, sequence, channels) for stream, ts, sequence, channels in values["updates"]),
        tuple(sorted(((s, ts, _plain(v)) for s, ts, v in values["emitted"]), key=lambda e: (e[1], e[0]))),
        values.get("refused", 0),
        values.get("round", 0),
    )


def _change(values: dict[str, Any]) -> Change:
    at = Id(*values["at"]) if "at" in values else None
    document = json.dumps(values["document"], sort_keys=True)
    return Change(values["operation"], values["by"], document, at)


def _plain(values: dict[str, Any]) -> str:
    return json.dumps(values, sort_keys=True)
