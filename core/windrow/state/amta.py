# SPDX-License-Identifier: Apache-2.0
"""See :mod:`windrow.algorithms.stored_amta`."""

from windrow.algorithms.stored_amta import StoredAMTA

__all__ = ["StoredAMTA"]
