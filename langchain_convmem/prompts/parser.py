"""Lines to the parts of a prompt file: sections, fields, where run-time variables stand.

Errors never stop the parse: everything that is dropped or taken otherwise than it may be meant is
in the diagnostics. Structure is read before any value is filled in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Diagnostic, Findings, Where
from langchain_convmem.prompts.fields import (
    Field,
    check_fillings,
    check_variables,
    read_fields,
)
from langchain_convmem.prompts.placeholders import (
    Occurrence,
    clean_lines,
    clean_name,
    fill_constants,
    find_occurrences,
    find_placeholders,
    open_placeholder,
)
from langchain_convmem.prompts.scanner import Line, read_lines, scan
from langchain_convmem.prompts.titles import read_title, report_title_lookalike

__all__ = ["ParsedPrompt", "parse_prompt"]

_META, _CONST, _VAR = "meta", "const", "var"
_START: Where = (1, 1)


class ParsedPrompt(NamedTuple):
    """What a prompt file says. `PromptFile` documents the parts."""

    metadata: dict[str, str]
    constants: dict[str, str]
    variable_definitions: dict[str, str]
    sections: dict[str, str]
    occurrences: dict[str, tuple[Occurrence, ...]]
    diagnostics: tuple[Diagnostic, ...]


class _Block(NamedTuple):
    """A title and the lines below it, up to the next title."""

    title: str
    where: Where
    lines: list[Line]


class _Names:
    """What placeholders may name."""

    def __init__(self, defined: Iterable[str]) -> None:
        self.defined = set(defined)
        self._by_letters = {_letters(name): name for name in self.defined}

    def suggestion(self, name: str) -> str:
        """Return '; did you mean ...?' for a name that differs in case or separators only."""
        near = self._by_letters.get(_letters(name))
        return "" if near is None else f"; did you mean '{near}'?"


def _letters(name: str) -> str:
    return "".join(char for char in name.casefold() if char.isalnum())


def parse_prompt(text: str, *, name: str, functions: Collection[str]) -> ParsedPrompt:
    """Parse a prompt file's text; raises nothing, whatever the text.

    Args:
        text: The text; line ends may be of any kind, a leading byte order mark is skipped.
        name: What diagnostics call the text.
        functions: Names of the functions that variables may use.
    """
    text = text.removeprefix("\ufeff")
    findings = Findings(name, text)
    blocks = _split_blocks(read_lines(scan(text, findings)), findings)
    special: dict[str, dict[str, Field]] = {_META: {}, _CONST: {}, _VAR: {}}
    prompts = [block for block in blocks if _is_prompt(block, special, findings)]
    _report_merges(prompts, findings)
    if not prompts:
        _report_no_prompt(blocks, findings)
    variables = check_variables(special[_VAR], special[_CONST], functions, findings)
    check_fillings(special[_META], (), findings)
    check_fillings(special[_CONST], variables, findings)
    names = _Names([*special[_CONST], *special[_VAR]])
    for block in prompts:
        _report_body(block, names, findings)
    constants = _values(special[_CONST])
    sections = _merge(prompts, constants)
    found = ((title, find_occurrences(body, variables)) for title, body in sections.items())
    return ParsedPrompt(
        metadata=_values(special[_META]),
        constants=constants,
        variable_definitions=variables,
        sections=sections,
        occurrences={title: places for title, places in found if places},
        diagnostics=findings.in_order(),
    )


def _values(fields: Mapping[str, Field]) -> dict[str, str]:
    return {key: field.value for key, field in fields.items()}


def _split_blocks(lines: Iterable[Line], findings: Findings) -> list[_Block]:
    preamble = _Block("", _START, [])
    blocks = [preamble]
    for line in lines:
        title = read_title(line)
        if title is None:
            blocks[-1].lines.append(line)
        else:
            blocks.append(_Block(title, line.start, []))
    ignored = [line for line in preamble.lines if line.text.strip()]
    if ignored:
        findings.warning("text in front of the first title is ignored", ignored[0].start)
    for line in ignored:
        report_title_lookalike(line, findings)
    return blocks[1:]


def _is_prompt(block: _Block, special: dict[str, dict[str, Field]], findings: Findings) -> bool:
    """Tell whether the block is a prompt section with text; read it if it is a special section."""
    title = block.title
    if not title:
        findings.warning("this title is empty; the text below it is dropped", block.where)
    elif not (title.startswith("*") or title.endswith("*")):
        if "*" in title:
            findings.warning(
                "only stars around the whole title make a section special", block.where
            )
        return _has_text(block, findings)
    elif (kind := _special_kind(title)) in special:
        read_fields(block.lines, special[kind], findings)
    else:
        message = (
            f"there is no special section '{title}'; it is dropped with all below it. "
            "There are '*Meta*', '*Const*' and '*Var*'; a prompt section's title has no stars"
        )
        findings.error(message, block.where)
    return False


def _special_kind(title: str) -> str:
    is_starred = len(title) > 1 and title.startswith("*") and title.endswith("*")
    return clean_name(title[1:-1]).casefold() if is_starred else ""


def _has_text(block: _Block, findings: Findings) -> bool:
    if any(line.text.strip() for line in block.lines):
        return True
    findings.warning(f"'{block.title}' has no text below it; it is dropped", block.where)
    return False


def _report_merges(prompts: Iterable[_Block], findings: Findings) -> None:
    first: dict[str, int] = {}
    for title, where, _ in prompts:
        if title in first:
            findings.warning(f"'{title}' continues the section of line {first[title]}", where)
        first.setdefault(title, where[0])


def _report_no_prompt(blocks: list[_Block], findings: Findings) -> None:
    if blocks:
        findings.warning("there is no prompt section with text in it", _START)
    else:
        message = "there is no section; a section starts with its title alone on a line: __ Role __"
        findings.error(message, _START)


def _report_body(block: _Block, names: _Names, findings: Findings) -> None:
    for line in block.lines:
        report_title_lookalike(line, findings)
        if "{{" in line.text:
            _report_placeholders(line, names, findings)


def _report_placeholders(line: Line, names: _Names, findings: Findings) -> None:
    for placeholder in find_placeholders(line.text):
        if placeholder.name not in names.defined:
            hint = names.suggestion(placeholder.name)
            message = f"'{placeholder.name}' is neither a constant nor a variable; it stays{hint}"
            findings.warning(message, line.where(placeholder.start))
    opened = open_placeholder(line.text)
    if opened >= 0:
        message = "this placeholder is not closed by '}}' on its line; it stays"
        findings.warning(message, line.where(opened))


def _merge(prompts: Iterable[_Block], constants: Mapping[str, str]) -> dict[str, str]:
    """Return the cleaned sections with constants filled in; equal titles become one section."""
    bodies: dict[str, list[str]] = {}
    for block in prompts:
        body = clean_lines(line.text for line in block.lines)
        bodies.setdefault(block.title, []).append(fill_constants(body, constants))
    return {title: "\n\n".join(parts) for title, parts in bodies.items()}
