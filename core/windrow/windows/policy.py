# SPDX-License-Identifier: Apache-2.0
"""Policy windows: functions of the user decide from the results how many rows a window has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from windrow.code_digest import digest
from windrow.errors import NoMapping, WindowError
from windrow.imports import ANY, Allow, imported
from windrow.windows.base import Context, Window

__all__ = ["Evict", "PolicyWindow", "Valid"]

Valid = Callable[[Any], bool]
Evict = Callable[[Any, Any, Any], bool]


@dataclass(frozen=True, init=False, repr=False)
class PolicyWindow(Window):
    """After every row, a window of the rows that a policy keeps. The oldest rows are evicted.

    The policy has two steps. First, ``valid(result)`` returns whether a window with this result is acceptable
    (the window invariant). As few of the oldest rows as possible are evicted to make it acceptable. Then
    ``evict(candidate, after, before)`` returns whether some of the oldest rows should be evicted too (the
    eviction invariant). ``candidate`` is their own result, ``after`` the result of the rows that would remain,
    and ``before`` the result before any eviction. While it returns true, one more row is evicted. The newest row
    is never evicted. Each result has one attribute per aggregate of the query. At least one function is needed.

    Both functions have to be monotone, so that many rows can be evicted at once: a window inside a valid one is
    valid, and a candidate that is shorter than an evictable one is evictable. Then the beginning of a window is
    found in O(log n) calls. If a function is not monotone, such as a bound on a mean, give ``monotone=False``:
    rows are evicted one by one, with two calls for each.

    >>> def at_most_1000(window): return window.n <= 1000
    >>> def older_than_the_peak(candidate, after, before): return candidate.peak <= after.peak
    >>> PolicyWindow(valid=at_most_1000, evict=older_than_the_peak).label
    'policy at_most_1000, older_than_the_peak'

    In JSON a function is its import name, ``"package.module:function"``. The constructor accepts such names too.

    >>> PolicyWindow(valid="json:loads").to_json()
    '{"kind": "policy", "valid": "json:loads"}'

    State is restored only under the functions that wrote it. ``version`` stands in for their code: give one, and
    change it when old state is of no use to the new functions.
    """

    valid: Valid | None
    evict: Evict | None
    version: str | int | None
    monotone: bool

    kind: ClassVar[str] = "policy"
    context: ClassVar[Context] = "FCA"
    trigger: ClassVar[str] = "every row; due when the watermark passes its time"

    def __init__(
        self,
        valid: Valid | str | None = None,
        evict: Evict | str | None = None,
        version: str | int | None = None,
        monotone: bool = True,
    ) -> None:
        if valid is None and evict is None:
            raise WindowError("PolicyWindow needs a policy: give valid=, evict=, or both")
        if version is not None and (isinstance(version, bool) or not isinstance(version, str | int)):
            raise WindowError(f"version of PolicyWindow has to be text or a whole number, not {version!r}")
        if not isinstance(monotone, bool):
            raise WindowError(f"monotone of PolicyWindow has to be True or False, not {monotone!r}")
        functions = {"valid": _function("valid", valid), "evict": _function("evict", evict)}
        self._assign(**functions, version=version, monotone=monotone)

    @classmethod
    def from_parameters(cls, arguments: dict[str, Any], allow: Allow) -> Window:
        named: dict[str, Any] = {
            name: _imported(name, value, allow)
            if isinstance(value, str) and name in ("valid", "evict")
            else value
            for name, value in arguments.items()
        }
        return cls(**named)

    def extent(self, *_: object) -> NoReturn:
        """Always raises ``NoMapping``: the extent depends on the results."""
        raise NoMapping("the rows of a PolicyWindow depend on its results; evaluate a query to get them")

    def mapping(self, *_: object) -> NoReturn:
        """Always raises ``NoMapping``: the mapping depends on the results."""
        raise NoMapping("the windows of a row depend on the results of a PolicyWindow; evaluate a query")

    @property
    def label(self) -> str:
        functions = [function for function in (self.valid, self.evict) if function is not None]
        return "policy " + ", ".join(getattr(function, "__name__", "function") for function in functions)

    def parameters(self) -> dict[str, Any]:
        functions = {"valid": self.valid, "evict": self.evict}
        names = {name: _import_name(name, function) for name, function in functions.items() if function}
        version = {} if self.version is None else {"version": self.version}
        return {**names, **version, **self._unordered()}

    def described(self) -> dict[str, Any]:
        functions = {"valid": self.valid, "evict": self.evict}
        return {
            "kind": self.kind,
            **{name: _path(function) for name, function in functions.items() if function},
            **self._unordered(),
            "code": digest(functions) if self.version is None else f"version {self.version}",
        }

    def _unordered(self) -> dict[str, Any]:
        return {} if self.monotone else {"monotone": False}

    def __repr__(self) -> str:
        return f"PolicyWindow(valid={self.valid!r}, evict={self.evict!r})"


def _function(name: str, value: object) -> Callable[..., bool] | None:
    if isinstance(value, str):
        return _imported(name, value)
    if value is not None and not callable(value):
        raise WindowError(f"{name} of PolicyWindow has to be a function or its import name, not {value!r}")
    return value


def _imported(name: str, path: str, allow: Allow = ANY) -> Callable[..., bool]:
    found: Callable[..., bool] = imported(path, allow, f"{name} of PolicyWindow", WindowError)
    if not callable(found):
        raise WindowError(f"{name} of PolicyWindow: {path!r} is not a function but {found!r}")
    return found


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
