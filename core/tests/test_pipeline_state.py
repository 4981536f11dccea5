"""Pipelines: state in a store, through kills and damage, and the command on it."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pipeline_graphs import (
    FEW,
    SESSIONS,
    A,
    city,
    diamond,
    made,
    stream_of,
    updates,
)
from pipeline_kills import kill_until_done

import windrow as wr
from windrow.errors import CorruptSnapshot, FormatTooNew, PipelineError, StoreError, StoreTaken, WindrowError
from windrow.pipelines import (
    Change,
    Composite,
    Id,
    Runtime,
    Source,
    Space,
)
from windrow.pipelines.scrub import is_space, scrub_space
from windrow.pipelines.state import StreamState, read_page, write_page
from windrow.storage.codec import compress, decompress
from windrow.storage.pages import MemoryPages


def job(pages: Any, sent: Any, told: Any) -> None:
    """Goes on from the last commit to the end of the stream. A change is on its way in the middle of it."""
    runtime = Runtime(pages, order="event")
    if not runtime.graph.streams:
        runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in city()])
        runtime.commit("0")
    rows, begin = stream_of(300), int(runtime.source_position)
    while begin < len(rows):
        part = rows[begin : begin + 5]
        if begin == 150:
            f = Composite("o/f", inputs={"a": "o/a"}, channels={"v": "a.v - 1"})
            runtime.process(changes=[Change.put(f.to_dict(), by="o", at=Id(part[-1][0] + 3, 0))])
        out = [*runtime.process(part), *runtime.advance(part[-1][0])]
        sent.write("".join(f"{begin} {u.stream} {u.at} {u.values}\n" for u in out))
        sent.flush()
        told(begin)
        begin += len(part)
        runtime.commit(str(begin))


def whole_job(folder: Path) -> None:
    with open(folder / "whole", "w") as whole:
        job(MemoryPages(), whole, lambda begin: None)


def stored_job(folder: Path, told: Any) -> None:
    from windrow.storage.rocksdb import RocksDBPages

    with open(folder / "crashed", "a") as sent:
        job(RocksDBPages(folder / "state", sync=False), sent, told)


def test_killed_anywhere_it_goes_on_from_its_last_commit(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    whole = partial(whole_job, tmp_path)
    kills = kill_until_done(partial(stored_job, tmp_path), 7, whole)
    # What was sent before a commit that did not happen was sent again: the same lines, under the same position.
    lines = (tmp_path / "crashed").read_text().splitlines()
    assert kills >= 20 and list(dict.fromkeys(lines)) == (tmp_path / "whole").read_text().splitlines()


def test_damaged_state_is_refused() -> None:
    pages = MemoryPages()
    space = Space("s", pages)
    space.put(*diamond(), by="o")
    space.push(updates("o/a", *((n, n) for n in range(40))))
    for name in list(pages.held):
        for broken in (pages.held[name][:-1], b"00000000" + pages.held[name][8:], b""):
            damaged = MemoryPages()
            damaged.commit({**pages.held, name: broken}, [])
            with pytest.raises(CorruptSnapshot):
                again = Space("s", damaged)
                for stream in again.runtime.graph.streams:
                    again.history(stream)
    assert Space("s", pages).history("o/x").num_rows == 40


@pytest.mark.parametrize("columns", [1, 1 << 40])
@pytest.mark.parametrize("query", [FEW, SESSIONS])
def test_windows_of_a_later_version_are_refused_and_no_failure_of_their_composite(
    query: wr.Query, columns: int
) -> None:
    pages = MemoryPages()
    runtime = Runtime(pages, order="event")
    window = Composite("o/w", inputs={"a": "o/a"}, query=query)
    runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in (A, window)])
    runtime.process([(1, 0, "o/a", {"v": 1}), (2, 1, "o/a", {"v": 2})])
    runtime.advance(3)
    runtime.commit("1")
    name = next(name for name in pages.held if name.startswith("w/") and name.endswith("/header"))
    image = bytearray(decompress(pages.held[name]))
    image[8] = 99  # the version is the number after the mark
    pages.held[name] = compress(bytes(image))
    with pytest.raises(FormatTooNew):
        again = Runtime(pages, order="event", columns=columns)
        again.process([(4, 2, "o/a", {"v": 4}), (9, 3, "o/a", {"v": 9})])
        again.advance(20)


def test_text_that_cannot_be_written_again_is_refused() -> None:
    with pytest.raises(PipelineError, match="no Unicode text"):
        Change.drop("o/a", by="o\ud800")
    pages = MemoryPages()
    space = Space("s", pages)
    space.put(*diamond(), by="o")
    name = next(name for name in pages.held if name.startswith("g/"))
    entry = read_page(pages.held[name], name)
    entry["change"]["actor"] = "o\ud800"
    pages.held[name] = write_page(json.dumps(entry))
    with pytest.raises(CorruptSnapshot):
        Space("s", pages)


def test_the_command(tmp_path: Path) -> None:
    pytest.importorskip("rocksdict")
    from click.testing import CliRunner

    from windrow.cli import main

    (tmp_path / "a.toml").write_text(
        '[[stream]]\nname = "ann/t"\nchannels = { f = "double" }\nread = ["*"]\n'
    )
    (tmp_path / "b.toml").write_text(
        '[[stream]]\nname = "bob/c"\ninputs = { t = "ann/t" }\nchannels = { c = "(t.f - 32) / 1.8" }\n'
    )
    rows = ['{"stream": "ann/t", "ts": 1, "f": 50}', '{"stream": "ann/t", "ts": 2, "f": 14}']
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")

    def windrow(*words: str, code: int = 0) -> str:
        done = CliRunner().invoke(main, ["pipeline", *words, "--store", str(tmp_path / "store")])
        assert done.exit_code == code, done.output
        return done.output

    assert "there is no folder" in windrow("latest", "ann/t", code=2) and not (tmp_path / "store").exists()
    windrow("put", str(tmp_path / "a.toml"), "--by", "ann")
    assert windrow("diff", str(tmp_path / "a.toml"), str(tmp_path / "b.toml")).split() == [
        "unchanged",
        "ann/t",
        "added",
        "bob/c",
    ]
    windrow("put", str(tmp_path / "b.toml"), "--by", "bob")
    assert windrow("run", "--input", str(tmp_path / "rows.jsonl")).count("\n") == 4
    assert windrow("run", "--input", str(tmp_path / "rows.jsonl")) == ""  # it was read to the end
    assert windrow("latest", "bob/c").strip() == '{"ts": 2, "c": -10.0}'
    assert windrow("history", "bob/c", "--where", "c > 0").count("\n") == 1
    assert windrow("history", "bob/c", "--box", "c", "c", "0", "0", "10", "10").count("\n") == 1
    assert "depend(s) on it" in windrow("drop", "ann/t", "--by", "ann", code=2)
    assert windrow("drop", "bob/c", "--by", "bob", "--at", "9") == "drop bob/c, from 9 on\n"
    windrow("grant", "ann/t", "read", "*", "--by", "ann", "--revoke")
    assert "may not read 'ann/t'" in windrow("latest", "ann/t", "--by", "bob", code=2)
    assert "revoked    ann/t" in windrow("explain", "bob/c") and "×" in windrow("draw")


def test_a_store_that_fails_refuses_no_change() -> None:
    """A change that replaces a stream reads its state. If that fails, the change is applied after the restart."""

    class Unreadable(MemoryPages):
        failing = False

        def get(self, names: Any) -> Any:
            wanted = list(names)
            if self.failing and any(name.startswith("s/") for name in wanted):
                raise StoreError("the store cannot be read")
            return super().get(wanted)

    pages = Unreadable()
    runtime = Runtime(pages)
    double = Composite("o/double", {"a": "o/a"}, {"v": "a.v * 2"})
    thrice = Composite("o/double", {"a": "o/a"}, {"v": "a.v * 3"})
    first = [Change.put(each.to_dict(), by="o") for each in (Source("o/a", {"v": "bigint"}), double)]
    runtime.process(changes=first)
    runtime.process(changes=[Change.put(thrice.to_dict(), by="o", at=Id(10, 0))])
    runtime.process([(5, 0, "o/a", {"v": 1}), (15, 0, "o/a", {"v": 1})])
    runtime.commit()
    pages.failing = True
    with pytest.raises(StoreError):
        Runtime(pages).advance(20)
    pages.failing = False
    again = Runtime(pages)
    emitted = [(update.stream, update.values) for update in again.advance(20)]
    assert emitted == [("o/a", (1,)), ("o/double", (2,)), ("o/a", (1,)), ("o/double", (3,))]
    assert again.reports() == []


def test_a_store_that_loses_its_pages_under_a_space_is_no_store_of_streams_without_updates() -> None:
    pages = MemoryPages()
    first = Runtime(pages, order="event")
    first.process(changes=[Change.put(stream.to_dict(), by="o") for stream in diamond()])
    first.process([(1, 0, "o/a", {"v": 1})])
    first.advance(2)
    first.commit("1")
    running = Runtime(pages, order="event")
    pages.held.clear()  # as a server that restarts without persistence
    with pytest.raises(StoreTaken, match="does not hold its last commit any more"):
        running.process([(3, 0, "o/a", {"v": 1})])
        running.advance(4)


def test_every_page_of_a_space_that_rots_is_found() -> None:
    pages = MemoryPages()
    runtime = Runtime(pages, order="event")
    runtime.process(changes=[Change.put(stream.to_dict(), by="o") for stream in city()])
    runtime.process(stream_of(120))
    runtime.advance(stream_of(120)[60][0])
    runtime.commit("60")
    assert {name[0] for name in pages.held} >= set("sghw")
    assert is_space(pages) and scrub_space(pages).damaged == {}
    for name, page in dict(pages.held).items():
        pages.held[name] = page[:-1] + bytes([page[-1] ^ 1])
        assert name in scrub_space(pages).damaged, name
        pages.held[name] = page
    oldest = min(name for name in pages.held if name.startswith("h/"))
    del pages.held[oldest], pages.held["g/1"]
    assert {"g/1", f"s/{oldest[2:].rpartition('/')[0]}"} <= set(scrub_space(pages).damaged)


def test_a_long_history_is_written_in_linear_time() -> None:
    def seconds(count: int) -> float:
        state = StreamState()
        state.emit_many([(Id(n, 0), (1,)) for n in range(count)], count, "o/a", 1, count)
        began = time.process_time()
        assert len(state.pages("o/a")[0]) == 1 + count // 16
        return time.process_time() - began

    assert seconds(320_000) < 50 * min(seconds(20_000) for _ in range(3))


def test_a_stream_whose_history_ended_keeps_its_latest_update() -> None:
    pages = MemoryPages()
    runtime = Runtime(pages, order="arrival")
    for history, ts in ((5, 1), (0, 2)):
        source = Source("o/a", {"v": "bigint"}, history=history)
        runtime.process(changes=[Change.put(source.to_dict(), by="o")])
        runtime.process([(ts, 0, "o/a", {"v": ts})])
    runtime.commit()
    state = Runtime(pages, order="arrival").state("o/a")
    assert (state.last, state.values) == (Id(2, 0, "o/a"), (2,))


def test_a_run_that_ends_anywhere_goes_on_from_there(tmp_path: Path) -> None:
    """After each commit, and at a line that is wrong and then mended: changes are made once, updates run once."""
    from click.testing import CliRunner

    from windrow.cli import main

    pytest.importorskip("rocksdict")
    put = lambda stream: json.dumps(Change.put(stream.to_dict(), by="o").to_row())  # noqa: E731
    update = lambda ts, v: json.dumps({"stream": "o/a", "ts": ts, "v": v})  # noqa: E731
    lines = [put(A), update(1, 1), update(1, 2), put(Composite("o/f", {"a": "o/a"}, {"v": "a.v + 1"}))]
    lines += [update(1, 3), '{"stream": "o/a"', update(2, 4), json.dumps(Change.drop("o/f", by="o").to_row())]
    lines += [update(3, 5), '{"stream": "o/b", "ts": 4}', update(5, 6)]
    rows = tmp_path / "rows.jsonl"

    def run(code: int) -> list[str]:
        words = ["pipeline", "run", "--input", str(rows), "--store", str(tmp_path / "store")]
        done = CliRunner().invoke(main, words)
        assert done.exit_code == code, done.output
        return [line for line in done.output.splitlines() if line.startswith('{"stream"')]

    found = []
    for wrong, ts in ((5, 1), (9, 4)):
        rows.write_text("\n".join(lines[: wrong + 1]) + "\n")
        found += run(2)
        lines[wrong] = update(ts, 0)
        rows.write_text("\n".join(lines[: wrong + 1]) + "\n")
        found += run(0)
    rows.write_text("\n".join(lines) + "\n")
    found += run(0)
    space = Space("windrow", f"rocksdb:{tmp_path / 'store'}")
    assert space.history("o/a").column("v").to_pylist() == [1, 2, 3, 0, 4, 5, 0, 6]
    assert len(found) == 8 + 3
    assert [row["status"] for row in space.log()] == ["applied"] * 3
    space.close()


COUNTS = wr.Query(window=wr.TimeWindow("10us"), aggregates={"n": wr.Count()})


class Failing(MemoryPages):
    """A store that fails at the call with this number."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def _call(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise StoreError("the store is away for a moment")

    def get(self, names: Any) -> Any:
        self._call()
        return super().get(names)

    def commit(self, put: Any, delete: Any) -> None:
        self._call()
        super().commit(put, delete)


