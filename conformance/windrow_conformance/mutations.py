"""Does the suite notice bugs? Each mutation is one, put into a copy of the sources; the suite has to catch every one.

``python -m windrow_conformance.mutations [--engine local] [--python spark=PATH] [NAME …]`` tries them and exits with 1 if
one was not noticed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from windrow.errors import QueryError
from windrow_conformance import answers, transcript
from windrow_conformance.case import Case
from windrow_conformance.cases import transcripts
from windrow_conformance.engines import engine
from windrow_conformance.generated import generate
from windrow_conformance.runner import interpreter, judge

PACKAGES = ("windrow", "windrow_conformance", "windrow_spark", "windrow_flink")
GENERATED = 30
"""So many generated cases are run against a mutation of the core, besides all transcripts."""


@dataclass(frozen=True)
class Mutation:
    """A small bug: in a file, a text that occurs exactly once, and what it becomes."""

    name: str
    file: str
    old: str
    new: str
    engine: str = "local"
    ways: tuple[str, ...] = ("interpreted", "stored")
    cases: tuple[str, ...] = ()
    """Names of the cases that are run; all, if none are named."""


RUNS = "windrow/kernels/runs.py"
SLIDE = "windrow/kernels/slide.py"
DISCIPLINES = "windrow/disciplines.py"
OPERATOR = "windrow/operator.py"
PAGING = "windrow/state/paging.py"
MUTATIONS = (
    # Boundaries.
    Mutation("time window final too late", RUNS, "if end > due:", "if end >= due:"),
    Mutation("session final too early", RUNS, "if runs.stop[p] + gap >= watermark:", "if runs.stop[p] + gap > watermark:"),
    Mutation("gap is outside the session", RUNS, "times[row] - runs.stop[c] > gap", "times[row] - runs.stop[c] >= gap"),
    Mutation("left end of a tuple slide is closed", RUNS, "while runs.stamp[p] <= end - length:", "while runs.stamp[p] < end - length:"),
    Mutation("ties after the trigger are lost", RUNS, "runs.stamp[runs.follower[h]] <= end:", "runs.stamp[runs.follower[h]] < end:"),
    Mutation("trigger one row late", RUNS, "(position[row] + 1) % every != 0", "position[row] % every != 0"),
    Mutation("one row too few", RUNS, "while held[key] > length:", "while held[key] >= length:"),
    Mutation("offset of a time slide ignored", RUNS, "(runs.stamp[h] - offset) % every + every", "runs.stamp[h] % every + every"),
    Mutation("growth by the slide triggers", RUNS, "if value - trigger[1, key] > every:", "if value - trigger[1, key] >= every:"),
    Mutation("left end of a delta is open", RUNS, "runs.stamp[p] < value - length:", "runs.stamp[p] <= value - length:"),
    Mutation("first window of a row skipped", RUNS, "earliest = (runs.stamp[p] - offsets[which] - ranges[which]) // every[which] + 1", "earliest = (runs.stamp[p] - offsets[which] - ranges[which]) // every[which] + 2"),
    Mutation("evicts what the next window needs", RUNS, "bound = min(bound, begins)", "bound = max(bound, begins)"),
    # Slices and aggregates.
    Mutation("tail slice dropped", DISCIPLINES, 'cuts |= {(w.slide, (getattr(w, "offset", 0) + w.range) % w.slide) for w in windows}', "cuts |= set()"),
    Mutation("csa not cleared at a boundary", SLIDE, "                fill_lcs(parts, lcs, leader, lo[w], hi[w], base)\n            clear(csa, c)", "                fill_lcs(parts, lcs, leader, lo[w], hi[w], base)"),
    Mutation("operands in the wrong order", SLIDE, "merge(scratch, 0, lcs, base + lo[w], csa, c)", "merge(scratch, 0, csa, c, lcs, base + lo[w])"),
    Mutation("freed slots keep their values", SLIDE, "        clear(parts, slots[n])", "        pass"),
    Mutation("delta evicts too much", DISCIPLINES, "np.maximum(trigger[2], trigger[1] + window.slide) - window.range", "np.maximum(trigger[2], trigger[1] + window.slide)"),
    Mutation("policy arguments swapped", DISCIPLINES, "window.evict(self._result(more), _named(after), _named(before))", "window.evict(self._result(more), _named(before), _named(after))"),
    # Watermarks and late rows.
    Mutation("a row at the watermark is late", OPERATOR, "late = times < self._reached()", "late = times <= self._reached()"),
    Mutation("lateness ignored", OPERATOR, 'late = 0 if self.query.late == "update" else self.query.lateness\n        reached', "late = 0\n        reached"),
    Mutation("rows settle too early", "windrow/waiting.py", "settled = times < reached", "settled = times <= reached"),
    Mutation("ties in the wrong order", "windrow/waiting.py", 'order = np.argsort(times, kind="stable")', 'order = np.lexsort((-np.arange(len(times)), times))'),
    Mutation("a corrected window is missing", "windrow/revisions.py", "first = (stamps - self.offsets[which] - self.ranges[which]) // self.every[which] + 1", "first = (stamps - self.offsets[which] - self.ranges[which]) // self.every[which] + 2"),
    Mutation("early results at every watermark", OPERATOR, "self.watermark // early == before // early", "False"),
    Mutation("answers in the order of arrival of keys", "windrow/answer.py", "np.lexsort((which, keys.ranks()[key], start, end))", "np.lexsort((which, key, start, end))"),
    # State.
    Mutation("watermark not in the state", OPERATOR, '"watermark": self.watermark,', '"watermark": -FOREVER,'),
    Mutation("waiting rows not in the snapshot", OPERATOR, 'image["waiting"] = [batch_image(batch, self._keys) for batch in self._waiting.batches]', 'image["waiting"] = []'),
    Mutation("changed page not written", PAGING, "self.dirty.update(numbers)", "pass"),
    Mutation("counters not restored", "windrow/state/image.py", "counter[..., numbers] = from_bytes(blob, counter.dtype).reshape(*counter.shape[:-1], count)", "pass"),
    Mutation("following window not restored", "windrow/state/image.py", 'slides.following[:, numbers] = from_bytes(image["following"], np.int64).reshape(state.windows, count)', "pass"),
    # Adapters.
    Mutation(
        "spark: offset of slices ignored", "windrow_spark/slices.py", "F.pmod(time - F.lit(at), F.lit(every))", "F.pmod(time, F.lit(every))",
        "spark", ("batch",), ("time/offset", "time/not a multiple", "several/labels, offsets, gaps"),
    ),
    Mutation(
        "spark: idle buckets never wake", "windrow_spark/buckets.py", "wake = None if due is None else -(-due // 1000)", "wake = None",
        "spark", ("streaming",), ("session/idle",),
    ),
    Mutation(
        "spark: page not written", "windrow_spark/buckets.py", "self.pages.updateValue((name,), (page,))", "pass",
        "spark", ("streaming",), ("count/not a multiple",),
    ),
    Mutation(
        "flink: watermark one millisecond behind", "windrow_flink/times.py", "(watermark + 1) * 1000))", "watermark * 1000))",
        "flink", ("rows",), ("time/late", "papers/A_C, definition 2", "time/in-order", "idle"),
    ),
    Mutation(
        "flink: rows forget the watermark that they met", "windrow_flink/function.py", "self.now, self.met = now, MET.pack(from_flink(now))", "self.now, self.met = now, MET.pack(from_flink(-END))",
        "flink", ("rows",), ("time/late", "side/whole rows"),
    ),
    Mutation(
        "flink: rows taken twice", "windrow_flink/function.py", "        held.new = []\n", "",
        "flink", ("rows",), ("time/in-order", "count/in-order"),
    ),
    Mutation(
        "flink: rows not in the state", "windrow_flink/function.py", "self.log.add(entry)", "pass",
        "flink", ("rows",), ("time/restart", "count/restart"),
    ),
)  # fmt: skip


def caught(mutation: Mutation, pythons: dict[str, str] | None = None) -> str:
    """What the suite notices of a mutation; empty if nothing."""
    cases = [
        case
        for case in transcripts()
        if not mutation.cases or any(name in case.name for name in mutation.cases)
    ]
    if not mutation.cases:
        cases += [generate(1, number) for number in range(GENERATED)]
    python = interpreter(engine(mutation.engine), pythons or {})
    with tempfile.TemporaryDirectory(prefix="windrow-mutation-") as folder:
        copy = Path(folder) / "sources"
        _copied(copy, mutation)
        return _noticed(mutation, cases, python, copy, Path(folder))


def _noticed(mutation: Mutation, cases: Sequence[Case], python: str, sources: Path, folder: Path) -> str:
    file, out = folder / "cases.toml", folder / "answers.arrow"
    file.write_text(transcript.write(cases), encoding="utf-8")
    command = [
        python,
        "-m",
        "windrow_conformance.run_engine",
        mutation.engine,
        "--cases",
        str(file),
        "--out",
        str(out),
    ]
    command += [part for way in mutation.ways for part in ("--way", way)]
    environment = {**os.environ, "PYTHONPATH": str(sources), "NUMBA_DISABLE_JIT": "1"}
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return "it never ends"
    if ended.returncode:
        return f"it crashes: {(ended.stderr.strip().splitlines() or ['without a word'])[-1]}"
    red = [verdict for verdict in judge(cases, answers.read(out)) if verdict.red]
    return f"{len(red)} answers, first {red[0].case.name} on {red[0].place}" if red else ""


def _copied(target: Path, mutation: Mutation) -> None:
    """A copy of all packages, with the bug in it."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None and spec.origin is not None:
            ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
            shutil.copytree(Path(spec.origin).parent, target / package, ignore=ignored)
    path = target / mutation.file
    if not path.exists():
        raise QueryError(f"mutation {mutation.name!r}: {mutation.file} is not installed here")
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise QueryError(
            f"mutation {mutation.name!r}: {mutation.old!r} occurs {text.count(mutation.old)} times in {mutation.file}, not "
            "once; the code has changed, so change the mutation"
        )
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parse = argparse.ArgumentParser(prog="windrow_conformance.mutations", description=__doc__)
    parse.add_argument("names", nargs="*", metavar="NAME", help="only mutations whose name contains this")
    parse.add_argument("--engine", action="append", help="only mutations that this engine has to notice")
    parse.add_argument("--python", action="append", default=[], metavar="ENGINE=PATH")
    asked = parse.parse_args(arguments)
    pythons = dict(text.split("=", 1) for text in asked.python)
    missed = 0
    for mutation in MUTATIONS:
        if asked.engine and mutation.engine not in asked.engine:
            continue
        if asked.names and not any(name in mutation.name for name in asked.names):
            continue
        found = caught(mutation, pythons)
        missed += not found
        print(
            f"{'caught' if found else 'MISSED'}  {mutation.name}: {found or 'no answer differs'}", flush=True
        )
    print("every mutation was caught" if not missed else f"{missed} mutations were not caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
