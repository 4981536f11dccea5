"""``python -m benchmarks.pipelines.on_flink``: latency of ``pipelined`` in a job of Flink, update by update.

This process is the device: it sends updates through a socket at a steady rate, each with the time of the clock in its channel.
The chain hands the channel on. When an update of the last stage leaves the operator, Flink takes the time again, in whole
milliseconds. So a latency is that of socket, network buffers, bundles and Python, at all stages. Before the first job of a
mode, another one runs that does not count, and the first updates of every job do not count either: the JVM compiles then.

While updates flow, changes come through another socket, a second or more apart: a new composite on top of the last stage, and the
end of the one before. A change has taken effect when the first update of the new composite leaves the operator. The next one
waits for that.

``updates_per_second`` is the rate that was reached. ``p99_ms_per_stage`` is ``p99_ms`` divided by the depth.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from socket import IPPROTO_TCP, TCP_NODELAY, create_server, socket
from statistics import median
from threading import Event, Thread

from pyflink.common import Row as FlinkRow
from pyflink.common import Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment
from pyflink.table import StreamTableEnvironment
from rich.console import Console

from benchmarks.algorithms.measure import Row, rounded, write
from benchmarks.pipelines.__main__ import RESULTS, shown
from benchmarks.pipelines.topologies import pipeline, streams_of
from windrow.pipelines import Change, Composite, changes_to_table
from windrow_flink import environment, pipelined

LONG, TEXT = Types.LONG(), Types.STRING()
UPDATE = Types.ROW_NAMED(["stream", "ts", "sequence", "values"], [TEXT, LONG, LONG, TEXT])
CHANGE = Types.ROW_NAMED(["operation", "actor", "document", "ts", "sequence"], [TEXT, TEXT, TEXT, LONG, LONG])
SETTINGS = {
    "execution.buffer-timeout.interval": "1 ms",
    "python.fn-execution.bundle.size": "1000",
    "python.fn-execution.bundle.time": "2",
}
"""For low latency. Bundles are of process mode only, and every Python step of a job waits for its own. Flink looks every
``bundle.time`` whether so much time has passed since the last bundle ended, so a step waits for up to twice as long. A bundle for
each update takes more time than two cores have: updates queue up."""
MODES = ("thread", "process")
NEW = "o/new"
"""What the names of new composites begin with."""


@dataclass(frozen=True)
class Load:
    """A chain, the updates of a second, those of the warm-up, and those that count."""

    depth: int
    rate: int
    warm_up: int
    count: int

    @property
    def last(self) -> str:
        return f"o/s{self.depth}"


LOADS = (Load(1, 200, 1000, 2000), Load(10, 200, 1000, 2000), Load(100, 50, 250, 1000))
QUICK = (Load(1, 200, 200, 600), Load(10, 200, 200, 600))
FIRST = Load(1, 200, 1500, 1)
"""The job that does not count."""


class Device(Thread):
    """Sends the graph and then updates, until it is told to stop; once it is warm, also a change every second."""

    def __init__(self, load: Load) -> None:
        super().__init__(daemon=True)
        self.load = load
        self.servers = [create_server(("127.0.0.1", 0)) for _ in (UPDATE, CHANGE)]
        self.warm, self.stopped = Event(), Event()
        self.puts: dict[str, float] = {}
        """When each new composite was put."""
        self.effects: dict[str, float] = {}
        """When the first update of each came out."""

    @property
    def pending(self) -> bool:
        """Whether a change has not taken effect yet."""
        return len(self.effects) < len(self.puts)

    def streams(self, flink: StreamExecutionEnvironment) -> list[DataStream]:
        """The updates and the changes, as a job receives them."""
        found = []
        for server, type_ in zip(self.servers, (UPDATE, CHANGE), strict=True):
            host, port = server.getsockname()
            lines = flink._j_stream_execution_environment.socketTextStream(host, port, "\n", 0)
            found.append(DataStream(lines).map(_row, output_type=type_))
        return found

    def run(self) -> None:
        connected = [server.accept()[0] for server in self.servers]
        with suppress(OSError), connected[0] as updates, connected[1] as changes:  # until the job has ended
            for each in connected:
                each.setsockopt(IPPROTO_TCP, TCP_NODELAY, 1)
            graph = streams_of(pipeline("length", self.load.depth + 1))
            _send(changes, [Change.put(stream.to_dict(), by="o") for stream in graph])
            self._flow(updates, changes)
        for server in self.servers:
            server.close()

    def _flow(self, updates: socket, changes: socket) -> None:
        due = put = time.time()
        number = 0
        while not self.stopped.is_set():
            time.sleep(max(0.0, due - time.time()))
            now = time.time()
            due = max(due + 1 / self.load.rate, now)  # after a pause, updates do not come all at once
            row = ["o/s0", number * 1000, number, json.dumps({"v": now})]
            updates.sendall(json.dumps(row).encode() + b"\n")
            number += 1
            if self.warm.is_set() and now > put + 1 and not self.pending:
                put = now
                self._put(changes)

    def _put(self, changes: socket) -> None:
        name, before = f"{NEW}{len(self.puts)}", list(self.puts)[-1:]
        new = Composite(name, inputs={"i": self.load.last}, channels={"v": "i.v"})
        self.puts[name] = time.time()
        _send(
            changes,
            [Change.put(new.to_dict(), by="o"), *(Change.drop(old, by="o") for old in before)],
        )


def _row(line: str) -> FlinkRow:
    return FlinkRow(*json.loads(line))


def _send(changes: socket, made: Iterable[Change]) -> None:
    rows = changes_to_table(made).to_pylist()
    changes.sendall("".join(json.dumps(list(row.values())) + "\n" for row in rows).encode())


def run(mode: str, load: Load) -> tuple[list[tuple[float, float]], list[float]]:
    """When updates were sent and when they came out, and seconds until changes took effect."""
    flink = environment(1, mode, settings=SETTINGS)
    tables = StreamTableEnvironment.create(flink)
    tables.get_config().set_local_timezone("UTC")
    device = Device(load)
    found = pipelined(*device.streams(flink), order="arrival", disorder=0)
    tables.create_temporary_view("found", tables.from_data_stream(found))
    emitted = tables.sql_query(
        "SELECT `stream`, `values`, CAST(CURRENT_ROW_TIMESTAMP() AS TIMESTAMP(3)) FROM found "
        f"WHERE `stream` = '{load.last}' OR `stream` LIKE '{NEW}%'"
    )
    device.start()
    updates: list[tuple[float, float]] = []
    with emitted.execute().collect() as rows:  # leaving it cancels the job
        for stream, values, at in rows:
            seen = at.replace(tzinfo=UTC).timestamp()
            if stream == load.last:
                updates.append((json.loads(values)["v"], seen))
            else:
                device.effects.setdefault(stream, seen)
            if len(updates) > load.warm_up:
                device.warm.set()
            enough = len(updates) >= load.warm_up + load.count
            if enough and device.effects and not device.pending:
                break
        else:
            raise SystemExit(f"{mode} mode, {load}: the job ended after {len(updates)} updates")
        device.stopped.set()
    device.join(10)
    return updates[load.warm_up :], [seen - device.puts[name] for name, seen in device.effects.items()]


def measured(mode: str, load: Load) -> tuple[Row, Row]:
    """A line for updates, and one for changes."""
    updates, changes = run(mode, load)
    sent = [each for each, _ in updates]
    latencies = sorted((seen - each) * 1e3 for each, seen in updates)
    p50, p99 = median(latencies), latencies[int(len(latencies) * 0.99)]
    shape = {"mode": mode, "shape": "chain", "depth": load.depth}
    return {
        **shape,
        "updates_per_second": rounded((len(sent) - 1) / (sent[-1] - sent[0])),
        "p50_ms": rounded(p50),
        "p99_ms": rounded(p99),
        "p99_ms_per_stage": rounded(p99 / load.depth),
    }, {
        **shape,
        "changes": len(changes),
        "median_ms": rounded(median(changes) * 1e3),
        "worst_ms": rounded(max(changes) * 1e3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--quick", action="store_true", help="less of everything; for a look, not for the docs"
    )
    quick = parser.parse_args().quick
    rows, changes = [], []
    for mode in MODES:
        run(mode, FIRST)
        for load in QUICK if quick else LOADS:
            row, change = measured(mode, load)
            rows.append(row)
            changes.append(change)
    console = Console(width=160)
    shown(console, "latency of updates; the target is less than 100 ms a stage (p99)", rows)
    shown(console, "until a change takes effect; the target is a second", changes)
    if not quick:
        write(rows, RESULTS / "flink.csv")
        write(changes, RESULTS / "flink-change.csv")


if __name__ == "__main__":
    main()
