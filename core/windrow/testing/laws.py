# SPDX-License-Identifier: Apache-2.0
"""What every aggregate promises, checked with Hypothesis. Use it in the tests of your own aggregates:

>>> import windrow as wr
>>> @wr.aggregate_type(partial={"mean": "f8"}, identity=(0.0,))
... class MeanOfMeans:
...     def lift(x): return (x,)
...     def combine(a, b): return ((a[0] + b[0]) / 2,)
...     def lower(p): return p[0]
>>> wr.laws.check(MeanOfMeans("load"), [0.0, 1.0, 2.0])
Traceback (most recent call last):
windrow.errors.LawViolation: MeanOfMeans(load) breaks the law of associativity: ...
>>> wr.laws.check(wr.Mean("load"), [0.0, 1.0, 2.0])

The laws: **associativity**, **identity**, **grouping** (every binary tree and every sharding of the rows
gives the result of the sequential fold), **commutativity**, **invertibility** and **selectivity** where
they are declared, **compilation** (compiled and interpreted agree), **encoding** (partials survive as
bytes) and **purity** (no function changes its arguments).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.columns import arrow
from windrow.columns.encoding import decode, encode
from windrow.errors import CompileWarning
from windrow.kernels.partials import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.testing import fold
from windrow.testing.compare import same, shortened
from windrow.testing.trial import Law, Sample, Trial, hypothesis, smallest_failure

__all__ = ["LAWS", "check"]

Laws = dict[str, Law]


def check(
    aggregate: Aggregate,
    values: Any,
    *,
    types: Sequence[pa.DataType] | None = None,
    examples: int = 200,
    compiled: bool = True,
) -> None:
    """Raise :class:`~windrow.errors.LawViolation`, with the smallest counterexample found, if the aggregate
    breaks a law.

    ``values`` is a Hypothesis strategy, or a sequence to draw from: of values, or of tuples if there are
    several columns. ``types`` are the Arrow types of the columns (default: those of the values),
    ``examples`` is how many cases each law is tried on. ``compiled=False`` leaves out the law that needs
    the compiler.

    Results may differ by the aggregate's ``tolerance``, relative to the largest of results and inputs. It is
    also enough that the partials agree to that tolerance, because a small difference in a partial may become
    a large one in the result.
    """
    strategies = hypothesis().strategies
    drawn = values if isinstance(values, strategies.SearchStrategy) else strategies.sampled_from(list(values))
    rows = drawn.map(lambda value: value if isinstance(value, tuple) and aggregate.arity != 1 else (value,))
    rows = rows.filter(lambda row: not any(value is None for value in row))
    bound = aggregate.bind(_types_of(rows) if types is None and aggregate.arity else types)
    dense = aggregate.dense(bound.inputs)
    lists = strategies.lists(rows.map(lambda row: _physical(row, bound.inputs)), max_size=10)
    for laws in _stages(compiled):
        problem = smallest_failure(laws, bound, dense, lists, examples, shrink=False)
        if problem is not None:
            # Name the first law that fails by itself; a counterexample of a single law shrinks best.
            alone = (
                smallest_failure({name: law}, bound, dense, lists, examples, shrink=True)
                for name, law in laws.items()
            )
            raise next((found for found in alone if found is not None), problem)


def associativity(trial: Trial) -> None:
    """``(a ⊕ b) ⊕ c`` is ``a ⊕ (b ⊕ c)``. The identity takes no part, so that a wrong one is not blamed on combine."""
    combine, runs = trial.monoid.combine, trial.cut(3)
    if not all(runs):
        return
    a, b, c = (_tree(trial.monoid, run, lambda low, high: high) for run in runs)
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    trial.agree(left, right, "(a ⊕ b) ⊕ c is {0}, but a ⊕ (b ⊕ c) is {1}", *runs)


def identity(trial: Trial) -> None:
    """``e ⊕ a`` and ``a ⊕ e`` are ``a``, also when another partial is combined with them: two partials with the same
    result may differ."""
    combine, e = trial.monoid.combine, trial.monoid.empty()
    if trial.rows:
        a = _tree(trial.monoid, trial.rows, lambda low, high: (low + high) // 2)
        trial.agree(combine(e, a), a, "identity ⊕ a is {0}, but a is {1}")
        trial.agree(combine(a, e), a, "a ⊕ identity is {0}, but a is {1}")
    runs = trial.cut(2)
    if all(runs):
        a, b = (_tree(trial.monoid, run, lambda low, high: high) for run in runs)
        both = combine(a, b)
        for joined, told in (
            (combine(combine(e, a), b), "(identity ⊕ a) ⊕ b"),
            (combine(combine(a, e), b), "(a ⊕ identity) ⊕ b"),
            (combine(a, combine(e, b)), "a ⊕ (identity ⊕ b)"),
            (combine(a, combine(b, e)), "a ⊕ (b ⊕ identity)"),
        ):
            trial.agree(joined, both, f"{told} is {{0}}, but a ⊕ b is {{1}}", *runs)


def grouping(trial: Trial) -> None:
    """Every binary tree over the rows, and every cut into shards, gives the result of the fold from left to
    right. A fold begins with the identity."""
    if not trial.rows:
        return
    whole = trial.monoid.fold(trial.rows)
    tree = _tree(trial.monoid, trial.rows, trial.choose)
    trial.agree(
        tree, whole, "a tree over the rows gives {0}, but identity ⊕ one row after the other gives {1}"
    )
    shards = trial.cut(trial.choose(1, 5))
    sharded = trial.monoid.empty()
    for shard in shards:
        sharded = trial.monoid.combine(sharded, trial.monoid.fold(shard))
    trial.agree(
        sharded,
        whole,
        "folding shards, each from the identity, gives {0}, but identity ⊕ one row after the other gives {1}",
        *shards,
    )


def commutativity(trial: Trial) -> None:
    """If declared: the order of partials, and of rows, does not matter."""
    if not trial.monoid.commutative:
        return
    runs = trial.cut(2)
    a, b = (trial.monoid.fold(run) for run in runs)
    trial.agree(
        trial.monoid.combine(a, b), trial.monoid.combine(b, a), "a ⊕ b is {0}, but b ⊕ a is {1}", *runs
    )
    rest, shuffled = list(trial.rows), []
    while rest:
        shuffled.append(rest.pop(trial.choose(0, len(rest) - 1)))
    told = "the rows give {0}, but {1} in another order"
    trial.agree(trial.monoid.fold(trial.rows), trial.monoid.fold(shuffled), told, trial.rows, shuffled)


def invertibility(trial: Trial) -> None:
    """If declared: ``(a ⊕ b) ⊖ a`` is ``b``; if the aggregate is commutative too, ``(a ⊕ b) ⊖ b`` is
    ``a``."""
    invert = trial.monoid.invert
    if invert is None:
        return
    runs = trial.cut(2)
    a, b = (trial.monoid.fold(run) for run in runs)
    both = trial.monoid.combine(a, b)
    trial.agree(invert(both, a), b, "(a ⊕ b) ⊖ a is {0}, but b is {1}", *runs)
    if trial.monoid.commutative:
        trial.agree(invert(both, b), a, "(a ⊕ b) ⊖ b is {0}, but a is {1}", *runs)


def selectivity(trial: Trial) -> None:
    """If declared: ``a ⊕ b`` is one of the two."""
    for monoid in (trial.dense, trial.monoid):
        if monoid.selective:
            runs = trial.cut(2)
            a, b = (monoid.fold(run) for run in runs)
            both = monoid.combine(a, b)
            if not same(both, a) and not same(both, b):
                told = f"a ⊕ b is {shortened(both)}, neither a nor b: {shortened(a)}, {shortened(b)}"
                trial.fail(told, *runs)


def compilation(trial: Trial) -> None:
    """Compiled kernels, interpreted kernels and the plain functions agree, and so do the in-place forms."""
    monoid, rows = trial.monoid, trial.rows
    if not monoid.typed or not rows:
        return
    dtypes = (arrow.physical_dtype(type_) for type_ in monoid.inputs)
    columns = tuple(np.array([row[c] for row in rows], dtype=dtype) for c, dtype in enumerate(dtypes))
    for compiled in (False, True):
        problem = _kernels(monoid, compiled).compare(trial, columns)
        if problem is not None:
            trial.fail(problem)


def encoding(trial: Trial) -> None:
    """Partials written as bytes are read back the same."""
    monoid, runs = trial.monoid, trial.cut(3)
    parts = allocate(monoid, len(runs))
    for slot, run in enumerate(runs):
        _stored(monoid, parts, slot, monoid.fold(run))
    blob = encode(monoid, parts, 0, len(runs))
    back = decode(monoid, blob)
    for slot, run in enumerate(runs):
        before, after = _loaded(monoid, parts, slot), _loaded(monoid, back, slot)
        if not same(before, after):
            trial.fail(f"the partial {shortened(before)} is read back as {shortened(after)}", run)
    if encode(monoid, back, 0, len(runs)) != blob:
        trial.fail("partials that were read back are written as other bytes", *runs)


def purity(trial: Trial) -> None:
    """``lift``, ``combine``, ``lower``, ``invert`` and the in-place ``merge`` leave their arguments as they
    were."""
    monoid, runs = trial.monoid, trial.cut(2)

    def pure(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        before = deepcopy(arguments)
        result = function(*arguments)
        for then, now in zip(before, arguments, strict=True):
            if not same(then, now):
                trial.fail(f"{name} changed an argument from {shortened(then)} to {shortened(now)}", *runs)
        return result

    for row in trial.rows:
        pure("lift", monoid.lift, *row)
    a, b = (monoid.fold(run) for run in runs)
    both = pure("combine", monoid.combine, a, b)
    pure("lower", trial.result, both)
    if monoid.invert is not None:
        pure("invert", monoid.invert, both, a)
    if monoid.typed:
        parts = allocate(monoid, 3)
        _stored(monoid, parts, 0, a)
        _stored(monoid, parts, 1, b)
        slots(monoid)["merge"](parts, 2, parts, 0, parts, 1)
        if not (same(_loaded(monoid, parts, 0), a) and same(_loaded(monoid, parts, 1), b)):
            trial.fail("merge changed what it read", *runs)


LAWS: Laws = {
    law.__name__: law
    for law in (
        purity,
        associativity,
        identity,
        grouping,
        commutativity,
        invertibility,
        selectivity,
        compilation,
        encoding,
    )
}
"""Every law by its name."""


def _stages(compiled: bool) -> list[Laws]:
    """Compiling takes longest, so it is tried last, and only if all other laws hold."""
    last: Laws = {compilation.__name__: compilation}
    first = {name: law for name, law in LAWS.items() if name not in last}
    return [first, last] if compiled else [first]


def _types_of(rows: Any) -> list[pa.DataType]:
    """The types of the simplest row."""
    library = hypothesis()
    row = library.find(rows, lambda row: True, settings=library.settings(database=None))
    return [pa.scalar(value).type for value in row]


def _physical(row: tuple[Any, ...], types: Sequence[pa.DataType]) -> tuple[Any, ...]:
    """The row as ``lift`` gets it: numbers of the column's type."""
    return tuple(_physical_value(value, type_) for value, type_ in zip(row, types, strict=False))


