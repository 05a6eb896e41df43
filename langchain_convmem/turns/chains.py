"""What a memory must know about a chain, and how the chain gets what the memory has for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage, get_buffer_string
from langchain_core.prompts import (
    BasePromptTemplate,
    ChatPromptTemplate,
    HumanMessagePromptTemplate,
    MessagesPlaceholder,
    StringPromptTemplate,
    SystemMessagePromptTemplate,
)
from langchain_core.runnables import (
    Runnable,
    RunnableAssign,
    RunnableBranch,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnableSequence,
    RunnableWithFallbacks,
    ensure_config,
)
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableEachBase,
    RunnableLike,
    coerce_to_runnable,
)
from langchain_core.runnables.configurable import DynamicRunnable, RunnableConfigurableAlternatives

from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.memory import PROFILE_SOURCE
from langchain_convmem.views.codec import get_block_text, get_text_pieces
from langchain_convmem.views.context import merge_messages
from langchain_convmem.views.lines import indent_text
from langchain_convmem.views.providers import (
    NO_MODEL,
    ModelFacts,
    Provider,
    find_provider,
    join_providers,
    resolve_provider,
)

_BESIDE = (RunnableParallel, RunnableAssign, RunnableEachBase)
"""A prompt inside these is the chain's own only if it has no other."""
_WRAPPERS = (RunnableBindingBase, RunnableWithFallbacks, RunnableSequence, DynamicRunnable)
"""These pass their input on to their first part."""
_FORKS = (RunnableBranch, RunnableWithFallbacks)
_MESSAGES = re.compile(r"ChatPromptValue|^([\w.]+\.)?(list|List|Sequence|Iterable)\[.*Message")
"""What takes messages declares this; functions may do so as text."""


@dataclass(frozen=True, slots=True)
class ChainShape:
    """What a memory must know about a chain.

    Attributes:
        slots: The variables that its prompts use; None for a chain that takes messages.
        provider: Whose rules the messages must keep.
        is_fixed: Whether the shape is the same for every call.
        model: What its chat models say about themselves.
        places: The variables that a prompt fills with messages rather than text.
        takes_text: Whether its first step takes only the text of what the user says.
        shows_recalled: Whether it has a `MemoryPrompt`, which adds recalled lines to that text, and
            the thread's system messages to its own.
        has_other_ways: Whether a call may get around that prompt, as in a branch.
    """

    slots: frozenset[str] | None
    provider: Provider
    is_fixed: bool = True
    model: ModelFacts = NO_MODEL
    places: frozenset[str] = frozenset()
    takes_text: bool = False
    shows_recalled: bool = False
    has_other_ways: bool = False

    @classmethod
    def from_chain(
        cls, inner: Runnable[Any, Any], configurable: Mapping[str, Any], provider: Provider | None
    ) -> ChainShape:
        """Return the shape of a chain as a call with these `configurable` values runs it.

        Args:
            inner: The chain.
            configurable: What the call carries under `configurable`.
            provider: Whose rules to keep, whatever models are found; None goes by these.
        """
        parts = list(_walk(inner, configurable, set()))
        # Models that a function uses by name count, too. If they are of several providers, or none
        # can be seen, messages keep to what all providers accept.
        models = [part for part in parts if isinstance(part, BaseLanguageModel)]
        chats = [part for part in parts if isinstance(part, ChatPromptTemplate)]
        used = [_list_variables(part) for part in parts if isinstance(part, BasePromptTemplate)]
        # A slot counts only if all prompts have it: the others would miss what it holds.
        lacking = {name for name in ("recalled", "summary") if any(name not in one for one in used)}
        first = _find_first(parts)
        takes_messages = _takes_messages(first)
        return cls(
            slots=None if takes_messages else frozenset().union(*used) - lacking,
            provider=resolve_provider(provider or join_providers({*map(find_provider, models)})),
            is_fixed=not any(isinstance(part, DynamicRunnable) for part in parts),
            model=ModelFacts.merge(list(map(ModelFacts.read, models))),
            places=frozenset(name for one in chats for name in _list_places(one)),
            takes_text=not takes_messages and _takes_text(first),
            shows_recalled=any(isinstance(one, MemoryPrompt) for one in chats),
            has_other_ways=any(isinstance(part, _FORKS) for part in parts),
        )


HISTORY_NAMES = ("history", "chat_history")
"""Variables that prompts use for what was said before."""


