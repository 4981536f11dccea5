# SPDX-License-Identifier: Apache-2.0
"""A digest of the code of functions: equal as long as they compute the same way, whatever file they are in.

It is taken from the syntax tree of the source, without comments, docstrings, annotations and line numbers. So it is
the same in every version of Python. It covers what the functions refer to: constants, closures, defaults, and other
functions of their own package. Functions of other packages count by name. Where there is no source, as for code typed
into an interpreter, it is taken from the bytecode, and then holds for one version of Python.

>>> LIMIT = 3
>>> def few(window): return window.n <= LIMIT
>>> before = digest(few)
>>> LIMIT = 4
>>> digest(few) == before
False
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

__all__ = ["digest"]

_PLAIN = int | float | complex | str | bytes | bool | None
_SKIPPED = {"ctx", "type_comment", "type_params", "kind", "annotation", "returns", "decorator_list"}


def digest(*things: Any) -> str:
    """32 hex digits for functions and plain values, in this order."""
    seen: dict[int, int] = {}
    text = "".join(part for thing in things for part in _parts(thing, seen, ""))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _parts(thing: Any, seen: dict[int, int], package: str) -> Iterator[str]:
    """What a thing is, as text that is the same in every process."""
    if isinstance(thing, FunctionType):
        yield from _function(thing, seen, package)
    elif isinstance(thing, np.generic | np.dtype):
        yield f"{_name(type(thing))} {thing!s};"
    elif isinstance(thing, MethodType):
        yield _name(type(thing.__self__))
        yield from _parts(thing.__func__, seen, package)
    elif isinstance(thing, partial):
        for part in (thing.func, thing.args, thing.keywords):
            yield from _parts(part, seen, package)
    elif isinstance(thing, _PLAIN):
        yield f"{type(thing).__name__} {thing!r};"
    elif isinstance(thing, tuple | list | Mapping | set | frozenset):
        yield from _container(thing, seen, package)
    elif isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
        yield f"{thing.dtype}{thing.shape}{hashlib.sha256(thing.tobytes()).hexdigest()};"
    elif isinstance(function := getattr(thing, "py_func", None), FunctionType):
        yield from _function(function, seen, package)
    elif isinstance(thing, ModuleType | type | BuiltinFunctionType | np.ufunc):
        yield f"{_name(thing)};"
    else:  # an object counts by its kind: what it holds has no form that is the same everywhere
        yield f"{_name(type(thing))};"
        called = vars(type(thing)).get("__call__")
        if called is not None:
            yield from _parts(called, seen, package)


def _container(thing: Any, seen: dict[int, int], package: str) -> Iterator[str]:
    if not isinstance(thing, tuple | frozenset):
        if id(thing) in seen:  # it may hold itself
            yield f"#{seen[id(thing)]};"
            return
        seen[id(thing)] = len(seen)
    yield "("
    if isinstance(thing, set | frozenset):
        yield from sorted("".join(_parts(entry, seen, package)) for entry in thing)
    else:
        for entry in thing.items() if isinstance(thing, Mapping) else thing:
            yield from _parts(entry, seen, package)
    yield ")"


def _function(function: FunctionType, seen: dict[int, int], package: str) -> Iterator[str]:
    if id(function) in seen:  # which one it is matters
        yield f"#{seen[id(function)]};"
        return
    package = package or _package(function)
    if _package(function) != package:
        yield f"{_name(function)};"
        return
    seen[id(function)] = len(seen)
    node = _node(function.__code__)
    if node is None:
        yield f"python {sys.version_info[0]}.{sys.version_info[1]} "
        yield from _bytecode(function.__code__)
        names = _code_names(function.__code__)
    else:
        yield from _canonical(node)
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for part in (function.__defaults__, function.__kwdefaults__):
        yield from _parts(part, seen, package)
    for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        yield f"{free}="
        yield from _parts(_held(cell), seen, package)
    for name in sorted(names):
        if name in function.__globals__:
            yield f"{name}="
            yield from _parts(function.__globals__[name], seen, package)


def _held(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is filled later
        return None


def _package(thing: Any) -> str:
    """The top-level package of a function: only its functions are followed."""
    return str(getattr(thing, "__module__", None)).partition(".")[0]


def _name(thing: Any) -> str:
    module = getattr(thing, "__module__", "")
    return f"{module}:{getattr(thing, '__qualname__', getattr(thing, '__name__', ''))}"


# From the source.


def _node(code: CodeType) -> ast.AST | None:
    """The syntax tree of a function; nothing if its source is not at hand or does not fit."""
    try:
        lines, _ = inspect.findsource(code)
        tree = _tree("".join(lines))
    except (OSError, TypeError, IndexError, SyntaxError, ValueError, RecursionError):
        return None
    found = [node for node in ast.walk(tree) if _is_of(node, code)]
    if len({"".join(_canonical(node)) for node in found}) > 1:
        found = [node for node in found if isinstance(node, ast.Lambda) and _holds(node, code)]
    return found[0] if found and len({"".join(_canonical(node)) for node in found}) == 1 else None


@lru_cache(maxsize=16)
def _tree(source: str) -> ast.AST:
    return ast.parse(source)


def _is_of(node: ast.AST, code: CodeType) -> bool:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        lines = [node.lineno, *(each.lineno for each in node.decorator_list)]
        return node.name == code.co_name and min(lines) == code.co_firstlineno
    return isinstance(node, ast.Lambda) and code.co_name == "<lambda>" and node.lineno == code.co_firstlineno


def _holds(node: ast.Lambda, code: CodeType) -> bool:
    """Whether all instructions of the code come from the body of this lambda."""
    body: Any = node.body
    begin, end = (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)
    places: list[Any] = [each for each in code.co_positions() if None not in each and each[3] != 0]
    return bool(places) and all((p[0], p[2]) >= begin and (p[1], p[3]) <= end for p in places)


def _canonical(node: Any) -> Iterator[str]:
    """A syntax tree as text, without what does not change what is computed."""
    if isinstance(node, ast.AST):
        yield type(node).__name__ + "("
        for name, value in ast.iter_fields(node):
            if name == "name" and isinstance(node, ast.FunctionDef):
                continue
            if name == "body" and isinstance(value, list) and value and _is_docstring(value[0]):
                value = value[1:]
            if name not in _SKIPPED and value is not None and value != []:
                yield f"{name}="
                yield from _canonical(value)
        yield ")"
    elif isinstance(node, list):
        for entry in node:
            yield from _canonical(entry)
            yield ","
    else:
        yield f"{node!r};"


def _is_docstring(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


# From the bytecode.


def _bytecode(code: CodeType) -> Iterator[str]:
    yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars};"
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bytecode(constant)
        else:
            yield f"{sorted(map(repr, constant)) if isinstance(constant, frozenset) else repr(constant)};"


def _code_names(code: CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= _code_names(constant)
    return names
