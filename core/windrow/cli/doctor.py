"""`windrow doctor`."""

from __future__ import annotations

import sys

import click


@click.command()
@click.option("--quick", is_flag=True, help="Do not start the engines.")
def doctor(quick: bool) -> None:
    """Check this machine, and say what to do.

    Starts the engines that are installed. Exits with 1 if windrow cannot work here.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    from windrow.doctor import examine

    console = Console(highlight=False)
    signs = {
        "ok": "[green]ok[/]",
        "missing": "[yellow]–[/]",
        "warning": "[yellow]warning[/]",
        "bad": "[red]bad[/]",
    }
    with console.status("looking; starting an engine takes a while"):
        findings = examine(start=not quick)
    table = Table("", "what", Column("found", overflow="fold"), "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(signs[finding.state], finding.what, escape(finding.found), escape(finding.advice))
    console.print(table)
    if any(finding.state == "bad" for finding in findings):
        console.print("\nwindrow cannot work here until the lines marked [red]bad[/] are put right.")
        sys.exit(1)
    console.print("\nwindrow works on this machine; what is marked [yellow]–[/] is optional.")
