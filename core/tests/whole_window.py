"""A kernel that calls one function of whole columns, for tests of functions that are given to it."""

from __future__ import annotations

from typing import Any

from windrow.kernels.partials import lift as function


def run(x: Any, y: Any) -> Any:
    return function(x, y)
