# SPDX-License-Identifier: Apache-2.0
"""What a policy adds to the seam of :mod:`windrow.kernels.partials`: its functions, and what they are called with.

``valid(result)`` and ``evict(candidate, after, before)`` are the user's; ``outcome(p, i)`` is the result of slot i.
"""

from __future__ import annotations

from typing import Any


def _placeholder(*_: Any) -> Any:
    raise NotImplementedError("bound to a policy by windrow.operator.policy_compiled")


outcome = valid = evict = _placeholder
