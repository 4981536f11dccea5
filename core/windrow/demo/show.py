# SPDX-License-Identifier: Apache-2.0
"""The demo from beginning to end."""

from __future__ import annotations

import importlib
import importlib.util
import json
import shutil
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet
from rich.console import Console

from windrow.demo.compare import answers, compare
from windrow.demo.findings import find
from windrow.demo.page import page
from windrow.demo.scenario import QUERIES, SEED, Ran, each_load, make_readings
from windrow.demo.summary import Summary, tell
from windrow.demo.view import View
from windrow.errors import QueryError

__all__ = ["ENGINES", "default_engine", "show"]

ENGINES = {"spark": "windrow_spark.demo", "flink": "windrow_flink.demo", "local": "windrow.demo.local"}
NEEDS = {"spark": "pyspark", "flink": "pyflink"}
OURS = "demo.json"


def default_engine() -> str:
    """Spark if it is installed, else this process."""
    return "spark" if importlib.util.find_spec("pyspark") is not None else "local"


def show(console: Console, engine: str, output: Path, *, seed: int = SEED, **size: int) -> bool:
    """Run the demo on an engine; true if its windows are those of the in-process engine."""
    needed = NEEDS.get(engine)
    if needed is not None and importlib.util.find_spec(needed) is None:
        raise QueryError(f"--engine {engine} needs {needed}: in a clone, pip install '.[{engine}]'")
    _clear(output)
    with View(console) as view:
        with view.step("readings of smart plugs"):
            readings = make_readings(output / "readings", seed=seed, **size)
            loads = pa.concat_tables(each_load(readings))
            parquet.write_table(loads, output / "loads.parquet")
        with view.step("answer in process (compiles once)"):
            expected = answers(readings)
        module = importlib.import_module(ENGINES[engine])
        view.expect(readings.rows, {"spark": "Spark", "flink": "Flink"}.get(engine, "the operator"))
        ran: Ran = module.run(readings, output, view.tell)
        with view.step("comparing"):
            compared = {name: compare(expected[name], name, output / name) for name in QUERIES}
    keys = [
        loads.group_by(columns).aggregate([]).num_rows for columns in (list(QUERIES["plugs"].by), ["house"])
    ]
    summary = Summary(readings, ran, compared, keys[0], keys[1], output)
    findings = find(expected, loads)
    place = output / "page.html"
    place.write_text(page(summary, findings), encoding="utf-8")
    for name, query in QUERIES.items():
        (output / f"{name}.toml").write_text(_toml(query.to_dict()), encoding="utf-8")
    shutil.rmtree(output / "work", ignore_errors=True)
    tell(console, summary, findings, place)
    return summary.same


def _clear(output: Path) -> None:
    """Make an empty folder for this run. Files of an earlier run are removed; a folder with anything else is refused."""
    try:
        if output.exists() and any(output.iterdir()):
            if not (output / OURS).is_file():
                raise QueryError(
                    f"{output} is not empty, and was not written by an earlier demo; choose another folder with --output"
                )
            for name in ("readings", "work", *QUERIES):
                shutil.rmtree(output / name, ignore_errors=True)
        output.mkdir(parents=True, exist_ok=True)
        (output / OURS).write_text(json.dumps({"made by": "windrow demo"}) + "\n", encoding="utf-8")
    except OSError as error:
        raise QueryError(
            f"{output} cannot be written: {error}; choose another folder with --output"
        ) from error


def _toml(query: dict[str, object]) -> str:
    """A query as the TOML that `windrow run` reads."""
    flat = {name: value for name, value in query.items() if not isinstance(value, dict)}
    lines = [f"{name} = {json.dumps(value)}" for name, value in flat.items()]
    window, aggregates = query["window"], query["aggregates"]
    assert isinstance(window, dict) and isinstance(aggregates, dict)
    lines += [
        "",
        "[window]",
        *(f"{name} = {json.dumps(value)}" for name, value in window.items()),
        "",
        "[aggregates]",
    ]
    for name, form in aggregates.items():
        columns = [str(value) for key, value in form.items() if key != "kind"]
        lines.append(f'{name} = "{form["kind"]}({", ".join(columns)})"')
    return "\n".join(lines) + "\n"
