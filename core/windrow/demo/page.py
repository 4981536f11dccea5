"""The page that the demo leaves behind: one file, no scripts, nothing loaded from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from windrow.demo.findings import Findings, kilowatt_hours, name_of
from windrow.demo.plots import bars, lines
from windrow.demo.summary import Summary

__all__ = ["page"]

WIDE, NARROW = 860, 350
STYLE = (
    """
:root { color-scheme: light dark; --back: #fbfbf9; --card: #ffffff; --ink: #1c2326; --soft: #5b676c; --line: #dfe4e4;
  --c0: #0f766e; --c1: #c2570c; --c2: #3056c8; --c3: #a3196f; --c4: #6d6a00; --c5: #4b5563; --good: #0f766e; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #14191b; --card: #1c2326; --ink: #e8eded; --soft: #9fadb1; --line: #344044;
  --c0: #4fd1c5; --c1: #fb9a4b; --c2: #8fb0ff; --c3: #f58ad0; --c4: #d8cf4a; --c5: #d5dade; --good: #4fd1c5; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 32px 16px 48px; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 8px; }
h2 { font-size: 1.15rem; margin: 0 0 4px; }
p { margin: 0 0 12px; } .soft { color: var(--soft); } a { color: var(--c2); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; margin: 20px 0; }
.card, section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.card { padding: 12px 14px; } .card b { display: block; font-size: 1.45rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
.card span { color: var(--soft); font-size: .88rem; }
section { padding: 18px 16px; margin: 16px 0; }
svg { display: block; width: 100%; height: auto; } .narrow { display: none; }
svg text { fill: var(--soft); font: 12px system-ui, sans-serif; } svg .label, svg .number { fill: var(--ink); font-size: 13px; }
.grid { stroke: var(--line); stroke-width: 1; } .curve { fill: none; stroke-width: 2; stroke-linejoin: round; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 6px 0 8px; font-size: .9rem; }
.legend i { display: inline-block; width: 14px; height: 4px; border-radius: 2px; margin-right: 6px; vertical-align: middle; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; font-variant-numeric: tabular-nums; }
th, td { padding: 6px 8px; border-bottom: 1px solid var(--line); text-align: right; } th { color: var(--soft); font-weight: 600; }
th:first-child, td:first-child { text-align: left; } tr:last-child td { border-bottom: 0; }
code, pre { font: 13px/1.5 ui-monospace, monospace; } pre { overflow-x: auto; margin: 8px 0 0;
  white-space: pre-wrap; overflow-wrap: anywhere; }
.good { color: var(--good); } .bad { color: var(--bad); }
@media (max-width: 560px) { .wide { display: none; } .narrow { display: block; } main { padding-top: 20px; } }
@media (max-width: 560px) { table.plugs th:nth-child(5), table.plugs td:nth-child(5) { display: none; } }
"""
    + "".join(
        f".s{n} {{ stroke: var(--c{n}); }} .bar.s{n} {{ fill: var(--c{n}); stroke: none; }} .k{n} {{ background: var(--c{n}); }}\n"
        for n in range(6)
    )
    + ".raw .s0 { stroke: var(--soft); stroke-width: 1; opacity: .55; } .raw .k0 { background: var(--soft); }\n"
)


def page(summary: Summary, findings: Findings) -> str:
    """The whole page."""
    verdict = (
        '<b class="good">yes</b>'
        if summary.same
        else f'<b class="bad">no</b><span>{escape(summary.difference)}</span><br>'
    )
    cards = [
        (f"<b>{summary.rate:,.0f}</b>", "readings a second, both queries"),
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
            f"<title>windrow demo: {escape(summary.ran.engine)}</title><style>{STYLE}</style></head><body><main>",
            "<h1>The last hour, every second</h1>",
            f"<p>{summary.readings.rows:,} readings of {summary.plugs} smart plugs in {summary.houses} houses: peak, mean and 95th "
            "percentile of every plug, and the load of every house, over the hour before each second. "
            '<span class="soft">The readings are synthetic, from a fixed seed.</span></p>',
            '<div class="cards">'
            + "".join(f'<div class="card">{big}<span>{text}</span></div>' for big, text in cards)
            + "</div>",
            *_native(summary),
            *_houses(findings),
            *_plug(findings),
            *_busiest(findings),
            *_next(summary),
            "</main></body></html>\n",
        ]
    )


def _native(summary: Summary) -> Iterable[str]:
    native = summary.ran.native
    if native is None:
        return
    yield "<section><h2>Against the engine's own windows</h2>"
    yield (
        "<p>An hour that slides by a second puts every row into 3,600 windows, and the engine makes a copy for each. "
        f"<code>{escape(native.what)}</code> took {native.seconds:.1f} s for {native.rows:,} rows of this data"
        + (f", although its slide is {native.coarser} times as long" if native.coarser > 1 else "")
        + f". With a slide of a second, all of it would take {escape(summary.native_time)}. The scale is logarithmic.</p>"
    )
    rates = [
        ("windrow", summary.load_rate),
        (f"{summary.ran.engine.split()[0]}, native windows, {native.rows} rows", summary.native_rate),
    ]
    yield from _both(lambda width: bars(rates, "rows a second, windrow and native windows", width))
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
        (name_of(row), f"{row['mean']:.1f}", f"{row['p95']:,.1f}", f"{row['peak']:,.1f}", f"{row['n']:,}")
        for row in findings.plugs
    ]
    yield f'<section><h2>The busiest plugs</h2><p class="soft">The hour up to {findings.until:%H:%M:%S}.</p>'
    yield _table(("", "mean W", "p95 W", "peak W", "readings"), rows, "plugs")
    yield "</section>"


def _next(summary: Summary) -> Iterable[str]:
    yield "<section><h2>Go on from here</h2><p>The same query, from the shell:</p>"
    yield "<pre>" + escape("\n".join(summary.commands)) + "</pre></section>"


def _both(draw: object) -> Iterable[str]:
    """A plot for wide screens and one for phones, whose text has the same size."""
    assert callable(draw)
    yield f'<div class="wide">{draw(WIDE)}</div><div class="narrow">{draw(NARROW)}</div>'


def _legend(labels: Sequence[str]) -> str:
    keys = (f'<span><i class="k{number}"></i>{escape(label)}</span>' for number, label in enumerate(labels))
    return f'<div class="legend">{"".join(keys)}</div>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], kind: str) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f'<table class="{kind}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
