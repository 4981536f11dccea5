"""Plots as SVG that can be read on a light page and on a dark one.

``save`` takes the place of ``Figure.savefig``. Text, axes and the ground get variables instead of colours. Inside the
documentation, these are the variables of the site's theme. In a file on its own, such as the plot of the README, they
follow the reader's system.
"""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Any

OURS, PLAIN, PALE, OTHER = "#00897b", "#8a8a8a", "#b9b9b9", "#a1745f"
"""Colours of lines and bars that are legible on both grounds: windrow, peers."""

_STYLE = """<style>
:root { --plot-ink: #1f2328; --plot-ground: #ffffff }
@media (prefers-color-scheme: dark) { :root { --plot-ink: #e6edf3; --plot-ground: #0d1117 } }
.plot text { fill: var(--md-default-fg-color, var(--plot-ink)) }
</style>"""
_COLOURS = {
    "#000000": "var(--md-default-fg-color, var(--plot-ink))",
    "#ffffff": "var(--md-default-bg-color, var(--plot-ground))",
}


def save(figure: Any, path: Path, *, png: bool = False) -> None:
    """Write a matplotlib figure as an SVG file; the same figure always gives the same bytes. With ``png``, also a PNG."""
    import matplotlib

    written = StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "windrow"}):
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    path.with_suffix(".svg").write_text(themed(written.getvalue()), encoding="utf-8")
    if png:
        figure.savefig(path.with_suffix(".png"), dpi=80, metadata={"Software": None})


def themed(svg: str) -> str:
    """An SVG of matplotlib without its preamble and description, and with variables for black and white."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"\s*<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub("|".join(_COLOURS), lambda found: _COLOURS[found[0]], svg)
    svg = re.sub(r"'DejaVu Sans'[^;\"]*", "sans-serif", svg)
    head, _, rest = svg.partition(">")
    return f'{head} class="plot">\n{_STYLE}{rest}'
