"""Every aggregate keeps the laws; aggregates that break one are caught, and the law is named."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import windrow as wr
from windrow.aggregates import Aggregate
from windrow.errors import AggregateError, LawViolation

SPECIAL = [0.0, -0.0, 1.0, -3.0, 1e16, -1e16, 1e-300, math.nan, math.inf, -math.inf]
STRATEGIES: dict[pa.DataType, Any] = {
    pa.float64(): st.one_of(st.floats(-1e6, 1e6), st.sampled_from(SPECIAL), st.integers(0, 3).map(float)),
    pa.int64(): st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-3, 3)),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.bool_(): st.booleans(),
    pa.float32(): st.one_of(st.floats(-1e3, 1e3, width=32), st.sampled_from([0.0, math.nan, math.inf])),
    pa.duration("us"): st.timedeltas(timedelta(-100_000_000), timedelta(100_000_000)),
    pa.timestamp("us"): st.datetimes(),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.decimal128(20, 2): st.integers(-(10**19), 10**19).map(lambda n: Decimal(n).scaleb(-2)),
    pa.list_(pa.int64()): st.lists(st.integers(-9, 9), max_size=2),
}


class CountingFn:
    """A Beam CombineFn that changes its accumulators in place, as those do."""

    def create_accumulator(self) -> dict[str, int]:
        return {}

    def add_input(self, accumulator: dict[str, int], element: float) -> dict[str, int]:
        accumulator[str(element)] = accumulator.get(str(element), 0) + 1
        return accumulator

    def merge_accumulators(self, accumulators: list[dict[str, int]]) -> dict[str, int]:
        first, *rest = accumulators
        for other in rest:
            for key, count in other.items():
                first[key] = first.get(key, 0) + count
        return first

    def extract_output(self, accumulator: dict[str, int]) -> int:
        return max(accumulator.values(), default=0)


class RangeFunction:
    """A Flink AggregateFunction over two fields."""

    def create_accumulator(self) -> tuple[float, float]:
        return math.inf, -math.inf

    def add(self, value: tuple[float, float], accumulator: tuple[float, float]) -> tuple[float, float]:
        return min(accumulator[0], value[0]), max(accumulator[1], value[1])

    def merge(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        return min(a[0], b[0]), max(a[1], b[1])

    def get_result(self, accumulator: tuple[float, float]) -> float:
        return accumulator[1] - accumulator[0]


def rows_of(x: Any) -> int:
    return len(x)


def one_more(state: int, x: Any) -> int:
    return state + 1


def one_less(state: int, x: Any) -> int:
    return state - 1


def itself(state: int) -> int:
    return state


def flat(x: Any, p: Any) -> Any:
    return p[0] + 0.0 * x


GIVEN: dict[str, Aggregate] = {
    "Apply": wr.Apply(rows_of, "x", returns="i8"),
    "Slider": wr.Slider("x", 0, insert=one_more, evict=one_less, result=itself, returns="i8"),
    "Skyline": wr.Skyline("x", "y"),
    "LevenbergMarquardt": wr.LevenbergMarquardt(flat, "x", "y", p0=(1.0,)),
    "FromBeam": wr.from_beam(CountingFn(), "x", output="int64"),
    "FromFlink": wr.from_flink(RangeFunction(), "x", "y", output="double"),
    "ProductOf": wr.product({"n": wr.Count(), "high": wr.Max("x"), "mean": wr.Mean("y"), "dev": wr.Std("x")}),
    "HyperLogLog": wr.HyperLogLog("x", precision=4),
    "KLL": wr.KLL("x", k=8),
    "LongestIncreasingRun": wr.LongestIncreasingRun("x"),
    "TopK": wr.TopK("x", k=3),
    "Quantile": wr.Quantile("x", q=0.3),
    "BloomFilter": wr.BloomFilter("x", capacity=10),
}
"""The kinds that need more than column names, or whose default is large."""

PLAIN: dict[str, Any] = {
    # Comparisons of the foreign functions do not know NaN.
    "FromFlink": st.floats(-1e6, 1e6),
    "MomentSketch": st.floats(-100, 100),
    "LevenbergMarquardt": st.floats(-100, 100),
}


def example(kind: str) -> Aggregate:
    return GIVEN.get(kind) or Aggregate.kinds[kind](*["x", "y", "z"][: len(Aggregate.kinds[kind].inputs)])


def rows(aggregate: Aggregate, types: list[pa.DataType], values: Any = None) -> Any:
    columns = [STRATEGIES[type_] if values is None else values for type_ in types]
    return columns[0] if len(columns) == 1 else st.tuples(*columns)


@pytest.mark.parametrize("kind", sorted(Aggregate.kinds))
def test_every_kind_keeps_the_laws(kind: str) -> None:
    aggregate = example(kind)
    types = [pa.float64()] * aggregate.arity
    wr.laws.check(
        aggregate,
        rows(aggregate, types, PLAIN.get(kind)),
        types=types,
        examples=8 if kind == "MomentSketch" else 25,
    )


def test_runs_with_their_places_keep_the_laws() -> None:
    values = st.tuples(st.integers(0, 3), st.integers(0, 9))
    types = [pa.int64(), pa.timestamp("us")]
    wr.laws.check(wr.LongestIncreasingRun("x", at="ts"), values, types=types, examples=25)


ANY_TYPE = {
    *(
        "Apply",
        "BloomFilter",
        "Collect",
        "Count",
        "CountDistinct",
        "First",
        "FromBeam",
        "FromFlink",
        "HyperLogLog",
        "Last",
        "Slider",
    ),
}
ORDERED = {"ArgMax", "ArgMin", "LongestIncreasingRun", "Max", "MaxCount", "Min", "MinCount", "TopK"}
NUMBERS = {pa.float64(), pa.float32(), pa.int64(), pa.uint64(), pa.bool_()}
ALSO_TAKES = {"Sum": {pa.duration("us"), pa.decimal128(20, 2)}, "Mean": {pa.decimal128(20, 2)}}


def refused(kind: str, type_: pa.DataType) -> str | None:
    """What the aggregate says it needs, if it does not take columns of this type."""
    if kind == "CountDistinct" and pa.types.is_list(type_):
        return "needs single values"
    if kind in ANY_TYPE or type_ in NUMBERS or type_ in ALSO_TAKES.get(kind, ()):
        return None
    if pa.types.is_list(type_) and kind in {*ORDERED, "ProductOf"}:  # the product's first refusal is a Max's
        return "needs a column whose values have an order"
    return None if kind in ORDERED else "needs a numeric column"


@pytest.mark.parametrize("type_", [t for t in STRATEGIES if t != pa.float64()], ids=str)
@pytest.mark.parametrize("kind", sorted(Aggregate.kinds))
def test_every_kind_and_type(kind: str, type_: pa.DataType) -> None:
    aggregate = example(kind)
    types = [type_] * aggregate.arity
    needed = refused(kind, type_)
    if needed is not None:
        with pytest.raises(AggregateError, match=re.escape(f"{needed}, got {type_}")):
            aggregate.bind(types)
        return
    if kind == "FromFlink" and type_ not in (pa.int64(), pa.bool_()):
        return
    wr.laws.check(aggregate, rows(aggregate, types), types=types, examples=4, compiled=False)


@pytest.mark.parametrize("aggregate", [wr.Sum("x"), wr.Mean("x")], ids=str)
def test_exact_integers_compile(aggregate: Aggregate) -> None:
    wr.laws.check(aggregate, STRATEGIES[pa.int64()], types=[pa.int64()], examples=25)


@pytest.mark.parametrize("kind", ["Sum", "Mean"])
def test_floats_that_may_be_subtracted(kind: str) -> None:
    aggregate = Aggregate.kinds[kind]("x", invertible=True)
    assert aggregate.bind().invertible
    wr.laws.check(aggregate, STRATEGIES[pa.float64()], examples=100, compiled=False)


# Aggregates that are wrong, each in its own way.


def declared(law: str, **promises: Any) -> Any:
    """A decorator: the class is an aggregate that breaks this law."""

    def decorate(cls: type) -> type:
        return pytest.param(wr.aggregate_type(**promises)(cls)("x"), law, id=cls.__name__)  # type: ignore[return-value]

    return decorate


@declared("associativity", partial={"mean": "f8"}, identity=(0.0,))
class MeanOfMeans:
    def lift(x):
        return (x,)

    def combine(a, b):
        return ((a[0] + b[0]) / 2,)

    def lower(p):
        return p[0]


@declared("associativity", partial={"x": "f8"}, identity=(0.0,), commutative=False)
class Subtraction:
    def lift(x):
        return (x,)

    def combine(a, b):
        return (a[0] - b[0],)

    def lower(p):
        return p[0]


@declared("commutativity")
class LastSaidToCommute:
    def lift(x):
        return x

    def combine(a, b):
        return b

    def lower(p):
        return p


@declared("identity", partial={"total": "f8"}, identity=(7.0,))
class SumFromSeven:
    def lift(x):
        return (x,)

    def combine(a, b):
        return (a[0] + b[0],)

    def lower(p):
        return p[0]


@declared("identity: .*identity.* is 3, but a ⊕ b is 2", partial={"n": "i8", "mark": "i8"}, identity=(0, 1))
class IdentityThatLeavesAMark:
    """Combined with one partial it changes no result; combined with the next one, it does."""

    def lift(x):
        return 1, 0

    def combine(a, b):
        return a[0] + b[0] + (1 if a[0] > 0 and a[1] else 0), a[1] | b[1]

    def lower(p):
        return p[0]


@declared("invertibility", partial={"high": "f8"}, identity=(-math.inf,))
class MaxSaidToInvert:
    def lift(x):
        return (x,)

    def combine(a, b):
        return (max(a[0], b[0]),)

    def lower(p):
        return p[0]

    def invert(a, b):
        return a


@declared("selectivity", partial={"total": "f8"}, identity=(0.0,), selective=True, tolerance=1e-9)
class SumSaidToSelect:
    def lift(x):
        return (x,)

    def combine(a, b):
        return (a[0] + b[0],)

    def lower(p):
        return p[0]


@declared("purity")
class ListsThatGrow:
    def lift(x):
        return [x]

    def combine(a, b):
        a.extend(b)
        return a

    def lower(p):
        return len(p)


@declared("encoding")
class PartialsThatCannotBeStored:
    def lift(x):
        return complex(x)

    def combine(a, b):
        return a + b

    def lower(p):
        return p.real


@declared("compilation", partial={"n": "i8"}, identity=(0,))
class CompiledDiffers:
    """Text of floats is not the same in numba."""

    def lift(x):
        return (len(str(float(x))),)

    def combine(a, b):
        return (a[0] + b[0],)

    def lower(p):
        return p[0]


@declared("compilation: it does not compile", partial={"n": "i8"}, identity=(0,))
class NotCompilable:
    def lift(x):
        return (int(eval("1")),)

    def combine(a, b):
        return (a[0] + b[0],)

    def lower(p):
        return p[0]


@declared("compilation", partial={"x": "f8"}, identity=(0.0,))
class MergeThatIsNotCombine:
    def lift(x):
        return (x,)

    def combine(a, b):
        return (a[0] + b[0],)

    def lower(p):
        return p[0]

    def add(parts, i, x):
        parts[0][i] = x

    def merge(dst, i, a, j, b, k):
        dst[0][i] = a[0][j] + b[0][k]


@pytest.mark.parametrize(
    ("aggregate", "law"),
    [
        MeanOfMeans,
        Subtraction,
        LastSaidToCommute,
        SumFromSeven,
        IdentityThatLeavesAMark,
        MaxSaidToInvert,
        SumSaidToSelect,
        ListsThatGrow,
        PartialsThatCannotBeStored,
        CompiledDiffers,
        NotCompilable,
        MergeThatIsNotCombine,
    ],
)
def test_a_wrong_aggregate_is_caught(aggregate: Aggregate, law: str) -> None:
    with pytest.raises((LawViolation, AggregateError), match=law) as caught:
        wr.laws.check(aggregate, [0.0, 1.0, 2.0, 3.0], examples=50)
    if law != "encoding":
        assert isinstance(caught.value, LawViolation)


def test_the_counterexample_is_the_smallest() -> None:
    aggregate = MeanOfMeans.values[0]  # type: ignore[attr-defined]
    with pytest.raises(LawViolation) as caught:
        wr.laws.check(aggregate, st.integers(0, 1000).map(float))
    assert str(caught.value).endswith("Smallest counterexample: a = [0.0], b = [0.0], c = [1.0]")


def test_values_may_be_a_sequence_with_nulls_and_types_are_found() -> None:
    wr.laws.check(wr.Sum("x"), [1, None, 2**62], examples=5, compiled=False)
    wr.laws.check(wr.ArgMax("x", "y"), [("a", 1.0), ("b", None), ("c", 2.0)], examples=5)
