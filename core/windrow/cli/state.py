# SPDX-License-Identifier: Apache-2.0
"""`windrow state`: what a store holds, whether it is whole, and how to make it smaller.

>>> where("redis://127.0.0.1:6379/0")
'redis'
>>> where("plugs/")
'rocksdb'
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from windrow.cli.refusals import Refusal, refusals

if TYPE_CHECKING:
    from windrow.storage.redis import RedisPages
    from windrow.storage.rocksdb import RocksDBPages
    from windrow.storage.scrub import Scrub

FACTS = {"late_rows": "late rows", "order": "order", "source": "position of the source", "changes": "changes"}
"""Entries of a header, and what they are called."""
MANY = 20
"""Pages that are listed by name."""

PREFIX = click.option(
    "--prefix", default="windrow", show_default=True, help="The prefix of the pages in Redis."
)
STORE = click.argument("store", metavar="STORE")


@click.group()
def state() -> None:
    """Look at the state that a job keeps in a store.

    STORE is a folder of RocksDB, or the address of a Redis server, such as redis://127.0.0.1:6379/0.
    """


@state.command()
@STORE
@PREFIX
def check(store: str, prefix: str) -> None:
    """Read every page and check it. Exits with 1 if one is damaged.

    Nothing is changed. With Redis, the job may keep running; pages that it writes meanwhile may then be reported.
    """
    with refusals(), opened(store, prefix, read_only=True) as pages:
        found = _scrubbed(pages)
    pages_read = sum(kind.pages for kind in found.kinds.values())
    for name, why in list(found.damaged.items())[:MANY]:
        click.echo(f"{name}: {why}")
    if found.damaged:
        click.echo(f"{len(found.damaged)} of {pages_read} pages are damaged: restore the store from a backup")
        sys.exit(1)
    click.echo(f"{pages_read} pages of {_what(found)} are intact")


@state.command()
@STORE
@PREFIX
def show(store: str, prefix: str) -> None:
    """Show the query, the watermark, and how large the state is."""
    with refusals(), opened(store, prefix, read_only=True) as pages:
        found = _scrubbed(pages)
        if found.header is None:
            raise Refusal(f"the header is damaged: {found.damaged.get('header', 'it is missing')}")
    for name, value in _facts(found):
        click.echo(f"{name:<24}{value}")


@state.command()
@STORE
@PREFIX
def compact(store: str, prefix: str) -> None:
    """Delete pages that are no longer needed, and free their space.

    The store has to be intact, and no job may use it meanwhile.
    """
    with refusals(), opened(store, prefix, read_only=False) as pages:
        found = _scrubbed(pages)
        if found.damaged:
            raise Refusal(f"{len(found.damaged)} pages are damaged; see windrow state check")
        pages.commit({}, found.unneeded)
        shrink = getattr(pages, "compact", None)
        if shrink is not None:
            shrink()
    click.echo(f"{len(found.unneeded)} pages were deleted")


def where(store: str) -> str:
    """What kind of store a text names."""
    return "redis" if store.startswith(("redis://", "rediss://", "unix://")) else "rocksdb"


@contextmanager
def opened(store: str, prefix: str, *, read_only: bool) -> Iterator[RedisPages | RocksDBPages]:
    """The store that a text names. A folder that is not there is not made."""
    if where(store) == "redis":
        from windrow.storage.redis import RedisPages

        with RedisPages(store, prefix, read_only=read_only) as pages:
            yield pages
        return
    if not (Path(store) / "CURRENT").exists():
        raise Refusal(f"{store} is not a RocksDB folder: it has no file CURRENT")
    from windrow.storage.rocksdb import RocksDBPages

    with RocksDBPages(store, read_only=read_only) as folder:
        yield folder


def _scrubbed(pages: RedisPages | RocksDBPages) -> Scrub:
    from windrow.pipelines.scrub import is_space, scrub_space
    from windrow.storage.scrub import scrub

    found = scrub_space(pages) if is_space(pages) else scrub(pages)
    if not found.kinds:
        raise Refusal("there is no state; is it the right folder, or the right prefix?")
    return found


def _what(found: Scrub) -> str:
    return f"commit {found.commit}" if found.commit else "a space of pipelines"


def _facts(found: Scrub) -> Iterator[tuple[str, Any]]:
    header = found.header or {}
    query = json.loads(header.get("query", "{}"))
    if query:
        yield "commit", found.commit
    yield "watermark", _time(header["watermark"])
    yield "keys", found.keys
    yield from ((shown, header[name]) for name, shown in FACTS.items() if name in header)
    for kind, (pages, size) in found.kinds.items():
        yield kind, f"{pages} pages, {size:,} bytes"
    yield "needed by nothing", f"{len(found.unneeded)} pages"
    for name, value in query.items():
        yield name, json.dumps(value)


def _time(watermark: int) -> str:
    """A watermark as a number and, if it is one, as a date."""
    try:
        return f"{watermark} ({(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=watermark)).isoformat()})"
    except OverflowError:
        return str(watermark)
