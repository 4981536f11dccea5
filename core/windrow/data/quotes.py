# SPDX-License-Identifier: Apache-2.0
"""Buy and sell proposals for stocks. Synthetic.

What it matches: quotes with a symbol, bid and ask price and volumes, arriving at 200,000 a second: the stream
of the algorithmic trader in the study of window parallelism. Prices are invented: every symbol's middle price
is a random walk in ticks of a cent, a few symbols are quoted far more often than the others (Zipf), and the
ask is always above the bid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from windrow.data.blocks import BATCH, Ints, chance, positive, reader, timestamps

SCHEMA = pa.schema(
    {
        "timestamp": pa.timestamp("us", "UTC"),
        "symbol": pa.string(),
        "bid": pa.float64(),
        "ask": pa.float64(),
        "bid_size": pa.int32(),
        "ask_size": pa.int32(),
    }
)
START = 1_488_465_000_000_000  # 2 March 2017, 14:30 UTC: New York opens
SECONDS = 23_400  # six and a half hours of trade
BLOCK = 1 << 16
LETTERS = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))


def quotes(
    rows: int | None = None,
    seed: int = 0,
    *,
    symbols: int = 500,
    rate: int = 200_000,
    batch_rows: int = BATCH,
) -> pa.RecordBatchReader:
    """Quotes in order of time, ``rate`` a second on average; without ``rows`` a day of trade.

    >>> quotes(rows=1, seed=3).schema.names
    ['timestamp', 'symbol', 'bid', 'ask', 'bid_size', 'ask_size']
    """
    positive("symbols", symbols)
    positive("rate", rate)
    return reader(SCHEMA, _blocks(seed, symbols, rate), rows, batch_rows)


def _names(symbols: int) -> list[str]:
    """AAA, AAB, …: at least three letters, and more if there are more symbols."""
    letters = 3
    while 26**letters < symbols:
        letters += 1
    digits = np.arange(symbols)[:, None] // 26 ** np.arange(letters - 1, -1, -1) % 26
    return ["".join(row) for row in LETTERS[digits].tolist()]


def _blocks(seed: int, symbols: int, rate: int) -> Iterator[pa.RecordBatch]:
    setup = chance(seed, 0)
    names = pa.array(_names(symbols))
    share = 1.0 / np.arange(1, symbols + 1)
    share = setup.permutation(share / share.sum())
    cuts = np.cumsum(share)
    middle: Ints = setup.integers(500, 50_000, size=symbols)  # cents
    clock = 0.0
    total = SECONDS * rate
    for number, first in enumerate(range(0, total, BLOCK)):
        draw = chance(seed, 1, number)
        rows = min(BLOCK, total - first)
        moments = clock + np.cumsum(draw.standard_exponential(rows)) * (1e6 / rate)
        clock = float(moments[-1])
        which: Ints = np.minimum(np.searchsorted(cuts, draw.random(rows)), symbols - 1)
        if symbols < 1 << 15:
            which = which.astype(np.int16)  # sorted in linear time
        step = draw.integers(-1, 2, size=rows, dtype=np.int8)
        price, middle = _walks(which, step, middle)
        spread = draw.integers(1, 4, size=rows, dtype=np.int8)
        size = 100 * draw.integers(1, 21, size=(2, rows), dtype=np.int32)
        yield pa.RecordBatch.from_arrays(
            [
                timestamps(START + moments.astype(np.int64)),
                names.take(pa.array(which)),
                pa.array((price - spread) / 100.0),
                pa.array((price + spread) / 100.0),
                pa.array(size[0]),
                pa.array(size[1]),
            ],
            schema=SCHEMA,
        )


def _walks(which: Ints, step: Ints, middle: Ints) -> tuple[Ints, Ints]:
    """The middle price of each row's symbol after its step, and of every symbol after all rows."""
    order = np.argsort(which, kind="stable")
    grouped = which[order]
    walked = np.cumsum(step[order], dtype=np.int64)
    begins = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]]))
    before = np.concatenate([[0], walked[begins[1:] - 1]])
    lengths = np.diff(np.concatenate([begins, [len(which)]]))
    walked += np.repeat(middle[grouped[begins]] - before, lengths)
    np.maximum(walked, 100, out=walked)  # the lowest price is one dollar
    after = middle.copy()
    after[grouped[begins]] = walked[begins + lengths - 1]
    price = np.empty_like(walked)
    price[order] = walked
    return price, after
