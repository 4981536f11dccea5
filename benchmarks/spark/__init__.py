"""Benchmarks of windrow on Spark."""
