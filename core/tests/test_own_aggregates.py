"""Aggregates that users write, mistakes in aggregates, and aggregates as JSON."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from test_aggregates import result

import windrow as wr
from windrow.aggregates import Aggregate, aggregate_from_dict
from windrow.errors import AggregateError, QueryError


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: wr.Sum("x").bind([pa.string()]), r"Sum\(x\) needs a numeric column, got string"),
        (lambda: wr.Mean("x").bind([pa.timestamp("us")]), "needs a numeric column"),
        (lambda: wr.Max("x").bind([pa.struct([])]), "values have an order"),
        (lambda: wr.ArgMax("x", "y").bind([pa.int64()]), "takes 2 input column"),
        (lambda: wr.Var("x", ddof=-1), "ddof is -1"),
        (lambda: wr.TopK("x", k=0), "k is 0"),
        (lambda: wr.Quantile("x", q=1.5), "q is 1.5"),
        (lambda: wr.MomentSketch("x", k=99), "k is 99"),
        (lambda: wr.HyperLogLog("x", precision=3), "precision is 3"),
        (lambda: wr.BloomFilter("x", error=0.0), "error is 0.0"),
        (lambda: wr.product({}), "one or more aggregates"),
        (lambda: wr.product({"a": 3}), "expected an aggregate"),  # type: ignore[dict-item]
        (lambda: wr.from_beam(object(), "x", output="double"), "has no method create_accumulator"),
        (lambda: wr.from_beam(Halving(), "x", output="dubble"), "not an Arrow type"),
    ],
)
def test_mistakes_are_named(make: Any, told: str) -> None:
    with pytest.raises(AggregateError, match=told):
        make()


class Valid:
    def lift(x):  # type: ignore[no-untyped-def]
        return (x,)

    def combine(a, b):  # type: ignore[no-untyped-def]
        return (a[0] + b[0],)

    def lower(p):  # type: ignore[no-untyped-def]
        return p[0]


@pytest.mark.parametrize(
    ("cls", "promises", "told"),
    [
        (type("NoLower", (), {"lift": Valid.lift, "combine": Valid.combine}), {}, "has no lower"),
        (type("Empty", (), {}), {}, "has no lift and no combine and no lower"),
        (
            type("Method", (), {**vars(Valid), "lower": lambda self, p: 0}),
            {},
            "lower takes 2 parameters; expected 1, without self; for a parameter, write a function that takes it",
        ),
        (
            type("Made", (), {**vars(Valid), "__init__": lambda self, k: None}),
            {},
            "Made defines __init__, but no object of it is made; for a parameter, write a function that takes it",
        ),
        (type("Value", (), {**vars(Valid), "lift": 3}), {}, "lift is a int"),
        (type("Many", (), {**vars(Valid), "lift": lambda *x: x}), {}, "one plain parameter per column"),
        (type("Half", (), {**vars(Valid), "add": lambda p, i, x: None}), {}, "one of add and merge"),
        (Valid, {"partial": {"a": "f8"}}, "identity of Valid is none; expected a tuple of 1"),
        (Valid, {"partial": {"a": "f8", "b": "i8"}, "identity": (0,)}, "expected a tuple of 2 numbers.*a, b"),
        (Valid, {"partial": {"a": "f8"}, "identity": ("0",)}, "has '0' for 'a'"),
        (Valid, {"partial": {"a": "text"}, "identity": (0,)}, "partial field 'a' has the type 'text'"),
        (Valid, {"partial": {"a": "f8[0]"}, "identity": (0,)}, "partial field 'a'"),
        (Valid, {"output": "dubble"}, "output of Valid: 'dubble' is not an Arrow type"),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:30],
)
def test_mistakes_in_aggregates_of_ones_own_are_named(cls: type, promises: dict[str, Any], told: str) -> None:
    with pytest.raises(AggregateError, match=told):
        wr.aggregate_type(**promises)(cls)


def test_a_name_that_is_not_defined_is_told() -> None:
    def lower(p):  # type: ignore[no-untyped-def]
        return cmath.exp(p[0])  # type: ignore[name-defined]  # noqa: F821

    cls = wr.aggregate_type()(type("Grown", (), {**vars(Valid), "lower": lower}))
    with pytest.raises(
        AggregateError, match=r"lower of Grown\(x\) uses the name 'cmath', which is not defined"
    ):
        cls("x").bind()


# Aggregates of one's own, and of others.


@wr.aggregate_type(partial={"xy": "f8", "y": "f8"}, identity=(0.0, 0.0))
class WeightedMean:
    """Two columns, a typed partial."""

    def lift(x, y):  # type: ignore[no-untyped-def]
        return x * y, y

    def combine(a, b):  # type: ignore[no-untyped-def]
        return a[0] + b[0], a[1] + b[1]

    def lower(p):  # type: ignore[no-untyped-def]
        return p[0] / p[1]


@wr.aggregate_type(commutative=False)
class Joined:
    """One column, partials that are text."""

    def lift(columns):  # type: ignore[no-untyped-def]
        return str(columns)

    def combine(a, b):  # type: ignore[no-untyped-def]
        return a + b

    def lower(p):  # type: ignore[no-untyped-def]
        return p


class Halving:
    """A CombineFn with a parameter of its own."""

    def __init__(self, share: float = 0.5) -> None:
        self.share = share

    def create_accumulator(self) -> list[float]:
        return [0.0]

    def add_input(self, accumulator: list[float], element: float) -> list[float]:
        accumulator[0] += element * self.share
        return accumulator

    def merge_accumulators(self, accumulators: list[list[float]]) -> list[float]:
        return [sum(a[0] for a in accumulators)]

    def extract_output(self, accumulator: list[float]) -> float:
        return accumulator.pop()


HALVING = Halving()


def test_own_aggregates() -> None:
    weighted = WeightedMean("price", "volume")
    assert weighted.columns == ("price", "volume") and weighted.label == "WeightedMean(price, volume)"
    assert result(weighted, [(1.0, 1.0), (4.0, 2.0), (None, 9.0)]) == 3.0
    assert weighted.bind().output == pa.float64() and weighted.bind([pa.int8()] * 2).output == pa.float64()
    joined = Joined("word")
    assert joined.bind([pa.string()]).output == pa.string() and joined.columns == ("word",)
    assert result(joined, ["a", "b"], pa.string()) == "ab"
    assert "Joined" not in Aggregate.kinds and "WeightedMean" not in Aggregate.kinds


def test_objects_of_others_with_parameters_are_told_apart() -> None:
    half, tenth = (wr.from_beam(Halving(share), "x", output="double") for share in (0.5, 0.1))
    assert half != tenth
    assert (result(half, [10.0]), result(tenth, [10.0])) == (5.0, 1.0)
    assert wr.sliding([10.0, 10.0], half, range=2).tolist() == [10.0]
    assert wr.sliding([10.0, 10.0], tenth, range=2).tolist() == [2.0]
    with pytest.raises(QueryError, match="give its import name"):
        half.to_dict()


@pytest.mark.parametrize(
    "aggregate",
    [
        wr.Sum("x", invertible=True),
        wr.Quantile("x", q=0.25),
        wr.ArgMax("x", by="y"),
        wr.Stops("v"),
        wr.Count(),
        wr.product({"a": wr.Max("x"), "b": wr.product({"c": wr.Count()})}),
        WeightedMean("x", "y"),
        wr.from_beam(f"{__name__}:HALVING", "x", output=pa.list_(pa.float64())),
        wr.from_beam(f"{__name__}:Halving", "x", output="double"),
    ],
    ids=str,
)
def test_json_round_trip(aggregate: Aggregate) -> None:
    import json

    back = aggregate_from_dict(json.loads(json.dumps(aggregate.to_dict())), allow=__name__)
    assert back == aggregate and back.columns == aggregate.columns
    assert back.bind().output == aggregate.bind().output


# Many rows at once.
