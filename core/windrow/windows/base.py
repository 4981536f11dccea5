# SPDX-License-Identifier: Apache-2.0
"""The base of window specifications: frozen values that define which rows belong together, and when.

A specification holds no rows and no state. The rows of one key are ordered by time, and rows with equal times
by arrival. ``i`` is the position of a row in that order, from 0. A specification has these definitions:

- ``extent(w, …)``: the rows of window ``w``, as positions (for time windows, as microseconds);
- ``mapping(i, …)``: the ids of the windows that contain row ``i``; the inverse of the extent;
- ``context``: "FCF" (forward context free) if the mapping of a row needs no later row, else "FCA" (aware);
- ``trigger``: what makes the result of a window due, in words.

Where the definition needs other rows, ``extent`` and ``mapping`` take their times or attributes as an argument.
The oracle and the tests compute windows from these definitions. The operator uses the fields of a specification
and :mod:`windrow.windows.grid`, and keeps its own state.
"""

from __future__ import annotations

import inspect
import json
import math
import operator
import sys
from collections.abc import Mapping
from datetime import timedelta
from html import escape
from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from windrow import durations
from windrow.durations import Duration
from windrow.errors import WindowError, WindrowError, did_you_mean
from windrow.imports import Allow

__all__ = ["KINDS", "Context", "Interval", "Window"]

Context: TypeAlias = Literal["FCF", "FCA"]

Interval: TypeAlias = range
"""Consecutive integers. Inside a window class, ``range`` is a field, so the built-in needs another name."""

MOST_ROWS = 1 << 60
"""The largest number of rows in a parameter. Positions of rows plus a range or a slide then stay within 64 bits."""

KINDS: dict[str, type[Window]] = {}
"""Every kind of window, by its name in JSON. A subclass of :class:`Window` adds itself when it is defined."""


