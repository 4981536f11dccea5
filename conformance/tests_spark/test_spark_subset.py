"""The quick subset of the conformance suite on Spark: batches, and a few streams."""

import pytest

from windrow_conformance.cases import transcripts
from windrow_conformance.runner import run


@pytest.mark.parametrize(
    ("way", "every", "least"), [("batch", 1, 40), ("batch in ranges", 3, 6), ("streaming", 1, 5)]
)
def test_quick_subset(way: str, every: int, least: int) -> None:
    """Hot keys in ranges are compared with the oracle in core's tests too, so every third case is enough here."""
    verdicts = run(["spark"], transcripts()[::every], subset="quick", ways=[way])
    assert len(verdicts) >= least
    assert not [f"{each.case.name}: {each.why}" for each in verdicts if each.red]
