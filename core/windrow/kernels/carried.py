# SPDX-License-Identifier: Apache-2.0
"""Compiled code that travels: what one process has compiled, as bytes that a process on another machine takes over.

A kernel's name holds a hash of all code that went into it (see :mod:`windrow.kernels.specialise`), so a kernel that is
taken over is the one that would have been compiled. Machine code runs only where it was made for: the bytes begin with
what they depend on, as JSON, and nothing else of them is read where that differs.

The kernels themselves are numba's pickles, as in its cache on disk. To take them over is to run code. Do so only with
bytes from whom you take code anyway, and check that they are those that were sent.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import pickle
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.resources import files
from time import perf_counter
from typing import Any

import llvmlite
import numba
import numba.core.caching
import numba.core.serialize
import numpy as np
from numba.core import config, registry
from numba.core.dispatcher import Dispatcher

__all__ = ["ForeignCode", "made", "pack", "take_over", "use", "used"]

MAGIC = b"windrow compiled 1\n"
caching: Any = numba.core.caching
serialize: Any = numba.core.serialize
logger = logging.getLogger("windrow.compiling")


class ForeignCode(Exception):
    """Compiled code that was made for other surroundings than these."""


# Here.


@contextmanager
def used() -> Iterator[dict[int, Any]]:
    """The kernels that are called while this is open, by identity. Those that other threads call are among them."""
    found: dict[int, Any] = {}
    _WATCHING.append(found)
    try:
        yield found
    finally:
        _WATCHING.remove(found)


_WATCHING: list[dict[int, Any]] = []


def use(kernel: Any) -> Any:
    """Called with every kernel that is about to be called; returns it."""
    for found in _WATCHING:
        found[id(kernel)] = kernel
    return kernel


def pack(kernels: Iterable[Any]) -> bytes:
    """Kernels as bytes, for the argument types that they have been compiled for. What cannot travel is left out."""
    names, bodies = [], []
    for kernel in kernels:
        if isinstance(kernel, Dispatcher):
            kept = _kept(kernel)
            for types_, compiled in list(kernel.overloads.items()):
                if (body := _reduced(compiled, types_, kept)) is not None:
                    names.append((*_name(kernel), _digest(types_), len(body)))
                    bodies.append(body)
    header = json.dumps({"made for": surroundings(), "kernels": names}).encode()
    return b"".join([MAGIC, len(header).to_bytes(8, "big"), header, zlib.compress(b"".join(bodies), 6)])


def _reduced(compiled: Any, types_: Any, kept: _Kept | None) -> bytes | None:
    """What numba's cache on disk has; code that was loaded from there has no other form."""
    if compiled.library.has_dynamic_globals or any(not each.can_cache for each in compiled.lifted):
        return None
    try:
        found = None if kept is None else kept.find(types_, compiled.library.codegen)
        return bytes(serialize.dumps(_FORM.reduce(compiled) if found is None else found))
    except Exception as problem:  # whatever a user's function holds that has no form as bytes
        logger.debug("%s cannot travel: %s", compiled.fndesc.qualname, problem)
        return None


