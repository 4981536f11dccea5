"""A process that is killed again and again, until it comes to its end."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection

__all__ = ["kill_until_done"]

Told = Callable[[object], None]


def kill_until_done(job: Callable[[Told], None], seed: int, first: Callable[[], object]) -> int:
    """Run a job in processes of its own, and kill each after some steps; how many were killed.

    The job calls what it is given before each commit. The processes are copies of one that has opened no store: threads of
    stores do not survive that. It has done what comes ``first``, so that the copies need not load that again.
    """
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    clean = context.Process(target=_kill, args=(job, seed, first, theirs))
    clean.start()
    theirs.close()
    clean.join()
    assert clean.exitcode == 0
    return int(ours.recv())


def _kill(job: Callable[[Told], None], seed: int, first: Callable[[], object], result: Connection) -> None:
    first()
    chance, kills, ended = random.Random(seed), 0, False
    while not ended:
        reading, writing = os.pipe()
        allowed, allowing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                job(partial(_tell, writing, allowed))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        life = chance.randrange(1, 5)
        while life and os.read(reading, 1):
            os.write(allowing, b".")
            life -= 1
        if not life:
            time.sleep(chance.random() / 200)  # before, in or after a commit
            os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for end in (reading, allowed, allowing):
            os.close(end)
        assert code in (0, -signal.SIGKILL)
        kills, ended = kills + (code != 0), code == 0
    result.send(kills)


def _tell(pipe: int, allowed: int, _: object) -> None:
    """Say where the job is, and go on to the commit when that is allowed: on a busy machine, too, not further."""
    os.write(pipe, b".")
    os.read(allowed, 1)
