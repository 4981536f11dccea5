"""Rows that the JVM gathers and windows that it takes apart: every type of column, nulls and extremes, in the buckets of Python."""

import math
from typing import Any

import pyarrow as pa
from pyflink.common import Row, Types
from test_windowed import in_order

import windrow as wr
from windrow_flink import environment, pack, windowed
from windrow_flink.buckets import Buckets, checked, spread
from windrow_flink.elements import MET
from windrow_flink.packed import Packed, as_bytes

COLUMNS = {
    "flag": (Types.BOOLEAN(), pa.bool_(), [True, False]),
    "tiny": (Types.BYTE(), pa.int8(), [-128, 127]),
    "small": (Types.SHORT(), pa.int16(), [-(2**15), 255]),
    "int": (Types.INT(), pa.int32(), [-(2**31), 65_536]),
    "long": (Types.LONG(), pa.int64(), [-(2**63), 2**63 - 1, -129, 128]),
    "float": (Types.FLOAT(), pa.float32(), [0.5, -1.25]),
    "double": (Types.DOUBLE(), pa.float64(), [0.1, -0.0, math.inf, math.nan]),
    "text": (Types.STRING(), pa.string(), ["", "plug ü 🜁", "a" * 300]),
}
ROWS = 40


def test_columns_of_all_types_cross_exactly_and_into_their_buckets(collected: Any) -> None:
    values = {name: [None, *values] for name, (_, _, values) in COLUMNS.items()}
    columns = {
        name: pa.array([each[number % len(each)] for number in range(ROWS)], COLUMNS[name][1])
        for name, each in values.items()
    }
    data = pa.table({"ts": pa.array(range(ROWS)), **columns})
    type_ = Types.ROW_NAMED(data.column_names, [Types.LONG(), *(each[0] for each in COLUMNS.values())])
    stream = environment().from_collection([Row(*row.values()) for row in data.to_pylist()], type_info=type_)
    queries = {
        name: wr.Query(by=by, window=wr.CountWindow(1), aggregates={"last": wr.Last("ts"), "n": wr.Count()})
        for name, by in {"all": list(COLUMNS), **{name: name for name in COLUMNS}}.items()
    }
    packed = {f"packed {name}": pack(stream, query, uid=f"pack-{name}") for name, query in queries.items()}
    found = collected({"all": windowed(stream, queries["all"], disorder=0), **packed})
    assert in_order(found["all"]) == in_order(wr.aggregate(data, queries["all"]))
    for name, query in queries.items():
        kept = data.select([each for each in data.column_names if each in (*query.by, "ts")])
        tables, buckets = [], Buckets(list(spread(checked(None, query))))
        for flink_key, element in found[f"packed {name}"]:
            ((_, rows),) = Packed(kept.schema).decode([MET.pack(0) + as_bytes(element)])
            assert {buckets.of(tuple(row[key] for key in query.by)) for row in rows.to_pylist()} == {
                flink_key
            }
            tables.append(rows)
        assert in_order(pa.concat_tables(tables)) == in_order(kept), name
