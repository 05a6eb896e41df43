"""Prompts of other formats to prompt files: Markdown headings, dotprompt, other title marks.

What has no counterpart is named in a note and kept as a comment, so that nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from langchain_convmem.prompts.parser import find_foreign_title, read_title

_MARKDOWN = re.compile(r"#{1,6}\s+(.*?)\s*#*")
_MARKS = "\uff3f\ufe4d\ufe4e\ufe4f\u2013\u2014\u2015-="
_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_ROLE = re.compile(r"""\{\{\s*role\s+["'](\w+)["']\s*\}\}""")
_TITLES = {"system": "Role", "user": "User", "model": "Model", "assistant": "Model"}
_SPOKEN_FIRST = "Role"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A prompt in the form of a prompt file.

    Attributes:
        text: The prompt file.
        notes: What was changed, one sentence each, with the line; empty if nothing was.
    """

    text: str
    notes: tuple[str, ...]


def convert_prompt(text: str) -> Conversion:
    """Return a prompt as a prompt file.

    Markdown headings become titles where the text has none of its own; titles in full-width
    underscores or between dashes always do. The front matter of dotprompt becomes a comment, and
    its roles become sections.

    Args:
        text: The prompt, with line ends of any kind.
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n").removeprefix("\ufeff")
    notes: list[str] = []
    lines = _convert_dotprompt(lines, notes)
    has_titles = any(read_title(line) is not None for line in lines.split("\n"))
    converted = list(_convert_lines(lines.split("\n"), notes, has_titles=has_titles))
    if not any(read_title(line) is not None for line in converted) and lines.strip():
        converted.insert(0, f"__ {_SPOKEN_FIRST} __")
        notes.append(f"line 1: all text is the section '{_SPOKEN_FIRST}'")
    return Conversion("\n".join(converted), tuple(notes))


def _convert_lines(lines: list[str], notes: list[str], *, has_titles: bool) -> Iterator[str]:
    is_code = False
    for number, line in enumerate(lines, start=1):
        is_code ^= line.lstrip().startswith("```")
        found = "" if is_code else find_foreign_title(line)
        if not found or (has_titles and "Markdown" in found):
            yield line
            continue
        title = _read_foreign_title(line)
        notes.append(f"line {number}: {found} becomes the title '{title}'")
        yield f"__ {title} __"


def _read_foreign_title(line: str) -> str:
    stripped = line.strip()
    match = _MARKDOWN.fullmatch(stripped)
    title = match[1] if match is not None else stripped.strip(_MARKS)
    return title.strip().strip("*_ ") or _SPOKEN_FIRST


def _convert_dotprompt(text: str, notes: list[str]) -> str:
    """Return dotprompt as a prompt file; other text as it is."""
    front = _FRONT.match(text)
    if front is None:
        return text
    kept = front[1].replace("*/", "* /")
    notes.append(
        "line 1: the YAML in front is kept as a comment; models are chosen by your program"
    )
    body = text[front.end() :]
    pieces = _ROLE.split(body)
    first = pieces[0].strip("\n")
    sections = [f"__ {_SPOKEN_FIRST} __\n{first}"] if first.strip() else []
    for role, said in zip(pieces[1::2], pieces[2::2], strict=True):
        title = _TITLES.get(role, role.capitalize())
        notes.append(f"the role {role!r} becomes the section '{title}'")
        sections.append(f"__ {title} __\n{said.strip(chr(10))}")
    return "\n\n".join([f"/*\n{kept}\n*/", *sections]) + "\n"