def _physical_value(value: Any, type_: pa.DataType) -> Any:
    dtype = arrow.physical_dtype(type_)
    if dtype.kind == "O":
        return value
    if isinstance(value, int | float):
        return dtype.type(value).item()
    return arrow.scalars(pa.array([value], type=type_))[0]


def _tree(monoid: Monoid, rows: Sample, choose: Callable[[int, int], int]) -> Partial:
    if len(rows) == 1:
        return monoid.lift(*rows[0])
    cut = choose(1, len(rows) - 1)
    return monoid.combine(_tree(monoid, rows[:cut], choose), _tree(monoid, rows[cut:], choose))


@lru_cache(maxsize=2)
def _kernels(monoid: Monoid, compiled: bool) -> _Kernels:
    return _Kernels(monoid, compiled)


class _Kernels:
    """The kernels of :mod:`windrow.testing.fold` for one monoid, compiled or interpreted."""

    def __init__(self, monoid: Monoid, compiled: bool) -> None:
        self.monoid = monoid
        self.how = "compiled" if compiled else "interpreted"
        self.problem: str | None = None
        # A name of its own: the warning that something does not compile is given once for each name.
        self.name = f"it ({id(monoid)})"
        self.run = specialise(fold, {**slots(monoid), "AGGREGATE": self.name}, compiled=compiled)

    def compare(self, trial: Trial, columns: tuple[Any, ...]) -> str | None:
        """Fail the trial if kernels and functions differ. Returns why they do not compile, if they do not:
        that is warned of once, and has to be found in every trial.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            try:
                self._compare(trial, columns)
            except CompileWarning as problem:
                self.problem = str(problem).replace(self.name, "it")
        return self.problem

    def _compare(self, trial: Trial, columns: tuple[Any, ...]) -> None:
        rows, count = trial.rows, len(trial.rows)
        if not self.monoid.compiles:
            parts = allocate(self.monoid, 1)
            self.run.absorb(parts, columns, 0, count)
            told = f"absorbing rows, {self.how}, gives {{0}}, but the functions give {{1}}"
            trial.agree(_loaded(self.monoid, parts, 0), self.monoid.fold(rows), told)
            return
        self._compare_results(trial, self.run.prefixes, columns, [rows[: i + 1] for i in range(count)])
        if self.monoid.invertible:
            self._compare_results(trial, self.run.suffixes, columns, [rows[i + 1 :] for i in range(count)])

    def _compare_results(
        self, trial: Trial, kernel: Callable[..., None], columns: tuple[Any, ...], runs: list[Sample]
    ) -> None:
        monoid, count, how = self.monoid, len(runs), self.how
        out, valid = np.zeros(count, monoid.results), np.zeros(count, np.bool_)
        expected = [trial.result(monoid.fold(run)) for run in runs]
        try:
            kernel(allocate(monoid, 2), columns, out, valid)
        except OverflowError:
            if OverflowError not in expected:
                trial.fail(f"{how}, it overflows, but the functions do not")
            return
        for run, ok, got, wanted in zip(runs, valid, out, expected, strict=True):
            told = got.item() if ok else None
            if not same(told, wanted, monoid.tolerance, trial.scale):
                trial.fail(
                    f"{how}, the result is {shortened(told)}, but the functions give {shortened(wanted)}", run
                )


def _loaded(monoid: Monoid, parts: tuple[Any, ...], slot: int) -> Partial:
    return tuple(part[slot] for part in parts) if monoid.typed else parts[0][slot]


def _stored(monoid: Monoid, parts: tuple[Any, ...], slot: int, partial: Partial) -> None:
    for part, value in zip(parts, partial if monoid.typed else (partial,), strict=True):
        part[slot] = value
