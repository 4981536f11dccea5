"""AMTA on a store: the results of AMTA, whatever happens to process and store; how much is local, and how often it reads."""

from __future__ import annotations

import zlib
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unreliable import Counted, Failing, Prefetching, Stale

import windrow as wr
from windrow.algorithms.amta import AMTA
from windrow.algorithms.stored_amta.tree import StoredAMTA
from windrow.columns.encoding import decode_value
from windrow.errors import CorruptSnapshot, FingerprintMismatch, StoreError, WindowError
from windrow.kernels.columns.layout import ColumnOutput
from windrow.storage.pages import MemoryPages, Pages

SIZES = st.sampled_from(
    [{"batch": 4, "low_water": 1}, {"batch": 4, "low_water": 4}, {"batch": 8, "low_water": 4}, {}]
)
STEP = st.one_of(
    st.tuples(st.just("insert"), st.integers(1, 60)),
    st.tuples(st.just("evict"), st.just(1)),
    st.tuples(st.just("slide"), st.integers(1, 40)),
    st.tuples(st.just("evict"), st.integers(2, 100)),
    st.tuples(st.just("at most"), st.integers(1, 100)),
    st.tuples(st.just("range"), st.integers(0, 100)),
    st.tuples(st.just("commit"), st.just(0)),
    st.tuples(st.just("crash"), st.just(0)),
)
STEPS = st.lists(STEP, max_size=30)


class Model:
    """A window of numbered rows beside the one on a store; after a crash both go on from the last commit."""

    def __init__(self, pages: Pages, sizes: dict[str, int]) -> None:
        self.pages, self.sizes = pages, sizes
        self.committed = 0
        self.reset()

    def reset(self) -> None:
        self.window = StoredAMTA(wr.Collect("x"), self.pages, **self.sizes)
        self.memory = AMTA(wr.Collect("x"), compiled=False)
        for number in range(self.window.inserted):
            self.memory.insert((number,))
        self.memory.evict(self.window.evicted)

    def do(self, step: str, count: int) -> None:
        if step == "insert":
            for _ in range(count):
                self.insert()
        elif step == "evict":
            count = min(count, len(self.memory))
            self.window.evict(count)
            self.memory.evict(count)
        elif step == "slide":
            for _ in range(count):
                self.insert()
                self.window.evict()
                self.memory.evict()
                self.check()
        elif step == "at most":
            gone = [w.enforce(valid=lambda p: len(p) <= count) for w in (self.window, self.memory)]
            assert gone[0] == gone[1]
        elif step == "range":
            begin = self.window.evicted + count // 3
            expected = range(begin, min(begin + count, self.window.inserted))
            assert tuple(self.window.range_query(begin, begin + count)) == tuple(expected)
        elif step == "commit":
            self.committed = self.window.commit()
        else:
            self.reset()
            assert self.window.commits == self.committed

    def insert(self) -> None:
        row = (self.window.inserted,)
        self.window.insert(row)
        self.memory.insert(row)

    def check(self) -> None:
        assert len(self.window) == len(self.memory)
        assert self.window.query() == self.memory.query()


@settings(max_examples=50, deadline=None)
@given(STEPS, SIZES, st.booleans())
def test_the_results_are_those_of_amta(
    steps: list[tuple[str, int]], sizes: dict[str, int], ahead: bool
) -> None:
    model = Model(Prefetching() if ahead else MemoryPages(), sizes)
    for step, count in steps:
        model.do(step, count)
        model.check()


@settings(max_examples=40, deadline=None)
@given(STEPS, SIZES, st.integers(0, 1000))
def test_a_store_that_fails(steps: list[tuple[str, int]], sizes: dict[str, int], seed: int) -> None:
    """After an error, the call is made again, or the window is made again; the results stay right."""
    pages = Failing(MemoryPages(), 0.0, seed)
    model = Model(pages, sizes)
    for step, count in steps:
        pages.rate = 0.2
        before = model.window.inserted, model.window.evicted
        try:
            if step == "insert":
                model.window.insert((before[0],))
                model.memory.insert((before[0],))
            elif step != "slide":
                model.do(step, count)
        except StoreError:
            pages.rate = 0.0
            if step in ("commit", "crash"):
                model.committed = StoredAMTA(wr.Collect("x"), pages, **sizes).commits
                model.reset()
            else:
                assert (model.window.inserted, model.window.evicted) == before, "nothing has changed"
        pages.rate = 0.0
        model.check()


