# SPDX-License-Identifier: Apache-2.0
"""The laws of aggregates, under their short name: see :mod:`windrow.testing.laws`."""

from windrow.testing.laws import *  # noqa: F403
from windrow.testing.laws import __all__ as __all__