class _Form(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """How numba writes a compiled function, without a place on disk to write it to."""

    def __init__(self) -> None:
        pass


_FORM = _Form()


class _Kept(caching.FunctionCache):  # type: ignore[misc]
    """What numba's cache on disk has of a kernel."""

    def find(self, types_: Any, codegen: Any) -> Any | None:
        """The form of the kernel that was compiled for these argument types."""
        return self._cache_file.load(self._index_key(types_, codegen))

    def keep(self, types_: Any, codegen: Any, form: Any) -> None:
        self._impl.locator.ensure_cache_path()
        self._cache_file.save(self._index_key(types_, codegen), form)


def _kept(kernel: Any) -> _Kept | None:
    """None if no folder can be written, or if the code is in an archive: its place differs from job to job."""
    if not os.path.exists(kernel.py_func.__code__.co_filename):
        return None
    try:
        return _Kept(kernel.py_func)
    except (RuntimeError, OSError):
        return None


# There.


def take_over(packed: bytes) -> int:
    """Have these kernels without compiling them. Returns how many they are.

    Kernels that are made later take theirs when they are made. They also go to this machine's cache on disk, for other
    processes. :class:`ForeignCode` says why not, if the bytes were made for other surroundings.
    """
    began = perf_counter()
    header, rest = _header(packed)
    _check(header["made for"])
    body, begin = zlib.decompress(rest), 0
    for module, name, types_, length in header["kernels"]:
        _CARRIED.setdefault((module, name), {})[types_] = body[begin : begin + length]
        begin += length
    for kernel in list(_MADE.values()):
        _given(kernel)
    logger.info(
        "took over %d compiled kernels (%.1f MB) in %.1f s; they are not compiled here",
        len(header["kernels"]),
        len(packed) / 1e6,
        perf_counter() - began,
    )
    return len(header["kernels"])


def _header(packed: bytes) -> tuple[dict[str, Any], bytes]:
    if not packed.startswith(MAGIC):
        raise ForeignCode("these bytes are not compiled code of this version of windrow")
    begin = len(MAGIC) + 8
    end = begin + int.from_bytes(packed[len(MAGIC) : begin], "big")
    return json.loads(packed[begin:end]), packed[end:]


def _check(made_for: dict[str, str]) -> None:
    here = surroundings()
    differing = [name for name in here if made_for.get(name) != here[name]]
    if differing:
        told = [f"{name} ({_short(made_for.get(name))}, here {_short(here[name])})" for name in differing]
        raise ForeignCode(f"it was made for another {', '.join(told)}")


def _short(text: str | None) -> str:
    return "none" if text is None else text if len(text) <= 40 else f"{text[:37]}..."


_CARRIED: dict[tuple[str, str], dict[str, bytes]] = {}
"""What was taken over and waits for its kernel to be made, by the kernel's module and name, and by argument types."""
_MADE: dict[tuple[str, str], Any] = {}
"""The kernels of this process."""


def made(kernel: Any) -> None:
    """Called with every kernel that can be compiled, when it is made. It gets what was taken over for it."""
    if isinstance(kernel, Dispatcher):  # it is a plain function where the compiler is switched off
        _MADE[_name(kernel)] = kernel
        _given(kernel)


def _given(kernel: Any) -> None:
    has = {_digest(types_) for types_ in kernel.overloads}
    bodies = [body for types_, body in _CARRIED.pop(_name(kernel), {}).items() if types_ not in has]
    kept = _kept(kernel) if bodies else None
    for body in bodies:
        try:
            _add(kernel, body, kept)
        except Exception as problem:  # it is compiled here when it is called
            logger.warning("could not take over %s, so it is compiled here: %s", kernel.__name__, problem)


def _add(kernel: Any, body: bytes, kept: _Kept | None) -> None:
    """As numba does with what it finds in its cache."""
    context, form = kernel.targetctx, pickle.loads(body)
    context.refresh()
    compiled = _FORM.rebuild(context, form)
    context.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
    kernel.add_overload(compiled)
    types_, codegen = tuple(compiled.signature.args), compiled.library.codegen
    with suppress(OSError):  # the folder is full, or is gone: other processes take over what they need
        if kept is not None and kept.find(types_, codegen) is None:
            kept.keep(types_, codegen, form)


def _name(kernel: Any) -> tuple[str, str]:
    return kernel.py_func.__module__, kernel.py_func.__qualname__


def _digest(types_: Any) -> str:
    return hashlib.sha256(str(types_).encode()).hexdigest()[:16]


# What compiled code depends on.


@cache
def surroundings() -> dict[str, str]:
    """What has to be the same where compiled code is made and where it runs."""
    triple, cpu, features = registry.cpu_target.target_context.codegen().magic_tuple()
    return {
        "windrow": _source_digest(),
        "Python": f"{sys.implementation.cache_tag}{getattr(sys, 'abiflags', '')}",
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "numpy": np.__version__,
        "system": str(triple),
        "CPU": str(cpu),
        "CPU features": hashlib.sha256(str(features).encode()).hexdigest()[:16],
        "vector library": str(bool(vars(config).get("USING_SVML"))),
    }


def _source_digest() -> str:
    """A hash of windrow's source, also where it is imported from an archive."""
    digest = hashlib.sha256()
    left = [("windrow", files("windrow"))]
    while left:
        path, folder = left.pop()
        for each in sorted(folder.iterdir(), key=lambda entry: entry.name):
            name = f"{path}/{each.name}"
            if each.name.endswith(".py"):
                digest.update(f"{name}\n".encode() + each.read_bytes())
            elif each.is_dir() and each.name != "__pycache__":
                left.append((name, each))
    return digest.hexdigest()[:16]
