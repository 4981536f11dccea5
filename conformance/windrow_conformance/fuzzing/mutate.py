# SPDX-License-Identifier: Apache-2.0
"""Changes of texts, of bytes and of plain values."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from random import Random
from typing import Any

WILD = [
    -(2**63),
    -(2**62),
    -(2**31),
    -2,
    -1,
    0,
    1,
    2,
    5,
    31,
    32,
    2**31,
    2**48 | 1,
    7 << 48 | 3,
    2**60,
    2**62,
    2**63 - 1,
]
OTHERS: list[Any] = [
    None,
    True,
    -1,
    2**70,
    1.5,
    float("nan"),
    float("inf"),
    "",
    "x",
    "1h",
    [],
    [[]],
    {},
    {"kind": "time"},
]
SIGNS = list("()[]{}\"'`.,:;=<>!+-*/%\\ \n\t\0_#@$|&~^0179axeE\xe9\ud800")


def text(given: str, words: Sequence[str], random: Random) -> str:
    """A text with a few changes: pieces left out, doubled, moved, or replaced by words of its language."""
    for _ in range(random.choice([1, 1, 1, 2, 3, 6])):
        begin = random.randrange(len(given) + 1)
        end = min(len(given), begin + random.choice([0, 1, 1, 2, 4, 9, 30]))
        how = random.random()
        if how < 0.3:
            put = random.choice(words)
        elif how < 0.5:
            put = random.choice(SIGNS) * random.choice([1, 1, 1, 2, 50])
        elif how < 0.6:
            put = str(random.choice(WILD))
        elif how < 0.75:
            put = given[begin:end] * random.choice([0, 2, 3])
        elif how < 0.8:
            put = "(" * random.choice([10, 300, 3000])
        else:
            put = ""
        given = given[:begin] + put + given[end:]
    return given


def data(given: bytes, random: Random) -> bytes:
    """Bytes with a few changes: bits, numbers, pieces left out, doubled or cut off."""
    for _ in range(random.choice([1, 1, 2, 4])):
        if not given:
            return bytes([random.randrange(256)])
        begin = random.randrange(len(given))
        how = random.random()
        if how < 0.5:
            given = given[:begin] + bytes([given[begin] ^ (1 << random.randrange(8))]) + given[begin + 1 :]
        elif how < 0.7:
            number = random.choice(WILD).to_bytes(8, "little", signed=True)[: random.choice([1, 2, 4, 8])]
            given = given[:begin] + number + given[begin + len(number) :]
        elif how < 0.8:
            given = given[:begin]
        elif how < 0.9:
            given = given[:begin] + given[begin + random.randrange(1, 20) :]
        else:
            given = given[:begin] + given[begin : begin + 20] + given[begin:]
    return given


def plain(value: Any, random: Random, words: Sequence[str] = ("x",)) -> Any:
    """The same value but for one change, somewhere in it."""
    if random.random() < 0.06:
        return copy.deepcopy(random.choice(OTHERS))
    if isinstance(value, dict) and value:
        name = random.choice(list(value))
        how = random.random()
        if how < 0.06:
            return {other: entry for other, entry in value.items() if other != name}
        if how < 0.12:
            return {**value, random.choice(words): plain(value[name], random, words)}
        return {**value, name: plain(value[name], random, words)}
    if isinstance(value, list) and value:
        place = random.randrange(len(value))
        if random.random() < 0.3:
            return random.choice([value[:place], value + value[place:], value[::-1]])
        return [*value[:place], plain(value[place], random, words), *value[place + 1 :]]
    if isinstance(value, str) and value:
        return random.choice([random.choice(words), text(value, words, random), text(value, words, random)])
    if type(value) is int:
        return random.choice([*WILD, value + 1, value - 1, float(value), str(value)])
    return copy.deepcopy(random.choice([*OTHERS, random.choice(words)]))
