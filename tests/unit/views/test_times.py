"""Times as text: in UTC, and nothing where no calendar reaches."""

from __future__ import annotations

import pytest

from langchain_convmem.views.lines import day_text, iso_time, moment_at


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00+00:00"),
        (-1, "1969-12-31T23:59:59.999000+00:00"),
        (1_683_540_000_250, "2023-05-08T10:00:00.250000+00:00"),
        (-62_135_596_800_000, "0001-01-01T00:00:00+00:00"),
    ],
)
def test_a_time_is_told_in_utc(time_ms, text):
    assert iso_time(time_ms) == text
    assert day_text(time_ms) == text[:10]
    assert moment_at(time_ms).isoformat() == text


@pytest.mark.parametrize("time_ms", [-(10**18), 10**18, 10**30])
def test_a_time_outside_the_calendar_has_no_text(time_ms):
    assert (moment_at(time_ms), iso_time(time_ms), day_text(time_ms)) == (None, None, "")
