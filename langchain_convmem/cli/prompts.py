"""`convmem prompts`: check, show, compile and create prompt files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from langchain_convmem.cli.options import CommandGroup, command, refuse_usage
from langchain_convmem.cli.output import Styled, Terminal, format_count, is_yes
from langchain_convmem.errors import ConfigError, PromptSyntaxError

if TYPE_CHECKING:
    from langchain_convmem.prompts import Diagnostic, PromptFile

functions_option = click.option(
    "--function",
    "functions",
    metavar="NAME[=VALUE]",
    multiple=True,
    help="A function that your program registers for variables; VALUE stands in for its result.",
)
_file_argument = click.argument("file", metavar="FILE", type=click.Path())
_strict_option = click.option("--strict", is_flag=True, help="Treat warnings as errors.")


# -- check ----------------------------------------------------------------------------------------


@command(
    "check",
    "convmem prompts check *.prompt",
    "convmem prompts check assistant.prompt --strict --function getMood=calm",
    "convmem prompts check --interactive",
)
@click.argument("files", metavar="[FILE]...", nargs=-1, type=click.Path())
@_strict_option
@functions_option
@click.option("--interactive", is_flag=True, help="Go through a file step by step, and compile it.")
def check(
    terminal: Terminal,
    *,
    files: tuple[str, ...],
    strict: bool,
    functions: tuple[str, ...],
    interactive: bool,
) -> int:
    """Report what is wrong with prompt files.

    Prints findings as compilers do, with place, source line and caret. Exits with 1 on errors.
    """
    if interactive and terminal.as_json:
        refuse_usage("--json and --interactive exclude each other")
    if interactive:
        if len(files) > 1:
            raise ConfigError("--interactive takes one file at a time")
        return _Dialogue(terminal, functions, strict).run(files[0] if files else None)
    if not files:
        raise ConfigError("name a prompt file, or pass --interactive to be asked for one")
    read = [read_prompt(path, functions) for path in files]
    findings = [finding for one in read for finding in one.findings]
    what = files[0] if len(read) == 1 else f"{len(read)} files"
    lines: list[Styled | str] = [*format_findings(findings), count_findings(what, findings)]
    code = int(fails_check(findings, strict=strict))
    return terminal.print_result(encode_findings(findings), lines, code=code)


# -- show -----------------------------------------------------------------------------------------


@command(
    "show",
    "convmem prompts show assistant.prompt",
    "convmem prompts show assistant.prompt --section Rules --raw",
)
@_file_argument
@click.option(
    "--section",
    "sections",
    metavar="TITLE",
    multiple=True,
    help="Show this section only; may be repeated.",
)
@click.option(
    "--raw", is_flag=True, help="Show the variables' placeholders instead of their values."
)
@functions_option
def show(
    terminal: Terminal,
    *,
    file: str,
    sections: tuple[str, ...],
    raw: bool,
    functions: tuple[str, ...],
) -> int:
    """Print the sections as a model reads them.

    Each comes with its token count and the functions it calls. Exits with 1 if a function fails.
    """
    from langchain_convmem.views.tokens import count_text_tokens

    prompt = load_prompt(file, functions)
    for title in sections:
        if title not in prompt.sections:
            msg = f"{prompt.name} has no section {title!r}; it has {list(prompt.sections)}"
            raise ConfigError(msg)
    problems: list[Diagnostic] = []
    texts = prompt.sections if raw else prompt.render(on_problem=problems.append)
    rows: list[dict[str, Any]] = [
        {
            "title": title,
            "text": texts[title],
            "tokens": count_text_tokens(texts[title]),
            "functions": list(
                dict.fromkeys(one.function_name for one in prompt.occurrences.get(title, ()))
            ),
        }
        for title in sections or prompt.sections
    ]
    total = sum(row["tokens"] for row in rows)
    encoded = {"path": prompt.name, "metadata": dict(prompt.metadata), "sections": rows}
    terminal.print_result({**encoded, "tokens": total}, _format_sections(rows, total))
    for line in format_findings(problems):
        terminal.note_text(line.text)
    return int(bool(problems))


def _format_sections(rows: Sequence[Mapping[str, Any]], total: int) -> Iterator[Styled]:
    for row in rows:
        changing = f", calls {', '.join(row['functions'])}" if row["functions"] else ""
        yield Styled(f"**{row['title']}:**  ({row['tokens']} tokens{changing})", "bold")
        yield Styled(f"{row['text']}\n")
    yield Styled(f"{format_count(len(rows), 'section')}, about {total} tokens", "dim")


# -- compile --------------------------------------------------------------------------------------


@command(
    "compile",
    "convmem prompts compile assistant.prompt",
    "convmem prompts compile *.prompt --form both --strict",
)
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path())
@click.option(
    "--form",
    type=click.Choice(["binary", "json", "both"]),
    default="binary",
    show_default=True,
    help="Binary (NAME.bytes), JSON for people to read (NAME.json), or both.",
)
@_strict_option
@functions_option
def compile_files(
    terminal: Terminal,
    *,
    files: tuple[str, ...],
    form: str,
    strict: bool,
    functions: tuple[str, ...],
) -> int:
    """Compile prompt files.

    The compiled files stand next to their sources. If any source has errors, nothing is written and
    the exit code is 1. Only compiled prompts are overwritten.
    """
    forms = list(SUFFIXES) if form == "both" else [form]
    read = [read_prompt(path, functions) for path in files]
    findings = [finding for one in read for finding in one.findings]
    failed = fails_check(findings, strict=strict)
    if not terminal.as_json:
        terminal.print_lines(format_findings(findings))
    compiled: list[tuple[str, Path]] = []
    if failed:
        terminal.note("nothing was compiled")
    else:
        jobs = [(one, _find_targets(one, forms)) for one in read]
        for one, targets in jobs:
            if one.prompt is not None:
                write_compiled(one.prompt, targets)
        compiled = [(one.path, target) for one, targets in jobs for target in targets]
    written = [{"source": source, "path": str(target)} for source, target in compiled]
    return terminal.print_result(
        {"compiled": written, "findings": encode_findings(findings)},
        (f"{target}: compiled from {source}" for source, target in compiled),
        code=int(failed),
    )


def _find_targets(read: ReadPrompt, forms: list[str]) -> list[Path]:
    targets = [Path(read.path).with_suffix(SUFFIXES[form]) for form in forms]
    for target in targets:
        if target == Path(read.path):
            raise ConfigError(f"{target} is a compiled prompt; name its source")
        if is_other_file(target):
            raise ConfigError(f"{target} exists and is not a compiled prompt; move it away")
    return targets


# -- new ------------------------------------------------------------------------------------------

_NEW_TEXT = """\
/* A prompt for an assistant. What the model reads stands in sections, settings in those with stars.
   Text like this is a comment. To see what is wrong with a file: convmem prompts check FILE */

