# SPDX-License-Identifier: Apache-2.0
"""`windrow completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

HOW = {
    "bash": '# put this in ~/.bashrc:  eval "$(windrow completion bash)"',
    "zsh": '# put this in ~/.zshrc:  eval "$(windrow completion zsh)"',
    "fish": "# run once:  windrow completion fish > ~/.config/fish/completions/windrow.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    """Print the completion script of a SHELL."""
    from windrow.cli import main

    found = get_completion_class(shell)
    assert found is not None
    click.echo(HOW[shell])
    click.echo(found(main, {}, "windrow", "_WINDROW_COMPLETE").source())
