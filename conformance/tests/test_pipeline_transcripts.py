"""Pipelines in process: every transcript, however its rows are cut into batches, and after a restart at every batch."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from windrow.pipelines import Change
from windrow.pipelines.engine import OUTPUT, Settings, change_rows, exported, feed, update_rows
from windrow.storage.pages import MemoryPages
from windrow_conformance.pipelines import PipelineCase, pipeline_cases, rounds
from windrow_conformance.pipelines.story import DISORDER, SPACES, Story

END = 1 << 61


CASES = pipeline_cases()
SETTINGS = Settings(rounds=rounds(CASES))


def rows_of(case: PipelineCase) -> pa.Table:
    texts = case.updates_table()
    updates = update_rows(zip(*(texts.column(name).to_pylist() for name in texts.column_names), strict=True))
    return pa.concat_tables([change_rows(case.changes), updates])


def run(given: dict[str, pa.Table], size: int, settings: Settings) -> dict[str, pa.Table]:
    """Rows by space, in batches of a size. Each is run by a new runtime, and what others import comes with their next one."""
    stores = {space: MemoryPages() for space in given}
    found: dict[str, list[pa.Table]] = {space: [] for space in given}
    sent: dict[str, list[pa.Table]] = {space: [] for space in given}
    most = max(rows.num_rows for rows in given.values())
    for begin in (*range(0, most, size), None):
        for space in sorted(given, key=lambda space: settings.rounds.get(space, 0)):
            runtime = settings.open(stores[space], space)
            imported, sent[space] = sent[space], []
            own = given[space].slice(0 if begin is None else begin, 0 if begin is None else size)
            rows = pa.concat_tables([own, *imported], promote_options="default")
            found[space] += [feed(runtime, rows, END if begin is None else None)]
            for other, table in exported(runtime).items():
                sent[other].append(table)
            runtime.commit()
    return {space: pa.concat_tables(tables) for space, tables in found.items()}


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_transcripts(size: int) -> None:
    found = run({case.name: rows_of(case) for case in CASES}, size, SETTINGS)
    for case in CASES:
        table = found[case.name]
        emitted = table.filter(pa.compute.equal(table.column("kind"), "update"))
        assert case.found(emitted) == case.emitted, case.name
        assert table.num_rows - emitted.num_rows == case.refused, (case.name, table.to_pylist())
        assert table.schema == OUTPUT


def test_spaces_with_edges_are_as_one_space() -> None:
    """The same streams without exports and imports, in one space: all updates are the same, down to their ids."""
    joined = [case for case in CASES if case.round or "export" in str(case.changes)]
    found = run({case.name: rows_of(case) for case in joined}, 1000, SETTINGS)
    changes = [together for case in joined for change in case.changes if (together := _together(change))]
    rows = pa.concat_tables(
        [change_rows(changes), *(rows_of(case).slice(len(case.changes)) for case in joined)]
    )
    runtime = Settings().open(None)
    one = pa.concat_tables([feed(runtime, rows, None), feed(runtime, None, END)]).to_pylist()
    keys = ("stream", "ts", "sequence", "values")
    owned = {(case.name, change.form["name"]) for case in joined for change in case.changes}
    imports = {(case.name, c.form["name"]) for case in joined for c in case.changes if "space" in c.form}
    several = [
        {name: row[name] for name in keys}
        for space, table in found.items()
        for row in table.to_pylist()
        if row["kind"] == "update" and (space, row["stream"]) in owned - imports
    ]
    assert sorted(several, key=repr) == sorted(
        ({name: row[name] for name in keys} for row in one if row["kind"] == "update"), key=repr
    )


def _together(change: Change) -> Change | None:
    """A change for one space with all streams; an import gives its readers to the stream itself, which everybody may read."""
    form = {name: value for name, value in change.form.items() if name != "export"}
    if "space" in form or form["name"] == "north/wrong":
        return None
    form |= {"read": ["*"]} if change.operation == "put" else {}
    return Change(change.operation, change.actor, json.dumps(form), change.at)


@pytest.mark.parametrize("size", [1, 7, 1000, 1200])
def test_batches_of_any_size(size: int) -> None:
    """The watermark moves with each batch, and the later changes come in their midst; each batch is run by a new runtime."""
    # With 152 updates one by one, the drop comes first in its batch: nothing has read the stream's state before.
    story = Story(1200 if size >= 1000 else 152)
    pages, parts, watermark = MemoryPages(), [], None
    for begin in range(0, story.count, size):
        rows = [update_rows(story.updates[begin : begin + size])]
        rows += [change_rows(story.first)] if begin == 0 else []
        rows += [change_rows(story.later)] if begin <= story.middle < begin + size else []
        runtime = Settings().open(pages)
        parts.append(feed(runtime, pa.concat_tables(rows), watermark))
        runtime.commit()
        watermark = max(ts for _, ts, *_ in story.updates[: begin + size]) - DISORDER
    assert sum(part.num_rows for part in parts) > 0 or size == 1200
    parts.append(feed(Settings().open(pages), None, END))
    found = [row for part in parts for row in part.to_pylist()]
    assert story.found({**row, "space": space} for space in SPACES for row in found) == story.expected()
