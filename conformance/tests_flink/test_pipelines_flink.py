"""Pipelines on Flink: the transcripts in one job, and a composite that is put onto a job that runs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import MapFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource

from windrow.errors import ColumnError
from windrow.pipelines import UPDATES, changes_to_table
from windrow_conformance.pipelines import pipeline_cases, rounds
from windrow_conformance.pipelines.story import SPACES, Story
from windrow_flink import environment, pipelined, reports

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import this file

CASES, STORY = pipeline_cases(), Story(400)
LONG, TEXT = Types.LONG(), Types.STRING()
UPDATE = Types.ROW_NAMED(["space", "stream", "ts", "sequence", "values"], [TEXT, TEXT, LONG, LONG, TEXT])
CHANGE = Types.ROW_NAMED(
    ["space", "operation", "actor", "document", "ts", "sequence"], [TEXT, TEXT, TEXT, TEXT, LONG, LONG]
)
PATIENCE = 600
"""How many seconds a job may take on a machine that is busy otherwise."""
EMITTED = pa.schema([("space", pa.string()), *UPDATES])


class Paused(MapFunction):  # type: ignore[misc]
    """Rows by their number, after a file is there."""

    def __init__(self, rows: list[Row], file: str) -> None:
        self.rows, self.file = rows, file

    def map(self, number: int) -> Row:
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(self.file):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.file} is not there after {PATIENCE} seconds")
            time.sleep(0.05)
        return self.rows[number]


class Shown(MapFunction):  # type: ignore[misc]
    """Rows as lists. The first row makes the first file, the second row the second one, and so on."""

    def __init__(self, kind: str, *files: str) -> None:
        self.kind, self.files = kind, list(files)

    def map(self, row: Row) -> tuple[str, list[Any]]:
        if self.files:
            Path(self.files.pop(0)).touch()
        return self.kind, list(row)


def collected(updated: Any, reported: Any) -> tuple[list[list[Any]], list[list[Any]]]:
    found: dict[str, list[list[Any]]] = {"update": [], "report": []}
    with updated.union(reported).execute_and_collect() as rows:
        for kind, row in rows:
            found[kind].append(row)
    return found["update"], found["report"]


def shown(stream: Any, function: Shown) -> Any:
    return stream.map(function, output_type=Types.PICKLED_BYTE_ARRAY()).set_parallelism(1)


@pytest.mark.parametrize(
    ("mode", "parallelism", "bundle"), [("process", 2, 7), ("thread", 1, 1000)], ids=["process", "thread"]
)
def test_transcripts(mode: str, parallelism: int, bundle: int) -> None:
    """All transcripts, each in a space of its own, and the spaces of the story, whatever the parallelism and the bundles.

    Without metrics, too: PyFlink has no counters then.
    """
    settings = {"python.fn-execution.bundle.size": str(bundle), "python.metric.enabled": "false"}
    flink = environment(parallelism, mode, settings=settings)
    updates = [
        Row(case.name, stream, ts, sequence, json.dumps(values))
        for case in CASES
        for stream, ts, sequence, values in case.updates
    ]
    updates += [Row(space, *update) for update in STORY.updates for space in SPACES]
    changes = [
        Row(space, row["operation"], row["actor"], row["document"], row["ts"], row["sequence"])
        for space, table in (
            *((case.name, case.changes_table()) for case in CASES),
            *((space, changes_to_table([*STORY.first, *STORY.later])) for space in SPACES),
        )
        for row in table.to_pylist()
    ]
    found = pipelined(
        flink.from_collection(updates, type_info=UPDATE),
        flink.from_collection(changes, type_info=CHANGE),
        disorder="1h",
        rounds=rounds(CASES),
    )
    emitted, reported = collected(shown(found, Shown("update")), shown(reports(found), Shown("report")))
    for case in CASES:
        rows = [dict(zip(EMITTED.names, row[:5], strict=True)) for row in emitted if row[0] == case.name]
        assert case.found(pa.Table.from_pylist(rows, EMITTED)) == case.emitted, case.name
        assert len([row for row in reported if row[0] == case.name]) == case.refused, case.name
    told = [{"kind": "update", **dict(zip(EMITTED.names, row[:5], strict=True))} for row in emitted]
    told += [
        dict(zip(("space", "kind", "stream", "ts", "sequence"), row[:5], strict=True)) for row in reported
    ]
    assert STORY.found(row for row in told if row["space"] in SPACES) == STORY.expected()


def test_a_composite_is_put_onto_a_job_that_runs(tmp_path: Path) -> None:
    """The change comes after the first update has gone through the job; the second update finds the new stream.

    Nothing orders elements of two sources but these files. A change that is refused tells that the one before it has been applied.
    """
    flink = environment()
    known, seen, applied = (str(tmp_path / name) for name in ("known", "seen", "applied"))
    source = {"name": "council/t1", "channels": {"f": "double"}, "read": ["*"]}
    celsius = {"name": "ann/c", "inputs": {"t": "council/t1"}, "channels": {"c": "(t.f - 32) / 1.8"}}
    later = [put("ann", celsius, 2), refused("ann", 3)]
    changes = flink.from_collection([put("council", source, 0), refused("ann", 1)], type_info=CHANGE)
    one, two = (Row("", "council/t1", n * 1_000_000, 0, '{"f": 5.0}') for n in (1, 2))
    found = pipelined(
        numbered(flink, [one], known, UPDATE).union(numbered(flink, [two], applied, UPDATE)),
        changes.union(numbered(flink, later, seen, CHANGE)),
        order="arrival",
        disorder=0,
    )
    emitted, reported = collected(
        shown(found, Shown("update", seen)),
        shown(reports(found), Shown("report", known, applied)),
    )
    assert [(row[1], row[2], row[4]) for row in emitted] == [
        ("council/t1", 1_000_000, '{"f":5.0}'),
        ("council/t1", 2_000_000, '{"f":5.0}'),
        ("ann/c", 2_000_000, '{"c":-15.0}'),
    ]
    assert [row[1] for row in reported] == ["refused", "refused"]


def refused(actor: str, sequence: int) -> Row:
    """A change that cannot be made: there is no such stream."""
    return Row("", "drop", actor, json.dumps({"name": f"{actor}/none"}), None, sequence)


def put(actor: str, document: dict[str, Any], sequence: int) -> Row:
    return Row("", "put", actor, json.dumps(document), None, sequence)


def numbered(flink: Any, rows: list[Row], file: str, type_: Any) -> Any:
    """A source of its own, so that its waiting holds nobody else up."""
    numbers = NumberSequenceSource(0, len(rows) - 1)
    made = flink.from_source(numbers, WatermarkStrategy.no_watermarks(), "rows", LONG).set_parallelism(1)
    return made.map(Paused(rows, file), output_type=type_).set_parallelism(1).disable_chaining()


def test_what_does_not_fit_is_refused() -> None:
    flink = environment()
    updates = flink.from_collection(
        [Row("a", 1)], type_info=Types.ROW_NAMED(["stream", "when"], [TEXT, LONG])
    )
    changes = flink.from_collection([Row("a")], type_info=Types.ROW_NAMED(["document"], [TEXT]))
    with pytest.raises(ColumnError, match="'ts'"):
        pipelined(updates, changes, disorder=0)
    with pytest.raises(ColumnError, match=r"reports\(\) needs"):
        reports(updates)


def test_the_mode_is_part_of_what_flink_finds_state_by() -> None:
    """Thread and process mode keep state in different forms; resumed in the other one, a job would begin with nothing."""
    uids = {_transformation(mode, 1).getUid() for mode in ("thread", "process")}
    assert uids == {"windrow-pipelines-thread", "windrow-pipelines-process"}


def test_steps_before_the_spaces_are_as_parallel_as_their_streams() -> None:
    """A step with more tasks than the stream before it would deal its elements out, and their order would be lost."""
    last = _transformation("process", 2)
    before = {str(each.getName()): each.getParallelism() for each in last.getTransitivePredecessors()}
    assert last.getParallelism() == 2 and before.pop("windrow-pipelines") == 2
    assert len(before) > 5 and set(before.values()) == {1}, before


def _transformation(mode: str, parallelism: int) -> Any:
    flink = environment(parallelism, mode)
    updates = flink.from_collection([Row("", "o/a", 1, 0, "{}")], type_info=UPDATE)
    changes = flink.from_collection([refused("o", 0)], type_info=CHANGE)
    return pipelined(updates, changes, disorder=0)._j_data_stream.getTransformation()
