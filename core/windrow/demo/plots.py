# SPDX-License-Identifier: Apache-2.0
"""Plots as SVG that takes its colours from the page, so that it follows light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape

import numpy as np

from windrow.demo.findings import Line

__all__ = ["bars", "lines"]

LEFT, RIGHT, TOP, BOTTOM = 52, 12, 14, 28


def lines(curves: Sequence[Line], unit: str, about: str, width: int, height: int) -> str:
    """Curves over time, with a grid and a time axis. Curve number n has the class `s<n>`."""
    first = min(int(curve.times[0]) for curve in curves)
    last = max(int(curve.times[-1]) for curve in curves)
    top = _above(max(float(curve.values.max()) for curve in curves))
    across = (width - LEFT - RIGHT) / max(last - first, 1)
    down = (height - TOP - BOTTOM) / top
    floor = height - BOTTOM
    parts = [_open(width, height, about)]
    for value in np.linspace(0.0, top, 5):
        y = floor - value * down
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{width - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    minutes = 15 if width > 500 else 30
    step = minutes * 60_000_000
    for moment in range(-(-first // step) * step, last + 1, step):
        x = LEFT + (moment - first) * across
        label = f"{datetime.fromtimestamp(moment / 1e6, UTC):%H:%M}"
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{floor}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{label}</text>')
    for number, curve in enumerate(curves):
        points = " ".join(
            f"{LEFT + (time - first) * across:.1f},{floor - value * down:.1f}"
            for time, value in zip(curve.times.tolist(), curve.values.tolist(), strict=True)
        )
        parts.append(
            f'<polyline class="curve s{number}" points="{points}"><title>{escape(curve.label)}</title></polyline>'
        )
    return "".join(parts) + "</svg>"


def bars(rates: Sequence[tuple[str, float]], about: str, width: int) -> str:
    """Horizontal bars on a logarithmic scale, each with its name above and its number behind it."""
    height = 54 * len(rates) + 6
    most = np.log10(max(rate for _, rate in rates) + 1.0)
    room = width - 150
    parts = [_open(width, height, about)]
    for number, (label, rate) in enumerate(rates):
        y = 54 * number
        length = max(3.0, room * float(np.log10(rate + 1.0) / most))
        parts.append(f'<text class="label" x="0" y="{y + 16}">{escape(label)}</text>')
        parts.append(
            f'<rect class="bar s{number}" x="0" y="{y + 23}" width="{length:.1f}" height="20" rx="3"/>'
        )
        parts.append(f'<text class="number" x="{length + 8:.1f}" y="{y + 38}">{_rate(rate)}</text>')
    return "".join(parts) + "</svg>"


def _open(width: int, height: int, about: str) -> str:
    text = escape(about, quote=True)
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{text}">'


def _above(value: float) -> float:
    """The next round number.

    >>> _above(130.0), _above(0.0), _above(2300.0)
    (160.0, 1.0, 2400.0)
    """
    if value <= 0.0:
        return 1.0
    magnitude = 10.0 ** np.floor(np.log10(value))
    for step in (1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10):
        if step * magnitude >= value:
            return float(step * magnitude)
    return float(10 * magnitude)


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:,.0f}" if value >= 10 else f"{value:g}"


def _rate(rate: float) -> str:
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.1f} rows/s"
