"""The tables in the documentation that say what the code can do, made from the code.

``python docs/support.py`` writes them into the pages, between the comments ``<!-- table: NAME -->`` and
``<!-- end -->``. A test fails if a page holds another table than the code would give.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from windrow.aggregates import Aggregate
from windrow.algorithms import REGISTRY
from windrow.errors import AggregateError
from windrow.windows.base import KINDS

DOCS = Path(__file__).parent
PAGES = ("aggregates.md", "algorithms.md", "windows.md")
CARD = ("Order", "Operator", "Combines", "Space")
PROPERTIES = ("commutative", "invertible", "selective")
ADAPTERS = ("FromBeam", "FromFlink", "ProductOf")  # made by functions, of other aggregates
OF_ROWS = ("Apply", "LevenbergMarquardt", "Skyline", "Slider")  # functions of all rows of a window


def main() -> None:
    for name in PAGES:
        page = DOCS / name
        page.write_text(filled(page.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """A page with its tables as the code gives them now."""
    return re.sub(
        r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{TABLES[found[2]]()}\n\n{found[3]}",
        text,
        flags=re.S,
    )


def aggregates() -> str:
    """Every aggregate, bound to float64 columns, and to int64 columns where that makes a difference."""
    heads = [
        "aggregate",
        "what it is",
        "result",
        "regrouping",
        "partial",
        "properties",
    ]
    return _table(
        heads,
        (
            _aggregate(kind)
            for name, kind in sorted(Aggregate.kinds.items())
            if name not in (*ADAPTERS, *OF_ROWS)
        ),
    )


def _aggregate(kind: type[Aggregate]) -> list[str]:
    aggregate = kind()
    floats = aggregate.bind()
    try:
        integers = aggregate.bind([pa.int64()] * aggregate.arity)
    except AggregateError:
        integers = floats

    def either(show: Callable[[Any], str]) -> str:
        ours, theirs = show(floats), show(integers)
        return ours if ours == theirs else f"{ours or 'no'}; integers: {theirs or 'no'}"

    return [
        f"`{kind.__name__}`",
        _first_sentence(kind),
        either(lambda monoid: f"`{monoid.output}`".replace("item: ", "")),
        either(
            lambda monoid: f"{monoid.tolerance:.0e}".replace("e-0", "e-") if monoid.tolerance else "same bits"
        ),
        either(lambda monoid: f"{monoid.width:,} B" if monoid.typed else "objects"),
        either(lambda monoid: ", ".join(name for name in PROPERTIES if getattr(monoid, name))),
    ]


def algorithms() -> str:
    """Every algorithm, as its docstring describes it."""
    return _table(
        ["algorithm", "idea", "order", "operator", "combines per slide", "space"],
        (
            [f"`{name}`", _first_sentence(kind), *(_card(kind)[line] for line in CARD)]
            for name, kind in sorted(REGISTRY.items())
        ),
    )


def papers() -> str:
    return "\n".join(f"- {name}: {_card(kind)['Paper']}" for name, kind in sorted(REGISTRY.items()))


def windows() -> str:
    """Every kind of window."""
    return _table(
        ["window", "in JSON", "context", "trigger"],
        (
            [f"`{kind.__name__}`", f"`{name}`", kind.context, kind.trigger]
            for name, kind in sorted(KINDS.items())
        ),
    )


def _first_sentence(kind: type) -> str:
    paragraph = (inspect.getdoc(kind) or "").split("\n\n")[0]
    return _markdown(re.split(r"(?<=\.)\s", paragraph, maxsplit=1)[0])


def _card(kind: type) -> dict[str, str]:
    """The list at the end of an algorithm's docstring."""
    items = re.findall(r"^- (.*(?:\n  .*)*)", inspect.getdoc(kind) or "", re.M)
    card = {}
    for item in items:
        name = re.match(r"\w+", item)
        assert name is not None, item
        card[name[0]] = _markdown(re.sub(r"^(\w+:|Combines per slide[:,]|Combines[:,]) ", "", item, count=1))
    card["Order"], _, card["Operator"] = (part.strip() for part in card["Order"].partition("Operator:"))
    return card


def _markdown(text: str) -> str:
    plain = re.sub(r":\w+:`~?([^`]*)`", r"`\1`", " ".join(text.split()))
    return plain.replace("``", "`").replace("|", r"\|")


def _table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES = {"aggregates": aggregates, "algorithms": algorithms, "papers": papers, "windows": windows}

if __name__ == "__main__":
    main()
