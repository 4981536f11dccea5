"""The check passes on what is right, and finds what is wrong."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.query.key_ranges import cuttable
from windrow_conformance import WAYS, Disagreement, check
from windrow_conformance.cases import transcripts

RANDOM = np.random.default_rng(5)
ROWS = pa.table(
    {
        "plug": RANDOM.choice(["a", "b", None], 60),
        "ts": RANDOM.integers(-30, 200, 60),
        "load": RANDOM.random(60),
    }
)


@pytest.mark.parametrize(
    "window",
    [
        wr.TimeWindow(30, 10),
        wr.TimeWindow(7, 3, 1),
        wr.CountWindow(5, 2),
        wr.SessionWindow(4),
        wr.SlideByTime(4, 15),
    ],
    ids=str,
)
def test_every_way_agrees(window: object) -> None:
    aggregates = {
        "peak": wr.Max("load"),
        "mean": wr.Mean("load"),
        "last": wr.Last("load"),
        "n": wr.Count(),
        "middle": wr.Median("load"),
    }
    check(wr.Query(by="plug", window=window, aggregates=aggregates), ROWS)


@wr.aggregate_type(partial={"mean": "f8", "n": "i8"}, identity=(0.0, 0))
class MeanOfMeans:
    """Wrong: the mean of two means is not the mean of all."""

    def lift(x):
        return x, 1

    def combine(a, b):
        if a[1] == 0:
            return b
        if b[1] == 0:
            return a
        return (a[0] + b[0]) / 2, 1

    def lower(p):
        return p[0]


def test_a_wrong_aggregate_is_found() -> None:
    query = wr.Query(window=wr.TimeWindow(100, 10), aggregates={"mean": MeanOfMeans("load")})
    with pytest.raises(Disagreement, match=r"differs from the definition in column 'mean'"):
        check(query, ROWS)


def test_keys_in_ranges_have_the_windows_of_every_transcript() -> None:
    """All kinds that are cut by counting rows, with every aggregate that transcripts have."""
    cases = [case for case in transcripts() if cuttable(case.query) and not case.error]
    assert len(cases) >= 80
    for seed, case in enumerate(cases):
        check(case.query, case.rows, ways=["in ranges"], seed=seed)


def test_ways_are_named() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"n": wr.Count()})
    check(query, ROWS, ways=["compiled", "stored"], seed=7)
    with pytest.raises(ValueError, match="no way 'fast'"):
        check(query, ROWS, ways=["fast"])
    assert len(WAYS) >= 19
