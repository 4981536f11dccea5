# SPDX-License-Identifier: Apache-2.0
"""See :mod:`windrow.storage.pages`."""

from windrow.storage.pages import HEADER, MemoryPages, Pages

__all__ = ["HEADER", "MemoryPages", "Pages"]
