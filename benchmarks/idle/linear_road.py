"""Idle windows on Linear Road: throughput, latency and memory for several D (Gulisano 2024, figures 1 to 4).

    python -m benchmarks.idle.linear_road --rows 2000000

Every run is a process of its own, and the runs of a repetition are interleaved, so that all see the same machine. Two
kinds of state: ``rows``, the way of the paper, where a window holds its rows and a function counts the stops of each
window; and ``stops``, where a slice holds the partial of ``wr.Stops``. The watermark moves once a second of event time.
Throughput is rows per second of processor time, which other programs on the machine disturb least; the operator has one thread.
RSS is that of the process above what it had before the first row, at the end of the stream.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa

import windrow as wr

RESULTS = Path(__file__).parents[1] / "results" / "idle"
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


def measure(state: str, idle: Any, rows: int, expressways: int) -> dict[str, Any]:
    """One run over the whole stream, without its end: what is in memory is in memory."""
    batches = seconds(rows, expressways)
    asked = query(state)
    wr.Operator(asked, batches[0].schema, idle="0s").process(batches[0])  # kernels are loaded
    warm = wr.Operator(asked, batches[0].schema, idle=wr.Idle("0s", cohort=1))
    for batch in batches[:3]:
        warm.process(batch)
        warm.advance(batch["time"][-1].value + 200 * 60 * SECOND)
    del warm
    before = resident()
    operator = wr.Operator(asked, batches[0].schema, idle=idle)
    windows, latencies, began = 0, [], process_time()
    for batch in batches:
        operator.process(batch)
        at = perf_counter()
        windows += operator.advance(batch["time"][-1].value).num_rows
        latencies.append(perf_counter() - at)
    took = process_time() - began
    figures = operator.idle
    return {
        "rows_per_cpu_second": round(sum(batch.num_rows for batch in batches) / took),
        "latency_ms": round(1000 * float(np.quantile(latencies, 0.99)), 2),
        "windows": windows,
        "rss_mb": round((resident() - before) / 1e6, 1),
        "state_mb": round((figures.hot_bytes + figures.cold_bytes) / 1e6, 1),
        "cold_mb": round(figures.cold_bytes / 1e6, 2),
        "cold_share": round(figures.cold_keys / max(figures.cold_keys + figures.hot_keys, 1), 3),
        "freezes": figures.freezes,
        "thaws": figures.thaws,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--expressways", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--durations", nargs="+", default=list(DURATIONS))
    parser.add_argument("--states", nargs="+", default=["rows", "stops"])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        state, name = options.one
        idle = DURATIONS.get(name, name)
        print(json.dumps(measure(state, idle, options.rows, options.expressways)))
        return
    runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(options.repeat):
        for state in options.states:
            for name in options.durations:
                runs.setdefault((state, name), []).append(_run(state, name, options))
                print(state, name, runs[state, name][-1], flush=True)
    write(runs, options)


def _run(state: str, name: str, options: argparse.Namespace) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.idle.linear_road", "--one", state, name]
    command += ["--rows", str(options.rows), "--expressways", str(options.expressways)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return result


def write(runs: dict[tuple[str, str], list[dict[str, Any]]], options: argparse.Namespace) -> None:
    """The median of each figure, the spread of the throughput, and both as ratios to D = never."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    lines = []
    for (state, name), found in runs.items():
        base = runs.get((state, "never"), found)
        ratios = [
            a["rows_per_cpu_second"] / b["rows_per_cpu_second"] for a, b in zip(found, base, strict=False)
        ]
        line = {"state": state, "after": name, "rows": options.rows, "runs": len(found)}
        line |= {figure: median(run[figure] for run in found) for figure in found[0]}
        line["throughput_ratio"] = round(median(ratios), 3)
        line["throughput_spread"] = f"{min(ratios):.2f}–{max(ratios):.2f}"
        for size in ("rss", "state"):
            less, all_ = (median(run[f"{size}_mb"] for run in each) for each in (found, base))
            line[f"{size}_ratio"] = round(less / all_, 3)
        lines.append(line)
    with (RESULTS / "linear_road.csv").open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(lines[0]))
        writer.writeheader()
        writer.writerows(lines)


if __name__ == "__main__":
    main()
