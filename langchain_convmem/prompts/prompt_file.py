"""`PromptFile`: a parsed prompt file, its rendered sections, and the way to a chat prompt."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from langchain_convmem.errors import ConfigError, PromptSyntaxError
from langchain_convmem.prompts.diagnostics import Diagnostic, Findings, split_lines
from langchain_convmem.prompts.layout import SUMMARY_TITLE_KEY, heading, join_blocks
from langchain_convmem.prompts.parser import parse_prompt
from langchain_convmem.prompts.placeholders import Occurrence, fill_pieces, split_pieces
from langchain_convmem.prompts.variables import (
    VariableFunction,
    check_functions,
    evaluate,
    registered_functions,
)

if TYPE_CHECKING:
    from langchain_core.prompts import ChatPromptTemplate

__all__ = ["MAX_BYTES", "PromptFile"]

MAX_BYTES = 1 << 20
"""Largest file that `PromptFile.load` reads unless told otherwise."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PromptFile:
    """A prompt file after parsing. Made by `load` and `parse`; treat its mappings as read-only.

    Safe to share between threads as far as its variable functions are.

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
    """

    name: str = "<text>"
    metadata: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    variable_definitions: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    occurrences: Mapping[str, tuple[Occurrence, ...]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    functions: Mapping[str, VariableFunction] = field(default_factory=dict)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> PromptFile:
        """Read and parse a file in UTF-8, with or without a byte order mark.

        Args:
            path: The file.
            strict: See `parse`.
            functions: See `parse`.
            max_bytes: Larger files are refused without being read whole.

        Raises:
            OSError: If the file cannot be read (`FileNotFoundError` if there is none).
            PromptSyntaxError: If it is too large or not UTF-8; in strict mode also as in `parse`.
            ConfigError: See `parse`.
        """
        with Path(path).open("rb") as file:
            data = file.read(max_bytes + 1)
        if len(data) > max_bytes:
            msg = (
                f"{path}: this file is larger than the {max_bytes} bytes a prompt file may have; "
                "pass max_bytes= to read a larger one"
            )
            raise PromptSyntaxError(msg, path=str(path))
        return cls.parse(
            _decode(data, str(path)), name=str(path), strict=strict, functions=functions
        )

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        name: str = "<text>",
        strict: bool = False,
        functions: Mapping[str, VariableFunction] | None = None,
    ) -> PromptFile:
        """Parse a prompt file's text.

        Args:
            text: The text, with line ends of any kind.
            name: What messages call it.
            strict: Raise the first error instead of going on; warnings never raise.
            functions: Functions of this file alone, by the name that Var sections use.

        Raises:
            PromptSyntaxError: In strict mode, if there is a diagnostic of level `error`; its
                message shows the line and a caret.
            ConfigError: If `functions` holds what is no function without arguments.
        """
        own = dict(functions or {})
        check_functions(own)
        parsed = parse_prompt(text, name=name, functions={*own, *registered_functions()})
        if strict:
            for diagnostic in parsed.diagnostics:
                if diagnostic.level == "error":
                    raise diagnostic.to_error()
        return cls(name=name, functions=own, **parsed._asdict())

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

    def render(self, *, strict: bool = False) -> dict[str, str]:
        """Return title -> text with the variables' values of this moment.

        Each function is called once, however often it occurs. Values are not parsed again.

        Args:
            strict: Let a function's exception through; otherwise its value is an empty string,
                and the failure is logged.
        """
        return self._render(self.sections, strict=strict)

    def format(
        self,
        titles: Iterable[str],
        *,
        include_titles: bool = True,
        include_summary: bool = True,
        summary: str = "",
        strict: bool = False,
    ) -> str:
        """Return a system prompt made of sections, with the variables' values of this moment.

        Args:
            titles: Which sections, in this order; a title that the file does not have is skipped
                and logged as a warning.
            include_titles: Put each title as `**Title:**` over its section.
            include_summary: Put the summary behind the sections, under `summary_title` if there
                is one and titles are included.
            summary: The summary; a blank one leaves no trace.
            strict: See `render`.
        """
        wanted = [title for title in _as_titles(titles) if self._has(title)]
        texts = self._render(dict.fromkeys(wanted), strict=strict)
        blocks = [(heading(title) if include_titles else "", texts[title]) for title in wanted]
        if include_summary:
            blocks.append((heading(self.summary_title) if include_titles else "", summary))
        return join_blocks(blocks)

    def to_chat_prompt(
        self,
        *,
        sections: Iterable[str] | None = None,
        history: bool = True,
        include_titles: bool = True,
        include_summary: bool = True,
    ) -> ChatPromptTemplate:
        """Return a chat prompt: one system message of sections, the history, the input.

        The template takes `input` (a list with the user's message), and optionally `history` (a
        list of messages) and `summary` (a string). Text of the file and of the summary is literal
        in it; variable functions are called each time it is formatted.

        Args:
            sections: Titles in the order wanted, the summary behind them. None takes all and puts
                what changes least first: sections without variables, the summary, sections with
                variables; so a provider can cache the longest possible beginning.
            history: Have a place for earlier messages.
            include_titles: See `format`.
            include_summary: Have a place for the summary.

        Raises:
            ConfigError: If `sections` names a section that the file does not have.
        """
        from langchain_convmem.prompts.chat_prompt import build_chat_prompt

        order, summary_at = self._order(sections)
        return build_chat_prompt(
            headings=[heading(title) if include_titles else "" for title in order],
            bodies=[
                split_pieces(self.sections[title], self.occurrences.get(title, ()))
                for title in order
            ],
            functions=self.functions,
            summary_at=summary_at if include_summary else None,
            summary_heading=heading(self.summary_title) if include_titles else "",
            history=history,
        )

    def _order(self, sections: Iterable[str] | None) -> tuple[list[str], int]:
        """Return the titles in order, and before which of them the summary stands."""
        if sections is None:
            stable = [title for title in self.sections if title not in self.occurrences]
            return [*stable, *self.occurrences], len(stable)
        order = _as_titles(sections)
        for title in order:
            if title not in self.sections:
                msg = f"{self.name} has no section {title!r}; it has {list(self.sections)}"
                raise ConfigError(msg)
        return order, len(order)

    def _has(self, title: str) -> bool:
        if title in self.sections:
            return True
        _LOG.warning("%s has no section %r; it is skipped", self.name, title)
        return False

    def _render(self, titles: Iterable[str], *, strict: bool) -> dict[str, str]:
        pieces = {
            title: split_pieces(self.sections[title], self.occurrences.get(title, ()))
            for title in titles
        }
        names = dict.fromkeys(name for parts in pieces.values() for name in parts[1::2])
        values = {name: evaluate(name, self.functions.get(name), strict=strict) for name in names}
        return {title: fill_pieces(parts, values) for title, parts in pieces.items()}


def _as_titles(titles: Iterable[str]) -> list[str]:
    # A lone string is a sequence of titles of one letter each, which nobody means.
    return [titles] if isinstance(titles, str) else list(titles)


def _decode(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = data.decode("utf-8", "replace")
        before = split_lines(data[: error.start].decode("utf-8"))
        where = len(before), len(before[-1]) + 1
        findings = Findings(path, shown)
        findings.error(f"a prompt file is UTF-8 text, and this is not: {error.reason}", where)
        raise findings.in_order()[0].to_error() from error
