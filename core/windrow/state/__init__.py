# SPDX-License-Identifier: Apache-2.0
"""The stores of pages under their first names; they live in :mod:`windrow.storage`."""
