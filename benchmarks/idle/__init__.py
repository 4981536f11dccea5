"""Idle windows: memory, throughput and commits with frozen keys."""
