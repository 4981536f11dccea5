"""What the site takes from elsewhere when it is built: measurements, plots, pictures.

A page asks for them in comments, so it also reads well where nothing is filled in:

- ``<!-- results: spark/batch.csv -->`` is a file of ``benchmarks/results`` as a table,
- ``<!-- plot: spark/batch.png -->`` is an image from there,
- ``<!-- picture: chunks -->`` is a drawing of ``docs/pictures.py``.

What was not measured yet is said to be so. Pages in the navigation that another command writes (the support
matrix) are left out until they are there.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pictures import PICTURES

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
WRITTEN_LATER = {"support-matrix.md"}
_PLOTS = "results/"


def on_config(config: Any) -> Any:
    there = Path(config["docs_dir"])
    missing = {page for page in WRITTEN_LATER if not (there / page).exists()}
    config["nav"] = _without(missing, config["nav"])
    return config


def on_files(files: Files, config: Any) -> Files:
    for plot in sorted(RESULTS.rglob("*.png")):
        name = f"{_PLOTS}{plot.relative_to(RESULTS).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(plot)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    markdown = re.sub(r"<!-- results: (\S+?)(?: where (\w+)=(.+?))? -->", _table, markdown)
    up = "../" * page.file.src_uri.count("/")
    return re.sub(
        r"<!-- plot: (\S+?) (.+?) -->",
        lambda found: (
            f"![{found[2]}]({up}{_PLOTS}{found[1]})" if (RESULTS / found[1]).exists() else _not_yet(found[1])
        ),
        markdown,
    )


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(
        r"<!-- picture: (\w+) -->",
        lambda found: f'<figure class="picture">{PICTURES[found[1]]()}</figure>',
        html,
    )


def _table(found: re.Match[str]) -> str:
    file = RESULTS / found[1]
    if not file.exists():
        return _not_yet(found[1])
    with file.open(encoding="utf-8", newline="") as lines:
        heads, *rows = list(csv.reader(lines))
    if found[2]:
        column = heads.index(found[2])
        rows = [[*row[:column], *row[column + 1 :]] for row in rows if row[column] == found[3]]
        heads = [*heads[:column], *heads[column + 1 :]]
    numeric = [all(_is_number(row[i]) for row in rows if row[i]) for i in range(len(heads))]
    body = [[_shown(cell) for cell in row] for row in rows]
    rule = ["---:" if right else "---" for right in numeric]
    return "\n".join(
        f"| {' | '.join(line)} |" for line in ([head.replace("_", " ") for head in heads], rule, *body)
    )


def _shown(cell: str) -> str:
    """Numbers with three digits that count, and with commas; yes and no for a truth."""
    if cell in ("True", "False"):
        return "yes" if cell == "True" else "no"
    if not _is_number(cell):
        return cell.replace("|", r"\|")
    number = float(cell)
    if number == int(number) or abs(number) >= 1000:
        return f"{number:,.0f}"
    return f"{number:.3g}"


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _not_yet(name: str) -> str:
    return f"*Not measured yet: `benchmarks/results/{name}` does not exist.*"


def _without(pages: set[str], nav: Any) -> Any:
    if isinstance(nav, list):
        return [kept for kept in (_without(pages, entry) for entry in nav) if kept]
    if isinstance(nav, dict):
        return {title: kept for title, entry in nav.items() if (kept := _without(pages, entry))}
    return None if nav in pages else nav
