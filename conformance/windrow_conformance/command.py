# SPDX-License-Identifier: Apache-2.0
"""``windrow conformance``: the suite, on the engines that you name.

windrow conformance --engine local --engine spark --engine flink --report report.html
windrow conformance --engine spark --query q.toml --rows rows.parquet
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import pyarrow as pa
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from windrow.cli.files import open_rows
from windrow.cli.queries import read_query
from windrow.cli.refusals import Refusal, refusals
from windrow.errors import QueryError
from windrow_conformance import generated, matrix, report, transcript
from windrow_conformance.case import Case
from windrow_conformance.cases import transcripts
from windrow_conformance.engines import NAMES, Subset, engine
from windrow_conformance.fuzzing.command import fuzz_command
from windrow_conformance.runner import Verdict, judge, run
from windrow_conformance.simulation.command import simulate

QUICK_GENERATED, FULL_GENERATED = 20, 100
EVERY = 15
"""Seconds between two lines of progress where there is no terminal to show a bar on."""
FAILURE = Path("windrow-failure.toml")
"""Where the smallest failing stream for a query of a user is written."""


@click.group(
    "conformance", invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.option(
    "--engine",
    "engines",
    multiple=True,
    type=click.Choice(NAMES),
    help="An engine; may be repeated. Default: local.",
)
@click.option(
    "--python", "pythons", multiple=True, metavar="ENGINE=PATH", help="The interpreter that has an engine."
)
@click.option("--way", "ways", multiple=True, help="Only this way of the engines; may be repeated.")
@click.option(
    "--query",
    "query_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own query (.toml or .json) instead of the suite's cases.",
)
@click.option(
    "--rows",
    "rows_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rows for --query. Without them, rows are generated.",
)
@click.option(
    "--case", "names", multiple=True, help="Only transcripts whose name contains this; may be repeated."
)
@click.option(
    "--file",
    "files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Transcripts of your own (.toml) instead of the suite's.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="MODULE",
    help="A module or package that --query or --file may import, for aggregates and policies of your own; may be repeated.",
)
@click.option("--seed", default=1, show_default=True, help="The seed of the generated cases.")
@click.option(
    "--cases",
    "count",
    type=click.IntRange(0),
    help=f"How many generated cases. Default: {FULL_GENERATED}; quick, or for --query, {QUICK_GENERATED}.",
)
@click.option("--quick", is_flag=True, help="A subset that takes about two minutes on three engines.")
@click.option("--replay", help="One generated case, as a failure prints it: SEED:NUMBER[:ATOMS].")
@click.option(
    "--report", "html_file", type=click.Path(dir_okay=False, path_type=Path), help="Write an HTML report."
)
@click.option(
    "--junit", "junit_file", type=click.Path(dir_okay=False, path_type=Path), help="Write JUnit XML."
)
@click.option(
    "--matrix",
    "matrix_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the support matrix (.json or .md).",
)
@click.pass_context
def main(context: click.Context, /, **options: Any) -> None:
    """Check that every engine gives the results that the definitions of the windows give.

    Runs the suite's transcripts and generated cases; exits with 1 if an answer is wrong or a mark is out of date.
    """
    if context.invoked_subcommand is not None:
        return
    console = Console(highlight=False, stderr=True)
    asked = Options(**options)
    with refusals():
        interpreters = dict(_pair(text) for text in asked.pythons)
        chosen = list(dict.fromkeys(asked.engines)) or ["local"]
        _known_ways(chosen, asked.ways)
        cases = _cases(asked)
        verdicts = _run(console, chosen, cases, asked.subset, interpreters, asked.ways)
        if asked.generates:
            verdicts = _shrunk(console, verdicts, interpreters)
    if asked.html_file:
        _write(asked.html_file, report.html(verdicts))
    if asked.junit_file:
        _write(asked.junit_file, report.junit(verdicts))
    if asked.matrix_file:
        _write(asked.matrix_file, _matrix_text(verdicts, asked.matrix_file))
    sys.exit(_told(verdicts))


main.add_command(simulate)
main.add_command(fuzz_command)


@dataclass(frozen=True)
class Options:
    """The options of the command."""

    engines: Sequence[str]
    pythons: Sequence[str]
    ways: Sequence[str]
    query_file: Path | None
    rows_file: Path | None
    names: Sequence[str]
    files: Sequence[Path]
    allow: tuple[str, ...]
    seed: int
    count: int | None
    quick: bool
    replay: str | None
    html_file: Path | None
    junit_file: Path | None
    matrix_file: Path | None

    @property
    def subset(self) -> Subset:
        """Which of the cases an engine takes: all, if the user chose the cases."""
        if self.query_file or self.names or self.files or self.replay:
            return "all"
        return "quick" if self.quick else "full"

    @property
    def generates(self) -> bool:
        """Whether there are generated cases, which can be made smaller."""
        return bool(self.replay or self.query_file or not (self.names or self.files))


def _cases(asked: Options) -> list[Case]:
    if asked.rows_file and not asked.query_file:
        raise QueryError("--rows needs --query: the query that reads them")
    count = asked.count
    if count is None:
        count = QUICK_GENERATED if asked.quick or asked.query_file else FULL_GENERATED
    if asked.replay:
        return [generated.replayed(asked.replay)]
    if asked.query_file:
        return _cases_for_query(asked.query_file, asked.rows_file, asked.seed, count, asked.allow)
    texts = [file.read_text(encoding="utf-8") for file in asked.files]
    own = [case for text in texts for case in transcript.read(text, asked.allow)]
    found = own if asked.files else list(transcripts())
    if asked.names:
        found = [case for case in found if any(name in case.name for name in asked.names)]
        if not found:
            raise QueryError(f"no transcript has {' or '.join(map(repr, asked.names))} in its name")
    if asked.names or asked.files:
        return found
    return found + [
        replace(generated.generate(asked.seed, number), quick=number < 6) for number in range(count)
    ]


def _cases_for_query(
    query_file: Path, rows_file: Path | None, seed: int, count: int, allow: tuple[str, ...]
) -> list[Case]:
    query = read_query(query_file, allow)
    rows = _rows(rows_file) if rows_file else None
    command = f"windrow conformance --query {query_file}" + (f" --rows {rows_file}" if rows_file else "")
    command += "".join(f" --allow {module}" for module in allow)
    return [
        replace(
            generated.for_query(query, rows, seed, number),
            replay=f"{command} --seed {seed} --cases {number + 1}",
        )
        for number in range(count)
    ]


def _rows(path: Path) -> pa.Table:
    opened = open_rows(str(path))
    return pa.Table.from_batches(list(opened), opened.schema)


def _run(
    console: Console,
    engines: list[str],
    cases: list[Case],
    subset: Subset,
    pythons: dict[str, str],
    ways: Sequence[str] = (),
) -> list[Verdict]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks = {name: bar.add_task(name, total=None) for name in engines}

        told = perf_counter()

        def progress(name: str, what: str, left: int) -> None:
            done = (bar.tasks[tasks[name]].completed or 0) + 1
            bar.update(tasks[name], completed=done, total=done + left, description=f"{name} {what[:60]}")
            nonlocal told
            if not console.is_terminal and perf_counter() - told > EVERY:
                told = perf_counter()
                console.print(f"{name}: {int(done)} answers, {left} to go ({what})", soft_wrap=True)

        return run(engines, cases, subset=subset, pythons=pythons, ways=ways, progress=progress)


def _shrunk(console: Console, verdicts: list[Verdict], pythons: dict[str, str]) -> list[Verdict]:
    """The first failure of a generated stream, with as few rows and steps as still fail, in place of the whole."""
    for place, verdict in enumerate(verdicts):
        told = verdict.case.replay.removeprefix("windrow conformance --replay ")
        if _made(verdict.case) and verdict.outcome == "failed" and told.count(":") < 2:
            console.print(f"making the failure of {verdict.case.name} on {verdict.place} smaller …")
            small = _smaller(verdict, told, pythons)
            again = run([verdict.engine], [small], pythons=pythons, ways=[verdict.way])
            return [*verdicts[:place], *again, *verdicts[place + 1 :]] if again else verdicts
    return verdicts


def _made(case: Case) -> bool:
    return case.name.startswith(("generated ", "query "))


def _smaller(verdict: Verdict, told: str, pythons: dict[str, str]) -> Case:
    case = verdict.case
    atoms = generated.atoms_of(case)

    def failing(choices: list[list[int]]) -> list[bool]:
        smaller = [
            generated.case_of(str(number), case.query, case.schema, atoms, kept)
            for number, kept in enumerate(choices)
        ]
        if verdict.engine == "local":  # no engine has to be started
            judged = judge(smaller, engine("local").run(verdict.way, smaller))
        else:
            judged = run([verdict.engine], smaller, pythons=pythons, ways=[verdict.way])
        failed = {each.case.name for each in judged if each.outcome == "failed"}
        return [str(number) in failed for number in range(len(choices))]

    kept = generated.shrink(atoms, failing, rounds=40 if verdict.engine == "local" else 6)
    if case.name.startswith("generated"):
        return generated.case_of(case.name, case.query, case.schema, atoms, kept, told)
    small = generated.case_of(case.name, case.query, case.schema, atoms, kept)
    _write(FAILURE, transcript.write([small]))
    return replace(small, replay=f"windrow conformance --file {FAILURE}")


def _told(verdicts: list[Verdict]) -> int:
    """Print what was found; the exit code."""
    console = Console(highlight=False)
    counts = Counter(verdict.outcome for verdict in verdicts)
    for verdict in verdicts:
        if verdict.red:
            console.print(f"[bold red]{escape(verdict.case.name)} on {escape(verdict.place)}[/]")
            console.print(escape(f"  {verdict.why}\n  again     {verdict.again}"), soft_wrap=True)
    text = ", ".join(
        f"{counts[outcome]} {meaning}" for outcome, meaning in report.MEANINGS.items() if counts[outcome]
    )
    cases = len({verdict.case.name for verdict in verdicts})
    console.print(f"{cases} cases, {len(verdicts)} answers: {text or 'none'}", soft_wrap=True)
    return 1 if any(verdict.red for verdict in verdicts) else 0


def _known_ways(engines: list[str], ways: Sequence[str]) -> None:
    known = [way for name in engines for way in engine(name).ways]
    for way in ways:
        if way not in known:
            raise QueryError(f"no way {way!r} on {', '.join(engines)}; there are {', '.join(known)}")


def _pair(text: str) -> tuple[str, str]:
    name, sign, path = text.partition("=")
    if name not in NAMES or not sign:
        raise QueryError(f"--python {text}: write ENGINE=PATH, such as spark=spark-env/bin/python")
    return name, path


def _matrix_text(verdicts: list[Verdict], path: Path | None) -> str:
    if path is not None and path.suffix == ".json":
        return matrix.to_json(verdicts)
    return matrix.to_markdown(matrix.matrix(verdicts))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path} cannot be written: {error}") from error


if __name__ == "__main__":
    main()
