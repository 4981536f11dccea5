"""Keys that are silent for long stretches, and queries of every kind over them, for the tests of ``idle=``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr

SECOND = 1_000_000


def rows(seed: int, count: int = 600, keys: int = 12, disorder: int = 0) -> pa.Table:
    """Rows of keys that are silent for long stretches, some out of order."""
    random = np.random.default_rng(seed)
    ts = np.sort(random.integers(0, 400, count)) * SECOND
    epoch = ts // (40 * SECOND)
    key = (random.integers(0, 3, count) + 3 * epoch) % keys  # a few keys at a time, the others silent
    if disorder:
        ts = np.maximum(ts - random.integers(0, disorder, count) * SECOND, 0)
    load = np.round(random.normal(20, 5, count), 1)
    exact = random.normal(size=count) * 10.0 ** random.integers(-8, 8, count)
    return pa.table(
        {
            "key": pa.array([f"k{each}" for each in key]),
            "ts": ts,
            "load": pa.array(np.where(random.random(count) < 0.1, np.nan, load), from_pandas=True),
            "exact": exact,
            "n": random.integers(-5, 5, count),
            "rise": ts,
        }
    )


def total(values: Any) -> float:
    return float(np.sum(values))


def joined(names: Any, numbers: Any) -> str:
    return " ".join(f"{name}{number}" for name, number in zip(names, numbers, strict=True))


AGGREGATES = {
    "n": wr.Count(),
    "sum": wr.Sum("exact"),
    "peak": wr.Max("load"),
    "mean": wr.Mean("exact"),
}
HOLISTIC = {"seen": wr.Collect("n"), "first": wr.First("exact"), "middle": wr.Median("load")}
CASES = {
    "time": dict(window=wr.TimeWindow("60s", "7s"), aggregates=AGGREGATES),
    "tumbling": dict(window=wr.TimeWindow("30s"), aggregates=AGGREGATES | HOLISTIC),
    "gaps": dict(window=wr.TimeWindow("12s", "20s"), aggregates=AGGREGATES),
    "two windows": dict(
        window={"short": wr.TimeWindow("20s", "5s"), "long": wr.TimeWindow("90s", "10s")},
        aggregates=AGGREGATES,
    ),
    "holistic": dict(window=wr.TimeWindow("60s", "10s"), aggregates=HOLISTIC),
    "lateness": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, lateness="15s", late="side"),
    "update": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, lateness="30s", late="update"),
    "update in order": dict(
        window=wr.TimeWindow("60s", "10s"),
        aggregates={"first": wr.First("exact"), "n": wr.Count()},
        lateness="30s",
        late="update",
    ),
    "sessions": dict(window=wr.SessionWindow("15s"), aggregates=AGGREGATES | HOLISTIC),
    "sessions, updated": dict(
        window=wr.SessionWindow("15s"), aggregates=AGGREGATES, lateness="10s", late="update"
    ),
    "count": dict(window=wr.CountWindow(7, 3), aggregates=AGGREGATES),
    "forgotten": dict(window=wr.CountWindow(7, 3), aggregates=AGGREGATES, forget_after="70s"),
    "slide by tuple": dict(window=wr.SlideByTuple("50s", 4), aggregates=AGGREGATES),
    "slide by time": dict(window=wr.SlideByTime(9, "8s"), aggregates=AGGREGATES),
    "delta": dict(window=wr.DeltaWindow("rise", 40 * SECOND, 7 * SECOND), aggregates=AGGREGATES),
    "early": dict(window=wr.TimeWindow("60s", "10s"), aggregates=AGGREGATES, early="20s"),
    "policy": dict(window=wr.PolicyWindow(valid=lambda found: found.n < 9), aggregates=AGGREGATES),
    "within": dict(
        window=wr.TimeWindow("60s", "7s"), aggregates={"n": wr.Count()}, within=wr.Within(relative=0.1)
    ),
    "PBA": dict(window=wr.TimeWindow("60s", "7s"), aggregates=AGGREGATES, algorithm="PBA"),
    "zone": dict(window=wr.TimeWindow("1d", zone="Europe/Stockholm"), aggregates=AGGREGATES),
    "zone, updated": dict(
        window=wr.TimeWindow("1d", zone="Europe/Stockholm"),
        aggregates=AGGREGATES,
        lateness="5h",
        late="update",
    ),
    "whole": dict(
        window=wr.TimeWindow("60s", "10s"),
        aggregates={"total": wr.Apply(total, "exact", returns=pa.float64()), "n": wr.Count()},
    ),
    "whole, of texts": dict(
        window={"short": wr.TimeWindow("20s", "5s"), "long": wr.TimeWindow("90s", "10s")},
        aggregates={
            "names": wr.Apply(joined, ["key", "n"], returns=pa.string()),
            "middle": wr.Median("load"),
        },
    ),
    "whole, counted": dict(
        window=wr.CountWindow(7, 3), aggregates={"total": wr.Apply(total, "exact", returns=pa.float64())}
    ),
}
HOT = {"early", "sessions, updated", "policy", "within"}


def query(name: str) -> wr.Query:
    return wr.Query(by="key", time="ts", **CASES[name])  # type: ignore[arg-type]


def rows_of(name: str, seed: int) -> pa.Table:
    """Rows for a query, some out of order; for days of a zone, in hours around the end of summer time."""
    data = rows(seed, disorder=8)
    if "zone" not in name:
        return data
    hours = pa.array(1_761_200_000 * SECOND + 3600 * data["ts"].to_numpy() // 4, pa.timestamp("us", "UTC"))
    return data.set_column(1, "ts", hours)


def run(operator: wr.Operator, data: pa.Table, batch: int, step: int = 20) -> Iterator[tuple[str, Any]]:
    """What comes out at every watermark, and the snapshot at some of them."""
    disorder = 5 * SECOND
    for number, begin in enumerate(range(0, data.num_rows, step)):
        found = []
        for at in range(begin, min(begin + step, data.num_rows), batch):
            found.append(operator.process(data.slice(at, min(batch, begin + step - at))))
        late = operator.late() if operator.query.late == "side" else None
        seen = data.slice(0, begin + step)["ts"].cast(pa.int64()).to_numpy().max()
        found.append(operator.advance(int(seen) - disorder))
        yield "windows", (canonical(pa.concat_tables(found)), late)
        if number % 9 == 4:
            yield "snapshot", operator.snapshot()
    yield "rest", canonical(operator.flush())


def canonical(table: pa.Table) -> list[Any]:
    """Rows, with floats as their bits."""
    columns = []
    for column in table.itercolumns():
        values = column.to_pylist()
        columns.append([each.hex() if isinstance(each, float) else each for each in values])
    return list(zip(*columns, strict=True))
