# SPDX-License-Identifier: Apache-2.0
"""``pipelined(updates, changes)``: the streams of a space, and the changes of its graph, in one Flink job.

Updates and changes are elements of one keyed stream; the key is the space. So a composite that somebody puts joins the
running job, and graph, values and windows are in one checkpoint. With ``order="event"``, elements are logged in keyed state
until the watermark passes them. With ``order="arrival"``, each runs when it comes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Unpack

import pyarrow as pa
from pyflink.common import Duration as FlinkDuration
from pyflink.common import Row, Types, WatermarkStrategy
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimerService,
)
from pyflink.datastream.state import ListStateDescriptor

import windrow  # noqa: F401  # whole, before its parts: see the package
from windrow.durations import Duration
from windrow.errors import ColumnError
from windrow.pipelines.engine import JOINED, OUTPUT, ROWS, RuntimeOptions, Settings, exported, feed
from windrow.pipelines.runtime import Runtime
from windrow_flink.buckets import KEY_GROUPS
from windrow_flink.counters import counter
from windrow_flink.elements import MET
from windrow_flink.function import current_key
from windrow_flink.inputs import check_watermarks, checked_stream, stream_type
from windrow_flink.pages import BucketPages, PageStates, raw_bytes
from windrow_flink.rowtypes import BYTES, schema_of, type_of
from windrow_flink.steps import consume, keyed_by_first, own_thread, timed, uid_in_mode
from windrow_flink.times import END, from_flink, microseconds, to_flink

SPACE = "space"


def _element() -> Any:
    """The type of the space, and a row of updates and changes as JSON."""
    return Types.ROW([Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])


ELEMENT = _element()
_UPDATED = pa.schema(
    [(SPACE, pa.string()), *(OUTPUT.field(n) for n in ("stream", "ts", "sequence", "values", "sink"))]
)
_REPORTED = pa.schema(
    [(SPACE, pa.string()), *(OUTPUT.field(n) for n in ("kind", "stream", "ts", "sequence", "message"))]
)
_IDLE = 50
"""For so many milliseconds may the stream of changes be silent before watermarks no longer wait for it."""


def pipelined(
    updates: DataStream,
    changes: DataStream,
    *,
    disorder: Duration | None = None,
    uid: str = "windrow-pipelines",
    **options: Unpack[RuntimeOptions],
) -> DataStream:
    """The updates that all streams emit, as rows: ``space``, ``stream``, ``ts``, ``sequence``, ``values`` (JSON), ``sink``.

    ``updates`` are rows with the fields ``stream``, ``ts`` (whole microseconds, or a timestamp) and ``values``, a JSON object of
    channels; instead of ``values``, every other field may be a channel. ``sequence`` tells updates of one source with equal times
    apart; without it, the second of them is taken for a repetition. ``changes`` are rows with the fields of
    :data:`windrow.pipelines.CHANGES`. With a field ``space`` in both, each space has its own graph.

    The updates must carry watermarks; with ``disorder`` they are made here, that far behind the latest update. With
    ``order="event"``, updates and changes wait for the watermark and run by (ts, sequence); with ``"arrival"``, they run
    when they come. :func:`reports` are the rows of what failed, was refused or came late. ``functions``, ``sinks``,
    ``quotas``, ``allow`` and ``late`` are those of :class:`windrow.pipelines.Runtime`. ``uid`` must be different for each
    operator of a job.

    ``rounds`` are the rounds of spaces that import streams of others, such as ``{"city": 1}``: each round is an operator
    of the job, and hands on to the next one what it exports.
    """
    settings = Settings.of(options)
    if disorder is None:
        check_watermarks(checked_stream(updates))
    data = timed(
        updates,
        UpdateElements(_fields(updates, "updates", ("stream", "ts")), disorder is not None),
        ELEMENT,
        disorder,
        uid,
        parallelism=_parallelism(updates),
    )
    # Changes have no watermarks: if none come, watermarks must not wait for them.
    silent = WatermarkStrategy.no_watermarks().with_idleness(FlinkDuration.of_millis(_IDLE))
    needed = ("operation", "actor", "document")
    changed = (
        checked_stream(changes)
        .process(ChangeElements(_fields(changes, "changes", needed)), output_type=ELEMENT)
        .name(f"{uid}-changes")
        .uid(f"{uid}-changes")
        .set_parallelism(_parallelism(changes))
        .assign_timestamps_and_watermarks(silent)
        .uid(f"{uid}-silent")
    )
    rows, rounds = data.union(changed), []
    for number in range(settings.last_round + 1):
        own = f"{uid}-{number}" if number else uid
        # A tag is pickled with the function; its type must not have been used before.
        tag = OutputTag(f"{own}-reports", type_of(_REPORTED))
        later = OutputTag(f"{own}-later", _element()) if number < settings.last_round else None
        keyed = keyed_by_first(rows, BYTES, Types.STRING())
        function = PipelineFunction(settings, number, tag, later)
        result = keyed.process(function, output_type=type_of(_UPDATED)).name(own)
        result.uid(uid_in_mode(keyed, own))
        result.set_max_parallelism(KEY_GROUPS)
        own_thread(result)
        consume(result, tag, f"{own}-reported")
        rounds.append((result, tag))
        rows = rows if later is None else result.get_side_output(later)
    return PipelineStream(rounds)


def reports(result: DataStream) -> DataStream:
    """What failed, was refused or came late: rows of space, kind, stream, ts, sequence, message.

    ``result`` is what :func:`pipelined` returned.
    """
    if not isinstance(result, PipelineStream):
        raise ColumnError("reports() needs the stream that pipelined() returned")
    return result.reports()


class PipelineStream(DataStream):
    """The updates that all rounds emit."""

    def __init__(self, rounds: list[tuple[DataStream, OutputTag]]) -> None:
        """``rounds`` are the streams of the rounds, and the tags of their reports."""
        super().__init__(_united([stream for stream, _ in rounds])._j_data_stream)
        self.rounds = rounds

    def reports(self) -> DataStream:
        return _united([stream.get_side_output(tag) for stream, tag in self.rounds])


def _united(streams: list[DataStream]) -> DataStream:
    return streams[0].union(*streams[1:]) if len(streams) > 1 else streams[0]


class UpdateElements(ProcessFunction):
    """Updates as elements. If ``timed``, each comes with its time in milliseconds, as a pair."""

    def __init__(self, names: list[str], timed: bool) -> None:
        self.names, self.timed = names, timed

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        named = dict(zip(self.names, row, strict=True))
        space, stream, ts = named.pop(SPACE, ""), named.pop("stream"), microseconds(named.pop("ts"))
        sequence = named.pop("sequence", 0)
        text = (
            named["values"]
            if "values" in named
            else json.dumps({n: v for n, v in named.items() if v is not None})
        )
        element = Row(space, _entry(None, stream, ts, sequence, text))
        return ((element, ts // 1000),) if self.timed else (element,)


class ChangeElements(ProcessFunction):
    """Changes as elements."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def process_element(self, row: Any, context: ProcessFunction.Context) -> Iterable[Any]:
        named = dict(zip(self.names, row, strict=True))
        ts = named.get("ts")
        at = None if ts is None else microseconds(ts)
        entry = _entry(named["operation"], named["actor"], at, named.get("sequence"), named["document"])
        return (Row(named.get(SPACE, ""), entry),)


