# SPDX-License-Identifier: Apache-2.0
"""What the demo computes: peak, mean and 95th percentile of each plug's load, and each house's total, over the
last hour, every second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, parquet

from windrow import data
from windrow.aggregates import Count, Max, Mean, Sum
from windrow.data.smart_home import LOAD
from windrow.demo.p95 import P95
from windrow.query.query import Query
from windrow.windows import TimeWindow

__all__ = [
    "LOADS",
    "QUERIES",
    "SEED",
    "Beat",
    "Peer",
    "Ran",
    "Readings",
    "loads",
    "make_readings",
    "read_windows",
]

OWN: Any = P95  # type checkers do not follow decorators of classes
HOUR = TimeWindow(range="1h", slide="1s")
PLUG = ["house", "household", "plug"]
QUERIES = {
    "plugs": Query(
        by=PLUG,
        time="ts",
        window=HOUR,
        aggregates={"peak": Max("load"), "mean": Mean("load"), "p95": OWN("load"), "n": Count()},
    ),
    "houses": Query(
        by="house",
        time="ts",
        window=HOUR,
        aggregates={"total": Sum("load"), "mean": Mean("load"), "peak": Max("load"), "n": Count()},
    ),
}
"""The demo's two queries, by the name of the folder that their windows go to."""

COLUMNS = {
    "timestamp": "ts",
    "house_id": "house",
    "household_id": "household",
    "plug_id": "plug",
    "value": "load",
}
"""The columns of a reading that the queries need, and their names in the queries."""

LOADS = pa.schema([data.smart_home(0).schema.field(old).with_name(new) for old, new in COLUMNS.items()])
SEED = 2014
PLUGS, HOUSES, MINUTES, FILES = 60, 6, 90, 6


@dataclass(frozen=True)
class Readings:
    """Smart-plug readings in Parquet files, in order of time; half of the rows are loads, half are meters."""

    files: tuple[Path, ...]
    rows: int
    loads: int

    @property
    def folder(self) -> Path:
        return self.files[0].parent


@dataclass(frozen=True)
class Beat:
    """What an engine reports while it works: it has started (no query), or one piece of one query is done."""

    query: str
    rows: int
    windows: int
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Peer:
    """How long the engine alone took for some of the rows, written as well as its SQL allows, and windrow for the same rows."""

    what: str
    rows: int
    windows: int
    seconds: float
    ours: float


@dataclass(frozen=True)
class Ran:
    """The result of a run. ``starting`` is the engine's start-up; ``seconds`` is the time from the first row to the last window, and
    ``first`` that to the first windows, if the engine tells.
    """

    engine: str
    starting: float
    seconds: float
    peer: Peer | None = None
    beats: tuple[Beat, ...] = field(default=())
    first: float | None = None


Tell = Callable[[Beat], None]


def make_readings(
    folder: Path,
    *,
    plugs: int = PLUGS,
    houses: int = HOUSES,
    minutes: int = MINUTES,
    files: int = FILES,
    seed: int = SEED,
) -> Readings:
    """Generate the readings of an evening and write them to a folder, a file for each stretch of time."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = round(2 * plugs * minutes * 60 * 0.98)
    whole = data.smart_home(rows=rows, seed=seed, plugs=plugs, houses=houses, skip="17h").read_all()
    cut = -(-rows // files)
    paths = tuple(folder / f"readings-{number:02}.parquet" for number in range(files))
    for number, path in enumerate(paths):
        parquet.write_table(whole.slice(number * cut, cut), path)
    return Readings(paths, rows, loads(whole).num_rows)


def loads(readings: pa.Table | pa.RecordBatch) -> pa.Table:
    """The loads among the readings, with the columns that the queries know."""
    rows = readings.filter(pc.equal(readings["property"], LOAD)).select(list(COLUMNS))
    return rows.rename_columns(list(COLUMNS.values()))


def each_load(readings: Readings) -> Iterator[pa.Table]:
    """The loads, file by file."""
    for path in readings.files:
        yield loads(parquet.read_table(path, partitioning=None))


def read_windows(folder: Path) -> pa.Table:
    """All windows that are in Parquet files under a folder, however an engine has divided them."""
    return dataset.dataset(folder, format="parquet", partitioning=None).to_table()
