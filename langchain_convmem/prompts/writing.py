r"""A parsed prompt file back to a prompt file's text, in one canonical form.

Special sections come first, each once, with one field a line; then the prompt sections in order,
with constants filled in. A line that would read otherwise than it is meant, such as one with `//`
in it, has its marks quoted: `{{"//"}}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts.diagnostics import Findings
from langchain_convmem.prompts.parser import ParsedPrompt, parse_prompt
from langchain_convmem.prompts.placeholders import Filler, Occurrence, unquote
from langchain_convmem.prompts.scanner import find_comments
from langchain_convmem.prompts.titles import is_starred, read_title

__all__ = ["write_prompt"]

_MARKS = re.compile(r"\{+|_{2,}|/?\*+/?|/{2,}")
"""What may mean something in a line; all of it is quoted in a line that needs quotes at all."""


def write_prompt(prompt: ParsedPrompt) -> str:
    """Return a text that `parse_prompt` reads as the same prompt, diagnostics apart.

    Raises:
        ConfigError: If there is none: a prompt that was put together by hand may hold what no
            file says, such as a line end inside a title.
    """
    filler = Filler(prompt.constants, prompt.variable_definitions)
    special = {
        "Meta": prompt.metadata,
        "Const": prompt.constants,
        "Var": prompt.variable_definitions,
    }
    blocks = [_special(title, fields) for title, fields in special.items() if fields]
    for title, body in prompt.sections.items():
        lines = _body_lines(body, prompt.occurrences.get(title, ()), filler)
        blocks.append("\n".join([_title(title), *lines, ""]))
    text = "\n".join(blocks)
    _check(prompt, text)
    return text


def _check(prompt: ParsedPrompt, text: str) -> None:
    functions = prompt.variable_definitions.values()
    again = parse_prompt(text, name="", functions=set(functions))
    if again[:-1] != prompt[:-1]:
        parts = zip(prompt._fields, prompt, again, strict=True)
        wrong = [name for name, before, after in parts if before != after and name != "diagnostics"]
        msg = f"no prompt file says this: {', '.join(wrong)} would read otherwise"
        raise ConfigError(msg)


def _special(title: str, fields: Mapping[str, str]) -> str:
    lines = [_plain_or_quoted(f"- {key} = {value}") for key, value in fields.items()]
    return "\n".join([f"__* {title} *__", *lines, ""])


def _title(title: str) -> str:
    line = f"__ {title} __"
    is_title = read_title(line) == title and unquote(title) == title and not is_starred(title)
    if is_title and _is_plain(line):
        return line
    return f"__ {_quoted(title)} __"


def _body_lines(text: str, occurrences: Iterable[Occurrence], filler: Filler) -> list[str]:
    """Return the lines of a section; placeholders of variables are written as they stand."""
    lines: list[str] = []
    ahead = list(reversed(list(occurrences)))
    offset = 0
    for line in text.split("\n"):
        end = offset + len(line)
        inside: list[Occurrence] = []
        while ahead and ahead[-1].end <= end:
            name, start, stop = ahead.pop()
            inside.append(Occurrence(name, start - offset, stop - offset))
        lines.append(_body_line(line, inside, filler))
        offset = end + 1
    return lines


def _body_line(line: str, occurrences: list[Occurrence], filler: Filler) -> str:
    is_text = _is_plain(line) and read_title(line) is None
    if is_text and ("{{" not in line or filler.fill(line) == (line, occurrences)):
        return line
    parts: list[str] = []
    behind = 0
    for _, start, end in occurrences:
        parts += [_quoted(line[behind:start]), line[start:end]]
        behind = end
    return "".join([*parts, _quoted(line[behind:])])


def _plain_or_quoted(line: str) -> str:
    return line if _is_plain(line) and unquote(line) == line else _quoted(line)


def _is_plain(line: str) -> bool:
    """Tell whether nothing in the line opens, closes or is a comment."""
    findings = Findings("", line)
    return not find_comments(line, findings) and not findings.in_order()


def _quoted(text: str) -> str:
    return _MARKS.sub(lambda mark: f'{{{{"{mark.group()}"}}}}', text)
