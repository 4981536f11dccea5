"""Docstrings as Markdown for the reference: doctests become code blocks, Sphinx roles become code, ``::`` becomes ``:``.

A griffe extension; ``mkdocs.yml`` names it. In the code, docstrings stay what Python's own tools read.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.M)
_ROLE = re.compile(r":\w+:`~?\.?(?:[\w.]+\.)?(\w+)`")
_LITERAL = re.compile(r"::[ ]*\n\n(?P<block>(?:[ ]{4}.*\n?|[ ]*\n)+)")


class Markdown(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """The same text for a reader of the site."""
    text = _LITERAL.sub(lambda found: f":\n\n```text\n{_dedented(found['block'])}\n```\n\n", text)
    text = _DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
    return re.sub(r"^:\n", "", _ROLE.sub(r"`\1`", text), flags=re.M)


def _dedented(block: str) -> str:
    return "\n".join(line[4:] for line in block.rstrip().split("\n"))
