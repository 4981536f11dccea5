# SPDX-License-Identifier: Apache-2.0
"""How a user's mistake is reported: one message on standard error, and exit code 2. A warning is one message too."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

__all__ = ["Refusal", "refusals"]


class Refusal(click.ClickException):
    """One friendly message on standard error, and exit code 2."""

    exit_code = 2


class _Warnings(logging.Handler):
    """Prints what a warning says, without the place in the code that Python puts around it."""

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"Warning: (.*?)(?:\n  .*)?$", record.getMessage().rstrip(), re.S)
        click.echo(f"Warning: {found[1] if found else record.getMessage()}", err=True)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn an error of windrow inside the block, and the lack of memory, into a `Refusal`; warnings into one line."""
    from windrow.errors import WindrowError

    shown = _Warnings()
    logging.captureWarnings(True)
    logging.getLogger("py.warnings").addHandler(shown)
    try:
        yield
    except WindrowError as error:
        raise Refusal(str(error)) from error
    except MemoryError as error:
        raise Refusal(
            f"there is not enough memory{f' ({error})' if str(error) else ''}; give the query a longer slide or a "
            f"shorter range, or --delay, so that windows are written as they become final"
        ) from error
    finally:
        logging.getLogger("py.warnings").removeHandler(shown)
        logging.captureWarnings(False)
