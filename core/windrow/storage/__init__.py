# SPDX-License-Identifier: Apache-2.0
"""State outside the operator: snapshots, and the stores that hold pages of it."""
