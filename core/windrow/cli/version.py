# SPDX-License-Identifier: Apache-2.0
"""`windrow version`."""

from __future__ import annotations

import importlib
import sys

import click


@click.command()
def version() -> None:
    """Print the versions in use."""
    import windrow as wr

    parts = [f"Python {sys.version.split()[0]}"]
    parts += [f"{name} {importlib.import_module(name).__version__}" for name in ("numpy", "numba", "pyarrow")]
    click.echo(f"windrow {wr.__version__} ({', '.join(parts)})")
