# SPDX-License-Identifier: Apache-2.0
"""What an engine answered, as an Arrow file. Engines run in environments of their own, so they exchange nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from windrow import errors
from windrow.columns.ipc import from_ipc, to_ipc
from windrow.errors import QueryError

SCHEMA = pa.schema(
    {
        "case": pa.string(),
        "engine": pa.string(),
        "way": pa.string(),
        "error": pa.string(),
        "message": pa.string(),
        "stepped": pa.bool_(),
        "windows": pa.list_(pa.binary()),
        "late": pa.binary(),
        "late_rows": pa.int64(),
        "seconds": pa.float64(),
    }
)


@dataclass(frozen=True)
class Answer:
    """What one way of one engine answered to a case.

    ``windows`` are in the order in which they came; one table per step if ``stepped``. ``late`` are the rows handed
    back, ``late_rows`` how many were counted: ``None`` if this way does not tell. ``error`` is the class of
    :mod:`windrow.errors` that was raised, "?" for any other, "" for none.
    """

    case: str
    engine: str
    way: str
    windows: tuple[pa.Table, ...] = ()
    stepped: bool = False
    late: pa.Table | None = None
    late_rows: int | None = None
    error: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def place(self) -> str:
        """Engine and way, as they are shown."""
        return f"{self.engine} {self.way}"


def error_name(error: BaseException) -> str:
    """The class of windrow's error behind an exception, even if an engine passed it between processes as text."""
    if isinstance(error, errors.WindrowError):
        return type(error).__name__
    text = str(error)
    places = {
        text.rfind(f"windrow.errors.{name}"): name
        for name in vars(errors)
        if f"windrow.errors.{name}" in text
    }
    return places[max(places)] if places else "?"


def shortened(text: str, most: int = 1600) -> str:
    """A long message of an engine, cut to its beginning and its end: the causes are there."""
    return text if len(text) <= most else f"{text[: most // 2]}\n…\n{text[-most // 2 :]}"


def write(path: Path, answers: Iterable[Answer]) -> None:
    """One file for the answers of one engine."""
    rows = [
        {
            "case": answer.case,
            "engine": answer.engine,
            "way": answer.way,
            "error": answer.error,
            "message": answer.message,
            "stepped": answer.stepped,
            "windows": [to_ipc(table) for table in answer.windows],
            "late": None if answer.late is None else to_ipc(answer.late),
            "late_rows": answer.late_rows,
            "seconds": answer.seconds,
        }
        for answer in answers
    ]
    with pa.ipc.new_file(str(path), SCHEMA) as sink:
        sink.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))


def read(path: Path) -> Iterator[Answer]:
    """The answers in a file."""
    try:
        with pa.OSFile(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        raise QueryError(f"{path} does not hold answers of an engine: {error}") from None
    if table.schema != SCHEMA:
        raise QueryError(f"{path} holds another table than answers of an engine: {table.schema.names}")
    for row in table.to_pylist():
        late = row.pop("late")
        windows = tuple(map(from_ipc, row.pop("windows")))
        yield Answer(**row, windows=windows, late=None if late is None else from_ipc(late))
