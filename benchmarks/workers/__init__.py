"""Functions of whole windows: Figs 11 to 16 of De Matteis and Mencagli (2017) on two cores, and what users pick today.

``python -m benchmarks.workers`` measures and writes CSV and SVG files; see ``__main__``.
"""
