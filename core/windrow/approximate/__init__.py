"""Approximate windows: what they promise, and the mathematics of buckets and predictions."""
