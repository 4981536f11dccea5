"""See :mod:`windrow.storage.rocksdb`."""

from windrow.storage.rocksdb import RocksDBPages

__all__ = ["RocksDBPages"]
