"""What the README and the documentation show is what happens. How pages run is said in docs/blocks.py."""

import ast
import pkgutil
import re
import runpy
import sys
from contextlib import chdir
from pathlib import Path
from types import ModuleType

import pytest

import windrow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = DOCS / "examples"
ENGINES = ("spark", "flink")
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402
import support  # noqa: E402


@pytest.mark.parametrize("page", blocks.pages_of("core"), ids=lambda page: str(page.relative_to(ROOT)))
def test_examples(page: Path, tmp_path: Path) -> None:
    blocks.run(page, "core", tmp_path)


def test_a_page_that_shows_another_output_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="another output"):
        blocks.run(page, "core", tmp_path)


def test_every_block_belongs_to_somebody() -> None:
    for page in blocks.pages():
        text = page.read_text(encoding="utf-8")
        found = blocks.blocks(page)
        assert len(found) * 2 == len(re.findall(r"^\s*```", text, re.M)), f"{page}: a block that is not run"
        assert {block.engine for block in found} <= {"core", *ENGINES}, page


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_example_jobs_are_short(example: Path) -> None:
    assert len(example.read_text(encoding="utf-8").splitlines()) < 60


@pytest.mark.parametrize("name", ["multi_window", "own_aggregate", "polars_embedded"])
def test_example_jobs_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(tmp_path):
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", support.PAGES)
def test_tables_are_those_of_the_code(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert "<!-- table: " in text
    assert support.filled(text) == text, "run: python docs/support.py"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    listed = set(re.findall(r"\S+\.md", navigation))
    there = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    assert listed - {"support-matrix.md"} <= there <= listed


def test_every_error_is_in_troubleshooting() -> None:
    page = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    explained = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", page, re.M)
    assert sorted(name for name, *_ in explained) == sorted(windrow.errors.__all__)


@pytest.mark.parametrize(
    ("path", "home"),
    [
        ("windrow.explain:explain", "windrow.query.explain:explain"),
        ("windrow.laws:check", "windrow.testing.laws:check"),
        ("windrow.oracle:evaluate", "windrow.testing.oracle:evaluate"),
        ("windrow.state.pages:MemoryPages", "windrow.storage.pages:MemoryPages"),
        ("windrow.state.redis:RedisPages", "windrow.storage.redis:RedisPages"),
        ("windrow.state.rocksdb:RocksDBPages", "windrow.storage.rocksdb:RocksDBPages"),
        ("windrow.state.amta:StoredAMTA", "windrow.algorithms.stored_amta:StoredAMTA"),
    ],
)
def test_older_import_paths_still_work(path: str, home: str) -> None:
    assert pkgutil.resolve_name(path) is pkgutil.resolve_name(home)


def test_every_public_name_is_in_the_reference() -> None:
    page = (DOCS / "reference.md").read_text(encoding="utf-8")
    documented = {name.rpartition(".")[2] for name in re.findall(r"^::: (\S+)", page, re.M)}
    modules = {name for name in windrow.__all__ if isinstance(getattr(windrow, name), ModuleType)}
    assert set(windrow.__all__) - modules <= documented
    for adapter in ("spark_ops/windrow_spark", "flink_ops/windrow_flink"):
        (exported,) = (
            step.value
            for step in ast.parse((ROOT / adapter / "__init__.py").read_text(encoding="utf-8")).body
            if isinstance(step, ast.Assign) and ast.unparse(step.targets[0]) == "__all__"
        )
        names = set(ast.literal_eval(exported))
        pages = [page, (DOCS / "spark.md").read_text(encoding="utf-8")]
        documented = set(re.findall(rf"^::: {adapter.partition('/')[2]}\.(\w+)", "\n".join(pages), re.M))
        assert names - {"Measured", "PACKED", "library_archive"} <= documented, adapter
