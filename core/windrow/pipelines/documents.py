# SPDX-License-Identifier: Apache-2.0
"""Streams and changes as TOML or JSON.

>>> text = '''
... [[stream]]
... name = "council/t1"
... channels = { f = "double" }
... read = ["*"]
... '''
>>> stream_documents(text)
[{'name': 'council/t1', 'channels': {'f': 'double'}, 'read': ['*']}]
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any

from windrow.errors import PipelineError
from windrow.pipelines.streams import Composite, Source

__all__ = ["stream_documents"]


def stream_documents(given: Any) -> list[dict[str, Any]]:
    """The documents of streams in a text, TOML with ``[[stream]]`` or JSON, or in a list."""
    if isinstance(given, str):
        given = _read(given)
    if isinstance(given, Mapping):
        given = given["stream"] if "stream" in given and "name" not in given else [given]
    if isinstance(given, Source | Composite):
        given = [given]
    kinds = (Mapping, Source, Composite)
    if not isinstance(given, list | tuple) or not all(isinstance(each, kinds) for each in given):
        raise PipelineError("streams are a list of documents; in TOML, write [[stream]] before each")
    return [each.to_dict() if isinstance(each, Source | Composite) else dict(each) for each in given]


def _read(text: str) -> Any:
    try:
        return json.loads(text) if text.lstrip().startswith(("{", "[{")) else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise PipelineError(f"the document is neither JSON nor TOML: {error}") from None
