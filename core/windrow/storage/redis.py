# SPDX-License-Identifier: Apache-2.0
"""Pages in Redis: state outside the process, on this machine or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from windrow.errors import StoreError, StoreTaken

AT_ONCE = 1024
"""How many pages one MGET asks for: Redis serves nobody else meanwhile."""

WAITING = 8 * AT_ONCE
"""How many pages that were read ahead wait at most for somebody to get them; the oldest go first."""

TIMEOUT = 10.0
"""Seconds until a server that does not answer counts as lost, for clients made from an address."""

FENCE = "fence"
"""The name under which the server keeps whose commit was the last one."""

SCRIPT = """
local expected, written = tonumber(ARGV[1]), tonumber(ARGV[2])
local held, known = redis.call('GET', KEYS[1]), false
for i = 1, expected do known = known or held == ARGV[2 + i] end
if not known then return held or '' end
redis.call('SET', KEYS[1], ARGV[2 + expected])
for i = 1, written do redis.call('SET', KEYS[1 + i], ARGV[2 + expected + i]) end
for i = 2 + written, #KEYS do redis.call('UNLINK', KEYS[i]) end
return 1
"""
"""Writes pages if the fence has one of the values that the process expects. Otherwise it returns the value that it has.
The arguments are how many values are expected, how many pages are written, those values, the pages. The last of those
values is the new one: a client that lost its connection may send the same commit again."""


class RedisPages:
    """Pages under ``prefix:name`` in a Redis server; one atomic script per commit, batched reads.

    ``client`` is the address of a server, or a ``redis.Redis`` that is set up already (with passwords, TLS,
    retries …).
    :meth:`prefetch` reads in the background what :meth:`get` will ask for later.

    One process at a time may use a prefix. It belongs to the one that opened it last: a commit of an older one raises
    :class:`~windrow.errors.StoreTaken` and writes nothing. The same happens if the server has lost commits, after a restart
    without persistence or a failover to a replica that lags: nothing is written on top of a state that is not there.
    ``read_only`` takes nothing from anybody, and cannot commit.

    A commit that reports an error may have taken place or not, all of it or nothing: open the operator again, and it
    goes on from what is there. How much a crash of the *server* can lose is set there (``appendonly yes``,
    ``appendfsync always`` for nothing).

    A Redis Cluster keeps pages together if the prefix is a hash tag, such as ``"{loads}"``.
    """

    def __init__(
        self,
        client: Any = "redis://127.0.0.1:6379/0",
        prefix: str = "windrow",
        *,
        read_only: bool = False,
    ) -> None:
        self._redis = _redis()
        self._own = isinstance(client, str)
        self.client = self._connection(client) if self._own else client
        self.prefix, self.read_only = prefix, read_only
        self._owner, self._attempts = uuid4().hex, 0
        self._expected: list[
            str
        ] = []  # what the fence may hold: of the last commit, and of those that reported an error
        self._coming: dict[str, Future[dict[str, bytes]]] = {}
        self._reader: ThreadPoolExecutor | None = None
        self._script = self.client.register_script(SCRIPT)
        if _settings(self.client).get("decode_responses"):
            raise StoreError(
                "RedisPages needs a client that returns bytes: make it with decode_responses=False"
            )

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        self._take()
        wanted = list(dict.fromkeys(names))
        found: dict[str, bytes] = {}
        missing = []
        for name in wanted:
            try:
                pages = self._coming.pop(name).result()
                found.update(
                    {name: pages[name]} if name in pages else {}
                )  # others of it may have been overtaken
            except (KeyError, StoreError):  # nobody asked for it before, or in vain
                missing.append(name)
        found.update(self._read(missing))
        return {name: found[name] for name in wanted if name in found}

    def prefetch(self, names: Iterable[str]) -> None:
        """Begin to read pages in the background. The next :meth:`get` of each takes what has come, and waits
        if it must."""
        wanted = [name for name in dict.fromkeys(names) if name not in self._coming]
        if not wanted:
            return
        if self._reader is None:
            self._reader = ThreadPoolExecutor(1, thread_name_prefix="windrow-prefetch")
        for begin in range(0, len(wanted), AT_ONCE):
            part = wanted[begin : begin + AT_ONCE]
            self._coming.update(dict.fromkeys(part, self._reader.submit(self._read, part)))
        for name in list(self._coming)[:-WAITING]:
            del self._coming[name]

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        gone = list(delete)
        for name in (*put, *gone):  # what is on its way has been overtaken
            self._coming.pop(name, None)
        if not put and not gone:
            return
        self._take()
        if self.read_only:
            raise StoreError(f"{self._place()} cannot be written: it was opened with read_only=True")
        known, mine = self._expected, self._next()
        self._expected = expected = [*known, mine]  # if an error follows, nobody knows which of them is there
        keys = [self._key(name) for name in (FENCE, *put, *gone)]
        with self._blamed("be written"):
            held = self._script(keys, [len(expected), len(put), *expected, *map(bytes, put.values())])
        if held != 1:
            self._expected = known
            raise StoreTaken(f"{self._place()} cannot be written: {self._whose(held)}")
        self._expected = [mine]

    def names(self) -> list[str]:
        """The names of all pages, in order."""
        with self._blamed("be read"):
            # What is special in a pattern may be part of a prefix.
            pattern = "".join(f"[{sign}]" if sign in "*?[" else sign for sign in self._key("")) + "*"
            found = [key[len(self._key("").encode()) :].decode() for key in self.client.scan_iter(pattern)]
        return sorted(name for name in set(found) if name != FENCE)

    def close(self) -> None:
        """End the background reader, and the connections if they were made here."""
        self._coming.clear()
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)
            self._reader = None
        if self._own:
            self.client.close()

    def __enter__(self) -> RedisPages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self) -> None:
        """Take the prefix, before the first page is read: what is read must not change any more."""
        if not self._expected and not self.read_only:
            mine = self._next()
            with self._blamed("be written"):
                self.client.set(self._key(FENCE), mine)
            self._expected = [mine]

    def _next(self) -> str:
        self._attempts += 1
        return f"{self._owner}:{self._attempts}"

    def _whose(self, held: bytes) -> str:
        """Why the fence does not hold what this process wrote."""
        if not held:
            return (
                "the server has lost the state, as by a restart without persistence; open the operator again"
            )
        if held.startswith(self._owner.encode()):
            return (
                "the server has gone back to an earlier commit, as by a failover to a replica that lags; open the operator "
                "again: it continues from what is there"
            )
        return (
            "another process has opened it since, and has it now; end this one, or give each its own prefix. If there is "
            "no other, the server has gone back to an earlier commit: open the operator again"
        )

    def _read(self, names: list[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        with self._blamed("be read"):
            for begin in range(0, len(names), AT_ONCE):
                part = names[begin : begin + AT_ONCE]
                pages = self.client.mget([self._key(name) for name in part])
                found.update((name, page) for name, page in zip(part, pages, strict=True) if page is not None)
        return found

    def _key(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    def _connection(self, url: str) -> Any:
        try:
            from redis.backoff import NoBackoff
            from redis.retry import Retry

            return self._redis.Redis.from_url(
                url,
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                retry=Retry(NoBackoff(), 1),  # of a connection that went stale; every request may be repeated
            )
        except ValueError:  # its text may hold a part of the password
            raise StoreError(
                "the address given to RedisPages is not a Redis address: write redis://127.0.0.1:6379/0 "
                "(rediss:// for TLS, unix:// for a socket; special characters of a password as %40 and so on)"
            ) from None

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        errors = self._redis.exceptions
        try:
            yield
        except errors.AuthenticationError as cause:
            hint = "check the user name and password of the client"
            raise StoreError(
                f"{self._place()} cannot {what}: the server refuses the login; {hint}"
            ) from cause
        except (errors.ConnectionError, errors.TimeoutError, OSError) as cause:
            reason = (
                "did not answer in time" if isinstance(cause, errors.TimeoutError) else "cannot be reached"
            )
            raise StoreError(
                f"{self._place()} cannot {what}: the server {reason} ({cause}); start it or check the address, "
                "then open the operator again: it continues from its last commit"
            ) from cause
        except errors.RedisError as cause:
            raise StoreError(f"{self._place()} cannot {what}: the server says {cause}") from cause

    def _place(self) -> str:
        """Where the pages are, without user name and password."""
        settings = _settings(self.client)
        server = settings.get("path") or f"{settings.get('host', 'localhost')}:{settings.get('port', 6379)}"
        return f"the Redis at {server} (database {settings.get('db', 0)}, prefix {self.prefix!r})"


def _settings(client: Any) -> Mapping[str, Any]:
    settings: Mapping[str, Any] = getattr(getattr(client, "connection_pool", None), "connection_kwargs", {})
    return settings


def _redis() -> Any:
    try:
        import redis
    except ImportError as cause:
        raise StoreError(
            "RedisPages needs the package redis, which is not installed: pip install redis"
        ) from cause
    return redis
