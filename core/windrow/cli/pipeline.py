# SPDX-License-Identifier: Apache-2.0
"""`windrow pipeline`: streams on top of streams, in a store that this command and a job share in turn."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from windrow.cli.refusals import Refusal, refusals

if TYPE_CHECKING:
    from windrow.pipelines import Emissions, Space

Command = TypeVar("Command", bound=Callable[..., Any])
AT_ONCE = 1000
"""Lines that `run` reads before it commits."""

STORE = click.option(
    "--store",
    required=True,
    help="A folder of RocksDB, or the address of a Redis server: redis://127.0.0.1:6379/0.",
)
SPACE = click.option(
    "--space", default="windrow", show_default=True, help="The name of the space; its prefix in Redis."
)
ORDER = click.option(
    "--order",
    type=click.Choice(["arrival", "event"]),
    default="arrival",
    show_default=True,
    help="How updates are ordered.",
)
BY = click.option("--by", required=True, help="Who makes the change. The name is not verified.")
AS = click.option("--by", default=None, help="The user who reads. Without it, everything may be read.")
AT = click.option("--at", default=None, help="When it takes effect, such as 2026-01-01T00:00Z. Default: now.")


def _stored(command: Command) -> Command:
    return STORE(SPACE(ORDER(command)))


@click.group()
def pipeline() -> None:
    """Define streams on top of other streams, and run them.

    Streams are documents, TOML with [[stream]] or JSON. A store belongs to one process at a time.
    """


@contextmanager
def opened(store: str, space: str, order: str, *, new: bool = False) -> Iterator[Space]:
    """A space in a store. A folder that is not there is made only if the space may be ``new``."""
    from windrow.pipelines import Space

    where = store if ":" in store else f"rocksdb:{store}"
    folder = Path(where.removeprefix("rocksdb:"))
    if where.startswith("rocksdb:") and not (new or folder.exists()):
        raise Refusal(f"there is no folder {str(folder)!r}; 'windrow pipeline put' makes a store")
    with refusals(), Space(space, where, order=order, late="refuse") as found:  # type: ignore[arg-type]
        yield found
        for report in found.reports():
            click.echo(f"{report.kind}: {report.stream}: {report.message}", err=True)


@pipeline.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@_stored
@BY
@AT
def put(files: tuple[str, ...], store: str, space: str, order: str, by: str, at: str | None) -> None:
    """Put the streams of FILES, or replace those of the same names."""
    with opened(store, space, order, new=True) as found:
        for document in _documents(files):
            found.put(document, by=by, at=_time(at))
            click.echo(f"put {document['name']}{_when(at)}")


@pipeline.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@_stored
def diff(files: tuple[str, ...], store: str, space: str, order: str) -> None:
    """Say which streams of FILES are new, keep their state, or restart."""
    with opened(store, space, order) as found:
        for row in found.diff(list(_documents(files))):
            click.echo(f"{row['effect']:<10} {row['stream']}")


@pipeline.command()
@click.argument("stream")
@_stored
@BY
@AT
@click.option("--cascade", is_flag=True, help="Also drop your own streams that depend on it.")
def drop(stream: str, store: str, space: str, order: str, by: str, at: str | None, cascade: bool) -> None:
    """Drop a STREAM."""
    with opened(store, space, order) as found:
        found.drop(stream, by=by, at=_time(at), cascade=cascade)
        click.echo(f"drop {stream}{_when(at)}")


@pipeline.command()
@click.argument("stream")
@click.argument("right", type=click.Choice(["read", "subscribe", "write", "grant"]))
@click.argument("to")
@_stored
@BY
@AT
@click.option("--revoke", is_flag=True, help="Take the right away instead.")
def grant(stream: str, right: str, to: str, by: str, at: str | None, revoke: bool, **where: Any) -> None:
    """Give somebody a RIGHT on a STREAM: TO is a name, or '*' for everybody."""
    with opened(**where) as found:
        (found.revoke if revoke else found.grant)(stream, right, to, by=by, at=_time(at))
        click.echo(f"{'revoke' if revoke else 'grant'} {right} on {stream}: {to}{_when(at)}")


@pipeline.command()
@click.argument("stream")
@_stored
@AS
@click.option("--provenance", is_flag=True, help="Also say what it was computed from.")
def latest(stream: str, store: str, space: str, order: str, by: str | None, provenance: bool) -> None:
    """Print the latest update of a STREAM as JSON."""
    with opened(store, space, order) as found:
        click.echo(json.dumps(found.latest(stream, by=by, provenance=provenance), ensure_ascii=False))


@pipeline.command()
@click.argument("stream")
@_stored
@AS
@click.option("--since", default=None, help="Only updates at or after this time.")
@click.option("--until", default=None, help="Only updates before this time.")
@click.option("--where", default=None, help="A condition over channels.")
@click.option(
    "--box",
    type=(str, str, float, float, float, float),
    default=None,
    metavar="LATITUDE LONGITUDE SOUTH WEST NORTH EAST",
    help="Only updates inside a box: two channels and four bounds.",
)
@click.option("--last", type=int, default=None, help="Only the last N updates.")
def history(stream: str, store: str, space: str, order: str, **options: Any) -> None:
    """Print the updates of a STREAM that are kept, as JSON lines."""
    options["since"], options["until"] = _time(options["since"]), _time(options["until"])
    with opened(store, space, order) as found:
        for row in found.history(stream, **options).to_pylist():
            click.echo(json.dumps(row, ensure_ascii=False))


@pipeline.command()
@click.argument("stream")
@_stored
def explain(stream: str, store: str, space: str, order: str) -> None:
    """Say what a STREAM is, what it is computed from, and what depends on it."""
    with opened(store, space, order) as found:
        click.echo(found.explain(stream))


@pipeline.command()
@_stored
@click.option("--output", default="-", help="An SVG file; - is standard output.")
def draw(store: str, space: str, order: str, output: str) -> None:
    """Draw the streams with owners, rates, novelty and discards."""
    from windrow.pipelines.drawing import draw as drawn

    with opened(store, space, order) as found:
        picture = drawn(found)
    if output == "-":
        click.echo(picture)
    else:
        Path(output).write_text(picture, encoding="utf-8")


@pipeline.command()
@_stored
@click.option("--input", "given", default="-", help="JSON lines; - is standard input.")
@click.option("--output", default="-", help="JSON lines of emitted updates; - is standard output.")
@click.option("--watermark", default=None, help="At the end, no update before this time will come any more.")
def run(store: str, space: str, order: str, given: str, output: str, watermark: str | None) -> None:
    """Run updates through the streams.

    A line is an update, {"stream": …, "ts": …, channels…}, or a change, {"operation": "put", "actor": …, "document": …}.
    A file is read on from where the last run committed. What is emitted is written after its commit: if a run is killed in
    between, the updates are in the history of their streams, and not in the output.
    """
    with opened(store, space, order, new=True) as found, _reading(given) as lines, _writing(output) as out:
        done = int(found.runtime.source_position or 0) if given != "-" else 0
        for _ in islice(lines, done):
            pass
        while part := list(islice(lines, AT_ONCE)):
            for emitted in _run(found, part, None if given == "-" else done):
                _write(out, emitted)
            done += len(part)
        if watermark is not None:
            _write(out, found.advance(_time(watermark)))


def _run(space: Space, lines: list[str], done: int | None) -> Iterator[Emissions]:
    """Runs of updates, with the changes between them. Each commits how many lines of the file are done."""
    from windrow.pipelines import Change

    updates: list[dict[str, Any]] = []
    for number, line in enumerate(lines):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise Refusal(f"a line of the input is not JSON: {error}: {line[:80]!r}") from None
        if isinstance(row, dict) and "operation" in row:
            yield space.push(updates, position=_position(done, number))
            updates = []
            yield space.apply(Change.from_row(row), position=_position(done, number + 1))
        else:
            updates.append(row)
    yield space.push(updates, position=_position(done, len(lines)))


def _position(done: int | None, more: int) -> str | None:
    return None if done is None else str(done + more)


def _write(out: IO[str], emitted: Emissions) -> None:
    for update in emitted:
        row = {"stream": update.stream, "ts": update.at.ts, "sequence": update.at.sequence, **update.named}
        out.write(json.dumps(row, ensure_ascii=False) + "\n")


def _documents(files: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    from windrow.pipelines.documents import stream_documents

    for file in files:
        yield from stream_documents(Path(file).read_text(encoding="utf-8"))


def _when(at: str | None) -> str:
    """After a change that waits for its time."""
    return "" if at is None else f", from {at} on"


def _time(text: str | None) -> Any:
    return int(text) if text is not None and text.lstrip("-").isdigit() else text


@contextmanager
def _reading(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield sys.stdin
        return
    try:
        with open(path, encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise Refusal(f"cannot read {path!r}: {error}") from None


@contextmanager
def _writing(path: str) -> Iterator[IO[str]]:
    if path == "-":
        yield sys.stdout
        return
    with open(path, "a", encoding="utf-8") as file:
        yield file
