# SPDX-License-Identifier: Apache-2.0
"""The parts of a query from a document: windows, aggregates and durations. Whatever is wrong is an error that says where.

>>> arguments({"window": {"kind": "count", "range": 3}, "aggregates": {"n": {"kind": "Count"}}}, ())["window"]
CountWindow(range=3, slide=3)
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from windrow import durations
from windrow.aggregates.algebra import Aggregate, aggregate_from_dict
from windrow.approximate.within import within_from_dict
from windrow.errors import AggregateError, QueryError, WindrowError
from windrow.imports import Allow, allowed
from windrow.windows import Window

__all__ = ["arguments", "check_names", "from_text", "names_checked", "reading"]

S = TypeVar("S")
P = ParamSpec("P")


def from_text(text: str) -> dict[str, Any]:
    """The JSON object in a text."""
    try:
        values = json.loads(text)
    except (ValueError, TypeError, RecursionError) as error:
        raise QueryError(f"the query is not valid JSON: {error}") from None
    if not isinstance(values, dict):
        raise QueryError("a query in JSON has to be an object")
    return values


def check_names(values: Any, known: Sequence[str]) -> None:
    """A document is an object with parameters of a query, the necessary ones among them."""
    if not isinstance(values, Mapping):
        raise QueryError(f"a query has to be an object with 'window' and 'aggregates', not {values!r}")
    for name in values:
        if name not in known:
            close = get_close_matches(str(name), known, n=1) or known
            raise QueryError(f"a query has no parameter {name!r}; did you mean {' or '.join(close)}?")
    for name in ("window", "aggregates"):
        if name not in values:
            raise QueryError(f"a query needs {name!r}")


def names_checked(init: Callable[Concatenate[S, P], None]) -> Callable[Concatenate[S, P], None]:
    """The ``__init__`` of a query, with the error of :func:`check_names` for a keyword that it does not have."""
    known = list(inspect.signature(init).parameters)[1:]

    @wraps(init)
    def checked(self: S, /, *args: P.args, **kwargs: P.kwargs) -> None:
        check_names(kwargs, known)
        init(self, *args, **kwargs)

    return checked


def arguments(values: Mapping[str, Any], allow: Allow) -> dict[str, Any]:
    """The arguments of a query from its document."""
    found, prefixes = dict(values), allowed(allow)
    with reading("window"):
        found["window"] = _windows(values["window"], prefixes)
    with reading("aggregates"):
        found["aggregates"] = _aggregates(values["aggregates"], prefixes)
    for name in ("lateness", "early"):
        if values.get(name) is not None:
            with reading(name):
                found[name] = durations.parse(values[name], name=name)
    if values.get("within") is not None:
        with reading("within"):
            found["within"] = within_from_dict(values["within"])
    return found


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Whatever is wrong with this part of a document is an error that names it."""
    try:
        yield
    except WindrowError:
        raise
    except RecursionError:
        raise QueryError(f"{name} is nested too deeply") from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise QueryError(f"{name} cannot be read: {error}") from error


def _windows(values: Any, allow: Allow) -> Window | list[Window] | dict[str, Window]:
    if isinstance(values, Mapping) and not isinstance(values.get("kind"), str):
        return {label: _window(each, allow) for label, each in values.items()}
    if isinstance(values, list):
        return [_window(each, allow) for each in values]
    return _window(values, allow)


def _window(values: Any, allow: Allow) -> Window:
    if not isinstance(values, Mapping):
        raise QueryError(f"a window has to be an object with 'kind' and its parameters, not {values!r}")
    return Window.from_dict(values, allow=allow)


def _aggregates(values: Any, allow: Allow) -> list[tuple[str, Aggregate]]:
    if not isinstance(values, Mapping) or not all(isinstance(each, Mapping) for each in values.values()):
        raise QueryError(
            f"aggregates have to be objects with 'kind' under their output names, not {values!r}"
        )
    return [(name, _aggregate(name, each, allow)) for name, each in values.items()]


def _aggregate(name: str, values: Mapping[str, Any], allow: Allow) -> Aggregate:
    try:
        return aggregate_from_dict(values, allow=allow)
    except (QueryError, AggregateError) as error:
        raise type(error)(f"aggregate {name!r}: {error}") from error
