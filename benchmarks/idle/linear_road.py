"""Idle windows on Linear Road: throughput, latency and memory for several D (Gulisano 2024, figures 1 to 4).

Every run is a process of its own, and the runs of a round are interleaved, so that all see the same machine. Two
kinds of state: ``rows``, the way of the paper, where a window holds its rows and a function counts the stops of each
window; and ``stops``, where a slice holds the partial of ``wr.Stops``. The watermark moves once a second of event time.
Throughput is rows per second of processor time, which other programs on the machine disturb least; the operator has one thread.
RSS is that of the process above what it had before the first row, at the end of the stream.

The rate at which rows come does not change what is done with them. So the time that each batch takes is measured once, and
from it follows for every rate when a batch that came then would have been done: a queue with one server. ``done_at`` is the
throughput at a rate, ``late_at`` the 99th percentile of the time between the last row of a second and its windows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr
from windrow.operator.shrinking import give_back

SECOND = 1_000_000
COLUMNS = ["speed", "xway", "lane", "dir", "seg", "pos"]
DURATIONS = {
    "never": None,
    "20m": "20m",
    "10m": "10m",
    "60s": "60s",
    "15s": "15s",
    "0s": "0s",
    "auto": "auto",
}
THRASH = ("15s", "0s")
"""A vehicle reports every 30 seconds, so these freeze and thaw it each time. They are measured in the first round only."""
RATES = (50_000, 100_000, 200_000, 300_000, 400_000)
"""Rows per second."""
Run = dict[str, Any]


def stops(speed: Any, xway: Any, lane: Any, direction: Any, seg: Any, pos: Any) -> int:
    """How often a vehicle stopped, from all of its reports."""
    count = 0
    moving = True
    for n in range(len(speed)):
        if speed[n] == 0 and moving:
            count += 1
        moving = speed[n] != 0
    return count


def query(state: str) -> wr.Query:
    aggregate: Any = wr.Stops("speed")
    if state == "rows":
        aggregate = wr.Apply(stops, COLUMNS, returns=pa.int64())
    return wr.Query(by="vid", time="time", window=wr.TimeWindow("3h", "1m"), aggregates={"stops": aggregate})


def resident() -> int:
    """Bytes of this process that are in memory."""
    pa.default_memory_pool().release_unused()
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def seconds(rows: int, expressways: int) -> list[pa.Table]:
    """The reports of every second of event time."""
    table = wr.data.linear_road(rows, expressways=expressways).read_all().combine_chunks()
    time = table["time"].cast(pa.int64()).to_numpy() // SECOND
    cuts = np.flatnonzero(np.append(True, time[1:] != time[:-1])).tolist()
    return [table.slice(a, b - a) for a, b in zip(cuts, [*cuts[1:], len(time)], strict=True)]


def measure(state: str, idle: Any, rows: int) -> Run:
    """One run over the whole stream, without its end: what is in memory is in memory."""
    batches = seconds(rows, 1)
    asked = query(state)
    warm = wr.Operator(asked, batches[0].schema, idle=wr.Idle("5s", cohort=64))  # kernels are loaded
    for batch in batches[:200]:
        warm.process(batch)
        warm.advance(batch["time"][-1].value)
    del warm
    give_back()  # so that no run finds memory that making the rows has left behind
    before = resident()
    operator = wr.Operator(asked, batches[0].schema, idle=idle)
    windows, took = 0, []
    for batch in batches:
        began = process_time()
        operator.process(batch)
        windows += operator.advance(batch["time"][-1].value).num_rows
        took.append(process_time() - began)
    figures = operator.idle
    counts = np.array([batch.num_rows for batch in batches])
    return {
        "rows_per_cpu_second": round(int(counts.sum()) / sum(took)),
        "latency_ms": round(1000 * float(np.quantile(took, 0.99)), 2),
        "windows": windows,
        "rss_mb": round((resident() - before) / 1e6, 1),
        "state_mb": round((figures.hot_bytes + figures.cold_bytes) / 1e6, 1),
        "cold_mb": round(figures.cold_bytes / 1e6, 2),
        "cold_share": round(figures.cold_keys / max(figures.cold_keys + figures.hot_keys, 1), 3),
        "freezes": figures.freezes,
        "thaws": figures.thaws,
        "after_seconds": "" if figures.after is None else round(figures.after / SECOND),
        **at_rates(counts, np.array(took)),
    }


def at_rates(counts: Any, took: Any) -> Run:
    """Throughput and latency, if the rows of each second came at each rate, and one server worked on them."""
    found: Run = {}
    for rate in RATES:
        came, done, at = np.cumsum(counts) / rate, np.empty(len(counts)), 0.0
        for n, seconds_ in enumerate(took):
            at = max(at, came[n]) + seconds_
            done[n] = at
        found[f"done_at_{rate}"] = round(int(counts.sum()) / at)
        found[f"late_at_{rate}"] = round(1000 * float(np.quantile(done - came, 0.99)), 2)
    return found


def rounds(rows: int, first: int, count: int, durations: list[str]) -> Iterator[Run]:
    """So many rounds of the runs with these D, counted from ``first`` on."""
    for number in range(first, first + count):
        for state in ("rows", "stops"):
            for name in durations:
                if number == 0 or name not in THRASH:
                    yield {
                        "state": state,
                        "after": name,
                        "rows": rows,
                        "round": number,
                        **_run(state, name, rows),
                    }


def _run(state: str, name: str, rows: int) -> Run:
    command = [sys.executable, "-m", "benchmarks.idle.linear_road", state, name, str(rows)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    result: Run = json.loads(found.stdout.splitlines()[-1])
    return result


def summary(runs: list[Run]) -> Iterator[Run]:
    """The median of each figure, and ratios to D = never of the same round with their spread."""
    for state, name in dict.fromkeys((run["state"], run["after"]) for run in runs):
        found = [run for run in runs if (run["state"], run["after"]) == (state, name)]
        base = {run["round"]: run for run in runs if (run["state"], run["after"]) == (state, "never")}
        line = {"state": state, "after": name, "rows": found[0]["rows"], "runs": len(found)}
        for figure in list(found[0])[4:]:
            line[figure] = median(run[figure] for run in found) if found[0][figure] != "" else ""
        for figure, short in (
            ("rows_per_cpu_second", "throughput"),
            ("rss_mb", "rss"),
            ("state_mb", "state"),
        ):
            ratios = [run[figure] / base[run["round"]][figure] for run in found]
            line[f"{short}_ratio"] = round(median(ratios), 3)
            line[f"{short}_spread"] = f"{min(ratios):.2f}–{max(ratios):.2f}"
        yield line


def main() -> None:
    state, name, rows = sys.argv[1:]
    print(json.dumps(measure(state, DURATIONS.get(name, name), int(rows))))


if __name__ == "__main__":
    main()
