"""What the cards of the algorithms promise, counted: combines per slide, and partials held."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from math import ceil, log2
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windrow.aggregates.algebra import Field, Monoid
from windrow.algorithms import REGISTRY, Algorithm
from windrow.algorithms.chunk import chunk_size_count

INT64 = (pa.int64(),)
SIZES = (1, 2, 3, 8, 64, 1000)


class Count:
    """Combines and inversions in the thread that slides the window, not in a worker."""

    def __init__(self) -> None:
        self.here = threading.get_ident()
        self.combines = 0

    def tick(self) -> None:
        if threading.get_ident() == self.here:
            self.combines += 1


def counting(kind: str) -> tuple[Count, Monoid]:
    count = Count()

    def plus(a: int, b: int) -> int:
        count.tick()
        return a + b

    def minus(a: int, b: int) -> int:
        count.tick()
        return a - b

    def larger(a: int, b: int) -> int:
        count.tick()
        return b if b > a else a

    if kind == "selective":
        return count, Monoid("largest", None, -1, int, larger, int, pa.int64(), INT64, selective=True)
    inverse = minus if kind == "invertible" else None
    return count, Monoid("total", None, 0, int, plus, int, pa.int64(), INT64, invert=inverse)


def levels(n: int) -> int:
    return ceil(log2(n + 1))


# Per algorithm: the kind of aggregate; for n, the most combines per slide, amortised and worst; the most
# partials.
# A slide inserts, evicts and queries, so for a moment there are n + 1.
Bound = Callable[[int], float]
PROMISED: list[tuple[str, str, Bound, Bound, Bound]] = [
    ("Recal", "any", lambda n: n - 1, lambda n: n - 1, lambda n: n + 1),
    ("SubtractOnEvict", "invertible", lambda n: 2, lambda n: 2, lambda n: n + 2),
    ("TwoStacks", "any", lambda n: 3, lambda n: n, lambda n: 2 * n + 2),
    ("TwoStacksLite", "any", lambda n: 3, lambda n: n, lambda n: n + 2),
    ("DABA", "any", lambda n: 5, lambda n: 8, lambda n: 2 * n + 2),
    ("DABALite", "any", lambda n: 5, lambda n: 6, lambda n: n + 3),
    ("FlatFAT", "any", lambda n: 4 * levels(n) + 1, lambda n: 4 * levels(n) + 1, lambda n: 4 * n + 5),
    ("FlatFIT", "any", lambda n: 3, lambda n: n, lambda n: n + 1),
    ("SlickDeque", "invertible", lambda n: 2, lambda n: 2, lambda n: n + 2),
    ("SlickDeque", "selective", lambda n: 2, lambda n: n, lambda n: n + 2),
    ("SlideSide", "any", lambda n: 3, lambda n: n, lambda n: 2 * n + 2),
    ("SBA", "any", lambda n: 4, lambda n: 3 + chunk_size_count(n), lambda n: n + 4),
    ("PBA", "any", lambda n: 3, lambda n: 3, lambda n: (3 * n + 13) / 2),
    ("LMTA", "any", lambda n: 2 * levels(n) + 3, lambda n: 2 * levels(n) + 3, lambda n: 3 * n + 3),
    ("AMTA", "any", lambda n: 5, lambda n: 5 * levels(n) + 5, lambda n: 2 * n + levels(n) + 5),
    ("A2MTA", "any", lambda n: 5, lambda n: 5 * levels(n) + 5, lambda n: 2 * n + levels(n) + 5),
    ("FiBA", "any", lambda n: 10, lambda n: 10 * levels(n) + 10, lambda n: 6 * n + 11),
]


def test_every_algorithm_promises_something() -> None:
    assert {name for name, *_ in PROMISED} == set(REGISTRY)


def window_of(name: str, monoid: Monoid, n: int) -> Algorithm:
    options: dict[str, Any] = {"range": n} if name in ("SBA", "PBA") else {}
    if name == "PBA":
        options["small_chunk"] = 0
    return REGISTRY[name](monoid, capacity=n + 1, compiled=False, **options)


@pytest.mark.parametrize("evict_first", [False, True])
@pytest.mark.parametrize(
    ("name", "kind", "amortised", "worst", "space"), PROMISED, ids=lambda p: p if isinstance(p, str) else ""
)
def test_combines_per_slide(
    name: str, kind: str, amortised: Bound, worst: Bound, space: Bound, evict_first: bool
) -> None:
    for n in SIZES if name != "Recal" else SIZES[:-1]:
        count, monoid = counting(kind)
        window = window_of(name, monoid, n)
        dice = random.Random(n)
        for _ in range(n):
            window.insert(dice.randrange(1000))
        window.query()
        slides, most = max(3 * n, 100), 0
        count.combines = 0
        for _ in range(slides):
            before = count.combines
            if evict_first:
                window.evict()
            window.insert(dice.randrange(1000))
            assert window.partials <= space(n)
            if not evict_first:
                window.evict()
            window.query()
            most = max(most, count.combines - before)
        assert most <= worst(n), n
        assert count.combines <= amortised(n) * slides + 8, n


@pytest.mark.parametrize("range_", [256, 320, 1000, 4096])
def test_combines_of_amta_over_a_column(range_: int) -> None:
    """In runs of rows. If a combine selects, four chains do not wait for each other, at 3/4 of a combine a row more."""
    slides = 2 * range_
    single, chains = (combines_over_a_column(range_, slides, selective) for selective in (False, True))
    assert single <= 4.6 * slides
    assert 0.74 * slides < chains - single <= 0.75 * slides


def combines_over_a_column(range_: int, slides: int, selective: bool) -> int:
    """Those of AMTA's loop, interpreted, after the window is full."""
    combines, counted = 0, []

    def larger(a: tuple[int], b: tuple[int]) -> tuple[int]:
        nonlocal combines
        combines += 1
        return a if a > b else b

    def lift(x: int) -> tuple[int]:
        return (x,)

    def lower(partial: tuple[int]) -> int:
        return partial[0]

    fields = (Field("x", np.dtype(np.int64)),)
    monoid = Monoid("largest", fields, (-1,), lift, larger, lower, pa.int64(), INT64, selective=selective)
    x = np.random.default_rng(range_).integers(0, 1000, range_ + slides)
    for end in (range_, range_ + slides):
        out = np.zeros(end - range_ + 1, dtype=np.int64)
        ok = np.ones(len(out), dtype=np.bool_)
        REGISTRY["AMTA"].sliding(monoid, (x[:end],), range_, 1, out, ok, compiled=False)
        counted.append(combines)
        combines = 0
    assert out.tolist() == [x[at : at + range_].max() for at in range(slides + 1)]
    return counted[1] - counted[0]


