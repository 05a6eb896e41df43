"""`PromptFile`: a parsed prompt file, its rendered sections, and the way to a chat prompt."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from langchain_convmem.background import to_async
from langchain_convmem.causes import describe_value, suggest_name
from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts.compiled import (
    COMPILED_FORMS,
    CompiledForm,
    PromptSource,
    compile_prompt,
    read_compiled,
)
from langchain_convmem.prompts.diagnostics import (
    Diagnostic,
    Findings,
    Level,
    OnProblem,
)
from langchain_convmem.prompts.parser import FUNCTION_WAYS, ParsedPrompt, parse_prompt
from langchain_convmem.prompts.scanner import (
    SUMMARY_TITLE_KEY,
    escape_headings,
    format_heading,
    join_blocks,
)
from langchain_convmem.prompts.variables import (
    REGISTRY,
    Failed,
    Occurrence,
    VariableFunction,
    combine_functions,
    evaluate,
    fill_pieces,
    split_pieces,
)

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate

_LOG = logging.getLogger(__name__)

_MAPS = ("metadata", "constants", "variable_definitions", "sections", "occurrences")

MAX_BYTES = 1 << 20
"""Largest source that `PromptFile.load` reads unless told otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PromptFile:
    """A parsed prompt file. Create one with `load` or `parse`; its mappings are read-only.

    Thread-safe if its variable functions are. Two prompt files are equal if their content is;
    names, diagnostics and sources are not compared.

    Attributes:
        name: The path it was loaded from, or the name given to `parse`.
        metadata: Fields in the Meta sections.
        constants: Fields in the Const sections, already filled into `sections`.
        variable_definitions: Variable name -> function name; unknown functions are left out.
        sections: Title -> cleaned text with the variables' placeholders still in it, in order of
            first appearance.
        occurrences: Title -> positions of variables in the text of `sections`, ascending; titles
            without variables are left out.
        diagnostics: All findings, by position.
        functions: Functions for this file only, by name; they override registered ones.
        source: Name and hash of the source file, even if a compiled file was loaded.
        strict: Whether `format` refuses titles that the file does not have.
    """

    name: str = field(default="<text>", compare=False)
    metadata: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    variable_definitions: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    occurrences: Mapping[str, tuple[Occurrence, ...]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = field(default=(), compare=False)
    functions: Mapping[str, VariableFunction] = field(default_factory=dict)
    source: PromptSource = field(default=PromptSource(), compare=False)
    strict: bool = field(default=True, compare=False)

    def __post_init__(self) -> None:
        for name in _MAPS:
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what copies and pickles it; read-only maps cannot be."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return partial(PromptFile, **{**plain, **{name: dict(plain[name]) for name in _MAPS}}), ()

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        strict: bool = True,
        functions: Mapping[str, VariableFunction] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> PromptFile:
        """Read a source in UTF-8, or a file that `save` wrote.

        If the source next to a compiled prompt has changed, the compiled prompt is refused, or gets
        a warning if `strict` is off.

        Args:
            path: The file; names ending in `.json` mean compiled files.
            strict: See `parse`.
            functions: See `parse`.
            max_bytes: Larger files are refused without being read completely. Compiled files may be
                32 times as large, because they contain the values of constants.

        Raises:
            OSError: If the file cannot be read (`FileNotFoundError` if there is none).
            PromptSyntaxError: If it is too large, not UTF-8, or a damaged compiled file; see also
                `parse`.
            ConfigError: See `parse`.
        """
        own = combine_functions({}, functions)
        parsed, source = _load_file(Path(path), own, max_bytes, strict=strict)
        return cls._make(parsed, name=str(path), functions=own, source=source, strict=strict)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        name: str = "<text>",
        strict: bool = True,
        functions: Mapping[str, VariableFunction] | None = None,
    ) -> PromptFile:
        """Parse a prompt file's text.

        Args:
            text: The text, with any line endings.
            name: Its name in error messages.
            strict: Raise the first error. If False, parsing continues without the faulty part and
                reports it only in `diagnostics`, and `format` skips titles that the file does not
                have.
            functions: Functions for this file only, by the name that Var sections use.

        Raises:
            PromptSyntaxError: If there is a diagnostic of level `error`, and `strict` is on; its
                message shows the line and a caret.
            ConfigError: If `text` is no string, or `functions` contains anything but functions
                without arguments.
        """
        if not isinstance(text, str):
            raise ConfigError(
                f"text must be a string, got {describe_value(text)}; load reads files"
            )
        own = combine_functions({}, functions)
        source = PromptSource(sha256=sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        parsed = parse_prompt(text, name=name, functions={*own, *REGISTRY})
        return cls._make(parsed, name=name, functions=own, source=source, strict=strict)

    @classmethod
    def _make(cls, parsed: ParsedPrompt, *, strict: bool, **known: Any) -> PromptFile:
        errors = (found for found in parsed.diagnostics if found.level == "error")
        if strict and (first := next(errors, None)) is not None:
            raise first.to_error()
        return cls(strict=strict, **known, **parsed._asdict())

    def compile(self, form: CompiledForm = "binary") -> bytes:
        """Return what `save` writes: everything except the functions, plus the hash of the source.

        Args:
            form: `"json"`, which people can read, or `"binary"`, which is smaller.

        Raises:
            ConfigError: If the form is neither.
        """
        if form not in COMPILED_FORMS.values():
            raise ConfigError(f"form must be 'json' or 'binary', got {form!r:.80}")
        parsed = ParsedPrompt(*(getattr(self, name) for name in ParsedPrompt._fields))
        return compile_prompt(parsed, self.source, form)

    def save(self, path: str | Path) -> None:
        """Write the compiled form for `load`, atomically.

        Args:
            path: A name ending in `.json` or `.bytes` (binary). If it is next to the source,
                `load` notices changes of the source.

        Raises:
            ConfigError: If the name ends differently.
            OSError: If it cannot be written.
        """
        place = Path(path)
        form = COMPILED_FORMS.get(place.suffix.lower())
        if form is None:  # so that a source is never overwritten by mistake
            suffixes = " or ".join(f"{suffix} ({form})" for suffix, form in COMPILED_FORMS.items())
            raise ConfigError(f"{place}: the name of a compiled prompt ends in {suffixes}")
        # Not by `tempfile`: its files are closed to all others, whatever the umask says.
        beside = place.with_name(f".{place.name}-{secrets.token_hex(8)}")
        try:
            beside.write_bytes(self.compile(form))
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)

    def __repr__(self) -> str:
        found = len(self.diagnostics)
        return f"PromptFile({self.name!r}, sections={list(self.sections)}, findings={found})"

    @property
    def summary_title(self) -> str | None:
        """The heading of a conversation's summary, from the Meta section; None without one."""
        return self.metadata.get(SUMMARY_TITLE_KEY)

    @property
    def trace_metadata(self) -> dict[str, str]:
        """The Meta section's fields for traces: all except those with stars around their keys."""
        return {key: text for key, text in self.metadata.items() if not key.startswith("*")}

    def render(
        self,
        titles: Iterable[str] | None = None,
        *,
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
        on_problem: OnProblem | None = None,
    ) -> dict[str, str]:
        """Return title -> text with the variables' current values.

        Each function is called once, however often it occurs. Values are not parsed again; lines in
        values that begin with two stars, as headings do, are indented.

        Args:
            titles: Which sections, in this order; None is all.
            strict: Raise a function's exception; otherwise, its value is an empty string.
            functions: Functions for this call only, by name; they override all others.
            on_problem: Called with a diagnostic for each function that failed, such as `append`
                of a list; without it, failures are logged.

        Raises:
            ConfigError: If a required function is asynchronous, `functions` contains anything but
                functions, or the file lacks one of the sections and was not read with
                `strict=False`; no function was called.
        """
        own = combine_functions(self.functions, functions)
        pieces = self._split(titles)
        failed = self._build_reporter(on_problem)
        values = evaluate(_list_functions(pieces), own, strict=strict, failed=failed)
        shown = {name: escape_headings(value) for name, value in values.items()}
        return {title: fill_pieces(parts, shown) for title, parts in pieces.items()}

    arender = to_async(render)

    def format(
        self,
        titles: Iterable[str],
        *,
        include_titles: bool = True,
        include_summary: bool = True,
        summary: str = "",
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
        on_problem: OnProblem | None = None,
    ) -> str:
        """Return a system prompt made of sections, with the variables' current values.

        Args:
            titles: Which sections, in this order.
            include_titles: Put each title above its section, as `**Title:**`.
            include_summary: Put the summary after the sections, under `summary_title` if there
                is one and titles are included.
            summary: The summary; a blank one is ignored.
            strict: See `render`.
            functions: See `render`.
            on_problem: See `render`.

        Raises:
            ConfigError: See `render`.
        """
        wanted = [titles] if isinstance(titles, str) else list(titles)
        texts = self.render(wanted, strict=strict, functions=functions, on_problem=on_problem)
        blocks = [(format_heading(title), texts[title]) for title in wanted if title in texts]
        told = escape_headings(summary) if include_summary else ""
        blocks.append((format_heading(self.summary_title), told))
        return join_blocks(blocks if include_titles else [("", text) for _, text in blocks])

    aformat = to_async(format)  # noqa: A003 - the method

    def to_chat_prompt(
        self,
        *,
        sections: Iterable[str] | None = None,
        history: bool = True,
        volatile: Literal["tail", "head"] = "tail",
        include_titles: bool = True,
        include_summary: bool = True,
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
        on_problem: OnProblem | None = None,
    ) -> ChatPromptTemplate:
        """Return a chat prompt: system message, summary, history, input.

        The template takes `input` (the user's message: text, a message, or a list of them), and
        optionally `history` (a list of messages), `summary` (a string; it is fenced and labelled
        as data) and `recalled` (text or messages; merged into the input). Text from the file and
        from values is literal. Variable functions are called once each time the prompt is
        formatted, asynchronous ones only in asynchronous calls. The Meta section's fields are
        metadata of its traces.

        Args:
            sections: Titles in the desired order; None uses all, in the order of the file.
            history: Whether to include a place for earlier messages.
            volatile: Where sections with run-time variables go. `"tail"`: fenced, in the first
                text block of the user's message, so that everything before it stays the same from
                turn to turn and providers can cache it. `"head"`: in the system message, in order.
            include_titles: See `format`.
            include_summary: Whether to include a place for the summary, after the system message.
            strict: See `render`.
            functions: See `render`; they apply to all calls of this template.
            on_problem: See `render`; lost when the template is dumped.

        Raises:
            ConfigError: See `render`.
        """
        from langchain_convmem.prompts.chat_prompt import RunTimeVariable, build_chat_prompt

        if volatile not in ("tail", "head"):
            raise ConfigError(f"volatile must be 'tail' or 'head', got {volatile!r}")
        pieces = self._split(sections)
        is_late = {title: volatile == "tail" and len(pieces[title]) > 1 for title in pieces}
        own = combine_functions(self.functions, functions)
        failed = self._build_reporter(on_problem)
        heading = format_heading(self.summary_title) if include_titles else ""
        return build_chat_prompt(
            {title: parts for title, parts in pieces.items() if not is_late[title]},
            {title: parts for title, parts in pieces.items() if is_late[title]},
            [
                RunTimeVariable(
                    function_name=name, function=own.get(name), strict=strict, failed=failed
                )
                for name in _list_functions(pieces)
            ],
            has_headings=include_titles,
            summary_heading=heading if include_summary else None,
            history=history,
            metadata=self.trace_metadata,
        )

    def _split(self, titles: Iterable[str] | None) -> dict[str, list[str]]:
        """Return the pieces of sections: their text, and functions at odd places.

        Titles that the file does not have are skipped if it is not strict.
        """
        # A lone string is a sequence of titles of one letter each, which nobody means.
        wanted = [titles] if isinstance(titles, str) else titles
        pieces = {}
        for title in self.sections if wanted is None else wanted:
            if title in self.sections:
                places = self.occurrences.get(title, ())
                pieces[title] = split_pieces(self.sections[title], places)
                continue
            problem = f"{self.name} has no section {title!r}; it has {list(self.sections)}"
            problem += suggest_name(title, self.sections)
            if self.strict:
                raise ConfigError(problem)
            _LOG.warning("%s", problem)
        return pieces

    def _build_reporter(self, on_problem: OnProblem | None) -> Failed | None:
        return None if on_problem is None else partial(self._report_failure, on_problem)

    def _report_failure(self, on_problem: OnProblem, function: str, error: Exception) -> None:
        """Report where in a section's text a value is missing; compiled files have that, too."""
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        message = f"the function '{function}' failed, so its value is empty: {reason}"
        for title, places in self.occurrences.items():
            starts = [found.start for found in places if found.function_name == function]
            if starts:
                findings = Findings(f"{self.name}#{title}", self.sections[title])
                findings.add("error", message, starts[0])
                on_problem(findings.sort()[0])
                return