@settings(max_examples=40, deadline=None)
@given(STEPS, SIZES, st.integers(0, 1000))
def test_a_store_that_returns_stale_bytes(
    steps: list[tuple[str, int]], sizes: dict[str, int], seed: int
) -> None:
    """Right, or a StoreError. An old header is a state that was once committed, unless the commit is asked for."""
    pages = Stale(MemoryPages(), 0.3, seed)
    model = Model(pages, sizes)
    for step, count in steps:
        try:
            if step == "crash":
                StoredAMTA(wr.Collect("x"), pages, **sizes, commit=model.committed)
                model.reset()
                model.committed = model.window.commits
            else:
                model.do(step, count)
            model.check()
        except StoreError:
            return


def test_leftovers_of_a_crash_are_not_taken_for_nodes() -> None:
    """Between commits nodes are written; a process that dies leaves them, and the next may insert other rows."""
    pages, sizes = MemoryPages(), {"batch": 4, "low_water": 1, "compiled": False}
    window = StoredAMTA(wr.Max(), pages, **sizes)
    window.insert((0.0,))
    window.commit()
    for _ in range(100):
        window.insert((100.0,))
    left = dict(pages.held)
    window = StoredAMTA(wr.Max(), pages, **sizes)
    assert len(window) == 1
    for _ in range(100):
        window.insert((5.0,))
    fresh = dict(pages.held)
    window.evict(30)
    assert window.query() == (5.0,)
    pages.held.update(
        (name, page) for name, page in left.items() if fresh[name] != page and name[-1].isdigit()
    )
    with pytest.raises(StoreError, match=r"page 'amta/\d\.\d+' is stale"):
        for _ in range(60):
            window.evict()
    assert window.query() == (5.0,), "a call that fails has changed nothing"


def test_a_lost_page_and_a_damaged_one_are_named() -> None:
    for damage, told in (
        (None, "is missing"),
        (b"short", "is stale"),
        (b"", "is stale"),
        ("flip", "is damaged"),
    ):
        pages = MemoryPages()
        window = StoredAMTA(wr.Max(), pages, batch=4, low_water=1, compiled=False)
        for number in range(200):
            window.insert((float(number),))
        window.commit()
        for name in [name for name in pages.held if name.startswith("amta/0.")]:
            page = pages.held.pop(name)
            if damage is not None:
                pages.held[name] = page[:-1] + bytes([page[-1] ^ 1]) if damage == "flip" else damage  # type: ignore[assignment]
        with pytest.raises(StoreError, match=f"amta/0.*{told}"):
            window.evict(100)


def test_a_header_is_checked() -> None:
    pages = MemoryPages()
    window = StoredAMTA(wr.Max(), pages, compiled=False)
    window.insert((1.0,))
    assert window.commit() == 1
    stale = dict(pages.held)
    assert window.commit() == 2
    with pytest.raises(FingerprintMismatch, match=r"'amta' in the store aggregates Max\(\) .*, not Collect"):
        StoredAMTA(wr.Collect("x"), pages)
    assert len(StoredAMTA(wr.Collect("x"), pages, "another")) == 0
    pages.held = stale
    with pytest.raises(StoreError, match="has commit 1 of the window 'amta', not 2"):
        StoredAMTA(wr.Max(), pages, commit=2)
    pages.held["amta/header"] = stale["amta/header"][:-1]
    with pytest.raises(CorruptSnapshot):
        StoredAMTA(wr.Max(), pages, compiled=False)


def test_bad_arguments_are_refused() -> None:
    for sizes in ({"low_water": 0}, {"low_water": 600}, {"batch": 2}, {"batch": 100}):
        with pytest.raises(WindowError, match="low_water ≤ batch"):
            StoredAMTA(wr.Max(), MemoryPages(), **sizes)
    window = StoredAMTA(wr.Max(), MemoryPages(), compiled=False)
    with pytest.raises(WindowError, match="holds 0 partials and cannot evict 1"):
        window.evict()


# How much is local, and how often the store is asked: sizes as in the paper.

N = 1 << 14
LOCAL = 8 * (4 * 512 * (int(log2(N)) + 5) + 100)
"""Bytes: four batches of each level, and a few levels more than there are."""


def filled(pages: Counted, n: int = N) -> StoredAMTA:
    window = StoredAMTA(wr.Max(), pages)
    for number in range(n):
        window.insert((float(number * 7919 % n),))
    return window


