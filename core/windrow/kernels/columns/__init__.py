# SPDX-License-Identifier: Apache-2.0
"""Compiled loops over whole columns: what ``wr.sliding`` runs."""
