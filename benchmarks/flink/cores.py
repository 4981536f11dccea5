"""CPU time of a job: of this process, the JVM that it started, and the JVM's Python workers. Reads ``/proc``, so only on Linux."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of workers whose own parent ends before them, so that their time is counted."""
    if ctypes.CDLL(None, use_errno=True).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def cpu_seconds() -> float:
    """Of this process and all below it, with those that have ended."""
    ticks: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _fields(entry)):
            pid, parent = int(entry.name), int(fields[1])
            ticks[pid] = sum(map(int, fields[11:15]))  # user, system, and both of children that have ended
            children.setdefault(parent, []).append(pid)
    total, waiting = 0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.get(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def _fields(process: Path) -> list[str]:
    """What ``/proc/PID/stat`` has after the name; nothing if the process has just ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
