# SPDX-License-Identifier: Apache-2.0
"""``windrow conformance fuzz``: inputs that nobody would write."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import click

PART = 50_000
"""How many inputs a process tries before another one takes over."""


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


def fuzz(target: str, first: int, last: int, seconds: float = 1e9) -> Outcomes:
    """Try inputs of a target, in processes of their own."""
    found, deadline = Outcomes(target), monotonic() + seconds
    with tempfile.TemporaryDirectory(prefix="windrow-fuzz-") as folder:
        seen = Path(folder) / "seen"
        while first < last and monotonic() < deadline:
            end = min(last, first + PART)
            command = [sys.executable, "-m", "windrow_conformance.fuzzing", target]
            done = subprocess.run(
                [*command, str(first), str(end), str(seen), str(deadline - monotonic())],
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode == 0:
                told = json.loads(done.stdout.splitlines()[-1])
                found.counts.update(told["counts"])
                found.wrong.extend((number, what) for number, what in told["foreign"])
                if told["next"] < end:
                    break
                first = end
            elif not seen.exists():
                raise RuntimeError(done.stderr)
            else:
                number = int(seen.read_text())
                found.counts.update({"CRASH": 1, "inputs before a crash": number - first})
                found.wrong.append(
                    (number, f"ended the process with {done.returncode}: {done.stderr[-200:]}")
                )
                first = number + 1
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
@click.option("--seconds", default=1e9, help="Stop each target after so many seconds.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the counts (.csv).")
def fuzz_command(
    targets: tuple[str, ...], inputs: int, first: int, seconds: float, report: Path | None
) -> None:
    """Try inputs that nobody would write. Every outcome has to be an answer or an error of windrow.

    Exits with 1 if there was another one, and says which input it was.
    """
    from windrow_conformance.fuzzing.targets import TARGETS

    unknown = sorted(set(targets) - set(TARGETS))
    if unknown:
        raise click.BadParameter(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    lines, wrong = [], 0
    for name in targets or TARGETS:
        count = max(1, inputs // TARGETS[name].cost)
        found = fuzz(name, first, first + count, seconds)
        wrong += len(found.wrong)
        answers = found.counts["an answer"]
        lines.append(
            (name, found.inputs, answers, found.inputs - answers - len(found.wrong), len(found.wrong))
        )
        click.echo(f"{name}: {found.inputs} inputs, {answers} answers, {len(found.wrong)} wrong")
        for number, what in found.wrong[:5]:
            click.echo(
                f"  {what}\n  again: windrow conformance fuzz --target '{name}' --first {number} --inputs 1"
            )
    if report is not None:
        with report.open("w", encoding="utf-8", newline="") as out:
            heads = ("target", "inputs", "answers", "refused", "crashes_and_other_errors")
            csv.writer(out, lineterminator="\n").writerows([heads, *lines])
    sys.exit(1 if wrong else 0)
