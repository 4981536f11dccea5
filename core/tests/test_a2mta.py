"""A²MTA: its error is certain, its promise is kept, its leaves are few, and it evicts in O(log n)."""

from __future__ import annotations

import random
from math import inf, log2
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow import algorithms
from windrow.aggregates.algebra import Monoid
from windrow.algorithms import A2MTA, REGISTRY
from windrow.algorithms.a2mta_layout import ERROR, META, ROUNDED, SETTINGS, VALUE, WHOLE
from windrow.algorithms.a2mta_steps import tell
from windrow.approximate.bucket import bucket_of
from windrow.approximate.estimate import with_error
from windrow.errors import QueryError, WindowError
from windrow.kernels.slices.bucket_layout import NUMBER, SURE, UNKNOWN, Bounds
from windrow.kernels.slices.layout import Results

RANGE, UPDATES = 150, 500
KINDS: dict[str, tuple[Any, Any]] = {
    "sum": (wr.Sum(), sum),
    "count": (wr.Count(), len),
    "mean": (wr.Mean(), lambda x: sum(x) / len(x)),
    "max": (wr.Max(), max),
    "min": (wr.Min(), min),
}


def streams() -> dict[str, list[int]]:
    draw, at = np.random.default_rng(11), np.arange(UPDATES)
    found = {
        "stationary": draw.integers(900, 1100, UPDATES),
        "regimes": 10 * np.repeat(draw.integers(1, 100, 10), 50) + draw.integers(0, 5, UPDATES),
        "ramp": at,
        "falling": UPDATES - at,
        "spikes": np.where(at % 97 == 5, 1_000_000, 10),
        "alternating": np.where(at % 2 == 0, 1, -1) * draw.integers(1, 50, UPDATES),
        "collapse": np.where(at < 250, 1000, 3) + draw.integers(0, 2, UPDATES),
        "zeros": np.zeros(UPDATES, dtype=np.int64),
        "sorted": np.sort(draw.integers(0, 500, UPDATES)),
    }
    return {name: [int(x) for x in values] for name, values in found.items()}


def made(kind: str, within: Any, **options: Any) -> A2MTA:
    return A2MTA(KINDS[kind][0], **{"compiled": False, "within": within, **options})


def put(window: A2MTA, x: float) -> None:
    window.insert(window.monoid.lift(*[float(x)] * len(window.monoid.inputs)))


def check(window: A2MTA, kind: str, held: list[int]) -> float:
    """The result is as near as it says; its error as a share of the true result."""
    value, error = window.query()
    true = KINDS[kind][1](held)
    assert abs(value - true) <= error, (value, true, error)
    return error / abs(true) if true else (0.0 if error == 0.0 else inf)


@pytest.mark.parametrize("stream", sorted(streams()))
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_result_is_further_away_than_promised(kind: str, stream: str) -> None:
    x, dice = streams()[stream], random.Random(1)
    window, begin = made(kind, wr.Within(relative=0.1)), 0
    for end, value in enumerate(x, 1):
        put(window, value)
        if end - begin > RANGE:  # sometimes many at a time
            n = end - begin - RANGE if dice.random() < 0.95 else dice.randrange(1, RANGE)
            window.evict(n)
            begin += n
        assert len(window) == end - begin
        assert check(window, kind, x[begin:end]) <= 0.1 * (1 + 1e-9)
    if not (
        stream == "alternating" and kind in ("sum", "mean")
    ):  # of both signs: nothing can be promised, or merged
        assert window.leaves < 0.8 * RANGE


@pytest.mark.parametrize("kind", ["sum", "max"])
def test_a_prediction_takes_fewer_leaves_and_never_hides_an_error(kind: str) -> None:
    leaves = {}
    for confidence in (None, 0.95):
        for name, over in (("stationary", 0), ("collapse", RANGE)):
            x = streams()[name]
            window, exceeded = made(kind, wr.Within(relative=0.1, confidence=confidence)), 0
            for end, value in enumerate(x, 1):
                put(window, value)
                window.evict(max(0, len(window) - RANGE))
                exceeded += check(window, kind, x[max(0, end - RANGE) : end]) > 0.1 * (1 + 1e-9)
            assert exceeded <= (over if confidence else 0)
            leaves[name, confidence] = window.leaves
    assert leaves["stationary", 0.95] <= leaves["stationary", None]
    if kind == "sum":
        assert leaves["stationary", 0.95] < 0.7 * leaves["stationary", None]


