"""Every algorithm gives what folding the window gives, whatever is inserted, evicted and asked for."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windrow as wr
from windrow.aggregates.algebra import Field, Monoid
from windrow.algorithms import REGISTRY, Algorithm
from windrow.algorithms.chunk import chunk_size_count, chunk_size_time, measure_tu
from windrow.algorithms.fiba import FiBA
from windrow.algorithms.finger_tree import ARITY, HEIGHT, LEFT, LEVEL, PARENT
from windrow.algorithms.pba import PBA
from windrow.algorithms.sba import SBA
from windrow.algorithms.slick_deque import SlickDeque
from windrow.algorithms.slide_side import SlideSide
from windrow.algorithms.tree import Tree
from windrow.errors import AggregateError, CompileWarning, PropertyError, WindowError
from windrow.kernels.columns.layout import ColumnOutput, Input

INT64 = (pa.int64(),)
EVERY = sorted(REGISTRY)
TREES = sorted(name for name, kind in REGISTRY.items() if issubclass(kind, Tree))


def later(a: Any, b: Any) -> Any:
    return b if b[1] > 0 else a


def joined(a: Any, b: Any) -> Any:
    return a + b


def hashed(a: Any, b: Any) -> Any:
    """Of words, and the power of the base that their length is: not commutative."""
    return (a[0] * b[1] + b[0]) % 1_000_003, a[1] * b[1] % 1_000_003


CONCAT = Monoid("concat", None, "", str, joined, str, pa.string(), (pa.string(),), commutative=False)
LISTS = Monoid(
    "lists", None, (), lambda x: (x,), joined, list, pa.list_(pa.int64()), INT64, commutative=False
)
LAST = Monoid(
    "last",
    (Field("value", np.dtype("f8")), Field("n", np.dtype("i8"))),
    (0.0, 0),
    lambda x: (x, 1),
    later,
    lambda p: p[0],
    pa.float64(),
    (pa.float64(),),
    commutative=False,
    selective=True,
)
HASH = Monoid(
    "hash",
    (Field("hash", np.dtype("i8")), Field("power", np.dtype("i8"))),
    (0, 1),
    lambda x: (x, 31),
    hashed,
    lambda p: p[0],
    pa.int64(),
    INT64,
    commutative=False,
)
MAX = wr.Max().dense((pa.float64(),))
SUM = wr.Sum().dense(INT64)
LIFTS: dict[str, tuple[Monoid, Callable[[int], Any]]] = {
    "max": (MAX, lambda x: (float("nan") if x == 13 else float(x % 10),)),
    "sum": (SUM, lambda x: tuple(SUM.lift(x - 8))),
    "concat": (CONCAT, lambda x: chr(97 + x)),
    "lists": (LISTS, lambda x: (x,)),
    "hash": (HASH, lambda x: (x, 31)),
    "last": (LAST, lambda x: (float(x), 1)),
}


def made(name: str, monoid: Monoid, **options: Any) -> Algorithm:
    if name == "PBA":
        options.setdefault("small_chunk", 0)
    return REGISTRY[name](monoid, **{"compiled": False, **options})


def accepted(name: str, monoid: Monoid) -> bool:
    try:
        REGISTRY[name].check(monoid)
    except PropertyError:
        return False
    return True


def folded(monoid: Monoid, partials: list[Any]) -> Any:
    total = monoid.identity
    for partial in partials:
        total = monoid.combine(total, partial)
    return total


def same(a: Any, b: Any) -> bool:
    if not isinstance(a, tuple):
        return bool(a == b)
    return len(a) == len(b) and all(x == y or (x != x and y != y) for x, y in zip(a, b, strict=True))


def follow(
    window: Algorithm, monoid: Monoid, lift: Callable[[int], Any], steps: list[tuple[str, int]]
) -> None:
    """Do the steps to the window and to a plain list, and compare after each."""
    held: list[Any] = []
    for what, n in steps:
        if what == "insert":
            held.append(lift(n))
            window.insert(held[-1])
        elif what == "evict":
            n = min(n, len(held))
            window.evict(n)
            del held[:n]
        else:
            assert same(window.query(), folded(monoid, held))
        assert len(window) == len(held)
    assert same(window.query(), folded(monoid, held))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(0, 15)),
        st.tuples(st.just("insert"), st.integers(0, 15)),
        st.tuples(st.just("evict"), st.sampled_from([1, 1, 1, 2, 5, 20])),
        st.tuples(st.just("query"), st.just(0)),
    ),
    max_size=120,
)


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=150, deadline=None)
@given(steps=STEPS, which=st.sampled_from(sorted(LIFTS)), capacity=st.sampled_from([1, 4, 64]))
def test_any_steps(name: str, steps: list[tuple[str, int]], which: str, capacity: int) -> None:
    monoid, lift = LIFTS[which]
    if accepted(name, monoid):
        follow(made(name, monoid, capacity=capacity), monoid, lift, steps)


def wandering(seed: int, count: int) -> list[tuple[str, int]]:
    """Steps of windows that grow to some size, slide, and shrink."""
    dice = random.Random(seed)
    steps: list[tuple[str, int]] = []
    held = 0
    while len(steps) < count:
        goal = dice.choice([1, 2, 3, 7, 30, 100])
        for _ in range(dice.randrange(150)):
            if held <= goal:
                steps.append(("insert", dice.randrange(16)))
                held += 1
            if held > goal:
                n = held - goal if dice.random() < 0.1 else 1
                steps.append(("evict", n))
                held -= n
            steps.append(("query", 0))
    return steps


@pytest.mark.parametrize("name", EVERY)
def test_sizes_that_change(name: str) -> None:
    monoid, lift = LIFTS["concat"] if accepted(name, CONCAT) else LIFTS["sum"]
    for seed in range(3):
        follow(made(name, monoid, capacity=1), monoid, lift, wandering(seed, 600))


@pytest.mark.parametrize("name", ["DABALite", "PBA", "AMTA"])
def test_compiled(name: str) -> None:
    monoid, lift = LIFTS["hash"]
    follow(made(name, monoid, compiled=True, capacity=1), monoid, lift, wandering(9, 600))


@pytest.mark.parametrize("name", ["SBA", "PBA"])
def test_any_chunk_size(name: str) -> None:
    monoid, lift = LIFTS["concat"]
    for chunk in (1, 2, 3, 10, 50, 1000):
        follow(made(name, monoid, chunk=chunk), monoid, lift, wandering(chunk, 300))


# Whole columns.


@pytest.mark.parametrize("name", EVERY)
def test_columns(name: str) -> None:
    monoid = SUM if accepted(name, SUM) else MAX
    values = np.random.default_rng(5).integers(-50, 50, 60)
    columns = (values if monoid is SUM else values.astype(np.float64),)
    valid = np.arange(60) % 7 != 3
    for rows, slide in ((8, 1), (8, 8), (10, 3), (3, 5), (1, 1), (60, 1), (13, 4), (7, 6), (1, 9)):
        for mask in (None, valid):
            count = (60 - rows) // slide + 1
            out, ok = np.zeros(count, dtype=columns[0].dtype), np.zeros(count, dtype=np.bool_)
            REGISTRY[name].sliding(monoid, columns, rows, slide, out, ok, mask, compiled=False)
            for w in range(count):
                extent = [v for i, v in enumerate(columns[0]) if w * slide <= i < w * slide + rows]
                kept = [v for i, v in enumerate(extent, w * slide) if mask is None or mask[i]]
                want = monoid.lower(folded(monoid, [monoid.lift(v) for v in kept]))
                assert ok[w]
                assert out[w] == want, (rows, slide, w)


@pytest.mark.parametrize("name", ["PBA", "TwoStacksLite"])
def test_columns_of_objects(name: str) -> None:
    letters = np.array(list("sliding windows are folds"), dtype=object)
    for rows, slide in ((4, 1), (7, 2), (2, 3)):
        count = (len(letters) - rows) // slide + 1
        out, ok = np.empty(count, dtype=object), np.zeros(count, dtype=np.bool_)
        REGISTRY[name].sliding(CONCAT, (letters,), rows, slide, out, ok)
        assert list(out) == ["".join(letters[w * slide : w * slide + rows]) for w in range(count)]


def test_compiled_columns_hand_chunks_to_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windrow.algorithms.pba.SMALL_CHUNK", 0)
    values = np.random.default_rng(6).normal(size=5_000)
    for rows, slide in ((1000, 1), (10, 3), (1, 1)):
        want = np.lib.stride_tricks.sliding_window_view(values, rows)[::slide].max(axis=1)
        out, ok = np.zeros(len(want)), np.zeros(len(want), dtype=np.bool_)
        PBA.sliding(MAX, (values,), rows, slide, out, ok)
        assert np.array_equal(out, want)


def test_columns_in_several_threads_each_with_its_worker() -> None:
    values = np.random.default_rng(7).normal(size=40_000)
    want = np.lib.stride_tricks.sliding_window_view(values, 2_000).max(axis=1)

    def found(_: int) -> bool:
        out, ok = np.zeros(len(want)), np.zeros(len(want), dtype=np.bool_)
        PBA.sliding(MAX, (values,), 2_000, 1, out, ok)
        return np.array_equal(out, want)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(found, range(40)))


def test_a_combine_that_raises_in_the_worker_raises_here() -> None:
    def checked(a: Any, b: Any) -> Any:
        if a[0] == 3_000 and b[0] > 3_000:  # to its right there is a sum already: only lcs combines so
            raise ValueError("not with 3000")
        return (a[0] + b[0],)

    fields = (Field("sum", np.dtype("i8")),)
    monoid = Monoid("checked", fields, (0,), lambda x: (x,), checked, lambda p: p[0], pa.int64(), INT64)
    values = np.arange(20_000)
    out, ok = np.zeros(18_001, dtype=np.int64), np.zeros(18_001, dtype=np.bool_)
    with pytest.raises(ValueError, match="not with 3000"):
        PBA.sliding(monoid, (values,), 2_000, 1, out, ok)


def test_what_does_not_compile_runs_interpreted_after_a_warning() -> None:
    def spelled(a: Any, b: Any) -> Any:
        return (int("".join(sorted(f"{int(a[0])}{int(b[0])}", key=str))[-1]),)

    fields = (Field("digit", np.dtype("i8")),)
    digits = Monoid("digits", fields, (0,), lambda x: (x,), spelled, lambda p: p[0], pa.int64(), INT64)
    values = np.array([3, 1, 4, 1, 5, 9, 2, 6])
    out, ok = np.zeros(6, dtype=np.int64), np.zeros(6, dtype=np.bool_)
    with pytest.warns(CompileWarning, match="digits does not compile"):
        REGISTRY["TwoStacksLite"].sliding(digits, (values,), 3, 1, out, ok)
    assert out.tolist() == [4, 4, 5, 9, 9, 9]
    window = REGISTRY["TwoStacksLite"](digits)
    with pytest.warns(CompileWarning, match="digits does not compile"):
        for value in values:
            window.insert((value,))
        assert window.query() == (9,)


# Beyond FIFO.


def by_time(held: dict[int, str], lo: int, hi: int) -> str:
    return "".join(held[t] for t in sorted(held) if lo <= t < hi)


@pytest.mark.parametrize("name", [*TREES, "FiBA"])
@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.integers(0, 60)), max_size=80),
    capacity=st.sampled_from([1, 16]),
)
def test_times(name: str, steps: list[tuple[int, int, int]], capacity: int) -> None:
    window: Any = made(name, CONCAT, capacity=capacity)
    held: dict[int, str] = {}
    for what, a, b in steps:
        if what < 6:
            window.insert_at(a, chr(97 + b % 26))
            held[a] = held.get(a, "") + chr(97 + b % 26)
        elif what == 6:
            window.insert("*")
            held[max(held, default=-1) + 1] = "*"
        elif what == 7:
            n = min(b % 5, len(held))
            window.evict(n)
            for t in sorted(held)[:n]:
                del held[t]
        else:
            assert window.range_query(a, b) == by_time(held, a, b)
        assert len(window) == len(held)
        assert window.query() == by_time(held, 0, 1 << 60)


@pytest.mark.parametrize("mu", [2, 4])
def test_fiba_in_bulk(mu: int) -> None:
    for seed in range(40):
        dice = random.Random(seed)
        window = FiBA(CONCAT, capacity=1, compiled=False, mu=mu)
        held: dict[int, str] = {}
        for _ in range(60):
            what = dice.random()
            if what < 0.4:
                times = [dice.randrange(300) for _ in range(dice.choice([0, 1, 5, 60]))]
                window.bulk_insert(times, [chr(97 + t % 26) for t in times])
                for t in times:
                    held[t] = held.get(t, "") + chr(97 + t % 26)
            elif what < 0.6:
                bound = min(held, default=0) + dice.choice([0, 1, 30, 400])
                assert window.evict_before(bound) == sum(t < bound for t in held)
                held = {t: v for t, v in held.items() if t >= bound}
            elif what < 0.8 and held:
                n = dice.randrange(1, len(held) + 1)
                window.evict(n)
                held = {t: held[t] for t in sorted(held)[n:]}
            else:
                lo, hi = dice.randrange(300), dice.randrange(300)
                assert window.range_query(lo, hi) == by_time(held, lo, hi)
            assert len(window) == len(held)
            assert window.query() == by_time(held, 0, 1 << 60)
            check_arities(window)


def check_arities(window: FiBA) -> None:
    """Every node but the root has mu to 2·mu entries, and knows its parent."""
    meta, (node, spine, _, child), *_ = window._state
    nodes = [spine[LEFT, meta[HEIGHT]]]
    for level in range(int(meta[HEIGHT]), -1, -1):
        below = []
        for here in nodes:
            least = window.mu if level < meta[HEIGHT] else min(2 * level, 2)
            assert node[here, LEVEL] == level
            assert least <= node[here, ARITY] <= 2 * window.mu
            if level > 0:
                children = child[here, : node[here, ARITY]].tolist()
                assert (node[children, PARENT] == here).all()
                below += children
        nodes = below


def enforced(partials: list[int], limit: int, spare: bool) -> int:
    """How many leave, one at a time: until the sum is within the limit, then while what has left is small."""
    gone = 0
    while gone < len(partials) - 1 and sum(partials[gone:]) > limit:
        gone += 1
    while spare and gone < len(partials) - 1 and sum(partials[: gone + 1]) <= sum(partials) // 4:
        gone += 1
    return gone


@pytest.mark.parametrize("name", TREES)
def test_window_slide_policies(name: str) -> None:
    total = Monoid("total", None, 0, int, joined, int, pa.int64(), INT64)
    dice = random.Random(8)
    for spare in (False, True):
        window: Any = made(name, total)
        held: list[int] = []
        for _ in range(300):
            limit = dice.choice([5, 40, 400])
            calls = 0

            def valid(rest: int, limit: int = limit) -> bool:
                nonlocal calls
                calls += 1
                return rest <= limit

            def evict(candidate: int, after: int, before: int) -> bool:
                nonlocal calls
                calls += 1
                assert candidate + after == before
                return candidate <= before // 4

            for _ in range(dice.choice([1, 1, 1, 30])):
                held.append(dice.randrange(10))
                window.insert(held[-1])
            gone = window.enforce(valid, evict if spare else None)
            assert gone == enforced(held, limit, spare)
            assert calls <= 4 * max(len(held), 2).bit_length() + 2
            del held[:gone]
            assert window.query() == sum(held)
    with pytest.raises(WindowError, match="invariant"):
        window.enforce()


def test_slide_side_answers_shorter_ranges() -> None:
    window = SlideSide(CONCAT, compiled=False)
    for text in "abcdefg":
        window.insert(text)
    window.evict(2)
    for text in "hij":
        window.insert(text)
    assert [window.query(last=n) for n in (0, 2, 3, 6, 8)] == ["", "ij", "hij", "efghij", "cdefghij"]
    with pytest.raises(WindowError, match="newest 9"):
        window.query(last=9)


def test_slick_deque_keeps_only_what_can_still_win() -> None:
    window = SlickDeque(MAX, compiled=False)
    for x in range(50):
        window.insert((float(x),))
    assert window.partials == 2  # the winner, and room for one comparison
    for value in (float("nan"), 3.0, float("nan"), 4.0):
        window.insert((value,))
    window.evict(50)
    assert np.isnan(window.query()[0])
    window.evict(3)
    assert window.query() == (4.0,)


# What is refused.


@pytest.mark.parametrize("name", EVERY)
def test_nothing_is_evicted_twice(name: str) -> None:
    monoid, lift = LIFTS["sum"] if accepted(name, SUM) else LIFTS["max"]
    window = made(name, monoid)
    window.insert(lift(1))
    with pytest.raises(WindowError, match=f"{name} holds 1 partials and cannot evict 2"):
        window.evict(2)
    with pytest.raises(WindowError):
        window.evict(-1)
    window.evict()
    window.evict(0)
    assert window.query() == monoid.identity
    with pytest.raises(WindowError):
        window.evict()


def test_properties_are_required() -> None:
    for name, monoid, words in [
        ("SubtractOnEvict", MAX, "SubtractOnEvict needs an aggregate that is invertible, and Max"),
        ("SubtractOnEvict", CONCAT, "SubtractOnEvict needs an aggregate that is commutative, and concat"),
        ("SlickDeque", CONCAT, "SlickDeque needs an aggregate that is selective, or invertible"),
    ]:
        with pytest.raises(PropertyError, match=words):
            REGISTRY[name](monoid)
    for name in EVERY:
        assert REGISTRY[name].requires <= {"commutative", "invertible", "selective"}


def test_an_aggregate_is_taken_without_its_null_count() -> None:
    window = SlickDeque(wr.Max("load"), compiled=False)
    window.insert((3.0,))
    assert window.query() == (3.0,)


def test_what_is_not_a_partial() -> None:
    for wrong in (3.0, (1.0, 2.0), ("x",)):
        with pytest.raises(AggregateError, match=r"Max.*is not a partial"):
            REGISTRY["TwoStacks"](MAX, compiled=False).insert(wrong)
    with pytest.raises(WindowError, match="mu"):
        FiBA(MAX, mu=1)
    with pytest.raises(WindowError, match="2 times for 1 partials"):
        FiBA(MAX, compiled=False).bulk_insert([1, 2], [(1.0,)])


# Chunk sizes.


def test_chunk_size_of_count_windows() -> None:
    for n in range(1, 300):
        assert chunk_size_count(n, 1) == (n + 2) // 2
    assert chunk_size_count(2**5) == 17
    for rows in range(1, 80):
        for slide in range(1, rows + 1):
            slices, rest = rows // slide, rows % slide
            size = chunk_size_count(rows, slide)
            if slices <= slide + rest + 1:
                assert size == slices
            else:
                assert size == (slide * (slices + 1) + rest + 1) // (slide + 1)
            assert slices // size == 1  # k of the paper


def test_chunk_size_of_time_windows() -> None:
    assert chunk_size_time(3600, 60, 1e-8) == 60
    assert chunk_size_time(103, 5, 1) == 20  # C = 5 · 3 + 1
    assert chunk_size_time(100, 5, 1) == (20 * 6 + 5 + 2) // 7
    assert chunk_size_time(1003, 5, 1) == (200 * 6 + 5 + 2 + 16) // 7
    for slices in range(2, 200):
        for tu in (0.1, 1.0, 10.0):
            size = chunk_size_time(slices * 3, 3, tu)
            assert slices // size == 1
    for wrong in ((0, 1, 1), (1, 0, 1), (1, 1, 0), (1, -1, 1)):
        with pytest.raises(WindowError):
            chunk_size_time(*wrong)


def test_the_cost_of_a_combine_is_measured_once() -> None:
    assert measure_tu(CONCAT) == measure_tu(CONCAT) > 0


def test_chunks_are_those_of_the_theorem() -> None:
    assert SBA(MAX, range=32, compiled=False).chunk == PBA(MAX, range=32, compiled=False).chunk == 17
    with pytest.raises(WindowError):
        SBA(MAX, range=0)


@pytest.mark.parametrize("aggregate", [wr.Sum(), wr.Max(), wr.Mean()], ids=lambda a: type(a).__name__)
def test_runs_of_amta_are_its_operations(aggregate: Any) -> None:
    """A column in runs gives the bits of insert, evict and query, and leaves the window that they leave."""
    dice = np.random.default_rng(5)
    for size, rows in ((256, 1300), (300, 1201), (1023, 2500), (320, 320), (4100, 9001)):
        values = dice.random(rows) * 10.0 ** dice.integers(-8, 9, rows)
        valid = np.ones(0, dtype=np.bool_) if size != 300 else dice.random(rows) < 0.9
        masked = len(valid) > 0
        monoid = aggregate.bind((pa.float64(),)) if masked else aggregate.dense((pa.float64(),))
        out = ColumnOutput(np.zeros(rows - size + 1), np.zeros(rows - size + 1, dtype=np.bool_))
        whole = REGISTRY["AMTA"].for_range(monoid, size)
        whole.run_over(Input((values,), valid), size, 1, out)
        single = REGISTRY["AMTA"](monoid, capacity=size)

        def lifted(row: int, monoid: Any = monoid, values: Any = values, valid: Any = valid) -> Any:
            present = len(valid) == 0 or valid[row]
            return monoid.lift(values[row]) if present else monoid.identity

        for row in range(rows):
            if row >= size:
                single.evict()
            single.insert(lifted(row))
            if row >= size - 1:
                assert out.ok[row - size + 1]
                assert out.values[row - size + 1] == monoid.result(single.query()), (size, row)
        for row in range(200):
            for window in (whole, single):
                window.evict(1 if row % 7 else 3)
                window.insert(lifted(row))
            assert whole.query() == single.query(), (size, row)
