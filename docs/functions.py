"""The tables of functions on the pages about migration, as data: what others write, and what windrow writes for it.

A table stands below ``<!-- functions -->``. Its cells hold code, one column for each library, the last but one for
windrow, and the last says how the results compare. A second piece of code in windrow's cell is the field of a struct.
Tests run every cell on the rows of ``rows`` and compare: a table cannot say what is not so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

SAME, REORDERED = "same", "same values in another order"
ROUNDED, ESTIMATED = "same up to rounding", "both are estimates"
SAME_HERE = (
    "same without NaN",
    "same without nulls",
    "same without nulls and NaN",
    "same on rows in order",
    "same on rows in order and without nulls",
)
"""The same on the rows of :func:`rows`, which are in order and have neither; the rest of the cell says what differs."""
_CODE = re.compile(r"`([^`]+)`")
_START = datetime(2024, 1, 1, 8)


@dataclass(frozen=True)
class Function:
    """One line: the code of each library that has the function, ours, the field of ours, and how results compare."""

    theirs: Mapping[str, str]
    ours: str
    field: str | None
    results: str


def functions(page: Path) -> list[Function]:
    """The lines of the table of a page."""
    text = page.read_text(encoding="utf-8").partition("<!-- functions -->\n")[2]
    lines = [line for line in text.lstrip().partition("\n\n")[0].splitlines() if line.startswith("|")]
    heads, _, *rows = ([cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines)
    found = []
    for cells in rows:
        ours, *field = _CODE.findall(cells[-2])
        theirs = {
            name: _CODE.findall(cell)[0] for name, cell in zip(heads[:-2], cells, strict=False) if "`" in cell
        }
        found.append(Function(theirs, ours, field[0] if field else None, cells[-1].partition(":")[0]))
    return found


def rows(plugs: Sequence[str] = ("desk", "lamp"), seconds: int = 400) -> dict[str, list[Any]]:
    """Readings in order of time: no value and no time of a plug occurs twice."""
    numbers = range(seconds * len(plugs))
    return {
        "plug": [plugs[n % len(plugs)] for n in numbers],
        "ts": [_START + timedelta(seconds=n // len(plugs)) for n in numbers],
        "load": [1 + ((n * 7919) % 1009) / 64 + n / 65536 for n in numbers],
        "units": [(n * 31) % 17 for n in numbers],
        "state": [("on", "off", "idle", "fault")[n * n % 11 % 4] for n in numbers],
    }


def compare(line: Function, library: str, theirs: Sequence[Any], ours: Sequence[Any]) -> None:
    """Raises if two columns of results do not compare as the line says."""
    ours = [value[line.field] if line.field and value is not None else value for value in ours]
    wrong = [
        pair
        for pair in zip(theirs, ours, strict=True)
        if not _alike(_plain(pair[0]), _plain(pair[1]), line.results)
    ]
    assert not wrong, f"{line.theirs[library]} and {line.ours} are not {line.results}: {str(wrong[:3])[:300]}"


def _alike(a: Any, b: Any, how: str) -> bool:
    if how == REORDERED:
        return sorted(a) == sorted(b)
    if how == SAME or how in SAME_HERE or a is None or b is None:
        return bool(a == b)
    assert how in (ROUNDED, ESTIMATED), how
    return math.isclose(a, b, rel_tol=1e-9 if how == ROUNDED else 0.1, abs_tol=1e-9)


def _plain(value: Any) -> Any:
    """NaN as none; arrays as lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if isinstance(value, float) and math.isnan(value) else value
