# SPDX-License-Identifier: Apache-2.0
"""``windrow conformance simulate``: many seeds, or one of them again."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter

import click

from windrow.cli.refusals import refusals

EVERY = 15
"""Seconds between two lines of progress."""


@click.command("simulate")
@click.option("--seeds", default=2000, show_default=True, type=click.IntRange(1), help="How many schedules.")
@click.option("--first", default=0, show_default=True, type=click.IntRange(0), help="The first seed.")
@click.option("--processes", default=1, show_default=True, type=click.IntRange(1))
@click.option("--seconds", type=float, help="Stop after this many seconds.")
@click.option(
    "--compiled", is_flag=True, help="Run the operator compiled. Compiling takes the first minutes."
)
@click.option("--replay", help="One schedule, as a failure prints it: SEED or SEED:EVENTS:ATOMS.")
@click.option("--report", type=click.Path(dir_okay=False, path_type=Path), help="Write the counts (.csv).")
@click.option("--resume", is_flag=True, help="Continue after the schedules that the report has counted.")
def simulate(
    seeds: int,
    first: int,
    processes: int,
    seconds: float | None,
    compiled: bool,
    replay: str | None,
    report: Path | None,
    resume: bool,
) -> None:
    """Process streams while stores fail and processes crash.

    Exits with 1 if the output differs from that of an uninterrupted run. Prints the command that reproduces it.
    """
    from windrow_conformance.simulation import campaign

    if replay is not None:
        with refusals():
            lived = campaign.replayed(replay, compiled=compiled)
        click.echo(f"state in {campaign.WHO[lived.kind]}; events: {', '.join(lived.events) or 'none'}")
        click.echo(lived.failure or "the output is that of an uninterrupted run")
        sys.exit(1 if lived.failure else 0)
    if resume and report is None:
        raise click.BadParameter("--resume needs --report: the file to continue from")
    before = campaign.CampaignReport.read(report) if resume and report and report.exists() else None

    def again(replay: object) -> str:
        return f"windrow conformance simulate --replay {replay}{' --compiled' if compiled else ''}"

    begin = first + (0 if before is None else before.schedules)
    told, shown = perf_counter(), 0

    def progress(so_far: campaign.CampaignReport) -> None:
        nonlocal told, shown
        for seed, failure in so_far.failures[shown:]:  # at once: the run may be interrupted
            click.echo(f"{failure.splitlines()[0]}\n  again: {again(seed)}", err=True)
        shown = len(so_far.failures)
        if perf_counter() - told > EVERY:
            told = perf_counter()
            click.echo(f"{so_far.schedules} schedules, {so_far.differences} differences", err=True)
            if report is not None:
                so_far.write(report)

    seen = campaign.simulate(
        range(begin, first + seeds),
        processes=processes,
        compiled=compiled,
        seconds=seconds,
        progress=progress,
        before=before,
    )
    if report is not None:
        seen.write(report)
    pace = 60 * seen.schedules / max(seen.seconds, 1e-9)
    click.echo(
        f"{seen.schedules} schedules, {seen.differences} differences, {sum(seen.events.values())} events, "
        f"{seen.restarts} restarts; {pace:.0f} schedules a minute"
    )
    if seen.failures:
        seed, failure = seen.failures[0]
        click.echo(failure)
        click.echo(f"again: {again(campaign.smallest(seed, compiled=compiled))}")
        sys.exit(1)
