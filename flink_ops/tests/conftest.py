"""Flink's mini-cluster for the tests of this folder: in one JVM, addressed through loopback."""

import os
from collections.abc import Callable, Mapping
from typing import Any

import owned
import pytest
from cluster import SHORT_LIVED
from pyflink.common import Types
from pyflink.datastream import DataStream, StreamExecutionEnvironment

from windrow_flink import environment

os.environ.setdefault("JVM_ARGS", SHORT_LIVED)  # of this JVM, and of those that tests start
environment()  # before anything else of Flink: thread mode needs its import path when the JVM starts


@pytest.fixture(params=["process", "thread"])
def flink(request: pytest.FixtureRequest) -> StreamExecutionEnvironment:
    """A fresh environment, in each of Flink's two ways to run Python."""
    return environment(mode=request.param)


@pytest.fixture
def collected() -> Callable[[Mapping[str, DataStream]], dict[str, list[Any]]]:
    """Runs one job for several streams (starting a job takes most of the time); the rows of each, as lists."""

    def run(streams: Mapping[str, DataStream]) -> dict[str, list[Any]]:
        named = [
            stream.map(owned.Named(name), output_type=Types.PICKLED_BYTE_ARRAY()).set_parallelism(1)
            for name, stream in streams.items()
        ]
        together = named[0].union(*named[1:]) if len(named) > 1 else named[0]
        found: dict[str, list[Any]] = {name: [] for name in streams}
        with together.execute_and_collect() as results:
            for name, value in results:
                found[name].append(value)
        return found

    return run
