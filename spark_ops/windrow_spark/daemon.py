# SPDX-License-Identifier: Apache-2.0
"""The process that Spark's Python workers fork from: as PySpark's own, with windrow imported and its kernels loaded.

Spark starts ``python -m windrow_spark.daemon`` where ``spark.python.daemon.module`` names it, as
:func:`windrow_spark.session_conf` does. A worker then begins with what a worker of ``pyspark.daemon`` has to load first:
about two seconds of imports, and the compiled code of the common aggregates. Nothing else differs.

PySpark imports nothing before it forks, because a library may start threads, and those do not live on in a fork. The two that
there are here, of OpenBLAS and of Arrow's allocator, belong to libraries that prepare for a fork and start theirs anew.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.daemon import manager

NAME = "windrow_spark.daemon"


def main() -> None:
    with _nothing_on_standard_output():
        load()
    gc.collect()
    gc.freeze()  # what is shared with the workers stays shared
    manager()


def load() -> None:
    """Import what workers use, and load the kernels of common queries.

    Kernels that are not in the cache on disk are not compiled here: no worker starts before this ends, and a query needs few
    of them. The first worker that needs one has it from the driver, or compiles it. A problem here is no reason not to
    start: a worker that needs what is missing tells better what is wrong.
    """
    try:
        import pyspark.sql.streaming.stateful_processor_api_client
        import pyspark.worker  # noqa: F401

        import windrow_spark.bucket_operators
        import windrow_spark.sorted_rows  # noqa: F401
        from windrow_spark.sent_code import speak
        from windrow_spark.warm import run_small_queries

        speak()
        run_small_queries()
    except Exception as problem:
        warnings.warn(f"{NAME} could not load everything before workers start: {problem}", stacklevel=2)


@contextmanager
def _nothing_on_standard_output() -> Iterator[None]:
    """Spark reads the daemon's port from its standard output, so what is printed meanwhile goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


if __name__ == "__main__":
    main()
