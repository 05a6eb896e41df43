"""Times of lines and entries as moments and as text, in UTC. Pure.

Times come out of foreign files, too, and may lie where no calendar reaches.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["day_text", "iso_time", "moment_at"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment_at(time_ms: int) -> datetime | None:
    """Return the moment so many milliseconds after the epoch; None outside the calendar."""
    try:
        return _EPOCH + timedelta(milliseconds=time_ms)
    except OverflowError:
        return None


def iso_time(time_ms: int) -> str | None:
    """Return a time as ISO 8601 text; None outside the calendar."""
    moment = moment_at(time_ms)
    return None if moment is None else moment.isoformat()


def day_text(time_ms: int) -> str:
    """Return the day of a time, such as "2023-05-08"; empty outside the calendar."""
    moment = moment_at(time_ms)
    return "" if moment is None else moment.date().isoformat()
