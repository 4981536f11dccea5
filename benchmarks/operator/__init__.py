"""The in-process engine against Polars, and what a batch into a long window costs."""
