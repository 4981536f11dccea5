# SPDX-License-Identifier: Apache-2.0
"""Approximate windows: what they promise, and the mathematics of buckets and predictions."""
