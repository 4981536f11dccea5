"""Find processes and kill them; folders that cannot be written for a moment."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random


def command_of(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def descendants(root: int) -> list[int]:
    """All processes below one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                parents.setdefault(parent, []).append(int(entry.name))
    found, left = [], [root]
    while left:
        below = parents.get(left.pop(), [])
        found += below
        left += below
    return sorted(found)


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it has ended."""
    with suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def kill(pid: int) -> bool:
    """End a process as a power failure does; false if it had ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def starve(pid: int) -> bool:
    """Let a process get no more memory: what it asks for next is refused."""
    done = subprocess.run(["prlimit", f"--pid={pid}", "--as=1048576"], capture_output=True, check=False)
    return done.returncode == 0


def wait(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"after {seconds} s: {what}")
        time.sleep(0.05)


class Mounted:
    """A folder on a file system of its own, which can be made read-only for a moment. Needs root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "none", str(folder)], check=True)

    def __enter__(self) -> Mounted:
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], check=False)

    def unwritable(self, seconds: float) -> bool:
        """Make it read-only for a while; false if it is being written right now."""
        done = subprocess.run(
            ["mount", "-o", "remount,ro", str(self.folder)], capture_output=True, check=False
        )
        if done.returncode:
            return False
        time.sleep(seconds)
        subprocess.run(["mount", "-o", "remount,rw", str(self.folder)], check=True)
        return True


def pause(chance: Random, most: float) -> None:
    """Sleep for a random time."""
    time.sleep(chance.random() * most)
