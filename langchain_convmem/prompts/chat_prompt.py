"""Prompt files as LangChain chat prompts; the only file of the room that names LangChain's types.

Section text never becomes template source: the system message keeps literal text and variables
apart, so braces, `$` and backslashes of a prompt file reach the model as they are. What is built
here survives `dumpd` and `load` when `load` is given `CHAT_PROMPT_TYPES` and the namespace
`langchain_convmem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.load.serializable import (
    Serializable,
    SerializedConstructor,
    SerializedNotImplemented,
)
from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.prompts.message import BaseMessagePromptTemplate
from pydantic import Field

from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts.layout import join_blocks
from langchain_convmem.prompts.placeholders import fill_pieces
from langchain_convmem.prompts.variables import VariableFunction, evaluate

__all__ = [
    "CHAT_PROMPT_TYPES",
    "RunTimeVariable",
    "SectionsMessagePromptTemplate",
    "build_chat_prompt",
]

_VARIABLE_PREFIX = "variable_"


class RunTimeVariable(Serializable):
    """A variable function as a partial of a chat prompt: called whenever the prompt is formatted.

    It is serialised by the function's name, which the loading process must have registered. A
    function that belongs to one file has no such name: LangChain marks it as not serialisable, and
    `load` refuses the prompt instead of calling something else.
    """

    function_name: str
    """The name in prompt files."""

    function: VariableFunction | None = Field(default=None, exclude=True)
    """The function of one file; None calls what is registered under the name."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: a registered function is named by text."""
        return True

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return LangChain's serialised form."""
        return super().to_json() if self.function is None else self.to_json_not_implemented()

    def __call__(self) -> str:
        """Return the value of this moment; an empty string if the function fails (logged)."""
        return evaluate(self.function_name, self.function)


class SectionsMessagePromptTemplate(BaseMessagePromptTemplate):
    """The system message of a prompt file; no message at all when all its parts are blank."""

    headings: list[str]
    """What stands over each section, line end included."""

    bodies: list[list[str]]
    """For each section: literal text at even places, names of template variables at odd ones."""

    summary_at: int | None = None
    """Before which section the summary stands (their number: behind all); None for nowhere."""

    summary_heading: str = ""
    """What stands over the summary when there is one."""

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return the module path, which the base class replaces by its own."""
        return cls.__module__.split(".")

    @property
    def input_variables(self) -> list[str]:
        """Names of the run-time variables; `summary` is optional and not among them."""
        return list(dict.fromkeys(name for body in self.bodies for name in body[1::2]))

    def format_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the system message, or nothing.

        Args:
            **kwargs: A string for each input variable; `summary` may be missing, None or blank.

        Raises:
            ConfigError: If `summary` is no string.
        """
        text = self._text(kwargs, _summary_of(kwargs))
        return [SystemMessage(text)] if text else []

    def pretty_repr(self, html: bool = False) -> str:  # noqa: ARG002 - LangChain's signature
        """Return the text with `{name}` for what is filled in later."""
        names = {name: f"{{{name}}}" for name in self.input_variables}
        return self._text(names, "{summary}")

    def _text(self, values: Mapping[str, str], summary: str) -> str:
        texts = (fill_pieces(body, values) for body in self.bodies)
        blocks = list(zip(self.headings, texts, strict=True))
        if self.summary_at is not None:
            blocks.insert(self.summary_at, (self.summary_heading, summary))
        return join_blocks(blocks)


CHAT_PROMPT_TYPES: tuple[type[Serializable], ...] = (
    ChatPromptTemplate,
    MessagesPlaceholder,
    RunTimeVariable,
    SectionsMessagePromptTemplate,
)
"""What `langchain_core.load.load` must be allowed to make for a prompt of `build_chat_prompt`."""


def build_chat_prompt(
    *,
    headings: Sequence[str],
    bodies: Sequence[Sequence[str]],
    functions: Mapping[str, VariableFunction],
    summary_at: int | None,
    summary_heading: str,
    history: bool,
) -> ChatPromptTemplate:
    """Return the chat prompt of sections: system message, `history`, `input`.

    Args:
        headings: See `SectionsMessagePromptTemplate`.
        bodies: For each section: literal text at even places, function names at odd ones.
        functions: Functions that go before registered ones, by name.
        summary_at: See `SectionsMessagePromptTemplate`.
        summary_heading: See `SectionsMessagePromptTemplate`.
        history: Whether there is a place for earlier messages.
    """
    system = SectionsMessagePromptTemplate(
        headings=list(headings),
        bodies=[_name_variables(body) for body in bodies],
        summary_at=summary_at,
        summary_heading=summary_heading,
    )
    names = dict.fromkeys(name for body in bodies for name in body[1::2])
    partials: dict[str, Any] = {
        _VARIABLE_PREFIX + name: RunTimeVariable(function_name=name, function=functions.get(name))
        for name in names
    }
    optional = [] if summary_at is None else ["summary"]
    messages: list[BaseMessagePromptTemplate] = [system, MessagesPlaceholder("input")]
    if history:
        messages.insert(1, MessagesPlaceholder("history", optional=True))
        partials["history"] = []
        optional.insert(0, "history")
    return ChatPromptTemplate(messages, partial_variables=partials, optional_variables=optional)


def _name_variables(body: Sequence[str]) -> list[str]:
    return [_VARIABLE_PREFIX + part if place % 2 else part for place, part in enumerate(body)]


def _summary_of(kwargs: Mapping[str, Any]) -> str:
    summary = kwargs.get("summary")
    if summary is not None and not isinstance(summary, str):
        msg = f"summary must be a string, got {type(summary).__name__}"
        raise ConfigError(msg)
    return summary or ""
