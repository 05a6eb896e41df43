from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from langchain_convmem.transfer.source import format_time, parse_time


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2023-05-08T13:56:00Z", "2023-05-08T13:56:00.000+00:00"),
        ("2023-05-08T13:56:00.250+02:00", "2023-05-08T11:56:00.250+00:00"),
        ("2023-05-08 13:56", "2023-05-08T13:56:00.000+00:00"),
        ("2023-05-08", "2023-05-08T00:00:00.000+00:00"),
        (0, "1970-01-01T00:00:00.000+00:00"),
        (-1, "1969-12-31T23:59:59.999+00:00"),
        (1_683_554_160_001, "2023-05-08T13:56:00.001+00:00"),
    ],
)
def test_a_time_is_read_in_every_form(value, expected):
    assert format_time(parse_time(value)) == expected


@pytest.mark.parametrize(
    "value",
    [
        "",
        "yesterday",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        10**400,
        -(10**30),
        True,
        1.5,
        None,
        [],
    ],
)
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ValueError):  # noqa: PT011 - datetime words some of them
        parse_time(value)


@given(st.datetimes(datetime(2, 1, 2), datetime(9998, 12, 30)))  # noqa: DTZ001 - zone added below
def test_the_written_form_is_read_back_to_the_millisecond(moment):
    moment = moment.replace(tzinfo=UTC)
    back = parse_time(format_time(moment))
    assert timedelta(0) <= moment - back < timedelta(milliseconds=1)
