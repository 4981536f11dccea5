# SPDX-License-Identifier: Apache-2.0
"""Data for examples and benchmarks: a small table that is part of windrow, and generators of streams of any size.

The generators are seeded. The same arguments give the same rows, however they are cut into batches. All data is
synthetic. Each module says which statistics of which data set it matches.

>>> import windrow as wr
>>> wr.data.smart_home(rows=1000, seed=7).read_all().num_rows
1000
>>> plugs().column_names, plugs().num_rows
(['ts', 'plug', 'load'], 540)
"""

from collections.abc import Callable
from importlib import resources

import pyarrow as pa
from pyarrow import csv

from windrow.data.linear_road import linear_road
from windrow.data.manufacturing import manufacturing
from windrow.data.quotes import quotes
from windrow.data.server_memory import server_memory
from windrow.data.smart_home import smart_home

__all__ = [
    "GENERATORS",
    "linear_road",
    "manufacturing",
    "plugs",
    "plugs_csv",
    "quotes",
    "server_memory",
    "smart_home",
]

GENERATORS: dict[str, Callable[..., pa.RecordBatchReader]] = {
    "smart-home": smart_home,
    "manufacturing": manufacturing,
    "linear-road": linear_road,
    "server-memory": server_memory,
    "quotes": quotes,
}
"""Every generator, by its name in `windrow generate`."""


def plugs() -> pa.Table:
    """Half an hour of three smart plugs: time, plug, and load in watts. One reading per plug every ten seconds."""
    return csv.read_csv(pa.BufferReader(plugs_csv()))


def plugs_csv() -> bytes:
    """The same data as a CSV file. `make_plugs` made the file."""
    return resources.files(__name__).joinpath("plugs.csv").read_bytes()
