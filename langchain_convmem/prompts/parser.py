"""Lines to the parts of a prompt file: sections, fields, where run-time variables stand.

Errors never stop the parse: everything that is dropped or taken otherwise than it may be meant is
in the diagnostics. Structure is read before any value is filled in.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from langchain_convmem.causes import suggest_name
from langchain_convmem.prompts.diagnostics import Diagnostic, Findings
from langchain_convmem.prompts.scanner import (
    Line,
    find_comments,
    read_lines,
)
from langchain_convmem.prompts.variables import (
    MAX_FILLED,
    QUOTED,
    Filler,
    Occurrence,
    clean_lines,
    clean_name,
    find_open_placeholder,
    find_placeholders,
    unquote,
)

_SPECIAL = _META, _CONST, _VAR = ("meta", "const", "var")
_PROMPT = "prompt"
_BETWEEN = "\n\n"


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
    prompts = [block for block in blocks if block.is_prompt and block.has_effect]
    _report_merges(prompts, findings)
    if not prompts:
        _report_no_prompt(blocks, findings)
    variables = _check_variables(special[_VAR], special[_CONST], functions, findings)
    _check_fillings(special[_META], (), findings)
    _check_fillings(special[_CONST], variables, findings)
    names = {*special[_CONST], *special[_VAR]}
    for block in prompts:
        _report_body(block, names, findings)
    written = {key: field.written for key, field in special[_CONST].items()}
    sections, occurrences = _merge(prompts, Filler(written, variables), findings)
    return ParsedPrompt(
        metadata=_list_values(special[_META]),
        constants=_list_values(special[_CONST]),
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
    def position(self) -> int:
        """Where its title stands."""
        return self.line.position

    @property
    def is_prompt(self) -> bool:
        """Whether it is a prompt section, not a special one."""
        return self.kind == _PROMPT

    @property
    def has_effect(self) -> bool:
        """Whether anything of it is kept."""
        has_content = not self.is_prompt or any(line.text.strip() for line in self.lines)
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
    if not _is_starred(title):
        return _PROMPT
    is_paired = len(title) > 1 and title.startswith("*") and title.endswith("*")
    kind = clean_name(title[1:-1]).casefold() if is_paired else ""
    return kind if kind in _SPECIAL else ""


def _merge(
    prompts: Iterable[_TitledBlock], filler: Filler, findings: Findings
) -> tuple[dict[str, str], dict[str, tuple[Occurrence, ...]]]:
    """Return the cleaned and filled sections, and where variables stand in them.

    Blocks of one title become one section, with a blank line between them.
    """
    bodies: dict[str, list[str]] = {}
    found: dict[str, list[Occurrence]] = {}
    lengths: Counter[str] = Counter()
    for block in prompts:
        was_full = filler.is_full
        body, occurrences = filler.fill(clean_lines(line.text for line in block.lines))
        if filler.is_full and not was_full:
            message = f"constants fill in more than {MAX_FILLED} characters; the rest of them stay"
            findings.add_error(message, block.position)
        title = block.title
        bodies.setdefault(title, []).append(body)
        for function_name, start, end in occurrences:
            before = lengths[title]
            at = Occurrence(function_name, start + before, end + before)
            found.setdefault(title, []).append(at)
        lengths[title] += len(body) + len(_BETWEEN)
    sections = {title: _BETWEEN.join(parts) for title, parts in bodies.items()}
    return sections, {title: tuple(found[title]) for title in sections if title in found}


def _list_values(fields: Mapping[str, _Field]) -> dict[str, str]:
    return {key: field.value for key, field in fields.items()}


# -- What is said about blocks and their text -----------------------------------------------------


def _report_preamble(lines: Iterable[Line], findings: Findings) -> None:
    ignored = [line for line in lines if line.text.strip()]
    if ignored:
        message = "text in front of the first title is ignored"
        findings.add_warning(message, ignored[0].position)
    for line in ignored:
        _report_title_lookalike(line, findings)


def _report_title(block: _TitledBlock, findings: Findings) -> None:
    title = block.title
    if not title:
        message = "this title is empty; the text below it is dropped"
        findings.add_warning(message, block.position)
    elif not block.kind:
        near = suggest_name(f"*{title.strip('* ')}*", [f"*{k.capitalize()}*" for k in _SPECIAL])
        message = (
            f"there is no special section '{title}'{f'{near} It' if near else '; it'} is dropped "
            "with all below it. "
            "There are '*Meta*', '*Const*' and '*Var*'; a prompt section's title has no stars"
        )
        findings.add_error(message, block.position)
    elif not block.has_effect:
        message = f"'{title}' has no text below it; it is dropped"
        findings.add_warning(message, block.position)
    elif block.is_prompt and title.casefold() in _SPECIAL:
        message = f"'{title}' is a prompt section; the special one is written '__ *{title}* __'"
        findings.add_warning(message, block.position)
    elif block.is_prompt and "*" in title:
        message = "only stars around the whole title make a section special"
        findings.add_warning(message, block.position)


def _report_merges(prompts: Iterable[_TitledBlock], findings: Findings) -> None:
    first: dict[str, int] = {}
    for block in prompts:
        title, position = block.title, block.position
        if title in first:
            before = findings.find_line(first[title])
            findings.add_warning(f"'{title}' continues the section of line {before}", position)
        first.setdefault(title, position)


def _report_no_prompt(blocks: list[_TitledBlock], findings: Findings) -> None:
    if blocks:
        findings.add_warning("there is no prompt section with text in it", 0)
    else:
        message = "there is no section; a section starts with its title alone on a line: __ Role __"
        findings.add_error(message, 0)


def _report_body(block: _TitledBlock, names: set[str], findings: Findings) -> None:
    for line in block.lines:
        _report_title_lookalike(line, findings)
        if "{{" in line.text:
            _report_placeholders(line, names, findings)


def _report_placeholders(line: Line, names: set[str], findings: Findings) -> None:
    for name, start, _, quoted in find_placeholders(line.text):
        if not quoted and name not in names:
            hint = suggest_name(name, names)
            message = f"'{name}' is neither a constant nor a variable; it stays{hint}"
            findings.add_error(message, line.locate(start))
    opened = find_open_placeholder(line.text)
    if opened >= 0:
        message = "this placeholder is not closed by '}}' on its line; it stays"
        findings.add_warning(message, line.locate(opened))


# -- Titles, and lines that only look like one ----------------------------------------------------

_MARK = "__"
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
    if _MARK in _mask_quotes(inner) or inner[:1] == "_" or inner[-1:] == "_":
        return None
    return clean_name(inner)


def _is_starred(title: str) -> bool:
    """Tell whether stars make this a special section's title, known or not."""
    return title.startswith("*") or title.endswith("*")


