# SPDX-License-Identifier: Apache-2.0
"""What a query will do, under its short name: see :mod:`windrow.query.explain`."""

from windrow.query.explain import Explanation, explain

__all__ = ["Explanation", "explain"]
