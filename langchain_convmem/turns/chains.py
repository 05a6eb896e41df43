"""What a memory must know of a chain: what it takes, and whose rules its models' messages keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, cast, get_args

from langchain_core.language_models import BaseChatModel, BaseLanguageModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.prompt_values import ChatPromptValue, ChatPromptValueConcrete
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
from langchain_core.runnables.configurable import (
    DynamicRunnable,
    RunnableConfigurableAlternatives,
)

from langchain_convmem.errors import ConfigError
from langchain_convmem.turns.memory import PROFILE_SOURCE
from langchain_convmem.turns.recalled import (
    CARRIED,
    Carried,
    MessageList,
    SaidText,
    join_system,
)
from langchain_convmem.views.providers import (
    NO_MODEL,
    ModelFacts,
    Provider,
    find_provider,
    join_providers,
)

_NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class ChainShape:
    """What a memory must know of a chain.

    Attributes:
        slots: The variables that its prompts use; None for a chain that takes messages.
        places: Those in whose place a prompt puts messages, and not text.
        takes_text: Whether its first steps take what the user says, as text, and nothing else.
        shows_recalled: Whether its prompt adds recalled lines to that text, and the thread's system
            messages to its own.
        has_other_ways: Whether a call may get around that prompt, as in a branch.
        provider: Whose rules the messages must keep.
        is_fixed: Whether it is the same for every call.
        model: What its chat models say of themselves.
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
        cls,
        inner: Runnable[Any, Any],
        configurable: Mapping[str, Any] = _NOTHING,
        provider: Provider | None = None,
    ) -> ChainShape:
        """Return the shape of a chain as a call with these `configurable` values runs it.

        Args:
            inner: The chain.
            configurable: What the call carries under `configurable`.
            provider: Whose rules to keep, whatever models are found; None goes by these.
        """
        chosen = _choose(inner, configurable)
        slots = None
        if not _can_take_messages(chosen):
            slots = _find_slots(chosen, frozenset())
            if slots is None:  # perhaps what a model reads stands beside what else is returned
                slots = _find_slots(chosen, frozenset(), in_maps=True)
            slots = slots or frozenset()
        parts = list(_walk(chosen, frozenset()))
        # Models that a function uses by name count too. Where they are of several providers, or
        # none can be seen, messages keep to what all providers accept.
        models = [part for part in parts if isinstance(part, BaseLanguageModel)]
        prompts = [part for part in parts if isinstance(part, ChatPromptTemplate)]
        return cls(
            slots,
            provider or join_providers({*map(find_provider, models)}),
            chosen is inner and not any(isinstance(part, DynamicRunnable) for part in parts),
            ModelFacts.merge(map(ModelFacts.read, models)),
            frozenset(name for one in prompts for name in _list_places(one)),
            slots is not None and _takes_text(_find_first(chosen)),
            any(isinstance(one, MemoryPrompt) for one in prompts),
            any(isinstance(one, RunnableBranch | RunnableWithFallbacks) for one in parts),
        )


HISTORY_NAMES = ("history", "chat_history")
"""Names that prompts give to what was said before."""


def read_chain(
    inner: RunnableLike[Any, Any],
    input_messages_key: str | None = None,
    history_messages_key: str | None = None,
) -> Runnable[Any, Any]:
    """Return what a memory is wrapped around as a Runnable; LangChain makes one of functions.

    Where its first chat prompt has no place for what was said before, that stands between the
    system part of the prompt and what the user says; see `MemoryPrompt`. Steps before the prompt
    that read the history themselves leave the prompt as it is.

    Args:
        inner: The chain.
        input_messages_key: The variable of what the user says; `input` as well.
        history_messages_key: The variable of what was said before; `history` and `chat_history` as
            well.

    Raises:
        ConfigError: If nothing can be made of it, or its prompt has no place for what the user
            says.
    """
    if isinstance(inner, Runnable):
        asked = list(filter(None, (input_messages_key, "input", "messages")))
        before = list(filter(None, (history_messages_key, *HISTORY_NAMES, "messages")))
        return _fill(inner, None if _holds_prompt(inner) else asked, before)
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
    runnable: Runnable[Any, Any], asked: list[str] | None, before: list[str]
) -> Runnable[Any, Any]:
    """Return the chain with a place for what was said before in its first prompt.

    Args:
        runnable: The chain.
        asked: Variables of what the user says; None for a map whose prompts come behind others, and
            each of which gets such a place.
        before: Variables of what was said before.
    """
    if isinstance(runnable, BasePromptTemplate):
        return _fill_template(runnable, asked, before)
    if asked is not None and isinstance(runnable, RunnableSequence):
        steps = iter(_fill_steps(list(runnable.steps), asked, before))
        return _map_parts(runnable, lambda _: next(steps))
    if asked is not None and isinstance(runnable, _BESIDE):
        return runnable
    return _map_parts(runnable, partial(_fill, asked=asked, before=before))


