"""The quick subset of the conformance suite on Spark: batches, and a few streams."""

import pytest

from windrow_conformance.cases import transcripts
from windrow_conformance.runner import run


@pytest.mark.parametrize(("way", "least"), [("batch", 40), ("batch in ranges", 20), ("streaming", 5)])
def test_quick_subset(way: str, least: int) -> None:
    verdicts = run(["spark"], transcripts(), subset="quick", ways=[way])
    assert len(verdicts) >= least
    assert not [f"{each.case.name}: {each.why}" for each in verdicts if each.red]