__* Meta *__  // about this file; goes with each call into its trace
- version = 0.1
- *MessageSummaryTitle* = What Was Said Before

__* Const *__  // filled in once: {{assistant}}
- assistant = Ada

__* Var *__  // filled in anew for each call, by a function
- today = getDate


__ Role __
You are {{assistant}}, a helpful assistant.

__ Rules __
  - Answer in a few plain sentences, in the language of the user.
  - If you do not know, say so.

__ Now __
Today is {{today}}.
"""


@command("new", "convmem prompts new assistant.prompt")
@_file_argument
def new(terminal: Terminal, *, file: str) -> int:
    """Create a prompt file to start from.

    FILE must not exist yet.
    """
    path = Path(file)
    _write_new(path, _NEW_TEXT)
    written = f"{path}: written; look at it with 'convmem prompts show {path}'"
    return terminal.print_result({"path": file}, [written])


def _write_new(path: Path, text: str) -> None:
    """Write a file that must not be there yet.

    Raises:
        ConfigError: If it is there, or cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise ConfigError(f"{path} is there already; name another file") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error


# -- the group ------------------------------------------------------------------------------------


@click.group(cls=CommandGroup, no_args_is_help=False)
def prompts() -> None:
    """Check, show, compile and create prompt files."""


for _command in (check, show, compile_files, new):
    prompts.add_command(_command)


