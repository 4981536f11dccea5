# SPDX-License-Identifier: Apache-2.0
"""Start each engine in an interpreter that has it, gather the answers, and judge them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from windrow.errors import QueryError, WindrowError
from windrow_conformance import answers, transcript
from windrow_conformance.answers import Answer
from windrow_conformance.case import Case
from windrow_conformance.compare import Difference, difference, disagreement
from windrow_conformance.engines import Engine, Subset, engine
from windrow_conformance.marks import Mark
from windrow_conformance.run_engine import DONE

Outcome = Literal["passed", "failed", "marked", "mark passes"]
Progress = Callable[[str, str, int], None]
"""Called with the engine, what it has just done, and how many answers are still to come."""


@dataclass(frozen=True)
class Verdict:
    """One case on one way of an engine."""

    case: Case
    engine: str
    way: str
    outcome: Outcome
    difference: Difference | None = None
    mark: Mark | None = None
    answer: Answer | None = None

    @property
    def place(self) -> str:
        return f"{self.engine} {self.way}"

    @property
    def red(self) -> bool:
        return self.outcome in ("failed", "mark passes")

    @property
    def again(self) -> str:
        """The command that runs it again."""
        return f"{self.case.replay} --engine {self.engine} --way '{self.way}'" if self.case.replay else ""

    @property
    def why(self) -> str:
        """What a person reads about it."""
        if self.outcome == "mark passes":
            return f"passes, though it is marked as a gap ({self.mark}); take the mark away"
        return str(self.mark if self.outcome == "marked" else self.difference or "")


def run(
    names: Sequence[str],
    cases: Sequence[Case],
    *,
    subset: Subset = "all",
    pythons: Mapping[str, str] | None = None,
    ways: Sequence[str] = (),
    progress: Progress | None = None,
) -> list[Verdict]:
    """Run cases on engines, two engines at a time, and judge all answers."""
    found: list[Answer] = []
    expected: set[tuple[str, str, str]] = set()
    interpreters = {name: interpreter(engine(name), pythons or {}) for name in names}
    with tempfile.TemporaryDirectory(prefix="windrow-conformance-") as folder, ThreadPoolExecutor(2) as pool:
        file = Path(folder) / "cases.toml"
        file.write_text(transcript.write(cases), encoding="utf-8")
        running = []
        for name in sorted(names, key=lambda name: name == "local"):  # what takes longest comes first
            chosen = engine(name)
            asked = [way for way in chosen.ways if not ways or way in ways]
            plan = {
                (name, way, case.name) for way in asked for case in cases if chosen.takes(case, way, subset)
            }
            expected |= plan
            if plan:
                out = Path(folder) / f"{name}.arrow"
                running.append(
                    pool.submit(_run, name, interpreters[name], file, out, asked, subset, len(plan), progress)
                )
        for each in running:
            found += each.result()
    return judge(cases, found, expected)


def judge(
    cases: Sequence[Case], found: Iterable[Answer], expected: Iterable[tuple[str, str, str]] = ()
) -> list[Verdict]:
    """All answers against what their cases expect, and against each other."""
    by_name = {case.name: case for case in cases}
    given = {(answer.engine, answer.way, answer.case): answer for answer in found}
    verdicts = []
    first: dict[str, Answer] = {}
    for key in sorted({*given, *expected}, key=_order):
        name, way, case_name = key
        case, answer = by_name[case_name], given.get(key)
        mark = engine(name).mark(case, way)
        wrong = Difference("no answer came") if answer is None else difference(case, answer)
        if answer is not None and wrong is None:
            other = first.setdefault(case_name, answer)
            apart = disagreement(case, other, answer)
            if apart is not None:
                wrong = Difference(f"differs from {other.place}: {apart.what}", apart.expected, apart.got)
        outcome: Outcome = (
            ("marked" if wrong else "mark passes") if mark else ("failed" if wrong else "passed")
        )
        verdicts.append(Verdict(case, name, way, outcome, wrong, mark, answer))
    return verdicts


def interpreter(chosen: Engine, pythons: Mapping[str, str]) -> str:
    """The interpreter that has an engine: the one that was named, this one, or that of an environment variable."""
    named = pythons.get(chosen.name)
    if named is None and importlib.util.find_spec(chosen.needs) is not None:
        return sys.executable
    variable = f"WINDROW_{chosen.name.upper()}_PYTHON"
    named = named or os.environ.get(variable)
    if not named:
        raise QueryError(
            f"engine {chosen.name!r} needs the package {chosen.needs!r}, which is not installed. Spark and Flink cannot share "
            f"an environment, so create one in a clone (python3 -m venv {chosen.name}-env; {chosen.name}-env/bin/pip install "
            f"'.[{chosen.name}]') and name its interpreter: --python {chosen.name}={chosen.name}-env/bin/python, "
            f"or {variable}"
        )
    if not Path(named).is_file():
        raise QueryError(f"there is no interpreter {named!r} for engine {chosen.name!r}")
    return named


def _run(
    name: str,
    python: str,
    cases: Path,
    out: Path,
    ways: Sequence[str],
    subset: Subset,
    count: int,
    progress: Progress | None,
) -> list[Answer]:
    command = [python, "-m", "windrow_conformance.run_engine", name, "--cases", str(cases), "--out", str(out)]
    command += [part for way in ways for part in ("--way", way)] + ["--subset", subset]
    path = [*_packages(), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    if name != "local":
        # An adapter carries rows and watermarks; that compiled code gives the same answer, the local engine shows.
        environment.setdefault("NUMBA_DISABLE_JIT", "1")
    with out.with_suffix(".log").open("w+", encoding="utf-8") as log:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as started:
            assert started.stdout is not None
            for line in started.stdout:
                if line.startswith(DONE):
                    count -= 1
                    if progress:
                        progress(name, line.removeprefix(DONE).strip(), count)
        if started.returncode or not out.exists():
            log.seek(0)
            raise EngineFailed(name, log.read())
    return list(answers.read(out))


class EngineFailed(WindrowError):
    """An engine ended without answers."""

    def __init__(self, name: str, log: str) -> None:
        super().__init__(f"engine {name!r} ended without answers; its last words:\n{log[-3000:]}")


def _packages() -> list[str]:
    """Where this interpreter has windrow's own packages, so that another one runs the same code."""
    found = []
    for package in ("windrow", "windrow_conformance", "windrow_spark", "windrow_flink"):
        spec = importlib.util.find_spec(package)
        folder = str(Path(spec.origin).parents[1]) if spec and spec.origin else ""
        if folder and "site-packages" not in folder:
            found.append(folder)
    return list(dict.fromkeys(found))


def _order(key: tuple[str, str, str]) -> tuple[str, int, str]:
    name, way, case = key
    chosen = engine(name)
    return case, {"local": 0}.get(name, 1) * 100 + chosen.ways.index(way), name
