"""Kernels over extents against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import windrow as wr
from windrow.errors import AggregateError
from windrow.kernels.extents.layout import BLOCK, HELD, USED
from windrow.kernels.extents.skylines import Skylines
from windrow.kernels.extents.sliding import SlidingQuantiles, SlidingTopK
from windrow.kernels.extents.sorted_rows import blocks_needed
from windrow.testing.compare import same

SHARES = [0.0, 0.5, 0.9, 1.0]


def extents(random: np.random.Generator, rows: int, windows: int, shape: str) -> tuple[Any, Any]:
    if shape == "slides by one":
        lo = np.arange(windows)
        return lo, lo + rows - windows
    if shape == "short":
        lo = np.sort(random.integers(0, rows - 60, windows))
        return lo, np.maximum.accumulate(lo + random.integers(30, 60, windows))
    if shape == "tumbling":
        cuts = np.linspace(0, rows, windows + 1).astype(np.int64)
        return cuts[:-1], cuts[1:]
    lo, hi = random.integers(0, rows + 1, windows), random.integers(0, rows + 1, windows)
    if shape == "monotone":
        lo, hi = np.sort(lo), np.sort(hi)
        hi = np.maximum(lo, hi) - (np.arange(windows) % 7 == 0)  # some are empty, or end before they begin
        return lo, np.maximum.accumulate(np.maximum(hi, 0))
    return lo, hi


SHAPES = ["slides by one", "short", "tumbling", "monotone", "any"]


def columns(random: np.random.Generator, rows: int) -> dict[str, Any]:
    odd = random.normal(size=rows)
    odd[random.random(rows) < 0.01] = np.inf
    odd[random.random(rows) < 0.01] = -np.inf
    odd[random.random(rows) < 0.002] = np.nan
    odd[random.random(rows) < 0.002] = -np.nan
    return {
        "normal": random.normal(size=rows),
        "ties": random.integers(-3, 3, rows).astype(np.float64),
        "odd": odd,
        "ascending": np.arange(rows, dtype=np.float64),
        "descending": -np.arange(rows, dtype=np.float64),
        "large": random.choice([1.7e308, -1.7e308, 1.0, -0.0], rows),
        "integers": random.integers(-(2**62), 2**62, rows),
        "unsigned": random.integers(0, 2**64, rows, dtype=np.uint64),
        "small": random.integers(0, 100, rows).astype(np.int32),
        "single": random.normal(size=rows).astype(np.float32),
    }


def quantile_by_definition(aggregate: Any, values: Any, valid: Any, lo: Any, hi: Any) -> Any:
    monoid = aggregate.bind_dense()
    kept = values[lo:hi] if valid is None else values[lo:hi][valid[lo:hi]]
    return monoid.lower(np.sort(kept)) if len(kept) else None


def top_by_definition(k: int, values: Any, valid: Any, lo: int, hi: int) -> list[Any]:
    kept = values[lo:hi] if valid is None else values[lo:hi][valid[lo:hi]]
    return sorted(kept.tolist(), key=lambda x: (x != x, x), reverse=True)[:k]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("nulls", "calls"), [(False, 3), (True, 3), (True, 1)])
def test_quantiles_are_those_of_the_definition(shape: str, nulls: bool, calls: int) -> None:
    random = np.random.default_rng(11)
    rows, windows = 4 * BLOCK, 120
    for name, values in columns(random, rows).items():
        valid = random.random(rows) < 0.8 if nulls else None
        lo, hi = extents(random, rows, windows, shape)
        sliding = SlidingQuantiles(values.dtype, SHARES)
        out, ok = np.empty((windows, len(SHARES))), np.empty(windows, dtype=np.bool_)
        for some in np.array_split(
            np.arange(windows), calls
        ):  # the sorted rows are carried from call to call
            part, fine = out[some], ok[some]
            sliding.run(values, valid, lo[some], hi[some], part, fine)
            out[some], ok[some] = part, fine
        for w in range(windows):
            for q, share in enumerate(SHARES):
                expected = quantile_by_definition(wr.Quantile(q=share), values, valid, lo[w], hi[w])
                assert bool(ok[w]) == (expected is not None), (name, w)
                if expected is not None:
                    assert np.array_equal(out[w, q], expected, equal_nan=True), (name, w, share)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("nulls", [False, True])
def test_the_largest_values_are_those_of_the_definition(shape: str, nulls: bool) -> None:
    random = np.random.default_rng(12)
    rows, windows = 4 * BLOCK, 60
    for name, values in columns(random, rows).items():
        valid = random.random(rows) < 0.8 if nulls else None
        lo, hi = extents(random, rows, windows, shape)
        found = SlidingTopK(values.dtype, 5).run(values, valid, lo, hi).to_pylist()
        expected = [top_by_definition(5, values, valid, lo[w], hi[w]) for w in range(windows)]
        assert str(found) == str(expected).replace("-0.0", "0.0") or np.array_equal(
            np.array([cell for cells in found for cell in cells]),
            np.array([cell for cells in expected for cell in cells]),
            equal_nan=values.dtype.kind == "f",
        ), name


@pytest.mark.parametrize("order", ["random", "ascending", "descending", "alternating", "narrowing"])
def test_blocks_stay_within_their_room(order: str) -> None:
    """Windows that grow and shrink in every order of values: blocks are split, joined and dropped."""
    rows = 40 * BLOCK
    values = {
        "random": np.random.default_rng(1).integers(0, 1000, rows),
        "ascending": np.arange(rows),
        "descending": -np.arange(rows),
        "alternating": np.arange(rows) * (-1) ** np.arange(rows),
        "narrowing": (rows - np.arange(rows)) * (-1) ** np.arange(rows),
    }[order]
    steps = np.arange(0, rows, 7)
    hi = np.concatenate([steps, np.full(len(steps), rows)])
    lo = np.concatenate([np.zeros(len(steps), np.int64), steps])
    sliding = SlidingQuantiles(values.dtype, [0.25])
    out, ok = np.empty((len(lo), 1)), np.empty(len(lo), dtype=np.bool_)
    used = []
    for w in range(0, len(lo), 97):
        some = slice(w, w + 97)
        sliding.run(values, None, lo[some], hi[some], out[some], ok[some])
        head = sliding.carried.rows.state
        used.append((int(head[USED]), blocks_needed(int(head[HELD]) + 1)))
    assert all(blocks <= most for blocks, most in used)
    for w in np.flatnonzero(ok)[::50]:
        assert out[w, 0] == np.quantile(values[lo[w] : hi[w]], 0.25)


@pytest.mark.parametrize("window", [1, 2, 3, 40, 200])
def test_many_windows_at_once(window: int) -> None:
    """The rows are sorted in blocks, by insertion or by radix; equal values, the largest integers and empty windows too."""
    random = np.random.default_rng(window)
    rows = 3000
    for values in (
        random.normal(size=rows),
        random.integers(0, 4, rows),
        random.choice([2**63 - 1, -(2**63), 0], rows),
        random.choice([-1.0, 1e300], rows)
        * (1.0 + random.integers(0, 1000, rows) * 2.0**-52),  # close together
        np.where(random.random(rows) < 0.001, np.nan, random.normal(size=rows)),
    ):
        lo = np.repeat(np.arange(rows - window), 2)
        hi = lo + window - np.arange(len(lo)) % 2
        valid = random.random(rows) < 0.7
        hi = np.maximum.accumulate(hi)
        out, ok = np.empty((len(lo), 2)), np.empty(len(lo), dtype=np.bool_)
        SlidingQuantiles(values.dtype, [0.5, 0.8]).run(values, valid, lo, hi, out, ok)
        for w in range(0, len(lo), 7):
            for q, share in enumerate([0.5, 0.8]):
                expected = quantile_by_definition(wr.Quantile(q=share), values, valid, lo[w], hi[w])
                assert same(float(out[w, q]) if ok[w] else None, expected), (w, share)


def test_rows_that_moved_are_found_at_their_new_positions() -> None:
    values = np.random.default_rng(5).normal(size=5000)
    sliding = SlidingQuantiles(values.dtype, [0.5])
    out, ok = np.empty((1000, 1)), np.empty(1000, dtype=np.bool_)
    lo = np.arange(1000)
    sliding.run(values, None, lo, lo + 1000, out, ok)
    sliding.carried.shift(900)
    sliding.run(values[900:], None, lo + 100, lo + 1100, out, ok)
    assert out[-1, 0] == np.median(values[1999:2999])
    sliding.carried.shift(1500)  # rows that the last window has are gone
    sliding.run(values[2400:], None, lo, lo + 1000, out, ok)
    assert out[-1, 0] == np.median(values[3399:4399])


@pytest.mark.parametrize("shape", ["slides by one", "any"])
def test_interpreted_and_compiled_kernels_agree(shape: str) -> None:
    random = np.random.default_rng(3)
    values = columns(random, 400)["odd"]
    lo, hi = extents(random, 400, 250, shape)
    found = []
    for compiled in (True, False):
        out, ok = np.zeros((250, 2)), np.empty(250, dtype=np.bool_)
        SlidingQuantiles(values.dtype, [0.5, 0.99], compiled=compiled).run(values, None, lo, hi, out, ok)
        top = SlidingTopK(values.dtype, 3, compiled=compiled).run(values, None, lo, hi)
        found.append((out.tolist(), ok.tolist(), top.to_pylist()))
    assert same(found[0], found[1])


def test_an_order_statistic_of_text_is_refused() -> None:
    with pytest.raises(AggregateError, match="cast the column"):
        SlidingQuantiles(np.dtype(object), [0.5])


def skyline_by_definition(columns: list[Any], goals: list[str], rows: list[int]) -> list[int]:
    signs = [1 if goal == "min" else -1 for goal in goals]
    points = {
        row: [sign * float(column[row]) for sign, column in zip(signs, columns, strict=True)] for row in rows
    }
    points = {row: point for row, point in points.items() if not any(np.isnan(point))}

    def dominates(one: list[float], other: list[float]) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return [row for row, point in points.items() if not any(dominates(p, point) for p in points.values())]


@pytest.mark.parametrize("goals", [["min"], ["max", "min"], ["min", "min"], ["max", "max", "min"]], ids=str)
def test_skylines_are_those_of_the_definition(goals: list[str]) -> None:
    random = np.random.default_rng(13)
    rows, windows = 300, 25
    lo, hi = extents(random, rows, windows, "any")
    for _ in range(3):
        known = [
            values
            for name, values in columns(random, rows).items()
            if name in ("ties", "odd", "small", "normal")
        ]
        chosen = [known[i] for i in random.permutation(len(known))[: len(goals)]]
        valid = random.random(rows) < 0.9
        found, ends = Skylines([c.dtype for c in chosen], goals).run(chosen, valid, lo, hi)
        for w, begin in enumerate([0, *ends[:-1]]):
            usable = [row for row in range(lo[w], hi[w]) if valid[row]]
            assert found[begin : ends[w]].tolist() == skyline_by_definition(chosen, goals, usable)


def test_large_integers_and_large_skylines() -> None:
    """Neighbouring 64-bit integers are told apart, and a window whose rows are all in its skyline has room."""
    steps = np.arange(5000)
    lo, hi = np.array([0, 0, 2500]), np.array([5000, 5000, 5000])
    found, ends = Skylines([steps.dtype, steps.dtype], ["max", "max"]).run(
        [2**62 + steps, 2**62 - steps], None, lo, hi
    )
    assert ends.tolist() == [5000, 10000, 12500] and found.tolist() == [
        *range(5000),
        *range(5000),
        *range(2500, 5000),
    ]


def test_a_goal_of_a_skyline_is_min_or_max() -> None:
    with pytest.raises(AggregateError, match="'low'; expected 'min' or 'max'"):
        Skylines([np.dtype(np.float64)], ["low"])
