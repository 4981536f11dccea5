"""Engines that lose processes, files and memory in the middle of a job, and what that costs: nothing, or a bug."""