def test_local_partials_and_requests_while_a_window_slides() -> None:
    pages = Counted()
    window = filled(pages)
    assert pages.gets == 1, "inserting reads nothing"
    assert pages.written <= 2 * N / 512 and pages.commits <= N / 512
    pages.gets = pages.read = pages.commits = pages.written = pages.deleted = 0
    for number in range(N, 2 * N):
        window.insert((float(number),))
        window.evict()
        if number % 4096 == 0:
            window.commit()
    assert window.query() == (float(2 * N - 1),)
    assert window.nbytes <= LOCAL
    assert pages.gets <= 2 * N / 512 and pages.read <= 2 * N / 512 + log2(N)
    assert pages.commits <= N / 512 + 4 and pages.written <= 2 * N / 512 + 4 * 3 * log2(N)
    window.commit()
    window.sweep()
    assert len(pages.held) <= 2 * N / 512 + 3 * log2(N), "what is evicted is deleted"


def test_a_bulk_eviction_reads_two_batches_a_level_and_a_search_reads_a_path() -> None:
    pages = Counted()
    window = filled(pages)
    window.commit()
    for gone in (N // 3, N // 3):
        pages.gets = pages.most_read = 0
        window.evict(gone)
        assert pages.gets == 1 and pages.most_read <= 2 * log2(N)
    head = window.evicted
    assert window.query() == (max(float(number * 7919 % N) for number in range(head, N)),)
    window.commit()
    window.sweep()
    assert len(pages.held) <= 2 * (N / 3) / 512 + 3 * log2(N)
    recovered = StoredAMTA(wr.Max(), pages)
    assert (len(recovered), recovered.query()) == (len(window), window.query())
    pages.gets = pages.read = 0
    calls = [0]

    def older_than_the_peak(candidate: tuple[float], after: tuple[float], before: tuple[float]) -> bool:
        calls[0] += 1
        return candidate[0] < after[0]

    gone = recovered.enforce(evict=older_than_the_peak)
    values = [float(number * 7919 % N) for number in range(head, N)]
    assert gone == values.index(max(values))
    assert calls[0] <= 3 * log2(N) and pages.gets <= log2(N) + 3
    recovered.evict(len(recovered))
    recovered.commit()
    recovered.sweep()
    assert len(pages.held) <= 3 * log2(N)


def test_commits_are_small_and_a_recovery_reads_little() -> None:
    pages = Counted()
    window = filled(pages)
    window.commit()
    window.insert((1.0,))
    pages.written = 0
    window.commit()
    assert pages.written <= 2 + log2(N)
    assert len(pages.held["amta/header"]) <= 8192
    pages.gets = pages.read = 0
    again = StoredAMTA(wr.Max(), pages)
    again.insert((1.0,))
    assert again.query() == (float(N - 1),)
    assert pages.gets <= 4 and pages.read <= 5 * log2(N)


def test_reading_ahead_leaves_nothing_to_wait_for() -> None:
    pages = Prefetching()
    window = filled(pages)
    pages.waits = 0
    for number in range(N, 2 * N):
        window.insert((float(number),))
        window.evict()
    assert pages.waits == 0
    assert window.query() == (float(2 * N - 1),)


def test_a_small_window_never_touches_the_store() -> None:
    pages = Counted()
    window = filled(pages, 100)
    for number in range(4000):
        window.insert((float(number),))
        window.evict()
    assert (pages.gets, pages.commits) == (1, 0)


def test_compiled_over_a_column_as_one_by_one() -> None:
    values = np.random.default_rng(3).integers(0, 1000, 9000).astype(np.float64)
    out = ColumnOutput(np.zeros(9000), np.zeros(9000, dtype=np.bool_))
    window = StoredAMTA(wr.Max(), MemoryPages(), batch=64, low_water=32)
    window.slide((values,), 3000, out)
    assert not out.ok[:2999].any() and out.ok[2999:].all()
    assert np.array_equal(out.values[2999:], wr.sliding(values, wr.Max(), 3000))
    assert (len(window), window.inserted) == (3000, 9000)


@pytest.mark.parametrize("aggregate", [wr.Sum(), wr.Max()], ids=lambda a: type(a).__name__)
def test_a_column_in_parts_has_the_bits_of_single_operations(aggregate: Any) -> None:
    """In runs, row by row, across commits and in other processes: the results and the window are those of AMTA."""
    dice, rows, size = np.random.default_rng(7), 6000, 700
    values = dice.random(rows) * 10.0 ** dice.integers(-8, 9, rows)
    monoid, pages = aggregate.bind_dense(), MemoryPages()
    memory = AMTA(monoid, capacity=size + 1)
    sizes = {"batch": 64, "low_water": 16}
    window, row = StoredAMTA(monoid, pages, **sizes), 0
    while row < rows:
        part = values[row : row + int(dice.choice([1, 7, 100, 900]))]
        out = ColumnOutput(np.zeros(len(part)), np.zeros(len(part), dtype=np.bool_))
        window.slide((part,), size, out)
        for i, value in enumerate(part.tolist()):
            if row + i >= size:
                memory.evict()
            memory.insert(monoid.lift(value))
            assert out.ok[i] == (row + i >= size - 1)
            assert not out.ok[i] or out.values[i] == monoid.result(memory.query())
        row += len(part)
        if row > 3000 and dice.random() < 0.3:
            gone = int(dice.integers(1, 3))
            for one in (window, memory):
                one.evict(gone)
                for value in part[:gone].tolist() + [1.0] * (gone - len(part)):
                    one.insert(monoid.lift(value))
        assert window.query() == memory.query()
        if dice.random() < 0.3:
            window.commit()
            window = StoredAMTA(monoid, pages, **sizes)
            assert (len(window), window.query()) == (len(memory), memory.query())


def test_a_window_that_is_shorter_than_its_batches() -> None:
    values = np.random.default_rng(4).random(9000)
    out = ColumnOutput(np.zeros(9000), np.zeros(9000, dtype=np.bool_))
    window = StoredAMTA(wr.Max(), MemoryPages(), batch=1024)
    window.slide((values,), 100, out)
    assert np.array_equal(out.values[99:], wr.sliding(values, wr.Max(), 100))


def test_leaves_are_stored_and_what_follows_from_them_is_not() -> None:
    pages = Counted()
    window = filled(pages)
    window.commit()
    levels = {int(name.split("/")[1].split(".")[0]) for name in pages.held if name != "amta/header"}
    assert levels == {0, 9, 10, 11, 12, 13}
    assert sum(map(len, pages.held.values())) <= 8.5 * N


GOLDEN = Path(__file__).parent / "golden" / "stored-amta-v1.bin"


@pytest.mark.parametrize(
    ("name", "aggregate", "batch", "inserted", "evicted"),
    [
        ("max", wr.Max(), 8, 700, 300),
        ("sum", wr.Sum(), 8, 601, 123),
        ("young", wr.Sum(), 8, 20, 3),
        ("rows", wr.Collect("x"), 4, 100, 50),
    ],
)
def test_a_store_of_the_first_version_is_still_read(
    name: str, aggregate: Any, batch: int, inserted: int, evicted: int
) -> None:
    """It has all levels. Some nodes were made after the last commit, and were lost in a crash."""
    pages, sizes = MemoryPages(), {"batch": batch, "low_water": batch // 2, "compiled": False}
    pages.held.update(decode_value(zlib.decompress(GOLDEN.read_bytes())))
    assert any(page.startswith(f"{name}/1.") for page in pages.held)
    window, memory = StoredAMTA(aggregate, pages, name, **sizes), AMTA(aggregate, compiled=False)
    rows = [n * 7919 % 1009 / 10 for n in range(inserted)]
    lift = (lambda x: (x,)) if name == "rows" else memory.monoid.lift
    for n, x in enumerate(rows):
        memory.insert(lift(x))
        if n >= inserted - evicted:
            memory.evict()
    assert (len(window), window.inserted, window.evicted) == (inserted - evicted, inserted, evicted)
    for n in range(3 * inserted):
        assert window.query() == memory.query()
        if n in (5, inserted // 2, 2 * inserted):
            window.commit()
            window = StoredAMTA(aggregate, pages, name, **sizes)
        if n == inserted // 3:
            begin = window.evicted
            assert window.range_query(begin + 3, begin + 90) == memory.range_query(begin + 3, begin + 90)
        for one in (window, memory):
            one.insert(lift(rows[n % inserted]))
            one.evict(1 if n % 50 else min(len(one) - 1, 3))
    window.commit()
    window.sweep()
    assert not [page for page in pages.held if page.startswith(f"{name}/1.")], "older pages are deleted"
