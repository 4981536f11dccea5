"""What the tests send to the workers: an aggregate and a policy of a user, and a name for each result."""

import os
import time
from typing import Any

from pyflink.common import Row
from pyflink.common.watermark_strategy import TimestampAssigner
from pyflink.datastream import MapFunction

import windrow as wr


@wr.aggregate_type(
    partial={"low": "f8", "high": "f8"}, identity=(float("inf"), float("-inf")), commutative=True
)
class Spread:
    """The distance from the smallest to the largest value, compiled."""

    def lift(x: float) -> tuple[float, float]:  # type: ignore[misc]
        return x, x

    def combine(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:  # type: ignore[misc]
        return min(a[0], b[0]), max(a[1], b[1])

    def lower(p: tuple[float, float]) -> float:  # type: ignore[misc]
        return p[1] - p[0]


def discounted(x: Any) -> Any:
    """Older rows count for less, so order matters."""
    result = 0.0
    for i in range(len(x)):
        result = 0.5 * result + x[i]
    return result


def at_most_five(result: Any) -> bool:
    return bool(result.n <= 5)


class Named:
    """A result under the name of its stream."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, value: Any) -> tuple[str, Any]:
        return self.name, list(value) if not isinstance(value, bytes) else value


class Milliseconds(TimestampAssigner):  # type: ignore[misc]
    """The time of a row, for a user's own watermarks."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[2]) // 1000


def plug(row: Any) -> str:
    return str(row[0])


class LateRow(MapFunction):  # type: ignore[misc]
    """Rows a millisecond apart; from the fiftieth on rows of the third millisecond. Before that some pauses: watermarks
    are sent by the same thread, between two rows, if it is time."""

    def map(self, number: int) -> Row:
        if 40 <= number <= 50:
            time.sleep(0.1)
        return Row(number * 1000 if number < 50 else 3000, number)


class Blob(MapFunction):  # type: ignore[misc]
    """Ready-made elements by their number."""

    def __init__(self, blobs: list[bytes]) -> None:
        self.blobs = blobs

    def map(self, number: int) -> bytes:
        return self.blobs[number]


class LateBlob(Blob):
    """Each of them after a pause: watermarks are sent by the same thread, between two elements, if it is time."""

    def map(self, number: int) -> bytes:
        time.sleep(0.3)
        return super().map(number)


class Gated(MapFunction):  # type: ignore[misc]
    """Rows of one key, a millisecond apart from a number on, the first of them late. None comes before there is a file."""

    def __init__(self, file: str, number: int = 0, late: int = 0) -> None:
        self.file, self.number, self.late = file, number, late

    def map(self, place: int) -> Row:
        deadline = time.monotonic() + 600
        while not os.path.exists(self.file) and time.monotonic() < deadline:
            time.sleep(0.1)
        number = self.number + place
        return Row("a", 5000 if place < self.late else number * 1000, float(number % 97))


class Resting(MapFunction):  # type: ignore[misc]
    """Rows a millisecond apart, with a rest before the third."""

    def map(self, number: int) -> Row:
        if number == 2:
            time.sleep(8)
        return Row("a", number * 1000, float(number))


class Second(TimestampAssigner):  # type: ignore[misc]
    """The time of a row whose second field it is."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[1]) // 1000


class First(TimestampAssigner):  # type: ignore[misc]
    """The time of a row whose first field it is."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        return int(value[0]) // 1000


class OneKey(MapFunction):  # type: ignore[misc]
    """Rows of one key, a millisecond apart."""

    def map(self, number: int) -> Row:
        return Row("a", number * 1000, float(number * 31 % 97))
