# SPDX-License-Identifier: Apache-2.0
"""Progress in the terminal while the demo runs: a bar for each query, and counts of rows and windows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column
from rich.text import Text

from windrow.demo.scenario import QUERIES, Beat

__all__ = ["View"]


class View:
    """Steps of the demo, one line each; a query's line has a bar that its beats move.

    Into a terminal the lines are live. Into a file or a pipe, each step is a line when it is done.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=16),
            Counts(),
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self.bars: dict[str, TaskID] = {}
        self.starting: TaskID | None = None
        self.beats: list[Beat] = []

    def __enter__(self) -> View:
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A step of unknown length."""
        task = self.progress.add_task(what, total=None)
        began = perf_counter()
        yield
        self.progress.update(task, total=1, completed=1)
        self._line(f"{what}: {perf_counter() - began:.1f} s")

    def expect(self, rows: int, engine: str) -> None:
        """An engine starts; then each query gets this many rows."""
        self.starting = self.progress.add_task(f"starting {engine}", total=None)
        for name in QUERIES:
            label = {"plugs": "windows of plugs", "houses": "windows of houses"}[name]
            self.bars[name] = self.progress.add_task(label, total=rows, windows=0, rows=0)

    def tell(self, beat: Beat) -> None:
        """The engine has started (the first beat), or a piece of a query is done."""
        if self.starting is not None:
            self.progress.update(self.starting, total=1, completed=1)
            self.starting = None
        self.beats.append(beat)
        if (task := self.bars.get(beat.query)) is None:
            return
        mine = [each for each in self.beats if each.query == beat.query]
        windows, rows = sum(each.windows for each in mine), sum(each.rows for each in mine)
        self.progress.update(task, advance=beat.rows, windows=windows, rows=rows)
        note = f", {beat.note}" if beat.note else ""
        final = f"{windows:,} windows" if windows else "no window final yet"
        self._line(f"{beat.query}: {rows:,} rows, {final}{note}")

    def _line(self, text: str) -> None:
        if not self.console.is_terminal:
            self.console.print(f"  {text}", soft_wrap=True)


class Counts(ProgressColumn):
    """Rows in and windows out of a query's line; nothing on the other lines."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True))

    def render(self, task: Task) -> Text:
        if "windows" not in task.fields:
            return Text("")
        return Text(f"{task.fields['rows']:>9,} rows  {task.fields['windows']:>9,} windows", style="cyan")
