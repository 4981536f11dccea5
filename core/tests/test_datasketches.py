"""HyperLogLog as bytes that Apache DataSketches reads as its own."""

from __future__ import annotations

import math
from typing import Any

import datasketches as theirs
import numpy as np
import pyarrow as pa
import pytest

import windrow as wr
from windrow.errors import AggregateError

WORDS = [f"word {n}" * (n % 5) for n in range(3000)]
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "integers": (pa.int64(), [*range(-1500, 1500), -(2**63), 2**63 - 1]),
    "unsigned": (pa.uint32(), list(range(3000))),
    "floats": (pa.float64(), [n / 7 for n in range(3000)] + [0.0, -0.0, math.nan, -math.nan, math.inf]),
    "texts": (pa.string(), ["", "naïve", *WORDS]),
}


def sketch(values: list[Any], type_: pa.DataType, precision: int = 12) -> Any:
    """Our sketch of a window with these values, as DataSketches reads it."""
    rows = pa.table({"ts": np.zeros(len(values), np.int64), "x": pa.array(values, type_)})
    aggregate = wr.HyperLogLog("x", precision=precision, returns="datasketches")
    operator = wr.Operator(wr.Query(window=wr.TimeWindow(10), aggregates={"d": aggregate}), compiled=False)
    windows = pa.concat_tables([operator.process(rows), operator.flush()])
    return theirs.hll_sketch.deserialize(windows["d"][0].as_py())


def native(values: list[Any], precision: int = 12) -> Any:
    made = theirs.hll_sketch(precision, theirs.HLL_8)
    for value in values:
        made.update(value)
    return made


def registers(made: Any) -> bytes:
    """The registers of a sketch that has so many values that it holds them."""
    written: bytes = made.serialize_updatable()
    return written[40:]


@pytest.mark.parametrize("name", COLUMNS)
def test_registers_are_theirs(name: str) -> None:
    type_, values = COLUMNS[name]
    ours, their = sketch(values, type_), native(values)
    assert registers(ours) == registers(their)
    assert (ours.lg_config_k, ours.tgt_type) == (12, theirs.HLL_8)
    distinct = len(
        {str(value + 0.0) if isinstance(value, float) else value for value in values if value != ""}
    )
    assert ours.get_lower_bound(3) <= distinct <= ours.get_upper_bound(3)
    assert abs(ours.get_estimate() - distinct) <= 3 * 1.04 / math.sqrt(2**12) * distinct


@pytest.mark.parametrize("precision", [4, 9, 12])
def test_bytes_are_those_of_a_union_of_theirs(precision: int) -> None:
    """So the estimate is theirs, to the last digit."""
    union = theirs.hll_union(precision)
    union.update(native(list(range(4000)), precision))
    union.update(native(list(range(2000, 6000)), precision))
    merged = union.get_result(theirs.HLL_8)
    ours = sketch(list(range(6000)), pa.int64(), precision)
    assert ours.serialize_updatable() == merged.serialize_updatable()
    assert ours.get_estimate() == merged.get_estimate()


def test_the_largest_precision_is_read() -> None:
    ours = sketch(list(range(3000)), pa.int64(), 18)
    assert ours.lg_config_k == 18
    assert abs(ours.get_estimate() - 3000) <= 3 * 1.04 / math.sqrt(2**18) * 3000


def test_a_union_counts_what_both_have_once() -> None:
    union = theirs.hll_union(12)
    union.update(sketch(list(range(20_000)), pa.int64()))
    union.update(native(list(range(10_000, 30_000))))
    together = union.get_result(theirs.HLL_8)
    assert registers(together) == registers(native(list(range(30_000))))
    assert abs(together.get_estimate() - 30_000) <= 3 * 1.04 / math.sqrt(2**12) * 30_000


def test_theirs_goes_on_from_ours() -> None:
    ours = sketch(list(range(3000)), pa.int64())
    for value in range(2000, 6000):
        ours.update(value)
    assert registers(ours) == registers(native(list(range(6000))))


def test_the_estimate_is_near_our_own() -> None:
    for distinct in (1, 10, 1000, 20_000):
        made = wr.HyperLogLog("x", returns="datasketches").bind([pa.int64()])
        partial = made.fold([(value,) for value in range(distinct)])
        their = theirs.hll_sketch.deserialize(made.result(partial)).get_estimate()
        ours = wr.HyperLogLog("x").bind([pa.int64()])
        registers_alone = ours.result(partial)  # the estimator of Ertl, on the same registers
        assert abs(their - registers_alone) <= 0.005 * distinct + 0.5


def test_an_empty_sketch() -> None:
    for values in ([None], [""]):
        assert sketch(values, pa.string()).is_empty()


def test_compiled_and_interpreted_sketches_are_the_same() -> None:
    values = np.concatenate([np.arange(2000.0) / 3, [math.nan, -0.0, math.inf]])
    aggregate = wr.HyperLogLog(precision=6, returns="datasketches")
    monoid = aggregate.bind()
    (compiled,) = wr.sliding(values, aggregate, range=len(values))
    assert compiled == monoid.result(monoid.fold([(value,) for value in values.tolist()]))


def test_sketches_keep_the_laws() -> None:
    aggregate = wr.HyperLogLog("x", precision=4, returns="datasketches")
    wr.laws.check(aggregate, [0.0, -0.0, 1.5, 7.0, math.nan, math.inf], examples=50, compiled=False)
    wr.laws.check(aggregate, ["", "a", "b", "naïve"], examples=50, compiled=False)


def test_what_has_no_form_there_is_refused() -> None:
    with pytest.raises(AggregateError, match="DataSketches has no form for values of decimal"):
        wr.HyperLogLog("x", returns="datasketches").bind([pa.decimal128(10, 2)])
    with pytest.raises(AggregateError, match="returns is 'bytes'; expected None"):
        wr.HyperLogLog("x", returns="bytes")
