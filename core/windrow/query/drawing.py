# SPDX-License-Identifier: Apache-2.0
"""Pictures and tables of queries, for notebooks: SVG of windows over their slices, and HTML.

>>> import windrow as wr
>>> query = wr.Query(window=wr.TimeWindow("4s", "2s"), aggregates={"n": wr.Count()})
>>> picture = query.plot(windows=3)
>>> str(picture)[:4], str(picture).count("<rect") >= 3
('<svg', True)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from windrow import durations
from windrow.errors import QueryError
from windrow.windows import CountWindow, TimeWindow, Window

if TYPE_CHECKING:
    from windrow.query.query import Query

__all__ = ["Drawing", "draw", "html_table", "query_lines", "text_table"]

WIDTH, LEFT, RIGHT, LINE = 760, 130, 60, 22
MOST_SLICES = 120
"""More slices than this would be a grey area."""
SHOWN_FROM = 1_704_067_200_000_000
"""Windows of a calendar are drawn from the year 2024 on."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Drawing:
    """A picture. Notebooks show it; ``str()`` is its SVG."""

    svg: str

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<a drawing of {len(self.svg)} bytes of SVG; .save(path) writes it>"

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the SVG to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")


def draw(query: Query, windows: int = 6) -> Drawing:
    """The first few windows of each kind over the slices that they share."""
    if not isinstance(windows, int) or windows < 1:
        raise QueryError(f"windows has to be how many windows to draw, at least 1, not {windows!r}")
    rows = [(label, *bounds) for label, window in query.windows for bounds in _first(window, windows)]
    low, high = min(row[1] for row in rows), max(row[2] for row in rows)
    bounds = {bound for _, window in query.windows for pair in _around(window, windows) for bound in pair}
    cuts = sorted(bound for bound in bounds if low <= bound <= high)
    few = cuts if len(cuts) <= MOST_SLICES else []
    scale = (WIDTH - LEFT - RIGHT) / max(high - low, 1)
    bottom = 40 + LINE * len(rows)
    parts = [_line(LEFT + (cut - low) * scale, 30, bottom) for cut in few]
    for place, (label, start, end) in enumerate(rows):
        parts += _bar(place, label, LEFT + (start - low) * scale, (end - start) * scale)
    shown = _naming(query.windows[0][1])
    for cut in _some(cuts):
        parts.append(_text(LEFT + (cut - low) * scale, bottom + 18, shown(cut), "middle"))
    slices = f"{len(cuts) - 1} slices" if few else "too many slices to draw"
    parts.append(
        _text(LEFT, 18, f"{len(rows)} windows over {slices}; the next ones follow at the same distance")
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" role="img" '
    style = 'font-family="sans-serif" font-size="12" fill="currentColor" stroke="none">'
    return Drawing(head + style + "<title>Windows and slices</title>" + "".join(parts) + "</svg>")


def query_lines(query: Query) -> list[tuple[str, str]]:
    """The parts of a query, by name, for people."""
    windows = ", ".join(
        f"{label}: {window!r}" if query.labelled else repr(window) for label, window in query.windows
    )
    lines = [
        ("by", ", ".join(query.by) or "no key"),
        ("time", query.time if query.time_unit is None else f"{query.time} in {query.time_unit}"),
        ("window", windows),
        *((name, _called(aggregate)) for name, aggregate in query.aggregates.items()),
        ("late rows", f"{query.late}, lateness {durations.format(query.lateness)}"),
    ]
    lines += [] if query.early is None else [("early results", f"every {durations.format(query.early)}")]
    lines += [] if query.forget_after is None else [("forget after", durations.format(query.forget_after))]
    return lines + ([] if query.algorithm == "auto" else [("algorithm", query.algorithm)])


def html_table(lines: Iterable[tuple[str, str]]) -> str:
    """Names and texts as a table of two columns."""
    rows = (
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(text)}</td></tr>'
        for name, text in lines
    )
    return f"<table>{''.join(rows)}</table>"


def text_table(lines: Sequence[tuple[str, str]]) -> str:
    """Names and texts as lines."""
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:<{width}}  {text}" for name, text in lines)


def _called(aggregate: object) -> str:
    where = getattr(aggregate, "where", None)
    label = str(getattr(aggregate, "label", aggregate))
    return label if where is None else f"{label} where {where}"


def _first(window: Window, count: int) -> list[tuple[int, int]]:
    """The bounds of the first windows."""
    if isinstance(window, CountWindow):
        return [(window.extent(w).start, window.extent(w).stop) for w in range(count)]
    if isinstance(window, TimeWindow):
        begin = _drawn_from(window)
        return [window.bounds(k) for k in range(begin, begin + count)]
    raise QueryError(
        f"the rows decide where a {type(window).__name__} begins and ends, so there is nothing to draw without them; "
        f"time and count windows can be drawn"
    )


def _around(window: Window, count: int) -> list[tuple[int, int]]:
    """The bounds of the windows that overlap the first ones, too; too many of them are not drawn anyway."""
    if not isinstance(window, TimeWindow):
        return _first(window, count)
    begin, more = _drawn_from(window), min(window.range // window.slide + 1, MOST_SLICES)
    return [window.bounds(k) for k in range(begin - more, begin + count + more)]


def _drawn_from(window: TimeWindow) -> int:
    return 0 if window.calendar is None else window.last_window(SHOWN_FROM)


def _naming(window: Window) -> Callable[[int], str]:
    if isinstance(window, CountWindow):
        return str
    if isinstance(window, TimeWindow) and window.calendar is not None:
        return lambda micros: f"{_EPOCH + timedelta(microseconds=micros):%Y-%m-%d %H:%M}"
    return durations.format


def _some(cuts: list[int]) -> list[int]:
    """The first, the last, and one between, so that labels do not overlap."""
    return cuts if len(cuts) <= 3 else [cuts[0], cuts[len(cuts) // 2], cuts[-1]]


def _bar(place: int, label: str, x: float, width: float) -> list[str]:
    y = 34 + LINE * place
    return [
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1):.1f}" height="{LINE - 8}" rx="3" fill-opacity="0.45"/>',
        _text(LEFT - 8, y + 11, label if len(label) <= 18 else f"{label[:17]}…", "end"),
    ]


def _line(x: float, top: int, bottom: int) -> str:
    return f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}" stroke="currentColor" stroke-opacity="0.35"/>'


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'