def read_chain(
    inner: RunnableLike[Any, Any],
    input_messages_key: str | None = None,
    history_messages_key: str | None = None,
) -> Runnable[Any, Any]:
    """Return a chain, or a function, as a Runnable whose prompt shows what the memory has for it.

    If its chat prompt has no place for what was said before, it gets one between its system part
    and what the user says; see `MemoryPrompt`.

    Args:
        inner: The chain.
        input_messages_key: The variable of what the user says, besides `input`.
        history_messages_key: The variable of what was said before, besides `history` and
            `chat_history`.

    Raises:
        ConfigError: If it is no chain, or its prompt has no place for what the user says.
    """
    if isinstance(inner, Runnable):
        asked = list(filter(None, (input_messages_key, "input", "messages")))
        before = list(filter(None, (history_messages_key, *HISTORY_NAMES, "messages")))
        first = _find_first(_walk(inner, {}, set()))
        if isinstance(first, BasePromptTemplate) and _list_variables(first).isdisjoint(asked):
            raise ConfigError(
                f"the prompt has no place for what the user says: it has the variables "
                f"{sorted(_list_variables(first))}, and none of {asked}; add {{{asked[0]}}} to it, "
                "or name its variable with input_messages_key="
            )
        filled = _fill(inner, asked, before, in_maps=False)
        return _fill(inner, asked, before, in_maps=True) if filled is inner else filled
    if isinstance(inner, type):
        msg = f"{inner.__name__} is a class; pass an object of it, {inner.__name__}(...)"
        raise ConfigError(msg)
    try:
        return coerce_to_runnable(inner)
    except TypeError:
        kind = type(inner).__name__
        msg = f"a value of type {kind} is not a chain; pass a chat model, a chain or a function"
        raise ConfigError(msg) from None


def _fill(
    runnable: Runnable[Any, Any], asked: Sequence[str], before: Sequence[str], *, in_maps: bool
) -> Runnable[Any, Any]:
    """Return the chain with its prompt made a `MemoryPrompt`; itself if it has none.

    Args:
        runnable: The chain.
        asked: Variables of what the user says.
        before: Variables of what was said before; a new place gets the first.
        in_maps: Whether to look inside maps, for a chain that returns its reply beside other
            values: the prompt of the last map is its own. Otherwise the first prompt outside of
            maps is; those inside serve other steps.
    """
    if isinstance(runnable, ChatPromptTemplate):
        return MemoryPrompt.from_prompt(runnable, asked, before)
    fill = partial(_fill, asked=asked, before=before, in_maps=in_maps)
    if isinstance(runnable, RunnableSequence):
        steps = list(runnable.steps)
        is_chat = any(isinstance(one, BaseChatModel) for one in steps)
        for n in reversed(range(len(steps))) if in_maps else range(len(steps)):
            step: Any = steps[n]
            is_text = is_chat and isinstance(step, StringPromptTemplate)
            if is_text and _list_variables(step).isdisjoint(before):
                step = ChatPromptTemplate([HumanMessagePromptTemplate(prompt=step)])
            made = fill(step)
            if made is not steps[n]:
                steps[n] = made
                break
        changed = iter(steps)
        return _map_parts(runnable, lambda _: next(changed))
    is_beside = isinstance(runnable, _BESIDE) and not in_maps
    return runnable if is_beside else _map_parts(runnable, fill)


def _list_variables(prompt: BasePromptTemplate[Any]) -> set[str]:
    return {*prompt.input_variables, *prompt.optional_variables}


# -- What a call carries past the steps before its prompt -----------------------------------------
class MessageList(list[BaseMessage]):
    """Messages that also format well as text in a prompt: only their speakers are at the margin."""

    def __str__(self) -> str:
        if len(self) == 1 and isinstance(self[0], HumanMessage):
            return "\n".join(get_text_pieces(self[0]))
        show = partial(get_buffer_string, human_prefix="User", ai_prefix="Assistant")
        return "\n".join(indent_text(show([one])) for one in self)


