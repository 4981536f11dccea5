# SPDX-License-Identifier: Apache-2.0
"""What differs between two queries, in words.

>>> difference('{"by": ["a"], "late": "side"}', '{"by": ["b"]}')
'by was ["a"] and is ["b"]; late was "side" and is "drop"'
>>> window = '{"window": {"kind": "time", "range": "1h", "slide": "1m"}, "aggregates": {%s}}'
>>> difference(window % "", window.replace("1h", "2h") % '"lo": {"kind": "Min", "column": "v", "invertible": false}')
'added: lo = Min(v); range of the window was "1h" and is "2h"'
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from windrow.query.fingerprint import without_code

__all__ = ["DEFAULTS", "difference"]

DEFAULTS = {"late": "drop", "lateness": "0s", "algorithm": "auto"}
"""What a parameter of a query is that its JSON leaves out."""


def difference(theirs: str, ours: str) -> str:
    """What differs between two queries in JSON, as :attr:`windrow.Query.described` has them."""
    try:
        old, new = json.loads(theirs), json.loads(ours)
    except (ValueError, RecursionError):
        return "the queries cannot be compared"
    if not isinstance(old, dict) or not isinstance(new, dict):
        return "the queries cannot be compared"
    told = list(_changed_code(old, new, ""))
    old, new = without_code({**DEFAULTS, **old}), without_code({**DEFAULTS, **new})
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if name == "aggregates" and isinstance(before, dict) and isinstance(now, dict):
            told += _changed_aggregates(before, now)
        elif name == "window" and _same_kind(before, now):
            told += _changed_entries(before, now, " of the window")
        elif before != now:
            told += _changed_entries(
                {name: before} if name in old else {}, {name: now} if name in new else {}
            )
    return "; ".join(told) or "the queries read the same, but a default changed"


def _same_kind(before: Any, now: Any) -> bool:
    return (
        isinstance(before, dict)
        and isinstance(now, dict)
        and before.get("kind") == now.get("kind") is not None
    )


def _changed_entries(before: dict[str, Any], now: dict[str, Any], of: str = "") -> Iterator[str]:
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            was, is_ = (json.dumps(each[name]) if name in each else "not given" for each in (before, now))
            yield f"{name}{of} was {was} and is {is_}"


def _changed_aggregates(before: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    for name, aggregate in now.items():
        if name not in before:
            yield f"added: {name} = {_shown(aggregate)}"
        elif before[name] != aggregate:
            yield f"changed: {name} was {_shown(before[name])} and is {_shown(aggregate)}"
    for name, aggregate in before.items():
        if name not in now:
            yield f"removed: {name} = {_shown(aggregate)}"
    if before.keys() == now.keys() and list(before) != list(now):
        yield f"the order of the aggregates was {', '.join(before)} and is {', '.join(now)}"


def _shown(aggregate: Any) -> str:
    """An aggregate as it is written in a query, without options that are off.

    >>> _shown({"kind": "Mean", "column": "v", "invertible": False})
    'Mean(v)'
    >>> _shown({"kind": "jobs:Quantile", "where": "v > 0", "column": "v", "q": 0.5})
    'Quantile(v, where="v > 0", q=0.5)'
    """
    if not isinstance(aggregate, dict):
        return json.dumps(aggregate)
    options = {name: value for name, value in aggregate.items() if value is not None and value is not False}
    kind, column = str(options.pop("kind", "?")), options.pop("column", None)
    shown = [] if column is None else [column if isinstance(column, str) else json.dumps(column)]
    shown += [f"{name}={json.dumps(value)}" for name, value in options.items()]
    return f"{kind.rpartition(':')[2]}({', '.join(shown)})"


def _changed_code(old: Any, new: Any, name: str) -> Iterator[str]:
    """Which aggregates or policies have the same name, but other code or another version."""
    if isinstance(old, list) and isinstance(new, list):
        for before, now in zip(old, new, strict=False):
            yield from _changed_code(before, now, name)
    elif isinstance(old, dict) and isinstance(new, dict):
        if (
            "code" in old
            and "code" in new
            and old["code"] != new["code"]
            and old.get("kind") == new.get("kind")
        ):
            where = (
                "the policy of the window"
                if old["kind"] == "policy"
                else f"aggregate {name!r} ({old['kind']})"
            )
            yield f"the code of {where} changed; if it can continue with old state, give it a version="
        for each in old.keys() & new.keys():
            yield from _changed_code(old[each], new[each], each if name in ("", "aggregates") else name)
