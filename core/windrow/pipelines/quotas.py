# SPDX-License-Identifier: Apache-2.0
"""How much one owner, one stream and one update may take."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Quotas"]


@dataclass(frozen=True)
class Quotas:
    """How much one owner may have. Exceeding one is refused when put, or stops an update's tree and is reported."""

    streams: int = 20_000
    """Streams of one owner."""
    fan_out: int = 20_000
    """Composites on one stream."""
    history: int = 100_000
    """Updates that a stream keeps."""
    executions: int = 100_000
    """Composites that one update may run."""
