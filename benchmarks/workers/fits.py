"""A parabola through every window of 1,000 rows, as users write it today, and with ``wr.PolynomialFit``.

Every contender gets the same two columns, epoch times in microseconds and prices, and gives the three coefficients of
each window (RollingOLS and numpy in their own basis). A fast contender gets many rows; a slow one few, and windrow is
measured on the same few beside it. Runs take turns. The seconds are those of the processor, of all threads.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

import numba
import numpy as np
import pyarrow as pa

import windrow as wr
from benchmarks.algorithms.measure import Row, in_turns, ratio, rounded

WINDOW = 1000
DEGREE = 2
START = 1_700_000_000_000_000
Contender = Callable[[Any, Any], Any]


def quotes(rows: int) -> tuple[Any, Any]:
    """Times, and prices that drift."""
    random = np.random.default_rng(17)
    times = START + np.cumsum(random.integers(1, 2000, rows))
    return times, 100.0 + np.cumsum(random.normal(0.0, 0.01, rows))


def windrow_sliding(times: Any, prices: Any) -> Any:
    return wr.sliding((times, prices), wr.PolynomialFit("ts", "price", degree=DEGREE), range=WINDOW)


def windrow_aggregate(times: Any, prices: Any) -> Any:
    fit = wr.PolynomialFit("ts", "price", degree=DEGREE)
    query = wr.Query(time="ts", window=wr.CountWindow(WINDOW, 1), aggregates={"fit": fit})
    return wr.aggregate(pa.table({"ts": times, "price": prices}), query)


def numpy_polyfit(times: Any, prices: Any) -> Any:
    seconds = (times - times[0]) / 1e6
    views = zip(
        np.lib.stride_tricks.sliding_window_view(seconds, WINDOW),
        np.lib.stride_tricks.sliding_window_view(prices, WINDOW),
        strict=True,
    )
    return np.array([np.polynomial.polynomial.polyfit(x - x.mean(), y, DEGREE) for x, y in views])


@numba.njit(nogil=True)
def parabola(rows: Any) -> Any:
    """The parabola through the rows of one window, columns x and y: centred moments and Cramer's rule."""
    n = len(rows)
    centre = middle = 0.0
    for i in range(n):
        centre += rows[i, 0]
        middle += rows[i, 1]
    centre, middle = centre / n, middle / n
    s2 = s3 = s4 = t1 = t2 = 0.0
    for i in range(n):
        u, v = rows[i, 0] - centre, rows[i, 1] - middle
        s2 += u * u
        s3 += u * u * u
        s4 += u * u * u * u
        t1 += u * v
        t2 += u * u * v
    below = s2 * (s4 - s2 * s2 / n) - s3 * s3
    c1 = (t1 * (s4 - s2 * s2 / n) - s3 * t2) / below
    c2 = (s2 * t2 - s3 * t1) / below
    return np.array([middle - c2 * s2 / n, c1, c2])


def pandas_numba(times: Any, prices: Any) -> Any:
    """One pass of pandas over a table, so that the function sees both columns and gives three results."""
    import pandas as pd

    seconds = (times - times[0]) / 1e6
    frame = pd.DataFrame({"x": seconds, "y": prices, "room": 0.0})
    return frame.rolling(WINDOW, method="table").apply(parabola, raw=True, engine="numba")


@numba.njit(nogil=True)
def every_window(x: Any, y: Any, out: Any) -> None:
    rows = np.empty((WINDOW, 2))
    for w in range(len(out)):
        rows[:, 0] = x[w : w + WINDOW]
        rows[:, 1] = y[w : w + WINDOW]
        out[w] = parabola(rows)


def numba_loop(times: Any, prices: Any) -> Any:
    out = np.empty((len(times) - WINDOW + 1, 3))
    every_window((times - times[0]) / 1e6, prices, out)
    return out


def polars_rolling_map(times: Any, prices: Any) -> Any:
    """Polars maps one column to one number, so the place in the window stands for the time, and one coefficient comes out."""
    import polars as pl

    places = np.arange(WINDOW) - (WINDOW - 1) / 2.0
    design = np.linalg.pinv(np.vander(places, DEGREE + 1, increasing=True))[DEGREE]
    return pl.Series(prices).rolling_map(lambda window: float(design @ window.to_numpy()), window_size=WINDOW)


