from datetime import timedelta

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from windrow import durations
from windrow.errors import DurationError, WindrowError

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("written", "micros"),
    [
        ("1h30m", 5400 * SECOND),
        ("250ms", 250_000),
        ("10us", 10),
        ("10µs", 10),
        ("1d", 86_400 * SECOND),
        ("1w", 7 * 86_400 * SECOND),
        ("0s", 0),
        ("-1m", -60 * SECOND),
        ("+1m", 60 * SECOND),
        (" 1h 30m ", 5400 * SECOND),
        ("10 minutes", 600 * SECOND),
        ("1 hour 1 second", 3601 * SECOND),
        ("30m1h", 5400 * SECOND),
        ("1.5s", 1_500_000),
        ("0.000001s", 1),
        (timedelta(hours=1, microseconds=1), 3600 * SECOND + 1),
        (timedelta(days=-1), -86_400 * SECOND),
        (np.timedelta64(3, "ms"), 3000),
        (np.timedelta64(5000, "ns"), 5),
        (np.int32(7), 7),
        (7, 7),
        (-7, -7),
    ],
)
def test_every_spelling(written, micros):
    parsed = durations.parse(written)
    assert parsed == micros
    assert type(parsed) is int


@pytest.mark.parametrize(
    "wrong",
    [
        *[
            "",
            "  ",
            "-",
            "h",
            "10",
            "1x",
            "1h1",
            "1h-1m",
            "1h1h",
            "1h 2 hours",
            "1hm",
            "1e3s",
            ".5s",
            "1 month",
            "∞s",
        ],
        *["0.0000001s", "1ns", np.timedelta64(1, "ns"), np.timedelta64("NaT")],
        *[1.0, 1.5, float("inf"), float("-inf"), float("nan"), np.float32("inf")],
        *[True, False, np.True_, None, b"1s", [], object()],
        *["400000000d", "20000000d", 2**60 + 1, -(2**60) - 1, 2**63, -(2**63) - 1],
    ],
)
def test_everything_else_is_refused_and_shown(wrong):
    with pytest.raises(DurationError) as raised:
        durations.parse(wrong, name="slide of X")
    assert str(raised.value).startswith("slide of X: ")
    assert repr(wrong) in str(raised.value)
    assert isinstance(raised.value, ValueError)
    assert isinstance(raised.value, WindrowError)


def test_pandas_timedelta_keeps_its_nanoseconds():
    pandas = pytest.importorskip("pandas")
    assert durations.parse(pandas.Timedelta("3us")) == 3
    with pytest.raises(DurationError, match="finer than a microsecond"):
        durations.parse(pandas.Timedelta("3ns"))


def test_the_longest_duration():
    assert durations.parse(2**60) == durations.LONGEST == -durations.parse(-(2**60))
    with pytest.raises(
        DurationError, match=r"^lateness: 1152921504606846977 is longer than 1152921504606846976 micro"
    ):
        durations.parse(2**60 + 1, name="lateness")


@given(st.integers(-(2**60), 2**60))
@example(0)
def test_format_is_read_back(micros):
    assert durations.parse(durations.format(micros)) == micros


@given(
    st.lists(
        st.tuples(st.integers(1, 99), st.sampled_from(list(durations.UNITS))), unique_by=lambda part: part[1]
    )
    .filter(bool)
    .map(lambda parts: "".join(f"{count}{unit}" for count, unit in parts))
)
def test_no_text_is_shorter_than_the_formatted_one(text):
    assert len(durations.format(durations.parse(text))) <= len(text)


@pytest.mark.parametrize(
    "text", ["1h", "1s", "90m", "1h1s", "100ms", "1500ms", "1w", "36h", "1us", "-5m", "0s"]
)
def test_canonical_texts_stay_as_they_are(text):
    assert durations.format(durations.parse(text)) == text
