# SPDX-License-Identifier: Apache-2.0
"""One source for interpreted and compiled: a kernel module, specialised for an aggregate.

A kernel module is ordinary Python in the subset that numba compiles. Where it works on partials it calls the
names of the seam (``merge``, ``add``, ``lower`` …, see :mod:`windrow.kernels.partials`), which it imports as
placeholders.
:func:`specialise` runs the module's code again in a namespace in which those names are an aggregate's own
functions, and compiles every function of it, or leaves them as they are for the interpreted form.

Compiled code is cached on disk beside the module (or in numba's user-wide cache directory). The cache key
covers the kernel module, the modules it imports from, the code of the aggregate's functions and of everything
they call, so that stale code never runs. It can also come from another machine: :mod:`windrow.kernels.carried`.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import FunctionType, MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numba
import numpy as np

from windrow.errors import CompileWarning
from windrow.kernels import (
    carried,
    records,  # noqa: F401  it tells numba how records are assigned
)

COMPILE_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options for functions that only compiled code calls."""


def specialise(module: ModuleType, seam: Mapping[str, Any], *, compiled: bool = True) -> SimpleNamespace:
    """The functions of a kernel module, with the seam's names bound to the given functions.

    A compiled function that turns out not to compile falls back to its interpreted form, with one
    :class:`CompileWarning`.
    """
    if not compiled:
        return SimpleNamespace(**_interpreted(module, seam))
    token = _token(module, seam)
    lean = _compiled(module, seam, token, lean=bool(seam.get("LEAN", True)))
    aggregate = str(seam.get("AGGREGATE", "this kernel"))

    def others(name: str) -> Iterator[Any]:
        yield _compiled(module, seam, token, lean=False)[name]
        yield _interpreted(module, seam)[name]

    warn = _Warning(aggregate)
    return SimpleNamespace(**{name: _Kernel(lean[name], others(name), warn) for name in lean})


def compiled_for(
    module: ModuleType, seam: Mapping[str, Any], name: str, arguments: tuple[Any, ...]
) -> Any | None:
    """One function of a kernel module, compiled for arguments such as these; none if it does not compile.

    It does not where numba's compiler is switched off (``NUMBA_DISABLE_JIT``).
    """
    if vars(numba.config).get("DISABLE_JIT"):
        return None
    token = _token(module, seam)
    types_ = tuple(map(numba.typeof, arguments))
    if (token, name, types_) not in _CHOSEN:
        _CHOSEN[token, name, types_] = _first_that_compiles(module, seam, token, name, types_)
    return carried.use(_CHOSEN[token, name, types_])


_CHOSEN: dict[tuple[Any, ...], Any | None] = {}
"""What :func:`compiled_for` found, by code and types."""


def _first_that_compiles(
    module: ModuleType, seam: Mapping[str, Any], token: str, name: str, types_: tuple[Any, ...]
) -> Any | None:
    for lean in (True, False):
        function = _compiled(module, seam, token, lean=lean)[name]
        try:
            function.compile(types_)
        except _NOT_COMPILED:
            continue
        return function
    return None


def _token(module: ModuleType, seam: Mapping[str, Any]) -> str:
    """A hash of all code of a kernel module that is specialised."""
    return str(_once("token", module, seam, lambda: fingerprint(_module_token(module), *_code_of(seam))))


def _interpreted(module: ModuleType, seam: Mapping[str, Any]) -> dict[str, Any]:
    """The functions of a module as they are, with the seam bound."""
    name = f"{module.__name__}_interpreted"

    def make() -> dict[str, Any]:
        return {key: _quiet(function) for key, function in _instance(module, seam, name).items()}

    found: dict[str, Any] = _once("interpreted", module, seam, make)
    return found


def _once(what: str, module: ModuleType, seam: Mapping[str, Any], make: Callable[[], Any]) -> Any:
    """What is made of a module and the same seam, made once: operators are opened again and again."""
    place = what, module, id(seam) if seam else 0
    known = _MADE.get(place)
    if known is not None and (known[0] is seam or not seam):
        return known[1]
    made = make()
    if len(_MADE) >= MOST:
        _MADE.clear()
    _MADE[place] = seam, made  # the seam is kept, so that no other gets its id
    return made


_MADE: dict[tuple[str, ModuleType, int], tuple[Mapping[str, Any], Any]] = {}
MOST = 1024


def _code_of(seam: Mapping[str, Any]) -> list[Any]:
    return [entry for item in sorted(seam.items()) if item[0] != "AGGREGATE" for entry in item]


