# SPDX-License-Identifier: Apache-2.0
"""Flink: a stream of rows, and packed rows. Many cases share a job, because starting one takes seconds.

Each case is a pipeline of its own::

    step numbers ─ pace ─ time and watermark of each step ─ rows of the step ─ windowed ─ results under the case's name

*Time.* A step that is a watermark has it as its time. A step that is rows has none. So only watermarks of the case move
Flink's watermark. Flink sends watermarks on periodically; therefore each step waits until the watermark before it has
been seen behind the windows.

*Restarts.* A restart is a failure: Flink goes on from the last checkpoint, and the steps since then come again. A failure
stops all cases of a job, so a job has one, at the middle one of each case's restarts. The sources of such a job send a few
steps from one checkpoint to the next. Before its failure a case has breaths, steps in which nothing happens, so that a
checkpoint holds all that came before them; and so many that all cases of the job fail at the same step.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import pyarrow as pa

from windrow_conformance.answers import Answer, error_name, shortened
from windrow_conformance.case import Case
from windrow_conformance.compare import differs_if_ended
from windrow_conformance.engines import Subset
from windrow_conformance.marks import Gap, Mark

TOGETHER = 16
"""How many cases share a job."""
STEPS_PER_CHECKPOINT = 5
BREATHS = 2 * STEPS_PER_CHECKPOINT + 1
"""The least number of breaths before a failure: two checkpoints are completed meanwhile. The first may have begun before the
last step came, the second has not."""
QUICK_RESTARTS = (
    "time/restart",
    "time/restart, then silence",
    "session/restart, then silence",
    "update/restart",
)
UNTOLD = Mark(Gap.ENGINES, "Flink's watermarks are whole milliseconds")
ENDS = Mark(
    Gap.ENGINES, "a bounded stream ends with a watermark after everything, so its last windows come out"
)


class Flink:
    """The engine ``flink``."""

    name, needs = "flink", "pyflink"
    ways = ("rows", "packed")

    def takes(self, case: Case, way: str, subset: Subset) -> bool:
        return in_quick(case, way) if subset == "quick" else True

    def mark(self, case: Case, way: str) -> Mark | None:
        if not _tells(case):
            return UNTOLD
        return ENDS if differs_if_ended(case) else None

    def run(self, way: str, cases: Sequence[Case]) -> Iterator[Answer]:
        for case in cases:
            if not _tells(case):
                yield Answer(case.name, "flink", way, error="?", message=UNTOLD.reason)
        cases = [case for case in cases if _tells(case)]
        refused = {case.name for case in cases if case.error}
        plain = [case for case in cases if case.name not in refused]
        restarted = [case for case in plain if case.restarts]
        others = [case for case in plain if not case.restarts]
        for begin in range(0, len(others), TOGETHER):
            yield from _job(way, others[begin : begin + TOGETHER])
        for begin in range(0, len(restarted), TOGETHER):
            yield from _job(way, restarted[begin : begin + TOGETHER])
        for case in cases:
            if case.name in refused:
                yield from _job(way, [case])


ENGINE = Flink()


def in_quick(case: Case, way: str) -> bool:
    """Few restarts: each stops and restores a whole job. Of packed rows, what windows and watermarks need."""
    if case.restarts:
        return case.name in QUICK_RESTARTS and way == "rows"
    return case.quick and (way == "rows" or not ({"aggregate", "side"} & set(case.covers)))


def _tells(case: Case) -> bool:
    """Whether Flink's watermarks, which are whole milliseconds, can tell those of the case."""
    return all(step.value % 1000 == 0 for step in case.steps if step.kind == "watermark")


def _job(way: str, cases: Sequence[Case]) -> Iterator[Answer]:
    began = perf_counter()
    folder = Path(tempfile.mkdtemp(prefix="windrow-flink-"))
    try:
        results = _collected(way, cases, folder)
    except Exception as error:
        if len(cases) > 1:
            half = len(cases) // 2  # find the one that fails
            yield from _job(way, cases[:half])
            yield from _job(way, cases[half:])
            return
        yield _failed(cases[0], way, error)
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = (perf_counter() - began) / len(cases)
    for case in cases:
        windows, late = results[case.name, "windows"], results[case.name, "late"]
        try:
            yield Answer(
                case.name,
                "flink",
                way,
                (_table(windows, case.bound.output_schema),),
                late=_table(late, case.schema) if case.query.late == "side" else None,
                seconds=seconds,
            )
        except (pa.ArrowException, ValueError, TypeError) as error:
            yield _failed(case, way, error)


def _failed(case: Case, way: str, error: BaseException) -> Answer:
    return Answer(case.name, "flink", way, error=error_name(error), message=shortened(str(error)))


def _collected(way: str, cases: Sequence[Case], folder: Path) -> dict[tuple[str, str], list[Any]]:
    from windrow_conformance.engines.flink_steps import JobFailure
    from windrow_flink import environment

    restarts = sum(case.restarts > 0 for case in cases)
    settings = {"pipeline.auto-watermark-interval": "10 ms", "execution.buffer-timeout.interval": "0 ms"}
    settings |= {"taskmanager.memory.network.max": "256 mb", "taskmanager.memory.network.min": "256 mb"}
    settings["restart-strategy.fixed-delay.delay"] = "10 ms"
    settings["execution.checkpointing.unaligned.enabled"] = "true"
    checkpoints = folder / "checkpoints"
    flink = environment(
        settings=settings,
        checkpoints=checkpoints if restarts else None,
        every="100ms",
        restarts=3 if restarts else 0,
    )
    failure, fails = JobFailure(folder), max(map(_before_failure, cases)) + BREATHS
    named = []
    for number, case in enumerate(cases):
        named += _results(flink, way, case, folder / f"case{number}", failure, fails)
    together = named[0].union(*named[1:]) if len(named) > 1 else named[0]
    found: dict[tuple[str, str], list[Any]] = {
        (case.name, what): [] for case in cases for what in ("windows", "late")
    }
    with together.execute_and_collect() as results:
        for name, what, value in results:
            found[name, what].append(value)
    return found


