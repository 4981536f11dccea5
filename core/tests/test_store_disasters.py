"""What happens to real stores in production: a second process, a server that restarts or goes back, a full disk, rot."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
import redis
from click.testing import CliRunner
from test_stores import answers, free_port, redis_binary
from unreliable import run, uninterrupted

from windrow.cli import main
from windrow.errors import StoreError, StoreTaken
from windrow.storage.redis import RedisPages
from windrow.storage.rocksdb import RocksDBPages

BATCHES = 30
PATIENCE = 60
"""How many seconds a replica may take to follow on a machine that is busy otherwise."""
Output = dict[int, pa.Table]


class Server:
    """A Redis server that can be killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.options, self.port = folder, options, free_port()
        folder.mkdir()
        self.start()

    def start(self) -> None:
        command = [redis_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        self.process = subprocess.Popen([*command, *self.options], stdout=subprocess.DEVNULL)
        assert answers(self.process, self.port)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(host="127.0.0.1", port=self.port)


@contextmanager
def server(folder: Path, *options: str) -> Iterator[Server]:
    started = Server(folder, *options)
    try:
        yield started
    finally:
        started.kill()


def at(number: int, what: Callable[[], object], output: Output) -> Callable[[int, pa.Table], None]:
    """A sink that lets something happen once, before batch ``number`` is committed."""

    def keep(batch: int, windows: pa.Table) -> None:
        if batch == number and batch not in output:
            output[batch] = windows
            what()
        output[batch] = windows

    return keep


@pytest.fixture(scope="module")
def expected() -> Output:
    return uninterrupted(BATCHES)


def test_the_older_of_two_processes_is_refused_and_nothing_is_mixed(tmp_path: Path, expected: Output) -> None:
    with server(tmp_path / "redis", "--save", "") as redis_server:
        address, output = f"redis://127.0.0.1:{redis_server.port}/0", {}
        newer = RedisPages(address, "plugs")
        with RedisPages(address, "plugs") as older:

            def second_process() -> None:
                run(newer, 20, lambda *_: None)

            with pytest.raises(StoreTaken, match=r"'plugs'.* another process has opened it since"):
                run(older, BATCHES, at(12, second_process, output))
            with pytest.raises(StoreTaken):
                older.commit({"header": b"older"}, [])
            with RedisPages(address, "plugs", read_only=True) as reader:
                assert "header" in reader.names() and "fence" not in reader.names()
                with pytest.raises(StoreError, match="read_only"):
                    reader.commit({"header": b"reader"}, [])
        run(newer, BATCHES, output.__setitem__)
        newer.close()
        assert {number: output.get(number, expected[number]) for number in expected} == expected
        assert output[BATCHES] == expected[BATCHES]


@pytest.mark.parametrize("kept", [True, False])
def test_a_redis_that_restarts(tmp_path: Path, expected: Output, kept: bool) -> None:
    """What it has kept goes on as if nothing had happened. If it has kept nothing, the commit is refused, by name."""
    options = ("--appendonly", "yes", "--appendfsync", "always") if kept else ("--appendonly", "no")
    with server(tmp_path / "redis", "--save", "", *options) as redis_server:
        output: Output = {}
        with RedisPages(redis_server.client, "plugs") as pages:

            def restart() -> None:
                redis_server.kill()
                redis_server.start()

            if kept:
                run(pages, BATCHES, at(15, restart, output))
            else:
                with pytest.raises(StoreError, match=r"lost the state.*restart without persistence|has no '"):
                    run(pages, BATCHES, at(15, restart, output))
                assert pages.get(["header"]) == {}
        if not kept:
            with RedisPages(redis_server.client, "plugs") as pages:
                run(pages, BATCHES, output.__setitem__)
        assert output == expected


def test_a_replica_that_lags_takes_over(tmp_path: Path, expected: Output) -> None:
    """The job had committed more than the replica knows. It is told so, and goes on from what the replica has."""
    with server(tmp_path / "primary", "--save", "", "--repl-diskless-sync-delay", "0") as primary:
        options = ("--save", "", "--replicaof", "127.0.0.1", str(primary.port))
        with server(tmp_path / "replica", *options) as replica:
            output: Output = {}

            def cut_off() -> None:
                deadline = time.monotonic() + PATIENCE
                while not primary.client.wait(1, 1000):  # none follows yet
                    assert time.monotonic() < deadline, "the replica does not follow"
                replica.client.replicaof("NO", "ONE")

            def fail_over() -> None:
                primary.kill()
                replica.client.config_set("port", primary.port)

            def keep(batch: int, windows: pa.Table) -> None:
                if batch not in output and batch in happens:
                    happens[batch]()
                output[batch] = windows

            happens = {12: cut_off, 18: fail_over}
            lost = pytest.raises(StoreTaken, match="gone back to an earlier commit")
            with RedisPages(primary.client, "plugs") as pages, lost:
                run(pages, BATCHES, keep)
            with RedisPages(primary.client, "plugs") as pages:
                run(pages, BATCHES, keep)
            assert output == expected


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def test_a_disk_that_is_full_and_one_that_cannot_be_written(small_disk: Path, expected: Output) -> None:
    output: Output = {}
    with RocksDBPages(small_disk / "state", sync=False) as pages:

        def fill() -> None:
            others = os.open(small_disk / "others", os.O_WRONLY | os.O_CREAT)
            with pytest.raises(OSError, match="No space left"):
                while True:
                    os.write(others, os.urandom(4096))
            os.close(others)

        with pytest.raises(StoreError, match=r"state' cannot be written: .*disk with space left"):
            run(pages, BATCHES, at(10, fill, output))
    (small_disk / "others").unlink()
    with RocksDBPages(small_disk / "state", sync=False) as pages:
        run(pages, 20, output.__setitem__)
        del output[20]
    remount(small_disk, "ro")
    with pytest.raises(StoreError, match=r"state' cannot be opened: .*may write"):
        RocksDBPages(small_disk / "state")
    remount(small_disk, "rw")
    with RocksDBPages(small_disk / "state", read_only=True) as pages:
        assert "header" in pages.names()
        with pytest.raises(StoreError, match="read_only"):
            pages.commit({"header": b""}, [])
    with RocksDBPages(small_disk / "state", sync=False) as pages:
        run(pages, BATCHES, output.__setitem__)
    assert output == expected


def command(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(main, ["state", *arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.exception
    return ran.exit_code, ran.output


@pytest.mark.parametrize("kind", ["rocksdb", "redis"])
def test_rot_is_found_before_a_window_reaches_it(kind: str, tmp_path: Path) -> None:
    with server(tmp_path / "redis", "--save", "") as redis_server:
        prefix, folder = uuid.uuid4().hex, tmp_path / "state"
        address = f"redis://127.0.0.1:{redis_server.port}/0" if kind == "redis" else str(folder)

        def opened() -> RedisPages | RocksDBPages:
            return RedisPages(address, prefix) if kind == "redis" else RocksDBPages(folder)

        assert command("check", address)[0] == 2
        with opened() as pages:
            run(pages, 20, lambda *_: None)
            early = dict(pages.get(pages.names()))
            run(pages, BATCHES, lambda *_: None)
            names = pages.names()
            page = next(name for name in names if name[0].isdigit())
            good = pages.get([page])[page]
            pages.commit({"99.1.0": good}, [])
        where = (address, "--prefix", prefix)
        code, told = command("check", *where)
        assert code == 1 and told.startswith(f"99.1.0: it holds '{page}' instead")
        with opened() as pages:
            pages.commit({}, ["99.1.0"])
        assert command("check", *where) == (0, f"{len(names)} pages of commit {BATCHES} are intact\n")
        code, told = command("show", *where)
        assert code == 0
        assert "keys                    2" in told and '"range": "400us"' in told and "slices" in told
        over = {name: page for name, page in early.items() if name[0].isdigit() and name not in names}
        with opened() as pages:
            pages.commit(over, [])  # as if their deletion had been lost
        assert command("check", *where)[0] == 0
        assert command("compact", *where) == (0, f"{len(over)} pages were deleted\n")
        with opened() as pages:
            assert over and set(pages.names()) == set(names)
        for damage, why in (
            (good[:-1], "cut off|decompressed|checksum"),
            (None, "it is not there, and 'leaf.0' names it"),
        ):
            with opened() as pages:
                pages.commit({} if damage is None else {page: damage}, [page] if damage is None else [])
            code, told = command("check", *where)
            assert code == 1 and page in told
            assert command("compact", *where)[0] == 2
            assert any(each in told for each in why.split("|")), told
