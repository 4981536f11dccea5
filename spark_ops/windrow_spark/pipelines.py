# SPDX-License-Identifier: Apache-2.0
"""``pipelined(updates, changes)``: the streams of a space, and the changes of its graph, in one Spark query.

::

    updates ─┐
             ├─ rows of one form ─ mapInArrow(pack) ─ groupBy(space).transformWithState ─ mapInArrow(unpack) ─ emitted updates
    changes ─┘

A change is a row as an update is. So a composite that somebody puts is there from the next micro-batch on, and graph,
values and windows are in one checkpoint. The whole tree of an update, at whatever depth, runs in one micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, Unpack

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from windrow.errors import ColumnError, PipelineError, TimeColumnError
from windrow.pipelines.engine import OUTPUT, ROWS, RuntimeOptions, Settings, run_all
from windrow_spark.arrow_types import as_spark_has
from windrow_spark.batch import column
from windrow_spark.buckets import BucketProcessor, BucketVariables, OneVariable, RoundProcessor
from windrow_spark.packing import PACKED_BY_NAME, pack, unpack_named
from windrow_spark.schemas import spark_schema
from windrow_spark.space_runtimes import OUT, ROUND, RoundRuntimes, SpaceRuntimes

SPACE = "space"
VARIABLES: dict[int, type[BucketVariables]] = {1: BucketVariables, 2: OneVariable}
"""The state variables of a space, by the layout of the checkpoint."""
_WATERMARK = "spark.watermarkDelayMs"
_NOT_CHANNELS = (SPACE, "stream", "ts", "sequence")


def pipelined(
    updates: Any,
    changes: Any,
    *,
    reports: bool = False,
    layout: Literal[1, 2] = 2,
    **options: Unpack[RuntimeOptions],
) -> Any:
    """The updates that all streams emit, as a DataFrame: ``stream``, ``ts``, ``sequence``, ``values`` (JSON).

    ``updates`` has the columns ``stream``, ``ts``, and ``values``, a JSON object of channels; instead of ``values``, every
    other column may be a channel. ``sequence`` tells updates of one source with equal times apart; without it, the second of them is
    taken for a repetition. ``changes`` has the columns of :data:`windrow.pipelines.CHANGES`. Both are streaming DataFrames, or
    both are batches. With a column ``space`` in both, each space has its own graph, and the result has that column too.

    A stream needs a watermark on the ``ts`` of ``updates``. With ``order="event"``, updates and changes wait for it and run
    by (ts, sequence); with ``"arrival"``, they run in the micro-batch in which they come. ``sinks`` are names that composites
    may send to; then the result has the column ``sink``. With ``reports``, rows of what failed, was refused or came late come
    too, told apart by the column ``kind``, with a ``message``. ``functions``, ``quotas``, ``allow`` and ``late`` are those of
    :class:`windrow.pipelines.Runtime`.

    ``rounds`` are the rounds of spaces that import streams of others, such as ``{"city": 1}``: each round is a stateful
    operator of the query, and hands on to the next one what it exports, in the same micro-batch.

    ``layout=1`` goes on from a checkpoint in which the state of a space is three variables; it is slower. Spark refuses a
    checkpoint of another layout when the query starts.

    >>> pipelined(updates.withWatermark("ts", "2 seconds"), changes)                # doctest: +SKIP
    """
    settings = Settings.of(options)
    if layout not in VARIABLES:
        raise PipelineError(f"layout is 2, or 1 for a checkpoint of that layout, not {layout!r}")
    if updates.isStreaming != changes.isStreaming:
        raise ColumnError(
            "updates and changes have to be both streaming DataFrames, or both batches; read the other one with readStream too"
        )
    spaces = SPACE in updates.columns
    if spaces != (SPACE in changes.columns):
        raise ColumnError("either both updates and changes have the column 'space', or none of them")
    numbers = not _is_timestamp(updates, "ts", "updates")
    rows = _updates(updates, spaces).unionByName(_changes(changes, spaces))
    wanted = [SPACE] if spaces else []
    wanted += ["stream", "ts", "sequence", "values", *(["sink"] if settings.sinks else [])]
    wanted = ["kind", *wanted, "message"] if reports else wanted
    if updates.isStreaming:
        _check_watermark(updates)
        seen = pa.schema([_seen(_OUT.field(name), numbers) for name in wanted])
        return _stream(rows, settings, seen, VARIABLES[layout])
    run = _batch(settings)
    if settings.last_round:  # all spaces in one task
        found = rows.coalesce(1).mapInArrow(_gathered(run), spark_schema(_OUT))
    else:
        found = rows.groupBy(SPACE).applyInArrow(run, spark_schema(_OUT))
    found = found if reports else found.where(column("kind") == "update")
    time = column("ts") if numbers else F.timestamp_micros(column("ts")).alias("ts")
    return found.select(*(time if name == "ts" else name for name in wanted))


_OUT = pa.schema([*OUTPUT, (SPACE, pa.string())])


def _seen(field: pa.Field, numbers: bool) -> pa.Field:
    """The column as it leaves the query: times are what those of updates are."""
    return field.with_type(pa.timestamp("us", "UTC")) if field.name == "ts" and not numbers else field


def _stream(rows: Any, settings: Settings, wanted: pa.Schema, variables: type[BucketVariables]) -> Any:
    packed = rows.mapInArrow(pack(ROWS), PACKED_BY_NAME)
    if not settings.last_round:
        stepped = _stateful(packed, BucketProcessor(SpaceRuntimes(settings, wanted.names), variables), OUT)
    else:
        stepped = packed.select("*", *(F.lit(None).cast(kind).alias(name) for name, kind in _FOUND.items()))
        for number in range(settings.last_round + 1):
            runtimes = RoundRuntimes(settings, wanted.names)
            processor = RoundProcessor(runtimes, number, dict(settings.rounds), variables)
            stepped = _stateful(stepped, processor, ROUND)
        stepped = stepped.select(column("found").alias("rows"), column("bucket").alias(SPACE), *_COUNTS)
    counted = stepped.observe(
        "windrow pipelines",
        F.sum("emitted").alias("emitted"),
        F.sum("reported").alias("reported"),
        F.count("*").alias("spaces"),
    )
    return counted.mapInArrow(unpack_named(wanted, SPACE), spark_schema(wanted))


_COUNTS = ("emitted", "reported")
_FOUND = {"found": "binary", "emitted": "long", "reported": "long"}


def _stateful(packed: Any, processor: Any, output: str) -> Any:
    return packed.groupBy("bucket").transformWithState(
        processor, outputStructType=output, outputMode="Append", timeMode="EventTime"
    )


def _batch(settings: Settings) -> Any:
    """All updates and changes of spaces, by (ts, sequence)."""

    def run(rows: pa.Table) -> pa.Table:
        in_order = rows.sort_by([("ts", "ascending"), ("sequence", "ascending")])
        spaces = in_order.column(SPACE)
        by_space = {
            space: in_order.filter(pc.equal(spaces, space)).select(ROWS.names).cast(ROWS)
            for space in spaces.unique().to_pylist()
        }
        found = [
            as_spark_has(table).append_column(SPACE, pa.repeat(space, table.num_rows))
            for space, table in run_all(settings, by_space).items()
        ]
        return pa.concat_tables(found)

    return run


def _gathered(run: Callable[[pa.Table], pa.Table]) -> Any:
    """A function of all rows as one of batches."""

    def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            yield from run(pa.Table.from_batches(held)).combine_chunks().to_batches()

    return gathered


def _updates(frame: Any, spaces: bool) -> Any:
    names = set(frame.columns)
    for name in ("stream", "ts"):
        if name not in names:
            raise ColumnError.unknown(name, "updates", frame.columns)
    if "values" in names:
        text = column("values").cast("string")
    else:
        text = F.to_json(F.struct(*[column(name) for name in frame.columns if name not in _NOT_CHANNELS]))
    sequence = column("sequence") if "sequence" in names else F.lit(0)
    return frame.select(
        F.lit(None).cast("string").alias("operation"),
        column("stream").cast("string").alias("name"),
        _microseconds(frame, "ts", "updates"),
        sequence.cast("bigint").alias("sequence"),
        text.alias("text"),
        _space(spaces),
    )


def _changes(frame: Any, spaces: bool) -> Any:
    names = set(frame.columns)
    for name in ("operation", "actor", "document"):
        if name not in names:
            raise ColumnError.unknown(name, "changes", frame.columns)
    at = _microseconds(frame, "ts", "changes") if "ts" in names else F.lit(None).cast("bigint").alias("ts")
    sequence = column("sequence") if "sequence" in names else F.lit(None)
    return frame.select(
        column("operation").cast("string").alias("operation"),
        column("actor").cast("string").alias("name"),
        at,
        sequence.cast("bigint").alias("sequence"),
        column("document").cast("string").alias("text"),
        _space(spaces),
    )


def _space(spaces: bool) -> Any:
    return (column(SPACE).cast("string") if spaces else F.lit("")).alias(SPACE)


def _is_timestamp(frame: Any, name: str, role: str) -> bool:
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    if name not in kinds:
        raise ColumnError.unknown(name, role, frame.columns)
    if kinds[name] not in ("timestamp", "timestamp_ntz", "bigint"):
        raise TimeColumnError(
            f"column {name!r} of {role} is a {kinds[name]}; make it a timestamp, or a bigint of microseconds"
        )
    return kinds[name] != "bigint"


def _microseconds(frame: Any, name: str, role: str) -> Any:
    time = column(name)
    if _is_timestamp(frame, name, role):
        return F.unix_micros(time.cast("timestamp")).alias(name)
    return time.alias(name)


def _check_watermark(updates: Any) -> None:
    time = {field.name: field for field in updates.schema}["ts"]
    if _WATERMARK not in (time.metadata or {}):
        raise TimeColumnError(
            "the streaming DataFrame of updates has no watermark on 'ts', so no update would ever be released: "
            'call updates.withWatermark("ts", "2 seconds") before pipelined()'
        )
