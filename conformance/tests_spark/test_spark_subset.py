"""The quick subset of the conformance suite on Spark: batches, and a few streams."""

import pytest

from windrow_conformance.cases import transcripts
from windrow_conformance.runner import run


@pytest.mark.parametrize("way", ["batch", "streaming"])
def test_quick_subset(way: str) -> None:
    verdicts = run(["spark"], transcripts(), subset="quick", ways=[way])
    assert len(verdicts) >= (40 if way == "batch" else 5)
    assert not [f"{each.case.name}: {each.why}" for each in verdicts if each.red]
