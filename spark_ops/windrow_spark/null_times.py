# SPDX-License-Identifier: Apache-2.0
"""Rows without a time are refused, with the Spark call that leaves them out.

>>> print(no_time("ts", "2 null(s)"))
time column 'ts' has 2 null(s); every row needs a time: leave such rows out with df.where("ts IS NOT NULL"), or give them one
"""

from __future__ import annotations

import pyarrow as pa

from windrow.errors import TimeColumnError


def refuse_null_times(rows: pa.Table, name: str) -> None:
    """Called with the rows of a task before the operator has them."""
    if nulls := rows.column(name).null_count:
        raise TimeColumnError(no_time(name, f"{nulls} null(s)"))


def no_time(name: str, nulls: str = "null(s)") -> str:
    """What is wrong with the time column of this name, and what to do."""
    quoted = name if name.isidentifier() else f"`{name}`"
    return (
        f"time column {name!r} has {nulls}; every row needs a time: "
        f'leave such rows out with df.where("{quoted} IS NOT NULL"), or give them one'
    )
