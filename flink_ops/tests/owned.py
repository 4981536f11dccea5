"""What the tests send to the workers: an aggregate and a policy of a user, and a name for each result."""

from typing import Any

import windrow as wr


@wr.aggregate_type(partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")), commutative=True)
class Spread:
    """The distance from the smallest to the largest value, compiled."""

    def lift(x: float) -> tuple[float, float]:  # type: ignore[misc]
        return x, x

    def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:  # type: ignore[misc]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p: tuple[float, float]) -> float:  # type: ignore[misc]
        return p[1] - p[0]


def at_most_five(result: Any) -> bool:
    return bool(result.n <= 5)


class Named:
    """A result under the name of its stream."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any) -> tuple[str, Any]:
        return self.name, list(value) if not isinstance(value, bytes) else value
