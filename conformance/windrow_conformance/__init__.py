# SPDX-License-Identifier: Apache-2.0
"""One suite that every way of computing a query passes, and that users run on their own queries.

>>> import windrow as wr
>>> from windrow_conformance import check
>>> query = wr.Query(window=wr.TimeWindow("10us", "5us"), aggregates={"mean": wr.Mean("load")})
>>> check(query, {"ts": [1, 7, 3], "load": [3.0, 5.0, 1.0]})        # in a test of your own
"""

from windrow_conformance.check import Disagreement, check
from windrow_conformance.ways import WAYS

__all__ = ["WAYS", "Disagreement", "check"]
