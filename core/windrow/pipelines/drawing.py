# SPDX-License-Identifier: Apache-2.0
"""A picture of a graph of streams, as SVG: one column for each rank, one colour for each owner.

A box has the name of a stream, how often it emitted and discarded, its rate and its novelty. An edge is dashed if it goes back to
a stream that runs earlier, and crossed out if its owner may no longer subscribe.

>>> from windrow.pipelines import Composite, Source, Space
>>> space = Space("city")
>>> space.put(Source("ann/t", channels={"v": "double"}), Composite("ann/u", inputs={"t": "ann/t"}), by="ann")
>>> _ = space.push([{"stream": "ann/t", "ts": number * 250_000, "v": 1.0} for number in range(5)])
>>> draw(space).startswith("<svg"), draw(space).count("<rect"), draw(space).count("4/s")
(True, 2, 2)
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from windrow.pipelines.streams import owner_of

if TYPE_CHECKING:
    from windrow.pipelines.space import Space

__all__ = ["draw"]

WIDTH, HEIGHT, GAP_X, GAP_Y, EDGE = 190, 52, 70, 18, 20
COLOURS = ("#2f6f9f", "#b5542b", "#4d7d3b", "#7a4f9a", "#9a7b1f", "#2a8580", "#a33d5e", "#5b6470")
MOST = 500
"""Streams in a picture; more could not be read."""


def draw(space: Space) -> str:
    """The streams of a space as SVG. Of more than 500, those with the lowest ranks are drawn."""
    rows = sorted(space.figures(), key=lambda row: (row["rank"], row["stream"]))[:MOST]
    owners = sorted({owner_of(row["stream"]) for row in rows})
    colour = {owner: COLOURS[place % len(COLOURS)] for place, owner in enumerate(owners)}
    places = _places(rows)
    width = max((x for x, _ in places.values()), default=0) + WIDTH + EDGE
    height = max((y for _, y in places.values()), default=0) + HEIGHT + EDGE + 24
    edges = [
        _edge(places[other], places[row["stream"]], space.runtime.graph.open(row["stream"], other))
        for row in rows
        for other in row["inputs"]
        if other in places
    ]
    boxes = [_box(row, places[row["stream"]], colour[owner_of(row["stream"])]) for row in rows]
    legend = "".join(
        f'<circle cx="{EDGE + 6 + 130 * n}" cy="{height - 14}" r="5" fill="{colour[owner]}"/>'
        f'<text x="{EDGE + 16 + 130 * n}" y="{height - 10}">{escape(owner)}</text>'
        for n, owner in enumerate(owners[:8])
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" fill="#888">'
        f"<title>{escape(space.name)}: {len(rows)} streams</title>{''.join(edges)}{''.join(boxes)}{legend}</svg>"
    )


def _places(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """Where each stream is: a column for its rank, near the middle of its inputs."""
    places: dict[str, tuple[int, int]] = {}
    columns: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        columns.setdefault(row["rank"], []).append(row)
    for number, (_, column) in enumerate(sorted(columns.items())):

        def middle(row: dict[str, Any]) -> tuple[float, str]:
            heights = [places[other][1] for other in row["inputs"] if other in places]
            return (sum(heights) / len(heights) if heights else 0.0, row["stream"])

        for place, row in enumerate(sorted(column, key=middle)):
            places[row["stream"]] = (EDGE + number * (WIDTH + GAP_X), EDGE + place * (HEIGHT + GAP_Y))
    return places


def _edge(start: tuple[int, int], end: tuple[int, int], is_open: bool) -> str:
    back = start[0] >= end[0]
    x1, y1 = start[0] + WIDTH, start[1] + HEIGHT // 2
    x2, y2 = end[0], end[1] + HEIGHT // 2
    bend = 30 + abs(x2 - x1) // 3
    style = ' stroke-dasharray="5 4"' if back else ""
    colour = "#999" if is_open else "#d33"
    mark = "" if is_open else f'<text x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2}" fill="#d33">×</text>'
    return f'<path d="M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}" fill="none" stroke="{colour}"{style}/>{mark}'


def _box(row: dict[str, Any], place: tuple[int, int], colour: str) -> str:
    x, y = place
    name = row["stream"] if len(row["stream"]) <= 28 else row["stream"][:27] + "…"
    shape = 'rx="4"' if row["kind"] == "source" else 'rx="16"'
    figures = f"{row['emitted']:,} out · {row['discarded']:,} discarded"
    rate = "" if row["rate"] is None else f"{row['rate']:.3g}/s · "
    more = f"{rate}novelty {row['novelty']}" + (f" · {row['failed']:,} failed" if row["failed"] else "")
    return (
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" {shape} fill="{colour}" fill-opacity="0.16" '
        f'stroke="{colour}"/><text x="{x + 12}" y="{y + 17}" fill="{colour}" font-weight="bold">{escape(name)}</text>'
        f'<text x="{x + 12}" y="{y + 31}">{figures}</text><text x="{x + 12}" y="{y + 44}">{more}</text>'
    )
