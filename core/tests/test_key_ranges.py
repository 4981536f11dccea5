"""Ranges of a key: computed one by one and put together, they have the windows of the definition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scenarios import SCHEMA, query, streams

import windrow as wr
from windrow.query.key_ranges import (
    EARLIEST,
    LATEST,
    CellGrid,
    Ranges,
    RowCounts,
    coarse,
    cut_key,
    cuttable,
    grids,
)
from windrow.testing import oracle
from windrow.windows import Window

NUMBER = "number"
WINDOWS = st.one_of(
    st.builds(wr.CountWindow, st.integers(1, 40), st.integers(1, 12)),
    st.builds(wr.SlideByTuple, st.integers(1, 60), st.integers(1, 12)),
    st.builds(wr.SlideByTime, st.integers(1, 40), st.integers(1, 30), st.integers(-20, 20)),
    st.builds(wr.SessionWindow, st.integers(1, 20)),
)


def counted(times: np.ndarray, grid: CellGrid) -> RowCounts:
    """As an engine counts the rows of a key."""
    cell = (times - grid.origin) // grid.width
    each = [times[cell == number] for number in np.unique(cell)]
    columns = ([rows.min() for rows in each], [rows.max() for rows in each], [len(rows) for rows in each])
    return RowCounts(*(np.array(column, np.int64) for column in columns))


def by_ranges(asked: wr.Query, table: pa.Table, width: int, ranges: int, worth: bool = False) -> pa.Table:
    """As an engine does it, in one task: rows that are sent to their ranges, sorted, and cut into batches."""
    pieces, cuts = [], []
    for key in _distinct(table["k"]):
        mine = table.filter(pa.array([each == key for each in table["k"].to_pylist()], pa.bool_()))
        times = mine["ts"].to_numpy()
        (grid,) = grids(asked, [(int(times.min()), int(times.max()))], ranges)
        cells = counted(times, grid._replace(width=grid.width * width))
        for each in cut_key(asked, cells, ranges, worth=worth):
            cuts.append(each)
            sent = mine.filter(pa.array((times >= each.sent) & (times <= each.last)))
            order = np.argsort(sent["ts"].to_numpy(), kind="stable")
            number = pa.array([len(cuts)] * sent.num_rows, pa.int64())
            pieces.append(sent.take(order).append_column(NUMBER, number))
    task = Ranges(asked, cuts)
    skipped, needed = task.skipped_rows(), []
    for batch in pa.concat_tables(pieces).combine_chunks().to_batches(max_chunksize=7):
        needed.append(batch.filter(pa.array(skipped.needed(batch[NUMBER].to_numpy()))))
    windows = oracle.evaluate(pa.Table.from_batches(needed), replace(asked, by=("k", NUMBER)))
    return asked.bind(SCHEMA).sort(task.owned(windows, NUMBER))


def _distinct(column: pa.ChunkedArray) -> list[str | None]:
    return list(dict.fromkeys(column.to_pylist()))


def rows(random: np.random.Generator) -> pa.Table:
    """Rows of up to three keys, with ties, silences and no order; sometimes a single one."""
    size = int(random.choice([1, 5, 40, 80]))
    values = random.integers(-5, 6, size)
    times = np.cumsum(random.choice([0, 1, 3, 12], size)) + int(random.integers(-100, 100))
    keys = random.choice(["a", "b", None], size) if random.random() < 0.3 else ["a"] * size
    columns = {"k": keys, "ts": random.permutation(times), "x": values / 2, "i": values, "d": times}
    return pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in SCHEMA.names})


def some_window(kind: str, random: np.random.Generator) -> Window:
    size, slide = int(random.integers(1, 20)), int(random.integers(1, 8))
    if kind == "session":
        return wr.SessionWindow(slide)
    if kind == "slide by time":
        return wr.SlideByTime(size, slide, int(random.integers(-9, 9)))
    return wr.CountWindow(size, slide) if kind == "count" else wr.SlideByTuple(size, slide)


KINDS = ["count", "slide by tuple", "slide by time", "session"]


@pytest.mark.parametrize(
    ("kind", "forgetful"), [*((kind, False) for kind in KINDS), *((kind, True) for kind in KINDS[:3])]
)
def test_ranges_have_the_windows_of_the_definition(kind: str, forgetful: bool) -> None:
    """Order matters to Collect and Last. Many ranges are shorter than their halos, and some rows are too few to cut."""
    for seed in range(30 if forgetful else 100):
        random = np.random.default_rng(seed)
        table, window = rows(random), some_window(kind, random)
        options = {"forget_after": int(random.integers(8, 12))} if forgetful else {}
        asked = query(window, ["all", "last", "n", "total"], **options)
        width, ranges, worth = (int(random.integers(least, most)) for least, most in ((1, 9), (1, 9), (0, 2)))
        got = by_ranges(asked, table, width, ranges, bool(worth))
        assert got.equals(oracle.evaluate(table, asked)), seed


@settings(max_examples=40, deadline=None)
@given(streams(most=60, least=1), WINDOWS, st.integers(1, 8), st.integers(1, 12))
def test_ranges_of_any_rows(table: pa.Table, window: Window, width: int, ranges: int) -> None:
    asked = query(window, ["all", "n"])
    assert by_ranges(asked, table, width, ranges).equals(oracle.evaluate(table, asked))


@pytest.mark.parametrize(
    "window",
    [wr.CountWindow(40, 10), wr.SlideByTuple(40, 10), wr.SlideByTime(40, 10), wr.SessionWindow(5)],
    ids=lambda window: type(window).__name__,
)
def test_ranges_are_even_and_halos_no_longer_than_needed(window: Window) -> None:
    times = np.arange(10_000)
    times += times // 50 * 10  # sessions of 50 rows
    asked = wr.Query(window=window, aggregates={"n": wr.Count()})
    (grid,) = grids(asked, [(int(times.min()), int(times.max()))], 8)
    found = cut_key(asked, counted(times, grid), 8)
    own = [np.count_nonzero((times >= each.begin) & (times <= each.last)) for each in found]
    assert len(found) == 8 and sum(own) == len(times)
    assert max(own) <= 1250 + 50
    starts = np.cumsum([0, *own[:-1]])
    halo = 0 if isinstance(window, wr.SessionWindow) else 40 + 10
    assert all(0 <= start - each.base <= halo for start, each in zip(starts, found, strict=True))
    assert all(each.skipped <= 4 for each in found)  # no more than a cell has


def test_long_halos_are_not_worth_many_ranges() -> None:
    """If the number of ranges is not asked for, rows are not sent to many of them."""
    times = np.arange(10_000)
    for rows, ranges in ((10, 8), (800, 4), (2000, 2), (9000, 1)):
        asked = wr.Query(window=wr.CountWindow(rows, 1), aggregates={"n": wr.Count()})
        (grid,) = grids(asked, [(0, 9_999)], 8)
        assert len(cut_key(asked, counted(times, grid), 8, worth=True)) == ranges
        assert len(cut_key(asked, counted(times, grid), 8)) == 8


def test_a_far_row_makes_cells_coarse_and_ties_cannot_be_cut() -> None:
    asked = wr.Query(window=wr.CountWindow(3), aggregates={"n": wr.Count()})
    times = np.append(np.arange(1000) + (1 << 50), -(1 << 60))
    (grid,) = grids(asked, [(int(times.min()), int(times.max()))], 4)
    cells = counted(times, grid)
    assert cells.rows.tolist() == [1, 1000] and coarse(asked, cells, 4).tolist() == [False, True]
    (finer,) = grids(asked, [(int(cells.first[1]), int(cells.last[1]))], 4)
    assert not coarse(asked, counted(times[:-1], finer), 4).any()
    tied = counted(np.full(1000, 7), CellGrid(7, 1))
    assert not coarse(asked, tied, 4).any()
    assert cut_key(asked, tied, 4) == [(EARLIEST, EARLIEST, LATEST, 0, 0)]


def test_what_can_be_cut() -> None:
    windows = [wr.TimeWindow(5), wr.DeltaWindow("d", 5, 1), wr.PolicyWindow(valid=bool), wr.CountWindow(3)]
    found = [cuttable(wr.Query(window=each, aggregates={"n": wr.Count()})) for each in windows]
    assert found == [False, False, False, True]
