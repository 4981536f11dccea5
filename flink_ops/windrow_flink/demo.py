# SPDX-License-Identifier: Apache-2.0
"""The demo on Flink: both queries in one streaming job on the mini cluster, packed rows in, Parquet out."""

from __future__ import annotations

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyflink.common import Types, WatermarkStrategy
from pyflink.datastream import MapFunction, ProcessFunction
from pyflink.datastream.connectors.number_seq import NumberSequenceSource
from pyflink.version import __version__

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.demo.scenario import LOADS, QUERIES, Beat, Ran, Readings, Tell, loads
from windrow_flink import PACKED, environment, pack, unpack, windowed_packed

DISORDER = "2s"
ENGINE = f"Flink {__version__}"


def run(readings: Readings, output: Path, tell: Tell) -> Ran:
    """Stream the readings through both queries at once, and write their windows as they come."""
    began = perf_counter()
    flink = environment(parallelism=max(1, min(os.cpu_count() or 1, 4)))
    named = []
    for name, query in QUERIES.items():
        numbers = flink.from_source(
            NumberSequenceSource(0, len(readings.files) - 1),
            WatermarkStrategy.no_watermarks(),
            f"files for {name}",
            Types.LONG(),
        ).set_parallelism(1)
        rows = numbers.process(ReadFile([str(path) for path in readings.files], name), output_type=PACKED)
        rows = rows.disable_chaining().set_parallelism(1)
        windows = windowed_packed(rows, query, LOADS, disorder=DISORDER, packed_output=True, uid=name)
        named.append(
            windows.map(LabelWindows(name), output_type=Types.PICKLED_BYTE_ARRAY()).disable_chaining()
        )
        (output / name).mkdir(parents=True, exist_ok=True)
    streaming = perf_counter()
    tell(Beat("", 0, 0, streaming - began, "started"))
    with named[0].union(*named[1:]).execute_and_collect("windrow demo") as elements:
        _write(elements, readings, output, tell)
    return Ran(ENGINE, streaming - began, perf_counter() - streaming)


def _write(elements: Any, readings: Readings, output: Path, tell: Tell) -> None:
    """Write a Parquet file for every 50,000 windows, and tell the progress after each."""
    held: dict[str, list[pa.Table]] = {name: [] for name in QUERIES}
    written = {name: 0 for name in QUERIES}
    last = perf_counter()

    def finish(name: str) -> None:
        nonlocal last
        table = pa.concat_tables(held[name])
        parquet.write_table(table, output / name / f"windows-{written[name]:04}.parquet")
        written[name] += 1
        held[name] = []
        share = readings.rows // len(readings.files) if written[name] <= len(readings.files) else 0
        tell(Beat(name, share, table.num_rows, perf_counter() - last))
        last = perf_counter()

    for name, blob in elements:
        held[name].append(unpack(blob))
        if sum(table.num_rows for table in held[name]) >= 50_000:
            finish(name)
    for name in QUERIES:
        if held[name]:
            finish(name)


class ReadFile(ProcessFunction):
    """The loads of a numbered file, as packed rows."""

    def __init__(self, files: list[str], query: str) -> None:
        self.files, self.query = files, query

    def process_element(self, number: int, context: ProcessFunction.Context) -> Any:
        return pack(loads(parquet.read_table(self.files[number], partitioning=None)), QUERIES[self.query])


class LabelWindows(MapFunction):
    """A packed table of windows with the name of its query."""

    def __init__(self, name: str) -> None:
        self.name = name

    def map(self, element: Any) -> tuple[str, bytes]:
        return self.name, bytes(element)