@pytest.mark.parametrize("most", [4, 5, 17])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_never_more_leaves_than_asked_for(kind: str, most: int) -> None:
    x, dice = streams()["regimes"], random.Random(most)
    for within in (wr.AtMost(leaves=most), wr.Within(relative=0.001, leaves=most)):
        window, begin = made(kind, within), 0
        for end, value in enumerate(x, 1):
            put(window, value)
            assert window.leaves <= most
            if end - begin > RANGE:
                n = dice.choice([1, 1, 1, 40])
                window.evict(n)
                begin += n
            assert window.leaves <= most
            check(window, kind, x[begin:end])


def test_level_eviction_leaves_buckets_of_about_one_size() -> None:
    window = A2MTA(counting()[1], compiled=False, within=wr.AtMost(leaves=66))
    for _ in range(3000):
        window.insert(1)
        window.evict(max(0, len(window) - 1000))
    worst = 0.0
    for _ in range(400):
        window.insert(1)
        window.evict(1)
        worst = max(worst, window.query().error)
    assert 25 <= window.leaves <= 66
    assert 0 < worst <= 4 * 1000 / 64


def counting(kind: str = "total") -> tuple[list[int], Monoid]:
    combines = [0]

    def plus(a: int, b: int) -> int:
        combines[0] += 1
        return a + b

    return combines, Monoid(kind, None, 0, int, plus, int, pa.int64(), (pa.int64(),))


