"""Keeps the house in order: rules about objects, sizes and imports that neither ruff nor mypy checks.

    python core/tests/house.py

prints each violation as ``path:line message`` and ends with exit code 1 if there is any. The rules:

Private names. ``x._name`` is allowed only where x is ``self``, ``cls`` or ``super()``, or, inside a class C, another
object of C. That is: the name C itself, a parameter annotated ``C`` or ``Self``, a name that the same function assigns
from ``C(…)``, ``cls(…)`` or ``type(self)(…)``, or a name that the same function tests with ``isinstance(x, C)``.
``getattr(x, "_name")`` and ``from module import _name`` count as uses. Names with two underscores on both sides and
the methods of named tuples (``_replace``, …) are not private.

Attributes. ``x.name = …``, ``x.name += …`` and ``del x.name`` are allowed only where x is ``self``, ``cls`` or the
name of the class around it. The same holds for ``setattr``, ``delattr`` and ``object.__setattr__``. A class method
that has just made an object passes its state to ``__init__``. Three things are not attributes in this sense: items
(``x.array[i] = …``), names with two underscores on both sides (``function.__qualname__ = …``), and the values of a
``threading.local()`` that the class keeps in one of its own attributes.

Names. No two public classes of our packages share a name: one name, one thing.

Licence. A file of our packages begins with the SPDX identifier of its licence, which is not counted below.

Sizes. A file of core has at most 400 lines. A function has at most 60 lines without its docstring, and at most 8
parameters, or 10 in ``kernels``; ``self`` and ``cls`` do not count.

Imports. ``windrow`` imports no other package of ours, the adapters import ``windrow``, and the conformance suite
imports all of them. In core, ``columns``, ``windows``, ``aggregates`` and ``kernels`` do not import the layers above
them, nor names that the root package re-exports from there.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "windrow": "core",
    "windrow_spark": "spark_ops",
    "windrow_flink": "flink_ops",
    "windrow_conformance": "conformance",
}
"""Our import packages, and the folder that each is in."""

IMPORTS = {
    "windrow": {"windrow"},
    "windrow_spark": {"windrow", "windrow_spark"},
    "windrow_flink": {"windrow", "windrow_flink"},
    "windrow_conformance": set(PACKAGES),
}
LOWER_LAYERS = {"columns", "windows", "aggregates", "kernels"}
UPPER_LAYERS = {"operator", "storage", "cli", "demo", "pipelines"}

LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"
FILE_LINES, FUNCTION_LINES, PARAMETERS, KERNEL_PARAMETERS = 400, 60, 8, 10

CONSTRUCTORS = {
    (("query", "query.py"), "__init__"): "a query has many options; each is a keyword with a default",
    (
        ("windrow_spark", "frames.py"),
        "windowed",
    ): "batch and streaming have options; each is a keyword with a default",
    (("windrow_flink", "stream.py"), "windowed"): "a job has many options; each is a keyword with a default",
    (
        ("windrow_flink", "packed.py"),
        "windowed_packed",
    ): "a job has many options; each is a keyword with a default",
}
"""Public functions with more parameters, with the reason."""

NAMED_TUPLE = {"_replace", "_fields", "_asdict", "_make", "_field_defaults"}

PYFLINK = "PyFlink has no public way to the Java object that it wraps, or to the parts of a type"
FOREIGN_PRIVATE_NAMES = {
    ("windrow_spark", "_jdf"): "PySpark has no public way to what Spark thinks of the size of a DataFrame",
    ("windrow_spark", "_jvm"): "PySpark has no public way to the settings of a context that has started",
    ("windrow_flink", "_basic_type"): PYFLINK,
    ("windrow_flink", "_element_type"): PYFLINK,
    ("windrow_flink", "_from_java_type"): PYFLINK,
    ("windrow_flink", "_gateway"): "get_gateway() would start a JVM where none runs",
    ("windrow_flink", "_j_data_stream"): PYFLINK,
    ("windrow_flink", "_j_job_client"): PYFLINK,
    ("windrow_flink", "_j_stream_execution_environment"): PYFLINK,
    ("windrow_flink", "_j_table"): PYFLINK,
    ("windrow_flink", "_j_watermark_strategy"): PYFLINK,
    ("windrow_flink", "_key_type_info"): PYFLINK,
    ("windrow_flink", "_t_env"): PYFLINK,
    ("windrow_flink", "_type_info"): PYFLINK,
    ("windrow_flink", "_value_type_info"): PYFLINK,
}
"""Private names of other libraries, by our package that uses them, with the reason."""

FOREIGN_ATTRIBUTES = {
    ("windrow", "sync"): "rocksdict's WriteOptions are set by assignment",
    ("windrow_conformance", "text"): "the text of an XML element is set by assignment",
    (
        "windrow_spark",
        "writeStream",
    ): "Spark says to nobody where a checkpoint is before the first micro-batch",
}
"""Attributes of other libraries' objects, by our package that assigns them, with the reason."""

