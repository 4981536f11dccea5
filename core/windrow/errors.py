# SPDX-License-Identifier: Apache-2.0
"""Every error that a user of windrow can cause.

All of them are a :class:`WindrowError`, so one ``except`` catches all errors of the library. Those that report a
bad argument are also a ``ValueError`` or a ``TypeError``, so code that does not import windrow can catch them too.
A message names the thing, says what was expected, and says what to do.

>>> issubclass(DurationError, WindrowError), issubclass(DurationError, ValueError)
(True, True)
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = [
    "AggregateError",
    "ArithmeticOverflow",
    "BoundWarning",
    "ColumnError",
    "CompileWarning",
    "CorruptSnapshot",
    "DeltaOrderError",
    "DurationError",
    "EngineError",
    "ExpressionError",
    "FingerprintMismatch",
    "FormatTooNew",
    "GeneratorError",
    "LawViolation",
    "NoMapping",
    "OperatorBroken",
    "OperatorBusy",
    "PermissionDenied",
    "PipelineError",
    "PropertyError",
    "QueryError",
    "SnapshotError",
    "StoreError",
    "StoreTaken",
    "TimeColumnError",
    "TimeUnitWarning",
    "WindowError",
    "WindrowError",
]


class WindrowError(Exception):
    """The root of all errors of this library."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str) -> str:
    """The end of a message about a name that is not known: those that are like it, or else all.

    >>> did_you_mean("slied", ["range", "slide"], "it has")
    "did you mean 'slide'?"
    >>> did_you_mean("x", ["range", "slide"], "it has")
    "it has 'range', 'slide'"
    """
    names = list(known)
    close = get_close_matches(name, names, n=3)
    if close:
        return f"did you mean {' or '.join(map(repr, close))}?"
    return f"{otherwise} {', '.join(map(repr, names)) or 'none'}"


# What is computed: queries, columns, windows.


class QueryError(WindrowError, ValueError):
    """A query that is not valid: a missing window, a duplicate output name, an unknown option."""


class ColumnError(QueryError):
    """A column that the query names is not in the data, or has a type that its aggregate cannot take."""

    @classmethod
    def unknown(cls, column: str, role: str, available: Iterable[str]) -> ColumnError:
        """The error for a column that is not in the data. Lists close matches, or else all columns.

        >>> print(ColumnError.unknown("laod", "input of aggregate 'peak'", ["plug", "load", "ts"]))
        no column 'laod' (input of aggregate 'peak'); did you mean 'load'?
        >>> print(ColumnError.unknown("x", "key", ["plug", "load"]))
        no column 'x' (key); the data has 'plug', 'load'

        The index of a pandas frame is a column only if it has a name.

        >>> print(ColumnError.unknown("ts", "time", ["load", "__index_level_0__"]))
        no column 'ts' (time); the data has 'load' and an index without a name: give it one, rename_axis('ts')
        """
        found = list(available)
        names = [name for name in found if not name.startswith("__index_level_")]
        hint = did_you_mean(column, names, "the data has") if names else "the data has no columns"
        if len(names) < len(found):
            hint += f" and an index without a name: give it one, rename_axis({column!r})"
        return cls(f"no column {column!r} ({role}); {hint}")


class ExpressionError(QueryError):
    """An expression that is not valid. The message repeats its text and marks the place.

    >>> print(ExpressionError.at("load >> 1", (0, 9), "'>>' is not part of the language"))
    '>>' is not part of the language
        load >> 1
        ^^^^^^^^^
    """

    @classmethod
    def at(cls, text: str, place: tuple[int, int], message: str) -> ExpressionError:
        """The error at ``place``: the first character, and the one after the last."""
        start = max(0, min(place[0], len(text)))
        first = max(0, start - 60)
        last = first + 100
        shown = ("…" if first else "") + text[first:last] + ("…" if len(text) > last else "")
        marked = max(1, min(place[1], last, len(text)) - start)
        indent = " " * (start - first + bool(first))
        return cls(f"{message}\n    {' '.join(shown.splitlines()) or shown}\n    {indent}{'^' * marked}")


