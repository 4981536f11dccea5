"""Pages in Redis: state outside the process, on this machine or another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from windrow.errors import StoreError

AT_ONCE = 1024
"""How many pages one MGET asks for: Redis serves nobody else meanwhile."""

WAITING = 8 * AT_ONCE
"""How many pages that were read ahead wait at most for somebody to get them; the oldest go first."""

TIMEOUT = 10.0
"""Seconds until a server that does not answer counts as lost, for clients made from an address."""


class RedisPages:
    """Pages under ``prefix:name`` in a Redis server; one MULTI/EXEC transaction per commit, batched reads.

    ``client`` is the address of a server, or a ``redis.Redis`` that is set up already (with passwords, TLS,
    retries …).
    :meth:`prefetch` reads in the background what :meth:`get` will ask for later.

    One process at a time may use a prefix. A commit that reports an error may have taken place or not, all
    of it or nothing: open the operator again, and it goes on from what is there. How much a crash of the
    *server* can lose is set there (``appendonly yes``, ``appendfsync always`` for nothing).

    A Redis Cluster keeps pages together if the prefix is a hash tag, such as ``"{loads}"``.
    """

    def __init__(self, client: Any = "redis://127.0.0.1:6379/0", prefix: str = "windrow") -> None:
        self._redis = _redis()
        self._own = isinstance(client, str)
        self.client = self._connection(client) if self._own else client
        self.prefix = prefix
        self._coming: dict[str, Future[dict[str, bytes]]] = {}
        self._reader: ThreadPoolExecutor | None = None
        if _settings(self.client).get("decode_responses"):
            raise StoreError(
                "RedisPages needs a client that returns bytes: make it with decode_responses=False"
            )

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
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
        with self._blamed("be written"), self.client.pipeline(transaction=True) as transaction:
            if put:
                transaction.mset({self._key(name): bytes(page) for name, page in put.items()})
            for begin in range(0, len(gone), AT_ONCE):
                transaction.unlink(*map(self._key, gone[begin : begin + AT_ONCE]))
            transaction.execute()

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
                "the address given to RedisPages is not one of Redis: write redis://127.0.0.1:6379/0 "
                "(rediss:// for TLS, unix:// for a socket; special characters of a password as %40 and so on)"
            ) from None

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        errors = self._redis.exceptions
        try:
            yield
        except errors.AuthenticationError as cause:
            hint = "check the user name and password of the client"
            raise StoreError(f"{self._place()} cannot {what}: it refuses the login; {hint}") from cause
        except (errors.ConnectionError, errors.TimeoutError, OSError) as cause:
            reason = (
                "did not answer in time" if isinstance(cause, errors.TimeoutError) else "cannot be reached"
            )
            raise StoreError(
                f"{self._place()} cannot {what}: the server {reason} ({cause}); start it or check the address, "
                "then open the operator again: it goes on from its last commit"
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
            "RedisPages needs the package redis, which is not installed: pip install windrow[stores]"
        ) from cause
    return redis
