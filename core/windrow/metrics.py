# SPDX-License-Identifier: Apache-2.0
"""Figures of running jobs, for Prometheus and OpenTelemetry.

A :class:`Meter` adds up what operators do: rows, windows, late rows, the watermark and how far it is behind the clock,
bytes of state, commits and how long they took. It gives them in Prometheus's text format, serves them over HTTP, or
hands them to an OpenTelemetry meter. It needs no library; for OpenTelemetry, its own.

>>> import pyarrow as pa
>>> import windrow as wr
>>> meter = Meter("plugs")
>>> query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()})
>>> operator = meter.watch(wr.Operator(query))
>>> _ = operator.process(pa.table({"ts": [1, 12]})), operator.advance(12)
>>> print(*(line for line in meter.text().splitlines() if line.startswith("windrow_rows")))
windrow_rows_total{job="plugs"} 2
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import perf_counter, time
from typing import Any, NamedTuple

import pyarrow as pa

from windrow.errors import QueryError
from windrow.kernels.compiling import compile_seconds
from windrow.kernels.slices.layout import FOREVER
from windrow.operator.operator import Operator

__all__ = ["FIGURES", "Figure", "Meter", "Watched"]


class Figure(NamedTuple):
    """One figure: its kind in Prometheus, its unit in OpenTelemetry, and what it is."""

    kind: str
    unit: str
    help: str


FIGURES = {
    "rows_total": Figure("counter", "{row}", "Rows taken"),
    "windows_total": Figure("counter", "{window}", "Windows emitted, corrections among them"),
    "late_rows_total": Figure("counter", "{row}", "Rows that came too late"),
    "exceeded_windows_total": Figure(
        "counter", "{window}", "Windows that may be further away than within= promises"
    ),
    "commits_total": Figure("counter", "{commit}", "Commits to a store, or micro-batches"),
    "commit_seconds_total": Figure("counter", "s", "Time that commits took"),
    "written_bytes_total": Figure("counter", "By", "Bytes of state written"),
    "compile_seconds_total": Figure("counter", "s", "Time that compiling kernels took"),
    "state_bytes": Figure("gauge", "By", "State, as far as the engine knows its size"),
    "cold_keys": Figure("gauge", "{key}", "Keys in cold blocks"),
    "leaves": Figure("gauge", "{leaf}", "Slices of the key with the most of them"),
    "watermark_seconds": Figure("gauge", "s", "The watermark, in seconds since 1970"),
    "watermark_lag_seconds": Figure("gauge", "s", "How far the watermark is behind the clock"),
}
"""Every figure by its name, without the prefix ``windrow_``."""


class Meter:
    """Figures of one job. Any thread may add to it; ``labels`` are on every figure."""

    def __init__(self, job: str = "windrow", **labels: str) -> None:
        self.labels = {"job": job, **labels}
        self._lock = threading.Lock()
        self._values: dict[str, float] = {
            name: 0 for name, figure in FIGURES.items() if figure.kind == "counter"
        }

    def add(self, **amounts: float) -> None:
        """Add to counters: ``meter.add(rows_total=100)``."""
        with self._lock:
            for name, amount in amounts.items():
                self._values[_checked(name, "counter")] += amount

    def set(self, **values: float) -> None:
        """Set gauges: ``meter.set(state_bytes=4096)``."""
        with self._lock:
            for name, value in values.items():
                self._values[_checked(name, "gauge")] = value

    def reached(self, watermark: int) -> None:
        """The watermark is here, in microseconds since 1970. The lag is computed whenever it is asked for."""
        if abs(watermark) < FOREVER // 2:
            self.set(watermark_seconds=watermark / 1e6)

    def measured(self, batch: Any) -> None:
        """The figures of a micro-batch of Spark: ``spark.streams.addListener(windrow_spark.Metrics(meter.measured))``."""
        self.add(
            rows_total=batch.rows,
            windows_total=batch.windows,
            late_rows_total=batch.late_rows,
            commits_total=1,
            commit_seconds_total=batch.seconds,
            written_bytes_total=batch.bytes_written,
            compile_seconds_total=batch.compile_seconds,
        )
        self.set(state_bytes=batch.state_bytes)
        if batch.watermark is not None:
            self.reached(batch.watermark)

    def watch(self, operator: Operator) -> Watched:
        """The operator, whose calls are counted from now on."""
        return Watched(operator, self)

    def values(self) -> dict[str, float]:
        """All figures that are known now, by name."""
        with self._lock:
            found = dict(self._values)
        if "watermark_seconds" in found:
            found["watermark_lag_seconds"] = time() - found["watermark_seconds"]
        return found

    def text(self) -> str:
        """The figures in Prometheus's text format."""
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in self.labels.items())
        lines = []
        for name, value in self.values().items():
            figure = FIGURES[name]
            lines += [f"# HELP windrow_{name} {figure.help}", f"# TYPE windrow_{name} {figure.kind}"]
            lines.append(f"windrow_{name}{{{labels}}} {value:.17g}")
        return "\n".join([*lines, ""])

    @contextmanager
    def serve(self, port: int = 9464, host: str = "127.0.0.1") -> Iterator[int]:
        """Serve the figures at ``/metrics`` for as long as the block runs; gives the port. Port 0 is any free one."""
        text = self.text

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = text().encode() if self.path.split("?")[0] in ("/", "/metrics") else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:
                return

        server = ThreadingHTTPServer((host, port), Handler)
        thread = threading.Thread(target=server.serve_forever, name="windrow-metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def instrument(self, meter: Any) -> None:
        """Hand the figures to an OpenTelemetry meter, which asks for them whenever it exports.

        ``meter`` is ``opentelemetry.metrics.get_meter("…")``. Names have no ``_total`` there.
        """
        try:
            from opentelemetry.metrics import Observation
        except ImportError:
            raise QueryError("instrument() needs OpenTelemetry: pip install opentelemetry-sdk") from None

        def observing(name: str) -> Callable[[Any], list[Any]]:
            return lambda _: [Observation(v, self.labels) for k, v in self.values().items() if k == name]

        for name, figure in FIGURES.items():
            make = (
                meter.create_observable_counter if figure.kind == "counter" else meter.create_observable_gauge
            )
            full = f"windrow.{name.removesuffix('_total')}"
            make(full, callbacks=[observing(name)], unit=figure.unit, description=figure.help)


class Watched:
    """An operator whose calls a meter counts. Everything else is the operator's."""

    def __init__(self, operator: Operator, meter: Meter) -> None:
        self._operator, self._meter = operator, meter
        self._looked = 0.0

    def process(self, data: Any) -> pa.Table:
        table = data if hasattr(data, "num_rows") else pa.table(data)
        return self._counted(lambda: self._operator.process(table), rows=table.num_rows)

    def advance(self, watermark: Any) -> pa.Table:
        return self._counted(lambda: self._operator.advance(watermark))

    def flush(self) -> pa.Table:
        return self._counted(self._operator.flush)

    def commit(self) -> int:
        began = perf_counter()
        written = self._operator.commit()
        seconds = perf_counter() - began
        self._meter.add(commits_total=1, commit_seconds_total=seconds, written_bytes_total=written)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operator, name)

    def _counted(self, call: Callable[[], pa.Table], rows: int = 0) -> pa.Table:
        late, exceeded, compiled = self._operator.late_rows, self._operator.exceeded, compile_seconds()
        windows = call()
        self._meter.add(
            rows_total=rows,
            windows_total=windows.num_rows,
            late_rows_total=self._operator.late_rows - late,
            exceeded_windows_total=self._operator.exceeded - exceeded,
            compile_seconds_total=compile_seconds() - compiled,
        )
        self._meter.reached(self._operator.watermark)
        if perf_counter() - self._looked > 1:  # the figures of many keys take a moment
            idle = self._operator.idle
            self._meter.set(cold_keys=idle.cold_keys, state_bytes=idle.hot_bytes + idle.cold_bytes)
            self._meter.set(leaves=self._operator.leaves)
            self._looked = perf_counter()
        return windows


def _checked(name: str, kind: str) -> str:
    if name not in FIGURES or FIGURES[name].kind != kind:
        known = ", ".join(each for each, figure in FIGURES.items() if figure.kind == kind)
        raise QueryError(f"a meter has no {kind} {name!r}; there are {known}")
    return name


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
