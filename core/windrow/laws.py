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

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from windrow.aggregates import arrow
from windrow.aggregates.algebra import Aggregate, Monoid, Partial
from windrow.aggregates.encoding import decode, encode
from windrow.errors import AggregateError, CompileWarning, LawViolation
from windrow.kernels import fold as fold_kernels
from windrow.kernels.slots import allocate, slots
from windrow.kernels.specialise import specialise
from windrow.sameness import same, shortened

__all__ = ["LAWS", "check"]

Rows = list[tuple[Any, ...]]
Laws = dict[str, Callable[["Case"], None]]


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

    Results may differ by the aggregate's ``tolerance``, relative to the largest of results and inputs;
    where the result is a delicate function of the partial, it is enough that the partials agree so.
    """
    strategies = _hypothesis().strategies
    drawn = values if isinstance(values, strategies.SearchStrategy) else strategies.sampled_from(list(values))
    rows = drawn.map(lambda value: value if isinstance(value, tuple) and aggregate.arity != 1 else (value,))
    rows = rows.filter(lambda row: not any(value is None for value in row))
    bound = aggregate.bind(_types_of(rows) if types is None and aggregate.arity else types)
    dense = aggregate.dense(bound.inputs)
    lists = strategies.lists(rows.map(lambda row: _physical(row, bound.inputs)), max_size=10)
    for laws in _stages(compiled):
        problem = _search(laws, bound, dense, lists, examples, shrink=False)
        if problem is not None:
            # The first law that fails by itself is the one to name; a counterexample of one law shrinks best.
            alone = (
                _search({name: law}, bound, dense, lists, examples, shrink=True) for name, law in laws.items()
            )
            raise next((found for found in alone if found is not None), problem)


@dataclasses.dataclass
class Case:
    """One try of a law: rows, and a way to draw more choices that Hypothesis can shrink."""

    monoid: Monoid
    dense: Monoid
    rows: Rows
    choose: Callable[[int, int], int]

    def cut(self, parts: int) -> list[Rows]:
        """The rows in this many consecutive runs, some of them empty."""
        cuts = sorted(self.choose(0, len(self.rows)) for _ in range(parts - 1))
        return [self.rows[a:b] for a, b in zip([0, *cuts], [*cuts, len(self.rows)], strict=True)]

    def agree(self, one: Partial, other: Partial, told: str, *shown: Rows) -> None:
        """Both partials have the same result; else the law is broken, which ``told`` tells."""
        left, right = self.result(one), self.result(other)
        tolerance, scale = self.monoid.tolerance, self.scale
        if same(left, right, tolerance, scale) or (tolerance > 0 and same(one, other, tolerance, scale)):
            return
        self.fail(told.format(shortened(left), shortened(right)), *shown)

    def fail(self, told: str, *shown: Rows) -> None:
        raise _Broken(told, shown or (self.rows,))

    def result(self, partial: Partial) -> Any:
        try:
            return self.monoid.result(partial)
        except OverflowError:
            return OverflowError

    @property
    def scale(self) -> float:
        """The largest magnitude among the inputs."""
        numbers = (abs(v) for row in self.rows for v in row if isinstance(v, int | float))
        return float(max((v for v in numbers if math.isfinite(v)), default=0.0))


def associativity(case: Case) -> None:
    """``(a ⊕ b) ⊕ c`` is ``a ⊕ (b ⊕ c)``."""
    combine, runs = case.monoid.combine, case.cut(3)
    a, b, c = (case.monoid.fold(run) for run in runs)
    left, right = combine(combine(a, b), c), combine(a, combine(b, c))
    case.agree(left, right, "(a ⊕ b) ⊕ c is {0}, but a ⊕ (b ⊕ c) is {1}", *runs)


def identity(case: Case) -> None:
    """``e ⊕ a`` and ``a ⊕ e`` are ``a``."""
    combine, e = case.monoid.combine, case.monoid.empty()
    if case.rows:
        a = _tree(case.monoid, case.rows, lambda low, high: (low + high) // 2)
        case.agree(combine(e, a), a, "identity ⊕ a is {0}, but a is {1}")
        case.agree(combine(a, e), a, "a ⊕ identity is {0}, but a is {1}")


def grouping(case: Case) -> None:
    """Every binary tree over the rows, and every cut into shards, gives the result of the fold from left to
    right."""
    if not case.rows:
        return
    whole = case.monoid.fold(case.rows)
    tree = _tree(case.monoid, case.rows, case.choose)
    case.agree(tree, whole, "a tree over the rows gives {0}, but one after the other gives {1}")
    shards = case.cut(case.choose(1, 5))
    sharded = case.monoid.empty()
    for shard in shards:
        sharded = case.monoid.combine(sharded, case.monoid.fold(shard))
    case.agree(sharded, whole, "folding shards gives {0}, but one row after the other gives {1}", *shards)


def commutativity(case: Case) -> None:
    """If declared: the order of partials, and of rows, does not matter."""
    if not case.monoid.commutative:
        return
    runs = case.cut(2)
    a, b = (case.monoid.fold(run) for run in runs)
    case.agree(case.monoid.combine(a, b), case.monoid.combine(b, a), "a ⊕ b is {0}, but b ⊕ a is {1}", *runs)
    rest, shuffled = list(case.rows), []
    while rest:
        shuffled.append(rest.pop(case.choose(0, len(rest) - 1)))
    told = "the rows give {0}, but {1} in another order"
    case.agree(case.monoid.fold(case.rows), case.monoid.fold(shuffled), told, case.rows, shuffled)


def invertibility(case: Case) -> None:
    """If declared: ``(a ⊕ b) ⊖ a`` is ``b``; if the aggregate is commutative too, ``(a ⊕ b) ⊖ b`` is
    ``a``."""
    invert = case.monoid.invert
    if invert is None:
        return
    runs = case.cut(2)
    a, b = (case.monoid.fold(run) for run in runs)
    both = case.monoid.combine(a, b)
    case.agree(invert(both, a), b, "(a ⊕ b) ⊖ a is {0}, but b is {1}", *runs)
    if case.monoid.commutative:
        case.agree(invert(both, b), a, "(a ⊕ b) ⊖ b is {0}, but a is {1}", *runs)


def selectivity(case: Case) -> None:
    """If declared: ``a ⊕ b`` is one of the two."""
    for monoid in (case.dense, case.monoid):
        if monoid.selective:
            runs = case.cut(2)
            a, b = (monoid.fold(run) for run in runs)
            both = monoid.combine(a, b)
            if not same(both, a) and not same(both, b):
                told = f"a ⊕ b is {shortened(both)}, neither a nor b: {shortened(a)}, {shortened(b)}"
                case.fail(told, *runs)


def compilation(case: Case) -> None:
    """Compiled kernels, interpreted kernels, and the plain functions agree; so in-place forms do what they
    stand for."""
    monoid, rows = case.monoid, case.rows
    if not monoid.typed or not rows:
        return
    dtypes = (arrow.physical_dtype(type_) for type_ in monoid.inputs)
    columns = tuple(np.array([row[c] for row in rows], dtype=dtype) for c, dtype in enumerate(dtypes))
    for compiled in (False, True):
        how = "compiled" if compiled else "interpreted"
        run = _kernels(monoid, compiled)
        with warnings.catch_warnings():
            warnings.simplefilter("error", CompileWarning)
            try:
                if monoid.compiles:
                    _compare_results(
                        case, run.prefixes, columns, [rows[: i + 1] for i in range(len(rows))], how
                    )
                if monoid.compiles and monoid.invertible:
                    _compare_results(
                        case, run.suffixes, columns, [rows[i + 1 :] for i in range(len(rows))], how
                    )
                if not monoid.compiles:
                    parts = allocate(monoid, 1)
                    run.absorb(parts, columns, 0, len(rows))
                    told = f"absorbing rows, {how}, gives {{0}}, but the functions give {{1}}"
                    case.agree(_loaded(monoid, parts, 0), monoid.fold(rows), told)
            except CompileWarning as problem:
                run.problem = str(problem)  # it is told once, but has to be found again
        if hasattr(run, "problem"):
            case.fail(run.problem.replace(f" ({id(monoid)})", ""))


def encoding(case: Case) -> None:
    """Partials written as bytes are read back the same."""
    monoid, runs = case.monoid, case.cut(3)
    parts = allocate(monoid, len(runs))
    for slot, run in enumerate(runs):
        _stored(monoid, parts, slot, monoid.fold(run))
    blob = encode(monoid, parts, 0, len(runs))
    back = decode(monoid, blob)
    for slot, run in enumerate(runs):
        before, after = _loaded(monoid, parts, slot), _loaded(monoid, back, slot)
        if not same(before, after):
            case.fail(f"the partial {shortened(before)} is read back as {shortened(after)}", run)
    if encode(monoid, back, 0, len(runs)) != blob:
        case.fail("partials that were read back are written as other bytes", *runs)


def purity(case: Case) -> None:
    """``lift``, ``combine``, ``lower``, ``invert`` and the in-place ``merge`` leave their arguments as they
    were."""
    monoid, runs = case.monoid, case.cut(2)

    def pure(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        before = deepcopy(arguments)
        result = function(*arguments)
        for then, now in zip(before, arguments, strict=True):
            if not same(then, now):
                case.fail(f"{name} changed an argument from {shortened(then)} to {shortened(now)}", *runs)
        return result

    for row in case.rows:
        pure("lift", monoid.lift, *row)
    a, b = (monoid.fold(run) for run in runs)
    both = pure("combine", monoid.combine, a, b)
    pure("lower", case.result, both)
    if monoid.invert is not None:
        pure("invert", monoid.invert, both, a)
    if monoid.typed:
        parts = allocate(monoid, 3)
        _stored(monoid, parts, 0, a)
        _stored(monoid, parts, 1, b)
        slots(monoid)["merge"](parts, 2, parts, 0, parts, 1)
        if not (same(_loaded(monoid, parts, 0), a) and same(_loaded(monoid, parts, 1), b)):
            case.fail("merge changed what it read", *runs)


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


# How a law is tried.


def _stages(compiled: bool) -> list[Laws]:
    """Compiling takes longest, so it comes last, and only for what is right otherwise."""
    last: Laws = {compilation.__name__: compilation}
    first = {name: law for name, law in LAWS.items() if name not in last}
    return [first, last] if compiled else [first]


class _Broken(Exception):
    """A law does not hold; carries what to tell and the runs of rows to show."""


def _search(
    laws: dict[str, Callable[[Case], None]],
    bound: Monoid,
    dense: Monoid,
    lists: Any,
    examples: int,
    *,
    shrink: bool,
) -> Exception | None:
    """The error to raise for the (smallest) case in which one of the laws does not hold."""
    hypothesis = _hypothesis()
    found: list[Exception] = []

    def attempt(rows: Rows, data: Any) -> None:
        def choose(low: int, high: int) -> int:
            return int(data.draw(hypothesis.strategies.integers(low, high)))

        for name, law in laws.items():
            try:
                with np.errstate(all="ignore"):
                    law(Case(bound, dense, rows, choose))
            except _Broken as broken:
                told, shown = broken.args
                told = f"{told}. {'Smallest c' if shrink else 'C'}ounterexample: {_shown(shown)}"
                found[:] = [LawViolation(f"{bound.name} breaks the law of {name}: {told}")]
                raise
            except Exception as cause:
                raised = f"{bound.name} raised {type(cause).__name__} while its {name} was checked"
                found[:] = [AggregateError(f"{raised} on {_shown((rows,))}: {cause}")]
                raise

    phases = hypothesis.Phase
    settings = hypothesis.settings(
        max_examples=examples,
        phases=(phases.generate, phases.shrink) if shrink else (phases.generate,),
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        settings(hypothesis.given(lists, hypothesis.strategies.data())(attempt))()
    except Exception as cause:
        if not found:
            raise
        found[0].__cause__ = None if isinstance(found[0], LawViolation) else cause
        found[0].__suppress_context__ = True
    return found[0] if found else None  # the smallest case is tried last


def _hypothesis() -> Any:
    try:
        import hypothesis
    except ImportError as cause:
        raise AggregateError("laws are checked with Hypothesis: pip install 'windrow[laws]'") from cause
    return hypothesis


def _types_of(rows: Any) -> list[pa.DataType]:
    """The types of the simplest row."""
    hypothesis = _hypothesis()
    row = hypothesis.find(rows, lambda row: True, settings=hypothesis.settings(database=None))
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


def _tree(monoid: Monoid, rows: Rows, choose: Callable[[int, int], int]) -> Partial:
    if len(rows) == 1:
        return monoid.lift(*rows[0])
    cut = choose(1, len(rows) - 1)
    return monoid.combine(_tree(monoid, rows[:cut], choose), _tree(monoid, rows[cut:], choose))


@lru_cache(maxsize=2)
def _kernels(monoid: Monoid, compiled: bool) -> SimpleNamespace:
    # A name of its own: what does not compile is told once for each name.
    return specialise(fold_kernels, {**slots(monoid), "AGGREGATE": f"it ({id(monoid)})"}, compiled=compiled)


def _compare_results(
    case: Case, kernel: Callable[..., None], columns: tuple[Any, ...], runs: list[Rows], how: str
) -> None:
    monoid, count = case.monoid, len(runs)
    out, valid = np.zeros(count, arrow.physical_dtype(monoid.output)), np.zeros(count, np.bool_)
    expected = [case.result(monoid.fold(run)) for run in runs]
    try:
        kernel(allocate(monoid, 2), columns, out, valid)
    except OverflowError:
        if OverflowError not in expected:
            case.fail(f"{how}, it overflows, but the functions do not")
        return
    for run, ok, got, wanted in zip(runs, valid, out, expected, strict=True):
        told = got.item() if ok else None
        if not same(told, wanted, monoid.tolerance, case.scale):
            case.fail(
                f"{how}, the result is {shortened(told)}, but the functions give {shortened(wanted)}", run
            )


def _loaded(monoid: Monoid, parts: tuple[Any, ...], slot: int) -> Partial:
    return tuple(part[slot] for part in parts) if monoid.typed else parts[0][slot]


def _stored(monoid: Monoid, parts: tuple[Any, ...], slot: int, partial: Partial) -> None:
    for part, value in zip(parts, partial if monoid.typed else (partial,), strict=True):
        part[slot] = value


def _shown(runs: Sequence[Rows]) -> str:
    names = ["rows"] if len(runs) == 1 else [chr(ord("a") + position) for position in range(len(runs))]
    lists = ([row[0] if len(row) == 1 else row for row in run] for run in runs)
    return ", ".join(f"{name} = {shortened(shown, 400)}" for name, shown in zip(names, lists, strict=True))
