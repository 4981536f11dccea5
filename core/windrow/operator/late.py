# SPDX-License-Identifier: Apache-2.0
"""What the operator does with rows that are in time for the query: one strategy for each way to treat late rows."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from windrow.errors import QueryError
from windrow.operator.plan import Ints


class LateRows(Protocol):
    """From accepted rows and watermarks to the windows that come out.

    The operator has set rows aside that are too late for the query. A watermark never goes back.
    """

    behind: int
    """How far behind the watermark windows are final, in microseconds."""

    def accept(self, rows: pa.Table, times: Ints) -> pa.Table:
        """Take rows, at least one; returns windows that they correct. Called by ``Operator.process``."""
        ...

    def accept_partials(self, partials: pa.Table, times: Ints) -> pa.Table:
        """Take ready-made partials of slices; returns windows that they correct. Called for time windows only."""
        raise QueryError("process_partials() needs time windows: call process() with rows instead")

    def advance(self, watermark: int) -> pa.Table:
        """The windows that are final at a watermark. Called by ``Operator.advance``, after every row before it."""
        ...

    def unfinished(self, watermark: int) -> pa.Table:
        """The results so far of windows that have begun. Called after :meth:`advance`, if the query asks for it."""
        ...

    def due(self) -> list[int]:
        """Watermarks, beside those of the slice table, at which a further window may be due."""
        return []

    def shown(self) -> list[dict[str, Any]]:
        """State beside that of the slice table, as plain values for a snapshot. Called for every snapshot."""
        return []

    def shown_pages(self, commit: int) -> tuple[list[str], dict[str, dict[str, Any]], list[str]]:
        """The same for the pages of a commit: all names, what is new under its name, and names that are gone."""
        return [], {}, []

    def committed(self) -> None:
        """The pages of the last commit are written, and those that are gone are deleted."""
        return

    def load_shown(self, image: dict[str, Any], name: str = "") -> None:
        """Load one entry that :meth:`shown` or :meth:`shown_pages` gave. Called before :meth:`restored`."""
        return

    def restored(self, watermark: int) -> None:
        """Called once, after the state was loaded from a snapshot or a store."""
        return

    def forget(self, keys: Ints) -> None:
        """These keys have no state any more; their numbers will be given to other keys."""
        return
