"""A key has one number, however many rows bring it and whichever way it is looked up."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windrow.keys import Keys

NAN = float("nan")
KINDS: dict[pa.DataType, Any] = {
    pa.int64(): st.integers(0, 40),
    pa.string(): st.text("ab", max_size=3),
    pa.dictionary(pa.int32(), pa.string()): st.text("ab", max_size=3),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, NAN, -NAN]),
    pa.bool_(): st.booleans(),
    pa.float16(): st.sampled_from([0.0, 1.5]),  # Arrow does not look these up
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_a_key_keeps_its_number_until_it_is_forgotten(kind: pa.DataType, data: st.DataObject) -> None:
    keys, numbers = Keys([pa.field("k", kind)]), {}
    for batch in data.draw(st.lists(st.lists(KINDS[kind] | st.none(), max_size=20), max_size=6)):
        got = keys.number(pa.table({"k": pa.array(batch, kind)})).tolist()
        for value, number in zip(batch, got, strict=True):
            key = "NaN" if value != value else value
            assert numbers.setdefault(key, number) == number
        assert len(set(numbers.values())) == len(numbers)
        gone = data.draw(st.lists(st.sampled_from(sorted(numbers, key=str)), unique=True)) if numbers else []
        keys.forget([numbers.pop(key) for key in gone])
