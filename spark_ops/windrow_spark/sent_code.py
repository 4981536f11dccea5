# SPDX-License-Identifier: Apache-2.0
"""Compiled code of the driver on its way to executors, so that they need not compile it again.

On a cluster, :func:`send` runs a query over a few made-up rows on the driver (:mod:`windrow_spark.rehearsal`), which compiles its
kernels there or loads them, and sends them as a file to every executor. Tasks carry the name of the file and the SHA-256 of what is in
it. Before a worker process first needs a kernel, it takes over what is in the file: :mod:`windrow.kernels.carried`.

Nothing depends on it. Where the file does not come, is not the one that was sent, or was made for another processor or
version, a worker says so and compiles.

Workers of stateless steps import this module. So it imports windrow only where it is needed.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

SETTING = "spark.windrow.sendCompiled"
"""``auto`` sends compiled code unless the session is local, ``true`` always, ``false`` never."""
logger = logging.getLogger("windrow.compiling")


@dataclass(frozen=True)
class SentCode:
    """A file of compiled code that the driver has sent: its name, and the SHA-256 of what is in it."""

    file: str
    digest: str


def sha256(packed: bytes) -> str:
    return hashlib.sha256(packed).hexdigest()


# On the driver.


def send(spark: Any, what: Hashable, rehearse: Callable[[], None]) -> SentCode | None:
    """Send the kernels that a rehearsal uses to the executors. None if that is not wanted, or not possible.

    ``what`` stands for all that the rehearsal depends on: the next one with the same is not run.
    """
    if not _wanted(spark):
        return None
    try:
        if what not in _PACKED:
            _PACKED[what] = _packed(rehearse)
        packed = _PACKED[what]
        digest = sha256(packed)
        code = SentCode(f"windrow-compiled-{digest[:16]}.bin", digest)
        known = _SENT.setdefault(spark, set())
        if code not in known:
            (_folder() / code.file).write_bytes(packed)
            spark.addArtifacts(str(_folder() / code.file), file=True)
            known.add(code)
    except Exception as problem:  # the executors can do without
        logger.warning("compiled code cannot be sent to the executors, so they compile: %s", problem)
        return None
    return code


_PACKED: dict[Hashable, bytes] = {}
_SENT: WeakKeyDictionary[Any, set[SentCode]] = WeakKeyDictionary()
"""What each session has sent."""


def _wanted(spark: Any) -> bool:
    from windrow.errors import EngineError

    wanted = _setting(spark, SETTING, "auto").lower()
    if wanted not in ("auto", "true", "false"):
        raise EngineError(f"{SETTING} is {wanted!r}; set it to auto, true or false, or leave it out")
    if wanted != "auto":
        return wanted == "true"
    master = _setting(spark, "spark.master", "local")
    return not master.startswith("local") or master.startswith("local-cluster")


def _setting(spark: Any, name: str, default: str) -> str:
    try:
        return str(spark.conf.get(name, default))
    except Exception:  # a service that shows only some of its settings
        return default


def _packed(rehearse: Callable[[], None]) -> bytes:
    from windrow.kernels import carried
    from windrow.kernels.compiling import compile_seconds, compiled_kernels

    began, seconds, kernels = perf_counter(), compile_seconds(), compiled_kernels()
    with carried.used() as found:
        rehearse()
    packed = carried.pack(found.values())
    logger.info(
        "%d kernels (%.1f MB) go to the executors; ready in %.1f s, of which %.1f s went into compiling %d of them",
        len(found),
        len(packed) / 1e6,
        perf_counter() - began,
        compile_seconds() - seconds,
        compiled_kernels() - kernels,
    )
    return packed


@cache
def _folder() -> Path:
    """Executors fetch files from there as long as the driver runs."""
    folder = Path(tempfile.mkdtemp(prefix="windrow-compiled-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# On executors.


def after(code: SentCode | None, task: Callable[[Iterable[Any]], Iterator[Any]]) -> Callable[[Any], Any]:
    """A task that takes over what the driver has sent before it looks at its rows."""

    def run(batches: Iterable[Any]) -> Iterator[Any]:
        arrive(code)
        yield from task(batches)

    return run


def arrive(code: SentCode | None) -> None:
    """Called where a task begins. Takes over what the driver has sent, once for each process."""
    speak()
    if code is not None:
        _take_over(code)


@cache
def _take_over(code: SentCode) -> None:
    from pyspark import SparkFiles

    from windrow.kernels import carried

    try:
        packed = Path(SparkFiles.get(code.file)).read_bytes()
    except Exception as problem:  # Spark Connect does not bring files to streams
        logger.warning("%s has not reached this executor (%s): kernels are compiled here", code.file, problem)
        return
    found = sha256(packed)
    if found != code.digest:
        logger.error(
            "%s is refused: it is not the file that the driver has sent (SHA-256 %s, sent was %s). Kernels are compiled here",
            code.file,
            found,
            code.digest,
        )
        return
    try:
        carried.take_over(packed)
    except carried.ForeignCode as problem:
        logger.warning(
            "compiled code of the driver does not fit here: %s. Kernels are compiled here", problem
        )


def files_taken_over() -> int:
    """How many files this process has looked at."""
    return _take_over.cache_info().currsize


@cache
def speak() -> None:
    """Let what windrow logs reach the standard error of the executor, unless the job handles it already."""
    root = logging.getLogger("windrow")
    if not root.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s windrow, process %(process)d: %(message)s"))
        root.addHandler(handler)
        if root.level == logging.NOTSET:
            root.setLevel(logging.INFO)
