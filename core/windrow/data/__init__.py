"""The data that comes with windrow: half an hour of three smart plugs, made by `make_plugs`.

>>> plugs().column_names, plugs().num_rows
(['ts', 'plug', 'load'], 540)
"""

from importlib import resources

import pyarrow as pa
from pyarrow import csv

__all__ = ["plugs", "plugs_csv"]


def plugs() -> pa.Table:
    """The readings: time, plug and load in watts; one per plug every ten seconds."""
    return csv.read_csv(pa.BufferReader(plugs_csv()))


def plugs_csv() -> bytes:
    """The same, as the CSV file that is stored."""
    return resources.files(__name__).joinpath("plugs.csv").read_bytes()