# -- check --interactive: from a file to its compiled forms, step by step -------------------------


class _InputEndedError(Exception):
    """The input ended before the last question."""


class _Dialogue(NamedTuple):
    """Asks for a file, shows what is in it and wrong with it, and compiles it if that is wanted."""

    terminal: Terminal
    functions: Sequence[str]
    strict: bool

    def run(self, path: str | None) -> int:
        """Go through the questions.

        Returns:
            1 if the file fails the check, the person finds fault with it, or it reads otherwise
            after compiling; else 0.

        Raises:
            ConfigError: If a compiled file cannot be written.
        """
        try:
            return self._ask_all(path)
        except _InputEndedError:
            self.terminal.note("the input ended; nothing was compiled")
            return 0

    def _ask_all(self, path: str | None) -> int:
        prompt = self._check(self._ask_file() if path is None else path)
        if prompt is None or not self._ask("Is everything as it should be?"):
            return 1
        targets = self._ask_targets(Path(prompt.name))
        if not self._ask(f"Write {' and '.join(map(str, targets))}?"):
            self.terminal.print_line("nothing was compiled")
            return 0
        write_compiled(prompt, targets)
        self.terminal.print_line("compiled")
        return self._compare(prompt, targets)

    def _ask_file(self) -> str:
        folder = Path()
        if self._ask("Is the prompt file in another folder?"):
            folder = Path(self._ask_until("Which folder?", lambda given: Path(given).is_dir()))
        name = self._ask_until("Which file?", lambda given: (folder / given).is_file())
        return str(folder / name)

    def _check(self, path: str) -> PromptFile | None:
        """Show the file and what is wrong with it; None if it fails."""
        read = read_prompt(path, self.functions)
        if read.prompt is not None:
            rendered = read.prompt.format(
                read.prompt.sections,
                on_problem=lambda problem: self.terminal.note_text(str(problem)),
            )
            self.terminal.print_text(f"{rendered}\n")
        self.terminal.print_lines(format_findings(read.findings))
        self.terminal.print_line(count_findings(path, read.findings))
        return None if fails_check(read.findings, strict=self.strict) else read.prompt

    def _ask_targets(self, source: Path) -> list[Path]:
        beside = _name_targets(source)
        free = not any(map(is_other_file, beside))
        if free and self._ask(f"Compile to {' and '.join(map(str, beside))}?"):
            return beside
        given = self._ask_until("Path without ending?", self._is_free)
        return _name_targets(Path(given))

    def _is_free(self, given: str) -> bool:
        there = [str(one) for one in _name_targets(Path(given)) if is_other_file(one)]
        return not there or self._ask(f"Write over {' and '.join(there)}?")

    def _compare(self, prompt: PromptFile, targets: Sequence[Path]) -> int:
        from langchain_convmem.prompts import PromptFile

        if not self._ask("Load the compiled files and compare?"):
            return 0
        functions = declare_functions(self.functions)
        for target in targets:
            loaded = PromptFile.load(target, strict=False, functions=functions)
            if _read_content(loaded) != _read_content(prompt):
                self.terminal.print_line(f"{target}: reads otherwise than {prompt.name}")
                return 1
        self.terminal.print_line("both are the same as the source")
        return 0

    def _ask_until(self, question: str, fits: Callable[[str], bool]) -> str:
        for given in self.terminal.read_lines(f"{question} "):
            if given.strip() and fits(given.strip()):
                return given.strip()
            self.terminal.note(f"not {given.strip()!r}; again")
        raise _InputEndedError

    def _ask(self, question: str) -> bool:
        for given in self.terminal.read_lines(f"{question} [y/N] "):
            return is_yes(given)
        raise _InputEndedError


def _name_targets(stem: Path) -> list[Path]:
    return [stem.with_suffix(suffix) for suffix in SUFFIXES.values()]


def _read_content(prompt: PromptFile) -> tuple[object, ...]:
    return prompt.metadata, prompt.sections, prompt.occurrences


# -- reading prompt files -------------------------------------------------------------------------


