"""The key-value lines of the special sections Meta, Const and Var."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Findings, Where
from langchain_convmem.prompts.placeholders import clean_name, find_placeholders
from langchain_convmem.prompts.scanner import Line
from langchain_convmem.prompts.titles import report_title_lookalike

__all__ = ["Field", "check_fillings", "check_variables", "read_fields"]


class Field(NamedTuple):
    """The value of a key, and where its line starts."""

    value: str
    where: Where


def read_fields(lines: Iterable[Line], into: dict[str, Field], findings: Findings) -> None:
    """Add the fields of a special section to `into`; a later value of a key wins."""
    for line in lines:
        if not line.text.strip():
            continue
        parts = _split(line, findings)
        if parts is None:
            _report_no_field(line, findings)
            continue
        key, value = parts
        if not _is_complete(key, value, line, findings):
            continue
        if key in into:
            before = into[key].where[0]
            findings.warning(
                f"'{key}' is set again: it replaces the value of line {before}", line.start
            )
        into[key] = Field(value, line.start)


def _split(line: Line, findings: Findings) -> tuple[str, str] | None:
    text = line.text.strip()
    dashed = text.startswith("-")
    body = text[1:] if dashed else text
    key, equals, value = body.partition("=")
    if not equals and dashed:
        key, equals, value = f"{clean_name(body)} ".partition(": ")
        if equals:
            findings.info("':' is taken as '='; a field is written '- key = value'", line.start)
    return (clean_name(key), clean_name(value)) if equals else None


def _report_no_field(line: Line, findings: Findings) -> None:
    findings.warning("this line is ignored: a field is written '- key = value'", line.start)
    report_title_lookalike(line, findings)


def _is_complete(key: str, value: str, line: Line, findings: Findings) -> bool:
    if not key:
        findings.error("this field has no key in front of '='; it is dropped", line.start)
    elif not value:
        findings.error(f"'{key}' has no value behind '=' on its line; it is dropped", line.start)
    elif value.startswith("="):
        findings.warning(f"the value of '{key}' starts with '='; one '=' is enough", line.start)
    return bool(key and value)


def check_variables(
    variables: dict[str, Field],
    constants: dict[str, Field],
    functions: Iterable[str],
    findings: Findings,
) -> dict[str, str]:
    """Return the variables whose function exists, as name -> function name."""
    known = set(functions)
    usable: dict[str, str] = {}
    for name, (function, where) in variables.items():
        if name in constants:
            findings.warning(f"'{name}' is a constant too, and the constant is filled in", where)
        if function in known:
            usable[name] = function
        elif function.isidentifier():
            hint = _suggestion(function, known)
            findings.error(
                f"there is no function '{function}' for the variable '{name}'{hint}", where
            )
        else:
            message = f"'{function}' is no function name: letters, digits and '_', as in 'getDate'"
            findings.error(message, where)
    return usable


def check_fillings(fields: dict[str, Field], filled: Collection[str], findings: Findings) -> None:
    """Report placeholders in values, except those of `filled` names: they stay as they are."""
    for name, (value, where) in fields.items():
        for placeholder in find_placeholders(value):
            if placeholder.name not in filled:
                text = value[placeholder.start : placeholder.end]
                message = f"{text} in the value of '{name}' stays: only sections are filled in"
                findings.warning(message, where)


def _suggestion(function: str, known: Iterable[str]) -> str:
    near = get_close_matches(function, sorted(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""
