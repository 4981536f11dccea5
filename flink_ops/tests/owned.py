"""What the tests send to the workers: an aggregate and a policy of a user, and a name for each result."""

import os
import time
from pathlib import Path
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


class Silent(MapFunction):  # type: ignore[misc]
    """Rows of nine plugs, 10 ms apart: plug 0 reports always, the others in turns, so each is silent for almost three seconds.

    A row waits for a while, if the windows of a second before it are not yet in the file ``windows``. It cannot wait for them
    forever: the same thread sends watermarks and checkpoints, between two rows. From the middle on rows come slowly, until there
    is a checkpoint; then it fails, once. The rows of the last part wait for the file ``end``.
    """

    ROWS, MIDDLE, LAST = 960, 480, 800

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.reached = 0
        self.known: set[Path] | None = None

    @staticmethod
    def row(number: int) -> tuple[str, int, float]:
        plug = 0 if number % 4 == 0 else 1 + number // 40 % 8
        return f"plug {plug}", number * 10_000, float(number * 37 % 101) / 8

    def map(self, number: int) -> Row:
        folder = Path(self.folder)
        deadline = time.monotonic() + (0.5 if number < self.LAST else 300)
        time.sleep(0.002)
        while not self._may_come(number, folder) and time.monotonic() < deadline:
            time.sleep(0.02)
        if number >= self.MIDDLE and not (folder / "failed").exists():
            time.sleep(0.1)
            found = set(folder.glob("checkpoints/*/chk-*/_metadata"))
            self.known = found if self.known is None else self.known
            if found - self.known:
                (folder / "failed").touch()
                raise RuntimeError("a failure that happens once")
        return Row(*self.row(number))

    def _may_come(self, number: int, folder: Path) -> bool:
        if number >= self.LAST:
            return (folder / "end").exists()
        if number * 10_000 > self.reached + 1_000_000 and (folder / "windows").exists():
            lines = (folder / "windows").read_text().splitlines()
            self.reached = max(int(line.split(", ")[2]) for line in lines) if lines else 0
        return number * 10_000 <= self.reached + 1_000_000
