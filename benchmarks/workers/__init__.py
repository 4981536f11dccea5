"""Whole-window functions: fits and medians beside what users pick today."""
