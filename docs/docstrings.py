"""Docstrings as Markdown for the reference: doctests become code blocks, Sphinx roles become code, ``::`` becomes ``:``.

Parameters become a table: name, type, default, and what the docstring says about it, in a list of definitions or in
the sentence that is about the parameter. A griffe extension; ``mkdocs.yml`` names it. In the code, docstrings stay
what Python's own tools read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from griffe import Class, Extension, Function, Module, Object, Parameter

_DOCTEST = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.M)
_FLAG = re.compile(r"[ ]*# doctest:.*$", re.M)
_ROLE = re.compile(r":\w+:`~?\.?(?:[\w.]+\.)?(\w+)`")
_LITERAL = re.compile(r"::[ ]*\n\n(?P<block>(?:[ ]{4}.*\n?|[ ]*\n)+)")
_DEFINITION = re.compile(r"^(?P<name>\w+)\n(?P<text>(?:[ ]{4}.*\n?)+)", re.M)
_SENTENCE = re.compile(r"(?<=[.:])\s+(?=[A-Z`\"])")


class Markdown(Extension):
    def on_package(self, *, pkg: Module, **_: Any) -> None:
        for found in _objects(pkg):
            if found.docstring is not None:
                found.docstring.value = documented(found.docstring.value, _parameters(found))


def documented(text: str, parameters: Iterable[Parameter] = ()) -> str:
    """A docstring for a reader of the site, with a table of the parameters before its examples."""
    parameters = list(parameters)
    said: Mapping[str, str] = {}
    if parameters:
        names = {parameter.name for parameter in parameters}
        said = {
            found["name"]: found["text"] for found in _DEFINITION.finditer(text) if found["name"] in names
        }
        text = _DEFINITION.sub(lambda found: "" if found["name"] in names else found[0], text)
    prose, examples = _parts(text)
    table = _table(parameters, said, prose)
    return markdown("\n\n".join(part for part in (prose, table, examples) if part))


def markdown(text: str) -> str:
    """The same text in Markdown."""
    text = _LITERAL.sub(lambda found: f":\n\n```text\n{_dedented(found['block'])}\n```\n\n", text)
    text = _DOCTEST.sub(lambda found: f"```pycon\n{_FLAG.sub('', found[0])}\n```", text)
    return re.sub(r"^:\n", "", _ROLE.sub(r"`\1`", text), flags=re.M)


def _objects(module: Module | Class) -> Iterator[Object]:
    """A module or class with everything that is defined in it."""
    yield module
    for member in module.members.values():
        if isinstance(member, Module | Class):
            yield from _objects(member)
        elif isinstance(member, Object):
            yield member


def _parameters(found: Object) -> list[Parameter]:
    if not isinstance(found, Function | Class):
        return []
    return [parameter for parameter in found.parameters if parameter.name not in ("self", "cls")]


def _parts(text: str) -> tuple[str, str]:
    """What is told, and what is shown."""
    start = _DOCTEST.search(text)
    return (text[: start.start()].rstrip(), text[start.start() :]) if start else (text.rstrip(), "")


def _table(parameters: list[Parameter], said: Mapping[str, str], prose: str) -> str:
    """A line for each parameter; nothing if the docstring says nothing about any of them."""
    sentences = _SENTENCE.split(" ".join(_LITERAL.sub("", prose).split()))
    meanings = {
        parameter.name: " ".join(said.get(parameter.name, "").split()) or _about(parameter.name, sentences)
        for parameter in parameters
    }
    if not any(meanings.values()):
        return ""
    lines = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
    for parameter in parameters:
        default = "" if parameter.default is None or parameter.required else f"`{parameter.default}`"
        kind = f"`{parameter.annotation}`" if parameter.annotation is not None else ""
        lines.append(f"| `{parameter.name}` | {kind} | {default} | {meanings[parameter.name]} |")
    return "\n".join(lines)


def _about(name: str, sentences: list[str]) -> str:
    """The sentence that begins with a parameter, or else the first one that mentions it."""
    begins = [sentence for sentence in sentences if sentence.startswith(f"``{name}``")]
    mentions = [sentence for sentence in sentences if re.search(rf"``{name}\b", sentence)]
    return next(iter(begins + mentions), "")


def _dedented(block: str) -> str:
    return "\n".join(line[4:] for line in block.rstrip().split("\n"))
