"""What the documentation shows of Flink runs: the blocks of its pages, and the example job."""

import runpy
import sys
from contextlib import chdir
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS))

import blocks  # noqa: E402


@pytest.mark.parametrize(
    "page", blocks.pages_of("flink"), ids=lambda page: str(page.relative_to(DOCS.parent))
)
def test_pages(page: Path, tmp_path: Path) -> None:
    blocks.run(page, "flink", tmp_path)


def test_example_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with chdir(tmp_path):
        runpy.run_path(str(DOCS / "examples" / "flink_job.py"), run_name="__main__")
    assert "196 windows" in capsys.readouterr().out
