# SPDX-License-Identifier: Apache-2.0
"""What other systems call our aggregates and windows, for the error about a name that is not here.

>>> print(no_name("Avg", ["Mean", "Max"]))
windrow has no 'Avg'; did you mean 'Mean'?
>>> print(no_name("Quantil", ["Quantile", "Max"]))
windrow has no 'Quantil'; did you mean 'Quantile'?
>>> print(no_name("fold", ["Mean", "Max"]))
windrow has no 'fold'
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["ELSEWHERE", "no_name"]

ELSEWHERE = {
    "avg": "Mean",
    "average": "Mean",
    "stddev": "Std",
    "variance": "Var",
    "distinctcount": "CountDistinct",
    "nunique": "CountDistinct",
    "approxcountdistinct": "HyperLogLog",
    "percentile": "Quantile",
    "collectlist": "Collect",
    "maxby": "ArgMax",
    "minby": "ArgMin",
    "tumble": "TimeWindow",
    "tumblingwindow": "TimeWindow",
    "hop": "TimeWindow",
    "hoppingwindow": "TimeWindow",
    "slidingwindow": "TimeWindow",
    "session": "SessionWindow",
}
"""Our name for each, which is written in lower case and without ``_``."""


def no_name(name: str, known: Iterable[str]) -> AttributeError:
    """The error for an attribute that the package does not have. Names what was probably meant."""
    meant = ELSEWHERE.get(name.replace("_", "").lower())
    close = [meant] if meant else get_close_matches(name, list(known), n=3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
    return AttributeError(f"windrow has no {name!r}{hint}")
