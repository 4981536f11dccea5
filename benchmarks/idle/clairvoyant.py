"""What ``auto`` costs beside the best fixed D, and beside one who knows when each key will speak again.

The cost is that of ski rental, in seconds of a hot key: the time that silent keys are hot, and for each freeze the price of ten
minutes. The clairvoyant freezes a key at once if its silence will last longer than that, else never. ``auto`` chooses its D
while it sees the stream, second after second, as in the operator, without a cap on processor time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.idle.linear_road import SECOND
from windrow import data
from windrow.operator.auto_idle import AutoIdle, Costs

FIXED = (15, 30, 60, 120, 300, 600, 1200)
"""Seconds."""


def compared(rows: int) -> Iterator[dict[str, Any]]:
    """A line for each stream and D."""
    streams = {"linear road": linear_road(rows), "exponential silences of 2000 s": exponential(rows // 100)}
    for stream, (keys, times) in streams.items():
        price = AutoIdle().costs.break_even / SECOND
        silences, lasting = closed_and_open(keys, times)
        every = np.append(silences, lasting)
        best = float(np.minimum(every, price).sum())
        costs = {f"{D}s": float(np.where(every > D, D + price, every).sum()) for D in FIXED}
        costs = {"never": float(every.sum())} | costs | {"auto": replayed(keys, times, price)}
        least = min(cost for name, cost in costs.items() if name != "auto")
        for name, cost in costs.items():
            yield {
                "stream": stream,
                "after": name,
                "hot_key_hours": round(cost / 3600),
                "to_clairvoyant": round(cost / best, 3),
                "to_best_fixed": round(cost / least, 3),
            }


def linear_road(rows: int) -> tuple[Any, Any]:
    table = data.linear_road(rows, expressways=1).read_all()
    _, keys = np.unique(table["vid"].to_numpy(), return_inverse=True)
    return keys, table["time"].cast("int64").to_numpy() // SECOND


def exponential(keys: int) -> tuple[Any, Any]:
    """Keys with exponential silences of 2,000 seconds on average, for five hours."""
    random = np.random.default_rng(0)
    times = np.cumsum(random.exponential(2000, (keys, 40)), axis=1).astype(np.int64)
    inside = times < 5 * 3600
    of, at = np.broadcast_to(np.arange(keys)[:, None], times.shape)[inside], times[inside]
    order = np.argsort(at, kind="stable")
    return of[order], at[order]


def closed_and_open(keys: Any, times: Any) -> tuple[Any, Any]:
    """The silences between rows of a key, and those that last at the end of the stream."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    gaps = np.diff(times[order])[same]
    last = np.append(~same, True)
    return gaps[gaps > 0], times.max() - times[order][last]


def replayed(keys: Any, times: Any, price: float) -> float:
    """What ``auto`` pays for the stream."""
    tuned = AutoIdle(cpu=1.0, costs=Costs(row=1.0))  # without a cap
    now, cost = int(times[0]), 0.0
    last = np.full(keys.max() + 1, -1)
    frozen = np.zeros(len(last), np.bool_)
    for second, end in zip(*np.unique(times, return_index=True), strict=True):
        del end
        begin, until = np.searchsorted(times, [second, second + 1])
        some = np.unique(keys[begin:until])
        known = some[last[some] >= 0]
        silences = second - last[known]
        cost += float(silences[~frozen[known]].sum())
        tuned.heard(silences[silences > 0] * SECOND)
        last[some], frozen[some], now = second, False, int(second)
        seen = last >= 0
        if tuned.is_due:
            tuned.decide(*tuned.histogram_of((now - last[seen]) * SECOND), size=0)
        idle = seen & ~frozen & ((now - last) * SECOND >= tuned.after)
        cost += float((now - last[idle]).sum()) + price * int(idle.sum())
        frozen |= idle
    hot = (last >= 0) & ~frozen
    return cost + float((now - last[hot]).sum())
