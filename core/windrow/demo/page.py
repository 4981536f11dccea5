# SPDX-License-Identifier: Apache-2.0
"""The page that the demo writes: one file without scripts, which loads nothing and follows light and dark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib import resources

from windrow.demo.findings import Findings, kilowatt_hours
from windrow.demo.plots import bars, lines
from windrow.demo.scenario import PLUG
from windrow.demo.summary import Summary

__all__ = ["page"]

WIDE, NARROW = 860, 350


def page(summary: Summary, findings: Findings) -> str:
    """The whole page."""
    verdict = (
        '<b class="good">yes</b>'
        if summary.same
        else f'<b class="bad">no</b><span>{escape(summary.difference)}</span><br>'
    )
    cards = [
        (f"<b>{summary.rate:,.0f}</b>", "rows a second through both queries"),
        (f"<b>{summary.windows:,}</b>", "windows, every one written"),
        (
            f"<b>{summary.ran.seconds:.1f} s</b>",
            f"on {escape(summary.ran.engine)}"
            + (f", after {summary.ran.starting:.0f} s of start-up" if summary.ran.starting >= 0.5 else ""),
        ),
        (verdict, "the same windows as in process"),
    ]
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>windrow demo: {escape(summary.ran.engine)}</title><style>{_style()}</style></head><body><main>",
            "<h1>The last hour, every second</h1>",
            f"<p>{summary.readings.rows:,} readings of {summary.plugs} smart plugs in {summary.houses} houses; the "
            f"{summary.readings.loads:,} loads among them entered both queries: peak, mean and 95th "
            "percentile of every plug, and the load of every house, over the hour before each second. "
            '<span class="soft">The readings are synthetic, from a fixed seed.</span></p>',
            '<div class="cards">'
            + "".join(f'<div class="card">{big}<span>{text}</span></div>' for big, text in cards)
            + "</div>",
            *_peer(summary),
            *_houses(findings),
            *_plug(findings),
            *_busiest(findings),
            *_next(summary),
            "</main></body></html>\n",
        ]
    )


def _peer(summary: Summary) -> Iterable[str]:
    peer = summary.ran.peer
    if peer is None:
        return
    yield "<section><h2>Against the engine alone</h2>"
    yield (
        f"<p>{peer.rows:,} rows of this data as a batch, peak, mean and count of each plug, both warm. {escape(peer.what)} took "
        f"{peer.seconds:.2f} s, windrow {peer.ours:.2f} s for the same {peer.windows:,} windows.</p>"
    )
    rates = [
        ("windrow", peer.rows / peer.ours),
        (f"{summary.ran.engine.split()[0]} alone", peer.rows / peer.seconds),
    ]
    yield from _both(lambda width: bars(rates, "rows a second, windrow and the engine alone", width))
    yield "</section>"


def _houses(findings: Findings) -> Iterable[str]:
    yield "<section><h2>Mean load of a plug, by house</h2>"
    yield '<p class="soft">Watts, over the hour before the time shown (UTC). At first there is less than an hour to look back on.</p>'
    yield _legend([line.label for line in findings.totals])
    yield from _both(
        lambda width: lines(
            findings.totals, "W", "mean load by house over time", width, 300 if width == WIDE else 260
        )
    )
    rows = [
        (
            f"house {row['house']}",
            f"{kilowatt_hours(row):.2f}",
            f"{row['mean']:.1f}",
            f"{row['peak']:,.0f}",
            f"{row['n']:,}",
        )
        for row in findings.houses
    ]
    yield f'<p class="soft" style="margin-top:12px">The hour up to {findings.until:%H:%M:%S}:</p>'
    yield _table(("", "kWh", "mean W", "peak W", "readings"), rows, "plugs")
    yield "</section>"


def _plug(findings: Findings) -> Iterable[str]:
    yield f"<section><h2>One plug: {escape(findings.plug)}</h2>"
    yield '<p class="soft">Watts. The grey line is what the plug reported; the others look back over an hour.</p>'
    yield '<div class="raw">' + _legend([line.label for line in findings.curves])
    yield from _both(
        lambda width: lines(
            findings.curves, "W", "load, peak, p95 and mean of one plug", width, 300 if width == WIDE else 260
        )
    )
    yield "</div></section>"


def _busiest(findings: Findings) -> Iterable[str]:
    rows = [
        (
            " · ".join(str(row[column]) for column in PLUG),
            f"{row['mean']:.1f}",
            f"{row['p95']:,.1f}",
            f"{row['peak']:,.1f}",
            f"{row['n']:,}",
        )
        for row in findings.plugs
    ]
    yield f'<section><h2>The busiest plugs</h2><p class="soft">The hour up to {findings.until:%H:%M:%S}.</p>'
    yield _table((" · ".join(PLUG), "mean W", "p95 W", "peak W", "readings"), rows, "plugs")
    yield "</section>"


def _next(summary: Summary) -> Iterable[str]:
    yield "<section><h2>Next steps</h2><p>The same query, from the shell:</p>"
    yield "<pre>" + escape("\n".join(summary.commands)) + "</pre></section>"


def _style() -> str:
    return resources.files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _both(draw: Callable[[int], str]) -> Iterable[str]:
    """A plot for wide screens and one for phones, whose text has the same size."""
    yield f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>'


def _legend(labels: Sequence[str]) -> str:
    keys = (f'<span><i class="k{number}"></i>{escape(label)}</span>' for number, label in enumerate(labels))
    return f'<div class="legend">{"".join(keys)}</div>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
