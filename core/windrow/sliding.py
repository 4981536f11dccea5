# SPDX-License-Identifier: Apache-2.0
"""Every count-based window over whole columns, compiled: ``wr.sliding``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid
from windrow.aggregates.nulls import counted
from windrow.aggregates.whole import WholeWindow, count_extents
from windrow.columns.series import Array, Series, is_column, read
from windrow.errors import (
    AggregateError,
    ArithmeticOverflow,
    ColumnError,
    QueryError,
    WindowError,
    WindrowError,
)
from windrow.kernels.columns.error_location import blamed
from windrow.kernels.columns.layout import ColumnOutput, Input, RowSegments
from windrow.kernels.columns.runner import ALL_VALID, Runner


def sliding(
    values: Any,
    aggregate: Aggregate | Monoid,
    range: int,
    slide: int = 1,
    *,
    algorithm: str = "auto",
    offsets: Any = None,
    out: Any = None,
    threads: int | None = None,
) -> Any:
    """The aggregate of every ``range`` consecutive rows, each window ``slide`` rows after the last.

    Only complete windows: ``(len(values) - range) // slide + 1`` results. A slide longer than the range skips
    rows.

    values
        A numpy array (masked for nulls; NaT is null), an Arrow array, or a list. For an aggregate of several
        inputs, a tuple with one column for each. For one of a single input also a 2-D array, or a list of
        columns: one result each.
    algorithm
        ``"auto"``, or the name of one in :mod:`windrow.algorithms`, such as ``"TwoStacks"``.
    offsets
        Segments, for instance one per key: segment s is the rows ``offsets[s]`` to ``offsets[s + 1]``, and no
        window crosses from one into the next. Returns the results of all, and their offsets. A segment may be
        shorter than the range.
    out
        An array for the results, of the right length and type; for several columns, a list of them, or a 2-D
        array whose columns are contiguous (``order="F"``).
    threads
        How many threads share the work; by default one.

    Arrow gives Arrow, anything else numpy: a masked array if any result is null. The input is not copied.

    >>> import windrow as wr
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0, 5.0, 9.0], wr.Max(), range=3)
    array([4., 4., 5., 9.])
    >>> wr.sliding([3.0, 1.0, 4.0, 1.0, 5.0, 9.0], wr.Count(), range=4, slide=2)
    array([4, 4])
    >>> wr.sliding([3.0, None, None, 1.0], wr.Max(), range=2)
    masked_array(data=[3.0, --, 1.0],
                 mask=[False,  True, False],
           fill_value=1e+20)
    >>> wr.sliding([1, 2, 3, 40, 50], wr.Sum(), range=2, offsets=[0, 3, 5])
    (array([ 3,  5, 90]), array([0, 2, 3]))
    """
    window = _whole("range", range), _whole("slide", slide)
    workers = 1 if threads is None else _whole("threads", threads)
    given = _arranged(values, aggregate)
    segments = _segments(len(given.columns[0][0]), offsets, *window)
    buffers = given.buffers(out)
    jobs = [
        _Job.of(aggregate, columns, algorithm, segments, *window, buffer)
        for columns, buffer in zip(given.columns, buffers, strict=True)
    ]
    _work([task for job in jobs for task in job.tasks(workers, len(jobs))], workers)
    results = given.results([job.result() for job in jobs], out)
    return results if offsets is None else (results, segments.places)


@dataclass(frozen=True)
class _Given:
    """What the user gave: the input columns of one or several results, and how the results go together."""

    columns: list[tuple[Series, ...]]
    form: str  # "one", "list", "table"

    def buffers(self, out: Any) -> Sequence[Any]:
        if out is None:
            return [None] * len(self.columns)
        if self.form == "one":
            return [out]
        if self.form == "table" and isinstance(out, np.ndarray) and out.ndim == 2:
            return list(out.T)
        if isinstance(out, list | tuple) and len(out) == len(self.columns):
            return out
        raise ColumnError(f"out is one buffer for {len(self.columns)} columns; give a list with one for each")

    def results(self, results: list[Any], out: Any) -> Any:
        if self.form == "one":
            return results[0]
        if self.form == "list":
            return results
        if any(isinstance(result, np.ma.MaskedArray) for result in results):
            return np.ma.stack(results, axis=1)
        return out if isinstance(out, np.ndarray) else np.stack(results, axis=1)


def _segments(length: int, offsets: Any, rows: int, slide: int) -> RowSegments:
    """The segments of so many rows that the user's offsets cut, or one segment of all."""
    if offsets is None:
        if rows > length:
            raise WindowError(
                f"range is {rows} rows and the data has {length}; there is no complete window. "
                "Give a shorter range, or more data"
            )
        cuts = np.array([0, length], dtype=np.int64)
    else:
        cuts = np.asarray(offsets)
        if cuts.ndim != 1 or len(cuts) == 0 or cuts.dtype.kind not in "iu":
            raise ColumnError(
                f"offsets are {offsets!r}; expected whole numbers, one more than there are segments"
            )
        cuts = cuts.astype(np.int64)
        if cuts[0] < 0 or cuts[-1] > length or bool((np.diff(cuts) < 0).any()):
            raise ColumnError(
                f"offsets run from {cuts[0]} to {cuts[-1]}; expected ascending positions from 0 "
                f"to {length}, the length of the data"
            )
    counts = np.maximum((np.diff(cuts) - rows) // slide + 1, 0)
    return RowSegments(cuts, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))