LATE_IMPORTS = {
    (
        "core/windrow/cli/conformance.py",
        "windrow_conformance",
    ): "the command loads the suite when it is called",
}
"""Imports against the direction, by file and imported package, with the reason."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Violation(NamedTuple):
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path.as_posix()}:{self.line} {self.message}"


def check(path: Path, source: str) -> list[Violation]:
    """The violations in one file, by line. ``path`` is relative to the root of the repository."""
    tree = ast.parse(source)
    found = [*_objects(path.parts[1], tree), *_sizes(path, source, tree), *_imports(path, tree)]
    return [Violation(path, line, message) for line, message in sorted(set(found))]


def files() -> Iterator[Path]:
    for package, folder in PACKAGES.items():
        yield from sorted((ROOT / folder / package).rglob("*.py"))


def main() -> int:
    found = []
    sources = {file.relative_to(ROOT): file.read_text(encoding="utf-8") for file in files()}
    for path, source in sources.items():
        if not source.startswith(LICENCE):
            found.append(Violation(path, 1, f"file does not begin with {LICENCE.strip()!r}"))
        found += check(path, source)
    found += shared_names(sources)
    for violation in found:
        print(violation)
    return 1 if found else 0


def shared_names(sources: Mapping[Path, str]) -> Iterator[Violation]:
    """Public classes at the top of a module whose name another module has used already."""
    first: dict[str, Path] = {}
    for path, source in sources.items():
        for node in ast.parse(source).body:
            if isinstance(node, ast.ClassDef) and not _is_private(node.name):
                if node.name in first:
                    message = f"class {node.name} has the name of another in {first[node.name].as_posix()}"
                    yield Violation(path, node.lineno, message)
                first.setdefault(node.name, path)


# Private names and attributes.

Finding = tuple[int, str]
ASSIGNING = ("setattr", "delattr", "object.__setattr__", "object.__delattr__")


def _objects(package: str, tree: ast.Module) -> list[Finding]:
    visitor = _Objects(package)
    visitor.visit(tree)
    return visitor.found


class _Objects(ast.NodeVisitor):
    """Walks a module and knows, at each place, which names stand for the object itself."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.found: list[Finding] = []
        self.readable = self.assignable = frozenset({"self", "cls"})
        self.class_name = ""
        self.thread_locals: frozenset[str] = frozenset()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        outside = self.readable, self.assignable, self.class_name, self.thread_locals
        self.class_name, self.thread_locals = node.name, _thread_locals(node)
        self.readable = self.assignable = frozenset({"self", "cls", node.name})
        self.generic_visit(node)
        self.readable, self.assignable, self.class_name, self.thread_locals = outside

    def visit_FunctionDef(self, node: Function) -> None:
        outside = self.readable
        if self.class_name:
            self.readable |= _instances(node, self.class_name)
        self.generic_visit(node)
        self.readable = outside

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if not isinstance(node.ctx, ast.Load) and not _is_one_of(node.value, self.assignable):
            self._assigned(node, node.attr, ast.unparse(node))
        if not _is_one_of(node.value, self.readable) and not _is_super(node.value):
            self._read(node, node.attr, ast.unparse(node))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = ast.unparse(node.func)
        if len(node.args) > 1:
            owner, name = node.args[0], _text(node.args[1])
            written = f"{ast.unparse(owner)}.{name or '…'}"
            if called in ASSIGNING and not _is_one_of(owner, self.assignable):
                self._assigned(node, name, written)
            if called in ("getattr", "hasattr", *ASSIGNING) and not _is_one_of(owner, self.readable):
                self._read(node, name, written)
        self.generic_visit(node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._read(node, alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}")

    def _assigned(self, node: ast.expr, name: str, written: str) -> None:
        foreign = (self.package, name) in FOREIGN_ATTRIBUTES
        if not foreign and not _is_dunder(name) and written.rpartition(".")[0] not in self.thread_locals:
            self.found.append((node.lineno, f"assigns an attribute of another object: {written}"))

    def _read(self, node: ast.expr | ast.stmt, name: str, written: str) -> None:
        if _is_private(name) and (self.package, name) not in FOREIGN_PRIVATE_NAMES:
            self.found.append((node.lineno, f"uses a private name of another object: {written}"))


def _is_private(name: str) -> bool:
    return name.startswith("_") and name != "_" and not _is_dunder(name) and name not in NAMED_TUPLE


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _is_one_of(node: ast.expr, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "super"


def _instances(function: Function, class_name: str) -> frozenset[str]:
    """The names of a function that hold an instance of the class around it."""
    makers, types = {class_name, "cls", "type(self)"}, {class_name, "Self"}
    names = {
        argument.arg
        for argument in _parameters(function)
        if argument.annotation is not None
        and (_text(argument.annotation) or ast.unparse(argument.annotation)) in types
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance":
            tested, type_ = node.args
            names |= (
                {tested.id} if isinstance(tested, ast.Name) and ast.unparse(type_) == class_name else set()
            )
        for target, value in _assignments(node):
            if (
                isinstance(target, ast.Name)
                and isinstance(value, ast.Call)
                and ast.unparse(value.func) in makers
            ):
                names.add(target.id)
    return frozenset(names)


def _thread_locals(of: ast.ClassDef) -> frozenset[str]:
    """The attributes that a class sets to a ``threading.local()``, as ``self.name``."""
    makers = {"threading.local()", "local()"}
    return frozenset(
        ast.unparse(target)
        for node in ast.walk(of)
        for target, value in _assignments(node)
        if ast.unparse(value) in makers
    )


def _assignments(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What a node assigns to, and what it assigns."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield node.target, node.value


def _text(node: ast.expr) -> str:
    """The value of a string literal; nothing for another expression."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# Sizes.


def _sizes(path: Path, source: str, tree: ast.Module) -> Iterator[Finding]:
    lines = len(source.removeprefix(LICENCE).splitlines())
    if path.parts[0] == "core" and lines > FILE_LINES:
        yield 1, f"file has {lines} lines, more than {FILE_LINES}"
    most = KERNEL_PARAMETERS if "kernels" in path.parts else PARAMETERS
    for node in ast.walk(tree):
        if isinstance(node, Function):
            lines, parameters = _lines(node), len(_parameters(node))
            if lines > FUNCTION_LINES:
                yield node.lineno, f"function {node.name} has {lines} lines, more than {FUNCTION_LINES}"
            if parameters > most and (path.parts[-2:], node.name) not in CONSTRUCTORS:
                yield node.lineno, f"function {node.name} has {parameters} parameters, more than {most}"


def _lines(function: Function) -> int:
    """From ``def`` to the last line, without the docstring."""
    last, first = function.end_lineno or function.lineno, function.body[0]
    docstring = 0
    if ast.get_docstring(function, clean=False) is not None:
        docstring = (first.end_lineno or first.lineno) - first.lineno + 1
    return last - function.lineno + 1 - docstring


def _parameters(function: Function) -> list[ast.arg]:
    """All parameters, without ``self`` and ``cls``."""
    declared = function.args
    named = [*declared.posonlyargs, *declared.args, *declared.kwonlyargs]
    rest = [argument for argument in (declared.vararg, declared.kwarg) if argument is not None]
    return [argument for argument in (*named, *rest) if argument.arg not in ("self", "cls")]


# Imports.


def _imports(path: Path, tree: ast.Module) -> Iterator[Finding]:
    package, layer = path.parts[1], path.parts[2] if len(path.parts) > 3 else ""
    lower = package == "windrow" and layer in LOWER_LAYERS
    for line, module, name in _imported(path, tree):
        top, _, below = (f"{module}.{name}" if name else module).partition(".")
        if top in PACKAGES and top not in IMPORTS[package] and (path.as_posix(), top) not in LATE_IMPORTS:
            yield line, f"{package} imports {top}; only {top} may import {package}"
        if not lower or top != "windrow":
            continue
        if below.partition(".")[0] in UPPER_LAYERS:
            yield line, f"{layer} imports windrow.{below}; it may not import the layers above it"
        elif module == "windrow" and not _is_module(below):
            yield (
                line,
                f"{layer} imports {below or 'windrow'} from the root package; import it from its own module",
            )


def _imported(path: Path, tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, module and name of everything that a file imports, wherever in the file; no name for ``import m``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                here = path.parts[1 : len(path.parts) - node.level]
                module = ".".join([*here, *([module] if module else [])])
            yield from ((node.lineno, module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module") and node.args:
            yield node.lineno, _text(node.args[0]), ""


def _is_module(name: str) -> bool:
    place = ROOT / "core" / "windrow" / name
    return bool(name) and (place.is_dir() or place.with_suffix(".py").is_file())


if __name__ == "__main__":
    sys.exit(main())
