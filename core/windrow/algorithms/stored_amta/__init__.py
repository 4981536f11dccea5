# SPDX-License-Identifier: Apache-2.0
"""AMTA over a key-value store: windows that are larger than memory."""

from windrow.algorithms.stored_amta.tree import StoredAMTA

__all__ = ["StoredAMTA"]
