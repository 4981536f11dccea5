"""``python -m benchmarks.pipelines``: latency and rates of streams on top of streams, in this process, state in RocksDB.

Beside seconds on the clock, CPU seconds are measured, which other programs on the machine disturb less. Prints tables
and writes CSV and plots into ``benchmarks/results/pipelines``. streamz and Bytewax take part if they are installed:
``pip install streamz bytewax``. The engines have programs of their own: ``python -m benchmarks.pipelines.on_spark`` and
``python -m benchmarks.pipelines.on_flink``.
"""

from __future__ import annotations

import argparse
import gc
import statistics
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import themed
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded, write
from benchmarks.pipelines import peers, topologies
from benchmarks.pipelines.topologies import Streams, devices, inputs_of, pipeline, streams_of
from windrow.pipelines import Change, Source, Space
from windrow.pipelines.engine import Settings, change_rows, feed, update_rows

RESULTS = Path(__file__).parents[1] / "results" / "pipelines"
PRINTED = {"thesis: a basic stage, at most": (2, 100.0), "thesis: out-degree 100": (101, 350.0)}
"""Streams, and milliseconds that the thesis prints, on two servers of 8 cores."""


def latencies(streams: Streams, rounds: int) -> Row:
    """Milliseconds from an update to the commit of everything that depends on it; updates come one after the other."""
    clock: list[float] = []
    cpu: list[float] = []
    emitted = 0
    with TemporaryDirectory() as folder, Space("bench", f"rocksdb:{folder}/state") as space:
        space.put(*streams, by="o")
        names = [stream.name for stream in streams if isinstance(stream, Source)]
        gc.collect()  # a full pass of the collector takes longer than any update; without this, one falls into every 1,100
        for turn in range(rounds):
            for place, name in enumerate(names):
                row = {"stream": name, "ts": turn * len(names) + place, "v": float(turn)}
                start, used = perf_counter(), process_time()
                emitted += len(space.push(row))
                clock.append((perf_counter() - start) * 1e3)
                cpu.append((process_time() - used) * 1e3)
    clock.sort()
    cpu.sort()
    last = int(len(clock) * 0.99)
    return {
        "streams": len(streams),
        "updates": len(clock),
        "emitted_per_update": rounded(emitted / len(clock)),
        "p50_ms": rounded(statistics.median(clock)),
        "p99_ms": rounded(clock[last]),
        "p50_cpu_ms": rounded(statistics.median(cpu)),
        "p99_cpu_ms": rounded(cpu[last]),
    }


def table_3_1(rounds: int) -> list[Row]:
    rows = []
    for topology in topologies.TABLE:
        inputs = inputs_of(topology)
        out = [sum(n in each for each in inputs) for n in range(len(inputs))]
        rows.append(
            {
                "topology": topology.id,
                "edges": sum(map(len, inputs)),
                "max_in": max(map(len, inputs)),
                "max_out": max(out),
                **latencies(streams_of(inputs), rounds),
            }
        )
    return rows


