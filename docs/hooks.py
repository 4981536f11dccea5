"""What the site takes from elsewhere when it is built: measurements, plots, example jobs, pictures.

A page asks for them in comments, so it also reads well where nothing is filled in:

- ``<!-- results of: spark -->`` is every plot and every table in ``benchmarks/results/spark``,
- ``<!-- plot: readme.png WHAT IT SHOWS -->`` is one image from there,
- ``<!-- example: flink_job.py -->`` is a job of ``docs/examples``,
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

EXAMPLES = Path(__file__).parent / "examples"
RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
WRITTEN_LATER = {
    "support-matrix.md": "# Support matrix\n\nWhat each engine does, as the last run of the [conformance suite](conformance.md) saw it. "
    "`windrow conformance --engine local --engine spark --engine flink --matrix docs/support-matrix.md` writes it again.\n\n"
}
"""Pages that are a table only, written by a command, and what stands above the table."""
FEW = 30
"""Rows of a table that is shown at once."""
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
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri in WRITTEN_LATER and not markdown.startswith("#"):
        markdown = WRITTEN_LATER[page.file.src_uri] + markdown
    markdown = re.sub(r"<!-- example: (\S+) -->", lambda found: _example(found[1]), markdown)
    markdown = re.sub(r"<!-- results of: (\w+) -->", lambda found: _results(found[1], up), markdown)
    return re.sub(r"<!-- plot: (\S+) (.+?) -->", lambda found: _plot(found[1], found[2], up), markdown)


def on_page_content(html: str, **_: Any) -> str:
    return re.sub(
        r"<!-- picture: (\w+) -->",
        lambda found: f'<figure class="picture">{PICTURES[found[1]]()}</figure>',
        html,
    )


def _example(name: str) -> str:
    return f"```python\n{(EXAMPLES / name).read_text(encoding='utf-8')}```"


def _results(folder: str, up: str) -> str:
    names = sorted({file.stem for file in (RESULTS / folder).glob("*") if file.suffix in (".csv", ".png")})
    parts = []
    for name in sorted(names, key=lambda name: (name == "targets", name)):
        parts.append(f"## {name.replace('-', ' ').capitalize()}")
        if (RESULTS / folder / f"{name}.png").exists():
            parts.append(_plot(f"{folder}/{name}.png", f"What was measured: {name}", up))
        if (RESULTS / folder / f"{name}.csv").exists():
            parts.append(_table(RESULTS / folder / f"{name}.csv"))
    return "\n\n".join(parts) or "*Nothing has been measured yet.*"


def _plot(name: str, shows: str, up: str) -> str:
    return f"![{shows}]({up}{_PLOTS}{name})" if (RESULTS / name).exists() else "*Not measured yet.*"


def _table(file: Path) -> str:
    """A file as a Markdown table; a long one can be opened."""
    with file.open(encoding="utf-8", newline="") as text:
        heads, *rows = list(csv.reader(text))
    right = [all(_is_number(row[i]) for row in rows if row[i]) for i in range(len(heads))]
    table = [
        [head.replace("_", " ") for head in heads],
        ["---:" if number else "---" for number in right],
        *([_shown(cell) for cell in row] for row in rows),
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    if len(rows) <= FEW:
        return "\n".join(lines)
    return "\n".join(
        [f'??? note "All {len(rows)} lines of {file.name}"', "", *(f"    {line}" for line in lines)]
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


def _without(pages: set[str], nav: Any) -> Any:
    if isinstance(nav, list):
        return [kept for kept in (_without(pages, entry) for entry in nav) if kept]
    if isinstance(nav, dict):
        return {title: kept for title, entry in nav.items() if (kept := _without(pages, entry))}
    return None if nav in pages else nav
