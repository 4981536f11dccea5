"""Two years of readings of a server's memory, once generated, and the exact results of a month's window over them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import windrow as wr

Ints = NDArray[np.int64]


def readings(folder: Path, data: str, rows: int) -> Ints:
    """The readings, from a file that is made when it is missing. ``data`` is "stationary" or "regimes"."""
    path = folder / f"{data}-{rows}.npy"
    if not path.exists():
        found = np.lib.format.open_memmap(path.with_suffix(".part"), "w+", np.int64, (rows,))
        at = 0
        for batch in wr.data.server_memory(rows, regimes=data == "regimes"):
            found[at : at + len(batch)] = batch.column("used_kb").to_numpy()
            at += len(batch)
        found.flush()
        path.with_suffix(".part").rename(path)
    return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


def exact(values: Ints, window: int, aggregate: str) -> NDArray[np.float64]:
    """The exact result of every window of so many readings."""
    if aggregate == "max":
        return wr.sliding(np.asarray(values), wr.Max(), range=window).astype(np.float64)
    sums = np.cumsum(values)
    totals = sums[window - 1 :].copy()
    totals[1:] -= sums[:-window]
    return totals / (window if aggregate == "mean" else 1)
