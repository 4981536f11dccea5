"""Pipelines in process: every transcript, however its rows are cut into batches, and after a restart at every batch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from windrow.pipelines.engine import OUTPUT, Settings, change_rows, feed, update_rows
from windrow.storage.pages import MemoryPages
from windrow_conformance.pipelines import PipelineCase, pipeline_cases

END = 1 << 61


@pytest.mark.parametrize("size", [1, 2, 1000])
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
