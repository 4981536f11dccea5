"""Policy windows: the rows decide how long a window is, through its result."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from windrow.errors import NoMapping, WindowError
from windrow.windows.base import Context, Window

__all__ = ["Evict", "PolicyWindow", "Valid"]

Valid = Callable[[Any], bool]
Evict = Callable[[Any, Any, Any], bool]


@dataclass(frozen=True, init=False, repr=False)
class PolicyWindow(Window):
    """After every row, the window that a policy leaves: the oldest rows are evicted until it is satisfied.

    ``valid(result)`` says whether a window with this result is acceptable (the window invariant). The
    fewest oldest rows are evicted that make it so. Then ``evict(candidate, after, before)`` says whether
    the oldest rows up to and including one more should go too (the eviction invariant), given their own
    result, the result of what would remain, and the result before any eviction; while it says so, they go.
    The newest row is never evicted. Each argument has one attribute per aggregate of the query; at least
    one function has to be given.

    Both functions are assumed to be monotone, which is what allows evicting in bulk: a window inside a
    valid one is valid, and a shorter candidate than an evictable one is evictable.

    >>> def at_most_1000(window): return window.n <= 1000
    >>> def older_than_the_peak(candidate, after, before): return candidate.peak <= after.peak
    >>> PolicyWindow(valid=at_most_1000, evict=older_than_the_peak).label
    'policy at_most_1000, older_than_the_peak'

    In JSON a function is its import name, ``"package.module:function"``; such names are accepted in its
    place.

    >>> PolicyWindow(valid="json:loads").to_json()
    '{"kind": "policy", "valid": "json:loads"}'
    """

    valid: Valid | None
    evict: Evict | None

    kind: ClassVar[str] = "policy"
    context: ClassVar[Context] = "FCA"
    trigger: ClassVar[str] = "every row; due when the watermark passes its time"

    def __init__(self, valid: Valid | str | None = None, evict: Evict | str | None = None) -> None:
        if valid is None and evict is None:
            raise WindowError("PolicyWindow needs a policy: give valid=, evict=, or both")
        self._assign(valid=_function("valid", valid), evict=_function("evict", evict))

    def extent(self, *_: object) -> NoReturn:
        raise NoMapping("the rows of a PolicyWindow depend on its results; evaluate a query to get them")

    def mapping(self, *_: object) -> NoReturn:
        raise NoMapping("the windows of a row depend on the results of a PolicyWindow; evaluate a query")

    @property
    def label(self) -> str:
        functions = [function for function in (self.valid, self.evict) if function is not None]
        return "policy " + ", ".join(getattr(function, "__name__", "function") for function in functions)

    def parameters(self) -> dict[str, Any]:
        functions = {"valid": self.valid, "evict": self.evict}
        return {name: _import_name(name, function) for name, function in functions.items() if function}

    def described(self) -> dict[str, Any]:
        functions = {"valid": self.valid, "evict": self.evict}
        return {
            "kind": self.kind,
            **{name: _path(function) for name, function in functions.items() if function},
        }

    def __repr__(self) -> str:
        return f"PolicyWindow(valid={self.valid!r}, evict={self.evict!r})"


def _function(name: str, value: object) -> Callable[..., bool] | None:
    if isinstance(value, str):
        return _imported(name, value)
    if value is not None and not callable(value):
        raise WindowError(f"{name} of PolicyWindow has to be a function or its import name, not {value!r}")
    return value


def _imported(name: str, path: str) -> Callable[..., bool]:
    module, _, qualname = path.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise WindowError(
            f"{name} of PolicyWindow: cannot import {path!r} ({error}); write 'package.module:function'"
        ) from None
    if not callable(found):
        raise WindowError(f"{name} of PolicyWindow: {path!r} is not a function but {found!r}")
    return found  # type: ignore[no-any-return]


def _import_name(name: str, function: Callable[..., bool]) -> str:
    path = _path(function)
    try:
        importable = _imported(name, path) is function
    except WindowError:
        importable = False
    if not importable:
        raise WindowError(
            f"{name} of PolicyWindow: {function!r} has no import name, so it cannot be written to JSON; "
            f"define it at the top level of a module"
        )
    return path


def _path(function: Callable[..., bool]) -> str:
    return f"{getattr(function, '__module__', None)}:{getattr(function, '__qualname__', None)}"
