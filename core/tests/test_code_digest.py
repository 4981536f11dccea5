"""State is restored only under the code that wrote it, if a user wrote the code."""

from __future__ import annotations

import dataclasses
import importlib.util
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr
from windrow import errors
from windrow.code_digest import digest
from windrow.query.worker_models import extents_of
from windrow.state.pages import MemoryPages
from windrow.storage import snapshot

SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.float64()})
ROWS = pa.table({"ts": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, schema=SCHEMA)
OWN = """
import windrow as wr

LIMIT = 3


def helper(a, b):
    return a + b


@wr.aggregate_type(partial={"total": "f8"}, identity=(0.0,))
class Total:
    def lift(x): return (x,)
    def combine(a, b): return (helper(a[0], b[0]),)
    def lower(p): return p[0]


def few(window): return window.n <= LIMIT


pair = (lambda window: window.n <= 1, lambda window: window.n <= 2)
"""


def module(folder: Path, text: str, name: str = "jobs") -> ModuleType:
    path = folder / f"{name}{len(list(folder.iterdir()))}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def asked(jobs: Any) -> wr.Query:
    return wr.Query(window=wr.TimeWindow(10), aggregates={"total": jobs.Total("x"), "n": wr.Count()})


def policy(valid: Any, **options: Any) -> wr.Query:
    return wr.Query(window=wr.PolicyWindow(valid=valid, **options), aggregates={"n": wr.Count()})


def saved(query: wr.Query) -> bytes:
    operator = wr.Operator(query, SCHEMA, compiled=False)
    operator.process(ROWS)
    return operator.snapshot()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return a + b", "return max(a, b)"),
        ("def lower(p): return p[0]", "def lower(p): return -p[0]"),
        ("identity=(0.0,)", "identity=(1.0,)"),
    ],
)
def test_an_aggregate_of_the_same_name_and_other_code_is_refused(tmp_path: Path, old: str, new: str) -> None:
    before, now = module(tmp_path, OWN), module(tmp_path, OWN.replace(old, new))
    with pytest.raises(
        errors.FingerprintMismatch, match=r"the code of aggregate 'total' \(jobs:Total\) changed"
    ):
        wr.Operator.restore(asked(now), saved(asked(before)), compiled=False)


def test_a_policy_of_the_same_name_and_other_code_is_refused(tmp_path: Path) -> None:
    before, now = module(tmp_path, OWN), module(tmp_path, OWN.replace("LIMIT = 3", "LIMIT = 4"))
    with pytest.raises(errors.FingerprintMismatch, match="the code of the policy of the window changed"):
        wr.Operator.restore(policy(now.few), saved(policy(before.few)), compiled=False)


def test_two_lambdas_of_one_line_differ(tmp_path: Path) -> None:
    first, second = module(tmp_path, OWN).pair
    assert policy(first).fingerprint != policy(second).fingerprint
    assert policy(first).fingerprint == policy(module(tmp_path, OWN).pair[0]).fingerprint


def test_where_code_is_and_how_it_is_written_does_not_matter(tmp_path: Path) -> None:
    moved = '"""A docstring."""\n\n# a comment\n' + OWN.replace(
        "def combine(a, b): return (helper(a[0], b[0]),)",
        'def combine(a: tuple, b: tuple) -> tuple:\n        """Adds."""\n        return (  # a comment\n'
        "            helper(a[0], b[0]),\n        )",
    )
    assert moved.count("Adds") == 1
    before, now = asked(module(tmp_path, OWN)), asked(module(tmp_path, moved))
    assert now.fingerprint == before.fingerprint
    wr.Operator.restore(now, saved(before), compiled=False)


def test_the_digest_is_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "few.py").write_text("SEEN = {'a', 'b', 'c'}\ndef few(window): return window.n in SEEN\n")
    code = "from few import few; from windrow.code_digest import digest; print(digest(few))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(3)
    }
    assert len(found) == 1


