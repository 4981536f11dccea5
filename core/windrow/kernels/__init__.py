# SPDX-License-Identifier: Apache-2.0
"""The same algorithms over columns, compiled."""

import sys

# numba looks for ``print`` in the module that it says it is from. A worker process of PyFlink has a ``print`` of its own,
# which is not there; without it, numba cannot be imported.
if print.__module__ in sys.modules:
    vars(sys.modules[print.__module__]).setdefault(print.__name__, print)
