"""`convmem prompts check`: what is wrong with prompt files, and their compiled forms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from langchain_convmem.cli.options import CommandGroup, command, refuse_usage
from langchain_convmem.cli.output import Styled, Terminal, format_count
from langchain_convmem.errors import ConfigError, PromptSyntaxError

if TYPE_CHECKING:
    from langchain_convmem.prompts import Diagnostic, PromptFile

_SUFFIXES = {"binary": [".bytes"], "json": [".json"], "both": [".bytes", ".json"]}
_STYLES = {"error": "red", "warning": "yellow"}
_MAX_BYTES = 1 << 26


@click.group(cls=CommandGroup, no_args_is_help=False)
def prompts() -> None:
    """Check and compile prompt files."""


@command(
    "check",
    "convmem prompts check *.prompt",
    "convmem prompts check assistant.prompt --strict --function getMood=calm",
    "convmem prompts check assistant.prompt --compile both",
    "convmem prompts check --interactive",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path())
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@click.option(
    "--function",
    "functions",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="A function that your program registers for variables; VALUE stands in for its result.",
)
@click.option(
    "--compile",
    "form",
    type=click.Choice(list(_SUFFIXES)),
    help="Compile the files if all pass: binary (NAME.bytes), JSON for people to read, or both.",
)
@click.option("--interactive", is_flag=True, help="Go through a file step by step, and compile it.")
def check(
    terminal: Terminal,
    *,
    files: tuple[str, ...],
    strict: bool,
    functions: tuple[str, ...],
    form: str | None,
    interactive: bool,
) -> int:
    """Report what is wrong with prompt files.

    Prints findings like a compiler, with position, source line and caret. If there are errors, it
    exits with 1 and compiles nothing. Compiled files go next to their sources; no other file is
    overwritten.
    """
    if interactive:
        if terminal.as_json or len(files) > 1:
            refuse_usage("--interactive takes one file and cannot be combined with --json")
        return _converse(terminal, files[0] if files else None, functions, strict=strict)
    if not files:
        raise ConfigError("name a prompt file, or pass --interactive to be asked for one")
    read = [_read_prompt(path, functions) for path in files]
    findings = [finding for one in read for finding in one.findings]
    failed = _is_failure(findings, strict=strict)
    compiled: list[dict[str, str]] = []
    if form is not None and not failed:
        targets = [(one, _name_targets(Path(one.path), form)) for one in read]
        for one, places in targets:
            _write_compiled(one, places)
            compiled += [{"source": one.path, "path": str(place)} for place in places]
    lines = [
        *_format_findings(findings),
        _count_findings(files[0] if len(files) == 1 else f"{len(files)} files", findings),
        *(f"{one['path']}: compiled from {one['source']}" for one in compiled),
    ]
    rows = [asdict(finding) for finding in findings]
    encoded = {"findings": [{"path": row.pop("name"), **row} for row in rows], "compiled": compiled}
    return terminal.print_result(encoded, lines, code=int(failed))


prompts.add_command(check)


def _converse(
    terminal: Terminal, path: str | None, functions: Sequence[str], *, strict: bool
) -> int:
    """Ask for a file, show what is in it and wrong with it, and compile it if that is wanted.

    Returns:
        1 if the file fails the check, or the person finds fault with it; else 0.
    """
    read = _read_prompt(path or _ask_text(terminal, "Which prompt file?"), functions)
    if read.prompt is not None:
        rendered = read.prompt.format(
            read.prompt.sections, on_problem=lambda problem: terminal.note_text(str(problem))
        )
        terminal.print_text(f"{rendered}\n")
    terminal.print_lines(_format_findings(read.findings))
    terminal.print_line(_count_findings(read.path, read.findings))
    if _is_failure(read.findings, strict=strict) or not terminal.ask("Is this correct?"):
        return 1
    stem = Path(read.path)
    if not terminal.ask(
        f"Compile to {stem.with_suffix('.bytes')} and {stem.with_suffix('.json')}?"
    ):
        given = _ask_text(terminal, "Which other path, without extension? (Enter for none)")
        if not given:
            terminal.print_line("nothing was compiled")
            return 0
        stem = Path(given)
    _write_compiled(read, _name_targets(stem, "both"))
    terminal.print_line("compiled")
    return 0


def _ask_text(terminal: Terminal, question: str) -> str:
    return next(terminal.read_lines(f"{question} "), "").strip()


# -- reading prompt files -------------------------------------------------------------------------


class _ReadPrompt(NamedTuple):
    """A prompt file, None where it could not be read, and all that is wrong with it."""

    path: str
    prompt: PromptFile | None
    findings: tuple[Diagnostic, ...]


def _read_prompt(path: str, declared: Iterable[str]) -> _ReadPrompt:
    """Read a prompt file; one that cannot be read has an error that says so.

    Raises:
        ConfigError: If a declared function's name is not a name.
    """
    from langchain_convmem.prompts import Diagnostic, PromptFile

    pairs = (one.partition("=") for one in declared)
    functions = {name.strip(): partial(str, value) for name, _, value in pairs}
    line, column, source_line = 1, 1, ""
    try:
        prompt = PromptFile.load(path, strict=False, functions=functions)
        return _ReadPrompt(path, prompt, prompt.diagnostics)
    except PromptSyntaxError as error:
        line, column, source_line = error.line or 1, error.column or 1, error.source_line
        said = str(error).split("\n", 1)[0]
        message = said.removeprefix(f"{path}:{line}:{column}: error: ").removeprefix(f"{path}: ")
    except OSError as error:
        message = f"this file cannot be read: {error.strerror or error}"
    found = Diagnostic("error", message, line, column, source_line, path)
    return _ReadPrompt(path, None, (found,))


def _format_findings(findings: Iterable[Diagnostic]) -> Iterator[Styled | str]:
    for finding in findings:
        yield Styled(str(finding), _STYLES[finding.level])


def _is_failure(findings: Iterable[Diagnostic], *, strict: bool) -> bool:
    """Return whether a check fails: on errors, in strict mode on warnings too."""
    return any(strict or finding.level == "error" for finding in findings)


def _count_findings(what: str, findings: Sequence[Diagnostic]) -> str:
    counts = Counter[str](finding.level for finding in findings)
    shown = [format_count(counts[one], one) for one in _STYLES if counts[one]]
    return f"{what}: {', '.join(shown) or 'no problems'}"


# -- compiled files -------------------------------------------------------------------------------


def _name_targets(source: Path, form: str) -> list[Path]:
    """Return where the compiled forms go.

    Raises:
        ConfigError: If the source is a compiled file, or another file stands there.
    """
    from langchain_convmem.prompts.compiled import read_compiled

    targets = [source.with_suffix(suffix) for suffix in _SUFFIXES[form]]
    for target in targets:
        if target == source:
            raise ConfigError(f"{target} is a compiled prompt; name its source")
        if target.exists():
            try:
                read_compiled(target.read_bytes(), str(target), max_bytes=_MAX_BYTES)
            except (OSError, PromptSyntaxError) as error:
                msg = f"{target} exists and is not a compiled prompt; move it away"
                raise ConfigError(msg) from error
    return targets


def _write_compiled(read: _ReadPrompt, targets: Sequence[Path]) -> None:
    for target in targets:
        try:
            if read.prompt is not None:
                read.prompt.save(target)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
