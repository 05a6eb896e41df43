"""Which lines are titles, and which only look like one.

A title is a line of its own: two underscores, the title, two underscores. Two underscores
anywhere else are text.
"""

from __future__ import annotations

import re

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.placeholders import clean_name
from langchain_convmem.prompts.scanner import Line

__all__ = ["read_title", "report_title_lookalike"]

_MARK = "__"
_OPENER = re.compile(r"(?<!\w)__[ \t]+[^ \t_]")
_CLOSER = re.compile(r"[ \t]__(?!\w)")


def read_title(line: Line) -> str | None:
    """Return the cleaned title, empty for an empty one; None if the line is no title."""
    text = line.text.strip()
    if len(text) < 2 * len(_MARK) or not (text.startswith(_MARK) and text.endswith(_MARK)):
        return None
    inner = text[2:-2]
    # A row of underscores is a line to write on; `__init__ and __main__` is a sentence.
    if inner and ("__" in inner or inner[0] == "_" or inner[-1] == "_"):
        return None
    return clean_name(inner)


def report_title_lookalike(line: Line, findings: Findings) -> None:
    """Report a line that may be meant as a title but is none; it stays what it is."""
    text = line.text
    if _MARK not in text or not text.strip(" \t_"):
        return
    opener = _OPENER.search(text)
    lead = text.strip()
    if opener is not None and _CLOSER.search(text, opener.end()) is not None:
        message = "a title stands alone on its line; this one is taken as text"
        findings.error(message, line.where(opener.start()))
    elif lead.startswith(_MARK) and lead.endswith(_MARK):
        message = "this line is taken as text: a title holds no further underscores"
        findings.warning(message, line.start)
    elif opener is not None and text[: opener.start()].strip() == "":
        findings.warning(
            "this title is not closed by '__' on its line; it is taken as text", line.start
        )
    elif lead.startswith(_MARK) and lead.find(_MARK, 2) > 0:
        findings.info("this line is taken as text: behind a title nothing may follow", line.start)
