# SPDX-License-Identifier: Apache-2.0
"""How much one owner, one stream and one update may take."""

from __future__ import annotations

from dataclasses import dataclass

from windrow.errors import PipelineError
from windrow.pipelines.streams import Stream

__all__ = ["UNLIMITED", "Quotas"]


@dataclass(frozen=True)
class Quotas:
    """Limits of a space."""

    streams: int = 100_000
    """Streams of one owner."""
    fan_out: int = 20_000
    """Composites on one stream."""
    history: int = 100_000
    """Updates that a stream keeps."""
    executions: int = 100_000
    """Composites that one update may run."""

    def check(self, stream: Stream, owned: int | None) -> None:
        """Refuse a stream that keeps too much, or whose owner has too many. ``owned`` is None if it was there before."""
        if stream.history > self.history:
            raise PipelineError(
                f"history of {stream.name!r} is {stream.history}; at most {self.history} are kept here"
            )
        if owned is not None and owned >= self.streams:
            raise PipelineError(f"{stream.owner!r} has {self.streams} streams, the limit here")

    def check_fan_out(self, name: str, before: int, after: int) -> None:
        """Refuse more composites on a stream than a space takes. What is there already can stay."""
        if after > max(self.fan_out, before):
            raise PipelineError(
                f"{name!r} would have {after} composites on it; at most {self.fan_out} are possible here"
            )


UNLIMITED = Quotas(*[1 << 62] * 4)
