"""`PromptFile`: a parsed prompt file, its rendered sections, and the way to a chat prompt."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from langchain_convmem.background import to_async
from langchain_convmem.causes import suggest_name
from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts.compiled import (
    COMPILED_FORMS,
    CompiledForm,
    CompiledPrompt,
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
from langchain_convmem.prompts.parser import ParsedPrompt, parse_prompt
from langchain_convmem.prompts.scanner import (
    SUMMARY_TITLE_KEY,
    escape_headings,
    format_heading,
    join_blocks,
)
from langchain_convmem.prompts.variables import (
    Failed,
    Occurrence,
    VariableFunction,
    check_functions,
    combine_functions,
    evaluate,
    fill_pieces,
    list_variable_functions,
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
    """A prompt file after parsing. Made by `load` and `parse`; its mappings are read-only.

    Safe to share between threads as far as its variable functions are. Two are equal if they say
    the same: names, diagnostics and sources are not compared.

    Attributes:
        name: The path it was loaded from, or the name given to `parse`.
        metadata: Fields of the Meta sections.
        constants: Fields of the Const sections, already filled into `sections`.
        variable_definitions: Variable name -> function name; unknown functions are left out.
        sections: Title -> cleaned text with the variables' placeholders still in it, in order of
            first appearance.
        occurrences: Title -> where variables stand in the text of `sections`, ascending; titles
            without variables are left out.
        diagnostics: All that was found wrong, by place.
        functions: Functions of this file alone, by name; they go before registered ones.
        source: Name and hash of the file it was parsed from, also when it was loaded compiled.
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
        return _restore, ({**plain, **{name: dict(plain[name]) for name in _MAPS}},)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        strict: bool = True,
        functions: Mapping[str, VariableFunction] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> PromptFile:
        """Read a source in UTF-8, or what `save` wrote.

        A compiled prompt whose source lies beside it with another content is refused, or has a
        warning if `strict` is off: it says what the source said before.

        Args:
            path: The file; if its name ends in `.json` it is a compiled one.
            strict: See `parse`.
            functions: See `parse`.
            max_bytes: Larger files are refused without being read whole; compiled ones may have
                32 times as many, for constants are filled in there.

        Raises:
            OSError: If the file cannot be read (`FileNotFoundError` if there is none).
            PromptSyntaxError: If it is too large, not UTF-8, or a compiled one that is damaged;
                see also `parse`.
            ConfigError: See `parse`.
        """
        own = _copy_functions(functions)
        parsed, source = _load_file(Path(path), own, max_bytes, strict=strict)
        return cls._create(parsed, str(path), own, source, strict=strict)

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
            text: The text, with line ends of any kind.
            name: What messages call it.
            strict: Raise the first error. False goes on without what is wrong, tells it in
                `diagnostics` alone, and lets `format` skip titles that the file does not have.
            functions: Functions of this file alone, by the name that Var sections use.

        Raises:
            PromptSyntaxError: If there is a diagnostic of level `error`, and `strict` is on; its
                message shows the line and a caret.
            ConfigError: If `functions` holds something that is not a function without arguments.
        """
        own = _copy_functions(functions)
        source = PromptSource(sha256=sha256(text.encode("utf-8", "surrogatepass")).hexdigest())
        return cls._create(_parse_source(text, name, own), name, own, source, strict=strict)

    @classmethod
    def _create(
        cls,
        parsed: ParsedPrompt,
        name: str,
        own: dict[str, VariableFunction],
        source: PromptSource,
        *,
        strict: bool,
    ) -> PromptFile:
        errors = (found for found in parsed.diagnostics if found.level == "error")
        if strict and (first := next(errors, None)) is not None:
            raise first.to_error()
        return cls(name=name, functions=own, source=source, strict=strict, **parsed._asdict())

    def compile(self, form: CompiledForm = "binary") -> bytes:
        """Return what `save` writes: all but the functions, and the hash of the source.

        Args:
            form: `"json"` to be read by people, `"binary"` for the smaller one.
        """
        return compile_prompt(CompiledPrompt(self._get_parsed(), self.source), form)

    def save(self, path: str | Path) -> None:
        """Write the compiled form, for `load`: others see the whole file or what was there before.

        Args:
            path: Ends in `.json` or in `.bytes` (binary). Put it beside the source, and `load`
                notices when the source has changed.

        Raises:
            ConfigError: If it ends otherwise.
            OSError: If it cannot be written.
        """
        place = Path(path)
        _write_whole(place, self.compile(_find_form(place)))

    def _get_parsed(self) -> ParsedPrompt:
        return ParsedPrompt(
            metadata=dict(self.metadata),
            constants=dict(self.constants),
            variable_definitions=dict(self.variable_definitions),
            sections=dict(self.sections),
            occurrences=dict(self.occurrences),
            diagnostics=self.diagnostics,
        )

    def __repr__(self) -> str:
        errors = sum(found.level == "error" for found in self.diagnostics)
        return f"PromptFile({self.name!r}, sections={list(self.sections)}, errors={errors})"

    @property
    def summary_title(self) -> str | None:
        """The title over a conversation's summary, from the Meta section; None without one."""
        return self.metadata.get(SUMMARY_TITLE_KEY)

    @property
    def rendered(self) -> dict[str, str]:
        """The sections with the variables' values of this moment: the same as `render()`."""
        return self.render()

    @property
    def trace_metadata(self) -> dict[str, str]:
        """The fields of the Meta section for traces: all but those with a star around their key."""
        return {key: text for key, text in self.metadata.items() if not key.startswith("*")}

    def render(
        self,
        *,
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
        on_problem: OnProblem | None = None,
    ) -> dict[str, str]:
        """Return title -> text with the variables' values of this moment.

        Each function is called once, however often it occurs. Values are not parsed again; lines of
        them that begin with two stars, as headings do, are indented.

        Args:
            strict: Let a function's exception through; otherwise its value is an empty string.
            functions: Functions of this call alone, by name; they go before all others.
            on_problem: Called with a diagnostic for each function that failed, such as `append`
                of a list; without it, failures are logged.

        Raises:
            ConfigError: If a function that is needed is asynchronous, or one of `functions` is
                none; nothing was called then.
        """
        return self._render(self.sections, strict, functions, on_problem)

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
        """Return a system prompt made of sections, with the variables' values of this moment.

        Args:
            titles: Which sections, in this order.
            include_titles: Put each title as `**Title:**` over its section.
            include_summary: Put the summary after the sections, under `summary_title` if there
                is one and titles are included.
            summary: The summary; a blank one leaves no trace.
            strict: See `render`.
            functions: See `render`.
            on_problem: See `render`.

        Raises:
            ConfigError: If the file does not have one of the sections, and was not read with
                `strict=False`; see also `render`.
        """
        wanted = _as_titles(titles)
        known = [title for title in wanted if title in self.sections]
        for title in wanted:
            if title not in self.sections:
                near = suggest_name(title, self.sections)
                if self.strict:
                    raise ConfigError(f"{self.name} has no section {title!r}{near}")
                _LOG.warning("%s has no section %r; it is skipped%s", self.name, title, near)
        texts = self._render(known, strict, functions, on_problem)
        blocks = [(format_heading(title), texts[title]) for title in known]
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
        as data) and `recalled` (text or messages; folded into the input). Text of the file and of
        values is literal in it; variable functions are called once each time it is formatted,
        asynchronous ones in asynchronous calls only. Fields of the Meta section are metadata of
        its traces.

        Args:
            sections: Titles in the order wanted; None takes all, as in the file.
            history: Have a place for earlier messages.
            volatile: Where sections with run-time variables stand. `"tail"`: fenced, as the first
                text block of the user's message, so that all before it is the same text from turn
                to turn and providers can reuse it. `"head"`: in the system message, in order.
            include_titles: See `format`.
            include_summary: Have a place for the summary, behind the system message.
            strict: See `render`.
            functions: See `render`; of all calls of this template.
            on_problem: See `render`; not kept when the template is dumped.

        Raises:
            ConfigError: If `sections` names a section that the file does not have, or a function
                is none.
        """
        from langchain_convmem.prompts.chat_prompt import (
            InputPlaceholder,
            RunTimeVariable,
            SectionsMessagePromptTemplate,
            build_chat_prompt,
            build_text,
        )

        if volatile not in ("tail", "head"):
            raise ConfigError(f"volatile must be 'tail' or 'head', got {volatile!r}")
        order = list(self.sections) if sections is None else _as_titles(sections)
        pieces = {title: self._split(title) for title in order}
        late = [one for one in order if volatile == "tail" and one in self.occurrences]
        early = {title: pieces[title] for title in order if title not in late}
        heading = format_heading(self.summary_title) if include_titles else ""
        own = combine_functions(self.functions, functions)
        failed = self._build_reporter(on_problem)
        return build_chat_prompt(
            SectionsMessagePromptTemplate(
                sections=build_text(early, has_headings=include_titles),
                summary_heading=heading if include_summary else None,
            ),
            InputPlaceholder(
                variable_name="input",
                sections=build_text(
                    {title: pieces[title] for title in late}, has_headings=include_titles
                ),
            ),
            [
                RunTimeVariable(
                    function_name=name, function=own.get(name), strict=strict, failed=failed
                )
                for name in _list_functions(pieces)
            ],
            history=history,
            metadata=self.trace_metadata,
        )

    def _split(self, title: str) -> list[str]:
        """Return a section's pieces: its text, and functions at odd places."""
        if title not in self.sections:
            msg = f"{self.name} has no section {title!r}; it has {list(self.sections)}"
            raise ConfigError(msg)
        return split_pieces(self.sections[title], self.occurrences.get(title, ()))

    def _render(
        self,
        titles: Iterable[str],
        strict: bool,
        functions: Mapping[str, VariableFunction] | None,
        on_problem: OnProblem | None,
    ) -> dict[str, str]:
        own = combine_functions(self.functions, functions)
        pieces = {title: self._split(title) for title in titles}
        failed = self._build_reporter(on_problem)
        values = evaluate(_list_functions(pieces), own, strict=strict, failed=failed)
        shown = {name: escape_headings(value) for name, value in values.items()}
        return {title: fill_pieces(parts, shown) for title, parts in pieces.items()}

    def _build_reporter(self, on_problem: OnProblem | None) -> Failed | None:
        return None if on_problem is None else partial(self._report_failure, on_problem)

    def _report_failure(self, on_problem: OnProblem, function: str, error: Exception) -> None:
        """Report where in a section's text a value is missing; compiled files have that, too."""
        title, start = next(
            (title, found.start)
            for title, places in self.occurrences.items()
            for found in places
            if found.function_name == function
        )
        findings = Findings(f"{self.name}#{title}", self.sections[title])
        reason = f"{type(error).__name__}: {error}".removesuffix(": ")
        message = f"the function '{function}' failed, so its value is empty: {reason}"
        findings.add_error(message, start)
        on_problem(findings.sort()[0])


