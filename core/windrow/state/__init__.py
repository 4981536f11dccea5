"""The stores of pages under their first names; they live in :mod:`windrow.storage`."""
