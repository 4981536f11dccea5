"""What is seen from outside: figures in a real Prometheus and in OpenTelemetry, and corrections in a real PostgreSQL."""

from __future__ import annotations

import json
import random
import re
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from servers import postgres, prometheus

import windrow as wr
from windrow import oracle
from windrow.errors import QueryError
from windrow.metrics import FIGURES, Meter
from windrow.postgres import PostgresTable
from windrow.storage.pages import MemoryPages

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema({"k": pa.string(), "ts": pa.int64(), "x": pa.float64()})


def busy(meter: Meter) -> None:
    """Two rows in time, one late, a window and a commit."""
    query = wr.Query("k", window=wr.TimeWindow("1s"), aggregates={"n": wr.Count()})
    operator = meter.watch(wr.Operator.open(query, SCHEMA, MemoryPages()))
    now = int(time.time()) * 1_000_000
    operator.process({"k": ["a", "b"], "ts": [now, now + 5_000_000], "x": [1.0, 2.0]})
    operator.advance(now + 3_000_000)
    operator.process(pa.table({"k": ["a"], "ts": [now], "x": [1.0]}))
    operator.commit()


def test_a_real_prometheus_scrapes_the_figures(tmp_path: Path) -> None:
    meter = Meter("plugs", site='a "quoted" one')
    with meter.serve(0) as port, prometheus(port, tmp_path) as address:
        busy(meter)
        for name, expected in (
            ("rows_total", 3),
            ("windows_total", 1),
            ("late_rows_total", 1),
            ("commits_total", 1),
        ):
            assert asked(address, f"windrow_{name}") == [({"site": 'a "quoted" one'}, expected)]
        assert asked(address, "windrow_state_bytes")[0][1] > 0
        assert -10 < asked(address, "windrow_watermark_lag_seconds")[0][1] < 60
        panels = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text("utf-8"))["panels"]
        shown = [target["expr"] for panel in panels for target in panel["targets"]]
        named = set(re.findall(r"\bwindrow_\w+", " ".join(shown)))
        assert named <= {f"windrow_{name}" for name in FIGURES}
        asked(address, "count_over_time(windrow_rows_total[1m]) > 1")  # a rate needs two scrapes
        for what in shown:
            found = queried(address, what)
            assert [each["metric"]["job"] for each in found] == ([] if "flink" in what else ["plugs"]), what


def asked(address: str, what: str) -> list[tuple[dict[str, str], float]]:
    """What Prometheus knows; it is asked until it has scraped."""
    for _ in range(150):
        try:
            found = queried(address, what)
        except OSError:
            found = []
        if found and float(found[0]["value"][1]):
            return [({"site": each["metric"]["site"]}, float(each["value"][1])) for each in found]
        time.sleep(0.2)
    pytest.fail(f"Prometheus did not scrape {what}")


def queried(address: str, what: str) -> list[dict[str, Any]]:
    with urllib.request.urlopen(f"{address}/api/v1/query?query={urllib.parse.quote(what)}") as answer:
        found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return found


def test_opentelemetry_asks_for_the_figures() -> None:
    reader, meter = InMemoryMetricReader(), Meter("plugs")
    meter.instrument(MeterProvider([reader]).get_meter("windrow"))
    busy(meter)
    data = reader.get_metrics_data()
    assert data is not None
    found = {
        m.name: m.data.data_points[0]
        for r in data.resource_metrics
        for s in r.scope_metrics
        for m in s.metrics
    }
    assert found["windrow.rows"].value == 3 and found["windrow.late_rows"].attributes == {"job": "plugs"}
    assert set(found) == {f"windrow.{name.removesuffix('_total')}" for name in FIGURES}
    with pytest.raises(QueryError, match="no counter 'row_total'"):
        meter.add(row_total=1)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with postgres() as address:
        yield address


@pytest.mark.parametrize(
    ("window", "numbered"), [(wr.TimeWindow("10us", "5us"), True), (wr.SessionWindow("3us"), False)]
)
def test_postgres_holds_the_last_word_after_any_restart(database: str, window: Any, numbered: bool) -> None:
    query = wr.Query(
        "k", window=window, aggregates={"n": wr.Count(), "x": wr.Sum("x")}, late="update", lateness=50
    )
    chance = random.Random(7)
    table = PostgresTable(f"windows_{numbered}".lower(), query, SCHEMA)
    snapshot, batches, events = b"", [], []
    with psycopg.connect(database) as connection:
        table.create(connection)
    for number in range(12):
        keys = [chance.choice(["a", "b", None]) for _ in range(9)]
        rows = pa.table(
            {"k": keys, "ts": [number * 10 + chance.randint(-30, 9) for _ in keys], "x": [1.5] * 9}, SCHEMA
        )
        batches.append((number, rows, number * 10))
        events += [("rows", rows), ("watermark", number * 10)]
    at = 0
    while at < len(batches):  # a crash may come after the table has a batch and before the job knows it
        number, rows, watermark = batches[at]
        operator = wr.Operator.restore(query, snapshot) if snapshot else wr.Operator(query, SCHEMA)
        found = pa.concat_tables([operator.process(rows), operator.advance(watermark)])
        with psycopg.connect(database) as connection:
            applied = table.write(connection, found, batch=number if numbered else None)
        assert applied in (0, found.num_rows)
        if chance.random() < 0.7:
            snapshot, at = operator.snapshot(), at + 1
    expected, _ = oracle.evaluate_stream(events, query)
    names = [field.name for field in table.fields]
    with psycopg.connect(database) as connection:
        held = connection.execute(f"SELECT {', '.join(names)} FROM {table.name}").fetchall()
    assert sorted(held, key=str) == sorted(
        (tuple(r[n] for n in names) for r in expected.to_pylist()), key=str
    )


def test_batches_of_a_new_checkpoint_are_not_taken_for_repeated_ones(database: str) -> None:
    query = wr.Query("k", window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})
    table = PostgresTable("restarted", query, SCHEMA)
    windows = wr.aggregate(pa.table({"k": ["a"], "ts": [1], "x": [1.5]}, SCHEMA), query)
    with psycopg.connect(database) as connection:
        table.create(connection)
        applied = [table.write(connection, windows, batch=0, stream=name) for name in ("one", "one", "two")]
    assert applied == [1, 0, 1]
