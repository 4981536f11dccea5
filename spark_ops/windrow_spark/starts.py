# SPDX-License-Identifier: Apache-2.0
"""A query that does not fit its checkpoint is refused where its stream starts.

Spark gives the location of a checkpoint to the writer of a stream, and says it to nobody before the first micro-batch. There
the state is opened by a worker, whose error comes back inside hundreds of lines. So from the first streaming ``windowed`` on,
``writeStream`` gives writers that look into the checkpoint before they start a stream with windrow's windows.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Any

from pyspark.errors import PySparkException

from windrow.errors import WindrowError
from windrow_spark.checkpoints import check_checkpoint
from windrow_spark.cluster import connected
from windrow_spark.schemas import FittedQuery

METRICS = "windrow"
_LOCATION = "checkpointlocation"
_DEFAULT_LOCATION = "spark.sql.streaming.checkpointLocation"

_STREAMS: dict[str, tuple[FittedQuery, int]] = {}
"""By the name of its figures: the query and the number of buckets that a stream was made with."""
_WATCHED: set[type] = set()
_LOCK = Lock()


def figures_of(fitted: FittedQuery, buckets: int) -> str:
    """The name under which Spark observes the figures of a stream. It is in the plan of all that is made from it.

    It differs if the query, the types of columns or the number of buckets do.
    """
    made_with = f"{fitted.query.fingerprint} {fitted.schema} {buckets}"
    return f"{METRICS} {sha256(made_with.encode()).hexdigest()[:12]}"


def check_at_start(frame: Any, fitted: FittedQuery, buckets: int) -> None:
    """Have every stream that is made from the windows of this query look into its checkpoint when it starts."""
    kind = type(frame)
    with _LOCK:
        _STREAMS[figures_of(fitted, buckets)] = fitted, buckets
        if kind in _WATCHED:
            return
        _WATCHED.add(kind)
        plain = kind.writeStream
        if not isinstance(plain, property) or plain.fget is None:
            return  # a DataFrame that is not PySpark's own; the first micro-batch refuses what does not fit
        made_by = plain.fget

        def write_stream(frame: Any) -> Any:
            writer = made_by(frame)
            writer.__class__ = _checking(type(writer))
            writer.watch(frame)
            return writer

        kind.writeStream = property(write_stream, doc=plain.__doc__)


def _checking(kind: Any) -> Any:
    return type(kind.__name__, (CheckedWriter, kind), {"__doc__": kind.__doc__})


class CheckedWriter:
    """What is added to Spark's writer of a stream."""

    def watch(self, frame: Any) -> None:
        """Keep what the check needs: the DataFrame that is written, and from now on the options."""
        self.frame = frame
        self.given: dict[str, str] = {}
        self.name = ""

    def option(self, key: str, value: Any) -> Any:
        self.given[key.lower()] = str(value)
        plain: Any = super()
        return plain.option(key, value)

    def options(self, **options: Any) -> Any:
        self.given.update({key.lower(): str(value) for key, value in options.items()})
        plain: Any = super()
        return plain.options(**options)

    def queryName(self, queryName: str) -> Any:
        self.name = queryName
        plain: Any = super()
        return plain.queryName(queryName)

    def start(self, *given: Any, **options: Any) -> Any:
        self._check(given, options)
        plain: Any = super()
        return plain.start(*given, **options)

    def toTable(self, *given: Any, **options: Any) -> Any:
        self._check(given, options)
        plain: Any = super()
        return plain.toTable(*given, **options)

    def _check(self, given: tuple[Any, ...], options: dict[str, Any]) -> None:
        """Refuse what does not fit. Whatever else is wrong is left to Spark, which says what."""
        names = {key.lower(): value for key, value in options.items()}
        name = names.get("queryname") or (given[4] if len(given) > 4 else None) or self.name
        refused: WindrowError | None = None
        with suppress(
            Exception
        ):  # every stream of the session comes here, and none may fail because it was looked at
            found = sorted(set(re.findall(rf"{METRICS} [0-9a-f]{{12}}", self._described())))
            place = names.get(_LOCATION) or self.given.get(_LOCATION) or self._default_place(name)
            if found and place and _is_there(self.frame.sparkSession, str(place)):
                for figures in found:
                    refused = refused or _refusal(self.frame.sparkSession, figures, str(place))
        if refused is not None:
            raise refused.with_traceback(None) from None

    def _default_place(self, name: str) -> str | None:
        folder = self.frame.sparkSession.conf.get(_DEFAULT_LOCATION, None)
        return f"{folder}/{name}" if folder and name else None

    def _described(self) -> str:
        """The plan as text: of a client of Spark Connect the bytes that it sends, otherwise what Spark prints."""
        session = self.frame.sparkSession
        if not connected(session):
            return str(self.frame._jdf.queryExecution().analyzed().toString())
        sent: bytes = getattr(self, "_write_stream").command(session.client).SerializeToString()  # noqa: B009
        return sent.decode("latin-1")


def _is_there(spark: Any, checkpoint: str) -> bool:
    """Whether a stream has written a checkpoint there. Spark's readers of state would warn that there is none.

    The file is named twice: Spark takes a single path for a possible output of a stream, and logs its failure to look there
    with a stack trace.
    """
    try:
        found = spark.read.text([f"{checkpoint}/metadata"] * 2)
        return bool(found.columns)  # Spark Connect looks for the file only now
    except PySparkException:
        return False


def _refusal(spark: Any, figures: str, checkpoint: str) -> WindrowError | None:
    """Why the stream with these figures does not fit the checkpoint; nothing if it does."""
    fitted, buckets = _STREAMS[figures]
    try:
        check_checkpoint(spark, fitted, checkpoint, buckets)
    except WindrowError as error:
        return error
    return None
