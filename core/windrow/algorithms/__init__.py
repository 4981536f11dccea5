# SPDX-License-Identifier: Apache-2.0
"""Every final-aggregation algorithm, once: one file each, interpreted and compiled from the same source.

>>> sorted(REGISTRY)
['A2MTA', 'AMTA', 'DABA', 'DABALite', 'FiBA', 'FlatFAT', 'FlatFIT', 'LMTA', 'PBA', 'Recal', 'SBA', 'SlickDeque',
 'SlideSide', 'SubtractOnEvict', 'TwoStacks', 'TwoStacksLite']

The registry is made by looking into the modules of this package: a new file is registered, and tested, by
being there.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from windrow.algorithms.a2mta import A2MTA
from windrow.algorithms.amta import AMTA
from windrow.algorithms.base import Algorithm
from windrow.algorithms.daba import DABA
from windrow.algorithms.daba_lite import DABALite
from windrow.algorithms.fiba import FiBA
from windrow.algorithms.flat_fat import FlatFAT
from windrow.algorithms.flat_fit import FlatFIT
from windrow.algorithms.lmta import LMTA
from windrow.algorithms.pba import PBA
from windrow.algorithms.recal import Recal
from windrow.algorithms.sba import SBA
from windrow.algorithms.slick_deque import SlickDeque
from windrow.algorithms.slide_side import SlideSide
from windrow.algorithms.subtract_on_evict import SubtractOnEvict
from windrow.algorithms.two_stacks import TwoStacks
from windrow.algorithms.two_stacks_lite import TwoStacksLite

__all__ = [
    "A2MTA",
    "AMTA",
    "DABA",
    "LMTA",
    "PBA",
    "REGISTRY",
    "SBA",
    "Algorithm",
    "DABALite",
    "FiBA",
    "FlatFAT",
    "FlatFIT",
    "Recal",
    "SlickDeque",
    "SlideSide",
    "SubtractOnEvict",
    "TwoStacks",
    "TwoStacksLite",
]


def _found() -> dict[str, type[Algorithm]]:
    found = {}
    for module in iter_modules(__path__, f"{__name__}."):
        for name, value in vars(import_module(module.name)).items():
            mine = isinstance(value, type) and value.__module__ == module.name
            if mine and issubclass(value, Algorithm) and not isabstract(value):
                found[name] = value
    return found


REGISTRY: dict[str, type[Algorithm]] = _found()
"""The algorithms by name."""
