"""What several files of tests are given by name."""

from pathlib import Path

import pytest
from cli_runs import TOML, windrow


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A folder with plugs.csv, query.json and query.toml."""
    folder = tmp_path / "demo"
    assert windrow("demo", "--save", folder).exit_code == 0
    (folder / "query.toml").write_text(TOML)
    return folder
