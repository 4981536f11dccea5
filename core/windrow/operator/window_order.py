# SPDX-License-Identifier: Apache-2.0
"""Windows that were computed side by side come out in order: the collector of the worker models.

Workers finish in any order. A watermark that comes behind their results says that all windows which are final at it
have come. Until then they are held, as bytes, so that an engine can keep them in its state.

>>> import pyarrow as pa
>>> import windrow as wr
>>> schema = pa.schema({"ts": pa.int64(), "x": pa.float64()})
>>> query = wr.Query(window=wr.TimeWindow("5us"), aggregates={"middle": wr.Median("x")})
>>> order = WindowOrder(query.bind(schema))
>>> found = [pa.table([[s], [s + 5], [1.0]], schema=order.schema) for s in (5, 10, 0)]
>>> held = [hold(12 + n, windows) for n, windows in enumerate(found)]
>>> ready, held = order.ready(held, 10)
>>> ready.column("window_end").to_pylist(), len(held)
([5, 10], 1)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from windrow.columns.encoding import decode_value, encode_value
from windrow.columns.ipc import checked_ipc, to_ipc
from windrow.errors import CorruptSnapshot
from windrow.operator.plan import Ints
from windrow.query import BoundQuery
from windrow.windows import SessionWindow, SlideByTime, SlideByTuple, TimeWindow

__all__ = ["WindowOrder", "hold"]


def hold(watermark: int, windows: pa.Table) -> bytes:
    """Windows that became due at a watermark, as bytes to be held."""
    return encode_value([watermark, to_ipc(windows)])


class WindowOrder:
    """Holds finished windows of a query, and gives them out in order.

    Windows that end at a time are ordered by their ends, then keys. Others, such as count windows, are ordered by the
    watermark at which they became due, then ends, then keys; so are those of each key.
    """

    def __init__(self, bound: BoundQuery) -> None:
        self.bound, self.schema = bound, bound.output_schema
        window = bound.query.windows[0][1]
        self._ends_at_time = isinstance(window, TimeWindow | SlideByTime | SessionWindow | SlideByTuple)
        # A row at the end of a session, or of a window that slides by tuple, still belongs to it.
        self._after = bound.query.lateness + isinstance(window, SessionWindow | SlideByTuple)

    def due(self, held: bytes) -> int:
        """The watermark at which all that is held in these bytes is ready."""
        return int(self._final(*self._read(held)).max(initial=0))

    def ready(self, held: Sequence[bytes], watermark: int) -> tuple[pa.Table, list[bytes]]:
        """The windows that are ready at a watermark, in order, and what is still held."""
        ready: list[tuple[int, pa.Table]] = []
        rest: list[bytes] = []
        for blob in held:
            met, windows = self._read(blob)
            final = self._final(met, windows) <= watermark
            if final.any():
                ready.append((0 if self._ends_at_time else met, windows.filter(pa.array(final))))
            if not final.any():
                rest.append(blob)
            elif not final.all():
                rest.append(hold(met, windows.filter(pa.array(~final))))
        steps = [
            self.bound.sort(pa.concat_tables([windows for met, windows in ready if met == step]))
            for step in sorted({met for met, _ in ready})
        ]
        return pa.concat_tables([self.schema.empty_table(), *steps]), rest

    def _final(self, met: int, windows: pa.Table) -> Ints:
        """For each window, the watermark at which every window before it has come."""
        if not self._ends_at_time:
            return np.full(windows.num_rows, met, np.int64)
        ends = windows.column("window_end").cast(pa.int64()).to_numpy()
        final: Ints = ends + self._after
        return final

    def _read(self, held: bytes) -> tuple[int, pa.Table]:
        value = decode_value(held)
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], int)):
            raise CorruptSnapshot("these bytes are not held windows")
        windows = checked_ipc(value[1])
        if windows.schema != self.schema:
            raise CorruptSnapshot("the held windows are those of another query")
        return value[0], windows
