# SPDX-License-Identifier: Apache-2.0
"""What `windrow run` hands to an engine, and what it gets back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from windrow import durations
from windrow.cli.files import STANDARD, Writer, format_of
from windrow.cli.refusals import Refusal
from windrow.cli.tables import Ends
from windrow.memory import half_of_memory, parse_bytes
from windrow.operator.idle import Idle
from windrow.query.estimate import windows_per_row
from windrow.query.query import Query

__all__ = ["Done", "Job", "Progress"]


@dataclass(frozen=True)
class Job:
    """A query, where its rows come from, and where its windows and late rows go. Contradictions are refused here."""

    query: Query
    source: str
    target: str | None
    windows_limit: int
    form: str | None = None
    delay: str | None = None
    watch: bool = False
    until_idle: str | None = None
    late_target: str | None = None
    memory: str | None = None
    workers: int = 1
    idle: str | None = None

    def __post_init__(self) -> None:
        self.check_windows(windows_per_row(self.query), "each row is in")
        if self.memory is not None:
            parse_bytes(self.memory, name="--memory")
        for name, value in (("--delay", self.delay), ("--until-idle", self.until_idle)):
            if value is not None and durations.parse(value, name=name) < 0:
                raise Refusal(f"{name} has to be zero or longer, not {value!r}")
        Idle.of(self.idle)
        if self.until_idle is not None and not self.watch:
            raise Refusal("--until-idle needs --watch")
        if self.watch and not Path(self.source).is_dir():
            raise Refusal(f"--watch needs a folder as --input, not {self.source}")
        if self.source != STANDARD and not Path(self.source).exists():
            raise Refusal(f"{self.source} does not exist")
        if self.late_target is not None and self.query.late != "side":
            raise Refusal(
                f'--late-output needs a query with late = "side", and this one has late = "{self.query.late}"'
            )
        if self.late_target is not None and self.late_target == self.target:
            raise Refusal(f"--output and --late-output cannot both be {self.target}")
        for target in (self.target, self.late_target):
            if target not in (None, STANDARD) and not target.endswith("/") and not Path(target).is_dir():
                format_of(Path(target))  # an unknown ending is refused before any work is done

    @property
    def delay_us(self) -> int | None:
        """How far the watermark is behind the latest row, in microseconds; ``None`` if rows may come in any order."""
        if self.delay is not None:
            return durations.parse(self.delay, name="--delay")
        return 0 if self.watch else None

    @property
    def memory_bytes(self) -> int:
        """How many bytes rows may take that have to be in memory."""
        return half_of_memory() if self.memory is None else parse_bytes(self.memory, name="--memory")

    def check_windows(self, count: int, what: str) -> None:
        """Refuse more windows than the limit; ``what`` says which windows these are."""
        if count > self.windows_limit:
            raise Refusal(
                f"{what} {count:,} windows, and --windows-limit allows {self.windows_limit:,}; give the query a longer "
                f"slide or a shorter range, or raise the limit"
            )

    @property
    def idle_seconds(self) -> float | None:
        return (
            None if self.until_idle is None else durations.parse(self.until_idle, name="--until-idle") / 1e6
        )

    @contextmanager
    def writing_late(self, schema: pa.Schema) -> Iterator[Writer | Ends]:
        """A writer for late rows; without a target it only counts them."""
        if self.late_target is None:
            yield Ends(schema)
        else:
            form = self.form if self.late_target == STANDARD else None
            with Writer(self.late_target, schema, form, "late") as out:
                yield out

    @contextmanager
    def writing(self, schema: pa.Schema) -> Iterator[Writer | Ends]:
        """A writer for windows; without a target it keeps both ends, to be shown."""
        if self.target is None:
            yield Ends(schema)
        else:
            with Writer(self.target, schema, self.form if self.target == STANDARD else None) as out:
                yield out


@dataclass(frozen=True)
class Done:
    """How many rows there were, how many of them were late, and where the windows went."""

    rows: int
    output: Writer | Ends
    late_rows: int = 0


COMPILING = (
    "compiling kernels, once for this query and these columns; `windrow warm` does it ahead of the first run"
)


class Progress:
    """A bar on standard error, if that is a terminal.

    The first kernel that is compiled is worth a line, ``announced``, also if it is no terminal.
    """

    def __init__(self, console: Console, announced: str = COMPILING) -> None:
        self.bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[rows]:,} rows  {task.fields[windows]:,} windows"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task: TaskID = self.bars.add_task("reading", total=None, rows=0, windows=0)
        self.rows = self.windows = 0
        self.doing = "reading"
        self.announced = announced

    def __enter__(self) -> Progress:
        self.bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bars.stop()

    def say(self, what: str, total: int | None = None) -> None:
        """What is being done now, and of how many rows, if that is known."""
        self.doing = what
        self.bars.update(self.task, description=what, total=total)

    def compiling(self, kernel: str | None) -> None:
        """A kernel is being compiled, or no more: then what was being done goes on."""
        if self.announced:
            self.bars.console.print(self.announced, soft_wrap=True)
            self.announced = ""
        self.bars.update(self.task, description=self.doing if kernel is None else f"compiling {kernel}")

    def add(self, rows: int = 0, windows: int = 0) -> None:
        self.rows, self.windows = self.rows + rows, self.windows + windows
        self.bars.update(self.task, completed=self.rows, rows=self.rows, windows=self.windows)
