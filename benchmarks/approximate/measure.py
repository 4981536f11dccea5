"""One approximate window over a stream: how many leaves, how large the errors, how long it takes."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.errors import BoundWarning

BATCH = 1 << 18
AGGREGATES = {"mean": wr.Mean("x"), "sum": wr.Sum("x"), "max": wr.Max("x")}
SCHEMA = pa.schema({"ts": pa.int64(), "x": pa.int64()})
SHARES = np.append(0.0, 10.0 ** np.arange(-9, 0.01, 0.25))
"""At which relative errors the cumulative distribution is kept."""


def measured(
    values: Any, window: int, aggregate: str, within: Any, true: Any, batch: int = BATCH
) -> dict[str, Any]:
    """Leaves, errors and time of one promise. ``true`` are the exact results, ``batch`` are the rows of a call when windows are full."""
    query = wr.Query(window=wr.CountWindow(window, 1), aggregates={"r": AGGREGATES[aggregate]}, within=within)
    operator, at, begin, since, seconds, leaves = wr.Operator(query, SCHEMA), 0, 0, 0, [], []
    untrue = exact = 0
    worst = bound = 0.0
    counts = np.zeros(len(SHARES), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundWarning)
        while begin < len(values):
            some = np.asarray(values[begin : begin + (BATCH if begin + BATCH <= window else batch)])
            rows = pa.table({"ts": np.arange(begin, begin + len(some)), "x": some}, schema=SCHEMA)
            clock = time.process_time()
            operator.process(rows)
            found = operator.advance(begin + len(some))
            seconds.append((time.process_time() - clock) / len(some))
            leaves.append(operator.leaves)
            since += begin < window
            begin += len(some)
            right = true[at : at + found.num_rows]
            at += found.num_rows
            away = np.abs(found.column("r").to_numpy().astype(np.float64) - right)
            error = found.column("r_error").to_numpy()
            untrue += int((away > error * (1 + 1e-9) + 1e-9).sum())
            share = np.sort(away / np.abs(np.where(right == 0, 1, right)))
            exact += int(np.searchsorted(share, 1e-15))
            counts += np.searchsorted(share, np.maximum(SHARES, 1e-15), side="right")
            worst = max(worst, float(share[-1]) if len(share) else 0.0)
            bound = max(bound, float((error / np.abs(np.where(right == 0, 1, right))).max(initial=0.0)))
    full, slid = leaves[since:] or leaves[-1:], seconds[since:] or seconds[-1:]
    return {
        "windows": at,
        "leaves_most": max(full),
        "leaves_mean": round(float(np.mean(full))),
        "leaves_share_percent": 100.0 * float(np.mean(full)) / window,
        "over_the_error_column": untrue,
        "over_the_promise": operator.exceeded,
        "largest_error_percent": 100.0 * worst,
        "largest_bound_percent": 100.0 * bound,
        "exact_percent": 100.0 * exact / max(at, 1),
        "ns_per_row": round(1e9 * float(np.median(slid))),
        "distribution": (counts / max(at, 1)).tolist(),
    }
