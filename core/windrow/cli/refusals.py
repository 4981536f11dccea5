"""How a mistake is told: one message on standard error, and exit code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["Refusal", "refusals"]


class Refusal(click.ClickException):
    """One friendly message on standard error, and exit code 2."""

    exit_code = 2


@contextmanager
def refusals() -> Iterator[None]:
    """Turns an error of windrow inside the block into a `Refusal`."""
    from windrow.errors import WindrowError

    try:
        yield
    except WindrowError as error:
        raise Refusal(str(error)) from error
