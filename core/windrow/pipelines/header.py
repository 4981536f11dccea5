# SPDX-License-Identifier: Apache-2.0
"""The first page of a space's store: how far it has come."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from windrow.errors import CorruptSnapshot, PipelineError, WindrowError
from windrow.pipelines.changes import Id
from windrow.pipelines.rows import id_of
from windrow.pipelines.state import encode, read_page, write_page

__all__ = ["SpaceHeader"]

FORMAT = 1


@dataclass(frozen=True)
class SpaceHeader:
    """Numbers of a commit."""

    order: str
    position: Id
    watermark: int
    reached: int
    source: str
    changes: int
    arrived: int
    waiting: int

    def page(self) -> bytes:
        # Earlier versions of this format read the ticks.
        return write_page(encode({"format": FORMAT, **asdict(self), "ticks": 0}))

    @classmethod
    def read(cls, page: bytes, order: str) -> SpaceHeader:
        """The header in a page, of a space with this order."""
        found = read_page(page, "a space")
        try:
            if found["format"] > FORMAT:
                raise CorruptSnapshot(
                    f"the space has format {found['format']}, this windrow reads up to {FORMAT}"
                )
            if found["order"] != order:
                raise PipelineError(
                    f"the space was made with order={found['order']!r}; open it with the same"
                )
            numbers = {
                name: int(found[name]) for name in ("watermark", "reached", "changes", "arrived", "waiting")
            }
            position = Id(*id_of((*found["position"], {})))
            return cls(order=order, position=position, source=str(found["source"]), **numbers)
        except WindrowError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as cause:
            raise CorruptSnapshot(f"the header of the space is damaged: {cause!r}") from cause
