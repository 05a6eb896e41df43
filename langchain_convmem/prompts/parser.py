"""Lines to the parts of a prompt file: sections, fields, where run-time variables stand.

Errors never stop the parse: everything that is dropped or taken otherwise than it may be meant is
in the diagnostics. Structure is read before any value is filled in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

from langchain_convmem.causes import suggest_name
from langchain_convmem.prompts.diagnostics import Diagnostic, Findings, Level
from langchain_convmem.prompts.scanner import (
    SUMMARY_TITLE_KEY,
    Line,
    find_comments,
    read_lines,
)
from langchain_convmem.prompts.variables import (
    QUOTED,
    Filler,
    Occurrence,
    clean_lines,
    clean_name,
    find_placeholders,
    unquote,
)

_SPECIAL = _META, _CONST, _VAR = ("meta", "const", "var")
_PROMPT = "prompt"
_BETWEEN = "\n\n"
FUNCTION_WAYS = "pass it in functions=, register it, or declare it with --function"
"""How a file can know a function."""


class ParsedPrompt(NamedTuple):
    """What a prompt file says. `PromptFile` documents the parts."""

    metadata: dict[str, str]
    constants: dict[str, str]
    variable_definitions: dict[str, str]
    sections: dict[str, str]
    occurrences: dict[str, tuple[Occurrence, ...]]
    diagnostics: tuple[Diagnostic, ...]


def parse_prompt(text: str, *, name: str, functions: Collection[str]) -> ParsedPrompt:
    """Parse a prompt file's text; raises nothing, whatever the text.

    Args:
        text: The text; line ends may be of any kind, a leading byte order mark is skipped.
        name: What diagnostics call the text.
        functions: Names of the functions that variables may use.
    """
    text = text.removeprefix("\ufeff")
    findings = Findings(name, text)
    preamble, blocks = _split_blocks(read_lines(text, find_comments(text, findings)))
    _report_preamble(preamble, findings)
    special: dict[str, dict[str, _Field]] = {kind: {} for kind in _SPECIAL}
    for block in blocks:
        _report_title(block, findings)
        if block.title and block.kind in special:
            _read_fields(block.lines, special[block.kind], findings)
    prompts = [block for block in blocks if block.kind == _PROMPT and block.has_effect]
    if not blocks:
        how = "a section starts with its title alone on a line: __ Role __"
        findings.add("error", f"there is no section; {how}", 0)
    elif not prompts:
        findings.add("warning", "there is no prompt section with text in it", 0)
    variables = _check_variables(special[_VAR], special[_CONST], functions, findings)
    for key, (_, position, _) in special[_META].items():
        if key != SUMMARY_TITLE_KEY and (hint := suggest_name(key, [SUMMARY_TITLE_KEY])):
            findings.add("warning", f"'{key}' has no effect{hint}", position)
    _check_fillings(special[_META], (), findings)
    _check_fillings(special[_CONST], variables, findings)
    for block in prompts:
        _report_body(block, {*special[_CONST], *special[_VAR]}, findings)
    written = {key: field.written for key, field in special[_CONST].items()}
    sections, occurrences = _merge(prompts, Filler(written, variables), findings)
    return ParsedPrompt(
        metadata={key: one.value for key, one in special[_META].items()},
        constants={key: one.value for key, one in special[_CONST].items()},
        variable_definitions=variables,
        sections=sections,
        occurrences=occurrences,
        diagnostics=findings.sort(),
    )


class _TitledBlock(NamedTuple):
    """A title and the lines below it, up to the next title.

    Attributes:
        title: The title, quoted text without its quotes.
        kind: `prompt`, one of the special sections, or empty if there is no such special section.
        line: The line of the title.
        lines: The lines below.
    """

    title: str
    kind: str
    line: Line
    lines: list[Line]

    @property
    def has_effect(self) -> bool:
        """Whether anything of it is kept."""
        has_content = self.kind != _PROMPT or any(line.text.strip() for line in self.lines)
        return bool(self.title and self.kind) and has_content


def _split_blocks(lines: Iterable[Line]) -> tuple[list[Line], list[_TitledBlock]]:
    """Return the lines in front of the first title, and the blocks."""
    preamble: list[Line] = []
    blocks: list[_TitledBlock] = []
    below = preamble
    for line in lines:
        title = _read_title(line.text)
        if title is None:
            below.append(line)
        else:
            below = []
            blocks.append(_TitledBlock(unquote(title), _classify_title(title), line, below))
    return preamble, blocks


def _classify_title(title: str) -> str:
    if "*" not in (title[:1], title[-1:]):
        return _PROMPT
    kind = clean_name(title[1:-1]).casefold()
    return kind if title[:1] == title[-1:] == "*" and kind in _SPECIAL else ""


def _merge(
    prompts: Iterable[_TitledBlock], filler: Filler, findings: Findings
) -> tuple[dict[str, str], dict[str, tuple[Occurrence, ...]]]:
    """Return the cleaned and filled sections, and where variables stand in them.

    Blocks of one title become one section, with a blank line between them.
    """
    first: dict[str, int] = {}
    bodies: dict[str, list[str]] = {}
    found: dict[str, list[Occurrence]] = {}
    lengths: Counter[str] = Counter()
    for block in prompts:
        body, occurrences = filler.fill(clean_lines(line.text for line in block.lines))
        title = block.title
        before = findings.find_line(first.setdefault(title, block.line.position))
        if title in bodies:
            message = f"'{title}' continues the section of line {before}"
            findings.add("warning", message, block.line.position)
        bodies.setdefault(title, []).append(body)
        for function_name, start, end in occurrences:
            by = lengths[title]
            at = Occurrence(function_name, start + by, end + by)
            found.setdefault(title, []).append(at)
        lengths[title] += len(body) + len(_BETWEEN)
    sections = {title: _BETWEEN.join(parts) for title, parts in bodies.items()}
    return sections, {title: tuple(found[title]) for title in sections if title in found}


# -- What is said about blocks and their text -----------------------------------------------------


def _report_preamble(lines: Iterable[Line], findings: Findings) -> None:
    ignored = [line for line in lines if line.text.strip()]
    if ignored:
        findings.add("warning", "text in front of the first title is ignored", ignored[0].position)
    for line in ignored:
        _report_title_lookalike(line, findings)


def _report_title(block: _TitledBlock, findings: Findings) -> None:
    level: Level = "warning"
    title, message = block.title, ""
    if not title:
        message = "this title is empty; the text below it is dropped"
    elif not block.kind:
        level = "error"
        near = suggest_name(f"*{title.strip('* ')}*", [f"*{k.capitalize()}*" for k in _SPECIAL])
        message = (
            f"there is no special section '{title}'{f'{near} It' if near else '; it'} is dropped "
            "with all below it. "
            "There are '*Meta*', '*Const*' and '*Var*'; a prompt section's title has no stars"
        )
    elif not block.has_effect:
        message = f"'{title}' has no text below it; it is dropped"
    elif block.kind == _PROMPT and title.casefold() in _SPECIAL:
        message = f"'{title}' is a prompt section; the special one is written '__ *{title}* __'"
    elif block.kind == _PROMPT and "*" in title:
        message = "only stars around the whole title make a section special"
    if message:
        findings.add(level, message, block.line.position)


def _report_body(block: _TitledBlock, names: set[str], findings: Findings) -> None:
    for line in block.lines:
        _report_title_lookalike(line, findings)
        found = list(find_placeholders(line.text))
        for name, start, _, quoted in found:
            if not quoted and name not in names:
                hint = suggest_name(name, names)
                message = f"'{name}' is neither a constant nor a variable; it stays{hint}"
                findings.add("error", message, line.locate(start))
        opened = line.text.find("{{", found[-1].end if found else 0)
        if opened >= 0:
            message = "this placeholder is not closed by '}}' on its line; it stays"
            findings.add("warning", message, line.locate(opened))


# -- Titles, and lines that only look like one ----------------------------------------------------

_MARK = "__"
_LOOSE_MARK = re.compile(r"(?<!\w)__|__(?!\w)")
_OPENER = re.compile(r"(?<!\w)__[ \t]+[^ \t_]")
_CLOSER = re.compile(r"[ \t]__(?!\w)")


def _read_title(line: str) -> str | None:
    """Return the cleaned title, empty for an empty one; None if the line is not a title.

    Quoted text in it is still in its quotes.
    """
    if _MARK not in line:
        return None
    text = line.strip()
    if len(text) < 2 * len(_MARK) or not (text.startswith(_MARK) and text.endswith(_MARK)):
        return None
    inner = text[2:-2]
    # A row of underscores is a line to write on; `__init__ and __main__` is a sentence.
    if _LOOSE_MARK.search(_mask_quotes(inner)) or inner[:1] == "_" or inner[-1:] == "_":
        return None
    return clean_name(inner)


def _report_title_lookalike(line: Line, findings: Findings) -> None:
    """Report a line that may be meant as a title but is none; it stays what it is."""
    if _MARK not in line.text or not line.text.strip(" \t_"):
        return
    text = _mask_quotes(line.text)
    opener = _OPENER.search(text)
    lead = text.strip()
    if opener is not None and _CLOSER.search(text, opener.end()) is not None:
        message = "a title stands alone on its line; this one is taken as text"
        findings.add("error", message, line.locate(opener.start()))
    elif lead.startswith(_MARK) and (lead.endswith(_MARK) or opener is not None):
        message = "this line is taken as text: a title is written '__ Role __'"
        findings.add("warning", message, line.position)


def _mask_quotes(text: str) -> str:
    """Return `text` with quoted text made unsuspicious; offsets stay."""
    return QUOTED.sub(lambda quoted: "x" * len(quoted.group()), text) if "{{" in text else text


# -- The fields of the special sections Meta, Const and Var ---------------------------------------


class _Field(NamedTuple):
    """The value of a key.

    Attributes:
        value: The value.
        position: Where its line starts.
        written: The value with quoted text still in its quotes.
    """

    value: str
    position: int
    written: str


def _read_fields(lines: Iterable[Line], into: dict[str, _Field], findings: Findings) -> None:
    """Add the fields of a special section to `into`; a later value of a key wins."""
    for line in lines:
        if not line.text.strip():
            continue
        parts = _split_field(line.text)
        if parts is None:
            message = "this line is ignored: a field is written '- key = value'"
            findings.add("warning", message, line.position)
            _report_title_lookalike(line, findings)
            continue
        key, written = parts
        problem = _find_problem(key, written)
        if problem:
            findings.add("error", f"{problem}; it is dropped", line.position)
            continue
        if written.startswith("="):
            message = f"the value of '{key}' starts with '='; one '=' is enough"
            findings.add("warning", message, line.position)
        if key in into:
            before = findings.find_line(into[key].position)
            message = f"'{key}' is set again: it replaces the value of line {before}"
            findings.add("warning", message, line.position)
        into[key] = _Field(unquote(written), line.position, written)


def _split_field(line: str) -> tuple[str, str] | None:
    """Return the key, and the value as it was written; either may be empty. None for no field."""
    text = line.strip()
    plain = _BULLETS.sub("", text, count=1)
    key, equals, value = plain.partition("=")
    # In `- home: https://x.example/?a=1`, the colon separates: the `=` touches what is before it.
    if plain != text and (not equals or (": " in key and not key[-1:].isspace())):
        key, equals, value = f"{clean_name(plain)} ".partition(": ")
    return (unquote(clean_name(key)), clean_name(value)) if equals else None


# A star that touches the key belongs to it, as in `*MessageSummaryTitle*`.
_BULLETS = re.compile(r"\A(?:[-\u2010-\u2015\u2022\u2023\u25aa\u25e6\u00b7\u2212]\s*|[*+]\s+)*")


def _find_problem(key: str, written: str) -> str:
    """Return why such a field is dropped, or nothing."""
    if not key:
        return "this field has no key in front of '='"
    if any(mark in key for mark in ("/*", "*/")):
        return f"the key '{key}' holds the mark of a comment"
    return "" if written else f"'{key}' has no value after '=' on its line"


def _check_variables(
    variables: dict[str, _Field],
    constants: dict[str, _Field],
    functions: Collection[str],
    findings: Findings,
) -> dict[str, str]:
    """Return the variables whose function exists, as name -> function name."""
    usable: dict[str, str] = {}
    for name, (function, position, _) in variables.items():
        if name in constants:
            message = f"'{name}' is a constant too, and the constant is filled in"
            findings.add("warning", message, position)
        if function in functions:
            usable[name] = function
            continue
        message = f"'{function}' is not a function name: letters, digits and '_', as in 'getDate'"
        if function.isidentifier():
            hint = suggest_name(function, functions) or f"; {FUNCTION_WAYS}"
            message = f"there is no function '{function}' for the variable '{name}'{hint}"
        findings.add("error", message, position)
    return usable


def _check_fillings(fields: dict[str, _Field], filled: Collection[str], findings: Findings) -> None:
    """Report placeholders in values, except those of `filled` names: they stay as they are."""
    for name, (_, position, written) in fields.items():
        for placeholder in find_placeholders(written):
            if not placeholder.quoted and placeholder.name not in filled:
                text = written[placeholder.start : placeholder.end]
                message = f"{text} in the value of '{name}' stays: only sections are filled in"
                findings.add("warning", message, position)
