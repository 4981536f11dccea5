"""Polars before and after: read and clean with Polars, slide with windrow, rank with Polars."""

import polars as pl

import windrow as wr
from windrow.data import plugs

QUERY = wr.Query(
    by="plug",
    window=wr.TimeWindow(range="5m", slide="30s"),
    aggregates={"mean": wr.Mean("load"), "p95": wr.Quantile("load", q=0.95), "peak": wr.Max("load")},
)


def main() -> None:
    rows = pl.from_arrow(plugs()).filter(pl.col("load") > 0.1)  # any frame with a time column
    windows = wr.aggregate(rows, QUERY, to="same")
    busiest = windows.sort("mean", descending=True).group_by("plug", maintain_order=True).first()
    print(busiest.select("plug", "window_end", "mean", "p95", "peak"))


if __name__ == "__main__":
    main()
