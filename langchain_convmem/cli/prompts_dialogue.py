"""`convmem prompts check --interactive`: from a prompt file to its compiled forms, step by step."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from langchain_convmem.cli.prompts_reading import (
    declared_functions,
    fails,
    finding_lines,
    read_prompt,
    verdict,
)
from langchain_convmem.cli.prompts_writing import SUFFIXES, is_other_file, write_compiled
from langchain_convmem.cli.terminal import Terminal
from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts import PromptFile

__all__ = ["run_dialogue"]


class _Ended(Exception):  # noqa: N818 - no error: the person had enough
    """The input ended before the last question."""


def run_dialogue(arguments: argparse.Namespace, terminal: Terminal) -> int:
    """Ask for a file, show what is in it and wrong with it, and compile it where that is wanted.

    Returns:
        1 if the file fails the check, the person finds fault with it, or it reads otherwise after
        compiling; else 0.

    Raises:
        ConfigError: If more than one file is named, or a compiled file cannot be written.
    """
    if len(arguments.files) > 1:
        raise ConfigError("--interactive takes one file at a time")
    dialogue = _Dialogue(terminal, arguments)
    try:
        return dialogue.run(arguments.files[0] if arguments.files else None)
    except _Ended:
        terminal.note("the input ended; nothing was compiled")
        return 0


class _Dialogue(NamedTuple):
    terminal: Terminal
    arguments: argparse.Namespace

    def run(self, path: str | None) -> int:
        prompt = self._checked(self._asked_file() if path is None else path)
        if prompt is None or not self._agrees("Is everything as it should be?"):
            return 1
        targets = self._asked_targets(Path(prompt.name))
        if not self._agrees(f"Write {' and '.join(map(str, targets))}?"):
            self.terminal.line("nothing was compiled")
            return 0
        write_compiled(prompt, targets)
        self.terminal.line("compiled")
        return self._tested(prompt, targets)

    def _asked_file(self) -> str:
        folder = Path()
        if self._agrees("Is the prompt file in another folder?"):
            folder = Path(self._asked_until("Which folder?", lambda given: Path(given).is_dir()))
        name = self._asked_until("Which file?", lambda given: (folder / given).is_file())
        return str(folder / name)

    def _checked(self, path: str) -> PromptFile | None:
        """Show the file and what is wrong with it; None if it fails."""
        read = read_prompt(path, self.arguments.functions)
        if read.prompt is not None:
            rendered = read.prompt.format(read.prompt.sections, on_problem=self._complain)
            self.terminal.line(f"{rendered}\n")
        self.terminal.lines(finding_lines(read.findings))
        self.terminal.line(verdict(path, read.findings))
        return None if fails(read.findings, strict=self.arguments.strict) else read.prompt

    def _complain(self, problem: object) -> None:
        self.terminal.note(str(problem))

    def _asked_targets(self, source: Path) -> list[Path]:
        beside = _targets(source)
        free = not any(map(is_other_file, beside))
        if free and self._agrees(f"Compile to {' and '.join(map(str, beside))}?"):
            return beside
        given = self._asked_until("Path without ending?", self._is_free)
        return _targets(Path(given))

    def _is_free(self, given: str) -> bool:
        there = [str(one) for one in _targets(Path(given)) if is_other_file(one)]
        return not there or self._agrees(f"Write over {' and '.join(there)}?")

    def _tested(self, prompt: PromptFile, targets: Sequence[Path]) -> int:
        if not self._agrees("Load the compiled files and compare?"):
            return 0
        functions = declared_functions(self.arguments.functions)
        for target in targets:
            loaded = PromptFile.load(target, functions=functions)
            if _content(loaded) != _content(prompt):
                self.terminal.line(f"{target}: reads otherwise than {prompt.name}")
                return 1
        self.terminal.line("both are the same as the source")
        return 0

    def _asked_until(self, question: str, fits: Callable[[str], bool]) -> str:
        for given in self.terminal.typed(f"{question} "):
            if given.strip() and fits(given.strip()):
                return given.strip()
            self.terminal.note(f"not {given.strip()!r}; again")
        raise _Ended

    def _agrees(self, question: str) -> bool:
        for given in self.terminal.typed(f"{question} [y/N] "):
            return given.strip().lower() in {"y", "yes"}
        raise _Ended


def _targets(stem: Path) -> list[Path]:
    return [stem.with_suffix(suffix) for suffix in SUFFIXES.values()]


def _content(prompt: PromptFile) -> tuple[object, ...]:
    return prompt.metadata, prompt.sections, prompt.occurrences
