"""Three windows over one stream: rows are sliced once, and the slices are shared."""

from collections.abc import Iterator

import pyarrow as pa

import windrow as wr
from windrow.data import plugs

QUERY = wr.Query(
    by="plug",
    window={
        "minute": wr.TimeWindow("1m"),
        "five": wr.TimeWindow("5m", slide="1m"),
        "quarter": wr.TimeWindow("15m", slide="1m"),
    },
    aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load")},
)


def alarms(windows: pa.Table) -> Iterator[str]:
    """Where the last minute is far above the last quarter of an hour."""
    mean = {(row["plug"], row["window"], row["window_end"]): row["mean"] for row in windows.to_pylist()}
    for (plug, window, end), load in mean.items():
        usual = mean.get((plug, "quarter", end))
        if window == "minute" and usual is not None and load > 4 * usual:
            yield f"{end.time()} {plug}: {load:.0f} W, usually {usual:.0f} W"


def main() -> None:
    print(wr.explain(QUERY))
    batches = plugs().to_batches(max_chunksize=60)
    for windows in wr.stream(batches, QUERY, delay="30s"):
        for alarm in alarms(windows):
            print(alarm)


if __name__ == "__main__":
    main()
