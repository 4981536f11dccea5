# SPDX-License-Identifier: Apache-2.0
"""What windrow is tested with, for your own aggregates and queries too: laws, the oracle, comparison."""
