# SPDX-License-Identifier: Apache-2.0
"""The engines of the suite: each knows its ways to compute a case, and what it cannot do."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol, cast

from windrow.errors import QueryError
from windrow_conformance.answers import Answer
from windrow_conformance.case import Case
from windrow_conformance.marks import Mark

Subset = Literal["quick", "full", "all"]
"""For every change; for every release; everything, for cases that a user names."""


class Engine(Protocol):
    """One engine. Importing its module needs nothing but windrow; only :meth:`run` starts the engine."""

    name: str
    needs: str
    """The package that has to be importable where it runs."""
    ways: tuple[str, ...]

    def mark(self, case: Case, way: str) -> Mark | None:
        """Why a case cannot pass here; ``None`` if it has to."""

    def takes(self, case: Case, way: str, subset: Subset) -> bool:
        """Whether the case is in the subset that this way runs."""

    def run(self, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
        """The answers to cases, the engine started once."""


NAMES = ("local", "spark", "flink")


def engine(name: str) -> Engine:
    """The engine of this name."""
    if name not in NAMES:
        raise QueryError(f"no engine {name!r}; there are {', '.join(NAMES)}")
    module = importlib.import_module(f"windrow_conformance.engines.{name}")
    return cast(Engine, module.ENGINE)