class Window:
    """The base of all window specifications.

    A subclass is a frozen dataclass. Its constructor checks all parameters and raises a ``WindowError`` or a
    ``DurationError`` that names the parameter. Equal parameters give equal windows, however they are written.

    >>> from windrow.windows import TimeWindow
    >>> Window.from_json('{"kind": "time", "range": "1h", "slide": "1s"}')
    TimeWindow(range='1h', slide='1s')
    >>> TimeWindow("1h", "1s").to_json()
    '{"kind": "time", "range": "1h", "slide": "1s"}'
    """

    kind: ClassVar[str]
    context: ClassVar[Context]
    trigger: ClassVar[str]
    bare: ClassVar[Mapping[str, int]] = {}
    """Durations that were given as numbers, so in microseconds, by name. A note for warnings: no part of the value."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        KINDS[cls.kind] = cls

    @property
    def label(self) -> str:
        """A short name, such as "1h/1s".

        Read when a query is built: it is the value of the column ``window`` if a query has a list of windows.
        """
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The arguments of the constructor that give an equal window, as JSON values; durations are text.

        Called by :meth:`to_dict` and by ``repr``. Raises a ``WindowError`` if an argument has no JSON form.
        """
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The kind and the parameters, as JSON values. :meth:`from_dict` gives an equal window."""
        return {"kind": self.kind, **self.parameters()}

    def described(self) -> dict[str, Any]:
        """Like :meth:`to_dict`, but for messages and fingerprints: it never raises.

        A function without an import name, such as a lambda, is described by its module and name.
        """
        return self.to_dict()

    def to_json(self) -> str:
        """:meth:`to_dict` as text."""
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(values: Mapping[str, Any], *, allow: Allow = ()) -> Window:
        """The window of these values: a ``kind`` and the parameters of that kind.

        Called when a query is read from JSON or TOML. Raises a ``WindowError`` for an unknown kind or parameter.
        ``allow`` names the modules that the values may import; see :mod:`windrow.imports`.
        """
        if not isinstance(values, Mapping):
            raise WindowError(f"a window has to be an object with 'kind' and its parameters, not {values!r}")
        arguments = dict(values)
        kind = arguments.pop("kind", None)
        if not isinstance(kind, str) or kind not in KINDS:
            raise WindowError(f"no window kind {kind!r}; 'kind' has to be one of {', '.join(sorted(KINDS))}")
        signature = inspect.signature(KINDS[kind])
        for name in arguments:
            if name not in signature.parameters:
                hint = did_you_mean(str(name), signature.parameters, "it has")
                raise WindowError(
                    f"{KINDS[kind].__name__}: got an unexpected keyword argument {name!r}; {hint}"
                )
        try:
            signature.bind(**arguments)
        except TypeError as error:
            raise WindowError(f"{KINDS[kind].__name__}: {error}") from None
        try:
            return KINDS[kind].from_parameters(arguments, allow)
        except WindrowError:
            raise
        except (TypeError, ValueError, ArithmeticError) as error:
            raise WindowError(f"{KINDS[kind].__name__}: {error}") from None

    @classmethod
    def from_parameters(cls, arguments: dict[str, Any], allow: Allow) -> Window:
        """The window of these arguments. A subclass whose arguments name functions imports them here."""
        return cls(**arguments)

    @staticmethod
    def from_json(text: str, *, allow: Allow = ()) -> Window:
        """The window of a JSON object; see :meth:`from_dict`."""
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise WindowError(f"a window in JSON: {error}") from None
        if not isinstance(values, dict):
            raise WindowError(f"a window in JSON has to be an object, not {text!r}")
        return Window.from_dict(values, allow=allow)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"

    def _repr_html_(self) -> str:
        """For notebooks: the parameters as a table."""
        values = {"kind": type(self).__name__, **self.described(), "due when": self.trigger}
        rows = "".join(
            f"<tr><th>{escape(str(n))}</th><td>{escape(str(v))}</td></tr>" for n, v in values.items()
        )
        return f"<table>{rows}</table>"

    def _assign(self, **values: object) -> None:
        """Set the fields. A subclass calls this in its ``__init__``, because a frozen dataclass cannot assign them."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _duration(self, name: str, value: Duration) -> int:
        micros = durations.parse(value, name=f"{name} of {type(self).__name__}")
        if not isinstance(value, str | timedelta | np.timedelta64):
            self._assign(bare={**self.bare, name: micros})
        return micros

    def _positive_duration(self, name: str, value: Duration) -> int:
        micros = self._duration(name, value)
        if micros <= 0:
            raise WindowError(f"{name} of {type(self).__name__} has to be longer than zero, not {value!r}")
        return micros

    def _positive_count(self, name: str, value: int) -> int:
        expected = f"{name} of {type(self).__name__} has to be a whole number of rows, at least 1"
        if isinstance(value, bool | np.bool_):
            raise WindowError(f"{expected}, not {value!r}")
        try:
            count = operator.index(value)
        except TypeError:
            raise WindowError(f"{expected}, not {value!r} ({type(value).__name__})") from None
        if count < 1:
            raise WindowError(f"{expected}, not {value!r}")
        if count > MOST_ROWS:
            raise WindowError(
                f"{name} of {type(self).__name__} has to be at most {MOST_ROWS} rows, not {value!r}"
            )
        return count

    def _positive_number(self, name: str, value: float) -> int | float:
        """A whole float becomes an integer, so that 2.0 and 2 give equal windows."""
        expected = f"{name} of {type(self).__name__} has to be a finite number greater than zero"
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise WindowError(f"{expected}, not {value!r} ({type(value).__name__})")
        try:
            finite = math.isfinite(value)
        except OverflowError:  # an integer beyond the largest float
            raise WindowError(f"{expected} and at most {sys.float_info.max}, not {value!r}") from None
        if not finite or value <= 0:
            raise WindowError(f"{expected}, not {value!r}")
        return int(value) if value == int(value) else float(value)
