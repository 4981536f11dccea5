"""Throughput and latency of sliding-window aggregation: ours, our peers', and a plain copy as the limit.

``python -m benchmarks.algorithms`` measures everything and writes CSV and PNG files; see ``__main__``.
"""
