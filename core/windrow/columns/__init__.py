# SPDX-License-Identifier: Apache-2.0
"""Arrow data, numpy arrays and bytes: every conversion between them, one place each."""
