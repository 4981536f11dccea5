"""Query documents: each is a query or an error of windrow, and imports only what was allowed.

``WINDROW_LONG=1`` tries ten times as many documents.
"""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import windrow as wr
from windrow import errors
from windrow.cli import main
from windrow.cli.queries import aggregate_form, read_query
from windrow.imports import ANY
from windrow.pipelines import Change, Composite, Runtime, Source

DOCUMENTS = 40_000 if os.environ.get("WINDROW_LONG") else 4000
HOUR = {"kind": "time", "range": "1h", "slide": "1s"}
N = {"n": {"kind": "Count"}}
WINDOWS: list[Any] = [
    HOUR,
    [HOUR, {"kind": "time", "range": "1d", "offset": "5s"}],
    {"short": HOUR, "long": {"kind": "time", "range": "1d"}},
    {"kind": "count", "range": 4, "slide": 2},
    {"kind": "session", "gap": "5m"},
    {"kind": "slide_by_tuple", "range": "1h", "slide": 3},
    {"kind": "slide_by_time", "range": 3, "slide": "1m"},
    {"kind": "delta", "attribute": "meter", "range": 5, "slide": 1.5},
    {"kind": "policy", "valid": "windrow.durations:parse", "version": 1},
]
ROWS_DECIDE = ("slide_by_tuple", "delta", "policy")
AGGREGATES: dict[str, Any] = {
    "peak": {"kind": "Max", "column": "load"},
    "total": {"kind": "Sum", "column": "load", "invertible": True},
    "spread": {"kind": "Var", "column": "load", "ddof": 0},
    "top": {"kind": "TopK", "column": "load", "k": 3},
    "p95": {"kind": "Quantile", "column": "load", "q": 0.95},
    "seen": {"kind": "BloomFilter", "column": "plug", "capacity": 10, "error": 0.5},
    "sketch": {"kind": "MomentSketch", "column": "load", "k": 3},
    "distinct": {"kind": "HyperLogLog", "column": "plug", "precision": 5},
    "where": {"kind": "ArgMax", "column": "plug", "by": "load"},
    "both": {"kind": "ProductOf", "parts": [["a", {"kind": "Count"}], ["b", {"kind": "Max", "column": "x"}]]},
    "beam": {"kind": "FromBeam", "name": "windrow.errors:QueryError", "reads": ["x"], "output": "double"},
    "own": {"kind": "windrow.demo.p95:P95", "x": "load"},
}
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**63, 10**400, 1.5, -0.0, float("nan"), float("inf"), 1e308),
    *(
        "",
        "x",
        "1h",
        "-1s",
        "9" * 5000 + "s",
        "\ud800",
        "\0",
        ":",
        "a:b",
        ".x:y",
        "os:system",
        "windrow:errors.QueryError",
    ),
    *(
        "windrow.aggregates.algebra:Aggregate",
        "windrow.aggregates.own:OwnAggregate",
        "windrow.cli.run:importlib",
    ),
    *(
        [],
        {},
        [[]],
        [None],
        {"kind": []},
        {"kind": "Count"},
        {"": 1},
        [{}],
        ["a", "a"],
        [HOUR],
        "time",
        "auto",
        "FiBA",
    ),
]


def whole(chance: random.Random) -> dict[str, Any]:
    """A query that is right."""
    some = chance.sample(sorted(AGGREGATES), 2)
    window = chance.choice(WINDOWS)
    early = {} if isinstance(window, dict) and window.get("kind") in ROWS_DECIDE else {"early": "1s"}
    return {
        "by": ["plug"],
        "time": "ts",
        "window": window,
        "aggregates": {name: AGGREGATES[name] for name in some},
        "lateness": "5s",
        "late": chance.choice(["drop", "side", "update"]),
        "algorithm": "auto",
        **early,
    }


def changed(value: Any, chance: random.Random) -> Any:
    """The same document but for one change, somewhere in it."""
    if chance.random() < 0.25 or not isinstance(value, dict | list) or not value:
        return chance.choice(ODD)
    if isinstance(value, list):
        place = chance.randrange(len(value))
        return [*value[:place], changed(value[place], chance), *value[place + 1 :]]
    name = chance.choice(list(value))
    how = chance.random()
    if how < 0.1:
        return {other: each for other, each in value.items() if other != name}
    if how < 0.2:
        return {
            **value,
            chance.choice(["", "x", "kind", "column", "function", "range", "parts"]): chance.choice(ODD),
        }
    return {**value, name: changed(value[name], chance)}


