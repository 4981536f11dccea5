# SPDX-License-Identifier: Apache-2.0
"""The check that users call in their own tests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.columns.arrow import as_table
from windrow.errors import QueryError, WindrowError
from windrow.testing import oracle
from windrow_conformance.compare import agree
from windrow_conformance.ways import WAYS


class Disagreement(WindrowError, AssertionError):
    """A way of computing a query gave another answer than its definition."""


def check(query: wr.Query, rows: Any, *, ways: Iterable[str] = (), seed: int = 0) -> None:
    """Compute a query in every way, and compare each answer with the definition of its windows.

    ``rows`` is anything that ``wr.aggregate`` takes. ``ways`` are names from ``WAYS`` (default: all);
    ``seed`` decides where streams are cut. The first answer that differs is reported with the rows, what was expected and what came.

    >>> query = wr.Query(window=wr.TimeWindow("10us", "5us"), aggregates={"peak": wr.Max("load")})
    >>> check(query, {"ts": [1, 7, 3], "load": [3.0, 5.0, 1.0]})
    >>> check(query, {"ts": [1, 7, 3], "load": [3.0, 5.0, 1.0]}, ways=["by hand"])
    Traceback (most recent call last):
    windrow.errors.QueryError: no way 'by hand'; there are compiled, interpreted, streamed, stored, ...
    """
    table = as_table(rows)
    bound = query.bind(table.schema)
    expected = oracle.evaluate(table, query)
    for name in ways or WAYS:
        if name not in WAYS:
            raise QueryError(f"no way {name!r}; there are {', '.join(WAYS)}")
        got = WAYS[name](query, table, np.random.default_rng(seed))
        if got is not None:
            _compare(query, table, expected, bound.sort(got), name, seed)


def _compare(query: wr.Query, rows: pa.Table, expected: pa.Table, got: pa.Table, way: str, seed: int) -> None:
    bound, theirs, ours = query.bind(rows.schema), expected.to_pylist(), got.to_pylist()
    for name in expected.column_names:
        pairs = enumerate(zip(theirs, ours, strict=False))
        differs = (i for i, (a, b) in pairs if not agree(a, b, name, bound))
        at = next(differs, None if len(theirs) == len(ours) else min(len(theirs), len(ours)))
        if at is not None:
            raise Disagreement(
                f"{way!r} differs from the definition in column {name!r}, at window {at} of {len(theirs)}\n"
                f"  query     {query.described}\n"
                f"  rows      {rows.slice(0, 20).to_pylist()}{' …' if rows.num_rows > 20 else ''}\n"
                f"  expected  {expected.slice(at, 2).to_pylist()}\n"
                f"  got       {got.slice(at, 2).to_pylist()}\n"
                f"  again     check(query, rows, ways=[{way!r}], seed={seed})"
            )
