"""Data to try things on: what comes with windrow, and generators of streams as large as you like.

The generators are seeded; the same arguments give the same rows, however they are cut into batches. All of it
is synthetic: each file says what it matches.

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
"""Every generator by the name that `windrow generate` knows it by."""


def plugs() -> pa.Table:
    """Half an hour of three smart plugs: time, plug and load in watts, one reading per plug every ten seconds."""
    return csv.read_csv(pa.BufferReader(plugs_csv()))


def plugs_csv() -> bytes:
    """The same, as the CSV file that is stored; made by `make_plugs`."""
    return resources.files(__name__).joinpath("plugs.csv").read_bytes()
