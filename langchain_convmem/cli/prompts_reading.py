"""Prompt files as commands read them, and what is wrong with them as lines and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from langchain_convmem.cli.plain_text import Styled
from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts import Diagnostic, PromptFile
from langchain_convmem.prompts.diagnostics import Level

__all__ = [
    "ReadPrompt",
    "declared_functions",
    "existing_prompt",
    "fails",
    "finding_data",
    "finding_lines",
    "read_prompt",
    "verdict",
]

_STYLES: dict[Level, str] = {"error": "red", "warning": "yellow", "info": "dim"}


class ReadPrompt(NamedTuple):
    """A prompt file, None where it could not be read, and all that is wrong with it."""

    path: str
    prompt: PromptFile | None
    findings: tuple[Diagnostic, ...]


def declared_functions(declared: Iterable[str]) -> dict[str, Callable[[], str]]:
    """Return the functions that `NAME` or `NAME=VALUE` declare; each returns its value."""
    pairs = (one.partition("=") for one in declared)
    return {name.strip(): partial(str, value) for name, _, value in pairs}


def read_prompt(path: str, declared: Iterable[str]) -> ReadPrompt:
    """Read a prompt file; one that cannot be read has an error that says so.

    Raises:
        ConfigError: If a declared function's name is none.
    """
    try:
        prompt = PromptFile.load(path, functions=declared_functions(declared))
    except PromptSyntaxError as error:
        return ReadPrompt(path, None, (_unreadable(path, error),))
    except OSError as error:
        message = f"this file cannot be read: {error.strerror or error}"
        return ReadPrompt(path, None, (Diagnostic("error", message, 1, 1, name=path),))
    return ReadPrompt(path, prompt, prompt.diagnostics)


def _unreadable(path: str, error: PromptSyntaxError) -> Diagnostic:
    line, column = error.line or 1, error.column or 1
    said = str(error).split("\n", 1)[0]
    message = said.removeprefix(f"{path}:{line}:{column}: error: ").removeprefix(f"{path}: ")
    return Diagnostic("error", message, line, column, error.source_line, path)


def existing_prompt(path: str, declared: Iterable[str]) -> PromptFile:
    """Return the prompt file.

    Raises:
        ConfigError: If it cannot be read, or a declared function's name is none.
    """
    read = read_prompt(path, declared)
    if read.prompt is None:
        raise ConfigError(f"{path}: {read.findings[0].message}")
    return read.prompt


def finding_lines(findings: Iterable[Diagnostic]) -> Iterator[Styled]:
    """Yield each finding as compilers print it: place, message, source line, caret."""
    for finding in findings:
        yield Styled(str(finding), _STYLES[finding.level])


def finding_data(findings: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Return findings as plain data; the file is called `path`."""
    return [{"path": finding.name, **_without_name(asdict(finding))} for finding in findings]


def _without_name(data: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key != "name"}


def fails(findings: Iterable[Diagnostic], *, strict: bool) -> bool:
    """Return whether a check fails: on errors, in strict mode on warnings too."""
    bad = {"error", "warning"} if strict else {"error"}
    return any(finding.level in bad for finding in findings)


def verdict(what: str, findings: Sequence[Diagnostic]) -> str:
    """Return the counts of findings as one line."""
    counts = Counter(finding.level for finding in findings)
    shown = [_counted(counts[level], level) for level in _STYLES if counts[level]]
    return f"{what}: {', '.join(shown) or 'no problems'}"


def _counted(count: int, level: str) -> str:
    word = "note" if level == "info" else level
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
