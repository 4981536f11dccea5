"""One typed tree: the value of a row is that of a batch, and a hostile text is refused at once."""

from __future__ import annotations

import math
import time
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.errors import ArithmeticOverflow, ExpressionError
from windrow.expressions import Expression, Registered
from windrow.expressions.functions import FUNCTIONS
from windrow.expressions.parsing import LONGEST

TYPES = {
    "i": pa.int64(),
    "j": pa.int32(),
    "x": pa.float64(),
    "t.y": pa.float32(),
    "s": pa.string(),
    "b": pa.bool_(),
}

integers = st.integers(-(2**63), 2**63 - 1) | st.integers(-5, 5)
doubles = st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 0.5, -1.5, 2.5, 1e300])
texts = st.text(st.characters(codec="utf-8"), max_size=4) | st.sampled_from(["a", "ß", "İ"])
VALUES = {
    "i": integers,
    "j": st.integers(-(2**31), 2**31 - 1) | st.integers(-5, 5),
    "x": doubles,
    "t.y": st.floats(width=32, allow_nan=True),
    "s": texts,
    "b": st.booleans(),
}
rows = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()}),
    min_size=1,
    max_size=8,
)


def expressions() -> st.SearchStrategy[str]:
    """Texts of all types, made from all functions, some of them wrong in their types."""
    numbers = st.sampled_from(["i", "j", "x", "t.y", "0", "1", "-2", "0.5", "null"])
    strings = st.sampled_from(["s", "'a'", "''", "null"])
    conditions = st.sampled_from(["b", "true", "x > 0", "i is null", "s == 'a'", "j in (1, 2, 3)"])

    def deeper(parts: Any) -> Any:
        number, string, condition = parts
        two = st.tuples(number, number)
        called = [name[:-2] for name in FUNCTIONS if name.endswith("()")]
        unary = st.sampled_from(
            [
                n
                for n in called
                if n not in ("lower", "upper", "length", "contains", "starts_with", "ends_with")
            ]
        )
        numeric = st.one_of(
            st.builds(
                lambda o, p: f"({p[0]} {o} {p[1]})", st.sampled_from(["+", "-", "*", "/", "%", "**"]), two
            ),
            st.builds(lambda f, a: f"{f}({a})", unary, number),
            st.builds(
                lambda f, p: f"{f}({p[0]}, {p[1]})",
                st.sampled_from(["least", "greatest", "nullif", "coalesce"]),
                two,
            ),
            st.builds(lambda c, p: f"({p[0]} if {c} else {p[1]})", condition, two),
            st.builds(lambda s: f"length({s})", string),
            st.builds(lambda a: f"(-{a})", number),
            st.builds(lambda a, n: f"round({a}, {n})", number, st.integers(-3, 5)),
        )
        textual = st.one_of(
            st.builds(lambda f, s: f"{f}({s})", st.sampled_from(["lower", "upper"]), string),
            st.builds(lambda a, b: f"concat({a}, {b})", string, string),
            st.builds(lambda c, a, b: f"({a} if {c} else {b})", condition, string, string),
        )
        logical = st.one_of(
            st.builds(lambda o, p: f"({p[0]} {o} {p[1]})", st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), two),
            st.builds(lambda o, a, b: f"({a} {o} {b})", st.sampled_from(["and", "or", "==", "!="]), condition, condition),
            st.builds(lambda a: f"(not {a})", condition),
            st.builds(lambda f, a, b: f"{f}({a}, {b})", st.sampled_from(["contains", "starts_with", "ends_with"]), string, string),
            st.builds(lambda a: f"({a} is null)", st.one_of(number, string, condition)),
            st.builds(lambda a, p: f"({p[0]} <= {a} < {p[1]})", number, two),
        )  # fmt: skip
        return number | numeric, string | textual, condition | logical

    parts = deeper(deeper((numbers, strings, conditions)))
    return st.one_of(parts)


def outcome(compute: Any) -> Any:
    try:
        return compute()
    except ArithmeticOverflow:
        return ArithmeticOverflow


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (math.isnan(one) and math.isnan(other)) or one == other
    return type(one) is type(other) and one == other


@given(expressions(), rows)
@settings(max_examples=250, deadline=None)
def test_a_batch_has_the_values_of_its_rows(text: str, data: list[dict[str, Any]]) -> None:
    try:
        typed = Expression(text).bind(TYPES)
    except ExpressionError:
        return
    table = pa.table({name: pa.array([row[name] for row in data], kind) for name, kind in TYPES.items()})
    by_row = outcome(lambda: [typed.row(row) for row in data])
    for given_ in (table, pa.concat_tables([table[:1], table[1:]])):
        by_batch = outcome(lambda given_=given_: typed.batch(given_))
        if by_row is ArithmeticOverflow:
            assert by_batch is ArithmeticOverflow
            continue
        assert by_batch.type == typed.type and len(by_batch) == len(data)
        assert all(map(same, by_row, by_batch.to_pylist())), (by_row, by_batch.to_pylist())
    for dialect in ("spark", "flink"):
        assert (typed.sql(dialect) is None) <= (dialect == "flink" and "integer(" in text)


