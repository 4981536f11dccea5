# SPDX-License-Identifier: Apache-2.0
"""`windrow conformance`: the conformance suite's own command, which is loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from windrow.cli.refusals import Refusal


@click.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def conformance(arguments: tuple[str, ...]) -> None:
    """Check that all engines give the same results."""
    try:
        command = import_module("windrow_conformance.command").main
    except ModuleNotFoundError as error:
        raise Refusal(
            f"the conformance suite is not installed here ({error}); install windrow with its sources"
        ) from error
    command.main(args=list(arguments), prog_name="windrow conformance")
