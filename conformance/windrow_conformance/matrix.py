# SPDX-License-Identifier: Apache-2.0
"""The support matrix: what every engine does, condensed from a run, kept as data, and shown as Markdown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from windrow_conformance.cases import kinds
from windrow_conformance.runner import Verdict

WINDOWS = {
    "time": "TimeWindow",
    "several": "several TimeWindows",
    "count": "CountWindow",
    "session": "SessionWindow",
    "slide_by_tuple": "SlideByTuple",
    "slide_by_time": "SlideByTime",
    "delta": "DeltaWindow",
    "policy": "PolicyWindow",
}
FEATURES = {
    "disorder": "rows out of order",
    "late": "late rows dropped",
    "side": 'late="side"',
    "update": 'late="update"',
    "early": "early results",
    "restore": "restarts",
    "idle": "idle keys",
    "null": "nulls",
    "nan": "NaN",
    "overflow": "overflow",
    "error": "errors by name",
    "pre-epoch": "times before 1970",
    "huge range": "huge ranges",
}


def matrix(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """For each feature and way: how many cases pass, how many were run, and the gaps with their reasons."""
    counted: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for verdict in verdicts:
        case = verdict.case
        names = [WINDOWS[kinds(case)], *(FEATURES[cover] for cover in case.covers if cover in FEATURES)]
        way = "algorithms" if verdict.way.startswith("algorithm") else verdict.way
        for name in names:
            cell = counted[name].setdefault(f"{verdict.engine} {way}", {"run": 0, "passed": 0, "gaps": []})
            cell["run"] += 1
            cell["passed"] += verdict.outcome == "passed"
            if verdict.outcome == "marked" and str(verdict.mark) not in cell["gaps"]:
                cell["gaps"].append(str(verdict.mark))
    order = [*WINDOWS.values(), *FEATURES.values()]
    return {name: dict(sorted(counted[name].items())) for name in order if name in counted}


def to_json(verdicts: Sequence[Verdict]) -> str:
    """The matrix as the data file that the documentation is made from."""
    return json.dumps(matrix(verdicts), indent=1, ensure_ascii=False) + "\n"


def to_markdown(data: dict[str, Any]) -> str:
    """The matrix as a Markdown table: ✓ where all cases pass, else how many, with the reasons of the gaps below."""
    places = sorted(
        {place for row in data.values() for place in row}, key=lambda p: (not p.startswith("local"), p)
    )
    reasons: list[str] = []
    lines = [f"| | {' | '.join(places)} |", f"|---|{'---|' * len(places)}"]
    for name, row in data.items():
        cells = []
        for place in places:
            cell = row.get(place)
            if cell is None:
                cells.append("")
                continue
            notes = []
            for gap in cell["gaps"]:
                if gap.startswith("never: aggregate "):
                    gap = "never: the algorithm needs a property that the aggregate does not have"
                if gap not in reasons:
                    reasons.append(gap)
                notes.append(reasons.index(gap) + 1)
            marks = "".join(f"<sup>{note}</sup>" for note in sorted(set(notes)))
            if cell["passed"]:
                cells.append(f"✓ {cell['passed']}{marks}")
            else:
                cells.append(f"–{marks}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [""] + [f"{number}. {reason}" for number, reason in enumerate(reasons, 1)]
    return "\n".join(lines) + "\n"
