"""Text that is safe to print, times, JSON. Pure, and without a heavy import."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from langchain_convmem.views.lines import moment_at

__all__ = ["Styled", "clock", "hanging", "iso_time", "json_text", "safe_text"]

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_IN_JSON = re.compile(r"[\x7f-\x9f\ud800-\udfff]")


class Styled(NamedTuple):
    """A line and how it looks on a terminal that has styles."""

    text: str
    style: str | None = None


def safe_text(text: str) -> str:
    """Return the text with control characters made visible, line feeds and tabs apart.

    What was said once may come from anywhere; printed as it is, it could command the terminal.
    """
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", text.replace("\r\n", "\n"))


def json_text(value: Any) -> str:
    """Return the value as indented JSON that is safe to print and exact to read back."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _NOT_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def clock(at_ms: int) -> str:
    """Return the minute in UTC for a person; `at_ms` is milliseconds since the epoch."""
    moment = moment_at(at_ms)
    return f"{at_ms} ms" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def iso_time(at_ms: int) -> str | None:
    """Return the millisecond as ISO 8601 text, or None outside the calendar."""
    moment = moment_at(at_ms)
    return None if moment is None else moment.isoformat(timespec="milliseconds")


def hanging(text: str, margin: str) -> str:
    """Return the text with `margin` before each of its lines but the first."""
    return text.replace("\n", f"\n{margin}")
