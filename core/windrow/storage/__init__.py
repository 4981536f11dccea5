"""State outside the operator: snapshots, and the stores that hold pages of it."""
