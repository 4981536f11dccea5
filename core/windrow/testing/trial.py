# SPDX-License-Identifier: Apache-2.0
"""One try of a law, and the search for the smallest case in which a law does not hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windrow.aggregates.algebra import Monoid, Partial
from windrow.errors import AggregateError, LawViolation
from windrow.testing.compare import same, shortened

__all__ = ["Law", "Sample", "Trial", "hypothesis", "smallest_failure"]

Sample = list[tuple[Any, ...]]
"""Sample, each a tuple of input values."""


@dataclass(frozen=True)
class Trial:
    """One try of a law: rows, and a way to draw more choices that Hypothesis can shrink."""

    monoid: Monoid
    dense: Monoid
    """The same monoid without its count of rows."""
    rows: Sample
    choose: Callable[[int, int], int]
    """A whole number between two, both included."""

    def cut(self, parts: int) -> list[Sample]:
        """The rows in this many consecutive runs, some of them empty."""
        cuts = sorted(self.choose(0, len(self.rows)) for _ in range(parts - 1))
        return [self.rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(self.rows)], strict=True)]

    def agree(self, one: Partial, other: Partial, told: str, *shown: Sample) -> None:
        """Fail if the results of two partials differ. ``told`` is the message, with both results as {0} and {1}."""
        left, right = self.result(one), self.result(other)
        tolerance, scale = self.monoid.tolerance, self.scale
        if same(left, right, tolerance, scale) or (tolerance > 0 and same(one, other, tolerance, scale)):
            return
        self.fail(told.format(shortened(left), shortened(right)), *shown)

    def fail(self, told: str, *shown: Sample) -> None:
        """The law does not hold, for these runs of rows (default: all rows)."""
        raise _Broken(told, shown or (self.rows,))

    def result(self, partial: Partial) -> Any:
        """The result of a partial, or the class ``OverflowError`` if it overflows."""
        try:
            return self.monoid.result(partial)
        except OverflowError:
            return OverflowError

    @property
    def scale(self) -> float:
        """The largest magnitude among the inputs."""
        numbers = (abs(v) for row in self.rows for v in row if isinstance(v, int | float))
        return float(max((v for v in numbers if math.isfinite(v)), default=0.0))


Law = Callable[[Trial], None]


class _Broken(Exception):
    """A law does not hold; carries the message and the runs of rows to show."""


def smallest_failure(
    laws: Mapping[str, Law], bound: Monoid, dense: Monoid, samples: Any, examples: int, *, shrink: bool
) -> Exception | None:
    """The error to raise for a case in which one of the laws does not hold; the smallest, if ``shrink``."""
    library = hypothesis()
    found: list[Exception] = []

    def attempt(rows: Sample, data: Any) -> None:
        def choose(low: int, high: int) -> int:
            return int(data.draw(library.strategies.integers(low, high)))

        for name, law in laws.items():
            try:
                with np.errstate(all="ignore"):
                    law(Trial(bound, dense, rows, choose))
            except _Broken as broken:
                told, shown = broken.args
                told = f"{told}. {'Smallest c' if shrink else 'C'}ounterexample: {_shown(shown)}"
                found[:] = [LawViolation(f"{bound.name} breaks the law of {name}: {told}")]
                raise
            except Exception as cause:
                raised = f"{bound.name} raised {type(cause).__name__} while its {name} was checked"
                found[:] = [AggregateError(f"{raised} on {_shown((rows,))}: {cause}")]
                raise

    phases = library.Phase
    settings = library.settings(
        max_examples=examples,
        phases=(phases.generate, phases.shrink) if shrink else (phases.generate,),
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        verbosity=library.Verbosity.quiet,
        suppress_health_check=list(library.HealthCheck),
    )
    try:
        settings(library.given(samples, library.strategies.data())(attempt))()
    except Exception as cause:
        if not found:
            raise
        found[0].__cause__ = None if isinstance(found[0], LawViolation) else cause
        found[0].__suppress_context__ = True
    return found[0] if found else None  # Hypothesis tries the smallest case last


def hypothesis() -> Any:
    """The library Hypothesis; an error that says how to get it, if it is not installed."""
    try:
        import hypothesis as library
    except ImportError as cause:
        raise AggregateError("checking laws needs Hypothesis: pip install hypothesis") from cause
    return library


def _shown(runs: Sequence[Sample]) -> str:
    names = ["rows"] if len(runs) == 1 else [chr(ord("a") + position) for position in range(len(runs))]
    lists = ([row[0] if len(row) == 1 else row for row in run] for run in runs)
    return ", ".join(f"{name} = {shortened(shown, 400)}" for name, shown in zip(names, lists, strict=True))
