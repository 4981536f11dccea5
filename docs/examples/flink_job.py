"""Flink: a stream of rows with event time in, the windows of every plug out, with checkpoints."""

from pathlib import Path

from pyflink.common import Types

import windrow as wr
from windrow_flink import environment, windowed

READING = Types.ROW_NAMED(["plug", "ts", "load"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
SECOND = 1_000_000
QUERY = wr.Query(
    by="plug",
    time="ts",
    window=wr.TimeWindow(range="1m", slide="10s"),
    aggregates={"peak": wr.Max("load"), "mean": wr.Mean("load"), "n": wr.Count()},
)


def readings() -> list[tuple[str, int, float]]:
    """Ten minutes of three plugs; every fifth reading comes four seconds late."""
    return [(f"plug {n % 3}", (n - 4 * (n % 5 == 0)) * SECOND, float((n * 7919) % 1000)) for n in range(600)]


def main(folder: Path) -> None:
    flink = environment(parallelism=2, checkpoints=folder / "checkpoints", every="10s")
    stream = flink.from_collection(readings(), type_info=READING)
    windows = windowed(stream, QUERY, disorder="5s", uid="loads")
    with windows.execute_and_collect("loads") as results:
        found = [row.as_dict() for row in results]
    print(len(found), "windows")
    for row in sorted(found, key=lambda row: (-row["mean"], row["window_end"], row["plug"]))[:3]:
        print(row["plug"], "until", row["window_end"] // SECOND, "s:", row["peak"], round(row["mean"], 1))


if __name__ == "__main__":
    main(Path.cwd())
