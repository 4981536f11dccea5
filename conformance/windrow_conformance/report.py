# SPDX-License-Identifier: Apache-2.0
"""Reports of a run: JUnit for machines, one HTML file for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any
from xml.etree import ElementTree

from windrow_conformance import transcript
from windrow_conformance.picture import picture
from windrow_conformance.runner import Outcome, Verdict

SIGNS: dict[Outcome, str] = {"passed": "✓", "failed": "✗", "marked": "–", "mark passes": "!"}
MEANINGS: dict[Outcome, str] = {
    "passed": "as expected",
    "failed": "another answer",
    "marked": "a known gap",
    "mark passes": "marked as a gap, but passes",
}


def junit(verdicts: Sequence[Verdict]) -> str:
    """The run as JUnit XML: a suite for each way of each engine; gaps are skipped tests with their reason."""
    suites = ElementTree.Element("testsuites", name="windrow conformance")
    for place in _places(verdicts):
        mine = [verdict for verdict in verdicts if verdict.place == place]
        counts = Counter(verdict.outcome for verdict in mine)
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=place,
            tests=str(len(mine)),
            failures=str(counts["failed"] + counts["mark passes"]),
            skipped=str(counts["marked"]),
            time=f"{sum(v.answer.seconds for v in mine if v.answer):.3f}",
        )
        for verdict in mine:
            seconds = verdict.answer.seconds if verdict.answer else 0.0
            test = ElementTree.SubElement(
                suite, "testcase", classname=place, name=verdict.case.name, time=f"{seconds:.3f}"
            )
            if verdict.red:
                text = _xml(f"{verdict.why}\n\nagain: {verdict.again}")
                ElementTree.SubElement(test, "failure", message=text.splitlines()[0]).text = text
            elif verdict.outcome == "marked":
                ElementTree.SubElement(test, "skipped", message=_xml(verdict.why))
    ElementTree.indent(suites)
    return str(ElementTree.tostring(suites, encoding="unicode", xml_declaration=True))


def html(verdicts: Sequence[Verdict], title: str = "windrow conformance") -> str:
    """The run as one page that needs nothing else: a matrix of cases and engines, and every failure in full."""
    places = _places(verdicts)
    counts = Counter(verdict.outcome for verdict in verdicts)
    red = [verdict for verdict in verdicts if verdict.red]
    summary = ", ".join(f"{counts[outcome]} {MEANINGS[outcome]}" for outcome in SIGNS if counts[outcome])
    return PAGE.format(
        title=escape(title),
        style=STYLE,
        state="bad" if red else "good",
        summary=escape(summary or "nothing was run"),
        failures="".join(_failure(verdict, number) for number, verdict in enumerate(red)),
        legend=" ".join(
            f'<span class="{_class(outcome)}">{sign}</span> {MEANINGS[outcome]}'
            for outcome, sign in SIGNS.items()
        ),
        matrix=_matrix(verdicts, places, {id(verdict): number for number, verdict in enumerate(red)}),
    )


def _matrix(verdicts: Sequence[Verdict], places: list[str], red: dict[int, int]) -> str:
    cells = {(verdict.case.name, verdict.place): verdict for verdict in verdicts}
    cases = {verdict.case.name: verdict.case for verdict in verdicts}
    head = "".join(f"<th><span>{escape(place)}</span></th>" for place in places)
    lines = [f"<thead><tr><th></th>{head}</tr></thead><tbody>"]
    for name, case in cases.items():
        row = [f'<th title="{escape(case.story)}">{escape(name)}</th>']
        for place in places:
            verdict = cells.get((name, place))
            if verdict is None:
                row.append("<td></td>")
                continue
            sign = SIGNS[verdict.outcome]
            if verdict.red:
                sign = f'<a href="#failure-{red[id(verdict)]}">{sign}</a>'
            row.append(
                f'<td class="{_class(verdict.outcome)}" title="{escape(f"{place}: {verdict.why or verdict.outcome}")}">{sign}</td>'
            )
        lines.append(f"<tr>{''.join(row)}</tr>")
    return "".join([*lines, "</tbody>"])


def _failure(verdict: Verdict, number: int) -> str:
    case, wrong = verdict.case, verdict.difference
    script = "\n".join(transcript.script(case))
    tables = ""
    if wrong is not None and (wrong.expected or wrong.got):
        tables = f"<h4>expected</h4>{_table(wrong.expected)}<h4>got</h4>{_table(wrong.got)}"
    return f"""<section id="failure-{number}"><h3>{escape(case.name)} on {escape(verdict.place)}</h3>
<p>{escape(case.story)}</p><pre class="why">{escape(wrong.what if wrong else verdict.why)}</pre>{tables}
<h4>windows</h4>{picture(case)}<h4>query</h4><pre>{escape(case.query.described)}</pre>
<h4>script</h4><pre>{escape(script)}</pre><p>Again: <code>{escape(verdict.again)}</code></p></section>"""


def _table(rows: Sequence[dict[str, Any]]) -> str:
    if not rows:
        return "<p>nothing</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(value))}</td>" for value in row.values()) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _places(verdicts: Sequence[Verdict]) -> list[str]:
    return list(
        dict.fromkeys(sorted((v.place for v in verdicts), key=lambda p: (not p.startswith("local"), p)))
    )


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")


def _xml(text: str) -> str:
    """The text without signs that XML cannot hold."""
    return "".join(sign for sign in text if sign >= " " or sign in "\n\t")


STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --soft: #eef1f5; --line: #d4dae3; --good: #1b7f4b;
  --bad: #b3261e; --gap: #7a6a00; --bar: #4c78a8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14181f; --soft: #1f2530; --line: #39414f;
  --good: #5ecb94; --bad: #ff8a80; --gap: #e0c95a; --bar: #7fb2e5; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto; max-width: 1100px;
  padding: 0 1rem; }
h1 small { font-weight: normal; font-size: 1rem; } .good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; }
td, th { border: 1px solid var(--line); padding: 1px 8px; text-align: left; font-weight: normal; white-space: nowrap; }
.matrix td { text-align: center; } .matrix thead th { height: 13em; vertical-align: bottom; padding: 4px; }
.matrix thead span { writing-mode: vertical-rl; transform: rotate(180deg); }
.matrix tbody th { position: sticky; left: 0; background: var(--paper); }
.passed { color: var(--good); } .failed, .mark-passes { color: var(--paper); background: var(--bad); } .marked { color: var(--gap); }
.failed a, .mark-passes a { color: inherit; }
section { border: 1px solid var(--line); border-radius: 8px; padding: 0 1rem 1rem; margin: 1rem 0; }
pre { background: var(--soft); padding: .6rem; overflow-x: auto; } pre.why { color: var(--bad); }
h4 { margin: .8rem 0 .2rem; } svg { max-width: 100%; height: auto; } svg text { fill: var(--ink); font-size: 11px; }
svg .axis { stroke: var(--line); } svg circle { fill: var(--ink); } svg rect { fill: var(--bar); opacity: .75; }
"""
PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>{style}</style></head><body>
<h1>{title} <small class="{state}">{summary}</small></h1>
{failures}
<p>{legend}</p>
<div class="wide"><table class="matrix">{matrix}</table></div>
</body></html>
"""
