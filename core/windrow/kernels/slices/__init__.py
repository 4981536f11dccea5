"""Compiled loops over the slices of all keys: what the operator runs."""
