# SPDX-License-Identifier: Apache-2.0
"""The functions of whole windows that transcripts name."""

from __future__ import annotations

from typing import Any


def discounted(x: Any) -> Any:
    """Older rows count for less, so order matters."""
    result = 0.0
    for i in range(len(x)):
        result = 0.5 * result + x[i]
    return result


def ends(ts: Any, x: Any) -> Any:
    """When the first row came, how many rows there are, and the last value."""
    return ts[0], len(x), x[-1]


def in_python(x: Any) -> float | None:
    """Cannot be compiled; null for fewer than two rows."""
    return None if len(x) < 2 else float(sorted(x.tolist())[1])


def entered(state: Any, x: Any) -> Any:
    return state[0] + x, state[1] + 1


def left(state: Any, x: Any) -> Any:
    return state[0] - x, state[1] - 1


def mean(state: Any) -> Any:
    return state[0] / state[1]


def line(x: Any, p: Any) -> Any:
    """A model to fit."""
    return p[0] + p[1] * x
