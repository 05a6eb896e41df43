"""The sections of a summary: headings that an application wants, in its order.

A summariser is asked for them and may do otherwise. What it wrote is put in order here; headings
that it left out are reported, and none of its text is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_MARKS = r"(?:#{1,6}\s*|[-*\u2022]\s+|\d{1,2}[.)]\s+)?"
_BOLD = r"(?:\*\*|__)?"


def arrange_sections(text: str, sections: Sequence[str]) -> str:
    """Return a summary with its sections in the order of the template.

    Text before the first heading stays in front. A heading is found with the marks that models
    add, in any case, on a line of its own or before its text; one that comes twice is joined.

    Args:
        text: What the summariser wrote.
        sections: The headings; without any, and where the text has none of them, it stays as it is.
    """
    found = _split_sections(text, sections)
    named = [heading for heading in sections if heading in found]
    if not named:
        return text
    parts = [found[heading] for heading in ("", *named) if heading in found]
    return "\n".join(part for part in parts if part)


def find_missing_sections(text: str, sections: Sequence[str]) -> tuple[str, ...]:
    """Return the headings of the template that a summary does not have, in order."""
    found = _split_sections(text, sections)
    return tuple(heading for heading in sections if heading not in found)


def _split_sections(text: str, sections: Sequence[str]) -> dict[str, str]:
    """Return the text by heading, headings included; what stands before them under ""."""
    lines: dict[str, list[str]] = {}
    heading = ""
    for found, line in _read_lines(text, sections):
        if found and found not in lines:
            lines[found] = [f"{found}:"]
        heading = found or heading
        if line.strip():
            lines.setdefault(heading, []).append(line)
    return {name: "\n".join(said) for name, said in lines.items()}


def _read_lines(text: str, sections: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the heading that each line begins with, if any, and what else it says."""
    patterns = [(heading, _compile(heading)) for heading in sections]
    for line in text.splitlines():
        matches = ((heading, pattern.fullmatch(line)) for heading, pattern in patterns)
        heading, match = next(((name, one) for name, one in matches if one), ("", None))
        yield heading, line if match is None else (match["rest"] or "").strip()


def _compile(heading: str) -> re.Pattern[str]:
    name = r"\s+".join(map(re.escape, heading.split()))
    end = rf"{_BOLD}\s*(?:[:\uff1a]\s*{_BOLD}(?P<rest>.*))?"
    return re.compile(rf"\s*{_MARKS}{_BOLD}{name}{end}\s*", re.IGNORECASE)
