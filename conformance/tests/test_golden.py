"""State that earlier versions wrote is read, and goes on: every file in ``golden`` stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from windrow_conformance import golden

KEPT = sorted(Path(__file__).with_name("golden").glob("*.zip"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_state_of_every_kind_of_window_goes_on(path: Path) -> None:
    """If this fails, old state can no longer be used: read it too, do not change the file."""
    found = golden.read(path)
    assert len(found) > 40
    assert not {case: told for case, files in found.items() if (told := golden.wrong(files))}


def test_state_that_was_changed_is_noticed() -> None:
    files = golden.read(KEPT[0])["00"]
    other = {**files, "expected": golden.read(KEPT[0])["01"]["expected"]}
    assert "other windows from the snapshot" in golden.wrong(other)
