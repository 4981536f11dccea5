"""A key belongs to one bucket, whatever keys were seen before it."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
from pyflink.java_gateway import get_gateway

from windrow_flink.buckets import KEY_GROUPS, Buckets, key_group

STOCKHOLM = ZoneInfo("Europe/Stockholm")


def test_the_times_of_a_repeated_hour_have_buckets_of_their_own() -> None:
    for minute in range(60):
        first, second = (datetime(2024, 10, 27, 2, minute, tzinfo=STOCKHOLM, fold=fold) for fold in (0, 1))
        fresh, used = Buckets(list(range(100))), Buckets(list(range(100)))
        assert [used.of((first,)), used.of((second,))] == [
            fresh.of((first,)),
            Buckets(list(range(100))).of((second,)),
        ]
        assert used.of((first,)) == fresh.of((first,))


def test_keys_that_python_cannot_hold_have_buckets() -> None:
    days = pa.array([2_932_897, 2_932_898, 2_932_897], pa.int32()).view(pa.date32())
    moments = pa.array([1000, 1001, 1000]).view(pa.timestamp("ns"))
    parts = Buckets(list(range(100))).split(pa.table({"day": days, "at": moments}), ("day", "at"))
    assert sorted(rows.num_rows for _, rows in parts) == [1, 2]


def test_key_groups_are_those_of_flink() -> None:
    flink = get_gateway().jvm.org.apache.flink
    for key in [*range(200), -1, -7, 2**31 - 1, -(2**31)]:
        row = flink.types.Row(1)
        row.setField(0, key)
        group = flink.runtime.state.KeyGroupRangeAssignment.assignToKeyGroup(row, KEY_GROUPS)
        assert key_group(key) == group, key