class TimeColumnError(ColumnError, TypeError):
    """The time column is neither an Arrow timestamp nor integer microseconds, or holds a null."""


class TimeUnitWarning(UserWarning):
    """The numbers of a time column, or a duration without a unit, look like another unit than they are read in."""


class DurationError(WindrowError, ValueError):
    """A duration that does not parse, or is not a finite whole number of microseconds."""


class WindowError(WindrowError, ValueError):
    """A window whose parameters are impossible, such as a range or slide that is zero or negative."""


class NoMapping(WindrowError, TypeError):
    """The window model has no mapping (or extent) that can be computed from what was given."""


class PipelineError(QueryError):
    """A stream or a change of a graph of streams that is not valid. Names the stream and the parameter."""


class PermissionDenied(PipelineError, PermissionError):
    """Somebody asked for what the owner of a stream has not granted."""


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
        """The error for a user's function that raised. Names the aggregate and shows the arguments.

        >>> print(AggregateError.raised("mean", "lift", ("abc",), TypeError("must be real number")))
        aggregate 'mean': lift('abc') raised TypeError: must be real number
        """
        shown = ", ".join(_shortened(argument) for argument in arguments)
        return cls(f"aggregate {aggregate!r}: {function}({shown}) raised {type(cause).__name__}: {cause}")


class ArithmeticOverflow(WindrowError, OverflowError):
    """An exact result does not fit its type. Names the aggregate. Results never wrap around silently."""


class DeltaOrderError(WindrowError, ValueError):
    """The attribute of a delta window is null, NaN, or smaller than in the row before it."""


class EngineError(WindrowError, RuntimeError):
    """An engine that does not start, or stops for a reason outside the query."""


# State.


class OperatorBusy(WindrowError, RuntimeError):
    """Two threads use one operator at the same time."""


class OperatorBroken(WindrowError, RuntimeError):
    """An earlier call failed half-way, so the operator's state is not whole."""


class SnapshotError(WindrowError):
    """State that cannot be restored."""


class FingerprintMismatch(SnapshotError):
    """The snapshot was taken under another query."""

    @classmethod
    def of_query(cls, holder: str, difference: str) -> FingerprintMismatch:
        """The error for state of another query. ``holder`` is what the user knows it as: a snapshot, a checkpoint.

        >>> print(FingerprintMismatch.of_query("checkpoint", "added: lo = Min(v)"))
        the checkpoint belongs to another query: added: lo = Min(v). Continue with the query that wrote it, or use a new checkpoint
        """
        return cls(
            f"the {holder} belongs to another query: {difference}. Continue with the query that wrote it, or "
            + ("use a new checkpoint" if holder == "checkpoint" else "start with new state")
        )

    @classmethod
    def of_buckets(cls, written: int, now: int) -> FingerprintMismatch:
        """The error for state whose keys are spread over another number of buckets."""
        return cls(
            f"the checkpoint was written with buckets={written}, this query has buckets={now}; "
            "start it with the same number, or with a new checkpoint"
        )


class FormatTooNew(SnapshotError):
    """The snapshot was written by a newer version of windrow."""


class CorruptSnapshot(SnapshotError):
    """The snapshot is truncated or its bytes were changed."""


class StoreError(WindrowError):
    """A store of pages failed, or returned bytes that are damaged, missing or out of date."""


class StoreTaken(StoreError):
    """The store does not hold what this process wrote last: another process has it, or it has lost commits."""


# Laws and compilation of aggregates.


class LawViolation(WindrowError, AssertionError):
    """An aggregate breaks a law that it declares. Names the law and shows the smallest counterexample."""


class CompileWarning(UserWarning):
    """An aggregate with typed partials did not compile. It runs interpreted: slower, with the same results."""


class BoundWarning(UserWarning):
    """A result is further from the true one than the query promises. Its error column says how far it may be."""


def _shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"