def _compiled(module: ModuleType, seam: Mapping[str, Any], token: str, lean: bool) -> dict[str, Any]:
    """The compiled functions of a module. ``lean`` ones cannot allocate, and so need not count references."""
    if (token, lean) not in _COMPILED:
        options = {**COMPILE_OPTIONS, "_nrt": not lean}
        done: dict[int, Any] = {}  # what several functions call is compiled once

        which = f"{token[:16]}{'lean' if lean else ''}"

        def compiler(function: Any) -> Any:
            return _deep_jit(function, done, {**options, **INNER}, which)

        name = f"{module.__name__}_{which}"
        _COMPILED[token, lean] = _instance(module, seam, name, compiler, options)
    return _COMPILED[token, lean]


_COMPILED: dict[tuple[str, bool], dict[str, Any]] = {}
"""Compiled functions by their code. The aggregate's name is not part of the key, so Max("a") and Max("b") share
theirs.
"""


def _instance(
    module: ModuleType,
    seam: Mapping[str, Any],
    name: str,
    compiler: Callable[[Any], Any] | None = None,
    options: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, Any]:
    """The functions of a module, run again in a namespace of its own in which the seam is bound.

    It is bound in the functions that the module imports from other kernel modules, too.
    """
    copy = ModuleType(name)
    copy.__file__, copy.__package__ = module.__file__, module.__package__
    namespace = copy.__dict__
    exec(_code(module), namespace)
    own = {
        key: value
        for key, value in namespace.items()
        if isinstance(value, FunctionType) and value.__module__ == name and key not in seam
    }
    for key, value in list(namespace.items()):
        if isinstance(value, FunctionType) and value.__module__.startswith("windrow.kernels."):
            namespace[key] = _bound(value, seam)
    namespace.update(seam)
    if compiler is not None:
        sys.modules[name] = copy  # numba finds a cached function's module by name
        for key, value in list(namespace.items()):
            if isinstance(value, FunctionType) and key not in own:
                namespace[key] = compiler(value)
        for key, function in own.items():
            function.__qualname__ = f"{key}_{name.rpartition('_')[2]}"  # the cache file is named after it
            own[key] = namespace[key] = numba.njit(function, cache=True, **options)
        for kernel in own.values():
            carried.made(kernel)
    return own


def _bound(function: FunctionType, seam: Mapping[str, Any]) -> FunctionType:
    """A function of another kernel module in which the seam is bound, there and in what it calls; itself, if it uses none."""
    inner: dict[str, Any] = {}
    for name in _names(function.__code__):
        callee = function.__globals__.get(name)
        if not isinstance(callee, FunctionType) or callee is function:
            continue
        if callee.__name__ == "_placeholder":
            inner.update({name: seam[name]} if name in seam else {})
        elif (bound := _bound(callee, seam)) is not callee:
            inner[name] = bound
    if not inner:
        return function
    names = {**function.__globals__, **inner}
    return FunctionType(function.__code__, names, function.__name__, function.__defaults__)


def _deep_jit(function: Any, done: dict[int, Any], options: Mapping[str, Any], which: str) -> Any:
    """A function compiled together with every Python function that it calls.

    ``which`` becomes part of their names. Numba's symbol for a function has its name and a number that starts anew in
    every process. So a function from the cache may have the symbol of another that this process has compiled: if only
    the numbers tell them apart, the linker takes one for the other.
    """
    if not isinstance(function, FunctionType):
        return function
    if id(function) in done:
        return done[id(function)]
    done[id(function)] = function  # a recursive function calls itself as it is, which numba knows
    names = {
        name: function.__globals__[name]
        for name in _names(function.__code__)
        if isinstance(function.__globals__.get(name), FunctionType)
    }
    inner = {name: _deep_jit(callee, done, options, which) for name, callee in names.items()}
    cells = None
    if function.__closure__:
        cells = tuple(
            types.CellType(_deep_jit(cell.cell_contents, done, options, which))
            for cell in function.__closure__
        )
    globals_ = {**function.__globals__, **inner}
    globals_["__name__"] = __name__  # what is cached names a module that every process can import
    copy = FunctionType(function.__code__, globals_, function.__name__, function.__defaults__, cells)
    copy.__qualname__ = f"{function.__name__}_{which}"
    # In a function of the user, an index outside of an array is an IndexError, as in Python.
    done[id(function)] = numba.njit(copy, boundscheck=not _is_ours(function), **options)
    return done[id(function)]


def _is_ours(function: FunctionType) -> bool:
    return str(function.__globals__.get("__name__")).partition(".")[0] == "windrow"


def fingerprint(*things: Any) -> str:
    """A stable hash of functions (their code, constants and callees) and plain values."""
    digest = hashlib.sha256(f"numba {numba.__version__} numpy {np.__version__}".encode())
    seen: dict[int, int] = {}
    for thing in things:
        _digest(thing, digest, seen)
    return digest.hexdigest()


