"""Fits: polynomials and models of one's own, against certified values and against exact arithmetic."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import whole_window
from nist_strd import NONLINEAR, POLYNOMIALS, saturation

import windrow as wr
from windrow.errors import AggregateError
from windrow.kernels.extents.levenberg_marquardt import levenberg_marquardt
from windrow.kernels.specialise import specialise
from windrow.testing import oracle
from windrow.testing.compare import same

START = 1_700_000_000_000_000
"""A time of today, in microseconds."""


def exact_fit(x: list[Any], y: list[Any], degree: int, origin: Any) -> list[float]:
    """The coefficients in powers of x - origin, in rational numbers."""
    u = [Fraction(a) - Fraction(origin) for a in x]
    v = [Fraction(b) for b in y]
    rows = [[sum(a ** (i + j) for a in u) for j in range(degree + 1)] for i in range(degree + 1)]
    right = [sum(a**i * b for a, b in zip(u, v, strict=True)) for i in range(degree + 1)]
    for i in range(degree + 1):
        for k in range(i + 1, degree + 1):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
            right[k] -= factor * right[i]
    found = [Fraction(0)] * (degree + 1)
    for i in range(degree, -1, -1):
        rest = sum(rows[i][j] * found[j] for j in range(i + 1, degree + 1))
        found[i] = (right[i] - rest) / rows[i][i]
    return [float(c) for c in found]


def fitted(aggregate: wr.Aggregate, x: Any, y: Any, types: list[pa.DataType] | None = None) -> Any:
    monoid = aggregate.bind(types)
    return monoid.result(monoid.fold(list(zip(x, y, strict=True))))


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_have_the_certified_values(name: str) -> None:
    case = POLYNOMIALS[name]
    degree = len(case.certified) - 1
    found = fitted(wr.PolynomialFit("x", "y", degree=degree, origin=0), case.x, case.y)
    assert found[: degree + 1] == pytest.approx(case.certified, rel=1e-6)
    *_, r2, residual, n = found
    spread = sum((b - sum(case.y) / n) ** 2 for b in case.y)
    assert n == len(case.x) and r2 == pytest.approx(case.r2, rel=1e-9)
    assert residual == pytest.approx(case.residual, rel=1e-6, abs=1e-13 * spread)
    about_the_mean = fitted(wr.PolynomialFit("x", "y", degree=degree), case.x, case.y)
    exact = exact_fit(case.x, case.y, degree, about_the_mean[degree + 1])
    assert about_the_mean[: degree + 1] == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
def test_epoch_times_keep_all_digits(degree: int) -> None:
    """Beside rational arithmetic, after a million slides, however the rows are spread and whatever the level of y."""
    random = np.random.default_rng(degree)
    rows, window = (1_000_000 if degree == 2 else 20_000), 200
    times = START + np.cumsum(random.choice([1, 3, 1000, 250_000], rows))
    prices = 1e5 + np.cumsum(random.normal(0.0, 0.01, rows))
    found = wr.sliding((times, prices), wr.PolynomialFit("ts", "price", degree=degree), range=window)
    for w in [0, 1, window, *random.integers(0, len(found), 5), len(found) - 1]:
        x, y = times[w : w + window].tolist(), prices[w : w + window].tolist()
        assert found["origin"][w] == round(Fraction(sum(x), window))
        exact = exact_fit(x, y, degree, int(found["origin"][w]))
        got = [float(found[f"c{k}"][w]) for k in range(degree + 1)]
        reach = (x[-1] - x[0]) / 2.0  # a coefficient matters by what it adds at the ends of the window
        sizes = [max(abs(c) * reach**k for k, c in enumerate(exact[1:], 1))] * (degree + 1)
        for k in range(degree + 1):
            assert abs(got[k] - exact[k]) * reach**k <= 1e-8 * max(abs(exact[k]) * reach**k, 1e-3 * sizes[k])


def test_the_result_of_a_time_is_per_second_about_a_time() -> None:
    begin = datetime(2024, 3, 1, 12, 0, 0)
    times = [begin + timedelta(milliseconds=500 * i) for i in range(4)]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us")), "load": [1.0, 2.0, 3.0, 4.0]})
    fits = {"line": wr.LinearFit("ts", "load"), "hourly": wr.LinearFit("ts", "load", unit="1h")}
    query = wr.Query(time="ts", window=wr.TimeWindow("2s"), aggregates=fits)
    (row,) = wr.aggregate(table, query).to_pylist()
    line = {
        "c0": 2.5,
        "c1": 2.0,
        "origin": begin + timedelta(milliseconds=750),
        "r2": 1.0,
        "residual": 0.0,
        "n": 4,
    }
    assert row["line"] == line
    assert row["hourly"]["c1"] == pytest.approx(7200.0)


@pytest.mark.parametrize(
    ("type_", "unit", "slope"),
    [
        (pa.int64(), None, 0.5),
        (pa.int64(), "1s", 5e5),
        (pa.timestamp("ns"), None, 5e8),
        (pa.timestamp("ms", "UTC"), None, 5e2),
        (pa.duration("s"), "1m", 30.0),
        (pa.date32(), "1d", 0.5),
        (pa.uint64(), None, 0.5),
        (pa.float32(), None, 0.5),
        (pa.bool_(), None, 0.5),
    ],
    ids=str,
)
def test_x_may_be_any_number_or_time(type_: pa.DataType, unit: str | None, slope: float) -> None:
    x = [0, 1] if pa.types.is_boolean(type_) else [3, 5]
    found = fitted(
        wr.LinearFit("x", "y", unit=unit), x, [1.0, 1.0 + 0.5 * (x[1] - x[0])], [type_, pa.float64()]
    )
    assert found[1] == pytest.approx(slope)


@pytest.mark.parametrize(
    ("degree", "x"),
    [
        (1, [5]),
        (1, [5] * 100),
        (2, [5, 7] * 100),
        (2, [0, 1e-12, 1.0]),
        (3, [1, 2, 3] * 5),
        (5, [1, 2, 3, 4, 5] * 9),
    ],
)
def test_too_few_distinct_x_are_null(degree: int, x: list[float]) -> None:
    for shift in (0.0, 0.1, 1e6):
        y = [math.sin(3.0 * i) for i in range(len(x))]
        assert fitted(wr.PolynomialFit("x", "y", degree=degree), [a + shift for a in x], y) is None
        whole = [int(a) + START for a in x]
        types = [pa.int64(), pa.float64()]
        assert fitted(wr.PolynomialFit("x", "y", degree=degree), whole, y, types) is None


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_makes_coefficients_nan(odd: float) -> None:
    x, y = [0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]
    for at in range(4):
        c0, c1, c2, origin, r2, residual, n = fitted(
            wr.PolynomialFit("x", "y"), x, [*y[:at], odd, *y[at + 1 :]]
        )
        assert all(math.isnan(c) for c in (c0, c1, c2, r2, residual)) and (origin, n) == (1.5, 4)
        *found, n = fitted(wr.PolynomialFit("x", "y"), [*x[:at], odd, *x[at + 1 :]], y)
        assert all(math.isnan(c) for c in found) and n == 4


def test_constant_y_is_explained() -> None:
    assert fitted(wr.LinearFit("x", "y"), [0.0, 1.0, 2.0], [0.1] * 3) == (0.1, 0.0, 1.0, 1.0, 0.0, 3)


def test_the_operator_gives_what_the_oracle_gives() -> None:
    random = np.random.default_rng(8)
    rows = 400
    table = pa.table(
        {
            "key": random.integers(0, 3, rows),
            "ts": pa.array(START + np.sort(random.integers(0, 10**7, rows)), pa.timestamp("us")),
            "x": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.2),
            "y": pa.array(random.normal(size=rows), mask=random.random(rows) < 0.2),
        }
    )
    fits = {"line": wr.LinearFit("ts", "y"), "curve": wr.PolynomialFit("x", "y", degree=2), "n": wr.Count()}
    for window in (wr.TimeWindow("1s", "100ms"), wr.CountWindow(5, 1), wr.SessionWindow("50ms")):
        query = wr.Query(by="key", time="ts", window=window, aggregates=fits)
        got, expected = wr.aggregate(table, query).to_pylist(), oracle.evaluate(table, query).to_pylist()
        assert len(got) == len(expected) and any(row["curve"] is None for row in got)
        for one, other in zip(got, expected, strict=True):
            assert same(plain(one), plain(other), 1e-9, 1.0), (one, other)


def plain(row: Any) -> Any:
    """A row whose times are numbers."""
    if isinstance(row, dict):
        return {name: plain(value) for name, value in row.items()}
    return row.timestamp() if isinstance(row, datetime) else row


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wr.PolynomialFit("x", "y", degree=0), "degree is 0; expected a whole number from 1 to 5"),
        (lambda: wr.PolynomialFit("x", "y", degree=6), "degree is 6"),
        (lambda: wr.LinearFit("x", "y", origin="mean"), "origin is 'mean'; expected a number"),
        (lambda: wr.LinearFit("x", "y", unit="-1s"), "unit is '-1s'"),
        (lambda: wr.LinearFit("x", "y", unit="1s").bind(), "has no unit; leave unit out"),
        (lambda: wr.LinearFit("x", "y").bind([pa.string(), pa.float64()]), "needs a numeric column"),
        (lambda: wr.LinearFit("x", "y").bind([pa.float64(), pa.timestamp("us")]), "needs a numeric column"),
        (
            lambda: wr.LinearFit("x", "y", origin=0).bind([pa.timestamp("us"), pa.float64()]),
            "leave origin out",
        ),
        (
            lambda: wr.LinearFit("x", "y", origin=0.5).bind([pa.int64(), pa.float64()]),
            "expected a whole number",
        ),
    ],
)
def test_what_cannot_be_fitted_is_refused(make: Any, message: str) -> None:
    with pytest.raises(AggregateError, match=message):
        make()


# Models of one's own.


def compiled(function: Any) -> Any:
    return specialise(whole_window, {"function": function, "LEAN": False}).run


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("name", NONLINEAR)
def test_models_have_the_certified_values_from_both_starts(name: str, start: int) -> None:
    case = NONLINEAR[name]
    fit = levenberg_marquardt(case.model, case.starts[start])
    with np.errstate(all="ignore"):  # steps that go too far are taken back
        *found, r2, residual, iterations, converged = fit(np.array(case.x), np.array(case.y))
    assert converged == 1.0 and iterations < 1000 and r2 <= 1.0
    assert found == pytest.approx(case.certified, rel=1e-6)
    assert residual == pytest.approx(case.residual, rel=1e-6)


def test_interpreted_and_compiled_fits_agree() -> None:
    for name in ("Misra1a", "Thurber"):
        case = NONLINEAR[name]
        fit = levenberg_marquardt(case.model, case.starts[0])
        x, y = np.array(case.x), np.array(case.y)
        *interpreted, _, _ = fit(x, y)
        *found, _, converged = compiled(fit)(x, y)
        assert found == pytest.approx(interpreted, rel=1e-7) and converged == 1.0


@pytest.mark.parametrize("x", [[], [1.0], [1.0, 1.0, 1.0], [3.0, 2.0, 3.0, 2.0]])
def test_fewer_different_x_than_parameters_give_no_fit(x: list[float]) -> None:
    fit = levenberg_marquardt(saturation, (1.0, 1.0) if len(set(x)) < 2 else (1.0, 1.0, 1.0))
    for each in (fit, compiled(fit)):
        *found, iterations, converged = each(np.array(x), np.ones(len(x)))
        assert all(math.isnan(value) for value in found) and (iterations, converged) == (0.0, 0.0)


def test_a_fit_without_information_ends() -> None:
    """Only the sum of both parameters matters: none of them is determined, and none is NaN."""
    fit = compiled(levenberg_marquardt(lambda x, p: p[0] + p[1], (1.0, 1.0)))
    *found, residual, iterations, _ = fit(np.arange(10.0), np.arange(10.0))
    assert (
        all(math.isfinite(value) for value in found) and residual == pytest.approx(82.5) and iterations < 200
    )


def test_a_perfect_fit_converges() -> None:
    x = np.linspace(1.0, 20.0, 30)
    fit = compiled(levenberg_marquardt(saturation, (1.0, 1.0)))
    a, b, r2, residual, _, converged = fit(x, 3.0 * (1.0 - np.exp(-0.25 * x)))
    assert (a, b, r2, converged) == pytest.approx((3.0, 0.25, 1.0, 1.0)) and residual < 1e-24


@pytest.mark.parametrize("p0", [(), (math.nan,), "ab", [1.0] * 13])
def test_a_start_has_to_be_numbers(p0: Any) -> None:
    with pytest.raises(AggregateError, match="p0 is"):
        levenberg_marquardt(saturation, p0)