_CARRIED = "__convmem_call"
"""Under `configurable`: what a call carries to the prompt of its chain, as `Carried`."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What steps before a prompt might not pass on to it.

    Attributes:
        history: What was said before.
        framing: System messages of the thread, if the prompt adds these itself.
        said: What the user says, and the tool loop after it.
        shown: The text of what the user says, after the recalled lines.
    """

    history: MessageList
    framing: MessageList
    said: MessageList
    shown: str

    def add_to(self, config: RunnableConfig) -> RunnableConfig:
        """Return a config that carries this."""
        configurable = {**config.get("configurable", {}), _CARRIED: self}
        return {**config, "configurable": configurable}

    def complete(self, messages: list[BaseMessage], *, is_text_shown: bool) -> list[BaseMessage]:
        """Return a prompt's messages with the framing, and all of what the user says.

        If the prompt shows that as text, pictures come into its last human message, and the tool
        loop comes after it.
        """
        messages = [one for one in messages if one not in self.framing]
        for one in self.framing:
            messages = join_system(messages, one.content, source=PROFILE_SOURCE)
        at = max((n for n, one in enumerate(messages) if isinstance(one, HumanMessage)), default=-1)
        if at < 0 or not (is_text_shown and self.said):
            return messages
        if extra := list_media(self.said[0]):
            content = [{"type": "text", "text": messages[at].text}, *extra]
            messages[at] = messages[at].model_copy(update={"content": content})
        return [*messages[: at + 1], *self.said[1:], *messages[at + 1 :]]


class SaidText(str):
    """What the user says, as text; a `MemoryPrompt` shows `Carried.shown` in its place."""

    __slots__ = ()


def join_system(messages: Sequence[BaseMessage], text: Any, *, source: str) -> list[BaseMessage]:
    """Return messages with a text at the end of the first system message, or before all.

    Args:
        messages: What a model gets; left as they are.
        text: What to add, as text or as blocks; nothing if it is empty.
        source: Marks a new system message, made for this text alone.
    """
    if not text:
        return list(messages)
    added = SystemMessage(text, id=source, additional_kwargs={"source": source})
    if not messages or not isinstance(messages[0], SystemMessage):
        return [added, *messages]
    return [merge_messages(messages[0], added, between="\n\n"), *messages[1:]]


# -- A prompt with a place for what was said before -----------------------------------------------
class MemoryPrompt(ChatPromptTemplate):
    """A chat prompt that shows what a memory has for the model, and all of what the user says.

    Whatever steps before it do with the history, its system message holds the profile, recalled
    lines that belong there, and the thread's system messages. Where a variable shows the text of
    what the user says, pictures follow the text, and a tool loop follows the message.
    """

    carried: str
    """The variable of what was said before; steps before the prompt might not pass it on."""

    @classmethod
    def from_prompt(
        cls, prompt: ChatPromptTemplate, asked: Sequence[str], before: Sequence[str]
    ) -> ChatPromptTemplate:
        """Return a prompt as a `MemoryPrompt`; itself if its class formats messages its own way.

        Args:
            prompt: The prompt.
            asked: Variables of what the user says. If it has none of them, steps before it make its
                variables, and what the user says is taken to be in its last human message.
            before: Variables of what was said before; if it has none of them, it gets the first.
        """
        if type(prompt).format_messages is not ChatPromptTemplate.format_messages:
            return prompt
        parts = {name: getattr(prompt, name) for name in ChatPromptTemplate.model_fields}
        names = _list_variables(prompt)
        carried = next((name for name in before if name in names), before[0])
        if carried not in names:
            parts["messages"] = _add_place(prompt.messages, asked, carried)
        # Optional, since steps before the prompt might not pass it on.
        parts["input_variables"] = [one for one in prompt.input_variables if one != carried]
        parts["optional_variables"] = [*prompt.optional_variables, carried]
        return cls.model_construct(**{**parts, "name": prompt.get_name(), "carried": carried})

    def format_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return the prompt's messages, with what the call carries beside its variables."""
        values, complete = self._prepare(kwargs)
        return complete(super().format_messages(**values))

    async def aformat_messages(self, **kwargs: Any) -> list[BaseMessage]:
        """Return what `format_messages` does, with the asynchronous values of the prompt."""
        values, complete = self._prepare(kwargs)
        return complete(await super().aformat_messages(**values))

    def _prepare(self, given: dict[str, Any]) -> tuple[dict[str, Any], partial[list[BaseMessage]]]:
        """Return the values of the variables, and what completes the prompt's messages."""
        call = ensure_config().get("configurable", {}).get(_CARRIED)
        if not isinstance(call, Carried):
            return given, partial(list)
        texts = {name: call.shown for name, one in given.items() if isinstance(one, SaidText)}
        values = {self.carried: call.history, **given, **texts}
        places = {*_list_places(self)} - {self.carried}
        if any(one in call.history for name in places for one in values.get(name) or ()):
            values[self.carried] = MessageList()  # a step before put it in another place
        return values, partial(call.complete, is_text_shown=bool(texts))