_BESIDE = (RunnableParallel, RunnableAssign, RunnableEachBase)
"""Prompts in these are beside the chain's own."""


def _fill_steps(
    steps: list[Runnable[Any, Any]], asked: list[str], before: list[str]
) -> list[Runnable[Any, Any]]:
    """Return the steps of a sequence with a place for what was said before in the first prompt."""
    # What is assigned beside the input leaves it as it is.
    at = next((n for n, one in enumerate(steps) if not isinstance(one, RunnableAssign)), 0)
    model = next((one for one in steps if isinstance(one, BaseLanguageModel)), None)
    first: Any = steps[at]
    is_chat = isinstance(first, StringPromptTemplate) and isinstance(model, BaseChatModel)
    if is_chat and _list_variables(first).isdisjoint(before):
        steps[at] = ChatPromptTemplate([HumanMessagePromptTemplate(prompt=first)])
    steps[at] = _fill(steps[at], asked, before)
    places = [n for n, one in enumerate(steps) if isinstance(one, ChatPromptTemplate)]
    maps = [] if places else [n for n, one in enumerate(steps) if _holds_prompt(one)]
    later = [n for n in places[:1] if n > at] or maps[-1:]
    for n in later:
        # What a step reads may stand in the prompt already, unless that has a place of its own.
        if _has_place(steps[n], before) or not any(_reads(one, before) for one in steps[:n]):
            steps[n] = _fill(steps[n], None, before)
    return steps


def _has_place(step: Runnable[Any, Any], before: Iterable[str]) -> bool:
    """Return whether every chat prompt of a step has a place for what was said before."""
    parts = _walk(step, frozenset())
    prompts = [one for one in parts if isinstance(one, ChatPromptTemplate)]
    return all(not _list_variables(one).isdisjoint(before) for one in prompts)


def _list_variables(prompt: Any) -> set[str]:
    return {*prompt.input_variables, *prompt.optional_variables}


def _holds_prompt(step: Runnable[Any, Any]) -> bool:
    """Return whether a step asks a model by a chat prompt, and returns the reply beside others."""
    if not isinstance(step, RunnableParallel | RunnableAssign):
        return False
    parts = list(_walk(step, frozenset()))
    kinds = (ChatPromptTemplate, BaseLanguageModel)
    return all(any(isinstance(one, kind) for one in parts) for kind in kinds)


def _reads(step: Runnable[Any, Any], names: Iterable[str]) -> bool:
    """Return whether a step reads one of these names, as far as LangChain can see it."""
    try:
        fields = step.get_input_jsonschema().get("properties", {})
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return not set(fields).isdisjoint(names)


# -- A prompt with a place for what was said before ------------------------------------------------
class MemoryPrompt(ChatPromptTemplate):
    """A chat prompt with what a memory tells a model, and with all of what the user says.

    Its system message holds the profile, recalled lines that belong there, and system messages of
    the thread, whatever steps before it make of the history. A variable of text shows the words of
    what the user says; its pictures stand behind them, and so does a tool loop.
    """

    carried: str
    """The variable of what was said before, which steps before the prompt may not hand on."""

    @classmethod
    def from_prompt(cls, prompt: ChatPromptTemplate, carried: str) -> ChatPromptTemplate:
        """Return a prompt like another one; the same if that formats its own way."""
        if type(prompt).format_messages is not ChatPromptTemplate.format_messages:
            return prompt
        parts = {name: getattr(prompt, name) for name in ChatPromptTemplate.model_fields}
        return cls.model_construct(**{**parts, "name": prompt.get_name(), "carried": carried})

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return the prompt's value, with more than text of what the user says behind it."""
        value, rest = self._add_carried(input, config)
        return _finish(super().invoke(value, config, **kwargs), rest, config)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return what `invoke` does."""
        value, rest = self._add_carried(input, config)
        return _finish(await super().ainvoke(value, config, **kwargs), rest, config)

    def _add_carried(
        self, value: Any, config: RunnableConfig | None
    ) -> tuple[Any, Sequence[BaseMessage]]:
        """Return the variables, and what the user says if these show no more than its text."""
        carried = _get_carried(config)
        if carried is None:
            return value, ()
        if not isinstance(value, dict) and len(self.input_variables) == 1:
            value = {self.input_variables[0]: value}
        if not isinstance(value, dict):
            return value, ()
        places = _list_places(self)
        shown = [name for name, one in value.items() if one is carried.given and name not in places]
        if shown and isinstance(carried.given, MessageList):
            value = {**value, **dict.fromkeys(shown, MessageList(carried.said[:1]))}
        value = {
            name: one.shown if isinstance(one, SaidText) else one for name, one in value.items()
        }
        return {self.carried: carried.history, **value}, carried.said if shown else ()

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Return False: who loads a chain wraps it again."""
        return False


