# SPDX-License-Identifier: Apache-2.0
"""`windrow doctor`: whether this machine can run windrow, and which engines it can use.

The checks change nothing on the machine, and open no connection to another one. An engine that is installed is started
once, in a process of its own, and computes something small in Python.

>>> examine(start=False)[0].what
'Python'
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from time import perf_counter
from typing import Literal

import click

import windrow

__all__ = ["Finding", "doctor", "examine"]

ADVICE = 40  # columns for what to do, and for signs
SIGNS = {
    "ok": "[green]ok[/]",
    "missing": "[yellow]–[/]",
    "warning": "[yellow]warning[/]",
    "bad": "[red]bad[/]",
}


@click.command()
@click.option("--quick", is_flag=True, help="Do not start the engines.")
def doctor(quick: bool) -> None:
    """Check whether this machine is ready, and say what to do if it is not.

    Starts the engines that are installed. Exits with 1 if windrow cannot work here.
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Column, Table

    console = Console(highlight=False)
    with console.status("looking; starting an engine takes a while"):
        findings = examine(start=not quick)
    what, found = Column("what", no_wrap=True), Column("found", no_wrap=True)
    table = Table("", what, found, "what to do", box=None, pad_edge=False)
    for finding in findings:
        table.add_row(SIGNS[finding.state], finding.what, escape(finding.found), escape(finding.advice))
    longest = max(len(each.what) for each in findings) + max(len(each.found) for each in findings)
    if console.width >= longest + ADVICE:
        console.print(table)
    else:  # what is found, such as a path, is one line that can be copied
        for finding in findings:
            console.print(f"{SIGNS[finding.state]} {finding.what}: {escape(finding.found)}", soft_wrap=True)
            if finding.advice:
                console.print(f"    {escape(finding.advice)}", soft_wrap=True)
    if any(finding.state == "bad" for finding in findings):
        console.print("\nwindrow cannot work here until the lines marked [red]bad[/] are fixed.")
        sys.exit(1)
    console.print("\nwindrow works on this machine; what is marked [yellow]–[/] is optional.")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    `bad`: windrow cannot work; `warning`: a part of it will not; `missing`: optional, and not there.
    """

    what: str
    state: Literal["ok", "missing", "warning", "bad"]
    found: str
    advice: str = ""


def examine(*, start: bool = True) -> list[Finding]:
    """All findings, those about necessary things first. ``start=False`` starts no engine."""
    found = [
        python(),
        library("numpy", "1.26"),
        library("numba", "0.61"),
        library("pyarrow", "16"),
        compile_cache(),
        memory(),
        java(),
    ]
    for finding, adapter in ((spark(), "windrow_spark"), (flink(), "windrow_flink")):
        found.append(finding)
        if start and finding.state == "ok":
            found.append(starts(finding.what, adapter))
    return found


def python() -> Finding:
    """The interpreter is new enough."""
    found = sys.version.split()[0]
    if numbers(found) < (3, 11):
        return Finding("Python", "bad", found, "install windrow in an environment of Python 3.11 or newer")
    return Finding("Python", "ok", found)


def library(name: str, least: str) -> Finding:
    """A library that windrow needs is there, and is new enough."""
    found = version_of(name)
    if found is None:
        return Finding(name, "bad", "not installed", f"pip install '{name}>={least}'")
    if numbers(found) < numbers(least):
        return Finding(name, "bad", found, f"pip install '{name}>={least}'")
    return Finding(name, "ok", found)


def compile_cache() -> Finding:
    """Some folder can keep compiled code; without one, every process compiles again."""
    folders = cache_folders()
    for folder in folders:
        if writable(folder):
            kept = sum(1 for _ in folder.rglob("*.nbc")) if folder.is_dir() else 0
            state = (
                f"{kept} compiled functions" if kept else "empty: the first run compiles, which takes a while"
            )
            return Finding("compile cache", "ok", f"{folder}, {state}")
    advice = "set NUMBA_CACHE_DIR to a folder that can be written; until then every process compiles again"
    return Finding("compile cache", "warning", f"{folders[0]} cannot be written", advice)


def cache_folders() -> list[Path]:
    """Where numba keeps compiled code, in the order in which it tries: beside the source files, then for the user."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return [Path(chosen)]
    user_wide = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba"
    return [Path(windrow.__file__).parent, user_wide]


def writable(folder: Path) -> bool:
    """Whether a file can be made in a folder, or in the nearest one above it that exists."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def memory() -> Finding:
    """There is enough memory for an engine: Spark's JVM takes two gigabytes in the demo."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not on this system
        return Finding("memory", "ok", "unknown on this system")
    if listed := re.search(r"MemAvailable:\s+(\d+)", _text("/proc/meminfo")):
        free = int(listed.group(1)) * 1024
    found = f"{free / 2**30:.1f} GiB available of {total / 2**30:.1f} GiB, {os.cpu_count()} cores"
    if free < 2 * 2**30:
        return Finding(
            "memory", "warning", found, "an engine and its workers need 2 GiB: close other programs first"
        )
    return Finding("memory", "ok", found)


