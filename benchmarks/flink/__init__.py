"""windrow on Flink against Flink's own windows, in one run: ``python -m benchmarks.flink`` in Flink's environment."""
