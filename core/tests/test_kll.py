"""KLL keeps the error in rank that it states, however rows come and however they are grouped."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.columns.arrow import Array
from windrow.errors import AggregateError
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.testing import fold

N = 100_000
Q = (0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
RNG = np.random.default_rng(16)
SAMPLES: dict[str, Array] = {
    "uniform": RNG.uniform(size=N),
    "sorted": np.arange(N, dtype=np.float64),
    "reversed": np.arange(N, dtype=np.float64)[::-1].copy(),
    "from both ends": np.column_stack([np.arange(N // 2), N - np.arange(N // 2)]).ravel().astype(np.float64),
    "saw": np.arange(N) * 77.0 % 1009.0,
    "zipf": RNG.zipf(1.3, size=N).astype(np.float64),
    "few values": RNG.integers(0, 7, size=N).astype(np.float64),
    "heavy tails": RNG.standard_cauchy(size=N) ** 3,
    "infinities": np.where(
        RNG.uniform(size=N) < 0.1, -math.inf, np.where(RNG.uniform(size=N) < 0.2, math.inf, 7.0)
    ),
    "integers": RNG.integers(-(2**40), 2**40, size=N),
}


@cache
def kernels(k: int, type_: pa.DataType) -> tuple[Any, Any]:
    monoid = wr.KLL("x", k=k).bind([type_])
    return monoid, specialise(fold, slots(monoid))


def absorbed(values: Array, k: int = 200) -> Any:
    """The partial of many values, by the compiled kernel."""
    monoid, kernel = kernels(k, pa.from_numpy_dtype(values.dtype))
    parts = allocate(monoid, 1)
    kernel.absorb(parts, (values,), 0, len(values))
    return tuple(part[0] for part in parts)


def off(values: Array, results: list[float], q: tuple[float, ...] = Q) -> float:
    """How far the ranks of results are from those asked for, at most, as a share of the rows."""
    ascending = np.sort(values)
    below = np.searchsorted(ascending, results, "left") / len(values)
    until = np.searchsorted(ascending, results, "right") / len(values)
    return float(np.maximum(0.0, np.maximum(below - q, q - until)).max())


def asked(partial: Any, k: int = 200) -> list[float]:
    found: list[float] = wr.KLL("x", q=Q, k=k).bind().result(partial)
    return found


@pytest.mark.parametrize("name", SAMPLES)
def test_ranks_are_near(name: str) -> None:
    values = SAMPLES[name]
    partial = absorbed(values)
    results = asked(partial)
    assert off(values, results) <= wr.KLL("x").rank_error
    assert set(results) <= set(values.tolist())
    ends = wr.KLL("x", q=(0.0, 1.0)).bind().result(partial)
    assert ends == [values.min(), values.max()]


@pytest.mark.parametrize("k", [8, 800])
def test_a_larger_k_is_nearer(k: int) -> None:
    values = SAMPLES["uniform"]
    partial = absorbed(values, k)
    assert off(values, asked(partial, k)) <= wr.KLL("x", k=k).rank_error
    assert int(partial[3].sum()) <= 3 * k + 40
    assert int((partial[3].astype(np.int64) << np.arange(40)).sum()) == N  # every row is stood for


@pytest.mark.parametrize("name", ["uniform", "sorted", "zipf", "saw"])
@pytest.mark.parametrize("rows", [3, 250, 5000])
def test_ranks_are_near_from_merged_partials(name: str, rows: int) -> None:
    """From left to right, and as a tree over the same partials."""
    combine = wr.KLL("x").bind().combine
    values = SAMPLES[name][: rows * 200]
    partials = [absorbed(shard) for shard in np.split(values, len(values) // rows)]
    line = partials[0]
    for partial in partials[1:]:
        line = combine(line, partial)
    while len(partials) > 1:
        last = partials[len(partials) // 2 * 2 :]
        partials = [combine(a, b) for a, b in zip(partials[::2], partials[1::2], strict=False)] + last
    for merged in (line, partials[0]):
        assert merged[2] == len(values)
        assert off(values, asked(merged)) <= wr.KLL("x").rank_error


@pytest.mark.parametrize("rows", [1, 2, 7, 640])
def test_as_long_as_there_is_room_it_is_exact_however_rows_are_grouped(rows: int) -> None:
    values = np.round(SAMPLES["heavy tails"][:rows], 1)
    exact = [float(np.sort(values)[max(0, math.ceil(q * rows) - 1)]) for q in Q]
    monoid = wr.KLL("x", q=Q).bind()
    assert asked(absorbed(values)) == exact
    assert asked(absorbed(RNG.permutation(values))) == exact
    merged = monoid.empty()
    for shard in np.array_split(values, 5):
        merged = monoid.combine(absorbed(shard), merged) if len(shard) else merged
    assert asked(merged) == exact


def test_merging_is_commutative_bit_by_bit() -> None:
    combine = wr.KLL("x").bind().combine
    one, other = absorbed(SAMPLES["uniform"][:30_000]), absorbed(SAMPLES["zipf"][:5_000])
    there, back = combine(one, other), combine(other, one)
    assert asked(there) == asked(back)
    assert (there[3] == back[3]).all()


def test_compiled_and_interpreted_partials_are_the_same() -> None:
    values = SAMPLES["zipf"][:3000]
    monoid, _ = kernels(8, pa.float64())
    parts = allocate(monoid, 1)
    specialise(fold, slots(monoid), compiled=False).absorb(parts, (values,), 0, len(values))
    for ours, theirs in zip(absorbed(values, 8), parts, strict=True):
        assert np.array_equal(ours, theirs[0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], None),
        ([None, None], None),
        ([5.0, None], 5.0),
        ([1.0, 3.0], 1.0),
        ([1.0, math.nan, 3.0], math.nan),
        ([-math.inf, -math.inf, math.inf], -math.inf),
        ([1.0, math.inf, math.inf], math.inf),
        ([-0.0, 0.0, 1.0], 0.0),
    ],
)
def test_few_or_special_values(values: list[float | None], expected: float | None) -> None:
    median = wr.KLL("x").bind()
    result = median.result(median.fold([(x,) for x in values]))
    assert result is None if expected is None else result == pytest.approx(expected, nan_ok=True)
    if expected == 0.0:
        assert math.copysign(1.0, result) == 1.0


def test_nan_stays_when_levels_are_compacted() -> None:
    values = SAMPLES["uniform"][:4000].copy()
    values[1500] = math.nan
    combine = wr.KLL("x").bind().combine
    one, other = absorbed(values), absorbed(SAMPLES["uniform"])
    for partial in (one, combine(one, other), combine(other, one)):
        assert all(math.isnan(result) for result in asked(partial))


def test_booleans_and_integers() -> None:
    flags = wr.KLL("x", q=[0.5, 0.9]).bind([pa.bool_()])
    assert flags.result(flags.fold([(False,), (False,), (True,)])) == [0.0, 1.0]
    whole = wr.KLL("x", q=1.0).bind([pa.int64()])
    assert whole.result(whole.fold([(2**53 + 1,), (-1,)])) == float(2**53)


def test_every_window_is_near() -> None:
    values = SAMPLES["uniform"][:20_000]
    assert near(values, wr.KLL("x", q=0.9, k=20), wr.TimeWindow(8000, 1000)) == 27


@pytest.mark.parametrize("algorithm", ["TwoStacksLite", "DABALite", "PBA"])
def test_every_window_is_near_whatever_computes_it(algorithm: str) -> None:
    values = SAMPLES["uniform"][:1500]
    window = wr.TimeWindow(500, 100)
    assert near(values, wr.KLL("x", q=0.9, k=20), window, algorithm=algorithm, compiled=False) == 19


def near(values: Array, aggregate: wr.KLL, window: wr.TimeWindow, compiled: bool = True, **how: Any) -> int:
    """How many windows there are, after it was checked that all are near."""
    rows = pa.table({"ts": np.arange(len(values)), "x": values})
    query = wr.Query(window=window, aggregates={"p": aggregate}, **how)
    operator = wr.Operator(query, compiled=compiled)
    windows = pa.concat_tables([operator.process(rows), operator.flush()]).to_pylist()
    for found in windows:
        inside = values[max(0, found["window_start"]) : found["window_end"]]
        assert off(inside, [found["p"]], (0.9,)) <= aggregate.rank_error
    return len(windows)


def test_batches_and_restarts_change_nothing() -> None:
    values = SAMPLES["uniform"][:6000]
    rows = pa.table({"ts": np.arange(len(values)), "x": values})
    query = wr.Query(window=wr.TimeWindow(3000, 500), aggregates={"p": wr.KLL("x", q=0.9, k=20)})
    whole = wr.aggregate(rows, query)
    operator, pieces = wr.Operator(query), []
    for begin in range(0, len(values), 700):
        pieces.append(operator.process(rows.slice(begin, 700)))
        pieces.append(operator.advance(begin + 700))
        operator = wr.Operator.restore(query, operator.snapshot())
    pieces.append(operator.flush())
    assert pa.concat_tables(pieces).equals(whole)


def test_state_that_was_tampered_with_does_no_harm() -> None:
    """Interpreted code would raise where compiled code writes past the end."""
    monoid, _ = kernels(8, pa.float64())
    functions = slots(monoid)
    for level in (0, 20, 39):
        parts = allocate(monoid, 3)
        parts[2][:] = 9
        parts[3][:2, level] = 65535
        functions["merge"](parts, 2, parts, 0, parts, 1)
        functions["add"](parts, 0, 0, (np.array([1.0]),))
        for slot in range(3):
            assert functions["lower"](parts, slot) in (0.0, 1.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"k": 7}, "k is 7; expected a whole number from 8 to 4096"),
        ({"q": 1.5}, "q is 1.5; expected a number from 0 to 1, or a list"),
        ({"q": ()}, r"q is \(\)"),
        ({"q": (0.5, "x")}, "q is"),
        ({"q": True}, "q is True"),
    ],
)
def test_parameters_are_checked(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(AggregateError, match=message):
        wr.KLL("x", **parameters)


def test_it_is_refused_for_what_is_no_number() -> None:
    with pytest.raises(AggregateError, match="needs a numeric column"):
        wr.KLL("x").bind([pa.string()])


def test_it_can_be_written_as_json() -> None:
    query = wr.Query(window=wr.TimeWindow(10), aggregates={"p": wr.KLL("x", q=(0.5, 0.9))})
    assert wr.Query.from_json(query.to_json()) == query