@pytest.mark.parametrize("within", [wr.AtMost(leaves=600), wr.Within(rows=0.02)])
def test_bulk_evictions_are_logarithmic(within: Any) -> None:
    for n in (64, 1024):
        for gone in (1, n // 3, n - 2):
            combines, monoid = counting()
            window = A2MTA(monoid, compiled=False, within=within)
            for _ in range(n):
                window.insert(1)
            combines[0] = 0
            window.evict(gone)
            value, missing = window.query()
            assert value <= n - gone <= value + missing
            assert combines[0] <= 4 * log2(n) + 3, (n, gone)


@pytest.mark.parametrize("within", [wr.AtMost(leaves=100), wr.Within(rows=0.05), wr.Within(rows=8)])
def test_a_slide_takes_few_combines(within: Any) -> None:
    combines, monoid = counting()
    window = A2MTA(monoid, compiled=False, within=within)
    for _ in range(500):
        window.insert(1)
    combines[0] = 0
    for _ in range(1500):
        window.insert(1)
        window.evict()
        window.query()
    assert combines[0] <= 16 * 1500


POLICIES: dict[str, tuple[Any, Any]] = {  # of a partial, and of the values themselves
    "sum": (lambda rest: rest[0] + rest[1] <= 150_000, lambda held: sum(held) <= 150_000),
    "count": (lambda rest: rest[0] <= 90, lambda held: len(held) <= 90),
    "mean": (lambda rest: rest[-1] <= 90, lambda held: len(held) <= 90),
    "max": (lambda rest: rest[0] <= 4300, lambda held: max(held) <= 4300),
}


@pytest.mark.parametrize("kind", sorted(POLICIES))
def test_a_window_invariant_keeps_the_promise_in_logarithmically_many_calls(kind: str) -> None:
    dice = random.Random(5)
    x = [dice.randrange(900, 1100) * (1 + 3 * (at // 100 % 2)) for at in range(600)]
    window, held = made(kind, wr.Within(relative=0.1)), list[int]()
    invariant, plain = POLICIES[kind]
    uncertain, saved = 0, 0.0
    for value in x:
        calls = [0]

        def valid(rest: Any, calls: list[int] = calls) -> bool:
            calls[0] += 1
            return bool(invariant(rest))

        put(window, value)
        held.append(value)
        longest, gone = len(held), 0
        window.enforce(valid)
        assert calls[0] <= 3 * log2(longest + 1) + 3
        while gone < len(held) - 1 and not plain(held[gone:]):
            gone += 1
        del held[:gone]
        assert len(window) >= len(held)
        assert check(window, kind, held) <= 0.1 * (1 + 1e-9)
        uncertain += window.query().error > 0
        saved = max(saved, 1 - window.leaves / len(held))
    assert saved > 0.2
    assert uncertain or kind == "max"


def test_evictions_that_are_as_expected_cost_no_error_and_few_leaves() -> None:
    """A hopping window: whenever 300 updates are there, the 60 oldest go."""

    def hopping(candidate: Any, after: Any, before: Any) -> bool:
        return bool(before[0] >= 300 and candidate[0] <= 60)

    leaves = {}
    for hop in (False, True):
        window = made("count", wr.Within(relative=1e-6, confidence=0.95), hop=hop)
        held = 0
        for _ in range(2600):
            put(window, 1)
            held += 1
            window.enforce(evict=hopping)
            held -= 60 if held == 300 else 0
            if not hop or window.query().error == 0:
                assert window.query() == (held, 0.0)
        leaves[hop] = window.leaves
        assert window.query().error == 0.0
    assert leaves[True] < 0.4 * leaves[False]


def test_what_an_eviction_invariant_cannot_see_makes_the_error_infinite() -> None:
    window = made("count", wr.AtMost(leaves=8))
    for _ in range(100):
        put(window, 1)
    window.evict(3)
    value, error = window.query()
    assert abs(value - 97) <= error < inf
    window.enforce(evict=lambda candidate, after, before: candidate[0] <= 1)
    assert window.query().error == inf
    window.evict(len(window))
    put(window, 1)
    assert window.query() == (1, 0.0)


@pytest.mark.parametrize("kind", ["mean", "max"])
def test_compiled(kind: str) -> None:
    """Results, errors and leaves are those of the plain form, whatever is promised and however it is evicted."""
    x, dice = streams()["regimes"], random.Random(3)
    predicted = wr.Within(relative=0.1, confidence=0.95)
    for options in (
        {"within": wr.Within(relative=0.1, leaves=40)},
        {"within": predicted},
        {"within": predicted, "hop": True},
        {"within": wr.Within(rows=0.05)},
        {"within": wr.AtMost(leaves=20)},
    ):
        windows = [made(kind, compiled=compiled, **options) for compiled in (True, False)]
        saved = False
        for at, value in enumerate(x):
            n = dice.choice([1, 1, 1, 60]) if at >= RANGE else 0
            for window in windows:
                put(window, value)
                if at == 400:
                    window.enforce(lambda rest: rest[-1] <= 90)
                elif n <= len(window) and at < 400:
                    window.evict(n)
            assert windows[0].query() == windows[1].query(), (options, at)
            assert windows[0].leaves == windows[1].leaves
            saved = saved or windows[0].leaves < 0.9 * len(windows[0])
        assert saved, options


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_result_is_told_as_the_operator_tells_it(kind: str) -> None:
    draw, of = np.random.default_rng(2), KINDS[kind][0]
    low = np.concatenate([draw.normal(0, 1000, 50), draw.integers(-9, 9, 50), [2.0**53, 1e300, -inf, np.nan]])
    high = low + np.concatenate([draw.random(50), draw.integers(0, 4, 50), [6.0, 0.0, 0.0, 0.0]])
    high[-2] = inf
    if kind == "count":
        low, high = np.abs(np.rint(low[:100])), np.abs(np.rint(low[:100])) + np.rint(high - low)[:100]
    monoid = of.bind_dense()
    bucket = bucket_of("x", of, monoid)
    meta, settings = np.zeros(META, dtype=np.int64), np.zeros(SETTINGS)
    meta[WHOLE], meta[ROUNDED] = bucket.whole, bucket.rounded
    yes, count = np.ones(len(low), dtype=np.bool_), len(low)
    for state in (NUMBER, UNKNOWN, SURE):
        known = Bounds(low.copy(), high.copy(), np.zeros(count), yes, np.full(count, state))
        results, error = with_error(bucket, Results(np.zeros(count, monoid.results), yes.copy()), known)
        for at in range(count):
            with np.errstate(all="ignore"):
                tell((meta, None, None, settings), known.low[at], known.high[at], state)
            told = settings[VALUE], settings[ERROR]
            assert np.array_equal(told, (results.out[at], error[at]), equal_nan=True), (low[at], high[at])


def test_what_is_refused() -> None:
    for options, words in (
        ({"within": 0.1}, "within of A2MTA"),
        ({"within": wr.Within(relative=0.1), "hop": True}, "confidence"),
        ({"within": wr.Within(absolute=1.0)}, "rows="),
    ):
        with pytest.raises(QueryError, match=words):
            A2MTA(wr.Median(), compiled=False, **options)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="absolute"):
        A2MTA(wr.Mean(), compiled=False, within=wr.Within(absolute=1.0))
    window = made("count", wr.AtMost(leaves=4))
    for _ in range(50):
        put(window, 1)
    with pytest.raises(WindowError, match="holds 50 partials and cannot evict 51"):
        window.evict(51)
    with pytest.raises(WindowError, match="range_query"):
        window.range_query(0, 1)
    with pytest.raises(WindowError, match="insert_at"):
        window.insert_at(7, (1,))
    window.enforce(lambda rest: rest[0] <= 20)
    with pytest.raises(WindowError, match="inside a bucket"):
        window.evict(2)


def test_every_algorithm_can_be_imported_by_its_name() -> None:
    assert set(algorithms.__all__) == {*REGISTRY, "REGISTRY", "Algorithm"}
    assert all(getattr(algorithms, name) is kind for name, kind in REGISTRY.items())
