"""What the README and the documentation show is what happens.

The Python examples of a page run in order and share their names. What an example prints is the ``text`` block
after it. ``<!-- engine: spark -->`` before an example says that it needs more than the core.
"""

import importlib.util
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ENGINES = {"spark.md", "flink.md"}
"""Pages whose examples need an engine: the engines' own tests cover what they show."""

PAGES = sorted(f"docs/{page.name}" for page in DOCS.glob("*.md") if page.name not in ENGINES)
BLOCK = re.compile(
    r"(?P<engine><!-- engine: \w+ -->\n+)?^```(?P<language>\w*)\n(?P<body>.*?)^```", re.M | re.S
)


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_examples(page: str) -> None:
    blocks = list(BLOCK.finditer((ROOT / page).read_text(encoding="utf-8")))
    names: dict[str, object] = {"__name__": "__main__"}
    for position, block in enumerate(blocks):
        if block["language"] != "python" or block["engine"]:
            continue
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(block["body"], page, "exec"), names)
        if printed.getvalue():
            after = blocks[position + 1] if position + 1 < len(blocks) else None
            shown = after["body"] if after is not None and after["language"] == "text" else ""
            assert printed.getvalue() == shown, f"{page} shows another output after\n{block['body']}"


@pytest.mark.parametrize("page", ["aggregates.md", "algorithms.md", "windows.md"])
def test_tables_are_those_of_the_code(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert "<!-- table: " in text
    assert support().filled(text) == text, "run: python docs/support.py"


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    assert set(re.findall(r"\S+\.md", navigation)) == {page.name for page in DOCS.glob("*.md")}


def support() -> ModuleType:
    spec = importlib.util.spec_from_file_location("support", DOCS / "support.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
