"""Windows in flight: one stalls while others are computed, and the process dies while windows are being computed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pytest

import windrow as wr
from windrow.aggregates.whole import Extents, WholeWindow
from windrow.errors import OperatorBusy
from windrow.kernels.slices.layout import Results
from windrow.operator import workers as sharing
from windrow.storage.rocksdb import RocksDBPages
from windrow.testing import oracle

WAIT = 60.0
"""Seconds after which something has gone wrong."""


@dataclass(frozen=True, kw_only=True)
class Stalls(WholeWindow):
    """A function that takes as long for window 0 as for all others together: it waits for them."""

    others: threading.Event = field(default_factory=threading.Event)
    running: list[int] = field(default_factory=list)
    most: list[int] = field(default_factory=list)
    wanted: int = 0

    def compute(self, windows: Extents, out: Any, ok: Any) -> None:
        self.running.append(1)
        self.most.append(len(self.running))
        if windows.lo[0] == 0:
            assert self.others.wait(WAIT), "the others wait for window 0"
        out[:], ok[:] = [windows.columns[0][lo:hi].sum() for lo, hi in zip(*windows[1:], strict=True)], True
        self.running.pop()
        if windows.lo[0] != 0 and len(self.most) == self.wanted:
            self.others.set()


def test_ten_thousand_windows_are_computed_while_the_first_one_stalls() -> None:
    column, lo = np.arange(11_000.0), np.arange(10_900)
    windows = Extents((column,), lo, lo + 100)
    results = Results(np.zeros(len(lo)), np.zeros(len(lo), np.bool_))
    pieces = 2 * sharing.PIECES
    stalls = Stalls((pa.float64(),), np.dtype(np.float64), wanted=pieces)
    sharing.Workers(2).compute(stalls, windows, results)
    assert stalls.others.is_set() and results.ok.all()
    assert (results.out == np.convolve(column, np.ones(100), "valid")[: len(lo)]).all(), "in their places"
    assert max(stalls.most) <= 2, "no more pieces are in work than there are workers"


def test_no_state_is_written_while_windows_are_in_flight() -> None:
    table = pa.table({"ts": np.arange(30), "y": np.arange(30.0)})
    refused: list[str] = []
    operators: list[wr.Operator] = []

    def asks(y: Any) -> float:
        try:
            operators[0].snapshot()
        except OperatorBusy as busy:
            refused.append(str(busy))
        return float(y[0])

    query = wr.Query(window=wr.CountWindow(10, 10), aggregates={"f": wr.Apply(asks, "y", version=1)})
    operators.append(operator := wr.Operator(query, table.schema, workers=2))
    operator.process(table.slice(0, 25))
    assert operator.advance(25)["f"].to_pylist() == [0.0, 10.0] and len(refused) == 2
    again = wr.Operator.restore(query, operator.snapshot())
    again.process(table.slice(25))
    assert again.advance(30)["f"].to_pylist() == [20.0], "no window twice, and none lost"


@pytest.mark.parametrize(("count", "rows"), [(1, 5), (9, 5), (40, 5), (1000, 5), (1000, 0)])
def test_pieces_are_all_windows_and_end_small(count: int, rows: int) -> None:
    lo = np.arange(count)
    given: list[tuple[int, int]] = []

    class Pool(ThreadPoolExecutor):
        def submit(self, work: Any, /, *arguments: Any, **options: Any) -> Any:
            given.append(arguments[-1])
            return super().submit(work, *arguments, **options)

    whole = Ends((pa.float64(),), np.dtype(np.float64))
    results = Results(np.full(count, -1.0), np.zeros(count, np.bool_))
    sharing.Workers(2, Pool(2)).compute(whole, Extents((np.zeros(2000),), lo, lo + rows), results)
    assert results.out.tolist() == (lo + rows).tolist() and results.ok.all()
    sizes = [end - begin for begin, end in given]
    assert sum(sizes) == (count if count > 1 else 0) and len(sizes) <= 2 * sharing.PIECES
    assert max(sizes, default=1) <= 1 + count // 16 and sizes[-1:] in ([], [1], [2])


@dataclass(frozen=True)
class Ends(WholeWindow):
    def compute(self, windows: Extents, out: Any, ok: Any) -> None:
        out[:], ok[:] = windows.hi, True


# A process that is killed.

ROWS, BATCH = 600, 100
QUERY_ROWS = pa.table({"ts": np.arange(ROWS), "y": np.arange(float(ROWS))})


def waits(y: Any) -> float:
    """The sum. The window that begins with row 186 waits until it is told to go on, and says that it does."""
    folder = Path(os.environ["WINDROW_KILLED"])
    if y[0] == 186.0 and not (folder / "go").exists():
        (folder / "in flight").write_text(str(os.getpid()))
        while not (folder / "go").exists():
            time.sleep(0.01)
    return float(sum(y.tolist()))


QUERY = wr.Query(
    window=wr.CountWindow(20, 1), aggregates={"f": wr.Apply(waits, "y"), "middle": wr.Median("y")}
)


def job(folder: Path) -> None:
    """Batch after batch: windows into a file of the batch, then a commit."""
    os.environ["WINDROW_KILLED"] = str(folder)
    sharing.LOOK = sharing.START = sharing.WORTH = 0.0
    sharing.AGAIN = 0  # processes are tried for every batch
    with RocksDBPages(folder / "state") as pages:
        operator = wr.Operator.open(QUERY, QUERY_ROWS.schema, pages, workers=2)
        for number in range(operator.commits, ROWS // BATCH):
            operator.process(QUERY_ROWS.slice(number * BATCH, BATCH))
            windows = operator.advance((number + 1) * BATCH)
            feather.write_feather(windows, folder / "unfinished", compression="uncompressed")
            os.replace(folder / "unfinished", folder / f"{number}.arrow")
            operator.commit()


def test_a_process_that_is_killed_while_windows_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly once, in order: the batch whose windows were in flight is computed again, from the state before it."""
    context = multiprocessing.get_context("forkserver")
    killed = context.Process(target=job, args=(tmp_path,))
    killed.start()
    deadline = time.monotonic() + WAIT
    while not (tmp_path / "in flight").exists():
        assert killed.is_alive() and time.monotonic() < deadline
        time.sleep(0.01)
    assert int((tmp_path / "in flight").read_text()) != killed.pid, "a process of its own computes the window"
    killed.kill()
    killed.join()
    assert killed.exitcode == -signal.SIGKILL
    assert sorted(path.stem for path in tmp_path.glob("*.arrow")) == ["0", "1"]
    (tmp_path / "go").touch()
    again = context.Process(target=job, args=(tmp_path,))
    again.start()
    again.join()
    assert again.exitcode == 0
    found = pa.concat_tables(
        feather.read_table(tmp_path / f"{number}.arrow") for number in range(ROWS // BATCH)
    )
    monkeypatch.setenv("WINDROW_KILLED", str(tmp_path))
    assert found.equals(oracle.evaluate(QUERY_ROWS, QUERY))
