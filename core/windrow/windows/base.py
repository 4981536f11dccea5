"""What every window specification is: a small frozen value that says which rows belong together, and when.

A specification computes nothing; it answers questions. Rows of one key are in the order (time, arrival),
and `i` is a row's position in that order, from 0. Then

- ``extent(w, …)`` is the rows of window ``w``, as a sequence of positions (of microseconds for time windows);
- ``mapping(i, …)`` is the windows that hold row ``i``: the inverse of the extent;
- ``context`` is "FCF" if the mapping of a row needs no later row (forward context free), else "FCA" (aware);
- ``trigger`` says what makes a window's result due.

Where a model needs the rows themselves to answer, ``extent`` and ``mapping`` take them as further arguments.
"""

from __future__ import annotations

import inspect
import json
import math
import operator
from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np

from windrow import durations
from windrow.durations import Duration
from windrow.errors import WindowError

__all__ = ["KINDS", "Context", "Interval", "Window"]

Context: TypeAlias = Literal["FCF", "FCA"]

Interval: TypeAlias = range
"""Consecutive integers, under a name that windows with a field called ``range`` can use."""

KINDS: dict[str, type[Window]] = {}
"""Every kind of window, by the name that it has in JSON."""


class Window:
    """The base of all window specifications.

    >>> from windrow.windows import TimeWindow
    >>> Window.from_json('{"kind": "time", "range": "1h", "slide": "1s"}')
    TimeWindow(range='1h', slide='1s')
    >>> TimeWindow("1h", "1s").to_json()
    '{"kind": "time", "range": "1h", "slide": "1s"}'
    """

    kind: ClassVar[str]
    context: ClassVar[Context]
    trigger: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        KINDS[cls.kind] = cls

    @property
    def label(self) -> str:
        """A short name for this window, such as "1h/1s"."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The arguments that make this window again, as JSON values, durations as text."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, **self.parameters()}

    def described(self) -> dict[str, Any]:
        """As :meth:`to_dict`, for people to compare; what is not importable is named all the same."""
        return self.to_dict()

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Window:
        arguments = dict(values)
        kind = arguments.pop("kind", None)
        if kind not in KINDS:
            raise WindowError(f"no window kind {kind!r}; 'kind' has to be one of {', '.join(sorted(KINDS))}")
        try:
            inspect.signature(KINDS[kind]).bind(**arguments)
        except TypeError as error:
            raise WindowError(f"{KINDS[kind].__name__}: {error}") from None
        return KINDS[kind](**arguments)

    @staticmethod
    def from_json(text: str) -> Window:
        try:
            values = json.loads(text)
        except ValueError as error:
            raise WindowError(f"a window in JSON: {error}") from None
        if not isinstance(values, dict):
            raise WindowError(f"a window in JSON has to be an object, not {text!r}")
        return Window.from_dict(values)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"

    def _assign(self, **values: object) -> None:
        """Set the fields of a frozen dataclass, in its own ``__init__``."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _duration(self, name: str, value: Duration) -> int:
        return durations.parse(value, name=f"{name} of {type(self).__name__}")

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
        if not 0 < count < 2**63:
            raise WindowError(f"{expected}, not {value!r}")
        return count

    def _positive_number(self, name: str, value: float) -> int | float:
        """A whole float becomes the integer, so that 2.0 and 2 are one parameter."""
        expected = f"{name} of {type(self).__name__} has to be a finite number greater than zero"
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise WindowError(f"{expected}, not {value!r} ({type(value).__name__})")
        if not math.isfinite(value) or value <= 0:
            raise WindowError(f"{expected}, not {value!r}")
        return int(value) if value == int(value) else float(value)
