# SPDX-License-Identifier: Apache-2.0
"""The definition of every window, under its short name: see :mod:`windrow.testing.oracle`."""

from windrow.testing.oracle import *  # noqa: F403
from windrow.testing.oracle import __all__ as __all__
