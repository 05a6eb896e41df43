"""Chat prompts with a place for what was said before, and one system message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompt_values import ChatPromptValue
from langchain_core.prompts import (
    BasePromptTemplate,
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    SystemMessagePromptTemplate,
)
from langchain_core.runnables import RunnableConfig, ensure_config

from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.profile_block import PROFILE_SOURCE
from langchain_convmem.turns.recalled import (
    CARRIED,
    RECALL_SOURCE,
    Carried,
    MessageList,
    SaidText,
    join_system,
)

_TOLD = (PROFILE_SOURCE, RECALL_SOURCE)
"""Marks of system messages that a memory makes, also where a chain hands on some messages alone."""


class MemoryPrompt(ChatPromptTemplate):
    """A chat prompt with what a memory tells a model, and with all of what the user says.

    Its system message holds the profile and recalled lines that belong there. A variable of text
    shows the words of what the user says; its pictures stand behind them, and so does a tool loop.
    """

    carried: str | None = None
    """The variable of what was said before, if the steps before the prompt do not hand it on."""

    @classmethod
    def from_prompt(
        cls, prompt: ChatPromptTemplate, carried: str | None = None
    ) -> ChatPromptTemplate:
        """Return a prompt like another one; the same if it adds nothing, or formats its own way."""
        is_own = type(prompt).format_messages is not ChatPromptTemplate.format_messages
        has_text = not {*prompt.input_variables}.issubset(list_places(prompt))
        is_framed = any(map(_is_framing, prompt.messages[:1]))
        if is_own or not (carried or has_text or is_framed):
            return prompt
        parts = {name: getattr(prompt, name) for name in ChatPromptTemplate.model_fields}
        return cls.model_construct(**{**parts, "name": prompt.get_name(), "carried": carried})

    def invoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return the prompt's value, with more than text of what the user says behind it."""
        value, rest = self._add_carried(input, config)
        return _finish(super().invoke(value, config, **kwargs), value, rest)

    async def ainvoke(
        self,
        input: Any,  # noqa: A002 - LangChain's name
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Return what `invoke` does."""
        value, rest = self._add_carried(input, config)
        return _finish(await super().ainvoke(value, config, **kwargs), value, rest)

    def _add_carried(
        self, value: Any, config: RunnableConfig | None
    ) -> tuple[Any, Sequence[BaseMessage]]:
        """Return the variables, and what the user says if these show no more than its text."""
        carried = ensure_config(config).get("configurable", {}).get(CARRIED)
        if not isinstance(carried, Carried):
            return value, ()
        if not isinstance(value, dict) and len(self.input_variables) == 1:
            value = {self.input_variables[0]: value}
        if not isinstance(value, dict):
            return value, ()
        places = list_places(self)
        shown = [name for name, one in value.items() if one is carried.given and name not in places]
        if shown and isinstance(carried.given, MessageList):
            value = {**value, **dict.fromkeys(shown, MessageList(carried.said[:1]))}
        value = {
            name: one.shown if isinstance(one, SaidText) else one for name, one in value.items()
        }
        before = {} if self.carried is None else {self.carried: carried.history}
        return {**before, **value}, carried.said if shown else ()

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return False: who loads a chain wraps it again."""
        return False


def _finish(value: Any, given: Any, said: Sequence[BaseMessage]) -> Any:
    """Return a prompt's value with all of what the memory tells and the user says.

    Args:
        value: What the prompt made.
        given: Its variables.
        said: What the user says, if the variables show no more than its text.
    """
    messages = _join_told(value.to_messages(), given if isinstance(given, dict) else {})
    return ChatPromptValue(messages=_add_rest(messages, said))


def _add_rest(messages: list[BaseMessage], said: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages with pictures in the user's, and the tool loop behind it."""
    at = max((n for n, one in enumerate(messages) if isinstance(one, HumanMessage)), default=None)
    if not said or at is None:
        return messages
    blocks = [] if isinstance(said[0].content, str) else said[0].content
    extra = [one for one in blocks if isinstance(one, dict) and one.get("type") != "text"]
    if extra:
        content = [{"type": "text", "text": messages[at].text}, *extra]
        messages[at] = messages[at].model_copy(update={"content": content})
    return [*messages[: at + 1], *said[1:], *messages[at + 1 :]]


def _join_told(messages: list[BaseMessage], given: Mapping[str, Any]) -> list[BaseMessage]:
    """Return messages with what the memory adds in the first system message, if there is one.

    Args:
        messages: Those of the prompt.
        given: Its variables; system messages in the memory's lists are the thread's.
    """
    if not messages or not isinstance(messages[0], SystemMessage):
        return messages
    lists = [value for value in given.values() if isinstance(value, MessageList)]
    ids = {id(one) for value in lists for one in value}
    told = [
        one
        for one in messages[1:]
        if isinstance(one, SystemMessage)
        and (id(one) in ids or one.additional_kwargs.get("source") in _TOLD)
    ]
    joined = [one for one in messages if not any(one is other for other in told)]
    for one in told:
        joined = join_system(joined, one.text, source=PROFILE_SOURCE)
    return joined


def fill_prompt(
    prompt: BasePromptTemplate[Any], asked: Sequence[str], before: Sequence[str]
) -> BasePromptTemplate[Any]:
    """Return a prompt with a place for what was said before.

    Args:
        prompt: The prompt; one of text stays as it is.
        asked: Variables of what the user says.
        before: Variables of what was said before; the first is that of a new place.

    Raises:
        ConfigError: If it has no place for what the user says.
    """
    names = {*prompt.input_variables, *prompt.optional_variables}
    if names.isdisjoint(asked):
        msg = (
            f"the prompt has no place for what the user says: it has the variables "
            f"{sorted(names)}, and none of {list(asked)}; add {{{asked[0]}}} to it, or name its "
            "variable with input_messages_key="
        )
        raise ConfigError(msg)
    if not isinstance(prompt, ChatPromptTemplate):
        return prompt
    if names.isdisjoint(before):
        prompt = _add_place(prompt, asked, before[0])
    return MemoryPrompt.from_prompt(prompt)


def fill_later_prompt(prompt: Any, before: Sequence[str]) -> ChatPromptTemplate:
    """Return a prompt that other steps come before, with a place for what was said before them.

    Args:
        prompt: The prompt; one that has such a place gets no other.
        before: Variables of what was said before; the first is that of a new place.
    """
    names = {*prompt.input_variables, *prompt.optional_variables}
    own = next((name for name in before if name in names), None)
    if own is not None:
        return MemoryPrompt.from_prompt(prompt, own)
    humans = [one for one in prompt.messages if isinstance(one, HumanMessagePromptTemplate)]
    asked = [name for one in humans[-1:] for name in one.input_variables]
    return MemoryPrompt.from_prompt(_add_place(prompt, asked, before[0]), before[0])


def make_chat_prompt(prompt: Any, before: Sequence[str]) -> BasePromptTemplate[Any]:
    """Return a prompt of text as one of a human message, unless it has a place for the history."""
    if not {*prompt.input_variables, *prompt.optional_variables}.isdisjoint(before):
        return cast("BasePromptTemplate[Any]", prompt)
    return ChatPromptTemplate([HumanMessagePromptTemplate(prompt=prompt)])


def _add_place(prompt: ChatPromptTemplate, asked: Sequence[str], name: str) -> ChatPromptTemplate:
    """Return a prompt with a placeholder before what the user says, after its system part."""
    parts = list(prompt.messages)
    framing = next((n for n, one in enumerate(parts) if not _is_framing(one)), len(parts))
    said = [
        n
        for n, one in enumerate(parts)
        if not {*getattr(one, "input_variables", ())}.isdisjoint(asked)
    ]
    at = max([framing, *said[-1:]])
    parts.insert(at, MessagesPlaceholder(name, optional=True))
    variables = [*prompt.optional_variables, name]
    return prompt.model_copy(update={"messages": parts, "optional_variables": variables})


def list_places(prompt: ChatPromptTemplate) -> list[str]:
    """Return in place of which variables a prompt puts messages."""
    return [one.variable_name for one in prompt.messages if isinstance(one, MessagesPlaceholder)]


def _is_framing(part: Any) -> bool:
    return isinstance(part, SystemMessage | SystemMessagePromptTemplate)