def test_code_without_source_counts_too() -> None:
    first, second = eval("lambda w: w.n < 1"), eval("lambda w: w.n < 2")
    assert digest(first) != digest(second)
    assert digest(first) == digest(eval("lambda w: w.n < 1"))


def test_a_value_that_holds_itself_has_a_digest() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert digest(loop) == digest(loop)


def test_a_version_stands_in_for_the_code(tmp_path: Path) -> None:
    text = OWN.replace("identity=(0.0,)", "identity=(0.0,), version=1")
    before, now = module(tmp_path, text), module(tmp_path, text.replace("a + b", "b + a"))
    wr.Operator.restore(asked(now), saved(asked(before)), compiled=False)
    other = module(tmp_path, text.replace("version=1", "version=2"))
    with pytest.raises(errors.FingerprintMismatch, match="code of aggregate 'total'"):
        wr.Operator.restore(asked(other), saved(asked(before)), compiled=False)
    few, fewer = policy(before.few, version="a"), policy(other.pair[0], version="a")
    assert few.window.described()["code"] == fewer.window.described()["code"]  # type: ignore[union-attr]
    assert wr.PolicyWindow(valid="json:loads", version=2).to_dict()["version"] == 2


def test_state_from_before_code_was_recorded_is_read_with_one_warning(tmp_path: Path) -> None:
    query = asked(module(tmp_path, OWN))
    image = snapshot.read(saved(query), query.fingerprint)
    old = snapshot.write(
        {name: entry for name, entry in image.items() if name != "fingerprint"},
        query.fingerprint.without_code,
    )
    snapshot._WARNED.clear()
    with pytest.warns(UserWarning, match="not known whether that code has changed"):
        restored = wr.Operator.restore(query, old, compiled=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wr.Operator.restore(query, old, compiled=False)
    assert snapshot.read(restored.snapshot(), query.fingerprint)["fingerprint"] == query.fingerprint


def test_a_store_from_before_code_was_recorded_is_read(tmp_path: Path) -> None:
    query, pages = asked(module(tmp_path, OWN)), MemoryPages()
    object.__setattr__(query, "fingerprint", query.fingerprint.without_code)
    operator = wr.Operator.open(query, SCHEMA, pages, compiled=False)
    operator.process(ROWS)
    operator.commit()
    snapshot._WARNED.clear()
    with pytest.warns(UserWarning, match="not known whether that code has changed"):
        again = wr.Operator.open(asked(module(tmp_path, OWN)), SCHEMA, pages, compiled=False)
    assert again.flush().num_rows == 1


def test_another_process_gets_the_fingerprint_with_the_query() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()})
    assert vars(pickle.loads(pickle.dumps(query)))["fingerprint"] == query.fingerprint


def test_the_code_of_foreign_functions_counts(tmp_path: Path) -> None:
    text = """
class Longest:
    def create_accumulator(self): return ""
    def add(self, value, accumulator): return max(accumulator, value, key=len)
    def merge(self, a, b): return max(a, b, key=len)
    def get_result(self, accumulator): return accumulator
"""
    before, now = module(tmp_path, text), module(tmp_path, text.replace("return accumulator", "return 'x'"))
    described = [wr.from_flink(each.Longest(), "x", output="string").described() for each in (before, now)]
    assert described[0]["code"] != described[1]["code"]
    assert described[0]["name"] == described[1]["name"]


def test_an_emitter_keeps_the_fingerprint_of_a_query_that_came_from_another_process(tmp_path: Path) -> None:
    """It may not have all that the digest was taken from, such as the names in annotations of a function."""
    jobs = module(tmp_path, "LIMIT = 3\n\ndef few(window): return window.n <= LIMIT\n")
    aggregates = {"n": wr.Count(), "middle": wr.Median("x")}
    query = wr.Query(window=wr.PolicyWindow(valid=jobs.few), aggregates=aggregates)
    fingerprint = query.fingerprint
    del jobs.LIMIT
    assert extents_of(query, SCHEMA).fingerprint == fingerprint
    assert dataclasses.replace(query).fingerprint != fingerprint
