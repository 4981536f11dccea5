# SPDX-License-Identifier: Apache-2.0
"""The operator: rows and watermarks in, finished windows out."""

from windrow.operator.operator import Operator

__all__ = ["Operator"]
