"""The same algorithms over columns, compiled."""
