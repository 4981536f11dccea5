# SPDX-License-Identifier: Apache-2.0
"""See :mod:`windrow.storage.redis`."""

from windrow.storage.redis import RedisPages

__all__ = ["RedisPages"]