def test_the_rules_of_sql() -> None:
    def value(text: str, **values: Any) -> Any:
        return Expression(text).bind(TYPES).row({**dict.fromkeys(TYPES), **values})

    assert value("x / 0", x=1.0) is None and value("i % 0", i=1) is None and value("sqrt(x)", x=-1.0) is None
    assert (
        value("i % 3", i=-7) == -1 and value("round(x)", x=2.5) == 3.0 and value("round(x)", x=-2.5) == -3.0
    )
    assert value("b and x > 0", b=False) is False and value("b or x > 0", b=False) is None
    assert value("1 if x > 0 else 2") == 2 and value("x in (1, 2)") is None and value("not x > 0") is None
    assert value("(-8) ** (1 / 3)") is None and value("2 ** 2000 > 1") is True
    with pytest.raises(ArithmeticOverflow, match="does not fit into 64 bits"):
        value("i * i", i=2**62)
    # The side that is not taken is not computed, in a batch either.
    guarded = Expression("i * i if i < 100 else -1").bind(TYPES)
    assert guarded.batch(pa.table({"i": [2**62, 3]})).to_pylist() == [-1, 9]


HOSTILE = {
    "().__class__.__bases__": "at most one dot",
    "__import__('os')": "no function",
    "a__b": "two underscores",
    "x.y.z": "at most one dot",
    "open('f')": "no function 'open'",
    "(lambda: 1)()": "only functions of the language",
    "[x for x in x]": "a comprehension",
    "x[0]": "a subscript",
    "f'{x}'": "a formatted text",
    "(x := 1)": "an assignment",
    "abs(*x)": "by position",
    "abs(x=1)": "by position",
    "9" * 1990: "fit 64 bits",
    "1e999": "too large",
    "1j": "kind of literal",
    "b'x'": "kind of literal",
    "-" * 1900 + "x": "levels|nested too deeply",  # Python's parser may give up first, deep in the stack
    "(" * 900 + "x" + ")" * 900: "does not parse",
    "x" + "**x" * 600: "levels",
    "x" + "+x" * 900: "levels",
    "x+" * LONGEST: "at most 2000 are allowed",
    "x in (" + "1," * 150 + ")": "at most 100",
    "x < " * 300 + "x": "parts",
    "x\0": "control character",
    "x = 1": "write ==",
    "x > 0 AND b": "lower case",
    "x == null": "x is null",
    "s + 1": "'+' takes two numbers, got string, int64",
    "nullif(1, 2, 3)": "takes two values of one type, got int64, int64, int64",
    "laod": "no name 'laod'",
    "i // 2": "floor",
    "": "empty",
    "null": "null alone",
}


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_bad_expressions_are_refused_at_once(text: str) -> None:
    started = time.perf_counter()
    with pytest.raises(
        ExpressionError, match="(?s).*" + HOSTILE[text].replace("+", r"\+").replace("(", r"\(")
    ):
        Expression(text).bind(TYPES)
    assert time.perf_counter() - started < 10.0, "this would not end"


def test_the_place_is_marked() -> None:
    with pytest.raises(ExpressionError) as error:
        Expression("  x > 0 and ünknown > 1").bind(TYPES)
    message = str(error.value).splitlines()
    assert message[1][4:][message[2][4:].index("^") : message[2][4:].rindex("^") + 1] == "ünknown"


def test_functions_have_to_be_registered() -> None:
    hypot = Registered(math.hypot, (pa.float64(), pa.float64()), pa.float64())
    typed = Expression("hypot(x, i)").bind(TYPES, functions={"hypot": hypot})
    assert typed.row({"x": 3.0, "i": 4}) == 5.0 and typed.row({"x": None, "i": 4}) is None
    assert typed.sql("spark") is None
    half = Registered(lambda a: a // 2, (pa.int64(),), pa.float64())
    typed = Expression("half(i)").bind(TYPES, functions={"half": half})
    assert repr(typed.row({"i": 7})) == "3.0", "of the type that it is registered with, as in a batch"
    text = Registered(str, (pa.int64(),), pa.int64())
    with pytest.raises(ExpressionError, match=r"function text\(\) returned '7', which is not of type int64"):
        Expression("text(i)").bind(TYPES, functions={"text": text}).row({"i": 7})
    broken = Registered(lambda a: 1 // 0, (pa.int64(),), pa.int64())
    with pytest.raises(ExpressionError, match=r"function broken\(7\) raised ZeroDivisionError"):
        Expression("broken(i)").bind(TYPES, functions={"broken": broken}).row({"i": 7})


def test_digits_are_a_plain_number_in_sql() -> None:
    assert (
        Expression("round(x, -3)").bind(TYPES).sql("flink") == "(ROUND(`x`, -3))"
    )  # Flink takes no BIGINT there
    assert Expression("round(x, i)").bind(TYPES).sql("spark") is None


def test_texts_cannot_leave_their_quotes_in_sql() -> None:
    typed = Expression('s == "a\' OR 1=1 --"').bind(TYPES)
    for dialect in ("spark", "flink"):
        assert "OR 1" not in str(typed.sql(dialect)) and "DECODE(X'" in str(typed.sql(dialect))
    assert (
        Expression("t.y > 0").bind({"t.y": pa.float64()}).sql("flink", {"t.y": "`u`"})
        == "(`u` > CAST('0.0' AS DOUBLE))"
    )