def test_what_a_store_interrupts_has_not_happened() -> None:
    """In a call of a space, at every call of the store: done again, it gives what it had given."""
    streams = [
        A,
        Composite("o/f", {"a": "o/a"}, {"v": "a.v + 1"}),
        Composite("o/w", {"x": "o/f"}, query=COUNTS),
    ]
    steps: list[Any] = [lambda s, each=each: s.put(each, by="o") for each in streams]
    steps += [lambda s, ts=ts: s.push({"stream": "o/a", "ts": ts, "v": ts}) for ts in (1, 2, 13)]
    steps += [
        lambda s: s.put(Composite("o/f", {"a": "o/a"}, {"v": "a.v + 2"}), by="o"),
        lambda s: s.advance(20),
    ]

    def told(failing: int, at: int) -> tuple[Any, bool]:
        """What comes out if the store fails at a call of a step, and whether it had so many calls."""
        pages, found, failed = Failing(0), [], False
        for number, step in enumerate(steps):
            space = Space("s", pages)  # from the store, so that what is needed is read in the step
            pages.left = at if number == failing else 0
            try:
                done = step(space)
            except StoreError:
                failed, done = True, step(space)
            pages.left = 0
            found.append(list(done or ()))
        return (found, space.figures(), space.log()), failed

    expected, _ = told(-1, 0)
    calls = 0
    for step in range(len(steps)):
        at = 1
        while (again := told(step, at))[1]:
            assert again[0] == expected, (step, at)
            at, calls = at + 1, calls + 1
    assert calls > len(steps)


