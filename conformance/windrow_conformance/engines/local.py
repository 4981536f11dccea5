"""The in-process engine: the operator step by step, interpreted, compiled, with its state in a store, and each algorithm by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter

import pyarrow as pa

import windrow as wr
from windrow.algorithms import REGISTRY
from windrow.errors import PropertyError, WindrowError
from windrow.state.pages import MemoryPages
from windrow_conformance.answers import Answer, error_name
from windrow_conformance.case import Case
from windrow_conformance.compare import differs_in_batch
from windrow_conformance.engines import Subset
from windrow_conformance.marks import Gap, Mark

Made = Callable[[], wr.Operator]
NO_BATCH = Mark(
    Gap.NEVER, "a batch has all its rows before it answers, so none is late and no window is open"
)


class Local:
    """The engine ``local``."""

    name, needs = "local", "windrow"
    ways = ("interpreted", "compiled", "stored", "batch", *(f"algorithm {name}" for name in sorted(REGISTRY)))

    def takes(self, case: Case, way: str, subset: Subset) -> bool:
        return subset != "quick" or way in ("interpreted", "stored") or case.quick

    def mark(self, case: Case, way: str) -> Mark | None:
        if way == "batch" and differs_in_batch(case):
            return NO_BATCH
        if way.startswith("algorithm") and not case.error:
            try:
                _with_algorithm(case, way).bind(case.schema)
            except PropertyError as error:
                return Mark(Gap.NEVER, str(error))
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
        if way == "stored":
            return _stored(case)
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
    return wr.Query.from_dict({**case.query.to_dict(), "algorithm": way.removeprefix("algorithm ")})


def _stored(case: Case) -> Answer:
    """The state in a store, committed after each step, and read back from there at a restart."""
    pages = MemoryPages()

    def opened(_: wr.Operator | None = None) -> wr.Operator:
        return wr.Operator.open(case.query, case.schema, pages, compiled=False)

    return _driven(case, "stored", opened(), opened)


def _driven(
    case: Case, way: str, operator: wr.Operator, restarted: Callable[[wr.Operator], wr.Operator]
) -> Answer:
    found, late = [], [case.schema.empty_table()]
    for step in case.steps:
        windows = case.bound.output_schema.empty_table()
        if step.kind == "rows":
            windows = operator.process(step.value)
        elif step.kind == "watermark":
            windows = operator.advance(step.value)
        elif step.kind == "end":
            windows = operator.flush()
        else:
            operator = restarted(operator)
        found.append(windows)
        late.append(operator.late())
        if way == "stored":
            operator.commit()
    return Answer(
        case.name,
        "local",
        way,
        tuple(found),
        stepped=True,
        late=pa.concat_tables(late) if case.query.late == "side" else None,
        late_rows=operator.late_rows,
    )
