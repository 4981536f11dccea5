# SPDX-License-Identifier: Apache-2.0
"""One input: made, used, and what came of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from windrow.cli.refusals import Refusal
from windrow.errors import WindrowError

SECONDS = 60.0
"""An input that takes more time of the processor hangs. Kernels that it compiles may take half of it."""


@dataclass(frozen=True)
class Target:
    """Something that reads data from outside."""

    name: str
    make: Callable[[Random], Any]
    """An input, from a random generator."""
    use: Callable[[Any], object]
    """Whatever reads it."""
    cost: int = 1
    """How many inputs of the cheapest target are tried for one of these: they take about the same time."""


def made(target: Target, number: int) -> Any:
    """Input ``number`` of a target."""
    return target.make(Random(f"windrow fuzz {target.name} {number}"))


def outcome(target: Target, number: int) -> str:
    """What came of an input: an answer, the name of an error of windrow, or ``FOREIGN`` and what it was."""
    given = made(target, number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.use(given)
    except Refusal:
        return "Refusal"
    except WindrowError as error:
        return type(error).__name__
    except Exception as error:  # anything else is what is looked for
        return f"FOREIGN {type(error).__name__}: {str(error)[:200]}"
    return "an answer"
