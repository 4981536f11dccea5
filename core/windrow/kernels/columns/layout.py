# SPDX-License-Identifier: Apache-2.0
"""What kernels over whole columns read and write, by name."""

from __future__ import annotations

from typing import Any, NamedTuple


class Input(NamedTuple):
    """The rows, as columns."""

    columns: Any  #: one array per input of the aggregate
    valid: Any  #: per row, whether no input is null; empty if there are no nulls at all


class RowSegments(NamedTuple):
    """Stretches of rows that no window crosses, such as one per key."""

    offsets: Any  #: segment s is the rows offsets[s] … offsets[s + 1] - 1
    places: Any  #: the results of segment s go to places[s] … places[s + 1] - 1


class ColumnOutput(NamedTuple):
    """The results of windows."""

    values: Any
    ok: Any  #: per result, whether it is not null; may be empty if no result can be null


class Chunks(NamedTuple):
    """Parts for two chunks of slices: that in which windows begin, and the one after it."""

    lcs: Any
    after: Any
