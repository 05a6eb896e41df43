"""Lines to the parts of a prompt file: sections, fields, where run-time variables stand.

Errors never stop the parse: everything that is dropped or taken otherwise than it may be meant is
in the diagnostics. Structure is read before any value is filled in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from langchain_convmem.prompts.diagnostics import Diagnostic, Findings
from langchain_convmem.prompts.fields import (
    Field,
    check_fillings,
    check_variables,
    read_fields,
)
from langchain_convmem.prompts.placeholders import (
    MAX_FILLED,
    Filler,
    Occurrence,
    clean_lines,
    clean_name,
    find_placeholders,
    open_placeholder,
    unquote,
)
from langchain_convmem.prompts.scanner import Line, find_comments, read_lines
from langchain_convmem.prompts.titles import is_starred, read_title, report_title_lookalike

__all__ = ["Block", "ParsedPrompt", "parse_prompt", "split_blocks"]

_META, _CONST, _VAR = _SPECIAL = ("meta", "const", "var")
_PROMPT = "prompt"
_BETWEEN = "\n\n"
_BYTE_ORDER_MARK = "\ufeff"


class ParsedPrompt(NamedTuple):
    """What a prompt file says. `PromptFile` documents the parts."""

    metadata: dict[str, str]
    constants: dict[str, str]
    variable_definitions: dict[str, str]
    sections: dict[str, str]
    occurrences: dict[str, tuple[Occurrence, ...]]
    diagnostics: tuple[Diagnostic, ...]


class Block(NamedTuple):
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
    text = text.removeprefix(_BYTE_ORDER_MARK)
    findings = Findings(name, text)
    preamble, blocks = split_blocks(read_lines(text, find_comments(text, findings)))
    _report_preamble(preamble, findings)
    special: dict[str, dict[str, Field]] = {kind: {} for kind in _SPECIAL}
    for block in blocks:
        _report_title(block, findings)
        if block.title and block.kind in special:
            read_fields(block.lines, special[block.kind], findings)
    prompts = [block for block in blocks if block.is_prompt and block.has_effect]
    _report_merges(prompts, findings)
    if not prompts:
        _report_no_prompt(blocks, findings)
    variables = check_variables(special[_VAR], special[_CONST], functions, findings)
    check_fillings(special[_META], (), findings)
    check_fillings(special[_CONST], variables, findings)
    names = _Names([*special[_CONST], *special[_VAR]])
    for block in prompts:
        _report_body(block, names, findings)
    written = {key: field.written for key, field in special[_CONST].items()}
    sections, occurrences = _merge(prompts, Filler(written, variables), findings)
    return ParsedPrompt(
        metadata=_values(special[_META]),
        constants=_values(special[_CONST]),
        variable_definitions=variables,
        sections=sections,
        occurrences=occurrences,
        diagnostics=findings.in_order(),
    )


def _values(fields: Mapping[str, Field]) -> dict[str, str]:
    return {key: field.value for key, field in fields.items()}


def split_blocks(lines: Iterable[Line]) -> tuple[list[Line], list[Block]]:
    """Return the lines in front of the first title, and the blocks."""
    preamble: list[Line] = []
    blocks: list[Block] = []
    below = preamble
    for line in lines:
        title = read_title(line.text)
        if title is None:
            below.append(line)
        else:
            below = []
            blocks.append(Block(unquote(title), _kind(title), line, below))
    return preamble, blocks


def _kind(title: str) -> str:
    if not is_starred(title):
        return _PROMPT
    is_paired = len(title) > 1 and title.startswith("*") and title.endswith("*")
    kind = clean_name(title[1:-1]).casefold() if is_paired else ""
    return kind if kind in _SPECIAL else ""


def _report_preamble(lines: Iterable[Line], findings: Findings) -> None:
    ignored = [line for line in lines if line.text.strip()]
    if ignored:
        message = "text in front of the first title is ignored"
        findings.warning(message, ignored[0].position)
    for line in ignored:
        report_title_lookalike(line, findings)


def _report_title(block: Block, findings: Findings) -> None:
    title = block.title
    if not title:
        message = "this title is empty; the text below it is dropped"
        findings.warning(message, block.position)
    elif not block.kind:
        message = (
            f"there is no special section '{title}'; it is dropped with all below it. "
            "There are '*Meta*', '*Const*' and '*Var*'; a prompt section's title has no stars"
        )
        findings.error(message, block.position)
    elif not block.has_effect:
        message = f"'{title}' has no text below it; it is dropped"
        findings.warning(message, block.position)
    elif block.is_prompt and "*" in title:
        message = "only stars around the whole title make a section special"
        findings.warning(message, block.position)


def _report_merges(prompts: Iterable[Block], findings: Findings) -> None:
    first: dict[str, int] = {}
    for block in prompts:
        title, position = block.title, block.position
        if title in first:
            before = findings.line_of(first[title])
            findings.warning(f"'{title}' continues the section of line {before}", position)
        first.setdefault(title, position)


def _report_no_prompt(blocks: list[Block], findings: Findings) -> None:
    if blocks:
        findings.warning("there is no prompt section with text in it", 0)
    else:
        message = "there is no section; a section starts with its title alone on a line: __ Role __"
        findings.error(message, 0)


def _report_body(block: Block, names: _Names, findings: Findings) -> None:
    for line in block.lines:
        report_title_lookalike(line, findings)
        if "{{" in line.text:
            _report_placeholders(line, names, findings)


def _report_placeholders(line: Line, names: _Names, findings: Findings) -> None:
    for name, start, _, quoted in find_placeholders(line.text):
        if not quoted and name not in names.defined:
            hint = names.suggestion(name)
            message = f"'{name}' is neither a constant nor a variable; it stays{hint}"
            findings.warning(message, line.at(start))
    opened = open_placeholder(line.text)
    if opened >= 0:
        message = "this placeholder is not closed by '}}' on its line; it stays"
        findings.warning(message, line.at(opened))


def _merge(
    prompts: Iterable[Block], filler: Filler, findings: Findings
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
            findings.error(message, block.position)
        title = block.title
        bodies.setdefault(title, []).append(body)
        for function_name, start, end in occurrences:
            before = lengths[title]
            at = Occurrence(function_name, start + before, end + before)
            found.setdefault(title, []).append(at)
        lengths[title] += len(body) + len(_BETWEEN)
    sections = {title: _BETWEEN.join(parts) for title, parts in bodies.items()}
    return sections, {title: tuple(found[title]) for title in sections if title in found}
