# SPDX-License-Identifier: Apache-2.0
"""From text to a tree. The language is a small part of Python's expressions; everything else is refused.

Python's own parser reads the text, and nothing of it is ever run: the tree is translated node by node, and only kinds
of nodes that are listed here are translated. Length, depth, size and literals are bounded, so an expression from
a stranger is read or refused in milliseconds.

>>> parse("(t.f - 32) / 1.8").names
('t.f',)
>>> parse("().__class__")
Traceback (most recent call last):
windrow.errors.ExpressionError: a name has at most one dot, between two words: 'input.channel'
    ().__class__
    ^^^^^^^^^^^^
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from functools import reduce
from typing import Any

from windrow.errors import ExpressionError

__all__ = ["DEEPEST", "LARGEST", "LONGEST", "Call", "Literal", "Name", "Node", "Parsed", "parse"]

LONGEST, DEEPEST, LARGEST = 2000, 80, 400
"""Bounds of an expression: characters, levels, nodes."""
LONGEST_STRING, LONGEST_LIST = 1000, 100

Place = tuple[int, int]


@dataclass(frozen=True)
class Name:
    """A column, or a channel of an input."""

    name: str
    place: Place


@dataclass(frozen=True)
class Literal:
    """A number, a text, a truth value, or null."""

    value: bool | int | float | str | None
    place: Place


@dataclass(frozen=True)
class Call:
    """A function or an operator, by its name in :mod:`windrow.expressions.functions`, and its arguments."""

    function: str
    arguments: tuple[Node, ...]
    place: Place


Node = Name | Literal | Call


@dataclass(frozen=True)
class Parsed:
    """A text that is an expression. What its names mean is not known yet."""

    text: str
    root: Node
    names: tuple[str, ...]
    """The names that it reads, each once, in order of appearance."""


def parse(text: str) -> Parsed:
    """Read an expression.

    >>> parse("price * volume if volume > 0 else null").names
    ('price', 'volume')
    >>> parse("load > 0 and")
    Traceback (most recent call last):
    windrow.errors.ExpressionError: the expression does not parse: invalid syntax
        load > 0 and
                    ^
    """
    if not isinstance(text, str):
        raise ExpressionError(f"an expression is text, not {type(text).__name__}: {text!r}")
    if len(text) > LONGEST:
        raise ExpressionError(f"the expression has {len(text)} characters; at most {LONGEST} are allowed")
    text = text.replace("\r", " ").replace("\n", " ")
    if not text.strip():
        raise ExpressionError("the expression is empty")
    if not text.isprintable():
        raise ExpressionError.at(text, _unprintable(text), "the expression has a control character")
    body = _tree(text)
    reader = _Reader(text)
    root = reader.read(body, 1)
    return Parsed(text, root, tuple(dict.fromkeys(name for _, name in sorted(reader.found))))


def _unprintable(text: str) -> Place:
    start = next(i for i, character in enumerate(text) if not character.isprintable())
    return start, start + 1


def _tree(text: str) -> ast.expr:
    start = len(text) - len(text.lstrip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except SyntaxError as error:
        place = start + max(0, (error.offset or 1) - 1)
        raise ExpressionError.at(
            text, (place, place + 1), f"the expression does not parse: {error.msg}{_hint(text)}"
        ) from None
    except (MemoryError, RecursionError, ValueError):
        raise ExpressionError.at(text, (0, len(text)), "the expression is nested too deeply") from None


def _hint(text: str) -> str:
    words = text.replace("(", " ").replace(")", " ").split()
    if any(word in ("AND", "OR", "NOT", "IN", "IS") for word in words):
        return "; write and, or, not, in, is in lower case"
    if "=" in text.replace("==", "").replace("<=", "").replace(">=", "").replace("!=", ""):
        return "; write == to compare"
    if "<>" in text:
        return "; write != for 'not equal'"
    return ""


OPERATORS: dict[type, str] = {
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.Pow: "**"},
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
}
CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}


class _Reader:
    """Translates Python's tree. Counts nodes and levels as it goes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.indent = len(text) - len(text.lstrip())
        self.encoded = text.strip().encode()
        self.found: list[tuple[int, str]] = []
        self.nodes = 0

    def place(self, node: Any) -> Place:
        """Where a node stands in the text. Python counts bytes."""
        start, end = (len(self.encoded[:n].decode()) for n in (node.col_offset, node.end_col_offset))
        return self.indent + start, self.indent + end

    def refuse(self, node: Any, message: str) -> ExpressionError:
        return ExpressionError.at(self.text, self.place(node), message)

    def read(self, node: ast.expr, depth: int) -> Node:
        self.nodes += 1
        if depth > DEEPEST:
            raise self.refuse(node, f"the expression has more than {DEEPEST} levels; give parts a name")
        if self.nodes > LARGEST:
            raise self.refuse(node, f"the expression has more than {LARGEST} parts; give some a name")
        method = READERS.get(type(node))
        if method is None:
            raise self.refuse(node, f"{_kind(node)} is not part of the language of expressions")
        found: Node = method(self, node, depth)
        return found

    def name(self, node: ast.Name, depth: int) -> Node:
        if node.id in CONSTANTS:
            return Literal(CONSTANTS[node.id], self.place(node))
        return self._named(node.id, node)

    def dotted(self, node: ast.Attribute, depth: int) -> Node:
        if not isinstance(node.value, ast.Name):
            raise self.refuse(node, "a name has at most one dot, between two words: 'input.channel'")
        return self._named(f"{node.value.id}.{node.attr}", node)

    def _named(self, name: str, node: ast.expr) -> Name:
        if "__" in name:
            raise self.refuse(node, f"the name {name!r} has two underscores side by side")
        place = self.place(node)
        self.found.append((place[0], name))
        return Name(name, place)

    def constant(self, node: ast.Constant, depth: int) -> Node:
        value = node.value
        if value is not None and type(value) not in (bool, int, float, str):
            raise self.refuse(node, f"{_kind(node)} is not part of the language of expressions")
        if isinstance(value, str) and len(value) > LONGEST_STRING:
            raise self.refuse(node, f"a text in an expression has at most {LONGEST_STRING} characters")
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise self.refuse(node, "a whole number has to fit 64 bits; write it with a decimal point")
        if isinstance(value, float) and not abs(value) < float("inf"):
            raise self.refuse(node, "the number is too large for a double")
        return Literal(value, self.place(node))  # type: ignore[arg-type]

    def unary(self, node: ast.UnaryOp, depth: int) -> Node:
        operand = node.operand
        if isinstance(node.op, ast.USub):
            if isinstance(operand, ast.Constant) and type(operand.value) in (int, float):
                negative = ast.copy_location(ast.Constant(-operand.value), node)  # type: ignore[operator]
                return self.constant(negative, depth)
            return Call("negate", (self.read(operand, depth + 1),), self.place(node))
        if isinstance(node.op, ast.Not):
            return Call("not", (self.read(operand, depth + 1),), self.place(node))
        if isinstance(node.op, ast.UAdd):
            return self.read(operand, depth + 1)
        raise self.refuse(node, "'~' is not part of the language of expressions; write not")

    def binary(self, node: ast.BinOp, depth: int) -> Node:
        operator = OPERATORS.get(type(node.op))
        if operator is None:
            more = "; write floor(a / b)" if isinstance(node.op, ast.FloorDiv) else ""
            raise self.refuse(node, f"{_kind(node.op)} is not part of the language of expressions{more}")
        return Call(
            operator, (self.read(node.left, depth + 1), self.read(node.right, depth + 1)), self.place(node)
        )

    def boolean(self, node: ast.BoolOp, depth: int) -> Node:
        name = "and" if isinstance(node.op, ast.And) else "or"
        parts = [self.read(value, depth + 1) for value in node.values]
        return self._all(name, parts, node)

    def compare(self, node: ast.Compare, depth: int) -> Node:
        operands = [node.left, *node.comparators]
        parts = [
            self._comparison(operands[i], operator, operands[i + 1], node, depth + 1)
            for i, operator in enumerate(node.ops)
        ]
        return self._all("and", parts, node)

    def _all(self, name: str, parts: list[Node], node: ast.expr) -> Node:
        place = self.place(node)
        return reduce(lambda left, right: Call(name, (left, right), place), parts)

    def _comparison(
        self, left: ast.expr, operator: ast.cmpop, right: ast.expr, node: ast.Compare, depth: int
    ) -> Node:
        place = self.place(node)
        is_null = isinstance(right, ast.Constant) and right.value is None
        is_null = is_null or (isinstance(right, ast.Name) and right.id == "null")
        if isinstance(operator, ast.Is | ast.IsNot):
            if not is_null:
                raise self.refuse(node, "'is' works with null only: 'x is null', 'x is not null'")
            asked = Call("is_null", (self.read(left, depth),), place)
            return asked if isinstance(operator, ast.Is) else Call("not", (asked,), place)
        if is_null:
            raise self.refuse(node, "nothing is equal to null; write 'x is null'")
        if isinstance(operator, ast.In | ast.NotIn):
            asked = Call("in", (self.read(left, depth), *self._members(right, node, depth)), place)
            return asked if isinstance(operator, ast.In) else Call("not", (asked,), place)
        return Call(OPERATORS[type(operator)], (self.read(left, depth), self.read(right, depth)), place)

    def _members(self, node: ast.expr, whole: ast.Compare, depth: int) -> list[Node]:
        if not isinstance(node, ast.Tuple | ast.List) or not node.elts:
            raise self.refuse(whole, "'in' needs a list of literals, such as x in (1, 2, 3)")
        if len(node.elts) > LONGEST_LIST:
            raise self.refuse(whole, f"'in' takes at most {LONGEST_LIST} literals")
        members = [self.read(element, depth + 1) for element in node.elts]
        if not all(isinstance(member, Literal) and member.value is not None for member in members):
            raise self.refuse(whole, "'in' needs a list of literals without null, such as x in (1, 2, 3)")
        return members

    def conditional(self, node: ast.IfExp, depth: int) -> Node:
        parts = tuple(self.read(part, depth + 1) for part in (node.test, node.body, node.orelse))
        return Call("if", parts, self.place(node))

    def call(self, node: ast.Call, depth: int) -> Node:
        if not isinstance(node.func, ast.Name):
            raise self.refuse(node, "only functions of the language can be called, by their names")
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self.refuse(node, "functions take their arguments by position")
        arguments = tuple(self.read(argument, depth + 1) for argument in node.args)
        return Call(f"{node.func.id}()", arguments, self.place(node))


