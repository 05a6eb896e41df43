"""Prompt files as LangChain chat prompts.

What is built here survives `dumpd` and `load` when `load` is given `CHAT_PROMPT_TYPES` and the
namespace `langchain_convmem`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from langchain_core.load.serializable import (
    Serializable,
    SerializedConstructor,
    SerializedNotImplemented,
)
from langchain_core.messages import (
    BaseMessage,
    HumanMessage,
    SystemMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.prompts.message import BaseMessagePromptTemplate
from pydantic import Field

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.prompts.scanner import escape_headings, format_heading, join_blocks
from langchain_convmem.prompts.variables import (
    Failed,
    VariableFunction,
    evaluate,
    fill_pieces,
)
from langchain_convmem.views.messages import escape_tag, make_summary_messages, read_messages
from langchain_convmem.views.summaries import format_summary

_VARIABLE_PREFIX = "variable_"


def build_chat_prompt(
    early: Mapping[str, Sequence[str]],
    late: Mapping[str, Sequence[str]],
    variables: Iterable[RunTimeVariable],
    *,
    has_headings: bool,
    summary_heading: str | None,
    history: bool,
    metadata: dict[str, str],
) -> ChatPromptTemplate:
    """Return a chat prompt: system message, summary, `history`, `input`.

    Args:
        early: What stands in the system message: pieces of sections by their titles; pieces at odd
            places name variable functions.
        late: What stands in front of the user's message.
        variables: What is called whenever it is formatted.
        has_headings: Whether titles stand over sections.
        summary_heading: What stands over the summary; None has no place for one.
        history: Whether there is a place for earlier messages.
        metadata: Of its traces.
    """
    head, tail = (
        SectionText(
            headings=[format_heading(title) if has_headings else "" for title in sections],
            bodies=[
                [_VARIABLE_PREFIX + piece if at % 2 else piece for at, piece in enumerate(pieces)]
                for pieces in sections.values()
            ],
        )
        for sections in (early, late)
    )
    past = {"history": MessagesPlaceholder("history", optional=True)} if history else {}
    values: dict[str, Any] = {_VARIABLE_PREFIX + one.function_name: one for one in variables}
    return ChatPromptTemplate(
        [
            SectionsMessagePromptTemplate(sections=head, summary_heading=summary_heading),
            *past.values(),
            InputPlaceholder(variable_name="input", sections=tail),
        ],
        partial_variables={**values, **({"history": []} if history else {})},
        optional_variables=[*past, "recalled", *([] if summary_heading is None else ["summary"])],
        metadata=metadata or None,
    )


# -- Messages made of sections, as LangChain's message templates ----------------------------------


class SectionText(Serializable):
    """Sections as a part of a message, under their headings."""

    headings: list[str]
    """What stands over each section, line end included."""

    bodies: list[list[str]]
    """For each section: literal text at even places, names of template variables at odd ones."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: all is text."""
        return True

    @property
    def variables(self) -> list[str]:
        """Names of the template variables, each once, in order."""
        return list(dict.fromkeys(name for body in self.bodies for name in body[1::2]))

    def fill_blocks(self, values: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return pairs of heading and text."""
        texts = (fill_pieces(body, values) for body in self.bodies)
        return list(zip(self.headings, texts, strict=True))

    def evaluate(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return the values of the variables in one format, by name."""
        # What the file says is left as it is; only a value could open or end a part by itself.
        return {one: escape_headings(escape_tag(str(given[one]))) for one in self.variables}


class SectionsMessagePromptTemplate(BaseMessagePromptTemplate):
    """A system message made of sections; no message at all when all its parts are blank.

    The summary follows in a message with the authority of the user, and a short answer to it.
    """

    sections: SectionText

    summary_heading: str | None = None
    """What stands over the summary, in a message of its own; None has no place for one."""

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return the module path, which the base class replaces by its own."""
        return cls.__module__.split(".")

    @property
    def input_variables(self) -> list[str]:
        """Names of the run-time variables; `summary` is optional and not among them."""
        return self.sections.variables

    def format_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the messages, or nothing.

        Args:
            **kwargs: A value for each input variable; `summary` may be missing, None or blank.

        Raises:
            ConfigError: If `summary` is not a string, or a variable's function is asynchronous.
        """
        summary = kwargs.get("summary") or ""
        if not isinstance(summary, str):
            raise ConfigError(f"summary must be a string, got {type(summary).__name__}")
        text = join_blocks(self.sections.fill_blocks(self.sections.evaluate(kwargs)))
        shown: list[BaseMessage] = [SystemMessage(text)] if text else []
        if self.summary_heading is None or not summary.strip():
            return shown
        told = join_blocks([(self.summary_heading, format_summary([summary]))])
        return [*shown, *make_summary_messages(told, (None, None))]

    async def aformat_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the messages; see `format_messages`."""
        return await hop(partial(self.format_messages, **kwargs))

    def pretty_repr(self, html: bool = False) -> str:  # noqa: ARG002 - LangChain's signature
        """Return the text with `{name}` for what is filled in later."""
        blocks = self.sections.fill_blocks({n: f"{{{n}}}" for n in self.sections.variables})
        if self.summary_heading is not None:
            blocks.append((self.summary_heading, "{summary}"))
        return join_blocks(blocks)


class InputPlaceholder(MessagesPlaceholder):
    """The user's message, with what changes from call to call as text blocks in front of it.

    So everything before, system message and history, is the same text in every turn, and a
    provider can reuse what it has read of it. A message of its own between history and input would
    break the alternation of roles, and a second system message is refused or moved to the front.
    """

    sections: SectionText

    @classmethod
    def get_lc_namespace(cls) -> list[str]:
        """Return the module path, which the base class replaces by its own."""
        return cls.__module__.split(".")

    @property
    def input_variables(self) -> list[str]:
        """The input and the run-time variables; `recalled` is optional and not among them."""
        return [self.variable_name, *self.sections.variables]

    def format_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the input with sections and recalled lines in front of the last human message.

        Args:
            **kwargs: `input`, a message in any form or a list of them; a value for each run-time
                variable; `recalled` (text or messages) may be missing, None or empty.

        Raises:
            InvalidMessageError: If `input` or `recalled` is no message.
            ConfigError: If a variable's function is asynchronous.
        """
        text = join_blocks(self.sections.fill_blocks(self.sections.evaluate(kwargs)))
        texts = [f"<context>\n{text}\n</context>" if text else "", _read_recalled(kwargs)]
        said = read_messages(kwargs[self.variable_name])
        # Chat templates and some providers join blocks without a sign.
        return _fold_in(said, [f"{text}\n\n" for text in texts if text])

    async def aformat_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the messages; see `format_messages`."""
        return await hop(partial(self.format_messages, **kwargs))


def _read_recalled(given: Mapping[str, Any]) -> str:
    recalled = given.get("recalled") or ""
    if isinstance(recalled, str):
        return recalled
    texts = (str(message.text) for message in read_messages(recalled))
    return "\n\n".join(text for text in texts if text.strip())


def _fold_in(messages: list[BaseMessage], texts: Iterable[str]) -> list[BaseMessage]:
    """Return the messages with the texts in front of the last human message, or after all."""
    blocks: list[str | dict[Any, Any]] = [{"type": "text", "text": text} for text in texts]
    if not blocks:
        return messages
    places = [at for at, one in enumerate(messages) if isinstance(one, HumanMessage)]
    if not places:
        return [*messages, HumanMessage(blocks)]
    spoken = messages[places[-1]]
    content = [spoken.content] if isinstance(spoken.content, str) else spoken.content
    own = [{"type": "text", "text": one} if isinstance(one, str) else one for one in content if one]
    folded = spoken.model_copy(update={"content": [*blocks, *own]})
    return [*messages[: places[-1]], folded, *messages[places[-1] + 1 :]]


# -- Variables whose values are made when a prompt is formatted -----------------------------------


class RunTimeVariable(Serializable):
    """A variable function as a partial of a chat prompt: called whenever the prompt is formatted.

    It is serialised by the function's name, which the loading process must have registered. A
    function that belongs to one file has no such name: LangChain marks it as not serialisable, and
    `load` refuses the prompt instead of calling something else.
    """

    function_name: str
    """The name in prompt files."""

    strict: bool = False
    """Let the function's exception through."""

    function: VariableFunction | None = Field(default=None, exclude=True)
    """The function of one file; None calls what is registered under the name."""

    failed: Failed | None = Field(default=None, exclude=True)
    """Told of failures in this process."""

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return True: a registered function is named by text."""
        return True

    def to_json(self) -> SerializedConstructor | SerializedNotImplemented:
        """Return LangChain's serialised form."""
        return super().to_json() if self.function is None else self.to_json_not_implemented()

    def __call__(self) -> LateValue:
        """Return the value for one format of the prompt."""
        return LateValue(self)

    def evaluate(self) -> str:
        """Return the value of this moment; see `evaluate`."""
        name = self.function_name
        own = {} if self.function is None else {name: self.function}
        return evaluate([name], own, strict=self.strict, failed=self.failed)[name]


class LateValue:
    """The value of a variable in one format of a prompt: called for when needed, then kept.

    LangChain calls partials in the middle of asynchronous code too, where nothing may wait; so what
    they return is asked for its value by the message that needs it.
    """

    def __init__(self, variable: RunTimeVariable) -> None:
        """Call nothing yet."""
        self._variable = variable
        self._value: str | None = None

    def __str__(self) -> str:
        if self._value is None:
            self._value = self._variable.evaluate()
        return self._value


CHAT_PROMPT_TYPES: tuple[type[Serializable], ...] = (
    ChatPromptTemplate,
    InputPlaceholder,
    MessagesPlaceholder,
    RunTimeVariable,
    SectionText,
    SectionsMessagePromptTemplate,
)
"""What `langchain_core.load.load` must be allowed to make for a prompt of `build_chat_prompt`."""
