# SPDX-License-Identifier: Apache-2.0
"""Jobs that are executed once for each history.

What a job does depends on nothing but its *history*: what it was told to do, and what its store answered. So lives that share
a world share a tree of histories. A job goes along this tree as long as its store answers what the store of an earlier one
did. Every call still reaches its own store, with its own faults. At the first answer that is new, the job is executed.

A process that its job has left stays in the tree, at the :class:`Moment` that it came to, and the next job that goes on from
there takes it over. If there is none, all that the job was told is done again. It has to ask its store for the same things
again, in the same order: otherwise it depends on something else than its history, which is a failure of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from windrow.storage.pages import Pages

Request = tuple[Any, ...]
"""The name of a method of a store, and its arguments."""


class Killed(BaseException):
    """The process ends while it waits for its store. Nothing in the process can prevent that, so it is no Exception."""


class OtherHistory(Exception):
    """A job that was told the same did something else."""


@dataclass(frozen=True)
class Said:
    """A value, or an error: what a store answers, or what comes of an operation."""

    value: Any = None
    error: Exception | None = None

    @property
    def key(self) -> Hashable:
        if self.error is not None:
            return type(self.error), str(self.error)
        return tuple(self.value.items()) if isinstance(self.value, Mapping) else None

    def given(self) -> Any:
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.value


class Exchange:
    """A part of an operation: what the job asks its store for next, and how it goes on after each answer."""

    def __init__(self) -> None:
        self.request: Request | None = None
        self.answers: dict[Hashable, Exchange] = {}
        self.outcome: Said | None = None
        """What came of the operation, if it ends here."""
        self.then = Moment()

    def ask(self, request: Request | None) -> None:
        """The job asks for this here, or for nothing more."""
        if self.request != request and (self.request is not None or self.outcome is not None):
            raise OtherHistory(f"a job asked for {request!r}, and before for {self.request!r}")
        self.request = request

    def end(self, outcome: Said) -> None:
        self.ask(None)
        self.outcome = self.outcome or outcome


class Moment:
    """A job after all operations of a history, and what came of each further one."""

    def __init__(self) -> None:
        self.operations: dict[Hashable, Exchange] = {}
        self._left: JobProcess | None = None

    def leave(self, process: JobProcess) -> None:
        """A process that came to this moment is no longer needed."""
        self._left = process

    def take(self) -> JobProcess | None:
        """The process that was left here, for one job."""
        left, self._left = self._left, None
        return left


class Asking:
    """The store as a job sees it: it gives the answers that are known, then asks the store of the life."""

    def __init__(self, pages: Pages) -> None:
        self.pages, self.known = pages, deque[Said]()
        self.asked: list[tuple[Request, Said]] = []

    def begin(self, pages: Pages, known: Iterable[Said]) -> None:
        """An operation begins, over the store of some life."""
        self.pages, self.known, self.asked = pages, deque(known), []

    def get(self, names: Iterable[str]) -> Mapping[str, bytes]:
        return dict(self._ask("get", tuple(names)))

    def commit(self, put: Mapping[str, bytes], delete: Iterable[str]) -> None:
        self._ask("commit", dict(put), tuple(delete))

    def _ask(self, *request: Any) -> Any:
        said = self.known.popleft() if self.known else answer(self.pages, request)
        self.asked.append((request, said))
        return said.given()


class AskingAhead(Asking):
    """One that can be told what will be wanted."""

    def prefetch(self, names: Iterable[str]) -> None:
        self._ask("prefetch", tuple(names))


def answer(pages: Pages, request: Request) -> Said:
    """What a store says to a request."""
    name, *arguments = request
    try:
        return Said(getattr(pages, name)(*arguments))
    except Exception as error:  # a store may raise anything
        return Said(error=error)


class JobProcess:
    """A process that executes a job."""

    def __init__(self, pages: Pages) -> None:
        self.store = (AskingAhead if hasattr(pages, "prefetch") else Asking)(pages)
        self.running: Any = None

    def start(self, running: Any) -> None:
        """From now on, this is what runs in it."""
        self.running = running

    def do(self, work: Work, pages: Pages, known: Iterable[Said]) -> Said:
        """What comes of some work, during which the store gives these answers before it gives others."""
        self.store.begin(pages, known)
        try:
            return Said(work(self))
        except Exception as error:  # whatever it is, it comes of this history
            return Said(error=error)


Work = Callable[[JobProcess], Any]


class SharedJob:
    """A job that goes along the histories after ``begin``, and is executed where they end."""

    def __init__(self, begin: Moment, pages: Pages) -> None:
        self._moment, self._pages = begin, pages
        self._past: list[tuple[Work, list[Said]]] = []
        self._process: JobProcess | None = None

    def do(self, name: Hashable, work: Work) -> Any:
        """An operation. ``name`` says all about it that is not in the job's history."""
        answers: list[Said] = []
        end = None if self._process else self._followed(name, answers)
        if end is None:
            end = self._executed(name, work, answers)
        assert end.outcome is not None
        self._past.append((work, answers))
        self._moment = end.then
        return end.outcome.given()

    def leave(self) -> None:
        """Nobody needs this job any more."""
        if self._process is not None:
            self._moment.leave(self._process)
            self._process = None

    def _followed(self, name: Hashable, answers: list[Said]) -> Exchange | None:
        """Where the operation ends, if the store answers nothing new; puts what it answered into ``answers``."""
        at = self._moment.operations.get(name)
        while at is not None and at.request is not None:
            said = answer(self._pages, at.request)
            answers.append(said)
            at = at.answers.get(said.key)
        return at

    def _executed(self, name: Hashable, work: Work, answers: list[Said]) -> Exchange:
        """Execute the operation, beginning with these answers; puts all others into ``answers`` too."""
        process = self._process or self._moment.take() or self._again()
        self._process = None  # it is lost if it is killed
        outcome = process.do(work, self._pages, answers)
        self._process = process
        at = self._moment.operations.setdefault(name, Exchange())
        for request, said in process.store.asked:
            at.ask(request)
            at = at.answers.setdefault(said.key, Exchange())
        at.end(outcome)
        answers[:] = [said for _, said in process.store.asked]
        return at

    def _again(self) -> JobProcess:
        """A process that has done all that this job was told."""
        process = JobProcess(self._pages)
        for work, answers in self._past:
            process.do(work, self._pages, answers)
            if len(process.store.asked) != len(answers):
                raise OtherHistory(
                    f"a job asked its store {len(process.store.asked)} times, and before {len(answers)} times"
                )
        return process
