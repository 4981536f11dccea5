# SPDX-License-Identifier: Apache-2.0
"""Run cases on one engine, in an interpreter that has it, and write the answers as an Arrow file.

``python -m windrow_conformance.run_engine spark --cases cases.toml --out answers.arrow [--way batch] [--subset quick]``

The runner starts this in the environment of each engine. A line goes to standard output after each answer, for
progress.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from windrow.imports import ANY
from windrow_conformance import answers, transcript
from windrow_conformance.answers import Answer
from windrow_conformance.case import Case
from windrow_conformance.engines import NAMES, Engine, Subset, engine

DONE = "windrow-conformance answered"


def run(chosen: Engine, cases: list[Case], ways: list[str], subset: Subset) -> Iterator[Answer]:
    """The answers of an engine to all cases, in all ways that take them."""
    for way in ways:
        yield from chosen.run(way, [case for case in cases if chosen.takes(case, way, subset)])


def main(arguments: list[str] | None = None) -> None:
    parse = argparse.ArgumentParser(prog="windrow_conformance.run_engine", description=__doc__)
    parse.add_argument("engine", choices=NAMES)
    parse.add_argument("--cases", type=Path, required=True)
    parse.add_argument("--out", type=Path, required=True)
    parse.add_argument("--way", action="append")
    parse.add_argument("--subset", choices=get_args(Subset), default="all")
    asked = parse.parse_args(arguments)
    chosen = engine(asked.engine)
    # The runner has written them, from queries that it had imported already.
    cases = transcript.read(asked.cases.read_text(encoding="utf-8"), allow=ANY)
    found = []
    for answer in run(chosen, cases, asked.way or list(chosen.ways), asked.subset):
        found.append(answer)
        print(DONE, answer.way, answer.case, flush=True)
    answers.write(asked.out, found)


if __name__ == "__main__":
    main(sys.argv[1:])