def _report_title_lookalike(line: Line, findings: Findings) -> None:
    """Report a line that may be meant as a title but is none; it stays what it is."""
    if _MARK not in line.text or not line.text.strip(" \t_"):
        return
    text = _mask_quotes(line.text)
    opener = _OPENER.search(text)
    lead = text.strip()
    if opener is not None and _CLOSER.search(text, opener.end()) is not None:
        message = "a title stands alone on its line; this one is taken as text"
        findings.add_error(message, line.locate(opener.start()))
    elif lead.startswith(_MARK) and (lead.endswith(_MARK) or opener is not None):
        message = "this line is taken as text: a title is written '__ Role __'"
        findings.add_warning(message, line.position)


def _mask_quotes(text: str) -> str:
    """Return `text` with quoted text made unsuspicious; offsets stay."""
    return QUOTED.sub(lambda quoted: "x" * len(quoted.group()), text) if "{{" in text else text


# -- The fields of the special sections Meta, Const and Var ---------------------------------------

_COMMENT_MARKS = ("/*", "*/")


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
            _report_no_field(line, findings)
            continue
        key, written = parts
        if not _check(key, written, line, findings):
            continue
        if key in into:
            before = findings.find_line(into[key].position)
            message = f"'{key}' is set again: it replaces the value of line {before}"
            findings.add_warning(message, line.position)
        into[key] = _Field(unquote(written), line.position, written)


def _split_field(line: str) -> tuple[str, str] | None:
    """Return the key, and the value as it was written; either may be empty. None for no field."""
    text = line.strip()
    plain = text[len(_find_bullets(text)) :]
    key, equals, value = plain.partition("=")
    if not equals and plain != text:
        key, equals, value = f"{clean_name(plain)} ".partition(": ")
    return (unquote(clean_name(key)), clean_name(value)) if equals else None


_BULLETS = re.compile(r"(?:[-\u2010-\u2015\u2022\u2023\u25aa\u25e6\u00b7\u2212]\s*|[*+]\s+)*")


def _find_bullets(text: str) -> str:
    """Return the dashes and bullets in front of a field, such as `- ` or `*  `.

    A star that touches the key belongs to it, as in `*HumanExamples*`.
    """
    match = _BULLETS.match(text)
    return "" if match is None else match.group()


def _report_no_field(line: Line, findings: Findings) -> None:
    message = "this line is ignored: a field is written '- key = value'"
    findings.add_warning(message, line.position)
    _report_title_lookalike(line, findings)


def _check(key: str, written: str, line: Line, findings: Findings) -> bool:
    problem = _find_problem(key, written)
    if problem:
        findings.add_error(f"{problem}; it is dropped", line.position)
    elif written.startswith("="):
        message = f"the value of '{key}' starts with '='; one '=' is enough"
        findings.add_warning(message, line.position)
    return not problem


def _find_problem(key: str, written: str) -> str:
    """Return why such a field is dropped, or nothing."""
    if not key:
        return "this field has no key in front of '='"
    if any(mark in key for mark in _COMMENT_MARKS):
        return f"the key '{key}' holds the mark of a comment"
    return "" if written else f"'{key}' has no value after '=' on its line"


def _check_variables(
    variables: dict[str, _Field],
    constants: dict[str, _Field],
    functions: Iterable[str],
    findings: Findings,
) -> dict[str, str]:
    """Return the variables whose function exists, as name -> function name."""
    known = set(functions)
    usable: dict[str, str] = {}
    for name, (function, position, _) in variables.items():
        if name in constants:
            message = f"'{name}' is a constant too, and the constant is filled in"
            findings.add_warning(message, position)
        if function in known:
            usable[name] = function
        elif function.isidentifier():
            hint = suggest_name(function, known)
            message = f"there is no function '{function}' for the variable '{name}'{hint}"
            findings.add_error(message, position)
        else:
            message = (
                f"'{function}' is not a function name: letters, digits and '_', as in 'getDate'"
            )
            findings.add_error(message, position)
    return usable


def _check_fillings(fields: dict[str, _Field], filled: Collection[str], findings: Findings) -> None:
    """Report placeholders in values, except those of `filled` names: they stay as they are."""
    for name, (_, position, written) in fields.items():
        for placeholder in find_placeholders(written):
            if not placeholder.quoted and placeholder.name not in filled:
                text = written[placeholder.start : placeholder.end]
                message = f"{text} in the value of '{name}' stays: only sections are filled in"
                findings.add_warning(message, position)