def list_media(message: BaseMessage) -> list[dict[Any, Any]]:
    """Return what a message holds besides text, in the form that it was given.

    Text for a guardrail counts: it has to stay in a block.
    """
    blocks = [one for one in message.content if isinstance(one, dict)]
    guarded = "guard_content"
    return [one for one in blocks if get_block_text(one) is None or one.get("type") == guarded]


def _add_place(messages: Sequence[object], asked: Sequence[str], name: str) -> list[object]:
    """Return the parts of a prompt with a placeholder before what the user says."""
    humans = [n for n, one in enumerate(messages) if isinstance(one, HumanMessagePromptTemplate)]
    names = [{*getattr(one, "input_variables", ())} for one in messages]
    said = [n for n, own in enumerate(names) if not own.isdisjoint(asked)] or humans
    systems = (SystemMessage, SystemMessagePromptTemplate)
    others = [n for n, one in enumerate(messages) if not isinstance(one, systems)]
    at = max([*others, len(messages)][:1] + said[-1:])
    return [*messages[:at], MessagesPlaceholder(name, optional=True), *messages[at:]]


def _list_places(prompt: ChatPromptTemplate) -> list[str]:
    """Return the variables that a prompt fills with messages."""
    return [one.variable_name for one in prompt.messages if isinstance(one, MessagesPlaceholder)]


# -- What gets the input --------------------------------------------------------------------------
def _takes_messages(first: Runnable[Any, Any]) -> bool:
    """Return whether what gets the input takes messages, as models and `trim_messages` do."""
    try:
        return _MESSAGES.search(str(first.InputType)) is not None
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False


def _find_first(parts: Iterable[Runnable[Any, Any]]) -> Runnable[Any, Any]:
    """Return the part of a chain that gets the input first, without what is wrapped around it.

    A model, for one, may be bound, retried, configurable, have fallbacks or be chosen at the call.
    """
    return next(part for part in parts if not isinstance(part, _WRAPPERS))


def _takes_text(first: Runnable[Any, Any]) -> bool:
    """Return whether the first step hands its whole input to retrievers, or to variables."""
    from langchain_core.retrievers import BaseRetriever

    steps = first.steps__.values() if isinstance(first, RunnableParallel) else ()
    return isinstance(first, BaseRetriever) or any(
        isinstance(getattr(one, "first", one), BaseRetriever | RunnablePassthrough) for one in steps
    )


# -- Prompts and models inside --------------------------------------------------------------------
def _walk(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any], seen: set[int]
) -> Iterator[Runnable[Any, Any]]:
    """Yield a runnable and all its parts, each before the parts of its own.

    Args:
        runnable: The runnable.
        configurable: What a call carries under `configurable`. It chooses among alternatives. Its
            values for fields are ignored: to apply them would make another object of the same
            class, which tells nothing more and, for a model, may open connections.
        seen: `id` of all that was met, so that a function which uses itself is met once.
    """
    if id(runnable) in seen:
        return
    seen.add(id(runnable))
    yield runnable
    if isinstance(runnable, RunnableBindingBase | DynamicRunnable) and runnable.config:
        configurable = {**runnable.config.get("configurable", {}), **configurable}
    parts: list[Runnable[Any, Any]] = []

    def note(part: Runnable[Any, Any]) -> Runnable[Any, Any]:
        parts.append(part)
        return part

    if isinstance(runnable, RunnableLambda):
        parts += runnable.deps
    elif isinstance(runnable, RunnableConfigurableAlternatives):
        parts += runnable.prepare(cast("RunnableConfig", {"configurable": configurable}))[:1]
    else:
        _map_parts(runnable, note)
    for part in parts:
        yield from _walk(part, configurable, seen)


def _map_parts(
    runnable: Runnable[Any, Any], change: Callable[[Runnable[Any, Any]], Runnable[Any, Any]]
) -> Runnable[Any, Any]:
    """Return a runnable with its parts changed, one level deep; itself if none was."""
    is_changed = False

    def make(value: Any) -> Any:
        nonlocal is_changed
        if isinstance(value, Runnable):
            made = change(value)
            is_changed = is_changed or made is not value
            return made
        if isinstance(value, dict):
            return {name: make(one) for name, one in value.items()}
        return type(value)(map(make, value)) if type(value) in (list, tuple) else value

    if not isinstance(runnable, (*_BESIDE, *_WRAPPERS, RunnableBranch)):
        return runnable  # what other runnables are made of is their own
    update = {name: make(getattr(runnable, name)) for name in type(runnable).model_fields}
    return runnable.model_copy(update=update) if is_changed else runnable
