# SPDX-License-Identifier: Apache-2.0
"""All transcripts, and what they cover.

``python -m windrow_conformance.cases`` prints the coverage. With names of files, it writes what the oracle expects of
each step into their cases, for a person to check.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from windrow.aggregates.product import ProductOf
from windrow.errors import QueryError
from windrow_conformance import transcript
from windrow_conformance.case import Case


@cache
def transcripts() -> tuple[Case, ...]:
    """Every case of the suite's own files, in order."""
    folder = files("windrow_conformance") / "transcripts"
    found: list[Case] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            found += transcript.read(file.read_text(encoding="utf-8"))
    twice = [name for name, count in Counter(case.name for case in found).items() if count > 1]
    if twice:
        raise QueryError(f"two cases are called {twice[0]!r}; every case needs its own name")
    return tuple(replace(case, replay=f"windrow conformance --case '{case.name}'") for case in found)


def kinds(case: Case) -> str:
    """The kind of window of a case."""
    windows = [window for _, window in case.query.windows]
    return "several" if case.query.labelled else windows[0].kind


def aggregates(case: Case) -> set[str]:
    """The names of the aggregates that a case asks for."""
    found = set()
    for aggregate in case.query.aggregates.values():
        found.add(type(aggregate).__name__)
        if isinstance(aggregate, ProductOf):
            found |= {type(part).__name__ for _, part in aggregate.parts}
    return found


def coverage(cases: Iterable[Case]) -> dict[str, Counter[str]]:
    """How many cases there are of each window, condition and aggregate."""
    counted: dict[str, Counter[str]] = {
        "windows": Counter(),
        "covers": Counter(),
        "aggregates": Counter(),
        "late": Counter(),
    }
    pairs: Counter[str] = Counter()
    for case in cases:
        counted["windows"][kinds(case)] += 1
        counted["late"][case.query.late] += 1
        counted["aggregates"].update(aggregates(case))
        counted["covers"].update(case.covers)
        pairs.update(f"{kinds(case)} × {cover}" for cover in case.covers)
    return {**counted, "windows × covers": pairs}


def fill(path: Path) -> None:
    """Write what each step of a file's cases has to give, by the oracle, into the file."""
    cases = transcript.read(path.read_text(encoding="utf-8"))
    head = path.read_text(encoding="utf-8").partition("[[case]]")[0]
    path.write_text(
        head + transcript.write(case if case.error else case.expecting() for case in cases), encoding="utf-8"
    )


def main(arguments: list[str]) -> None:
    for path in arguments:
        fill(Path(path))
    if not arguments:
        found = transcripts()
        print(f"{len(found)} cases, {sum(case.quick for case in found)} quick")
        for group, counts in coverage(found).items():
            print(f"\n{group}")
            for name, count in sorted(counts.items()):
                print(f"  {count:4}  {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
