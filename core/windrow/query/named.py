# SPDX-License-Identifier: Apache-2.0
"""The windows and aggregates of a query by their names, in the order in which they were given.

>>> columns = Named([("peak", "Max"), ("n", "Count")])
>>> columns["n"], list(columns), columns == Named(columns.items())
('Count', ['peak', 'n'], True)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

__all__ = ["Named"]

T = TypeVar("T")


class Named(Mapping[str, T], Generic[T]):
    """A mapping that does not change and whose order counts; it can be compared, hashed and pickled."""

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        self._items = tuple(items)

    def __getitem__(self, name: str) -> T:
        for known, value in self._items:
            if known == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and self._items == other._items

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return "{" + ", ".join(f"{name!r}: {value!r}" for name, value in self._items) + "}"
