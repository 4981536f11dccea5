"""A row's way through the core stays straight: how many files it crosses, and how often it changes from one to another."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest

import windrow as wr

CORE = str(Path(wr.__file__).parent)
WINDOWS = {
    "time": wr.TimeWindow("10us", "5us"),
    "count": wr.CountWindow(2, 1),
    "session": wr.SessionWindow("3us"),
}


def rows(time: int) -> pa.Table:
    return pa.table({"k": ["a"], "ts": [time], "v": [float(time)]})


def walked(call: Callable[[], Any]) -> tuple[int, int]:
    """The files of the core that a call crosses, and its hops: changes of file, returns included."""
    way: list[str] = []
    stack: list[str] = []

    def seen(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        if not file.startswith(CORE):
            return
        if event == "call":
            stack.append(file)
        elif event == "return" and stack:
            stack.pop()
        if stack and (not way or way[-1] != stack[-1]):
            way.append(stack[-1])

    sys.setprofile(seen)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(set(way)), len(way)


@pytest.mark.parametrize(
    ("kind", "row", "window"),
    [("time", (8, 20), (10, 45)), ("count", (8, 20), (13, 60)), ("session", (8, 20), (14, 60))],
)
def test_the_way_of_a_row(kind: str, row: tuple[int, int], window: tuple[int, int]) -> None:
    """Interpreted, so that kernels are seen. Nothing is made for the first time."""
    query = wr.Query(by="k", time="ts", window=WINDOWS[kind], aggregates={"m": wr.Max("v")})
    operator = wr.Operator(query, compiled=False)
    operator.process(rows(1))
    operator.advance(2)
    operator.process(rows(7))
    found: list[pa.Table] = []
    for most, call in (
        (row, lambda: operator.process(rows(8))),
        (window, lambda: found.append(operator.advance(12))),
    ):
        files, hops = walked(call)
        assert 1 < files <= most[0] and 1 < hops <= most[1], (files, hops)
    assert found[0].num_rows
