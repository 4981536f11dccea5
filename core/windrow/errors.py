"""Every error that a user of windrow can cause.

All of them are a :class:`WindrowError`, so one ``except`` catches the library. Those that report a bad
argument are also a ``ValueError`` or a ``TypeError``, so code that knows nothing of windrow still does the
natural thing. A message names the thing, says what was expected, and what to do.

>>> issubclass(DurationError, WindrowError), issubclass(DurationError, ValueError)
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "AggregateError",
    "ArithmeticOverflow",
    "ColumnError",
    "CompileWarning",
    "CorruptSnapshot",
    "DeltaOrderError",
    "DurationError",
    "EngineError",
    "FingerprintMismatch",
    "FormatTooNew",
    "GeneratorError",
    "LawViolation",
    "NoMapping",
    "PropertyError",
    "QueryError",
    "SnapshotError",
    "StoreError",
    "TimeColumnError",
    "WindowError",
    "WindrowError",
]


class WindrowError(Exception):
    """The root of all errors of this library."""


# What is computed: queries, columns, windows.


class QueryError(WindrowError, ValueError):
    """A query that cannot mean anything: a missing window, a duplicate output name, an unknown option."""


class ColumnError(QueryError):
    """A column that the query names is not in the data, or has a type that its aggregate cannot take."""

    @classmethod
    def unknown(cls, column: str, role: str, available: Iterable[str]) -> ColumnError:
        """The error for a column that is not there; lists the close matches, else what there is.

        >>> print(ColumnError.unknown("laod", "input of aggregate 'peak'", ["plug", "load", "ts"]))
        no column 'laod' (input of aggregate 'peak'); did you mean 'load'?
        >>> print(ColumnError.unknown("x", "key", ["plug", "load"]))
        no column 'x' (key); the data has 'plug', 'load'
        """
        names = list(available)
        close = get_close_matches(column, names, n=3)
        if close:
            hint = "did you mean " + " or ".join(repr(name) for name in close) + "?"
            return cls(f"no column {column!r} ({role}); {hint}")
        listed = ", ".join(repr(name) for name in names) or "no columns"
        return cls(f"no column {column!r} ({role}); the data has {listed}")


class TimeColumnError(ColumnError, TypeError):
    """The time column is neither an Arrow timestamp nor integer microseconds, or holds a null."""


class DurationError(WindrowError, ValueError):
    """A duration that does not parse, or is not a finite whole number of microseconds."""


class WindowError(WindrowError, ValueError):
    """A window whose parameters are impossible, such as a range or slide that is zero or negative."""


class NoMapping(WindrowError, TypeError):
    """The window model has no mapping (or extent) that can be computed from what was given."""


class PropertyError(QueryError):
    """An algorithm needs a property (commutative, invertible, selective) that an aggregate does not have."""


class GeneratorError(WindrowError, ValueError):
    """A parameter of a data generator that is impossible, such as more houses than plugs."""


# What happens while rows are aggregated.


class AggregateError(WindrowError):
    """An aggregate that is declared wrongly, or whose function raised on an element."""

    @classmethod
    def raised(
        cls, aggregate: str, function: str, arguments: tuple[object, ...], cause: BaseException
    ) -> AggregateError:
        """The error for a user's function that raised; names the aggregate and shows the element.

        >>> print(AggregateError.raised("mean", "lift", ("abc",), TypeError("must be real number")))
        aggregate 'mean': lift('abc') raised TypeError: must be real number
        """
        shown = ", ".join(_shortened(argument) for argument in arguments)
        return cls(f"aggregate {aggregate!r}: {function}({shown}) raised {type(cause).__name__}: {cause}")


class ArithmeticOverflow(WindrowError, OverflowError):
    """An exact result does not fit its type. Names the aggregate; never wraps around silently."""


class DeltaOrderError(WindrowError, ValueError):
    """The attribute of a delta window is null, NaN, or smaller than in the row before it."""


class EngineError(WindrowError, RuntimeError):
    """An engine that does not start, or stops for a reason that is not the query's."""


# State.


class SnapshotError(WindrowError):
    """State that cannot be restored."""


class FingerprintMismatch(SnapshotError):
    """The snapshot was taken under another query."""


class FormatTooNew(SnapshotError):
    """The snapshot was written by a newer version of windrow."""


class CorruptSnapshot(SnapshotError):
    """The snapshot is truncated or its bytes were changed."""


class StoreError(WindrowError):
    """A page store could not do what was asked of it."""


# What is promised about aggregates.


class LawViolation(WindrowError, AssertionError):
    """An aggregate breaks a law that it declares. Names the law and shows the smallest counterexample."""


class CompileWarning(UserWarning):
    """An aggregate with typed partials did not compile; it runs interpreted: same results, slower."""


def _shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
