# SPDX-License-Identifier: Apache-2.0
"""``windrow conformance fuzz``: random and damaged inputs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import click

PART = 300_000
"""How many inputs a process tries before another one takes over."""
TURN = 600_000
"""How many inputs of the cheapest target are tried before the next target has its turn; others get fewer."""


@dataclass
class Outcomes:
    """What came of the inputs of a target."""

    target: str
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[int, str]] = field(default_factory=list)
    """Inputs with another outcome than an answer or an error of windrow."""

    @property
    def inputs(self) -> int:
        return self.counts.total()

    def add(self, other: Outcomes) -> None:
        """What came of further inputs too."""
        self.counts += other.counts
        self.wrong += other.wrong

    def line(self) -> tuple[str, int, int, int, int]:
        """The counts: inputs, answers, refused, and others."""
        answers = self.counts["an answer"]
        wrong = sum(self.counts[what] for what in (WRONG, "FOREIGN", "CRASH"))
        return self.target, self.inputs, answers, self.inputs - answers - wrong, wrong


WRONG = "wrong, of an earlier run"
HEADS = ("target", "inputs", "answers", "refused", "crashes_and_other_errors")


def written(found: Iterable[Outcomes], path: Path) -> None:
    """The counts as a file, all of it or nothing."""
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, lineterminator="\n").writerows([HEADS, *(each.line() for each in found)])
    new.replace(path)


def read(path: Path) -> dict[str, Outcomes]:
    """What a file says that :func:`written` has written."""
    with path.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    found = {}
    for name, _, answers, refused, wrong in rows:
        counts = {"an answer": int(answers), "refused": int(refused), WRONG: int(wrong)}
        found[name] = Outcomes(name, Counter(counts))
    return found


def fuzz(target: str, first: int, last: int, seconds: float = 1e9) -> Outcomes:
    """Try inputs of a target, in processes of their own."""
    found, deadline = Outcomes(target), monotonic() + seconds
    parts = [range(begin, min(last, begin + PART)) for begin in range(first, last, PART)][::-1]
    with tempfile.TemporaryDirectory(prefix="windrow-fuzz-") as folder:
        while parts and monotonic() < deadline:
            part, seen = parts.pop(), Path(folder) / f"seen {len(found.wrong)} {len(parts)}"
            command = [sys.executable, "-m", "windrow_conformance.fuzzing", target]
            done = subprocess.run(
                [*command, str(part.start), str(part.stop), str(seen), str(deadline - monotonic())],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode == 0:
                told = json.loads(done.stdout.splitlines()[-1])
                found.counts.update(told["counts"])
                found.wrong.extend((number, what) for number, what in told["foreign"])
                if told["next"] < part.stop:
                    break
            elif not seen.exists():
                raise RuntimeError(done.stderr)
            else:
                number = int(seen.read_text())
                found.counts["CRASH"] += 1
                found.wrong.append(
                    (number, f"ended the process with {done.returncode}: {done.stderr[-200:]}")
                )
                # What came of the inputs before it was lost with the process.
                again = [range(number + 1, part.stop), range(part.start, number)]
                parts += [each for each in again if each]
    return found


@click.command("fuzz")
@click.option("--target", "targets", multiple=True, help="Only this target; may be repeated.")
@click.option(
    "--inputs",
    default=2000,
    show_default=True,
    type=click.IntRange(1),
    help="For the cheapest target; others get fewer.",
)
@click.option(
    "--first", default=0, show_default=True, type=click.IntRange(0), help="The number of the first input."
)
@click.option("--seconds", default=1e9, help="Stop after this many seconds.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the counts (.csv).")
@click.option("--resume", is_flag=True, help="Continue after the inputs that the report has counted.")
def fuzz_command(
    targets: tuple[str, ...], inputs: int, first: int, seconds: float, report: Path | None, resume: bool
) -> None:
    """Feed malformed input to every parser. Every outcome has to be a result or an error of windrow.

    All targets take turns. Exits with 1 if there was another outcome, and prints the number of the input.
    """
    from windrow_conformance.fuzzing.targets import TARGETS

    unknown = sorted(set(targets) - set(TARGETS))
    if unknown:
        raise click.BadParameter(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if resume and report is None:
        raise click.BadParameter("--resume needs --report: the file to continue from")
    before = read(report) if resume and report and report.exists() else {}
    found = {name: before.get(name) or Outcomes(name) for name in targets or TARGETS}
    goals = {name: max(1, inputs // TARGETS[name].cost) for name in found}
    deadline = monotonic() + seconds
    while monotonic() < deadline and (left := [n for n in found if found[n].inputs < goals[n]]):
        for name in left:
            done, turn = found[name].inputs, max(1, TURN // TARGETS[name].cost)
            last = first + min(goals[name], done + turn)
            came = fuzz(name, first + done, last, deadline - monotonic())
            _tell(came)
            found[name].add(came)
            if report is not None:
                written(found.values(), report)
    for came in found.values():
        name, count, answers, _, wrong = came.line()
        click.echo(f"{name}: {count} inputs, {answers} answers, {wrong} wrong")
    sys.exit(1 if any(came.line()[-1] for came in found.values()) else 0)


def _tell(came: Outcomes) -> None:
    """Say at once what was wrong: a campaign may take hours."""
    for number, what in came.wrong[:5]:
        click.echo(
            f"{what}\n  again: windrow conformance fuzz --target '{came.target}' --first {number} --inputs 1"
        )
