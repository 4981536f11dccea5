# SPDX-License-Identifier: Apache-2.0
"""What spaces, runtimes and the adapters of engines take alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypedDict

from windrow.expressions import Registered
from windrow.imports import Allow
from windrow.pipelines.quotas import Quotas

__all__ = ["RuntimeOptions", "SpaceOptions"]


class SpaceOptions(TypedDict, total=False):
    """Options of :class:`~windrow.pipelines.Space` and :class:`~windrow.pipelines.Runtime`."""

    functions: Mapping[str, Registered] | None
    quotas: Quotas | None
    allow: Allow
    late: Literal["refuse", "now"]
    rounds: Mapping[str, int]


class RuntimeOptions(SpaceOptions, total=False):
    """What an adapter takes besides its own options."""

    order: Literal["event", "arrival"]
    sinks: Iterable[str]