def _get_carried(config: RunnableConfig | None) -> Carried | None:
    found = ensure_config(config).get("configurable", {}).get(CARRIED)
    return found if isinstance(found, Carried) else None


def _finish(value: Any, said: Sequence[BaseMessage], config: RunnableConfig | None) -> Any:
    """Return a prompt's value with all of what the memory tells and the user says.

    Args:
        value: What the prompt made.
        said: What the user says, if its variables show no more than its text.
        config: What carries the thread's system messages.
    """
    framing = list(carried.framing) if (carried := _get_carried(config)) else []
    messages = [one for one in value.to_messages() if one not in framing]
    if not messages or not isinstance(messages[0], SystemMessage):
        messages = [*framing, *messages]
    else:
        for one in framing:
            messages = join_system(messages, one.text, source=PROFILE_SOURCE)
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


def _fill_template(
    prompt: Any, asked: Sequence[str] | None, before: Sequence[str]
) -> BasePromptTemplate[Any]:
    """Return a prompt with a place for what was said before.

    Args:
        prompt: The prompt; one of text stays as it is.
        asked: Variables of what the user says; None where steps before the prompt make its
            variables, and what the user says is in its last human message.
        before: Variables of what was said before; the first is that of a new place.

    Raises:
        ConfigError: If it has no place for what the user says.
    """
    names = _list_variables(prompt)
    if asked is not None and names.isdisjoint(asked):
        msg = (
            f"the prompt has no place for what the user says: it has the variables "
            f"{sorted(names)}, and none of {list(asked)}; add {{{asked[0]}}} to it, or name its "
            "variable with input_messages_key="
        )
        raise ConfigError(msg)
    if not isinstance(prompt, ChatPromptTemplate):
        return cast("BasePromptTemplate[Any]", prompt)
    if asked is None:
        humans = [one for one in prompt.messages if isinstance(one, HumanMessagePromptTemplate)]
        asked = [name for one in humans[-1:] for name in one.input_variables]
    own = next((name for name in before if name in names), None)
    filled = prompt if own is not None else _add_place(prompt, asked, before[0])
    return MemoryPrompt.from_prompt(filled, own or before[0])


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


def _list_places(prompt: ChatPromptTemplate) -> list[str]:
    """Return in place of which variables a prompt puts messages."""
    return [one.variable_name for one in prompt.messages if isinstance(one, MessagesPlaceholder)]


def _is_framing(part: Any) -> bool:
    return isinstance(part, SystemMessage | SystemMessagePromptTemplate)


# -- What gets the input ---------------------------------------------------------------------------


def _can_take_messages(chain: Runnable[Any, Any]) -> bool:
    """Return whether a chain takes messages: a language model, or what begins with one.

    The model may be bound, retried, configurable, have fallbacks or be chosen at the call:
    LangChain passes its declared input type through all of these.
    """
    try:
        declared = _find_first(chain).InputType
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return ChatPromptValueConcrete in get_args(declared)