def rolling_ols(times: Any, prices: Any) -> Any:
    from statsmodels.regression.rolling import RollingOLS

    seconds = (times - times[0]) / 1e6
    design = np.vander(seconds - seconds.mean(), DEGREE + 1, increasing=True)
    return RollingOLS(prices, design, window=WINDOW).fit(params_only=True).params


FAST: dict[str, Contender] = {
    "windrow sliding": windrow_sliding,
    "windrow aggregate": windrow_aggregate,
    "numba loop": numba_loop,
    "pandas numba engine": pandas_numba,
}
SLOW: dict[str, Contender] = {
    "windrow sliding": windrow_sliding,
    "statsmodels RollingOLS": rolling_ols,
    "numpy polyfit loop": numpy_polyfit,
    "polars rolling_map": polars_rolling_map,
}


def compared(share: int, rounds: int) -> Iterator[Row]:
    """Windows per second of each contender, over the same rows, in turn."""
    for contenders, rows in ((FAST, 1_000_000 // share), (SLOW, 6000)):
        columns = quotes(rows)
        present = {name: partial(run, *columns) for name, run in contenders.items() if _runs(run)}
        seconds = in_turns(present, rounds, time.process_time)
        for name, taken in seconds.items():
            if contenders is FAST or name not in FAST:
                yield {
                    "contender": name,
                    "rows": rows,
                    "windows_per_second": rounded((rows - WINDOW + 1) / min(taken)),
                    "windrow_is_times_as_fast": rounded(ratio(seconds["windrow sliding"], taken)),
                }


def error(slides: int) -> Row:
    """The largest error of a coefficient after so many slides, beside rational numbers, relative to what it adds.

    A coefficient matters by what it adds at the ends of the window. One that adds next to nothing, a thousandth of the
    largest, is compared with that.
    """
    times, prices = quotes(slides + WINDOW - 1)
    found = windrow_sliding(times, prices)
    worst = 0.0
    last = len(found) - 1
    checked = [0, 1, WINDOW, *np.random.default_rng(1).integers(last - slides // 10, last, 20).tolist(), last]
    for w in checked:
        x, y = times[w : w + WINDOW].tolist(), prices[w : w + WINDOW].tolist()
        exact = exact_fit(x, y, int(found["origin"][w]))
        reach = (x[-1] - x[0]) / 2.0
        adds = [abs(c) * reach**k for k, c in enumerate(exact)]
        for k in range(DEGREE + 1):
            off = abs(float(found[f"c{k}"][w]) - exact[k]) * reach**k
            worst = max(worst, off / max(adds[k], 1e-3 * max(adds[1:])))
    return {"slides": slides, "windows_checked": len(checked), "largest_relative_error": rounded(worst)}


def exact_fit(x: list[int], y: list[float], origin: int) -> list[float]:
    """The coefficients of one window in powers of x - origin, from rational numbers."""
    u, v = [a - origin for a in x], [Fraction(b) for b in y]
    powers = [sum(a**k for a in u) for k in range(2 * DEGREE + 1)]
    rows = [[Fraction(powers[i + j]) for j in range(DEGREE + 1)] for i in range(DEGREE + 1)]
    right = [sum((a**i * b for a, b in zip(u, v, strict=True)), Fraction(0)) for i in range(DEGREE + 1)]
    for i in range(DEGREE + 1):
        for k in range(i + 1, DEGREE + 1):
            factor = rows[k][i] / rows[i][i]
            rows[k] = [a - factor * b for a, b in zip(rows[k], rows[i], strict=True)]
            right[k] -= factor * right[i]
    found = [Fraction(0)] * (DEGREE + 1)
    for i in range(DEGREE, -1, -1):
        found[i] = (right[i] - sum(rows[i][j] * found[j] for j in range(i + 1, DEGREE + 1))) / rows[i][i]
    return [float(c) for c in found]


def _runs(run: Contender) -> bool:
    """Is the library there? It also compiles what is compiled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(*quotes(2 * WINDOW))
    except ImportError as missing:
        print(f"left out: {missing}")
        return False
    return True
