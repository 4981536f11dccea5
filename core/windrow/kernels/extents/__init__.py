# SPDX-License-Identifier: Apache-2.0
"""Compiled loops over extents: the rows of a window as positions ``lo`` to ``hi`` in the columns of one key."""
