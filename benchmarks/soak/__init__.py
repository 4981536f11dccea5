"""Streams that go on for long and behave badly: memory has to stay bounded and come back, latency too."""