def properties(sizes: list[int], rounds: int) -> list[Row]:
    return [
        {
            "property": kind,
            **latencies(
                streams_of(pipeline(kind, size)), max(1, rounds // (size if kind == "in-degree" else 1))
            ),
        }
        for kind in ("length", "in-degree", "out-degree")
        for size in sizes
    ]


def many(count: int, composites: int) -> list[Row]:
    """Ten thousand composites: how long they take to put, and what an update costs then."""
    streams = streams_of(devices(count, composites))
    with TemporaryDirectory() as folder, Space("bench", f"rocksdb:{folder}/state") as space:
        began, cpu = perf_counter(), process_time()
        for stream in streams:
            space.put(stream, by="o")
        put, put_cpu = perf_counter() - began, process_time() - cpu
        rounds = []
        for turn in range(2):
            began, cpu, emitted = perf_counter(), process_time(), 0
            for n in range(count):
                emitted += len(space.push({"stream": f"o/s{n}", "ts": turn * count + n, "v": 1.0}))
            rounds.append(((perf_counter() - began) / count, (process_time() - cpu) / count))
    return [
        {
            "composites": composites,
            "devices": count,
            "put_seconds": rounded(put),
            "put_cpu_seconds": rounded(put_cpu),
            "first_update_cpu_ms": rounded(rounds[0][1] * 1e3),
            "update_ms": rounded(rounds[1][0] * 1e3),
            "update_cpu_ms": rounded(rounds[1][1] * 1e3),
            "emitted_per_update": rounded(emitted / count),
        }
    ]


def rates(count: int) -> list[Row]:
    """Updates per second through a chain of three, state in RocksDB."""
    rows = []
    for how, batch, total in (
        ("columns", 10_000, count),
        ("rows", 1000, count // 10),
        ("rows", 1, count // 50),
    ):
        with TemporaryDirectory() as folder, Space("bench", f"rocksdb:{folder}/state") as space:
            space.put(*streams_of(pipeline("length", 4)), by="o")
            table = pa.table({"ts": pa.array(range(total)), "v": [float(n) for n in range(total)]})
            given = [{"stream": "o/s0", **row} for row in table.to_pylist()] if how == "rows" else []
            gc.collect()
            began, cpu = perf_counter(), process_time()
            for begin in range(0, total, batch):
                if how == "columns":
                    space.push(table.slice(begin, batch), stream="o/s0")
                else:
                    space.push(given[begin : begin + batch])
            seconds, cpu = perf_counter() - began, process_time() - cpu
        rows.append(
            {
                "how": how,
                "updates_per_commit": batch,
                "updates_per_second": rounded(total / seconds),
                "updates_per_cpu_second": rounded(total / cpu),
            }
        )
    return rows


def task_rates(count: int) -> list[Row]:
    """Updates per second through a chain of three, as one task of an engine runs it: text in, event order, text out, a commit."""
    rows = []
    for batch in (10_000, 1000, 100):
        runtime = Settings().open(None)
        feed(
            runtime,
            change_rows([Change.put(s.to_dict(), by="o") for s in streams_of(pipeline("length", 4))]),
            None,
        )
        total = count if batch > 100 else count // 10
        given = [
            update_rows([("o/s0", n, 0, f'{{"v": {n}.0}}') for n in range(b, b + batch)])
            for b in range(0, total, batch)
        ]
        began, cpu, emitted = perf_counter(), process_time(), 0
        for place, updates in enumerate(given):
            found = [feed(runtime, updates, None), feed(runtime, None, (place + 1) * batch)]
            runtime.commit()
            emitted += sum(each.num_rows for each in found)
        seconds, cpu = perf_counter() - began, process_time() - cpu
        assert emitted == 4 * total, emitted
        rows.append(
            {
                "updates_per_commit": batch,
                "updates_per_second": rounded(total / seconds),
                "updates_per_cpu_second": rounded(total / cpu),
                "emitted_per_cpu_second": rounded(emitted / cpu),
            }
        )
    return rows


def beside_peers(rounds: int) -> list[Row]:
    rows = []
    for graph, contenders in (("chain of three", peers.chain()), ("diamond", peers.diamond())):
        seconds = in_turns(contenders, rounds)
        ours = seconds["windrow, columns"]
        rows += [
            {
                "graph": graph,
                "contender": name,
                "updates_per_second": rounded(peers.ROWS / statistics.median(taken)),
                "windrow_columns_times_as_fast": rounded(ratio(ours, taken)),
            }
            for name, taken in seconds.items()
        ]
    return rows


def draw(rows: list[Row], path: Path) -> None:
    """Latency over the number of streams, for each property: CPU time of ours, beside what the thesis prints."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4))
    for kind in dict.fromkeys(row["property"] for row in rows):
        found = [row for row in rows if row["property"] == kind]
        axes.plot(
            [row["streams"] for row in found],
            [row["p50_cpu_ms"] for row in found],
            marker="o",
            markersize=3,
            label=kind,
        )
    for label, (streams, milliseconds) in PRINTED.items():
        axes.plot([streams], [milliseconds], linestyle="", marker="x" if streams == 2 else "+", label=label)
    axes.set_yscale("log")
    axes.set_xlabel("streams in the pipeline")
    axes.set_ylabel("milliseconds for an update and its commit")
    axes.legend()
    figure.tight_layout()
    themed.save(figure, path)
    figure.savefig(path.with_suffix(".png"), dpi=110)
    pyplot.close(figure)


def shown(console: Console, title: str, rows: list[Row]) -> None:
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(str, row.values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="fewer pipelines and updates; for a look, not for the docs"
    )
    parser.add_argument("--only", action="append", help="only this table; may be repeated")
    asked = parser.parse_args()
    quick = asked.quick
    sizes = [2, 11, 51, 101] if quick else list(range(2, 102))
    console = Console(width=160)
    tables: dict[str, Callable[[], list[Row]]] = {
        "topologies": lambda: table_3_1(10),
        "properties": lambda: properties(sizes, 20 if quick else 60),
        "many": lambda: many(2000, 1000 if quick else 10_000),
        "rates": lambda: rates(20_000 if quick else 200_000),
        "task": lambda: task_rates(20_000 if quick else 100_000),
        "peers": lambda: beside_peers(2 if quick else 5),
    }
    results = {name: measure() for name, measure in tables.items() if name in (asked.only or tables)}
    for name, rows in results.items():
        shown(console, name, rows if name != "properties" else rows[:: max(1, len(rows) // 30)])
        if not quick and name == "properties":
            write(rows, RESULTS / "all" / "properties.csv")
            rows = [row for row in rows if row["streams"] in (2, 11, 26, 51, 76, 101)]
        if not quick:
            write(rows, RESULTS / f"{name}.csv")
    if not quick and "properties" in results:
        draw(results["properties"], RESULTS / "properties.svg")


if __name__ == "__main__":
    main()
