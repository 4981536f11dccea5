"""Every final-aggregation algorithm, once: one file each, interpreted and compiled from the same source.

>>> sorted(REGISTRY)
['AMTA', 'DABA', 'DABALite', 'FiBA', 'FlatFAT', 'FlatFIT', 'LMTA', 'PBA', 'Recal', 'SBA', 'SlickDeque',
 'SlideSide', 'SubtractOnEvict', 'TwoStacks', 'TwoStacksLite']

The registry is made by looking into the modules of this package: a new file is registered, and tested, by
being there.
"""

from __future__ import annotations

from importlib import import_module
from inspect import isabstract
from pkgutil import iter_modules

from windrow.algorithms.base import Algorithm

__all__ = ["REGISTRY", "Algorithm"]


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
