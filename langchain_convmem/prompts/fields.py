"""The key-value lines of the special sections Meta, Const and Var."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.placeholders import clean_name, find_placeholders, unquote
from langchain_convmem.prompts.scanner import Line
from langchain_convmem.prompts.titles import report_title_lookalike

__all__ = ["Field", "check_fillings", "check_variables", "is_field", "read_fields", "split_field"]

_COMMENT_MARKS = ("/*", "*/")


class Field(NamedTuple):
    """The value of a key.

    Attributes:
        value: The value.
        position: Where its line starts.
        written: The value with quoted text still in its quotes.
    """

    value: str
    position: int
    written: str


def read_fields(lines: Iterable[Line], into: dict[str, Field], findings: Findings) -> None:
    """Add the fields of a special section to `into`; a later value of a key wins."""
    for line in lines:
        if not line.text.strip():
            continue
        parts = split_field(line.text)
        if parts is None:
            _report_no_field(line, findings)
            continue
        key, written = parts
        if not _check(key, written, line, findings):
            continue
        if key in into:
            before = findings.line_of(into[key].position)
            message = f"'{key}' is set again: it replaces the value of line {before}"
            findings.warning(message, line.position)
        into[key] = Field(unquote(written), line.position, written)


def is_field(line: Line) -> bool:
    """Tell whether `read_fields` takes the line."""
    parts = split_field(line.text)
    return parts is not None and _problem(*parts) == ""


def split_field(line: str) -> tuple[str, str] | None:
    """Return the key, and the value as it was written; either may be empty. None for no field."""
    text = line.strip()
    key, equals, value = text.removeprefix("-").partition("=")
    if not equals and text.startswith("-"):
        key, equals, value = f"{clean_name(text[1:])} ".partition(": ")
    return (unquote(clean_name(key)), clean_name(value)) if equals else None


def _report_no_field(line: Line, findings: Findings) -> None:
    message = "this line is ignored: a field is written '- key = value'"
    findings.warning(message, line.position)
    report_title_lookalike(line, findings)


def _check(key: str, written: str, line: Line, findings: Findings) -> bool:
    problem = _problem(key, written)
    if "=" not in line.text:
        message = "':' is taken as '='; a field is written '- key = value'"
        findings.info(message, line.position)
    if problem:
        findings.error(f"{problem}; it is dropped", line.position)
    elif written.startswith("="):
        message = f"the value of '{key}' starts with '='; one '=' is enough"
        findings.warning(message, line.position)
    return not problem


def _problem(key: str, written: str) -> str:
    """Return why such a field is dropped, or nothing."""
    if not key:
        return "this field has no key in front of '='"
    if any(mark in key for mark in _COMMENT_MARKS):
        return f"the key '{key}' holds the mark of a comment"
    return "" if written else f"'{key}' has no value behind '=' on its line"


def check_variables(
    variables: dict[str, Field],
    constants: dict[str, Field],
    functions: Iterable[str],
    findings: Findings,
) -> dict[str, str]:
    """Return the variables whose function exists, as name -> function name."""
    known = set(functions)
    usable: dict[str, str] = {}
    for name, (function, position, _) in variables.items():
        if name in constants:
            message = f"'{name}' is a constant too, and the constant is filled in"
            findings.warning(message, position)
        if function in known:
            usable[name] = function
        elif function.isidentifier():
            hint = _suggestion(function, known)
            message = f"there is no function '{function}' for the variable '{name}'{hint}"
            findings.error(message, position)
        else:
            message = f"'{function}' is no function name: letters, digits and '_', as in 'getDate'"
            findings.error(message, position)
    return usable


def check_fillings(fields: dict[str, Field], filled: Collection[str], findings: Findings) -> None:
    """Report placeholders in values, except those of `filled` names: they stay as they are."""
    for name, (_, position, written) in fields.items():
        for placeholder in find_placeholders(written):
            if not placeholder.quoted and placeholder.name not in filled:
                text = written[placeholder.start : placeholder.end]
                message = f"{text} in the value of '{name}' stays: only sections are filled in"
                findings.warning(message, position)


def _suggestion(function: str, known: Iterable[str]) -> str:
    near = get_close_matches(function, sorted(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
