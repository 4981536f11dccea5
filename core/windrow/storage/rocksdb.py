# SPDX-License-Identifier: Apache-2.0
"""Pages in RocksDB: a folder on the local disk, one process at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from os import PathLike, fspath
from typing import Any

from windrow.errors import StoreError


class RocksDBPages:
    """Pages in a RocksDB database (rocksdict), one write batch per commit.

    A commit is in the write-ahead log before it returns: killing the process loses nothing. With ``sync`` it
    is on the disk as well, so that losing the machine's power loses nothing either; without, power loss goes
    back to some earlier commit, whole. The folder is made if it is not there, and belongs to one process at a
    time. ``read_only`` looks at the last commit, also while another process has the folder, and cannot commit.

    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> with RocksDBPages(folder.name + "/state") as pages:
    ...     pages.commit({"header": b"h", "7": b"slices"}, delete=[])
    >>> with RocksDBPages(folder.name + "/state") as pages:
    ...     pages.get(["header", "8"])
    {'header': b'h'}
    >>> folder.cleanup()
    """

    def __init__(self, path: str | PathLike[str], sync: bool = True, *, read_only: bool = False) -> None:
        rocksdict = _rocksdict()
        self.path, self.read_only = fspath(path), read_only
        options = rocksdict.Options(raw_mode=True)
        options.set_keep_log_file_num(2)
        with self._blamed("be opened"):
            access = rocksdict.AccessType.read_only() if read_only else rocksdict.AccessType.read_write()
            self._db = rocksdict.Rdict(self.path, options, access_type=access)
        self._batch = rocksdict.WriteBatch
        self._write_options = rocksdict.WriteOptions()
        self._write_options.sync = sync

    def get(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        with self._blamed("be read"):
            found = self._db.get([name.encode() for name in wanted])
        return {name: page for name, page in zip(wanted, found, strict=True) if page is not None}

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        if self.read_only:
            raise StoreError(
                f"the RocksDB at {self.path!r} cannot be written: it was opened with read_only=True"
            )
        batch = self._batch(raw_mode=True)
        for name, page in put.items():
            batch.put(name.encode(), bytes(page))
        for name in delete:
            batch.delete(name.encode())
        with self._blamed("be written"):
            self._db.write(batch, self._write_options)

    def names(self) -> list[str]:
        """The names of all pages, in order."""
        with self._blamed("be read"):
            return sorted(name.decode() for name in self._db.keys())  # noqa: SIM118  it is no dict

    def compact(self) -> None:
        """Write what is there anew, without what was deleted."""
        with self._blamed("be written"):
            self._db.compact_range(None, None)

    def close(self) -> None:
        """Let go of the folder. Closing twice is fine."""
        # A full disk may keep RocksDB from moving commits out of its log. They stay there, so nothing is lost.
        with suppress(Exception):
            self._db.close()

    def __enter__(self) -> RocksDBPages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _blamed(self, what: str) -> Iterator[None]:
        """RocksDB raises plain exceptions; what went wrong is in their text."""
        try:
            yield
        except Exception as cause:
            raise StoreError(f"the RocksDB at {self.path!r} cannot {what}: {_reason(cause)}") from cause


def _reason(cause: Exception) -> str:
    text = str(cause)
    if type(cause).__name__ == "DbClosedError":
        return "it was closed; make a new RocksDBPages"
    if "lock" in text.lower():
        return (
            "it is in use, and only one process may have it open at a time; close the other RocksDBPages or end its "
            f"process, or give each its own folder ({text})"
        )
    if "Corruption" in text:
        return (
            "its files are damaged; restore the folder from a copy, or remove it and process the stream again "
            f"({text})"
        )
    return f"{text}; is it a folder that this process may write, on a disk with space left?"


def _rocksdict() -> Any:
    try:
        import rocksdict
    except ImportError as cause:
        raise StoreError(
            "RocksDBPages needs the package rocksdict, which is not installed: pip install rocksdict"
        ) from cause
    return rocksdict