def test_what_is_no_update_or_no_stream_is_refused_and_moves_no_position() -> None:
    pages = MemoryPages()
    space = Space("s", pages)
    space.put(A, by="o")
    wrong = (
        {"stream": "o/a", "v": 1},
        {"stream": ["o/a"], "ts": 1},
        {"stream": "o/a", "ts": 1, "sequence": "x"},
        7,
    )
    for documents in ('{"stream": [5]}', "stream = [1]", [None], 5, "name = 'o/a'"):
        with pytest.raises(WindrowError):
            space.diff(documents)
    for row in (*wrong, {"stream": "o/a", "ts": "yesterday"}, {"stream": "o/b", "ts": 1}):
        with pytest.raises(WindrowError):
            space.push([{"stream": "o/a", "ts": 1, "v": 1}, row], position="2")
    assert Space("s", pages).runtime.source_position == "" and space.latest("o/a") is None


def test_windows_that_were_replaced_after_a_restart_can_be_deleted() -> None:
    """Nobody has read all of their pages, so nobody could delete them then."""
    pages = MemoryPages()
    window = Composite("o/few", {"a": "o/a"}, query=FEW)
    space = Space("s", pages)
    space.put(A, window, Composite("o/w", {"a": "o/a"}, query=COUNTS), by="o")
    space.push(updates("o/a", *((n, n) for n in range(7))))
    assert scrub_space(pages).unneeded == []
    space = Space("s", pages)
    doubled = Composite("o/few", {"a": "o/a"}, {"v": "a.v * 2"}, query=FEW)
    space.put(doubled, by="o")
    space.push(updates("o/a", (7, 7)))
    left = scrub_space(pages).unneeded
    assert left and all(name.startswith("w/0/o/few/") for name in left)
    pages.commit({}, left)
    space = Space("s", pages)
    out = list(space.push(updates("o/a", (8, 8), (9, 9), (10, 10))))
    assert made(out, "o/few") and made(out, "o/w") == [(10, (0, 10, 10))]
    assert scrub_space(pages).unneeded == [] and scrub_space(pages).damaged == {}