class PipelineFunction(KeyedProcessFunction):
    """The runtimes of spaces. Everything is in keyed state when an element returns, so a failure loses nothing."""

    def __init__(self, settings: Settings, number: int, tag: OutputTag, later: OutputTag | None) -> None:
        self.settings, self.number, self.tag, self.later = settings, number, tag, later

    def open(self, context: RuntimeContext) -> None:
        """Called once per worker, also after a failure, before any element."""
        self.states = PageStates(context)
        self.log = context.get_list_state(ListStateDescriptor("windrow-log", raw_bytes(context)))
        self.runtimes: dict[Any, Runtime] = {}
        self.emitted, self.reported = counter(context, "emitted"), counter(context, "reported")

    def process_element(self, element: bytes, context: KeyedProcessFunction.Context) -> Iterable[Any]:
        """Called for each element: run it, or log it until the watermark passes it."""
        space, clock = current_key(context), context.timer_service()
        if self.settings.rounds.get(space, 0) != self.number:
            yield self.later, Row(space, bytes(element))
            return
        entry = MET.pack(from_flink(clock.current_watermark())) + bytes(element)
        if self.settings.order == "arrival":
            yield from self._fed(space, [entry], clock)
            return
        self.log.add(entry)
        clock.register_event_time_timer(clock.current_watermark() + 1)

    def on_timer(self, timestamp: int, context: KeyedProcessFunction.OnTimerContext) -> Iterable[Any]:
        """Called when the watermark has moved after elements were logged, or has passed a time that was asked for."""
        entries = [bytes(entry) for entry in self.log.get() or ()]
        self.log.clear()
        yield from self._fed(current_key(context), entries, context.timer_service())

    def _fed(self, space: str, entries: list[bytes], clock: TimerService) -> Iterator[Any]:
        runtime = self.runtimes.get(space)
        if runtime is None:
            runtime = self.runtimes[space] = self.settings.open(BucketPages(self.states), space)
        try:
            found = [feed(runtime, rows, met) for met, rows in _rows(entries)]
            found.append(feed(runtime, None, from_flink(clock.current_watermark())))
            sent = exported(runtime)
            runtime.commit()
        except BaseException:
            del self.runtimes[space]
            raise
        wake = runtime.wake
        if wake is not None and clock.current_watermark() < to_flink(wake) < END:
            clock.register_event_time_timer(to_flink(wake))
        for other, rows in sent.items():
            for row in rows.to_pylist():
                yield self.later, Row(other, _entry(*row.values()))
        yield from self._out(space, pa.concat_tables(found))

    def _out(self, space: str, found: pa.Table) -> Iterator[Any]:
        for row in found.append_column(SPACE, pa.repeat(space, found.num_rows)).to_pylist():
            if row["kind"] == "update":
                self.emitted.inc()
                yield Row(*(row[name] for name in _UPDATED.names))
            else:
                self.reported.inc()
                yield self.tag, Row(*(row[name] for name in _REPORTED.names))


def _parallelism(stream: DataStream) -> int:
    """That of a stream. A step that has another one would mix up the order in which its elements come."""
    return int(stream._j_data_stream.getParallelism())


def _entry(*values: Any) -> bytes:
    """A row of updates and changes, as JSON. Those of other spaces have two columns more."""
    return json.dumps(values).encode()


def _rows(entries: list[bytes]) -> Iterator[tuple[int, pa.Table]]:
    """The rows in entries of the log, with the watermark that they met."""
    for met, some in groupby(entries, lambda entry: int(MET.unpack_from(entry)[0])):
        rows = [json.loads(entry[MET.size :]) for entry in some]
        schema = ROWS if all(len(row) == len(ROWS) for row in rows) else JOINED
        columns = zip(*([*row, *[None] * (len(schema) - len(row))] for row in rows), strict=True)
        yield (
            met,
            pa.table([pa.array(v, f.type) for v, f in zip(columns, schema, strict=True)], schema=schema),
        )


def _fields(stream: DataStream, role: str, needed: tuple[str, ...]) -> list[str]:
    names = list(schema_of(stream_type(checked_stream(stream))).names)
    for name in needed:
        if name not in names:
            raise ColumnError.unknown(name, role, names)
    return names
