"""The sketches keep the errors they state."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.aggregates.algebra import Aggregate
from windrow.errors import AggregateError
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.testing import fold

RNG = np.random.default_rng(20)
SAMPLES = {
    "uniform": RNG.uniform(size=20_000),
    "normal": RNG.normal(size=20_000),
    "exponential": RNG.exponential(size=20_000),
    "lognormal": RNG.lognormal(1.0, 1.5, size=20_000),
    "far from zero": 1e6 + RNG.uniform(size=20_000),
    "normal, far from zero": RNG.normal(1e6, 1, size=20_000),
    "rising, far from zero": np.sort(RNG.normal(-1e9, 1, size=20_000)),
    "two humps": np.concatenate([RNG.normal(-4, 1, 10_000), RNG.normal(4, 2, 10_000)]),
}


def absorbed(aggregate: Aggregate, values: Any, type_: pa.DataType | None = None) -> Any:
    """The partial of many values, by the compiled kernel."""
    monoid = aggregate.bind([type_ or pa.float64()])
    parts = allocate(monoid, 1)
    specialise(fold, slots(monoid)).absorb(parts, (values,), 0, len(values))
    return tuple(part[0] for part in parts)


@pytest.mark.parametrize("name", SAMPLES)
def test_moment_sketch_is_near_in_rank(name: str) -> None:
    values = SAMPLES[name]
    partial = absorbed(wr.MomentSketch("x"), values)
    for q in (0.01, 0.1, 0.25, 0.5, 0.75, 0.95, 0.99):
        estimate = wr.MomentSketch("x", q=q).bind().result(partial)
        assert abs((values < estimate).mean() - q) <= 0.01, q


def test_moment_sketch_is_near_in_rank_from_merged_partials() -> None:
    values = SAMPLES["normal, far from zero"]
    sketch = wr.MomentSketch("x", q=0.95).bind()
    partial = sketch.identity
    for shard in np.split(values, 100):
        partial = sketch.combine(partial, absorbed(wr.MomentSketch("x"), shard))
    assert abs((values < sketch.result(partial)).mean() - 0.95) <= 0.01


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0], 5.0),
        ([5.0, 5.0, 5.0], 5.0),
        ([1.0, 3.0], 2.0),
        ([1.0, math.nan, 3.0], math.nan),
        ([1.0, math.inf], math.nan),
        ([0.0, 1e308, -1e308], math.nan),  # its range is infinite
    ],
)
def test_moment_sketch_of_few_or_impossible_values(values: list[float], expected: float) -> None:
    sketch = wr.MomentSketch("x").bind()
    with np.errstate(invalid="ignore"):
        assert sketch.result(sketch.fold([(x,) for x in values])) == pytest.approx(expected, nan_ok=True)


def test_moment_sketch_stays_inside_the_range() -> None:
    for q in (0.0, 0.001, 0.5, 0.999, 1.0):
        sketch = wr.MomentSketch("x", q=q).bind()
        for values in (
            [0.0] * 20 + [1.0],
            [1e-300, 1.0, 1e300],
            [1e200, 2e200, 5e200],
            [1e15, 1e15 + 1, 1e15 + 3],
        ):
            assert min(values) <= sketch.result(sketch.fold([(x,) for x in values])) <= max(values)


@pytest.mark.parametrize("distinct", [0, 1, 10, 1000, 30_000, 300_000])
def test_hyperloglog_is_within_its_error(distinct: int) -> None:
    values = np.repeat(np.arange(distinct, dtype=np.float64), 2) * math.pi
    aggregate = wr.HyperLogLog("x")
    estimate = aggregate.bind().result(absorbed(aggregate, values))
    assert abs(estimate - distinct) <= 3 * 1.04 / math.sqrt(2**12) * distinct


def test_hyperloglog_of_text_and_of_zeros() -> None:
    words = wr.HyperLogLog("word").bind([pa.string()])
    assert (
        words.result(
            words.fold([(word,) for word in ["the", "cat", "and", "the", "dog", "and", "the", "bird"]])
        )
        == 5
    )
    zeros = wr.HyperLogLog("x").bind()
    assert zeros.result(zeros.fold([(0.0,), (-0.0,), (math.nan,), (-math.nan,)])) == 2
    assert zeros.result(zeros.fold([(None,)])) == 0


def test_bloom_filter_never_forgets_and_rarely_errs() -> None:
    aggregate = wr.BloomFilter("x", capacity=500, error=0.01)
    monoid = aggregate.bind([pa.int64()])
    blob = monoid.result(monoid.fold([(x,) for x in range(500)]))
    assert all(wr.BloomFilter.contains(blob, x) for x in range(500))
    assert sum(wr.BloomFilter.contains(blob, x) for x in range(500, 5500)) <= 0.02 * 5000
    assert wr.BloomFilter.contains(blob, 3.0) and wr.BloomFilter.contains(blob, np.int32(3))
    with pytest.raises(AggregateError, match="not a result of BloomFilter"):
        wr.BloomFilter.contains(b"", 3)


def filled(type_: pa.DataType, *values: Any) -> bytes:
    """The result of a filter with few false answers."""
    monoid = wr.BloomFilter("x", capacity=100, error=1e-6).bind([type_])
    blob: bytes = monoid.result(monoid.fold([(x,) for x in values]))
    return blob


def test_bloom_filter_compares_numbers_by_value() -> None:
    prices = filled(pa.decimal128(10, 2), Decimal("3.00"), Decimal("0.10"), Decimal("0.00"))
    for same in (Decimal("3"), Decimal("3.000"), 3, 3.0, np.int8(3), 0.1, Decimal("0.1"), 0, -0.0):
        assert wr.BloomFilter.contains(prices, same), same
    for other in (Decimal("3.001"), 4, "3", math.nan, math.inf, Decimal("1e999"), Decimal("1e-999")):
        assert not wr.BloomFilter.contains(prices, other), other
    for numbers in (filled(pa.int64(), 3), filled(pa.float64(), 3.0)):
        assert wr.BloomFilter.contains(numbers, Decimal("3.00"))
        assert not wr.BloomFilter.contains(numbers, Decimal("3.01"))
    assert wr.BloomFilter.contains(filled(pa.float64(), 0.1), Decimal("0.1"))


def test_bloom_filter_reads_results_of_earlier_versions() -> None:
    """They did not name the scale of their decimals."""
    earlier = filled(pa.decimal128(10, 2), Decimal("3.00"))[:-1]
    assert wr.BloomFilter.contains(earlier, Decimal("3.00"))


def test_bloom_filter_is_asked_for_times_by_their_integer() -> None:
    blob = filled(pa.timestamp("us"), 86_400_000_000)
    assert wr.BloomFilter.contains(blob, 86_400_000_000)
    with pytest.raises(AggregateError, match="holds times as integers"):
        wr.BloomFilter.contains(blob, datetime.datetime(1970, 1, 2))


def test_decimals_of_a_column_are_counted_by_value() -> None:
    distinct = wr.HyperLogLog("x").bind([pa.decimal128(10, 2)])
    column = pa.array([Decimal("3"), Decimal("3.0"), Decimal("3.00"), Decimal("4")], pa.decimal128(10, 2))
    assert distinct.result(distinct.fold([(x,) for x in distinct.scalars(column)])) == 2


def test_hashes_never_change() -> None:
    """They are in stored state; another hash would need another format."""
    from windrow.aggregates.hashing import digest, hash_float, hash_signed, hash_unsigned

    assert [hash_float(1.5), hash_signed(-1), hash_unsigned(2**64 - 1)] == [
        15481881892811333770,
        16490336266968443936,
        16490336266968443936,
    ]
    assert digest("windrow") == 41209659351468342559531119696395630989
