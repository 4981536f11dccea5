"""The suite notices bugs: a few in every run, all of them with WINDROW_LONG=1."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from windrow.errors import QueryError
from windrow_conformance.mutations import MUTATIONS, Mutation, _copied, caught

FEW = ("changed page not written", "ties in the wrong order")
CORE = [mutation for mutation in MUTATIONS if mutation.engine == "local"]


@pytest.mark.parametrize(
    "mutation",
    CORE if os.environ.get("WINDROW_LONG") else [each for each in CORE if each.name in FEW],
    ids=lambda mutation: mutation.name,
)
def test_the_suite_notices(mutation: Mutation) -> None:
    assert caught(mutation), f"no answer differs if {mutation.name}"


def test_there_are_many_and_each_fits_the_code(tmp_path: Path) -> None:
    assert len(MUTATIONS) >= 20
    assert {mutation.engine for mutation in MUTATIONS} == {"local", "spark", "flink"}
    for number, mutation in enumerate(MUTATIONS):
        _copied(tmp_path / str(number), mutation)


def test_a_mutation_that_fits_no_more_is_told(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="occurs 0 times in windrow/operator"):
        _copied(tmp_path / "copy", Mutation("gone", "windrow/operator/operator.py", "no such text", ""))
