# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a query: what it computes, as 64 hex digits.

>>> values = {"aggregates": {"n": {"kind": "jobs:Own", "code": "1f"}}, "window": {"kind": "count", "range": 3}}
>>> found = fingerprint_of(values, labelled=False)
>>> len(found), found == found.without_code
(64, False)
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

__all__ = ["Fingerprint", "fingerprint_of", "type_name", "without_code"]


class Fingerprint(str):
    """A fingerprint. ``without_code`` is the one that the query had before fingerprints covered code."""

    def __new__(cls, digits: str, without_code: str) -> Fingerprint:
        return super().__new__(cls, digits)

    def __init__(self, digits: str, without_code: str) -> None:
        self.without_code = without_code

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # pickle takes any number
        return str(self), self.without_code


def fingerprint_of(values: dict[str, Any], *, labelled: bool) -> Fingerprint:
    """The fingerprint of a described query. ``labelled`` says that it has several windows."""
    return Fingerprint(_hashed(values, labelled), _hashed(without_code(values), labelled))


def without_code(values: Any) -> Any:
    """A described query as it was before own aggregates and policies had an entry ``code``."""
    if isinstance(values, dict):
        return {
            name: without_code(each)
            for name, each in values.items()
            if name != "code" or "kind" not in values
        }
    return [without_code(each) for each in values] if isinstance(values, list) else values


def type_name(value: object) -> str:
    """What stands for a value that JSON cannot hold."""
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _hashed(values: dict[str, Any], labelled: bool) -> str:
    values = {**values, "aggregates": list(values["aggregates"].items())}  # their order counts
    if labelled:
        values["window"] = list(values["window"].items())
    canonical = json.dumps(
        values, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=type_name
    )
    return hashlib.sha256(canonical.encode()).hexdigest()
