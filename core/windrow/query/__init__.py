# SPDX-License-Identifier: Apache-2.0
"""What is computed: the query, bound to the columns of its data, cut into slices, and explained."""

from windrow.query.bound import BoundQuery
from windrow.query.query import Late, Named, Query

__all__ = ["BoundQuery", "Late", "Named", "Query"]
