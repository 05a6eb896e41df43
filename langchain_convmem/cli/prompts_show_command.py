"""`convmem prompts show`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from langchain_convmem.cli.plain_text import Styled
from langchain_convmem.cli.prompts_reading import existing_prompt, finding_lines
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import Diagnostic, PromptFile
from langchain_convmem.views.tokens import count_text_tokens

__all__ = ["run"]


class _Section(NamedTuple):
    title: str
    text: str
    tokens: int
    functions: list[str]


def run(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Print the sections; exit with 1 if a variable function failed."""
    prompt = existing_prompt(arguments.file, arguments.functions)
    problems: list[Diagnostic] = []
    texts = prompt.sections if arguments.raw else prompt.render(on_problem=problems.append)
    titles = _titles(prompt, arguments.sections)
    sections = [_section(prompt, title, texts) for title in titles]
    if arguments.json:
        terminal.data(_data(prompt, sections))
    else:
        terminal.lines(_lines(sections))
    for line in finding_lines(problems):
        terminal.note(line.text)
    return int(bool(problems))


def _titles(prompt: PromptFile, wanted: list[str] | None) -> list[str]:
    for title in wanted or ():
        if title not in prompt.sections:
            msg = f"{prompt.name} has no section {title!r}; it has {list(prompt.sections)}"
            raise ConfigError(msg)
    return wanted or list(prompt.sections)


def _section(prompt: PromptFile, title: str, texts: Mapping[str, str]) -> _Section:
    functions = dict.fromkeys(found.function_name for found in prompt.occurrences.get(title, ()))
    return _Section(title, texts[title], count_text_tokens(texts[title]), list(functions))


def _lines(sections: list[_Section]) -> Iterator[Styled]:
    for section in sections:
        changing = f", calls {', '.join(section.functions)}" if section.functions else ""
        yield Styled(f"**{section.title}:**  ({section.tokens} tokens{changing})", "bold")
        yield Styled(f"{section.text}\n")
    total = sum(section.tokens for section in sections)
    noun = "section" if len(sections) == 1 else "sections"
    yield Styled(f"{len(sections)} {noun}, about {total} tokens", "dim")


def _data(prompt: PromptFile, sections: list[_Section]) -> dict[str, Any]:
    return {
        "path": prompt.name,
        "metadata": dict(prompt.metadata),
        "sections": [section._asdict() for section in sections],
        "tokens": sum(section.tokens for section in sections),
    }
