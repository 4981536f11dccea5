# SPDX-License-Identifier: Apache-2.0
"""Queries in files: JSON as `query.to_json()` writes it, or TOML for people.

    by = ["plug"]
    time = "ts"

    [window]
    kind = "time"
    range = "1h"
    slide = "1s"

    [aggregates]
    peak = "Max(load)"
    p95 = "Quantile(load, q=0.95)"
    n = "Count()"

>>> aggregate_form("p95", "Quantile(load, q=0.95)")
{'kind': 'Quantile', 'column': 'load', 'q': 0.95}
"""

from __future__ import annotations

import ast
import json
import tomllib
import warnings
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from windrow.cli.refusals import Refusal
from windrow.errors import QueryError, TimeUnitWarning
from windrow.imports import Allow, imported

if TYPE_CHECKING:
    from windrow.query.query import Query

__all__ = ["aggregate_form", "read_query"]


def read_query(path: Path, allow: Allow = ()) -> Query:
    """The query in a JSON or TOML file. ``allow`` names the modules that it may import.

    A duration without a unit that seems to be in the unit of times is refused: it could take hours and fill the disk.
    """
    from windrow.query.query import Query

    parse = {".json": json.loads, ".toml": tomllib.loads}.get(path.suffix.lower())
    if parse is None:
        raise Refusal(f"{path}: a query is read from a .json or a .toml file")
    try:
        document = parse(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise Refusal(f"{path} is nested too deeply for a query") from error
    except ValueError as error:  # both parsers' errors, and text that is not UTF-8
        raise Refusal(f"{path} is not valid {path.suffix[1:].upper()}: {error}") from error
    if not isinstance(document, dict):
        raise Refusal(f"{path}: expected an object with the keys of a query: 'window', 'aggregates', …")
    aggregates = document.get("aggregates")
    if isinstance(aggregates, dict):
        document["aggregates"] = {
            name: aggregate_form(name, form, allow) if isinstance(form, str) else form
            for name, form in aggregates.items()
        }
    with warnings.catch_warnings():
        warnings.simplefilter("error", TimeUnitWarning)
        try:
            return Query.from_dict(document, allow=allow)
        except TimeUnitWarning as warning:
            raise Refusal(f"{path}: {warning}") from None


def aggregate_form(name: str, text: str, allow: Allow = ()) -> dict[str, Any]:
    """The short form of an aggregate, `Max(load)` or `package.module:Own(load)`, as the table that it stands for.

    Columns are bare words, or quoted if they are not words; parameters are `name=value`.
    """
    kind, bracket, rest = text.strip().partition("(")
    try:
        call = ast.parse(f"_({rest}" if bracket else "_()", mode="eval").body
        assert isinstance(call, ast.Call)
        given = [_value(each) for each in call.args]
        named = {each.arg: _value(each.value) for each in call.keywords if each.arg is not None}
        if len(named) < len(call.keywords):
            raise ValueError("** has no name")
    except (SyntaxError, ValueError, AssertionError, RecursionError, MemoryError, TypeError):
        raise QueryError(
            f"aggregate {name!r} is {text!r}; expected a form such as 'Max(load)' or 'Quantile(load, q=0.95)'"
        ) from None
    places = _parameters(name, kind, allow) if given else []
    if len(given) > len(places) and places:
        raise QueryError(
            f"aggregate {name!r}: {kind} takes {', '.join(places)}, and {text!r} has too many arguments"
        )
    return {"kind": kind, **dict(zip(places, given, strict=False)), **named}


def _value(node: ast.expr) -> Any:
    return node.id if isinstance(node, ast.Name) else ast.literal_eval(node)


def _parameters(name: str, kind: str, allow: Allow) -> list[str]:
    """The names of an aggregate's parameters that need no name, in order; none if there is no such aggregate."""
    from windrow.aggregates import Aggregate

    found: Any = Aggregate.kinds.get(kind)
    if found is None and ":" in kind:
        found = imported(kind, allow, f"aggregate {name!r}")
    return [each.name for each in fields(found) if not each.kw_only] if is_dataclass(found) else []
