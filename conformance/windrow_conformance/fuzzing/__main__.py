# SPDX-License-Identifier: Apache-2.0
"""A process that tries inputs: ``python -m windrow_conformance.fuzzing TARGET FIRST LAST SEEN``.

It keeps the number of its input in the file ``SEEN``, so that the process that started it knows which one crashed it or made it
hang. At the end it prints what came of the inputs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections import Counter
from time import perf_counter

from windrow_conformance.fuzzing import trial
from windrow_conformance.fuzzing.targets import TARGETS


def main(name: str, first: int, last: int, seen: str, seconds: float) -> None:
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends the process, even inside a kernel
    counts: Counter[str] = Counter()
    foreign: list[tuple[int, str]] = []
    target, began, number = TARGETS[name], perf_counter(), first
    file = os.open(seen, os.O_WRONLY | os.O_CREAT)
    for number in range(first, last):
        os.pwrite(file, f"{number:20}".encode(), 0)
        signal.setitimer(signal.ITIMER_PROF, trial.SECONDS)
        came = trial.outcome(target, number)
        signal.setitimer(signal.ITIMER_PROF, 0)
        counts[came if not came.startswith("FOREIGN") else "FOREIGN"] += 1
        if came.startswith("FOREIGN"):
            foreign.append((number, came))
        if perf_counter() - began > seconds:
            break
    print(json.dumps({"next": number + 1, "counts": counts, "foreign": foreign[:50]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], float(sys.argv[5]))
