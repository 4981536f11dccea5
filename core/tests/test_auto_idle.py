"""``idle="auto"``: a D that is close to the best one, within its caps, and the same for the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from silent_keys import SECOND, query, rows, run

import windrow as wr
from windrow.operator.auto_idle import AutoIdle, Costs


def clairvoyant(closed: Any, lasting: Any, after: float, buy: float) -> float:
    """What a D costs against the least cost for each silence, known in advance."""

    def cost(silences: Any) -> Any:
        return np.where(silences > after, after + buy, silences)

    best = np.minimum(closed, buy).sum() + np.minimum(lasting, buy).sum()
    return float((cost(closed).sum() + cost(lasting).sum()) / best)


def test_auto_is_close_to_a_clairvoyant_and_never_above_break_even() -> None:
    random = np.random.default_rng(6)
    buy = Costs().break_even
    for closed, lasting in (
        (np.full(20_000, 30 * SECOND), np.full(2000, 3600 * SECOND)),  # reports, and vehicles that left
        (random.exponential(2000 * SECOND, 5000).astype(np.int64), np.full(5, SECOND)),
        (random.exponential(60 * SECOND, 20_000).astype(np.int64), np.full(500, 7200 * SECOND)),
    ):
        tuned = AutoIdle(cpu=1.0, costs=Costs(row=1.0))
        tuned.heard(closed)
        tuned.decide(*tuned.histogram_of(lasting), size=0)
        assert tuned.after <= buy
        found = clairvoyant(closed, lasting, tuned.after, buy)
        fixed = [clairvoyant(closed, lasting, SECOND * 1.1**n, buy) for n in range(100)]
        assert found <= min(2.0, 1.1 * min(fixed)), (found, min(fixed), tuned.after)


def test_auto_keeps_its_caps() -> None:
    closed = np.full(20_000, 30 * SECOND)
    thrash = AutoIdle(memory=1000, cpu=0.05)
    for _ in range(12):
        thrash.heard(closed)
        thrash.decide(*thrash.histogram_of(np.zeros(0, np.int64)), size=10**9)
    assert 30 * SECOND < thrash.after < 50 * SECOND  # the shortest that is within the cap
    assert (
        "would take more than 5% of the time; 1" in thrash.why and "than the 1.0 kB it may have" in thrash.why
    )
    roomy = AutoIdle(memory=10**12)
    roomy.heard(closed)
    roomy.decide(*roomy.histogram_of(np.full(100, 3600 * SECOND)), size=10**9)
    assert roomy.break_even == Costs().break_even and 30 * SECOND <= roomy.after <= 60 * SECOND


def test_auto_gives_the_same_windows() -> None:
    data, asked = rows(7, 3000), query("time")
    expected = list(run(wr.Operator(asked, compiled=False), data, 20))
    operator = wr.Operator(asked, compiled=False, idle=wr.Idle("auto", memory="100kB", cohort=1))
    assert list(run(operator, data, 20)) == expected
    assert operator.idle.why.startswith("auto")


def test_auto_decides_the_same_again_compiled_or_not() -> None:
    asked = wr.Query(by="key", time="ts", window=wr.TimeWindow("10m", "1m"), aggregates={"n": wr.Count()})
    decided = []
    for compiled in (True, True, False):
        operator, told = wr.Operator(asked, compiled=compiled, idle=wr.Idle("auto", cohort=64)), []
        for second in range(0, 400, 5):  # a report every 30 seconds; after 200 seconds half of the keys leave
            keys = np.arange(second // 5 % 6, 2000 if second < 200 else 1000, 6)
            operator.process(pa.table({"key": keys, "ts": np.full(len(keys), second * SECOND)}))
            operator.advance(second * SECOND)
            told.append((operator.idle.after, operator.idle.freezes, operator.idle.thaws, operator.idle.why))
        decided.append(told)
    assert decided[0] == decided[1] == decided[2]
    assert decided[0][-1][1:3] == (1000, 0) and len({after for after, *_ in decided[0]}) > 1
