"""Pipelines in process: every transcript, however its rows are cut into batches, and after a restart at every batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.pipelines.engine import OUTPUT, Settings, change_rows, feed, update_rows
from windrow.storage.pages import MemoryPages
from windrow_conformance.pipelines import PipelineCase, pipeline_cases
from windrow_conformance.pipelines.story import DISORDER, SPACES, Story

END = 1 << 61


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("case", pipeline_cases(), ids=lambda case: case.name)
def test_a_transcript(case: PipelineCase, size: int) -> None:
    pages, parts = MemoryPages(), []
    texts = case.updates_table()
    updates = update_rows(zip(*(texts.column(name).to_pylist() for name in texts.column_names), strict=True))
    rows = pa.concat_tables([change_rows(case.changes), updates])
    for begin in range(0, rows.num_rows, size):
        runtime = Settings().open(pages)
        parts.append(feed(runtime, rows.slice(begin, size), None))
        runtime.commit()
    runtime = Settings().open(pages)
    parts.append(feed(runtime, None, END))
    found = pa.concat_tables(parts)
    emitted = found.filter(pa.compute.equal(found.column("kind"), "update"))
    assert case.found(emitted) == case.emitted
    assert found.num_rows - emitted.num_rows == case.refused, found.to_pylist()
    assert found.schema == OUTPUT


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
