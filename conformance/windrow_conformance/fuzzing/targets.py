# SPDX-License-Identifier: Apache-2.0
"""What is fuzzed: query documents, expressions, durations, files of rows, snapshots and pages."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import windrow as wr
from windrow import durations
from windrow.aggregates import Aggregate
from windrow.cli.files import open_rows
from windrow.cli.queries import read_query
from windrow.expressions import Expression
from windrow_conformance.fuzzing import mutate, spaces, state
from windrow_conformance.fuzzing.trial import Target

MEMORY = 1 << 28
"""Bytes that a column of a file may take."""


@cache
def corpus(name: str) -> tuple[str, ...]:
    """The entries of a corpus: lines of its file."""
    lines = (
        (files("windrow_conformance") / "fuzzing" / "corpus" / name).read_text(encoding="utf-8").splitlines()
    )
    return tuple(line for line in lines if line)


@cache
def _words() -> tuple[str, ...]:
    """Names that occur in queries."""
    parameters = [
        "by",
        "time",
        "window",
        "aggregates",
        "lateness",
        "late",
        "early",
        "algorithm",
        "range",
        "slide",
    ]
    kinds = [
        "time",
        "count",
        "session",
        "slide_by_tuple",
        "slide_by_time",
        "delta",
        "policy",
        "kind",
        "column",
        "os:system",
    ]
    return (
        *parameters,
        *kinds,
        *Aggregate.kinds,
        *corpus("durations.txt"),
        "update",
        "side",
        "builtins:eval",
        "ts",
        "x",
    )


# Query documents.


def _json_query(random: Random) -> str:
    document = random.choice(corpus("queries.jsonl"))
    if random.random() < 0.3:
        return mutate.text(document, _words(), random)
    values = json.loads(document)
    for _ in range(random.choice([1, 1, 2, 3])):
        values = mutate.plain(values, random, _words())
    return json.dumps(values)


def _use_json_query(text: str) -> None:
    query = wr.Query.from_json(text)
    again = wr.Query.from_json(query.to_json())
    assert again.fingerprint == query.fingerprint


def _toml_query(random: Random) -> str:
    return mutate.text(random.choice(corpus("queries.toml.txt")).replace("\\n", "\n"), _words(), random)


def _use_toml_query(text: str) -> None:
    path = _folder() / "query.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    read_query(path)


# Expressions and durations.

TYPES = {"a": pa.int64(), "f": pa.float64(), "t": pa.string(), "b": pa.bool_(), "ts": pa.timestamp("us")}
ROWS: tuple[dict[str, Any], ...] = (
    {"a": 3, "f": -0.5, "t": "x", "b": True, "ts": 7},
    {"a": -(2**63), "f": 1e308, "t": "", "b": False, "ts": 0},
    dict.fromkeys(TYPES),
)


def _expression(random: Random) -> str:
    return mutate.text(random.choice(corpus("expressions.txt")), (*corpus("expressions.txt"), *TYPES), random)


def _use_expression(text: str) -> None:
    typed = Expression(text).bind(TYPES)
    for row in ROWS:
        typed.row(row)


def _duration(random: Random) -> str:
    return mutate.text(random.choice(corpus("durations.txt")), corpus("durations.txt"), random)


# Files of rows.


def _table() -> pa.Table:
    return pa.table(
        {
            "k": ["a", "b", None, "é"],
            "ts": pa.array([0, 1, 2, 3], pa.timestamp("us")),
            "x": [0.5, None, float("nan"), -7.0],
            "i": [1, 2, 3, None],
        }
    )


@cache
def _file(form: str) -> bytes:
    out = io.BytesIO()
    if form == "parquet":
        pyarrow.parquet.write_table(_table(), out)
    elif form == "csv":
        pyarrow.csv.write_csv(_table(), out)
    elif form == "arrow":
        with pa.ipc.new_file(out, _table().schema) as writer:
            writer.write_table(_table())
    else:
        rows = [
            {"k": "a", "ts": "2024-01-01T00:00:00", "x": 0.5, "n": [1]},
            {"k": None, "ts": "2024-01-01T00:00:01", "x": 1e9, "n": [2]},
        ]
        out.write("\n".join(map(json.dumps, rows)).encode())
    return out.getvalue()


def _rows(form: str) -> Target:
    def use(given: bytes) -> None:
        path = _folder() / f"rows.{form}"
        path.write_bytes(given)
        for batch in open_rows(str(path), memory=MEMORY):
            batch.validate(full=True)

    def make(random: Random) -> bytes:
        if form in ("csv", "jsonl") and random.random() < 0.5:
            text = mutate.text(
                _file(form).decode(), ("null", "NaN", '"', ",", "\n", "{}", "[1]", "1e999"), random
            )
            return text.encode("utf-8", "surrogatepass")
        return mutate.data(_file(form), random)

    return Target(form, make, use, cost=30)


@cache
def _folder() -> Path:
    """A folder for the files of this process."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="windrow-fuzz-", dir=memory if memory.is_dir() else None))


def _of(name: str, make: Callable[[Random], Any], use: Callable[[Any], object], cost: int = 1) -> Target:
    return Target(name, make, use, cost)


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _of("query", _json_query, _use_json_query, 2),
        _of("toml", _toml_query, _use_toml_query, 2),
        _of("expression", _expression, _use_expression),
        _of("duration", _duration, durations.parse),
        *map(_rows, ("csv", "jsonl", "parquet", "arrow")),
        _of("snapshot", state.damaged_snapshot, state.restore, 20),
        _of("page", state.damaged_page, state.open_store, 100),
        _of("segment", state.damaged_segment, state.open_segments, 100),
        _of("crafted state", state.crafted, state.go_on, 100),
        _of("change", spaces.change, spaces.apply_change, 50),
        _of("space", spaces.damaged, spaces.go_on, 100),
        _of("crafted space", spaces.crafted, spaces.go_on, 200),
    )
}
