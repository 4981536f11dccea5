# SPDX-License-Identifier: Apache-2.0
"""Compare an answer with what its case expects, and with other answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

import windrow as wr
from windrow import oracle
from windrow.errors import WindrowError
from windrow.kernels.slices.bucket_layout import ROWS
from windrow.query.bound import BoundQuery
from windrow.testing.compare import same
from windrow_conformance.answers import Answer
from windrow_conformance.case import Case, Step, identities, movable

Row = dict[str, Any]


@dataclass(frozen=True)
class Difference:
    """Where an answer is not what it should be."""

    what: str
    expected: tuple[Row, ...] = ()
    got: tuple[Row, ...] = ()

    def __str__(self) -> str:
        lines = [self.what]
        if self.expected or self.got:
            lines += [f"  expected  {row}" for row in self.expected] or ["  expected  nothing"]
            lines += [f"  got       {row}" for row in self.got] or ["  got       nothing"]
        return "\n".join(lines)


def difference(case: Case, answer: Answer) -> Difference | None:
    """What is wrong with an answer; nothing, if it is what the case expects."""
    if answer.error or case.error:
        if answer.error == case.error:
            return None
        got = f"{answer.error or 'an answer'}" + (f": {answer.message}" if answer.message else "")
        return Difference(f"expected {case.error or 'an answer'}, got {got}")
    bound = case.bound
    if answer.stepped:
        return _step_by_step(case, answer, bound) or _late(case, answer)
    found = _compared(
        settled(case.windows, bound), settled(_joined(answer, bound), bound), bound, "in the end"
    )
    return found or _late(case, answer)


def disagreement(case: Case, one: Answer, other: Answer) -> Difference | None:
    """Where two answers to the same case differ from each other."""
    if one.error or other.error:
        if one.error == other.error:
            return None
        return Difference(
            f"{one.place}: {one.error or 'an answer'}; {other.place}: {other.error or 'an answer'}"
        )
    bound = case.bound
    if one.stepped and other.stepped:
        for position, (ours, theirs) in enumerate(zip(one.windows, other.windows, strict=True), 1):
            found = _compared(ours.to_pylist(), theirs.to_pylist(), bound, f"in step {position}")
            if found:
                return found
        return None
    return _compared(
        settled(_joined(one, bound), bound), settled(_joined(other, bound), bound), bound, "in the end"
    )


def settled(windows: pa.Table, bound: BoundQuery) -> list[Row]:
    """The windows that a sequence of emissions amounts to, in order: each as it came last, without those that were only early."""
    if movable(bound.query):
        return _kept(windows.to_pylist())
    last: dict[tuple[Any, ...], Row] = {}
    for window, row in zip(identities(windows, bound), windows.to_pylist(), strict=True):
        if row.pop("emission", "final") != "early":
            last[window] = row
    return [
        last[window] for window in sorted(last, key=lambda window: (window[-2], window[-3], repr(window)))
    ]


def _kept(emissions: list[Row]) -> list[Row]:
    """The windows that were not withdrawn. One that was withdrawn without being emitted stays in, marked, because it is wrong."""
    kept = [row for row in emissions if row.get("emission") != "withdrawn"]
    for row in kept:
        row.pop("emission", None)
    for row in emissions:
        if row.pop("emission", "") == "withdrawn":
            found = next((other for other in kept if same(other, row)), None)
            kept.append({**row, "withdrawn": True}) if found is None else kept.remove(found)
    return sorted(kept, key=lambda row: (row["window_end"], row["window_start"], repr(row)))


def batch_answer(case: Case) -> list[Row] | None:
    """What a batch engine has to answer. It sees all rows before it answers, so none is late or missing."""
    try:
        return settled(oracle.evaluate(case.rows, case.query), case.bound)
    except WindrowError:
        return None


def differs_in_batch(case: Case) -> bool:
    """Whether the answer depends on when rows come, which a batch engine cannot know."""
    if case.error:
        return False
    ours, theirs = batch_answer(case), settled(case.windows, case.bound)
    return not same(ours, theirs)


def differs_if_ended(case: Case) -> bool:
    """Whether the case leaves the stream open, and its end would bring further windows."""
    if case.error or case.ended:
        return False
    ended = replace(case, steps=(*case.steps, Step("end"))).expecting()
    return not same(settled(ended.windows, case.bound), settled(case.windows, case.bound))


def agree(ours: Row, theirs: Row, name: str, bound: BoundQuery) -> bool:
    """Whether two rows agree in a column. Approximate results agree if they are as near as their own errors say."""
    tolerance = bound.monoids[name].tolerance if name in bound.monoids else 0.0
    if name == "window_start" and bound.buckets and isinstance(bound.query.window, wr.PolicyWindow):
        exact = all(ours[f"{other}_error"] == 0.0 for other in bound.monoids)
        return not exact or bool(theirs[name] <= ours[name])  # the window begins there, or later
    if name not in bound.outputs or not bound.buckets:
        return same(ours[name], theirs[name], tolerance)
    if name not in bound.monoids:
        return bool(theirs[name] >= 0.0)
    error = ours[f"{name}_error"] + theirs[f"{name}_error"]
    if same(ours[name], theirs[name], tolerance) or (error > 0.0 and bound.buckets[name].kind == ROWS):
        return True
    if ours[name] is None or theirs[name] is None:
        return bool(error == math.inf)
    return bool(abs(ours[name] - theirs[name]) <= error)


def _joined(answer: Answer, bound: BoundQuery) -> pa.Table:
    return pa.concat_tables([bound.output_schema.empty_table(), *answer.windows])


def _step_by_step(case: Case, answer: Answer, bound: BoundQuery) -> Difference | None:
    if len(answer.windows) != len(case.steps):
        return Difference(f"expected {len(case.steps)} steps, got {len(answer.windows)}")
    for position, (step, got) in enumerate(zip(case.steps, answer.windows, strict=True), 1):
        expected = [] if step.windows is None else step.windows.to_pylist()
        found = _compared(expected, got.to_pylist(), bound, f"in step {position} ({step.kind})")
        if found:
            return found
    return None


def _late(case: Case, answer: Answer) -> Difference | None:
    expected = case.late
    if answer.late_rows is not None and answer.late_rows != expected.num_rows:
        return Difference(f"expected {expected.num_rows} late rows, counted {answer.late_rows}")
    if answer.late is None or case.query.late != "side":
        return None
    ours, theirs = (sorted(map(repr, table.to_pylist())) for table in (expected, answer.late))
    if ours == theirs:
        return None
    return Difference("other late rows", tuple(expected.to_pylist()), tuple(answer.late.to_pylist()))


def _compared(expected: list[Row], got: list[Row], bound: BoundQuery, where: str) -> Difference | None:
    for position, (ours, theirs) in enumerate(zip(expected, got, strict=False)):
        for name in ours:
            if not agree(ours, theirs, name, bound):
                here = slice(position, position + 1)
                return Difference(
                    f"another {name!r} {where}, in window {position + 1} of {len(expected)}",
                    tuple(expected[here]),
                    tuple(got[here]),
                )
    if len(expected) != len(got):
        fewer = min(len(expected), len(got))
        return Difference(
            f"expected {len(expected)} windows {where}, got {len(got)}",
            tuple(expected[fewer : fewer + 3]),
            tuple(got[fewer : fewer + 3]),
        )
    return None
