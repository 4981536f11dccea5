# SPDX-License-Identifier: Apache-2.0
"""A small picture of a case: rows as dots on a line of time, windows as bars under it."""

from __future__ import annotations

from html import escape
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow_conformance.case import Case
from windrow_conformance.compare import settled

WIDTH, LINE, LEFT, MOST = 640, 14, 90, 24


def picture(case: Case) -> str:
    """An SVG of the rows of a case and of its windows, key by key; nothing if there is nothing to show."""
    rows = case.rows
    if case.error or not rows.num_rows:
        return ""
    by = list(case.query.by)
    times = case.bound.times(rows).tolist()
    keys = [_key(row, by) for row in rows.to_pylist()]
    windows = [] if isinstance(case.query.window, wr.CountWindow | wr.DeltaWindow) else _bars(case, by)
    bounds = [*times, *(edge for _, start, end in windows for edge in (start, end))]
    low, high = min(bounds), max(bounds)
    lines: list[str] = []
    y = LINE
    for key in sorted(set(keys)):
        lines.append(f'<text x="4" y="{y + 4}">{escape(key)}</text>')
        lines.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y}" y2="{y}"/>')
        for time, owner in zip(times, keys, strict=True):
            if owner == key:
                x = _x(time, low, high)
                lines.append(
                    f'<circle cx="{x:.1f}" cy="{y}" r="3"><title>{time / case.clock:g}</title></circle>'
                )
        mine = [(start, end) for owner, start, end in windows if owner == key]
        for start, end in mine[:MOST]:
            y += LINE // 2 + 2
            x, width = _x(start, low, high), max(2.0, _x(end, low, high) - _x(start, low, high))
            title = f"{start / case.clock:g} … {end / case.clock:g}"
            lines.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="5"><title>{title}</title></rect>'
            )
        if len(mine) > MOST:
            y += LINE
            lines.append(f'<text x="{LEFT}" y="{y + 6}">and {len(mine) - MOST} more windows</text>')
        y += 2 * LINE
    return (
        f'<svg viewBox="0 0 {WIDTH} {y}" width="{WIDTH}" height="{y}" role="img" '
        f'aria-label="rows and windows of {escape(case.name)}">{"".join(lines)}</svg>'
    )


def _bars(case: Case, by: list[str]) -> list[tuple[str, int, int]]:
    bars = []
    for row in settled(case.windows, case.bound):
        start, end = (
            pa.scalar(row[name], case.bound.bound_type).cast(pa.int64()).as_py()
            for name in ("window_start", "window_end")
        )
        bars.append((_key(row, by), start, end))
    return bars


def _key(row: dict[str, Any], by: list[str]) -> str:
    return ", ".join(str(row[name]) for name in by) if by else "rows"


def _x(time: int, low: int, high: int) -> float:
    return LEFT + (WIDTH - LEFT - 20) * (time - low) / max(1, high - low)
