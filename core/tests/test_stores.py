"""One contract for all stores; operators on stores that fail, stall, lie, or whose process is killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unreliable import Failing, Stale, run, uninterrupted

import windrow as wr
from windrow.algorithms.stored_amta.tree import StoredAMTA
from windrow.errors import SnapshotError, StoreError
from windrow.pipelines import Composite, Source, Space
from windrow.storage.pages import MemoryPages, Pages
from windrow.storage.redis import RedisPages
from windrow.storage.rocksdb import RocksDBPages
from windrow.storage.segments import Segments

BATCHES = 40
Reopen = Callable[[], Pages]


# A real Redis server, on a free port of the loopback interface.


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[bytes]]:
    binary, folder = redis_binary(), tmp_path_factory.mktemp("redis")
    for _ in range(5):
        port = free_port()
        options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen([binary, *options], stdout=log, stderr=log)
        if answers(server, port):
            break
    else:
        pytest.fail(f"{binary} does not start:\n{(folder / 'log').read_text()}")
    server.port = port  # type: ignore[attr-defined]
    yield server
    server.terminate()
    server.wait()


def redis_binary() -> str:
    """Where redis-server is. PyPI has no current one for every Python, so Debian's is installed if need be."""
    found = shutil.which("redis-server")
    tried = ""
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["update"], ["install", "-y", "--no-install-recommends", "redis-server"]):
            command = ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *step]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
            tried += f"\n$ {' '.join(command)}\n{(done.stdout + done.stderr)[-1000:]}"
        found = shutil.which("redis-server")
    if found is None:
        pytest.fail(
            "these tests need a Redis server: put redis-server on the PATH (Debian: apt-get install redis-server)"
            + tried
        )
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(server: subprocess.Popen[bytes], port: int) -> bool:
    client = redis.Redis(port=port, host="127.0.0.1", retry=None)
    for _ in range(200):
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            if server.poll() is not None:
                return False
            time.sleep(0.05)
    return False


# The contract.