@pytest.mark.parametrize("data", [range(5000), range(5000, 0, -1), [1] * 5000])
def test_deques_of_sorted_data(data: Any) -> None:
    count, monoid = counting("selective")
    window = window_of("SlickDeque", monoid, 100)
    for i, value in enumerate(data):
        window.insert(value)
        if i >= 100:
            window.evict()
        window.query()
    assert count.combines < 2 * len(data)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("LMTA", lambda n: log2(n) + 1),
        ("AMTA", lambda n: 4 * log2(n) + 2),
        ("FlatFAT", lambda n: 6 * log2(n) + 1),
        ("FiBA", lambda n: 10 * log2(n)),
    ],
)
def test_bulk_evictions_are_logarithmic(name: str, most: Bound) -> None:
    for n in (64, 1000, 4096):
        for gone in {*range(1, n, n // 9), n // 2, n - 1}:
            count, monoid = counting("any")
            window = window_of(name, monoid, n)
            for _ in range(n):
                window.insert(1)
            count.combines = 0
            window.evict(gone)
            assert window.query() == n - gone
            assert count.combines <= most(n), (n, gone)


@pytest.mark.parametrize("name", ["LMTA", "AMTA", "FlatFAT", "FiBA"])
def test_range_queries_and_updates_are_logarithmic(name: str) -> None:
    n = 4096
    count, monoid = counting("any")
    window: Any = window_of(name, monoid, n)
    for _ in range(n):
        window.insert(1)
    dice = random.Random(3)
    for _ in range(200):
        lo, hi = sorted((dice.randrange(n), dice.randrange(n)))
        count.combines = 0
        assert window.range_query(lo, hi) == hi - lo
        assert count.combines <= 8 * log2(n)
        window.insert_at(lo, 0)
        assert count.combines <= 16 * log2(n)


def test_disorder_costs_by_its_distance() -> None:
    for distance in (1, 10, 100):
        count, monoid = counting("any")
        window: Any = window_of("FiBA", monoid, 4096)
        for time in range(4096):
            window.insert_at(2 * time, 1)
        count.combines = 0
        for time in range(4096, 6096):
            window.insert_at(2 * time, 1)
            window.insert_at(2 * (time - distance) + 1, 1)
        assert count.combines <= 2000 * (12 + 6 * log2(distance + 1)), distance


def test_a_bulk_insertion_renews_each_node_once() -> None:
    count, monoid = counting("any")
    one, many = window_of("FiBA", monoid, 4096), window_of("FiBA", monoid, 4096)
    assert isinstance(many, REGISTRY["FiBA"])
    for window in (one, many):
        for time in range(0, 8192, 2):
            window.insert_at(time, 1)  # type: ignore[attr-defined]
    times = random.Random(4).sample(range(1, 8192, 2), 2000)
    count.combines = 0
    many.bulk_insert(times, [1] * len(times))  # type: ignore[attr-defined]
    together, count.combines = count.combines, 0
    for time in times:
        one.insert_at(time, 1)  # type: ignore[attr-defined]
    assert one.query() == many.query() == 6096
    assert together < count.combines / 3
    assert together <= 4 * 6096
