"""What the site takes from elsewhere when it is built: measurements, plots, example jobs, pictures.

A page asks for them in comments, so it also reads well where nothing is filled in:

- ``<!-- results of: spark -->`` is every plot and every table in ``benchmarks/results/spark``,
- ``<!-- plot: readme.svg WHAT IT SHOWS -->`` is one plot from there,
- ``<!-- break-even: spark/break-even.csv -->`` is a table of how many times as fast windrow was, by case,
- ``<!-- example: flink_job.py -->`` is a job of ``docs/examples``,
- ``<!-- picture: chunks -->`` is a drawing of ``docs/pictures.py``.

What was not measured yet is said to be so. Pages in the navigation that another command writes (the support
matrix) are left out until they are there.
"""

from __future__ import annotations

import csv
import re
from html import escape
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
HEADINGS = {
    "count": "Count windows",
    "count_range": "Count windows over the range",
    "count_slide": "Count windows over the slide",
    "compiled": "A compiled function beside a loop by hand",
    "eviction": "Evicting many at once",
    "figure-11": "Fig. 11: models and workers",
    "figure-12-and-13": "Figs 12 and 13: rows at a time, and slabs",
    "figure-14": "Fig. 14: quotes per second",
    "figure-15": "Fig. 15: slide-by-tuple, over the range",
    "figure-16": "Fig. 16: slide-by-tuple, over the slide",
    "latency": "Time of single slides",
    "peers": "Against other libraries",
    "polars": "Against Polars",
    "python": "Python functions with two workers",
    "sizes": "Size of the window",
    "time": "Time windows",
    "time_range": "Time windows over the range",
    "time_slide": "Time windows over the slide",
}
"""Headings of results whose file names are not words enough."""
FEW = 30
"""Rows of a table that is shown at once."""
_PLOTS = "results/"


def on_config(config: Any) -> Any:
    there = Path(config["docs_dir"])
    missing = {page for page in WRITTEN_LATER if not (there / page).exists()}
    config["nav"] = _without(missing, config["nav"])
    return config


def on_files(files: Files, config: Any) -> Files:
    for plot in sorted(RESULTS.rglob("*.png")):  # SVG plots become part of their page
        name = f"{_PLOTS}{plot.relative_to(RESULTS).as_posix()}"
        files.append(File.generated(config, name, abs_src_path=str(plot)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    up = "../" * page.file.src_uri.count("/")
    if page.file.src_uri in WRITTEN_LATER and not markdown.startswith("#"):
        markdown = WRITTEN_LATER[page.file.src_uri] + markdown
        page.meta["hide"] = ["toc"]  # a wide table has that room instead
    markdown = re.sub(r"<!-- example: (\S+) -->", lambda found: _example(found[1]), markdown)
    markdown = re.sub(r"<!-- results of: (\w+) -->", lambda found: _results(found[1], up), markdown)
    markdown = re.sub(r"<!-- break-even: (\S+) -->", lambda found: _break_even(RESULTS / found[1]), markdown)
    return re.sub(r"<!-- plot: (\S+) (.+?) -->", lambda found: _plot(found[1], found[2], up), markdown)


def on_page_content(html: str, **_: Any) -> str:
    html = re.sub(
        r"<!-- picture: (\w+) -->",
        lambda found: f'<figure class="picture">{PICTURES[found[1]]()}</figure>',
        html,
    )
    return re.sub(r"<!-- drawn: (\S+) (.+?) -->", lambda found: _drawn(RESULTS / found[1], found[2]), html)


def _example(name: str) -> str:
    return f"```python\n{(EXAMPLES / name).read_text(encoding='utf-8')}```"


def _results(folder: str, up: str) -> str:
    names = sorted(
        {file.stem for file in (RESULTS / folder).glob("*") if file.suffix in (".csv", ".png", ".svg")}
    )
    parts = []
    for name in sorted(names, key=lambda name: (name == "targets", name)):
        parts.append(f"## {HEADINGS.get(name, name.replace('-', ' ').replace('_', ' ').capitalize())}")
        for form in ("svg", "png"):
            if (RESULTS / folder / f"{name}.{form}").exists():
                parts.append(_plot(f"{folder}/{name}.{form}", f"What was measured: {name}", up))
                break
        if (RESULTS / folder / f"{name}.csv").exists():
            parts.append(_table(RESULTS / folder / f"{name}.csv"))
    return "\n\n".join(parts) or "*Nothing has been measured yet.*"


def _plot(name: str, shows: str, up: str) -> str:
    if not (RESULTS / name).exists():
        return "*Not measured yet.*"
    return f"<!-- drawn: {name} {shows} -->" if name.endswith(".svg") else f"![{shows}]({up}{_PLOTS}{name})"


def _drawn(file: Path, shows: str) -> str:
    """An SVG as a part of the page, so that it takes its colours from the theme."""
    svg = file.read_text(encoding="utf-8").replace("<svg", f'<svg role="img" aria-label="{escape(shows)}"', 1)
    points = re.search(r'width="([\d.]+)pt"', svg)
    widest = (
        1.5 * float(points[1]) if points else 900
    )  # text of 8 points is then as large as that of the page
    return f'<figure class="drawn" style="max-width: {widest:.0f}px; --least: {0.95 * widest / 1.5:.0f}px">{svg}</figure>'


def _break_even(file: Path) -> str:
    """How many times as fast windrow was as the best other way: a line for each range/slide, a column for each case."""
    if not file.exists():
        return "*Not measured yet.*"
    with file.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    cases = list(dict.fromkeys((row["density"], row["aggregates"]) for row in rows))
    times = {
        (row["range_by_slide"], row["density"], row["aggregates"]): float(row["times_faster"]) for row in rows
    }
    lines = [
        f"| range/slide | {' | '.join(f'{density} rows: {what}' for density, what in cases)} |",
        f"|---:|{'---:|' * len(cases)}",
    ]
    for ratio in dict.fromkeys(row["range_by_slide"] for row in rows):
        found = [times.get((ratio, *case)) for case in cases]
        cells = [
            "" if each is None else f"**{each:.1f}**" if each > 1.05 else f"{each:.1f}" for each in found
        ]
        lines.append(f"| {int(ratio):,} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
