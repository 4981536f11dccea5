"""Arrow data, numpy arrays and bytes: every conversion between them, one place each."""
