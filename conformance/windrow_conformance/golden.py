# SPDX-License-Identifier: Apache-2.0
"""State of every kind of window, kept as files: what one release wrote, every later one reads.

``python -m windrow_conformance.golden FILE.zip`` writes the state of this version. Do it for a release, and when state gets
something new; under a new name, because old files stay. For each case the file has the query, the state in the middle
of a stream as a snapshot and as pages, and what comes out of the rest of it.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.pipelines import Id
from windrow.pipelines.runtime import Runtime
from windrow.storage.pages import MemoryPages
from windrow_conformance.compare import agree
from windrow_conformance.fuzzing.state import kept_cases, rows
from windrow_conformance.generated import SCHEMA
from windrow_conformance.pipelines.story import Story

ALLOW = ("windrow_conformance.policies",)
END = 1 << 50
Files = dict[str, bytes]


def cases() -> Iterator[tuple[str, Files]]:
    """The name of each case, and its files."""
    for number, (query, idle) in enumerate(kept_cases()):
        yield f"{number:02}", {**_windows(query, idle), "query": query.to_json().encode()}
    yield "space", _space()


def _windows(query: wr.Query, idle: wr.Idle | None) -> Files:
    files: Files = {}
    pages = MemoryPages()
    stored = wr.Operator.open(query, SCHEMA, pages, compiled=False, idle=idle)
    plain = wr.Operator(query, SCHEMA, compiled=False, idle=idle)
    for operator in (stored, plain):
        _begin(operator)
    stored.commit()
    files["snapshot"] = plain.snapshot()
    files |= {f"pages/{name}": page for name, page in pages.held.items()}
    return files | {"expected": to_ipc(rest(plain))}


def _begin(operator: wr.Operator) -> None:
    """Rows of two keys, of which one falls silent; some wait, some are late."""
    operator.process(rows(0, 24))
    operator.advance(20)
    operator.process(rows(24, 12).slice(0, 9))
    operator.process(rows(12, 2))


def rest(operator: wr.Operator) -> pa.Table:
    """What comes out of the rest of the stream."""
    found = [
        operator.process(rows(36, 12)),
        operator.advance(45),
        operator.process(rows(44, 4)),
        operator.flush(),
    ]
    return pa.concat_tables(found)


def _space() -> Files:
    story, pages = Story(24, apart=60_000), MemoryPages()
    runtime = Runtime(pages)
    runtime.process(_updates(story)[:14], [*story.first, *story.later])
    runtime.advance(story.updates[10][1])
    runtime.commit("14")
    files = {f"pages/{name}": page for name, page in pages.held.items()}
    return {**files, "expected": to_ipc(rest_of_space(runtime))}


def rest_of_space(runtime: Runtime) -> pa.Table:
    """What comes out of the rest of the updates."""
    out = runtime.process(_updates(Story(24, apart=60_000))[14:]).to_table()
    return pa.concat_tables([out, runtime.advance(END).to_table()])


def _updates(story: Story) -> list[Any]:
    return [
        (*Id(ts, sequence)[:2], stream, json.loads(values)) for stream, ts, sequence, values in story.updates
    ]


def write(path: Path) -> None:
    """All cases as a file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for case, files in cases():
            for name, content in sorted(files.items()):
                archive.writestr(zipfile.ZipInfo(f"{case}/{name}"), content, zipfile.ZIP_DEFLATED)


def read(path: Path) -> dict[str, Files]:
    """The files of each case."""
    found: dict[str, Files] = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            case, _, name = entry.partition("/")
            found.setdefault(case, {})[name] = archive.read(entry)
    return found


def wrong(files: Files, *, compiled: bool = False) -> str:
    """What this version makes of a case otherwise; empty if nothing."""
    pages = MemoryPages()
    held = {name.removeprefix("pages/"): page for name, page in files.items() if name.startswith("pages/")}
    pages.commit(held, [])
    expected = from_ipc(files["expected"])
    if "query" not in files:
        return "" if rest_of_space(Runtime(pages)).equals(expected) else "other updates of the space"
    query = wr.Query.from_json(files["query"].decode(), allow=ALLOW)
    for how, operator in (
        ("snapshot", wr.Operator.restore(query, files["snapshot"], compiled=compiled)),
        ("pages", wr.Operator.open(query, SCHEMA, pages, compiled=compiled)),
    ):
        if not _agree(rest(operator), expected, query):
            return f"other windows from the {how} of {query.described}"
    return ""


def _agree(found: pa.Table, expected: pa.Table, query: wr.Query) -> bool:
    """The same windows. Which slices a fixed number of leaves merges is no promise; there, results are as near as they say."""
    if query.within is None or query.within.leaves is None or found.num_rows != expected.num_rows:
        return found.equals(expected)
    bound, pairs = query.bind(SCHEMA), zip(expected.to_pylist(), found.to_pylist(), strict=True)
    return all(agree(ours, theirs, name, bound) for ours, theirs in pairs for name in expected.column_names)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
