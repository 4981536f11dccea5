# SPDX-License-Identifier: Apache-2.0
"""Compiled loops over the slices of all keys: what the operator runs."""