def starts(what: str, adapter: str) -> Finding:
    """The engine starts and runs Python, as `python -m windrow_spark.probe` does."""
    began = perf_counter()
    try:
        ran = subprocess.run(
            [sys.executable, "-m", f"{adapter}.probe"], capture_output=True, text=True, timeout=180
        )
    except subprocess.TimeoutExpired:
        return Finding(
            f"{what} starts", "warning", "not within three minutes", "try again when the machine is less busy"
        )
    if ran.returncode == 0:
        return Finding(f"{what} starts", "ok", f"in {perf_counter() - began:.0f} s, with Python workers")
    lines = [line for line in (ran.stdout + ran.stderr).splitlines() if line.strip()]
    advice = f"run python -m {adapter}.probe to see the whole message; the most common cause is Java, see the line above"
    return Finding(f"{what} starts", "warning", f"no: {lines[-1] if lines else 'no message'}", advice)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def spark() -> Finding:
    """PySpark, if it is there, is a version that windrow supports, with what its stateful operators need."""
    found = engine("pyspark")
    if isinstance(found, Exception):
        return Finding(
            "PySpark", "warning", f"does not import: {found}", "in a clone: pip install '.[spark]'"
        )
    if found is None:
        return Finding("PySpark", "missing", "not installed", "for Spark, in a clone: pip install '.[spark]'")
    if not (4, 1) <= numbers(found) < (4, 4):
        advice = "windrow supports 4.1 to 4.3; in a clone: pip install '.[spark]'"
        return Finding("PySpark", "warning", found, advice)
    protobuf, pandas = version_of("protobuf"), version_of("pandas")
    if protobuf is None or numbers(protobuf) < (6, 33):
        held = f"{found}, with protobuf {protobuf or 'missing'}"
        advice = "stateful streaming needs a newer one: pip install 'protobuf>=6.33'"
        return Finding("PySpark", "warning", held, advice)
    if pandas is None or numbers(pandas) >= (3,):
        held = f"{found}, with pandas {pandas or 'missing'}"
        advice = "PySpark is tested with pandas 2: pip install 'pandas>=2.2,<3'"
        return Finding("PySpark", "warning", held, advice)
    return Finding("PySpark", "ok", found)


def flink() -> Finding:
    """PyFlink, if it is there, is a version that windrow supports, in an environment without PySpark."""
    found = engine("pyflink")
    if isinstance(found, Exception):
        return Finding(
            "PyFlink", "warning", f"does not import: {found}", "in a clone: pip install '.[flink]'"
        )
    if found is None:
        advice = "for Flink, in a separate environment, in a clone: pip install '.[flink]'"
        return Finding("PyFlink", "missing", "not installed", advice)
    if numbers(found)[:2] != (2, 3):
        return Finding(
            "PyFlink", "warning", found, "windrow supports 2.3; in a clone: pip install '.[flink]'"
        )
    if engine("pyspark") is not None:
        advice = "Spark and Flink need conflicting libraries: give each its own environment"
        return Finding("PyFlink", "warning", f"{found}, beside PySpark", advice)
    return Finding("PyFlink", "ok", found)


def java() -> Finding:
    """There is a Java that both engines run on. Without an engine, none is needed."""
    engines = [name for name in ("pyspark", "pyflink") if engine(name) is not None]
    absent: Literal["warning", "missing"] = "warning" if engines else "missing"
    advice = "the engines need Java 17: install a full JDK or JRE and set JAVA_HOME"
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return Finding("Java", absent, "not found on PATH, and JAVA_HOME is not set", advice)
    try:
        ran = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", absent, f"{command} does not run: {error}", advice)
    quoted = re.search(r'version "([^"]+)"', ran.stderr + ran.stdout)
    found = quoted.group(1) if quoted else "unknown"
    if numbers(found) < (17,):
        return Finding("Java", absent, f"{found} ({command})", advice)
    return Finding("Java", "ok", f"{found} ({command})")


def engine(name: str) -> str | Exception | None:
    """The version of an engine's package; None if it is not there, the error if it does not import."""
    try:
        return str(import_module(f"{name}.version").__version__)
    except ModuleNotFoundError as error:
        return None if error.name == name else error
    except Exception as error:  # whatever the import raises is reported to the user
        return error


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution; None if it is not installed."""
    try:
        return installed_version(distribution)
    except PackageNotFoundError:
        return None


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version, to compare by.

    >>> numbers("0.61.2rc1"), numbers("17.0.15") >= (17,), numbers("unknown")
    ((0, 61, 2), True, ())
    """
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in leading.group().split(".")) if leading else ()
