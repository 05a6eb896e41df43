"""Times as dialogue files write them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

__all__ = ["TIME_FORMS", "iso", "parse_seconds", "parse_time"]

TIME_FORMS = (
    'a time: ISO 8601 text ("2023-05-08T13:56:00Z"), whole milliseconds since the epoch, '
    'or "1:56 pm on 8 May, 2023"'
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_SPOKEN = re.compile(
    r"\s*(\d{1,2}):(\d{2})\s*([ap])\.?m\.?\s+on\s+(\d{1,2})\s+([a-z]{3,9}),?\s+(\d{4})\s*",
    re.IGNORECASE,
)
_HOURS_HALF_DAY = 12
# Room on both sides, so that shifting a time by a zone or an increment never leaves the calendar.
_FIRST_YEAR, _LAST_YEAR = 2, 9998


def parse_time(value: Any) -> datetime:
    """Return the moment `value` names, in UTC.

    Args:
        value: ISO 8601 text, text such as `1:56 pm on 8 May, 2023` (English month, no zone), or a
            whole number of milliseconds since the epoch. Text without a zone counts as UTC.

    Raises:
        ValueError: If it is none of these.
    """
    return _in_calendar(value, _moment)


def parse_seconds(value: Any) -> datetime:
    """Return the moment `value` seconds behind the epoch, in UTC, to the millisecond.

    Raises:
        ValueError: If it is no finite number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        msg = f"{value!r} is no number of seconds"
        raise ValueError(msg)  # noqa: TRY004 - one kind of failure for the caller to translate
    return _in_calendar(
        value, lambda seconds: _EPOCH + timedelta(milliseconds=round(seconds * 1000))
    )


def _in_calendar(value: Any, read: Callable[[Any], datetime]) -> datetime:
    try:
        moment = read(value)
    except OverflowError as error:
        msg = f"{value!r} is outside the calendar"
        raise ValueError(msg) from error
    if not _FIRST_YEAR <= moment.year <= _LAST_YEAR:
        msg = f"{value!r} is outside the years {_FIRST_YEAR} to {_LAST_YEAR}"
        raise ValueError(msg)
    return moment


def _moment(value: Any) -> datetime:
    if isinstance(value, int) and not isinstance(value, bool):
        return _EPOCH + timedelta(milliseconds=value)
    if not isinstance(value, str):
        msg = f"{value!r} is no time"
        raise ValueError(msg)  # noqa: TRY004 - one kind of failure for the caller to translate
    spoken = _SPOKEN.fullmatch(value)
    moment = datetime.fromisoformat(value.strip()) if spoken is None else _spoken_moment(spoken)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _spoken_moment(match: re.Match[str]) -> datetime:
    hour, minute, half, day, month, year = match.groups()
    if not 1 <= int(hour) <= _HOURS_HALF_DAY:
        msg = f"{hour} is no hour of a twelve-hour clock"
        raise ValueError(msg)
    hours = int(hour) % _HOURS_HALF_DAY + (_HOURS_HALF_DAY if half.lower() == "p" else 0)
    return datetime(int(year), _month_number(month), int(day), hours, int(minute), tzinfo=UTC)


def _month_number(name: str) -> int:
    # By hand, since strptime reads month names in the language of the process.
    for number, month in enumerate(_MONTHS, start=1):
        if name.lower() in (month, month[:3]):
            return number
    msg = f"{name} is no month"
    raise ValueError(msg)


def iso(moment: datetime) -> str:
    """Return the moment as ISO 8601 text with milliseconds."""
    return moment.isoformat(timespec="milliseconds")
