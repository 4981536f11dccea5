"""Snapshots: refused when they are not whole, not ours or not of this query; readable for ever once
released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import AGGREGATES, SCHEMA, query

import windrow as wr
from windrow import errors
from windrow.query.difference import DEFAULTS, difference
from windrow.storage import snapshot

GOLDEN = Path(__file__).parent / "golden"
ASKED = query(wr.TimeWindow(10, 5), ["peak", "total", "n", "last", "all"], late="side")
ROWS = pa.table(
    {
        "k": ["a", "b", None, "a"],
        "ts": [1, 7, 8, 22],
        "x": [0.5, None, 2.0, -1.0],
        "i": [1, 2, None, 4],
        "d": [0, 1, 2, 3],
    }
).cast(SCHEMA)


def golden_operator() -> wr.Operator:
    operator = wr.Operator(ASKED, SCHEMA)
    operator.process(ROWS)
    operator.advance(10)
    operator.process(ROWS.slice(0, 1))
    return operator


def test_the_golden_snapshot_of_version_1_is_still_read() -> None:
    """If this fails, old state can no longer be restored: add a version, do not change this one."""
    blob = (GOLDEN / "snapshot-v1.bin").read_bytes()
    restored, fresh = wr.Operator.restore(ASKED, blob), golden_operator()
    assert restored.late().equals(ROWS.slice(0, 1))
    assert (restored.watermark, restored.late_rows) == (10, 1)
    assert restored.flush().equals(fresh.flush())


def test_equal_states_are_equal_bytes() -> None:
    assert golden_operator().snapshot() == golden_operator().snapshot()


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_no_damaged_snapshot_is_restored(data: st.DataObject) -> None:
    blob = golden_operator().snapshot()
    if data.draw(st.booleans()):
        damaged = blob[: data.draw(st.integers(0, len(blob) - 1))]
    else:
        at = data.draw(st.integers(0, len(blob) - 1))
        damaged = blob[:at] + bytes([blob[at] ^ data.draw(st.integers(1, 255))]) + blob[at + 1 :]
    with pytest.raises(errors.SnapshotError):
        wr.Operator.restore(ASKED, damaged)


def test_a_newer_format_is_refused_by_version() -> None:
    blob = golden_operator().snapshot()
    with pytest.raises(errors.CorruptSnapshot, match="no format version 0"):
        wr.Operator.restore(ASKED, blob[:8] + b"\x00\x00" + blob[10:])
    with pytest.raises(errors.CorruptSnapshot, match="checksum"):
        wr.Operator.restore(ASKED, blob[:8] + b"\x02\x00" + blob[10:])
    with pytest.raises(errors.FormatTooNew, match=r"version 3.*up to 2"):
        wr.Operator.restore(ASKED, blob[:8] + b"\x03\x00" + blob[10:])


def test_another_query_is_refused_with_what_differs() -> None:
    other = query(wr.TimeWindow(20, 5), ["peak", "total", "n", "last", "all"], late="side")
    with pytest.raises(errors.FingerprintMismatch, match=r'range of the window was "10us" and is "20us"'):
        wr.Operator.restore(other, golden_operator().snapshot())


def test_only_what_differs_is_told_in_the_words_of_the_query() -> None:
    def described(**aggregates: wr.Aggregate) -> str:
        return wr.Query(window=wr.TimeWindow(10), aggregates=aggregates).described

    old = described(top=wr.Max("v"), mean=wr.Mean("v"))
    for told, now in {
        "added: lo = Min(v)": described(top=wr.Max("v"), mean=wr.Mean("v"), lo=wr.Min("v")),
        "added: peak = Max(v); removed: top = Max(v)": described(peak=wr.Max("v"), mean=wr.Mean("v")),
        "changed: mean was Mean(v) and is Mean(w)": described(top=wr.Max("v"), mean=wr.Mean("w")),
        "the order of the aggregates was top, mean and is mean, top": described(
            mean=wr.Mean("v"), top=wr.Max("v")
        ),
    }.items():
        assert difference(old, now) == told


def test_a_default_is_told_by_its_value() -> None:
    def described(**parameters: Any) -> str:
        return wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()}, **parameters).described

    other = {"late": "side", "lateness": "5s", "algorithm": "DABA"}
    for name, value in other.items():
        default = json.dumps(DEFAULTS[name])
        told = f"{name} was {json.dumps(value)} and is {default}"
        assert difference(described(**{name: value}), described()) == told
        assert described(**{name: DEFAULTS[name]}) == described()
    assert DEFAULTS.keys() == other.keys()


def test_what_is_not_a_snapshot_is_refused() -> None:
    with pytest.raises(errors.CorruptSnapshot, match="not a windrow snapshot"):
        wr.Operator.restore(ASKED, b"PK\x03\x04 something else")


def test_no_code_is_run_from_a_snapshot() -> None:
    import pickle

    with pytest.raises(errors.CorruptSnapshot):
        snapshot.read(pickle.dumps({"fingerprint": ASKED.fingerprint}), ASKED.fingerprint)


if __name__ == "__main__":  # writes the golden file of the current version, once, when a version is made
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / f"snapshot-v{snapshot.FIRST}.bin").write_bytes(golden_operator().snapshot())
    assert AGGREGATES
