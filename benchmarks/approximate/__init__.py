"""Approximate windows: leaves, errors and time, for the scenarios of chapter 5 of the MTA thesis.

``python -m benchmarks.approximate`` measures and writes CSV and PNG files; see ``__main__``.
"""
