# SPDX-License-Identifier: Apache-2.0
"""The values of an update, checked against the channels of its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from windrow.errors import PipelineError
from windrow.pipelines.streams import Source

__all__ = ["checked", "fits"]

LONGEST = 100_000
"""Characters of a text in an update."""


def checked(source: Source, named: Any) -> tuple[Any, ...]:
    """The values in the order of the channels. A channel that is not given is null; whole numbers become doubles.

    >>> checked(Source("council/t1", channels={"f": "double", "room": "string"}), {"f": 71})
    (71.0, None)
    """
    if not isinstance(named, Mapping):
        raise PipelineError(f"an update of {source.name!r} is an object of channels, not {named!r}")
    channels = source.channels
    if len(named) > len(channels) or not named.keys() <= channels.keys():
        unknown = ", ".join(repr(name) for name in named if name not in channels)
        raise PipelineError(
            f"{source.name!r} has no channel {unknown}; its channels are {', '.join(channels)}"
        )
    return tuple([_value(source, channel, kind, named.get(channel)) for channel, kind in channels.items()])


def fits(values: Any, channels: Mapping[str, pa.DataType]) -> bool:
    """Whether values from a store can be those of a stream with these channels."""
    if len(values) != len(channels):
        return False
    kinds = {pa.bool_(): bool, pa.int64(): int, pa.float64(): float, pa.string(): str}
    return all(
        value is None or (known := kinds.get(kind)) is None or type(value) is known
        for value, kind in zip(values, channels.values(), strict=True)
    )


def _value(source: Source, channel: str, kind: str, value: Any) -> Any:
    found = type(value)
    if value is None or (found is float and kind == "double") or (found is bool and kind == "boolean"):
        return value
    if found is int and kind == "double":
        return float(value)
    if found is int and kind == "bigint" and -(1 << 63) <= value < 1 << 63:
        return value
    if found is str and kind == "string" and len(value) <= LONGEST:
        return value
    shown = repr(value)
    raise PipelineError(f"channel {channel!r} of {source.name!r} is a {kind}, not {shown[:80]}")
