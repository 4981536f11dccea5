# SPDX-License-Identifier: Apache-2.0
"""The footer of a Parquet file, as far as it can end the process that reads it.

Arrow checks what a footer says about the sizes of a column when it is asked for that column, and raises an error of C++
there, which its Python bindings do not catch: the process ends. So this is checked here before. The footer is read in
the compact protocol of Thrift; field numbers are those of the Parquet format.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["contradiction"]

ROW_GROUPS, COLUMNS, META_DATA, ENCRYPTED, SIZE_STATISTICS = 4, 1, 3, 8, 16
TEXT_BYTES, REPETITION, DEFINITION = 1, 2, 3
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = 1, 2, 3, 7, 8, 9, 10, 11, 12
DEEP = 60
"""Structures inside structures: the format has fewer."""


def contradiction(tail: bytes, schema: Any) -> str:
    """What the footer says that cannot be, or nothing. ``tail`` are bytes of the end of the file with all of the footer."""
    length = int.from_bytes(tail[-8:-4], "little")
    footer = _Compact(tail[len(tail) - 8 - length : -8])
    try:
        for field, kind in footer.fields():
            if field == ROW_GROUPS and kind == LIST:
                for _ in range(footer.size_of_list()):
                    if told := _in_row_group(footer, schema):
                        return told
            else:
                footer.skip(kind)
    except (IndexError, OverflowError):
        return "its footer ends too early"
    return ""


def _in_row_group(footer: _Compact, schema: Any) -> str:
    told = ""
    for field, kind in footer.fields():
        if field == COLUMNS and kind == LIST:
            for position in range(footer.size_of_list()):
                column = schema.column(position) if position < len(schema) else None
                told = told or _in_column(footer, column, f"column {position + 1}")
        else:
            footer.skip(kind)
    return told


def _in_column(footer: _Compact, column: Any, name: str) -> str:
    """``name`` is its number: the name that the file gives it may be no text."""
    told = "" if column is not None else "a row group has more columns than the file"
    for field, kind in footer.fields():
        if field == META_DATA and kind == STRUCT and column is not None:
            for inner, its_kind in footer.fields():
                if inner == SIZE_STATISTICS and its_kind == STRUCT:
                    told = told or _in_sizes(footer, column, name)
                else:
                    footer.skip(its_kind)
        else:
            told = told or (f"{name} is encrypted" if field == ENCRYPTED else "")
            footer.skip(kind)
    return told


def _in_sizes(footer: _Compact, column: Any, name: str) -> str:
    told = ""
    levels = {REPETITION: column.max_repetition_level + 1, DEFINITION: column.max_definition_level + 1}
    for field, kind in footer.fields():
        if field in levels and kind == LIST:
            count = footer.size_of_list()
            if count and count != levels[field]:
                told = f"{name} has {count} sizes of levels, and {levels[field]} levels"
            footer.skip_entries(count)
        else:
            if field == TEXT_BYTES and column.physical_type != "BYTE_ARRAY":
                told = f"{name} has a size of texts, and no texts"
            footer.skip(kind)
    return told


class _Compact:
    """Values of Thrift's compact protocol, one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._place, self._depth, self._entries = data, 0, 0, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """The number and the kind of each field of a structure; its value has to be read or skipped before the next."""
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            yield number, head & 15

    def size_of_list(self) -> int:
        """How many entries a list has."""
        head = self._byte()
        self._entries = head & 15
        return self._number() if head >> 4 == 15 else head >> 4

    def skip_entries(self, count: int) -> None:
        """The entries of the list whose size was read last."""
        kind = self._entries
        for _ in range(count):
            self._skip_entry(kind)

    def skip(self, kind: int) -> None:
        """A value that does not matter."""
        if kind in (TRUE, FALSE):
            return
        if kind == BYTE:
            self._byte()
        elif kind in (4, 5, 6):
            self._number()
        elif kind == DOUBLE:
            self._ahead(8)
        elif kind == BINARY:
            self._ahead(self._number())
        else:
            self._skip_inside(kind)

    def _skip_inside(self, kind: int) -> None:
        self._depth += 1
        if self._depth > DEEP:
            raise OverflowError
        if kind in (LIST, SET):
            self.skip_entries(self.size_of_list())
        elif kind == MAP:
            count = self._number()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._skip_entry(kinds >> 4)
                self._skip_entry(kinds & 15)
        elif kind == STRUCT:
            for _, each in self.fields():
                self.skip(each)
        else:
            raise OverflowError
        self._depth -= 1

    def _skip_entry(self, kind: int) -> None:
        """An entry of a list or map. Truth values, which fields have in their kind, take a byte there."""
        self._byte() if kind in (TRUE, FALSE) else self.skip(kind)

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _ahead(self, count: int) -> None:
        self._place += count
        if self._place > len(self._data):
            raise IndexError

    def _number(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found |= (byte & 127) << shift
            shift += 7
        return found | byte << shift

    def _signed(self) -> int:
        number = self._number()
        return number >> 1 ^ -(number & 1)
