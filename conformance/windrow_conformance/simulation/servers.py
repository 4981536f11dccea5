# SPDX-License-Identifier: Apache-2.0
"""Stores that misbehave when they are told to: one of pages, and a Redis server with its network."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any

import redis

from windrow.errors import StoreError
from windrow_conformance.simulation.histories import Killed

Held = dict[str, bytes]


class FaultyPages:
    """A store of pages in a dict. An armed fault strikes the next call that it can strike, once."""

    def __init__(self) -> None:
        self.held: Held = {}
        self.before: list[Held] = []
        """What it held before each commit."""
        self.late: list[tuple[dict[str, bytes], list[str]]] = []
        """Commits that are on their way."""
        self.strikes = 0
        """How many faults have taken effect."""
        self._armed: list[tuple[str, Random]] = []

    def arm(self, fault: str, chance: int) -> None:
        """The next call has this fault."""
        self._armed.append((fault, Random(chance)))

    def calm(self) -> None:
        """No fault waits any more."""
        self._armed.clear()

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        found = {name: self.held[name] for name in names if name in self.held}
        for fault, random in self._struck("unreadable", "stale", "missing", "slow"):
            if fault == "slow":
                raise Killed
            if fault == "unreadable":
                raise StoreError("the store cannot be read")
            older = random.choice(self.before) if self.before else {}
            for name in [name for name in found if random.random() < 0.5]:
                if fault == "missing" or name not in older:
                    del found[name]
                else:
                    found[name] = older[name]
        return found

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        gone = list(delete)
        for fault, random in self._struck(
            "refused", "full disk", "unheard", "torn", "lost", "reordered", "duplicated", "slow"
        ):
            if fault == "torn":
                put = {name: page for name, page in put.items() if random.random() < 0.5}
                gone = [name for name in gone if random.random() < 0.5]
            if fault in ("reordered", "duplicated"):
                self.late.append((dict(put), gone))
            if fault in ("unheard", "torn", "duplicated") or (fault == "slow" and random.random() < 0.5):
                self._write(put, gone)
            if fault == "slow":
                raise Killed
            if fault in ("lost", "duplicated"):
                return
            raise StoreError("the store cannot be written")  # a job is told the same, whatever the reason
        self._write(put, gone)

    def arrive(self) -> None:
        """Commits that were on their way arrive."""
        for put, gone in self.late:
            self._write(put, gone)
        self.late.clear()

    def rot(self, random: Random) -> None:
        """A byte of a value changes."""
        if self.held:
            name = random.choice(sorted(self.held))
            self.held[name] = rotten(self.held[name], random)

    def go_back(self, random: Random) -> None:
        """All of it becomes what it was before some commit."""
        if self.before:
            self.held = dict(self.before[random.randrange(len(self.before))])

    def become(self, held: Held) -> None:
        """A backup is restored."""
        self.held = dict(held)
        self.late.clear()
        self.calm()

    def _write(self, put: Mapping[str, bytes], gone: Iterable[str]) -> None:
        self.before.append(dict(self.held))
        self.held.update(put)
        for name in gone:
            self.held.pop(name, None)

    def _struck(self, *faults: str) -> Iterator[tuple[str, Random]]:
        for armed in list(self._armed):
            if armed[0] in faults:
                self._armed.remove(armed)
                self.strikes += 1
                yield armed


def rotten(value: bytes, random: Random) -> bytes:
    """The bytes, with one of them changed."""
    if not value:
        return b"\0"
    place = random.randrange(len(value))
    return value[:place] + bytes([value[place] ^ (1 << random.randrange(8))]) + value[place + 1 :]


class FaultyRedis:
    """A Redis server and the network to it, as far as :class:`windrow.storage.redis.RedisPages` can see them.

    It is its own client, and executes the script of a commit in Python.
    """

    def __init__(self) -> None:
        self.held: Held = {}
        self.before: list[Held] = []
        self.late: list[tuple[Sequence[str], Sequence[Any]]] = []
        self._begun: dict[str, bytes | None] = {}
        self.connection_pool = SimpleNamespace(connection_kwargs={"host": "simulated"})
        self.strikes = 0
        """How many faults have taken effect."""
        self._armed: list[tuple[str, Random]] = []

    def arm(self, fault: str, chance: int) -> None:
        self._armed.append((fault, Random(chance)))

    def calm(self) -> None:
        self._armed.clear()

    def begin_to_read(self, keys: Sequence[str]) -> None:
        """Reads of these keys begin in the background. They give what is there now, however late they come."""
        self._begun.update((key, self.held.get(key)) for key in keys)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        if threading.current_thread() is not threading.main_thread():
            return [self._begun.get(key) for key in keys]
        if self._strikes("slow"):
            raise Killed
        if self._strikes("unreadable"):
            raise redis.exceptions.ConnectionError("connection reset")
        return [self.held.get(key) for key in keys]

    def set(self, key: str, value: str) -> None:
        self.held[key] = value.encode()

    def register_script(self, script: str) -> Callable[[Sequence[str], Sequence[Any]], Any]:
        return self._run

    def close(self) -> None:
        """A client that was given to RedisPages is not closed by it."""

    def arrive(self) -> None:
        for keys, arguments in self.late:
            self._execute(keys, arguments)
        self.late.clear()

    def go_back(self, random: Random) -> None:
        if self.before:
            self.held = dict(self.before[random.randrange(len(self.before))])

    def wipe(self) -> None:
        """It restarts, and has kept nothing."""
        self.held = {}

    def become(self, held: Held) -> None:
        self.held = dict(held)
        self.calm()

    def _run(self, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        if self._strikes("refused"):
            raise redis.exceptions.ConnectionError("connection refused")
        if self._strikes("full disk"):
            raise redis.exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots")
        if self._strikes("reordered"):
            self.late.append((keys, arguments))
            raise redis.exceptions.TimeoutError("timeout reading from socket")
        if self._strikes("duplicated"):
            self.late.append((keys, arguments))
        if random := self._strikes("slow"):
            if random.random() < 0.5:
                self._execute(keys, arguments)
            raise Killed
        given = self._execute(keys, arguments)
        if self._strikes("unheard"):
            raise redis.exceptions.TimeoutError("timeout reading from socket")
        return given

    def _execute(self, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        expected, written = int(arguments[0]), int(arguments[1])
        known = [value.encode() for value in arguments[2 : 2 + expected]]
        values = arguments[2 + expected :]
        if self.held.get(keys[0]) not in known:
            return self.held.get(keys[0], b"")
        self.before.append(dict(self.held))
        self.held[keys[0]] = known[-1]
        self.held.update(zip(keys[1 : 1 + written], values, strict=True))
        for key in keys[1 + written :]:
            self.held.pop(key, None)
        return 1

    def _strikes(self, fault: str) -> Random | None:
        for armed in self._armed:
            if armed[0] == fault:
                self._armed.remove(armed)
                self.strikes += 1
                return armed[1]
        return None