def _results(flink: Any, way: str, case: Case, place: Path, failure: Any, fails: int) -> list[Any]:
    """What comes out of a case, under its name, from its steps, of which number ``fails`` fails if the case has a restart."""
    from pyflink.common import Types

    from windrow_conformance.engines.flink_steps import Acknowledge, LabelResult
    from windrow_flink import late_rows

    anything, uid = Types.PICKLED_BYTE_ARRAY(), place.name
    place.mkdir()
    steps = list(_with_breaths(case, fails)) or [("end", None)]
    times = list(_times(steps))
    timed = _timed_steps(flink, times, place, failure, fails if case.restarts else None)
    windows = _windows(timed, way, case, steps, uid)
    named = windows.map(LabelResult(case.name, "windows"), output_type=anything).uid(f"{uid}-named")
    numbers = timed.map(int, output_type=anything).uid(f"{uid}-told")
    together = named.union(numbers).key_by(lambda _: 0, key_type=Types.INT())
    results = [together.process(Acknowledge(times, place), output_type=anything).uid(f"{uid}-acknowledged")]
    if case.query.late == "side":
        results.append(late_rows(windows).map(LabelResult(case.name, "late"), output_type=anything))
    return results


def _timed_steps(flink: Any, times: list[int], place: Path, failure: Any, fails: int | None) -> Any:
    """The numbers of the steps, one after the other, with their times."""
    from pyflink.common import Types, WatermarkStrategy
    from pyflink.datastream.connectors.number_seq import NumberSequenceSource

    from windrow_conformance.engines.flink_steps import Pace, StepTime, checkpointed_numbers

    uid = place.name
    if fails is not None:
        source, whole = checkpointed_numbers(len(times), STEPS_PER_CHECKPOINT), Types.INT()
    else:
        source, whole = NumberSequenceSource(0, len(times) - 1), Types.LONG()
    numbers = flink.from_source(source, WatermarkStrategy.no_watermarks(), uid, whole).uid(f"{uid}-numbers")
    pace = Pace(times, -1 if fails is None else fails, place, failure)
    paced = numbers.map(pace, output_type=Types.LONG()).uid(f"{uid}-pace").disable_chaining()
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(StepTime(times))
    return paced.assign_timestamps_and_watermarks(strategy).uid(f"{uid}-time")


def _windows(timed: Any, way: str, case: Case, steps: Sequence[tuple[str, Any]], uid: str) -> Any:
    from windrow_conformance.engines.flink_steps import StepRows
    from windrow_flink import PACKED, windowed, windowed_packed
    from windrow_flink.rowtypes import type_of

    schema = _schema(case.schema)
    tables = [_sent(value, schema) if kind == "rows" else None for kind, value in steps]
    packed = way == "packed"
    element = PACKED if packed else type_of(schema)
    rows = timed.flat_map(StepRows(tables, case.query if packed else None), output_type=element)
    rows = rows.uid(f"{uid}-rows").disable_chaining()
    if packed:
        return windowed_packed(rows, case.query, schema, uid=uid)
    return windowed(rows, case.query, uid=uid)


def _before_failure(case: Case) -> int:
    """How many steps of a case come before the failure of its job, which is the restart in the middle."""
    restarts = [number for number, step in enumerate(case.steps) if step.kind == "restart"]
    return restarts[len(restarts) // 2] if restarts else 0


def _with_breaths(case: Case, fails: int) -> Iterator[tuple[str, Any]]:
    """The steps of a case, with breaths before its failure, so that this is step number ``fails``."""
    before = _before_failure(case)
    for number, step in enumerate(case.steps):
        if case.restarts and number == before:
            yield from [("breath", None)] * (fails - before)
        yield step.kind, step.value


def _times(steps: Sequence[tuple[str, Any]]) -> Iterator[int]:
    """The time of each step in milliseconds, from which Flink's watermarks are made.

    Flink does not keep watermarks in checkpoints; a source tells them again. So does the step of a restart.
    """
    from windrow_conformance.engines.flink_steps import FAR, NEVER

    reached = NEVER
    for kind, value in steps:
        if kind in ("watermark", "end"):
            reached = max(reached, FAR if kind == "end" else int(value) // 1000)
        yield NEVER if kind == "rows" else reached


def _schema(schema: pa.Schema) -> pa.Schema:
    """The columns as Flink's rows can hold them."""
    return pa.schema([pa.field(field.name, _has(field.type)) for field in schema])


def _has(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us")
    if type_ == pa.uint64():
        return pa.decimal128(38, 18)
    if pa.types.is_decimal(type_):
        return pa.decimal128(38, 18)
    return type_


def _sent(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    return rows.cast(schema)


def _table(rows: Iterable[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """What Flink gave, with the types that the case has."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    made = []
    for field, column in zip(schema, columns, strict=True):
        values = [_plain(value) for value in column]
        if pa.types.is_timestamp(field.type):
            made.append(pa.array(values, pa.timestamp("us")).cast(field.type))
        elif pa.types.is_decimal(field.type):
            made.append(pa.array(values, pa.decimal128(38, 18)).cast(field.type))
        else:
            made.append(pa.array(values, field.type))
    return pa.table(made, schema=schema)


def _plain(value: Any) -> Any:
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return list(value) if isinstance(value, tuple) else value
