# SPDX-License-Identifier: Apache-2.0
"""``python -m windrow_conformance``: as ``windrow conformance``."""

from windrow_conformance.command import main

main()