def test_every_document_is_a_query_or_an_error_of_windrow() -> None:
    outcomes = {"query": 0, "error": 0}
    for number in range(DOCUMENTS):
        chance = random.Random(number)
        document: Any = whole(chance)
        for _ in range(chance.choice([1, 1, 2, 3])):
            document = changed(document, chance)
        try:
            asked = wr.Query.from_dict(document)
            assert wr.Query.from_json(asked.to_json()) == asked
            assert len(asked.fingerprint) == 64 and hash(asked) is not None and repr(asked)
            outcomes["query"] += 1
        except errors.WindrowError as error:
            assert str(error)
            outcomes["error"] += 1
        except Exception as error:
            pytest.fail(f"document {number}: {type(error).__name__}: {error}\n{document!r:.2000}")
    assert min(outcomes.values()) > DOCUMENTS // 20, outcomes


@pytest.mark.parametrize(
    "text", ["Max(load)", "Quantile(load, q=0.95)", "windrow.demo.p95:P95(load)", "Count()"]
)
def test_every_short_form_is_a_form_or_an_error_of_windrow(text: str) -> None:
    chance = random.Random(1)
    for _ in range(DOCUMENTS // 20):
        place = chance.randrange(len(text))
        odd = (
            text[:place]
            + chance.choice(["(", ")", "*", "**", "=", ":", "\0", "[" * 300, "é", "1", ""])
            + text[place:]
        )
        try:
            wr.Query.from_dict({"window": HOUR, "aggregates": {"n": aggregate_form("n", odd)}})
        except errors.WindrowError as error:
            assert str(error)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"window":' * 100_000,
        '{"window": {"kind": "count", "range": 1}, "aggregates": {"n": '
        + '{"kind": "ProductOf", "parts": [["a", ' * 5000
        + '{"kind": "Count"}'
        + "]]}" * 5000
        + "}}",
    ],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(errors.QueryError):
        wr.Query.from_json(text)


def test_a_deep_document_is_refused() -> None:
    deep: dict[str, Any] = {"kind": "Count"}
    for _ in range(5000):
        deep = {"kind": "ProductOf", "parts": [["a", deep]]}
    with pytest.raises(errors.QueryError, match="aggregates is nested too deeply"):
        wr.Query.from_dict({"window": HOUR, "aggregates": {"n": deep}})


