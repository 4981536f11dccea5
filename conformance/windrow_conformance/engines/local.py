# SPDX-License-Identifier: Apache-2.0
"""The in-process engine: the operator step by step, interpreted, compiled, with its state in a store that survives crashes,
and each algorithm by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from time import perf_counter

import pyarrow as pa

import windrow as wr
from windrow.algorithms import REGISTRY
from windrow.errors import PropertyError, WindrowError
from windrow.storage.pages import MemoryPages
from windrow_conformance.answers import Answer, error_name
from windrow_conformance.case import Case, Step
from windrow_conformance.compare import differs_in_batch
from windrow_conformance.engines import Subset
from windrow_conformance.marks import Gap, Mark

NO_BATCH = Mark(
    Gap.NEVER, "a batch has all its rows before it answers, so none is late and no window is open"
)


class Local:
    """The engine ``local``."""

    name, needs = "local", "windrow"
    ways = (
        "interpreted",
        "compiled",
        "stored",
        "crashing",
        "batch",
        *(f"algorithm {name}" for name in sorted(REGISTRY)),
    )

    def takes(self, case: Case, way: str, subset: Subset) -> bool:
        return subset != "quick" or way in ("interpreted", "stored", "crashing") or case.quick

    def mark(self, case: Case, way: str) -> Mark | None:
        if way == "batch" and differs_in_batch(case):
            return NO_BATCH
        if way.startswith("algorithm") and case.error != "PropertyError":
            try:
                _with_algorithm(case, way).bind(case.schema)
            except PropertyError as error:
                return Mark(Gap.NEVER, str(error))
            except WindrowError:
                return None  # the error that the case expects
        return None

    def run(self, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
        for case in cases:
            began = perf_counter()
            answer = _answer(case, way)
            yield Answer(**{**vars(answer), "seconds": perf_counter() - began})


ENGINE = Local()


def _answer(case: Case, way: str) -> Answer:
    try:
        if way == "batch":
            return Answer(case.name, "local", way, (wr.aggregate(case.rows, case.query),))
        if way in ("stored", "crashing"):
            return _stored(case, way)
        query = _with_algorithm(case, way) if way.startswith("algorithm") else case.query
        compiled = way == "compiled"
        return _driven(
            case,
            way,
            wr.Operator(query, case.schema, compiled=compiled),
            lambda operator: wr.Operator.restore(query, operator.snapshot(), compiled=compiled),
        )
    except WindrowError as error:
        return Answer(case.name, "local", way, error=error_name(error), message=str(error))


def _with_algorithm(case: Case, way: str) -> wr.Query:
    return replace(case.query, algorithm=way.removeprefix("algorithm "))


def _driven(
    case: Case, way: str, operator: wr.Operator, restarted: Callable[[wr.Operator], wr.Operator]
) -> Answer:
    found, late = [], []
    for step in case.steps:
        if step.kind == "restart":
            operator = restarted(operator)
        found.append(_fed(operator, step, case))
        late.append(operator.late())
    return _gathered(case, way, operator, found, late)


def _stored(case: Case, way: str) -> Answer:
    """The state in a store, which a restart opens again.

    "stored" commits after every step. "crashing" commits only after watermarks: a restart is a crash, what was not
    committed is lost with all that came of it, and those steps are done again.
    """
    pages = MemoryPages()

    def opened() -> wr.Operator:
        return wr.Operator.open(case.query, case.schema, pages, compiled=False)

    operator = opened()
    found = [case.bound.output_schema.empty_table()] * len(case.steps)
    late = [case.schema.empty_table()] * len(case.steps)
    position = committed = reached = 0
    while position < len(case.steps):
        step = case.steps[position]
        if step.kind == "restart" and position >= reached:
            operator, reached, position = opened(), position + 1, committed
            continue
        found[position], late[position] = _fed(operator, step, case), operator.late()
        position += 1
        if way == "stored" or step.kind in ("watermark", "end"):
            operator.commit()
            committed = position
    return _gathered(case, way, operator, found, late)


def _fed(operator: wr.Operator, step: Step, case: Case) -> pa.Table:
    if step.kind == "rows":
        return operator.process(step.value)
    if step.kind == "watermark":
        return operator.advance(step.value)
    return operator.flush() if step.kind == "end" else case.bound.output_schema.empty_table()


def _gathered(
    case: Case, way: str, operator: wr.Operator, found: list[pa.Table], late: list[pa.Table]
) -> Answer:
    handed_back = pa.concat_tables([case.schema.empty_table(), *late])
    return Answer(
        case.name,
        "local",
        way,
        tuple(found),
        stepped=True,
        late=handed_back if case.query.late == "side" else None,
        late_rows=operator.late_rows,
    )