def _list_functions(pieces: Mapping[str, Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(name for parts in pieces.values() for name in parts[1::2]))


def _restore(values: dict[str, Any]) -> PromptFile:
    return PromptFile(**values)


def _copy_functions(
    functions: Mapping[str, VariableFunction] | None,
) -> dict[str, VariableFunction]:
    own = dict(functions or {})
    check_functions(own)
    return own


def _as_titles(titles: Iterable[str]) -> list[str]:
    # A lone string is a sequence of titles of one letter each, which nobody means.
    return [titles] if isinstance(titles, str) else list(titles)


# -- Reading files, and writing compiled ones -----------------------------------------------------

_COMPILED_GROWTH = 32
"""So many times as large may a compiled file be: constants are filled in there."""


def _load_file(
    path: Path, own: Collection[str], max_bytes: int, *, strict: bool
) -> tuple[ParsedPrompt, PromptSource]:
    """Read a file, source or compiled; arguments and errors as in `PromptFile.load`."""
    name = str(path)
    data = _read_bytes(path, max_bytes)
    compiled = read_compiled(data, name, max_bytes=_COMPILED_GROWTH * max_bytes)
    if compiled is None:
        return _parse_source(_decode(data, name), name, own), PromptSource(
            path.name, sha256(data).hexdigest()
        )
    prompt, source = compiled
    stale = _find_stale(source, path, "error" if strict else "warning")
    missing = _find_missing(prompt, {*own, *list_variable_functions()}, name)
    return prompt._replace(diagnostics=(*stale, *missing, *prompt.diagnostics)), source


def _parse_source(text: str, name: str, own: Collection[str]) -> ParsedPrompt:
    """Parse a source; `own` are the functions of it alone."""
    return parse_prompt(text, name=name, functions={*own, *list_variable_functions()})


def _read_bytes(path: Path, max_bytes: int) -> bytes:
    is_compiled = path.suffix.lower() in COMPILED_FORMS
    most = max_bytes * _COMPILED_GROWTH if is_compiled else max_bytes
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        msg = (
            f"{path}: this file is larger than the {most} bytes a prompt file may have; "
            "pass max_bytes= to read a larger one"
        )
        raise PromptSyntaxError(msg, path=str(path))
    return data


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        findings = Findings(path, data.decode("utf-8", "replace").removeprefix("\ufeff"))
        position = len(data[: error.start].decode("utf-8").removeprefix("\ufeff"))
        findings.add_error(
            f"a prompt file is UTF-8 text, and this is not: {error.reason}", position
        )
        raise findings.sort()[0].to_error() from error


def _find_stale(source: PromptSource, place: Path, level: Level) -> list[Diagnostic]:
    beside = place.parent / source.name
    # The name comes from the file, which may come from anywhere: it must not lead elsewhere.
    if not source.sha256 or beside.name != source.name or beside.parent != place.parent:
        return []
    if beside.is_symlink() or not beside.is_file():
        return []
    with beside.open("rb") as file:
        if file_digest(file, "sha256").hexdigest() == source.sha256:
            return []
    message = f"'{source.name}' beside it has changed since this was compiled; compile it again"
    return [Diagnostic(level, message, 1, 1, name=str(place))]


def _find_missing(prompt: ParsedPrompt, known: Collection[str], name: str) -> list[Diagnostic]:
    """Return an error for each function that a compiled prompt needs and nobody has."""
    places = (place for found in prompt.occurrences.values() for place in found)
    return [
        Diagnostic("error", f"there is no function '{function}' here", 1, 1, name=name)
        for function in sorted({place.function_name for place in places} - set(known))
    ]


def _find_form(path: Path) -> CompiledForm:
    """Return the compiled form that goes by the path's suffix.

    Raises:
        ConfigError: If it is another suffix; so a source is never overwritten by mistake.
    """
    form = COMPILED_FORMS.get(path.suffix.lower())
    if form is None:
        suffixes = " or ".join(f"{suffix} ({form})" for suffix, form in COMPILED_FORMS.items())
        msg = f"{path}: the name of a compiled prompt ends in {suffixes}"
        raise ConfigError(msg)
    return form


def _write_whole(path: Path, data: bytes) -> None:
    """Write a file so that others see all of it or what was there before.

    Raises:
        OSError: If it cannot be written; nothing is left behind.
    """
    # Not by `tempfile`: its files are closed to all others, whatever the umask says.
    beside = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            file.write(data)
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
