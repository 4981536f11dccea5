# SPDX-License-Identifier: Apache-2.0
"""See :mod:`windrow.storage.rocksdb`."""

from windrow.storage.rocksdb import RocksDBPages

__all__ = ["RocksDBPages"]
