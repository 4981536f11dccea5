"""The in-process engine: Arrow in, Arrow out."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from windrow.operator import Operator, as_table
from windrow.query import Query


def aggregate(data: Any, query: Query) -> pa.Table:
    """All windows of the data."""
    table = as_table(data)
    operator = Operator(query, table.schema, threads=os.cpu_count() or 1)
    operator.process(table)
    return operator.flush()