def _find_first(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return what gets the input first, where that is declared by a part."""
    is_declared = isinstance(runnable, RunnableBindingBase) and runnable.custom_input_type
    kinds = (RunnableBindingBase, RunnableWithFallbacks, RunnableSequence)
    if is_declared or not isinstance(runnable, kinds):
        return runnable
    return _find_first(_list_parts(runnable)[0])


def _takes_text(first: Runnable[Any, Any]) -> bool:
    """Return whether the first step hands its whole input to retrievers, or to variables."""
    from langchain_core.retrievers import BaseRetriever

    if isinstance(first, BaseRetriever):
        return True
    return isinstance(first, RunnableParallel) and any(
        isinstance(getattr(one, "first", one), BaseRetriever | RunnablePassthrough)
        for one in first.steps__.values()
    )


# -- Prompts and models inside ---------------------------------------------------------------------


def _find_slots(
    runnable: Runnable[Any, Any], seen: frozenset[int], *, in_maps: bool = False
) -> frozenset[str] | None:
    """Return the variables that the prompts of a chain use; None if there is no prompt.

    Where one of several prompts will run, those that all of them use: what one leaves out must
    reach it another way.

    Args:
        runnable: The chain.
        seen: What was looked at.
        in_maps: Whether prompts count whose model's reply is one value of a map.
    """
    if isinstance(runnable, BasePromptTemplate):
        return frozenset((*runnable.input_variables, *runnable.optional_variables))
    # Prompts beside the chain's own are not what the model reads.
    is_beside = not in_maps and isinstance(runnable, RunnableParallel | RunnableAssign)
    if is_beside or id(runnable) in seen:
        return None
    seen |= {id(runnable)}
    inside = (_find_slots(part, seen, in_maps=in_maps) for part in _list_parts(runnable))
    found = [slots for slots in inside if slots is not None]
    if not found:
        return None
    is_sequence = isinstance(runnable, RunnableSequence)
    return reduce(frozenset.union if is_sequence else frozenset.intersection, found)


def _walk(runnable: Runnable[Any, Any], seen: frozenset[int]) -> Iterator[Runnable[Any, Any]]:
    """Yield a runnable and all it is made of; a function that names itself is met once."""
    yield runnable
    if id(runnable) not in seen:
        for part in _list_parts(runnable):
            yield from _walk(part, seen | {id(runnable)})


def _list_parts(runnable: Runnable[Any, Any]) -> list[Runnable[Any, Any]]:
    """Return what a runnable is made of, one level deep."""
    if isinstance(runnable, RunnableLambda):
        return list(runnable.deps)
    if isinstance(runnable, DynamicRunnable):
        return [runnable.default]
    parts: list[Runnable[Any, Any]] = []

    def note(part: Runnable[Any, Any]) -> Runnable[Any, Any]:
        parts.append(part)
        return part

    _map_parts(runnable, note)
    return parts


def _map_parts(
    runnable: Runnable[Any, Any], change: Callable[[Runnable[Any, Any]], Runnable[Any, Any]]
) -> Runnable[Any, Any]:
    """Return a runnable with its parts changed, one level deep; itself if none was."""
    is_changed = False

    def make(part: Any) -> Any:
        nonlocal is_changed
        made = change(part) if isinstance(part, Runnable) else part
        is_changed = is_changed or made is not part
        return made

    update: dict[str, Any] = {}
    match runnable:
        case RunnableBindingBase() | RunnableEachBase():
            update = {"bound": make(runnable.bound)}
        case RunnableWithFallbacks():
            update = {"runnable": make(runnable.runnable)}
            update["fallbacks"] = list(map(make, runnable.fallbacks))
        case RunnableBranch():
            update = {"branches": [(test, make(one)) for test, one in runnable.branches]}
            update["default"] = make(runnable.default)
        case RunnableConfigurableAlternatives():
            made = runnable.alternatives.items()
            update = {"alternatives": {name: make(one) for name, one in made}}
            update["default"] = make(runnable.default)
        case RunnableSequence():
            first, *middle, last = map(make, runnable.steps)
            update = {"first": first, "middle": middle, "last": last}
        case RunnableParallel():
            update = {"steps__": {name: make(one) for name, one in runnable.steps__.items()}}
        case RunnableAssign():
            update = {"mapper": make(runnable.mapper)}
    return cast("Any", runnable).model_copy(update=update) if is_changed else runnable


def _choose(runnable: Runnable[Any, Any], configurable: Mapping[str, Any]) -> Runnable[Any, Any]:
    """Return the chain that a call runs: with what it chooses in the place of what can be chosen.

    Fields that the call sets make another object of the same class, which for a model may open
    connections: the one they are set for tells as much.
    """
    if isinstance(runnable, RunnableBindingBase | DynamicRunnable) and runnable.config:
        configurable = {**runnable.config.get("configurable", {}), **configurable}
    if isinstance(runnable, DynamicRunnable):
        default = runnable.default
        has_alternatives = isinstance(runnable, RunnableConfigurableAlternatives)
        if not has_alternatives and isinstance(default, BaseLanguageModel):
            return default
        config = cast("RunnableConfig", {"configurable": dict(configurable)})
        return _choose(runnable.prepare(config)[0], configurable)
    return _map_parts(runnable, partial(_choose, configurable=configurable))