def _digest(thing: Any, digest: Any, seen: dict[int, int]) -> None:
    if isinstance(thing, FunctionType):
        if id(thing) in seen:  # which one it is matters: max(min(a, b), max) is not max(min(a, b), min)
            digest.update(f"#{seen[id(thing)]};".encode())
            return
        seen[id(thing)] = len(seen)
        _digest(thing.__code__, digest, seen)
        _digest(thing.__defaults__, digest, seen)
        for cell in thing.__closure__ or ():
            _digest(cell.cell_contents, digest, seen)
        for name in sorted(_names(thing.__code__)):
            if name in thing.__globals__ and not isinstance(thing.__globals__[name], ModuleType):
                digest.update(name.encode())
                _digest(thing.__globals__[name], digest, seen)
    elif isinstance(thing, types.CodeType):
        digest.update(thing.co_code)
        digest.update(repr((thing.co_names, thing.co_varnames, thing.co_freevars)).encode())
        for constant in thing.co_consts:
            _digest(constant, digest, seen)
    elif isinstance(thing, tuple | list):
        digest.update(b"(")
        for entry in thing:
            _digest(entry, digest, seen)
        digest.update(b")")
    elif isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype}{thing.shape}".encode() + thing.tobytes())
    elif isinstance(thing, int | float | complex | str | bytes | bool | None | np.generic | np.dtype):
        digest.update(f"{type(thing).__name__}{thing!r};".encode())
    elif isinstance(thing, numba.core.dispatcher.Dispatcher):
        digest.update(str(thing.py_func.__module__).encode())  # cached code finds its callees by module
        _digest(thing.py_func, digest, seen)
    elif isinstance(thing, type | types.BuiltinFunctionType | np.ufunc):
        digest.update(f"{getattr(thing, '__module__', 'numpy')}.{thing.__name__};".encode())
    else:  # an object that has no stable form: its hash holds in this process only
        _ALIVE.append(thing)
        digest.update(_SALT + str(id(thing)).encode())


_SALT = os.urandom(16)
_ALIVE: list[Any] = []
"""Objects that were hashed by their id, which must not be given to another."""


def _names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


class _Kernel:
    """A compiled function, and what to call if it does not compile.

    ``compiled`` is the lean form, which other kernels are compiled with. It is called first; the full form if
    the lean one allocates; the interpreted form if neither compiles.
    """

    def __init__(self, lean: Any, others: Iterator[Any], warn: _Warning) -> None:
        self.compiled, self._current = lean, lean
        self._others, self._warn = others, warn

    def __call__(self, *arguments: Any) -> Any:
        try:
            return carried.use(self._current)(*arguments)
        except _NOT_COMPILED as problem:
            full = next(self._others)
            if self._current is self.compiled and "NRT" in str(problem):
                self._current = full
                return self(*arguments)
            self._current = next(self._others, full)
            self._warn(problem)
            return self._current(*arguments)


_NOT_COMPILED = (numba.core.errors.NumbaError, numba.core.errors.UnsupportedBytecodeError)


class _Warning:
    """Warns once, for all kernels of an aggregate, that they are interpreted, and why."""

    def __init__(self, aggregate: str) -> None:
        self.aggregate, self.given = aggregate, False

    def __call__(self, problem: Exception) -> None:
        if self.given:
            return
        self.given = True
        lines = [re.sub("\x1b\\[[0-9;]*m", "", line).strip() for line in str(problem).splitlines()]
        told = next((line for line in lines if line and not line.startswith("Failed in")), "unknown")
        warnings.warn(
            f"{self.aggregate} does not compile and runs interpreted, much slower. numba says: {told}",
            CompileWarning,
            stacklevel=4,
        )


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without numpy's warnings, as compiled code has none."""
    return np.errstate(all="ignore")(function)  # an instance each: numpy 1 keeps the old settings in it


@cache
def _code(module: ModuleType) -> types.CodeType:
    return compile(_source(module), str(module.__file__), "exec", dont_inherit=True)


@cache
def _module_token(module: ModuleType) -> str:
    """A hash of this module and a kernel module. Their sources are long, and do not change while a process runs."""
    return fingerprint(_source(sys.modules[__name__]), module.__name__, *_sources(module))


@cache
def _sources(module: ModuleType) -> tuple[str, ...]:
    """The source of a kernel module, and of every module of windrow from which it imports, itself or through other kernels."""
    found: dict[str, str] = {}
    left = [module]
    while left:
        one = left.pop()
        if one.__name__ in found:
            continue
        found[one.__name__] = _source(one)
        if one is module or one.__name__.startswith("windrow.kernels."):
            left += [sys.modules[name] for name in _imported(one)]
    return tuple(found[name] for name in sorted(found))


def _imported(module: ModuleType) -> set[str]:
    names = {
        value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        for value in vars(module).values()
    }
    return {name for name in names if isinstance(name, str) and name.startswith("windrow.")}


@cache
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)
