# SPDX-License-Identifier: Apache-2.0
"""Assigning a tuple to an element of a record array, which numpy can and numba cannot.

Kernels write ``out[w] = lower(…)``, whatever a result is. Where it is several numbers, ``out`` is an array of records,
and ``lower`` returns a tuple.
"""

from __future__ import annotations

import operator
from typing import Any

import numba
import numba.extending

types: Any = numba.types


@numba.extending.overload(operator.setitem)
def assign_record(array: Any, index: Any, values: Any) -> Any:
    """``array[index] = values``, field by field."""
    records = isinstance(array, types.Array) and isinstance(array.dtype, types.Record) and array.ndim == 1
    if not (records and isinstance(index, types.Integer) and isinstance(values, types.BaseTuple)):
        return None
    fields = list(array.dtype.fields)
    lines = [f"record[{name!r}] = values[{position}]" for position, name in enumerate(fields)]
    head = "def assign(array: Any, index: Any, values: Any) -> Any:"  # as above, word for word, or numba refuses it
    source = "\n    ".join([head, "record = array[index]", *lines])
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    return namespace["assign"]