def _list_functions(pieces: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for parts in pieces.values() for name in parts[1::2]))


# -- Reading files, and writing compiled ones -----------------------------------------------------

_COMPILED_GROWTH = 32
"""So many times as large may a compiled file be: constants are filled in there."""


def _load_file(
    path: Path, own: Collection[str], max_bytes: int, *, strict: bool
) -> tuple[ParsedPrompt, PromptSource]:
    """Read a file, source or compiled; arguments and errors as in `PromptFile.load`."""
    name = str(path)
    most = max_bytes * (_COMPILED_GROWTH if path.suffix.lower() in COMPILED_FORMS else 1)
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        more = "pass max_bytes= to read a larger one"
        msg = f"{path}: this file is larger than the {most} bytes a prompt file may have; {more}"
        raise PromptSyntaxError(msg, path=name)
    known = {*own, *REGISTRY}
    compiled = read_compiled(data, name, max_bytes=_COMPILED_GROWTH * max_bytes)
    if compiled is None:
        source = PromptSource(path.name, sha256(data).hexdigest())
        return parse_prompt(_decode(data, name), name=name, functions=known), source
    prompt, source = compiled
    problems = _find_stale(source, path, "error" if strict else "warning")
    used = {place.function_name for places in prompt.occurrences.values() for place in places}
    for function in sorted(used - known):
        message = f"there is no function '{function}'; {FUNCTION_WAYS}"
        problems.append(Diagnostic("error", message, 1, 1, name=name))
    return prompt._replace(diagnostics=(*problems, *prompt.diagnostics)), source


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        findings = Findings(path, data.decode("utf-8", "replace").removeprefix("\ufeff"))
        position = len(data[: error.start].decode("utf-8").removeprefix("\ufeff"))
        message = f"a prompt file is UTF-8 text, and this is not: {error.reason}; save it as UTF-8"
        findings.add("error", message, position)
        raise findings.sort()[0].to_error() from error


def _find_stale(source: PromptSource, place: Path, level: Level) -> list[Diagnostic]:
    beside = place.parent / source.name
    # The name comes from the file, which may come from anywhere: it must not lead elsewhere.
    is_beside = beside.name == source.name and beside.parent == place.parent
    is_known = is_beside and source.sha256 and beside.is_file() and not beside.is_symlink()
    if not is_known or sha256(beside.read_bytes()).hexdigest() == source.sha256:
        return []
    message = f"'{source.name}' beside it has changed since this was compiled; compile it again"
    return [Diagnostic(level, message, 1, 1, name=str(place))]
