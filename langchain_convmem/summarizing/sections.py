"""The sections of a summary: headings that an application wants, and which of them are missing."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MARKS = r"(?:#{1,6}\s*|[-*\u2022]\s+|\d{1,2}[.)]\s+)?"
_BOLD = r"(?:\*\*|__)?"


def find_missing_sections(text: str, sections: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of the template that a summary does not have, in order.

    A heading is found with the marks that models add, in any case, on a line of its own or before
    its text.

    Args:
        text: What the summariser wrote.
        sections: The headings.
    """
    lines = text.splitlines()
    return tuple(one for one in sections if not any(map(_compile(one).fullmatch, lines)))


def _compile(heading: str) -> re.Pattern[str]:
    name = r"\s+".join(map(re.escape, heading.split()))
    end = rf"{_BOLD}\s*(?:[:\uff1a]\s*{_BOLD}.*)?"
    return re.compile(rf"\s*{_MARKS}{_BOLD}{name}{end}\s*", re.IGNORECASE)
