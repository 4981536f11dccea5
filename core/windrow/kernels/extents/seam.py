# SPDX-License-Identifier: Apache-2.0
"""What the kernels of this package call, as placeholders. Specialised kernels have the functions of an aggregate."""

from typing import Any


def result(columns: Any, lo: Any, hi: Any) -> Any:
    """The user's function, of one window."""
    raise NotImplementedError


def put(out: Any, ok: Any, w: Any, value: Any) -> None:
    """Write a result, or its fields, unless it is null."""
    raise NotImplementedError


def initial() -> Any:
    """The state of a window without rows."""
    raise NotImplementedError


def insert(state: Any, columns: Any, row: Any) -> Any:
    """The state after a row has come."""
    raise NotImplementedError


def evict(state: Any, columns: Any, row: Any) -> Any:
    """The state after the oldest row has left."""
    raise NotImplementedError
