"""Pages in segments: few values, no more space than they need, an older layout goes on, damage is found out."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping

import pytest

from windrow import errors
from windrow.storage import segments
from windrow.storage.pages import HEADER, MemoryPages
from windrow.storage.segments import Segments, header_in


class Counting(MemoryPages):
    """Counts what is asked for and what is written."""

    calls = written = 0

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        names = list(names)
        self.calls += len(names)
        return super().get(names)

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        delete = list(delete)
        self.calls += len(put) + len(delete)
        self.written += sum(map(len, put.values()))
        super().commit(put, delete)


def slid(pages: Segments, keys: int, pages_each: int, commits: int, slow: int = 0) -> dict[str, bytes]:
    """Windows that slide over keys with a page each commit. Keys before ``slow`` keep theirs. What is there at the end."""
    held: dict[str, bytes] = {}
    for number in range(commits):
        new = {f"{key}.1.{number}": random.randbytes(500) for key in range(keys)}
        leaves = {f"leaf.{leaf}": random.randbytes(2000) for leaf in range(keys // 32 + 1)}
        gone = [f"{key}.1.{number - pages_each}" for key in range(slow, keys) if number >= pages_each]
        pages.commit({HEADER: b"%d" % number, **leaves, **new}, gone)
        held |= {HEADER: b"%d" % number, **leaves, **new}
        for name in gone:
            del held[name]
    return held


def test_a_commit_is_few_calls() -> None:
    """1000 pages a commit, each read by nobody and deleted ten commits later: a handful of values."""
    store = Counting()
    held = slid(Segments(store), keys=1000, pages_each=10, commits=40)
    assert store.calls < 40 * 10
    assert Segments(store).get(held) == held


def test_the_header_is_read_without_the_directory() -> None:
    """A directory of several blocks lies in the store, and who has only the header's value can read the header."""
    store = MemoryPages()
    held = slid(Segments(store), keys=1000, pages_each=10, commits=40)
    assert any(name.startswith("block.") for name in store.held)
    assert header_in(store.held[HEADER]) == held[HEADER]
    assert header_in(b"a header that is not in segments") == b"a header that is not in segments"


def test_pages_that_stay_do_not_keep_those_that_go() -> None:
    """Two keys of a thousand keep their pages. The store does not keep what lay beside them."""
    store = Counting()
    held = slid(Segments(store), keys=1000, pages_each=2, commits=60, slow=2)
    size = sum(map(len, store.held.values()))
    assert size < 3 * sum(map(len, held.values()))
    assert store.written < 3 * 60 * 1000 * 500
    assert Segments(store).get(held) == held


def test_leaves_that_do_not_change_are_not_written_again() -> None:
    store = Counting()
    pages = Segments(store)
    leaves = {f"leaf.{number}": random.randbytes(20_000) for number in range(100)}
    pages.commit({HEADER: b"h", **leaves}, [])
    store.written = 0
    for number in range(50):
        leaves[f"leaf.{number}"] = random.randbytes(20_000)
        pages.commit({HEADER: b"h", f"leaf.{number}": leaves[f"leaf.{number}"]}, [])
    assert store.written < 3 * 2_000_000 + 50 * 150_000
    assert Segments(store).get(leaves) == leaves
    assert sum(map(len, store.held.values())) < 9 * 2_000_000


def test_a_store_with_pages_one_by_one_goes_on() -> None:
    store = MemoryPages()
    store.commit({HEADER: b"\1h", "leaf.0": b"l", "0.1.0": b"p", "0.1.1": b"q"}, [])
    pages = Segments(store)
    assert pages.get([HEADER, "leaf.0", "0.1.1", "0.1.2"]) == {HEADER: b"\1h", "leaf.0": b"l", "0.1.1": b"q"}
    pages.commit({HEADER: b"\1i", "leaf.0": b"m", "0.1.2": b"r"}, ["0.1.0"])
    pages = Segments(store)
    assert pages.get([HEADER, "leaf.0", "0.1.0", "0.1.1", "0.1.2"]) == {
        HEADER: b"\1i",
        "leaf.0": b"m",
        "0.1.1": b"q",
        "0.1.2": b"r",
    }
    assert set(store.held) == {HEADER, "0.1.1", "segment.0"}


@pytest.mark.parametrize("name", [HEADER, "segment.0", "block.0"])
def test_damage_is_found_out(name: str) -> None:
    whole = MemoryPages()
    held = slid(Segments(whole), keys=40, pages_each=30, commits=20)
    for change in range(60):
        store, damaged = MemoryPages(), bytearray(whole.held[name])
        place = change * len(damaged) // 60
        damaged[place] ^= 1 + change
        store.held = {**whole.held, name: bytes(damaged[: -1 if change == 59 else None])}
        try:
            found = Segments(store).get(held)
        except (errors.StoreError, errors.SnapshotError):
            continue
        # Pages have checksums of their own: what is wrong inside one is found where it is read.
        assert name == "segment.0" and sum(found[each] != held[each] for each in held) <= 1
    store.held = {key: value for key, value in whole.held.items() if key != name}
    if name != HEADER:
        with pytest.raises(errors.StoreError, match=name):
            Segments(store).get(held)


def test_a_later_version_is_refused() -> None:
    store = MemoryPages()
    store.commit({HEADER: segments.MAGIC + b"\2" + bytes(40)}, [])
    with pytest.raises(errors.FormatTooNew, match="version 2"):
        Segments(store).get([HEADER])
