"""An own aggregate with annotations, which mypy and pyright check as strictly as they can."""

from __future__ import annotations

import windrow as wr


@wr.aggregate_type(partial={"total": "f8", "n": "i8"}, identity=(0.0, 0), output="double")
class Average(wr.OwnAggregate):
    """The mean, as a user would write it."""

    @staticmethod
    def lift(x: float) -> tuple[float, int]:
        return x, 1

    @staticmethod
    def combine(a: tuple[float, int], b: tuple[float, int]) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]

    @staticmethod
    def lower(p: tuple[float, int]) -> float:
        return p[0] / p[1]


QUERY = wr.Query(window=wr.TimeWindow(20), aggregates={"mean": Average("x", where="x > 1")})
HALF: float = Average.lower(Average.combine(Average.lift(0.0), Average.lift(1.0)))
"""The type checker knows the functions of a decorated class."""
