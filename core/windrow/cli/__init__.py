# SPDX-License-Identifier: Apache-2.0
"""The `windrow` command, one file per subcommand.

    windrow demo                                               the main job: a real pipeline, with its results
    windrow run query.toml --input rows.parquet --output -     a query of your own over files or a stream
    windrow explain query.toml                                 how a query is computed, and why
    windrow warm query.toml --input rows.parquet               compile it before the first row comes
    windrow generate smart-home --rows 1000000 --output x.parquet
    windrow state check plugs/                                  is what a store holds whole
    windrow pipeline put streams.toml --store city/ --by ann    streams on top of each other's streams
    windrow doctor                                             is this machine ready, and what to do if not

An error that a user can cause is printed as one message, and the command exits with code 2. The module of a
subcommand is imported when the subcommand is used.

>>> from click.testing import CliRunner
>>> CliRunner().invoke(main, ["version"]).output.split()[0]
'windrow'
"""

from __future__ import annotations

from importlib import import_module

import click

__all__ = ["main"]

COMMANDS = {
    "demo": "windrow.cli.demo:demo",
    "run": "windrow.cli.run:run",
    "explain": "windrow.cli.explain:explain",
    "warm": "windrow.cli.warm:warm",
    "generate": "windrow.cli.generate:generate",
    "bench": "windrow.cli.bench:bench",
    "state": "windrow.cli.state:state",
    "pipeline": "windrow.cli.pipeline:pipeline",
    "conformance": "windrow.cli.conformance:conformance",
    "doctor": "windrow.cli.doctor:doctor",
    "completion": "windrow.cli.completion:completion",
    "version": "windrow.cli.version:version",
}


class Lazy(click.Group):
    """A group that knows its commands by name and imports them one by one."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found


def _print_version(context: click.Context, _: click.Parameter, asked: bool) -> None:
    """What ``--version`` prints: the name and the version. ``windrow version`` also has those of the libraries."""
    if asked and not context.resilient_parsing:
        click.echo(f"windrow {import_module('windrow').__version__}")
        context.exit()


@click.group(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Compute sliding windows: in this process, on PySpark and on PyFlink."""
