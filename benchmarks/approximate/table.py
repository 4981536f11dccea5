"""A CSV file that grows row by row, so that a long measurement can be stopped at any time and continued later."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any


class Table:
    """Rows that are told apart by some of their columns. A row that comes again replaces the one before."""

    def __init__(self, path: Path, keys: tuple[str, ...]) -> None:
        self.path, self.keys = path, keys
        self.rows: dict[tuple[str, ...], dict[str, Any]] = {}
        if path.exists():
            with path.open(newline="") as source:
                self.rows = {self._key(row): row for row in csv.DictReader(source)}

    def __contains__(self, key: tuple[str, ...]) -> bool:
        return key in self.rows

    def add(self, rows: Iterable[dict[str, Any]]) -> None:
        """Put in rows, and write the file."""
        for row in rows:
            told = {
                name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()
            }
            self.rows[self._key(row)] = told
        columns = dict.fromkeys(name for row in self.rows.values() for name in row)
        part = self.path.with_suffix(".part")
        with part.open("w", newline="") as sink:
            writer = csv.DictWriter(sink, list(columns), lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.rows.values())
        part.rename(self.path)

    def _key(self, row: dict[str, Any]) -> tuple[str, ...]:
        return tuple(str(row[name]) for name in self.keys)