# What a document may import.


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose import leaves a trace."""
    folder = tmp_path / "traced"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "own.py").write_text(
        "import os\n"
        "from os import system\n"
        "import windrow as wr\n"
        "@wr.aggregate_type(identity=0, output='int64')\n"
        "class Total:\n"
        "    def lift(x): return x\n"
        "    def combine(a, b): return a + b\n"
        "    def lower(p): return p\n"
        "def few(window): return True\n"
        "class Mean:\n"
        "    def create_accumulator(self): return 0\n"
        "    def add_input(self, a, x): return a\n"
        "    def merge_accumulators(self, every): return 0\n"
        "    def extract_output(self, a): return a\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("traced", "traced.own"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return "traced.own"


FOREIGN = {"kind": "FromBeam", "name": "traced.own:Mean", "reads": ["x"], "output": "double"}


@pytest.mark.parametrize(
    ("window", "aggregates", "who"),
    [
        (HOUR, {"t": {"kind": "traced.own:Total", "x": "x"}}, "aggregate 't'"),
        (HOUR, {"m": FOREIGN}, "aggregate 'm'"),
        (HOUR, {"p": {"kind": "ProductOf", "parts": [["m", FOREIGN]]}}, "aggregate 'p'"),
        ({"kind": "policy", "valid": "traced.own:few"}, N, "valid of PolicyWindow"),
        ({"kind": "policy", "evict": "traced.own:few"}, N, "evict of PolicyWindow"),
    ],
)
def test_a_document_imports_only_what_was_allowed(jobs: str, window: Any, aggregates: Any, who: str) -> None:
    document = {"window": window, "aggregates": aggregates}
    with pytest.raises(
        (errors.QueryError, errors.WindowError), match=rf"{who}.*'traced\.own'.*--allow traced\.own"
    ):
        wr.Query.from_dict(document)
    with pytest.raises(errors.WindrowError, match="may not import"):
        wr.Query.from_json(json.dumps(document), allow=["traced.other", "trace"])
    assert jobs not in sys.modules, "a module that is refused does not run"
    for allow in (jobs, [jobs], "traced", ["more", "traced"], ANY):
        assert wr.Query.from_dict(document, allow=allow)
    assert wr.Query.from_json(json.dumps(document), allow=jobs)


@pytest.mark.parametrize("name", ["traced.own:system", "traced.own:os.system"])
def test_what_an_allowed_module_has_imported_is_not_allowed_with_it(jobs: str, name: str) -> None:
    with pytest.raises(errors.WindowError):
        wr.Query.from_dict({"window": {"kind": "policy", "valid": name}, "aggregates": N}, allow=jobs)


@pytest.mark.parametrize("allow", [[""], [7], [None]])
def test_what_is_allowed_has_to_be_names(allow: Any) -> None:
    with pytest.raises(errors.QueryError, match="allow has to be names of modules"):
        wr.Query.from_dict({"window": HOUR, "aggregates": N}, allow=allow)


def test_the_command_line_imports_only_what_was_allowed(jobs: str, tmp_path: Path) -> None:
    query = tmp_path / "query.toml"
    query.write_text('window = { kind = "time", range = "1h" }\naggregates = { t = "traced.own:Total(x)" }\n')
    with pytest.raises(errors.QueryError, match="may not import"):
        read_query(query)
    assert jobs not in sys.modules
    refused = CliRunner().invoke(main, ["explain", str(query)])
    assert refused.exit_code == 2 and "--allow traced.own" in refused.output
    assert CliRunner().invoke(main, ["explain", str(query), "--allow", "traced"]).exit_code == 0
    rows = tmp_path / "rows.csv"
    rows.write_text("ts,x\n1,1\n2,2\n")
    done = CliRunner().invoke(main, ["run", str(query), "--input", str(rows), "--allow", jobs])
    assert done.exit_code == 0, done.output


def test_a_change_of_a_pipeline_imports_only_what_was_allowed(jobs: str) -> None:
    """The log of changes is a topic that strangers may write to."""
    source = Change.put(Source("o/a", {"x": "bigint"}).to_dict(), by="o")
    query = {"window": HOUR, "aggregates": {"t": {"kind": "traced.own:Total", "x": "x"}}}
    totals = Change.put(
        Composite("o/t", {"a": "o/a"}, query=wr.Query.from_dict({"window": HOUR, "aggregates": N})).to_dict(),
        by="o",
    )
    row = totals.to_row()
    row["document"] = json.dumps({**json.loads(row["document"]), "query": query})
    for allow in ((), ["traced.other"]):
        runtime = Runtime(allow=allow)
        runtime.process(changes=[source, Change.from_row(row)])
        assert [(each.kind, "may not import" in each.message) for each in runtime.reports()] == [
            ("refused", True)
        ]
        assert jobs not in sys.modules, "a module that is refused does not run"
    runtime = Runtime(allow=jobs)
    runtime.process(changes=[source, Change.from_row(row)])
    assert runtime.reports() == [] and jobs in sys.modules


@pytest.mark.parametrize(
    "change",
    [
        {"document": '{"name": "o/t", "inputs": {"a": "o/a"}, "channels": {"v": {}}}'},
        {"document": '{"name": "o/t", "inputs": {"a": "o/a"}, "where": [1], "channels": {"v": "a.x"}}'},
        {"document": '{"name": "o/t", "inputs": {"a": "o/a"}, "query": "1h"}'},
        {"document": "{}", "ts": 1, "sequence": float("inf")},
    ],
)
def test_a_change_that_is_none_is_refused(change: dict[str, Any]) -> None:
    source = Change.put(Source("o/a", {"x": "bigint"}).to_dict(), by="o")
    with pytest.raises(errors.PipelineError):
        graph = Runtime()
        graph.process(changes=[source])
        graph.graph.apply(Change.from_row({"operation": "put", "actor": "o", **change}))


def test_a_deep_file_is_refused(tmp_path: Path) -> None:
    for name, text in (("query.json", "[" * 100_000), ("query.toml", "a = " + "[" * 100_000)):
        (tmp_path / name).write_text(text)
        done = CliRunner().invoke(main, ["explain", str(tmp_path / name)])
        assert done.exit_code == 2 and done.output.startswith("Error"), done.output
