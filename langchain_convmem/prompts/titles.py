"""Which lines are titles, and which only look like one.

A title is a line of its own: two underscores, the title, two underscores. Two underscores
anywhere else are text.
"""

from __future__ import annotations

import re

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.placeholders import QUOTED, clean_name
from langchain_convmem.prompts.scanner import Line

__all__ = ["is_starred", "read_title", "report_title_lookalike"]

_MARK = "__"
_OPENER = re.compile(r"(?<!\w)__[ \t]+[^ \t_]")
_CLOSER = re.compile(r"[ \t]__(?!\w)")


def read_title(line: str) -> str | None:
    """Return the cleaned title, empty for an empty one; None if the line is no title.

    Quoted text in it is still in its quotes.
    """
    if _MARK not in line:
        return None
    text = line.strip()
    if len(text) < 2 * len(_MARK) or not (text.startswith(_MARK) and text.endswith(_MARK)):
        return None
    inner = text[2:-2]
    # A row of underscores is a line to write on; `__init__ and __main__` is a sentence.
    if _MARK in _unquoted(inner) or inner[:1] == "_" or inner[-1:] == "_":
        return None
    return clean_name(inner)


def is_starred(title: str) -> bool:
    """Tell whether stars make this a special section's title, known or not."""
    return title.startswith("*") or title.endswith("*")


def report_title_lookalike(line: Line, findings: Findings) -> None:
    """Report a line that may be meant as a title but is none; it stays what it is."""
    if _MARK not in line.text or not line.text.strip(" \t_"):
        return
    text = _unquoted(line.text)
    opener = _OPENER.search(text)
    lead = text.strip()
    if opener is not None and _CLOSER.search(text, opener.end()) is not None:
        message = "a title stands alone on its line; this one is taken as text"
        findings.error(message, line.at(opener.start()))
    elif lead.startswith(_MARK) and lead.endswith(_MARK):
        message = "this line is taken as text: a title holds no further underscores"
        findings.warning(message, line.position)
    elif opener is not None and text[: opener.start()].strip() == "":
        findings.warning(
            "this title is not closed by '__' on its line; it is taken as text", line.position
        )
    elif lead.startswith(_MARK) and lead.find(_MARK, 2) > 0:
        message = "this line is taken as text: behind a title nothing may follow"
        findings.info(message, line.position)


def _unquoted(text: str) -> str:
    """Return `text` with quoted text made unsuspicious; offsets stay."""
    return QUOTED.sub(lambda quoted: "x" * len(quoted.group()), text) if "{{" in text else text
