"""The quick subset of the conformance suite on Flink: rows one by one, and packed."""

import pytest

from windrow_conformance.cases import transcripts
from windrow_conformance.runner import run


@pytest.mark.parametrize("way", ["rows", "packed"])
def test_quick_subset(way: str) -> None:
    verdicts = run(["flink"], transcripts(), subset="quick", ways=[way])
    assert len(verdicts) >= 20
    assert not [f"{each.case.name}: {each.why}" for each in verdicts if each.red]
