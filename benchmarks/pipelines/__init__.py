"""Streams on top of streams: latency, rates, and peers in this process."""
