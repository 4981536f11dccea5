"""``python -m benchmarks.chaos spark --kills 10``: an engine is harmed in every way, and its output compared.

Ways that an engine can be harmed in are named with ``--what``; without it, all are tried. Writes
``benchmarks/results/chaos/kills-ENGINE.csv``, or ``kills-ENGINE-WHAT.csv``, and exits with 1 if a window is lost or came twice.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from benchmarks.algorithms.measure import write

RESULTS = Path(__file__).parents[1] / "results" / "chaos"


def main() -> int:
    parse = argparse.ArgumentParser(prog="benchmarks.chaos", description=__doc__)
    parse.add_argument("engine", choices=["spark", "flink"])
    parse.add_argument("--kills", type=int, default=5, help="in each way")
    parse.add_argument("--what", action="append", help="only this way; may be repeated")
    parse.add_argument("--seed", type=int, default=7)
    parse.add_argument("--output", type=Path, default=RESULTS)
    asked = parse.parse_args()
    program = import_module(f"benchmarks.chaos.{asked.engine}_kills")
    sys.path.insert(0, str(program.TESTS))
    file = "-".join(["kills", asked.engine, *(kind.replace(" ", "-") for kind in asked.what or [])])
    rows = []
    for kind in asked.what or program.KINDS:
        with tempfile.TemporaryDirectory(prefix="windrow-chaos-", ignore_cleanup_errors=True) as folder:
            rows.append(
                program.run(kind, asked.kills, Path(folder), asked.seed, lambda text: print(text, flush=True))
            )
        print(rows[-1], flush=True)
        write(rows, asked.output / f"{file}.csv")
    return 1 if any(row["lost_or_wrong"] or row.get("doubled") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