READERS: dict[type, Any] = {
    ast.Name: _Reader.name,
    ast.Attribute: _Reader.dotted,
    ast.Constant: _Reader.constant,
    ast.UnaryOp: _Reader.unary,
    ast.BinOp: _Reader.binary,
    ast.BoolOp: _Reader.boolean,
    ast.Compare: _Reader.compare,
    ast.IfExp: _Reader.conditional,
    ast.Call: _Reader.call,
}
"""The kinds of nodes that are part of the language."""


def _kind(node: Any) -> str:
    return {
        ast.Lambda: "a lambda",
        ast.Subscript: "a subscript",
        ast.Dict: "a dictionary",
        ast.Set: "a set",
        ast.List: "a list (except after 'in')",
        ast.Tuple: "a list (except after 'in')",
        ast.ListComp: "a comprehension",
        ast.SetComp: "a comprehension",
        ast.DictComp: "a comprehension",
        ast.GeneratorExp: "a comprehension",
        ast.NamedExpr: "an assignment",
        ast.JoinedStr: "a formatted text",
        ast.Await: "await",
        ast.Yield: "yield",
        ast.Starred: "a star",
        ast.Constant: "this kind of literal",
        ast.FloorDiv: "'//'",
        ast.MatMult: "'@'",
        ast.LShift: "'<<'",
        ast.RShift: "'>>'",
        ast.BitAnd: "'&'",
        ast.BitOr: "'|'",
        ast.BitXor: "'^'",
    }.get(type(node), f"this ({type(node).__name__})")
