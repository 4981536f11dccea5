"""An aggregate of your own, with the check that it is one: the energy under a load curve, in watt hours."""

import windrow as wr
from windrow.data import plugs


@wr.aggregate_type(
    partial={"first": "i8", "load_first": "f8", "last": "i8", "load_last": "f8", "area": "f8", "n": "i8"},
    identity=(0, 0.0, 0, 0.0, 0.0, 0),
    commutative=False,  # neighbours are joined by a trapezium, so the order of rows matters
    tolerance=1e-9,  # how much the result may depend on where rows are cut
)
class Energy:
    def lift(time, load):
        return time, load, time, load, 0.0, 1

    def combine(a, b):
        if a[5] == 0:
            return b
        if b[5] == 0:
            return a
        between = (b[0] - a[2]) * (a[3] + b[1]) / 2.0
        return a[0], a[1], b[2], b[3], a[4] + between + b[4], a[5] + b[5]

    def lower(p):
        return p[4] / 3.6e9  # watt microseconds to watt hours


ENERGY = Energy("second", "load")


def main() -> None:
    wr.laws.check(ENERGY, [(0, 1.0), (10, 3.0), (20, 0.5)], examples=50)  # in a test of yours
    rows = plugs()
    rows = rows.append_column("second", rows.column("ts").cast("timestamp[us]").cast("int64"))
    query = wr.Query(by="plug", window=wr.TimeWindow("10m", "5m"), aggregates={"energy": ENERGY})
    for window in wr.aggregate(rows, query).to_pylist():
        print(window["plug"], window["window_end"].time(), round(window["energy"], 3), "Wh")


if __name__ == "__main__":
    main()
