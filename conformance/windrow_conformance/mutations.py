# SPDX-License-Identifier: Apache-2.0
"""Check that the suite notices bugs. Each mutation is a bug in a copy of the sources, and the suite has to catch it.

``python -m windrow_conformance.mutations [--engine local] [--python spark=PATH] [NAME …]`` tries them and exits with 1 if
one was not noticed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from windrow.errors import QueryError
from windrow_conformance import answers, transcript
from windrow_conformance.case import Case
from windrow_conformance.cases import transcripts
from windrow_conformance.engines import engine
from windrow_conformance.generated import generate
from windrow_conformance.runner import interpreter, judge

PACKAGES = ("windrow", "windrow_conformance", "windrow_spark", "windrow_flink")
GENERATED = 30
"""How many generated cases are run against a mutation of the core, besides all transcripts."""


@dataclass(frozen=True)
class Mutation:
    """A small bug: in a file, a text that occurs exactly once, and what it becomes."""

    name: str
    file: str
    old: str
    new: str
    engine: str = "local"
    ways: tuple[str, ...] = ("interpreted", "stored")
    cases: tuple[str, ...] = ()
    """Names of the cases that are run; all, if none are named."""


def _read() -> tuple[Mutation, ...]:
    text = (files("windrow_conformance") / "mutations.toml").read_text(encoding="utf-8")
    return tuple(map(_mutation, tomllib.loads(text)["mutation"]))


def _mutation(values: dict[str, Any]) -> Mutation:
    arguments: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return Mutation(**arguments)


MUTATIONS = _read()


def caught(mutation: Mutation, pythons: dict[str, str] | None = None) -> str:
    """What the suite notices of a mutation; empty if nothing."""
    cases = [
        case
        for case in transcripts()
        if not mutation.cases or any(name in case.name for name in mutation.cases)
    ]
    if not mutation.cases:
        cases += [generate(1, number) for number in range(GENERATED)]
    python = interpreter(engine(mutation.engine), pythons or {})
    with tempfile.TemporaryDirectory(prefix="windrow-mutation-") as folder:
        copy = Path(folder) / "sources"
        _copied(copy, mutation)
        return _noticed(mutation, cases, python, copy, Path(folder))


def _noticed(mutation: Mutation, cases: Sequence[Case], python: str, sources: Path, folder: Path) -> str:
    file, out = folder / "cases.toml", folder / "answers.arrow"
    file.write_text(transcript.write(cases), encoding="utf-8")
    command = [
        python,
        "-m",
        "windrow_conformance.run_engine",
        mutation.engine,
        "--cases",
        str(file),
        "--out",
        str(out),
    ]
    command += [part for way in mutation.ways for part in ("--way", way)]
    environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_DISABLE_JIT": "1"}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "it never ends"
    if ended.returncode:
        return f"it crashes: {(ended.stderr.strip().splitlines() or ['without a word'])[-1]}"
    red = [verdict for verdict in judge(cases, answers.read(out)) if verdict.red]
    return f"{len(red)} answers, first {red[0].case.name} on {red[0].place}" if red else ""


def _copied(target: Path, mutation: Mutation) -> None:
    """A copy of all packages, with the bug in it."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
            shutil.copytree(Path(spec.origin).parent, target / package, ignore=ignored)
    path = target / mutation.file
    if not path.exists():
        raise QueryError(f"mutation {mutation.name!r}: {mutation.file} is not installed here")
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise QueryError(
            f"mutation {mutation.name!r}: {mutation.old!r} occurs {text.count(mutation.old)} times in {mutation.file}, not "
            "once; the code has changed, so change the mutation"
        )
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parse = argparse.ArgumentParser(prog="windrow_conformance.mutations", description=__doc__)
    parse.add_argument("names", nargs="*", metavar="NAME", help="only mutations whose name contains this")
    parse.add_argument("--engine", action="append", help="only mutations that this engine has to notice")
    parse.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH")
    asked = parse.parse_args(arguments)
    pythons = dict(text.split("=", 1) for text in asked.python)
    missed = 0
    for mutation in MUTATIONS:
        if asked.engine and mutation.engine not in asked.engine:
            continue
        if asked.names and not any(name in mutation.name for name in asked.names):
            continue
        found = caught(mutation, pythons)
        missed += not found
        print(
            f"{'caught' if found else 'MISSED'}  {mutation.name}: {found or 'no answer differs'}", flush=True
        )
    print("every mutation was caught" if not missed else f"{missed} mutations were not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
