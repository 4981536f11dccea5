"""Fills a stored window, and goes on where an earlier process was killed: ``python -m benchmarks.trees.fill``."""

from __future__ import annotations

import sys

import numpy as np

import windrow as wr
from benchmarks.trees.windows import pages_of, readings
from windrow.algorithms.stored_amta import StoredAMTA
from windrow.kernels.columns.layout import ColumnOutput

STEP = 1 << 20


def main() -> None:
    store, address, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    values = readings(size)
    window = StoredAMTA(wr.Max(), pages_of(store, address), batch=4096)
    print(window.inserted, flush=True)
    while window.inserted < size:
        part = values[window.inserted : window.inserted + STEP]
        window.slide(
            (part,), size + 1, ColumnOutput(np.zeros(len(part)), np.zeros(len(part), dtype=np.bool_))
        )
        window.commit()
        print(window.inserted, flush=True)
    print(window.query()[0], window.nbytes, sep="\n", flush=True)


if __name__ == "__main__":
    main()
