"""``python -m benchmarks.chaos spark --kills 10``: an engine is harmed in every way, and its output compared.

Ways that an engine can be harmed in are named with ``--what``; without it, all are tried. Writes
``benchmarks/results/chaos/kills-ENGINE.csv``, and exits with 1 if a window is lost or came twice. With ``--resume``, the run
goes on after what this file has, and keeps its lines of other ways. ``--piece`` is how often one job is harmed before its
output is compared and another job begins, so that an interruption loses little.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.algorithms.measure import write

RESULTS = Path(__file__).parents[1] / "results" / "chaos"


def main() -> int:
    parse = argparse.ArgumentParser(prog="benchmarks.chaos", description=__doc__)
    parse.add_argument("engine", choices=["spark", "flink"])
    parse.add_argument("--kills", type=int, default=5, help="in each way")
    parse.add_argument("--piece", type=int, help="so many on one job")
    parse.add_argument("--seconds", type=float, default=1e9, help="begin nothing after so many seconds")
    parse.add_argument("--what", action="append", help="only this way; may be repeated")
    parse.add_argument("--seed", type=int, default=7)
    parse.add_argument("--output", type=Path, default=RESULTS)
    parse.add_argument("--resume", action="store_true", help="keep what the file has, and do the rest")
    asked = parse.parse_args()
    program = import_module(f"benchmarks.chaos.{asked.engine}_kills")
    sys.path.insert(0, str(program.TESTS))
    path = asked.output / f"kills-{asked.engine}.csv"
    rows = {row["what_is_hit"]: row for row in (_read(path) if asked.resume and path.exists() else [])}
    deadline, piece = time.monotonic() + asked.seconds, asked.piece or asked.kills
    for kind in asked.what or program.KINDS:
        while (done := rows.get(kind, {}).get("times", 0)) < asked.kills and time.monotonic() < deadline:
            with tempfile.TemporaryDirectory(prefix="windrow-chaos-", ignore_cleanup_errors=True) as folder:
                row = program.run(
                    kind,
                    min(piece, asked.kills - done),
                    Path(folder),
                    asked.seed + done,
                    lambda text: print(text, flush=True),
                )
            rows[kind] = _added(rows.get(kind), row)
            print(rows[kind], flush=True)
            write(list(rows.values()), path)
    return 1 if any(row["lost_or_wrong"] or row.get("doubled") for row in rows.values()) else 0


def _added(before: dict[str, Any] | None, row: dict[str, Any]) -> dict[str, Any]:
    """The counts of two pieces together."""
    if before is None:
        return row
    return {name: before[name] + value if isinstance(value, int) else value for name, value in row.items()}


def _read(path: Path) -> list[dict[str, Any]]:
    """The rows of a file that an earlier run has written."""
    with path.open(encoding="utf-8", newline="") as lines:
        found = list(csv.DictReader(lines))
    return [{name: int(value) if value.isdigit() else value for name, value in row.items()} for row in found]


if __name__ == "__main__":
    sys.exit(main())
