"""The examples of a page, run in order, as a reader would.

- A ``python`` block runs; blocks of a page share their names. What it prints is the ``text`` block after it.
- A block with a ``title`` is first written to a file of that name, in the folder where the page runs.
- A ``windrow …`` line of an ``sh`` block runs as a command; ``pip install`` has to name extras that exist.
- ``<!-- engine: spark -->`` before a block says that it needs an engine. On a page named after an engine all
  blocks do, except commands. ``<!-- not run: why -->`` is for what no test can run: it still has to be Python.

Each environment runs the blocks of its engine and leaves the others to the others.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
ENGINES = ("spark", "flink")
LONG = ("bench", "conformance")

_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>engine|not run): (?P<marked>[^>]*) -->\n+)?"
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"]+)")?\n(?P<body>.*?)^```$',
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    body: str
    engine: str
    runs: bool


def pages() -> list[Path]:
    """The README and every page of the documentation."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    own = page.stem if page.stem in ENGINES else "core"
    return [
        Block(
            found["language"],
            found["title"],
            found["body"],
            found["marked"] if found["mark"] == "engine" else "core" if found["language"] == "sh" else own,
            found["mark"] != "not run",
        )
        for found in _BLOCK.finditer(page.read_text(encoding="utf-8"))
    ]


def pages_of(engine: str) -> list[Path]:
    """The pages that have something to run with an engine, or with none: ``"core"``."""
    return [
        page
        for page in pages()
        if any(block.engine == engine and block.language in ("python", "sh") for block in blocks(page))
    ]


def run(page: Path, engine: str, folder: Path, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Runs what a page shows for one engine in a folder, and returns the names that it has defined.

    ``given`` are names that the page takes for granted.
    """
    names: dict[str, Any] = {"__name__": "__main__", **(given or {})}
    found = blocks(page)
    with chdir(folder):
        for block, after in zip(found, [*found[1:], None], strict=True):
            if block.engine != engine:
                continue
            if block.title:
                Path(block.title).parent.mkdir(parents=True, exist_ok=True)
                Path(block.title).write_text(block.body, encoding="utf-8")
            if block.language == "python":
                _python(block, after, names, page)
            elif block.language == "sh" and block.runs:
                _shell(block.body, page)
    return names


def _python(block: Block, after: Block | None, names: dict[str, Any], page: Path) -> None:
    if not block.runs:
        ast.parse(block.body)
        return
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(block.body, str(page), "exec"), names)
    shown = after.body if after is not None and after.language == "text" else ""
    if printed.getvalue():
        assert printed.getvalue() == shown, (
            f"{page.name} shows another output after\n{block.body}\n{printed.getvalue()}"
        )


def _shell(script: str, page: Path) -> None:
    for words in _commands(script):
        program = Path(words[0]).name
        if program == "windrow":
            _windrow(words[1:], page)
        elif program == "pip":
            _extras(words, page)


def _commands(script: str) -> Iterator[list[str]]:
    for line in script.replace("\\\n", " ").splitlines():
        for command in line.split("&&"):
            words = shlex.split(command, comments=True)
            if words:
                yield words


def _windrow(arguments: list[str], page: Path) -> None:
    """Commands that take minutes, or an engine, are asked for their help: name and options have to exist."""
    from click.testing import CliRunner

    from windrow.cli import main

    engines = {after for option, after in pairwise(arguments) if option == "--engine"}
    on_spark = arguments[0] == "demo" and not engines and "--small" not in arguments
    long = arguments[0] in LONG or bool(engines - {"local"}) or on_spark
    # Some of them are groups: `windrow conformance simulate`.
    words = arguments[: 2 if len(arguments) > 1 and arguments[1].isalpha() and arguments[0] in LONG else 1]
    result = CliRunner().invoke(main, [*words, "--help"] if long else arguments)
    assert result.exit_code == 0, f"{page.name}: windrow {shlex.join(arguments)}\n{result.output}"
    for option in (word for word in arguments if long and word.startswith("--")):
        assert option in result.output, f"{page.name}: windrow {arguments[0]} has no {option}"


def _extras(words: list[str], page: Path) -> None:
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    for extras in re.findall(r"\[([\w,]+)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(known), f"{page.name}: pip install {extras}"