class ReadPrompt(NamedTuple):
    """A prompt file, None where it could not be read, and all that is wrong with it."""

    path: str
    prompt: PromptFile | None
    findings: tuple[Diagnostic, ...]


def declare_functions(declared: Iterable[str]) -> dict[str, Callable[[], str]]:
    """Return the functions that `NAME` or `NAME=VALUE` declare; each returns its value."""
    pairs = (one.partition("=") for one in declared)
    return {name.strip(): partial(str, value) for name, _, value in pairs}


def read_prompt(path: str, declared: Iterable[str]) -> ReadPrompt:
    """Read a prompt file; one that cannot be read has an error that says so.

    Raises:
        ConfigError: If a declared function's name is not a name.
    """
    from langchain_convmem.prompts import Diagnostic, PromptFile

    try:
        prompt = PromptFile.load(path, strict=False, functions=declare_functions(declared))
    except PromptSyntaxError as error:
        return ReadPrompt(path, None, (_describe_unreadable(path, error),))
    except OSError as error:
        message = f"this file cannot be read: {error.strerror or error}"
        return ReadPrompt(path, None, (Diagnostic("error", message, 1, 1, name=path),))
    return ReadPrompt(path, prompt, prompt.diagnostics)


def _describe_unreadable(path: str, error: PromptSyntaxError) -> Diagnostic:
    from langchain_convmem.prompts import Diagnostic

    line, column = error.line or 1, error.column or 1
    said = str(error).split("\n", 1)[0]
    message = said.removeprefix(f"{path}:{line}:{column}: error: ").removeprefix(f"{path}: ")
    return Diagnostic("error", message, line, column, error.source_line, path)


def load_prompt(path: str, declared: Iterable[str]) -> PromptFile:
    """Return the prompt file.

    Raises:
        ConfigError: If it cannot be read, or a declared function's name is not a name.
    """
    read = read_prompt(path, declared)
    if read.prompt is None:
        raise ConfigError(f"{path}: {read.findings[0].message}")
    return read.prompt


# -- findings -------------------------------------------------------------------------------------

_STYLES = {"error": "red", "warning": "yellow"}


def format_findings(findings: Iterable[Diagnostic]) -> Iterator[Styled]:
    """Yield each finding as compilers print it: place, message, source line, caret."""
    for finding in findings:
        yield Styled(str(finding), _STYLES[finding.level])


def encode_findings(findings: Iterable[Diagnostic]) -> list[dict[str, Any]]:
    """Return findings as plain data; the file is called `path`."""
    found = [asdict(finding) for finding in findings]
    return [{"path": one.pop("name"), **one} for one in found]


def fails_check(findings: Iterable[Diagnostic], *, strict: bool) -> bool:
    """Return whether a check fails: on errors, in strict mode on warnings too."""
    bad = {"error", "warning"} if strict else {"error"}
    return any(finding.level in bad for finding in findings)


def count_findings(what: str, findings: Sequence[Diagnostic]) -> str:
    """Return the counts of findings as one line."""
    counts = Counter[str](finding.level for finding in findings)
    shown = [format_count(counts[one], one) for one in _STYLES if counts[one]]
    return f"{what}: {', '.join(shown) or 'no problems'}"


# -- compiled files -------------------------------------------------------------------------------

SUFFIXES = {"binary": ".bytes", "json": ".json"}
"""Endings of compiled prompts, by form."""

_MAX_BYTES = 1 << 26


def is_other_file(path: Path) -> bool:
    """Return whether there is something at `path` that is not a compiled prompt."""
    from langchain_convmem.prompts.compiled import read_compiled

    if not path.exists():
        return False
    try:
        data = path.read_bytes()
        return read_compiled(data, str(path), max_bytes=_MAX_BYTES) is None
    except (OSError, PromptSyntaxError):
        return True


def write_compiled(prompt: PromptFile, targets: Sequence[Path]) -> None:
    """Write the compiled forms that the targets' endings name, over those of earlier compiles.

    Raises:
        ConfigError: If one cannot be written.
    """
    for target in targets:
        try:
            prompt.save(target)
        except OSError as error:
            raise ConfigError(f"{target} cannot be written: {error.strerror or error}") from error
