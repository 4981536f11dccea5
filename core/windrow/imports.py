# SPDX-License-Identifier: Apache-2.0
"""Functions and classes that a document names, imported only from modules that were allowed.

A query in JSON or TOML may name aggregates and policies as ``package.module:name``. To import a module is to run it.
So whoever reads a document says which modules it may name: ``allow=["jobs"]`` allows ``jobs`` and all modules in it.
windrow's own are always allowed, and :data:`ANY` allows every module.

>>> imported("windrow.aggregates.counting:Count", (), "aggregate 'n'").__name__
'Count'
>>> imported("os:system", (), "aggregate 'n'")
Traceback (most recent call last):
windrow.errors.QueryError: aggregate 'n' names 'os:system', and documents may not import 'os' here; if you trust the \
document, allow the module: allow=["os"] in Python, --allow os on the command line
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeAlias

from windrow.errors import QueryError, WindrowError

__all__ = ["ANY", "Allow", "allowed", "imported"]

Allow: TypeAlias = str | Iterable[str]
"""Modules that a document may name: one prefix or several."""

ANY = "*"
"""Every module: for documents that are as trusted as code."""

_OWN = "windrow"
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


def allowed(allow: Allow) -> tuple[str, ...]:
    """The prefixes that were given, checked.

    >>> allowed("jobs"), allowed(["jobs.windows", "more"])
    (('jobs',), ('jobs.windows', 'more'))
    """
    prefixes = (allow,) if isinstance(allow, str) else tuple(allow)
    for prefix in prefixes:
        if not isinstance(prefix, str) or not prefix:
            raise QueryError(f"allow has to be names of modules, such as 'jobs', not {prefix!r}")
    return prefixes


def imported(path: str, allow: Allow, role: str, error: type[WindrowError] = QueryError) -> Any:
    """What ``package.module:name`` names. ``role`` says in errors who names it."""
    if not _PATH.fullmatch(path):
        raise error(f"{role}: cannot import {path!r}; write 'package.module:name'")
    module, _, names = path.partition(":")
    _check(module, path, allow, role, error)
    try:
        found: Any = importlib.import_module(module)
        for name in names.split("."):
            found = getattr(found, name)
            if isinstance(found, ModuleType):
                raise AttributeError(f"{name!r} is a module")
    except WindrowError:
        raise
    except Exception as cause:  # whatever the module raises when it runs
        raise error(f"{role}: cannot import {path!r} ({cause}); {_remedy(cause)}") from cause
    if isinstance(found, type | FunctionType | BuiltinFunctionType):
        _check(str(found.__module__), path, allow, role, error)
    return found


def _remedy(cause: Exception) -> str:
    if not isinstance(cause, ModuleNotFoundError):
        return "make its module importable here"
    return "make its module importable here; if it is in the current folder: PYTHONPATH=. windrow run …"


def _check(module: str, path: str, allow: Allow, role: str, error: type[WindrowError]) -> None:
    prefixes = (*allowed(allow), _OWN)
    if ANY not in prefixes and not any(module == each or module.startswith(f"{each}.") for each in prefixes):
        raise error(
            f"{role} names {path!r}, and documents may not import {module!r} here; if you trust the document, allow the "
            f'module: allow=["{module}"] in Python, --allow {module} on the command line'
        )