@pytest.fixture(params=["memory", "segments", "rocksdb", "redis"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reopen]:
    """Opens the same store again and again, letting go of it before."""
    opened: list[RocksDBPages | RedisPages] = []
    memory, prefix = MemoryPages(), uuid.uuid4().hex

    def again() -> Pages:
        for pages in opened:
            pages.close()
        if request.param == "memory":
            return memory
        if request.param == "segments":
            return Segments(memory)
        if request.param == "rocksdb":
            opened.append(RocksDBPages(tmp_path / "state", sync=False))
        else:
            port = request.getfixturevalue("redis_server").port
            opened.append(RedisPages(f"redis://127.0.0.1:{port}/0", prefix))
        return opened[-1]

    yield again
    for pages in opened:
        pages.close()


def test_what_is_committed_is_there_until_it_is_deleted(reopen: Reopen) -> None:
    pages = reopen()
    assert pages.get(["header"]) == {} == pages.get([])
    blobs = {"header": b"\0\xff\r\n", "empty": b"", "3.1.7": os.urandom(1 << 20), "leaf/9": b"9"}
    pages.commit(blobs, delete=[])
    pages.commit({}, delete=[])
    pages.commit({"leaf/9": b"99", "new": b"n"}, delete=iter(["empty", "never there"]))
    expected = {**blobs, "leaf/9": b"99", "new": b"n"}
    del expected["empty"]
    names = [*blobs, "new", "never there", "header"]
    for again in (False, True):
        pages = reopen() if again else pages
        assert pages.get(iter(names)) == expected
        assert all(type(page) is bytes for page in pages.get(names).values())
        assert pages.get(["new"]) == {"new": b"n"}


def test_many_pages_at_once(reopen: Reopen) -> None:
    pages = reopen()
    many = {str(number): str(number).encode() for number in range(5000)}
    pages.commit(many, delete=[])
    assert pages.get(many) == many
    pages.commit({}, delete=many)
    assert reopen().get(many) == {}


NAMES = st.sampled_from(["header", "leaf.0", "leaf.1", "7.1.3"])
COMMITS = st.lists(
    st.tuples(st.dictionaries(NAMES, st.binary(max_size=9)), st.sets(NAMES), st.booleans()), max_size=9
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(COMMITS)
def test_any_commits_are_those_of_a_dict(
    reopen: Reopen, commits: list[tuple[dict[str, bytes], set[str], bool]]
) -> None:
    pages, model = reopen(), MemoryPages()
    names = ["header", "leaf.0", "leaf.1", "7.1.3"]
    pages.commit({}, names)
    for put, delete, again in commits:
        for each in (pages, model):
            each.commit(put, delete - set(put))
        pages = reopen() if again else pages
        assert pages.get(names) == model.get(names)


def test_an_operator_and_a_window_go_on_from_a_store(reopen: Reopen) -> None:
    expected, output = uninterrupted(20), {}
    run(reopen(), 10, output.__setitem__)
    run(reopen(), 20, output.__setitem__)
    assert output == expected
    sizes = {"batch": 16, "low_water": 8, "compiled": False}
    window = StoredAMTA(wr.Max(), reopen(), **sizes)
    for number in range(1, 301):
        if number % 50 == 0:
            window.commit()
            window = StoredAMTA(wr.Max(), reopen(), **sizes, commit=number // 50)
        window.insert((float(number * 7919 % 1000),))
        if number > 100:
            window.evict()
    assert window.query() == (max(float(number * 7919 % 1000) for number in range(201, 301)),)


# Stores that misbehave. The output is right, or there is a StoreError; nothing else.


def finish(pages: Pages, attempts: int = 500) -> dict[int, pa.Table] | None:
    """The job's output, starting again after errors; ``None`` if the store never lets it end."""
    output: dict[int, pa.Table] = {}
    for _ in range(attempts):
        try:
            run(pages, BATCHES, output.__setitem__)
            return output
        except StoreError:
            continue
    return None


@pytest.fixture(scope="module")
def expected() -> dict[int, pa.Table]:
    return uninterrupted(BATCHES)


@pytest.mark.parametrize("seed", range(3))
def test_a_store_that_fails(expected: dict[int, pa.Table], seed: int) -> None:
    pages = Failing(MemoryPages(), 0.15, seed)
    assert finish(pages) == expected
    assert pages.failures > 3


@pytest.mark.parametrize("kind", ["header", "leaf", "page", "all"])
def test_a_store_that_returns_stale_bytes(expected: dict[int, pa.Table], kind: str) -> None:
    chosen: dict[str, Callable[[str], bool]] = {
        "header": lambda name: name == "header",
        "leaf": lambda name: name.startswith("leaf"),
        "page": lambda name: name[0].isdigit(),
        "all": lambda name: True,
    }
    lies = 0
    for seed in range(3):
        pages = Stale(MemoryPages(), 0.5, seed, chosen[kind])
        unsure = Failing(pages, 0.05, seed)  # so that the state is read again and again
        output = finish(unsure, attempts=20)
        assert output is None or output == expected
        lies += pages.lies
    assert lies or kind == "page"  # pages never change


def test_damaged_bytes_are_an_error() -> None:
    whole = MemoryPages()
    run(whole, 30, lambda *_: None)
    assert any(name[0].isdigit() for name in whole.held), "the state is large enough to have pages"
    for name, good in whole.held.items():
        for bad in (b"", good[: len(good) // 2], good[:-1] + bytes([good[-1] ^ 1])):
            pages = MemoryPages()
            pages.held = {**whole.held, name: bad}
            with pytest.raises((StoreError, SnapshotError)):
                run(pages, BATCHES, lambda *_: None)


def test_a_redis_that_stalls(redis_server: subprocess.Popen[bytes], expected: dict[int, pa.Table]) -> None:
    """The server stops in the middle of the job; whether the commit took place shows only later."""
    client = redis.Redis(port=redis_server.port, socket_timeout=0.3, retry=None)  # type: ignore[attr-defined]
    with RedisPages(client, uuid.uuid4().hex) as pages:
        output: dict[int, pa.Table] = {}

        def keep(number: int, windows: pa.Table) -> None:
            if number == 25 and number not in output:
                redis_server.send_signal(signal.SIGSTOP)
            output[number] = windows

        try:
            with pytest.raises(StoreError, match="did not answer in time"):
                run(pages, BATCHES, keep)
            with pytest.raises(StoreError, match="did not answer in time"):
                run(pages, BATCHES, keep)
        finally:
            redis_server.send_signal(signal.SIGCONT)
        run(pages, BATCHES, keep)
        assert output == expected


def test_pages_are_read_ahead_from_redis(redis_server: subprocess.Popen[bytes]) -> None:
    """A window of many pages slides over them without waiting for the server."""
    asked = wr.Query(window=wr.TimeWindow(20_000, 1), aggregates={"n": wr.Count(), "m": wr.Max("ts")})
    schema, memory = pa.schema({"ts": pa.int64()}), wr.Operator(asked, pa.schema({"ts": pa.int64()}))
    with RedisPages(f"redis://127.0.0.1:{redis_server.port}/0", uuid.uuid4().hex) as pages:  # type: ignore[attr-defined]
        read, waited = pages._read, []
        pages._read = lambda names: (  # type: ignore[method-assign]
            waited.extend(names if threading.current_thread() is threading.main_thread() else ())
            or read(names)
        )
        operator = wr.Operator.open(asked, schema, pages)
        for begin in range(0, 30_000, 30):
            rows = pa.table({"ts": range(begin, begin + 30)})
            for each in (operator, memory):
                each.process(rows)
            assert operator.advance(begin + 30).equals(memory.advance(begin + 30))
            operator.commit()
        evicted = (30_000 - 20_000) // 32
        assert len([name for name in waited if name[0].isdigit()]) < evicted / 4, (
            "most pages came in the background"
        )


# A process that is killed.


def keep_in(folder: Path) -> Callable[[int, pa.Table], None]:
    """A sink in which each batch has a file, complete or not there at all."""

    def keep(number: int, windows: pa.Table) -> None:
        feather.write_feather(windows, folder / "unfinished", compression="uncompressed")
        os.replace(folder / "unfinished", folder / f"{number}.arrow")

    return keep


def job(state: Path, sink: Path, batches: int) -> None:
    with RocksDBPages(state) as pages:
        run(pages, batches, keep_in(sink))


def test_a_process_that_is_killed_at_random_moments(tmp_path: Path) -> None:
    kills, batches = 50 if os.environ.get("WINDROW_LONG") else 5, 60
    expected, chance, jobs = uninterrupted(batches), random.Random(), 0
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["unreliable", "windrow.storage.rocksdb", "rocksdict"])
    while kills:
        jobs += 1
        state, sink = tmp_path / f"state{jobs}", tmp_path / f"sink{jobs}"
        sink.mkdir()
        code = None
        while code != 0:
            process = context.Process(target=job, args=(state, sink, batches))
            process.start()
            if kills:
                seen = len(list(sink.iterdir()))
                while process.is_alive() and len(list(sink.iterdir())) <= seen and kills % 3:
                    time.sleep(0.001)  # two of three times not before it has come further
                time.sleep(chance.random() * 0.15)
                process.kill()
            process.join()
            code = process.exitcode
            assert code in (0, -signal.SIGKILL)
            kills -= code != 0
        found = {number: feather.read_table(sink / f"{number}.arrow") for number in expected}
        assert found == expected


# What RocksDB and Redis say when something is wrong.


def test_rocksdb_tells_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    pages = RocksDBPages(path)
    with pytest.raises(StoreError, match=r"state' cannot be opened: it is in use"):
        RocksDBPages(path)
    other = f"from windrow.storage.rocksdb import RocksDBPages\nRocksDBPages({str(path)!r})"
    done = subprocess.run([sys.executable, "-c", other], capture_output=True, text=True, env=with_path())
    assert "StoreError: the RocksDB at" in done.stderr and "it is in use" in done.stderr
    pages.close()
    pages.close()
    for call in (lambda: pages.get(["a"]), lambda: pages.commit({"a": b""}, [])):
        with pytest.raises(StoreError, match="it was closed"):
            call()
    (path / "CURRENT").write_text("no manifest\n")
    with pytest.raises(StoreError, match="its files are damaged; restore the folder"):
        RocksDBPages(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"file' cannot be opened: .* is it a folder"):
        RocksDBPages(tmp_path / "file")
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(StoreError, match="pip install rocksdict"):
        RocksDBPages(path)


def with_path() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_redis_tells_what_is_wrong_but_no_secret(
    redis_server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = redis_server.port  # type: ignore[attr-defined]
    with pytest.raises(StoreError, match="cannot be reached") as told:
        RedisPages(f"redis://me:s3cret@127.0.0.1:{free_port()}/0").get(["a"])
    assert "start it or check the address" in str(told.value)
    assert not leaks(told.value)
    for address in (
        "s3cret@127.0.0.1",
        "redis://:s3cret#x@127.0.0.1:6379",
        "http://me:s3cret@127.0.0.1",
        "redis://:s3/cret@h:1",
    ):
        with pytest.raises(StoreError, match=r"127\.0\.0\.1") as told:
            RedisPages(address).get(["a"])
        assert not leaks(told.value)
    redis.Redis(port=port).execute_command("ACL", "SETUSER", "guest", "on", ">right", "~*", "+@all")
    with pytest.raises(StoreError, match="refuses the login; check") as told:
        RedisPages(f"redis://guest:s3cret@127.0.0.1:{port}/0").commit({"a": b""}, [])
    assert not leaks(told.value)
    redis.Redis(port=port).execute_command("ACL", "SETUSER", "reader", "on", ">s3cret", "~*", "+@read")
    with pytest.raises(StoreError, match="cannot be written: the server says") as told:
        RedisPages(f"redis://reader:s3cret@127.0.0.1:{port}/0").commit({"a": b""}, [])
    assert not leaks(told.value)
    with pytest.raises(StoreError, match="decode_responses=False"):
        RedisPages(redis.Redis(port=port, decode_responses=True))
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(StoreError, match="pip install redis"):
        RedisPages()


def leaks(error: BaseException) -> bool:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "s3cret" in str(error) or "cret@" in str(error) or (cause is not None and leaks(cause))


def test_a_commit_to_redis_is_seen_whole_or_not_at_all(redis_server: subprocess.Popen[bytes]) -> None:
    address, prefix = f"redis://127.0.0.1:{redis_server.port}/0", uuid.uuid4().hex  # type: ignore[attr-defined]

    def write() -> None:
        with RedisPages(address, prefix) as pages:
            for number in range(300):
                blob = str(number).encode()
                pages.commit(
                    {"a": blob, "b": blob, "c": blob} if number % 3 else {"a": blob, "b": blob},
                    [] if number % 3 else ["c"],
                )

    writer = threading.Thread(target=write)
    writer.start()
    with RedisPages(address, prefix, read_only=True) as pages:
        while writer.is_alive():
            seen = pages.get(["a", "b", "c"])
            assert len(set(seen.values())) <= 1
            assert not seen or ("c" in seen) == (int(seen["a"]) % 3 != 0)
    writer.join()


def test_redis_reads_ahead_in_the_background(
    redis_server: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = redis.Redis(port=redis_server.port)  # type: ignore[attr-defined]
    with RedisPages(client, uuid.uuid4().hex) as pages:
        pages.commit({name: name.encode() for name in "abcdef"}, [])

        def requests() -> int:
            count: int = client.info("commandstats").get("cmdstat_mget", {}).get("calls", 0)
            return count

        before = requests()
        pages.prefetch(["a", "b", "c", "nothing"])
        pages.prefetch(["a", "b"])
        assert pages.get(["a", "nothing"]) == {"a": b"a"}
        assert pages.get(["b"]) == {"b": b"b"}
        assert requests() == before + 1
        pages.prefetch(["d", "e"])
        pages.commit({"d": b"newer"}, ["e"])  # what was read before is not what is there now
        assert pages.get(["c", "d", "e", "f"]) == {"c": b"c", "d": b"newer", "f": b"f"}
        client.connection_pool.disconnect()
        assert pages.get(["a"]) == {"a": b"a"}
        monkeypatch.setattr("windrow.storage.redis.WAITING", 2)
        pages.prefetch(["a", "b", "c"])
        assert set(pages._coming) == {"b", "c"}, "not more wait than somebody may ever get"
        assert pages.get(["a", "b", "c"]) == {"a": b"a", "b": b"b", "c": b"c"}


def test_a_space_goes_on_in_every_store(reopen: Reopen) -> None:
    total = Composite(
        "o/n",
        inputs={"a": "o/a"},
        query=wr.Query(window=wr.CountWindow(30, 1), aggregates={"sum": wr.Sum("v")}),
    )
    for turn in range(4):
        space = Space("city", reopen())
        if turn == 0:
            space.put(Source("o/a", channels={"v": "bigint"}), total, by="o")
        assert space.runtime.source_position == ("" if turn == 0 else str(turn * 25))
        rows = [{"stream": "o/a", "ts": n, "v": n} for n in range(turn * 25, turn * 25 + 25)]
        space.push(rows, position=str(turn * 25 + 25))
    assert space.latest("o/n") == {
        "ts": 99,
        "window_start": 70,
        "window_end": 100,
        "sum": sum(range(70, 100)),
    }
    assert Space("city", reopen()).history("o/a").column("v").to_pylist() == list(range(36, 100))