def _pieces(segments: RowSegments, parts: int, chunk: int, slide: int) -> list[RowSegments]:
    """About this many pieces of similar size. The combines of a window are the same as without pieces."""
    offsets, places = segments
    if parts <= 1 or places[-1] == 0:
        return [segments]
    targets = places[-1] * np.arange(parts + 1) // parts
    if len(offsets) == 2:
        cuts = np.unique(np.append(targets[:-1] // chunk * chunk, targets[-1]))
        begins = offsets[0] + cuts * slide
        return [RowSegments(begins[[i, i + 1]], cuts[[i, i + 1]]) for i in np.arange(len(cuts) - 1)]
    cuts = np.unique(np.append(np.searchsorted(places, targets[:-1]), len(places) - 1))
    return [RowSegments(offsets[a : b + 1], places[a : b + 1]) for a, b in pairwise(cuts)]


@dataclass(frozen=True)
class _Job:
    """One aggregate over its input columns."""

    monoid: Monoid
    input: Input
    algorithm: str
    segments: RowSegments
    range: int
    slide: int
    output: ColumnOutput
    like: Series
    whole: WholeWindow | None = None
    """If results come from the rows of whole windows."""

    @classmethod
    def of(
        cls,
        aggregate: Aggregate | Monoid,
        columns: tuple[Series, ...],
        algorithm: str,
        segments: RowSegments,
        range_: int,
        slide: int,
        buffer: Any,
    ) -> _Job:
        read = columns[: _arity(aggregate)]
        masks = [column.valid for column in read if column.valid is not None]
        rows = Input(
            tuple(column.values for column in read), np.logical_and.reduce(masks) if masks else ALL_VALID
        )
        monoid = _bound(aggregate, tuple(column.type for column in read), bool(masks))
        count = int(segments.places[-1])
        values = _buffer(buffer, count, columns[0], monoid)
        whole = None
        if algorithm == "auto" and isinstance(aggregate, Aggregate):
            whole = aggregate.whole([column.type for column in read])
            whole = whole if whole is not None and whole.dtype == values.dtype else None
        flags = algorithm != "auto" or whole is not None or _runner(monoid, bool(masks)).flags
        output = ColumnOutput(values, np.ones(count, dtype=np.bool_) if flags else ALL_VALID)
        return cls(monoid, rows, algorithm, segments, range_, slide, output, columns[0], whole)

    def tasks(self, workers: int, jobs: int) -> list[Callable[[], None]]:
        """The work, in pieces that threads may do side by side."""
        if self.algorithm != "auto":
            return [self._run_algorithm]
        chunk = max(self.range // self.slide, 1)
        pieces = _pieces(self.segments, -(-workers // jobs), chunk, self.slide)
        return [partial(self._explained, partial(self._run, piece)) for piece in pieces]

    def _run(self, piece: RowSegments) -> None:
        if self.whole is not None:
            extents = count_extents(*self.input, piece, self.range, self.slide)
            some = slice(int(piece.places[0]), int(piece.places[-1]))
            self.whole.compute(extents, self.output.values[some], self.output.ok[some])
            return
        runner = _runner(self.monoid, len(self.input.valid) > 0)
        runner.run(self.input, piece, self.output, self.range, self.slide)

    def _run_algorithm(self) -> None:
        kind = _algorithm(self.algorithm)
        (columns, valid), (offsets, places) = self.input, self.segments
        for segment in np.flatnonzero(np.diff(places)):
            rows, windows = slice(*offsets[segment : segment + 2]), slice(*places[segment : segment + 2])
            inputs = tuple(column[rows] for column in columns), valid[rows] if len(valid) else None
            results = self.output.values[windows], self.output.ok[windows]
            window = self.range, self.slide
            self._explained(partial(kind.sliding, self.monoid, inputs[0], *window, *results, inputs[1]))

    def result(self) -> Any:
        """The results in the form in which the values came."""
        values, ok = self.output
        return self.like.give(values, ok if len(ok) else None, self.monoid.output)

    def _explained(self, run: Callable[[], None]) -> None:
        """Run; name the aggregate and the element if one of its functions raises."""
        try:
            run()
        except WindrowError:
            raise
        except OverflowError as cause:
            raise ArithmeticOverflow(
                f"a result of {self.monoid.name} does not fit {self.monoid.output}: {cause}. "
                "Cast the column to float64 first"
            ) from cause
        except Exception as cause:
            raise blamed(self.monoid, self.input, self.segments, self.range, self.slide, cause) from cause


def _arranged(values: Any, aggregate: Aggregate | Monoid) -> _Given:
    """The columns that the aggregate reads, for each result."""
    if not isinstance(aggregate, Aggregate | Monoid):
        hint = (
            f"{aggregate.__name__}()"
            if isinstance(aggregate, type) and issubclass(aggregate, Aggregate)
            else "wr.Max()"
        )
        raise AggregateError(f"aggregate is {aggregate!r}; expected one such as {hint}")
    arity = _arity(aggregate)
    if arity > 1:
        if isinstance(values, np.ndarray) or not isinstance(values, Sequence) or len(values) != arity:
            raise ColumnError(
                f"{_name(aggregate)} has {arity} inputs; expected a tuple of {arity} columns as values"
            )
        columns = tuple(read(column) for column in values)
        if len({len(column) for column in columns}) > 1:
            raise ColumnError(
                f"the columns have lengths {[len(column) for column in columns]}; expected equal ones"
            )
        return _Given([columns], "one")
    if isinstance(values, np.ndarray) and values.ndim == 2:
        if values.shape[1] == 0:
            raise ColumnError("values are a 2-D array without columns; give at least one")
        return _Given([(read(values[:, column]),) for column in np.arange(values.shape[1])], "table")
    if isinstance(values, list | tuple) and values and is_column(values[0]) and _flat(values[0]):
        several = [read(column) for column in values]
        if len({len(column) for column in several}) > 1:
            raise ColumnError("the columns differ in length; call once for each, or give segments by offsets")
        return _Given([(column,) for column in several], "list")
    return _Given([(read(values),)], "one")


def _flat(column: Any) -> bool:
    """Does it hold values, and is it not just one cell of a column of lists?"""
    return not isinstance(column, Sequence) or isinstance(column, list)


def _whole(name: str, value: Any) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if isinstance(value, bool | np.bool_) or number < 1:
        raise WindowError(f"{name} is {value!r}; expected a whole number of {_UNITS[name]}, at least 1")
    return number


_UNITS = {"range": "rows", "slide": "rows", "threads": "threads"}


def _name(aggregate: Aggregate | Monoid) -> str:
    return aggregate.label if isinstance(aggregate, Aggregate) else aggregate.name


def _arity(aggregate: Aggregate | Monoid) -> int:
    return aggregate.arity if isinstance(aggregate, Aggregate) else len(aggregate.inputs)


def _bound(aggregate: Aggregate | Monoid, types: tuple[pa.DataType, ...], masked: bool) -> Monoid:
    if isinstance(aggregate, Monoid):
        return counted(aggregate) if masked else aggregate
    if aggregate.where is not None:
        raise AggregateError(
            f"{aggregate.label}: where= needs the columns of a query; choose the values before sliding()"
        )
    try:
        return _bound_once(aggregate, types, masked)
    except TypeError as problem:
        if "unhashable" not in str(problem):
            raise
        return _bound_once.__wrapped__(aggregate, types, masked)


@lru_cache(maxsize=256)
def _bound_once(aggregate: Aggregate, types: tuple[pa.DataType, ...], masked: bool) -> Monoid:
    return aggregate.bind(types) if masked else aggregate.dense(types)


@lru_cache(maxsize=256)
def _runner(monoid: Monoid, masked: bool) -> Runner:
    return Runner(monoid, masked)


def _algorithm(name: Any) -> Any:
    from windrow.algorithms import REGISTRY

    if name not in REGISTRY:
        raise QueryError(f"no algorithm {name!r}; expected 'auto' or one of {', '.join(sorted(REGISTRY))}")
    return REGISTRY[name]


def _buffer(buffer: Any, count: int, like: Series, monoid: Monoid) -> Array:
    """Where results go, in their physical type."""
    physical = monoid.results
    if buffer is None:
        return np.empty(count, dtype=physical)
    dtype = like.result_dtype(monoid.output, monoid.record)
    if not isinstance(buffer, np.ndarray) or buffer.dtype != dtype or buffer.shape != (count,):
        shape = (
            f"an array of {buffer.dtype} of shape {buffer.shape}"
            if isinstance(buffer, np.ndarray)
            else repr(buffer)
        )
        raise ColumnError(f"out is {shape}; {monoid.name} needs one of {dtype} of shape ({count},)")
    if not (buffer.flags.c_contiguous and buffer.flags.writeable):
        raise ColumnError("out is not contiguous, or not writeable; give a fresh array, as np.empty makes it")
    if dtype.itemsize != physical.itemsize:
        raise ColumnError(f"out cannot be {dtype}, which is computed as {physical}; leave it out")
    return buffer if dtype == physical else buffer.view(physical)


def _work(tasks: list[Callable[[], None]], workers: int) -> None:
    if workers == 1 or len(tasks) == 1:
        for task in tasks:
            task()
        return
    with ThreadPoolExecutor(min(workers, len(tasks))) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()
