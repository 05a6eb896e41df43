"""What a memory must know of a chain: what it takes, and whose rules its models' messages keep."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, cast, get_args

from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import BaseMessage
from langchain_core.prompt_values import ChatPromptValueConcrete
from langchain_core.runnables import (
    RouterRunnable,
    Runnable,
    RunnableAssign,
    RunnableBranch,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnablePassthrough,
    RunnableSequence,
    RunnableWithFallbacks,
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
from langchain_convmem.turns.recalled import CARRIED, Carried, MessageList, SaidText
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
        shows_recalled: Whether its prompt adds recalled lines to that text.
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
        slots = None
        if not _can_take_messages(inner, configurable):
            slots = _find_slots(inner, configurable, frozenset())
            if slots is None:  # perhaps what a model reads stands beside what else is returned
                slots = _find_slots(inner, configurable, frozenset(), in_maps=True)
            slots = slots or frozenset()
        parts = list(_walk(inner, configurable, frozenset()))
        is_fixed = not any(isinstance(part, DynamicRunnable) for part in parts)
        # Models that a function uses by name count too. Where they are of several providers, or
        # none can be seen, messages keep to what all providers accept.
        models = [part for part in parts if isinstance(part, BaseLanguageModel)]
        facts = ModelFacts.merge(map(ModelFacts.read, models))
        return cls(
            slots,
            provider or join_providers({*map(find_provider, models)}),
            is_fixed,
            facts,
            frozenset(name for part in parts for name in _list_places(part)),
            slots is not None and _takes_text(_find_first(inner, configurable)),
            any(map(_shows_recalled, parts)),
        )

    def shows_text(self, names: Iterable[str]) -> bool:
        """Return whether what the user says goes into prompts as text, under these names."""
        return bool(self.slots) and self.places.isdisjoint(names)

    def make_call(
        self,
        payload: list[BaseMessage] | dict[str, Any],
        config: RunnableConfig,
        said: str | None,
        names: Iterable[str] = (),
    ) -> tuple[Any, RunnableConfig]:
        """Return what the chain is called with, and the config of that call.

        Args:
            payload: What it could be called with; see `ModelContext.build_payload`.
            config: The config.
            said: What the user says, if that is text alone.
            names: Other names of `input` in the payload.
        """
        if isinstance(payload, list):
            return payload, config
        history, loop, names = payload["history"], payload["input"], ["input", *names]
        if self.takes_text or (said is not None and self.shows_text(names)):
            text = str(MessageList(loop[:1]))
            words = text if said is None or not self.shows_recalled else said
            payload.update(dict.fromkeys(names, SaidText(words, text)))
        carried = Carried(history, payload["input"], loop)
        config = {**config, "configurable": {**config.get("configurable", {}), CARRIED: carried}}
        return payload["input"] if self.takes_text else payload, config


HISTORY_NAMES = ("history", "chat_history")
"""Names that prompts give to what was said before."""


def find_history_name(slots: Collection[str] | None) -> str | None:
    """Return the one of these names that a prompt has a slot for; None if it has none."""
    for name in HISTORY_NAMES:
        if slots is not None and name in slots:
            return name
    return None


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
        asked = dict.fromkeys(filter(None, (input_messages_key, "input", "messages")))
        before = dict.fromkeys(filter(None, (history_messages_key, *HISTORY_NAMES, "messages")))
        if _holds_prompt(inner):
            return _fill_map(inner, list(before))
        return _fill_prompt(inner, list(asked), list(before))
    if isinstance(inner, type):
        msg = f"{inner.__name__} is a class; pass an object of it, {inner.__name__}(...)"
        raise ConfigError(msg)
    try:
        return coerce_to_runnable(inner)
    except TypeError:
        kind = type(inner).__name__
        msg = f"a value of type {kind} is not a chain; pass a chat model, a chain or a function"
        raise ConfigError(msg) from None


def _fill_prompt(
    runnable: Runnable[Any, Any], asked: list[str], before: list[str]
) -> Runnable[Any, Any]:
    """Return the chain with a place for what was said before in its first prompt."""
    from langchain_core.prompts import BasePromptTemplate

    fill = partial(_fill_prompt, asked=asked, before=before)
    if isinstance(runnable, BasePromptTemplate):
        from langchain_convmem.turns.memory_prompt import fill_prompt

        return fill_prompt(runnable, asked, before)
    update: dict[str, Any] = {}
    match runnable:
        case RunnableBindingBase():
            update = {"bound": fill(runnable.bound)}
        case RunnableWithFallbacks():
            others = list(map(fill, runnable.fallbacks))
            update = {"runnable": fill(runnable.runnable), "fallbacks": others}
        case RunnableBranch():
            branches = [(condition, fill(branch)) for condition, branch in runnable.branches]
            update = {"branches": branches, "default": fill(runnable.default)}
        case RunnableConfigurableAlternatives():
            made = runnable.alternatives.items()
            known = {name: fill(one) if isinstance(one, Runnable) else one for name, one in made}
            update = {"default": fill(runnable.default), "alternatives": known}
        case RunnableSequence():
            steps = _fill_steps(list(runnable.steps), asked, before)
            update = _name_steps(steps)
    is_same = [*update.values()] == [getattr(runnable, name) for name in update]
    return runnable if is_same else cast("Any", runnable).model_copy(update=update)


def _fill_steps(
    steps: list[Runnable[Any, Any]], asked: list[str], before: list[str]
) -> list[Runnable[Any, Any]]:
    """Return the steps of a sequence with a place for what was said before in the first prompt."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.prompts import ChatPromptTemplate, StringPromptTemplate

    from langchain_convmem.turns.memory_prompt import fill_later_prompt, make_chat_prompt

    # What is assigned beside the input leaves it as it is.
    at = next((n for n, one in enumerate(steps) if not isinstance(one, RunnableAssign)), 0)
    model = next((one for one in steps if isinstance(one, BaseLanguageModel)), None)
    if isinstance(steps[at], StringPromptTemplate) and isinstance(model, BaseChatModel):
        steps[at] = make_chat_prompt(steps[at], before)
    steps[at] = _fill_prompt(steps[at], asked, before)
    places = [n for n, one in enumerate(steps) if isinstance(one, ChatPromptTemplate)]
    later = next(iter(places), at)
    if later > at and not any(_reads(one, before) for one in steps[:later]):
        steps[later] = fill_later_prompt(steps[later], before)
    maps = [n for n, one in enumerate(steps) if not places and _holds_prompt(one)]
    if maps and not any(_reads(one, before) for one in steps[: maps[-1]]):
        steps[maps[-1]] = _fill_map(steps[maps[-1]], before)
    return steps


def _name_steps(steps: list[Runnable[Any, Any]]) -> dict[str, Any]:
    """Return steps by the names that a sequence has for them."""
    return {"first": steps[0], "middle": steps[1:-1], "last": steps[-1]}


def _holds_prompt(step: Runnable[Any, Any]) -> bool:
    """Return whether a step asks a model by a chat prompt, and returns the reply beside others."""
    from langchain_core.prompts import ChatPromptTemplate

    if not isinstance(step, RunnableParallel | RunnableAssign):
        return False
    parts = list(_walk(step, _NOTHING, frozenset()))
    kinds = (ChatPromptTemplate, BaseLanguageModel)
    return all(any(isinstance(one, kind) for one in parts) for kind in kinds)


def _fill_map(step: Runnable[Any, Any], before: list[str]) -> Runnable[Any, Any]:
    """Return a map with a place for what was said before in the prompts of its values."""
    from langchain_core.prompts import ChatPromptTemplate

    from langchain_convmem.turns.memory_prompt import fill_later_prompt

    fill = partial(_fill_map, before=before)
    match step:
        case ChatPromptTemplate():
            return fill_later_prompt(step, before)
        case RunnableAssign():
            return step.model_copy(update={"mapper": fill(step.mapper)})
        case RunnableParallel():
            values = {name: fill(one) for name, one in step.steps__.items()}
            return step.model_copy(update={"steps__": values})
        case RunnableSequence():
            steps = list(step.steps)
            at = next((n for n, one in enumerate(steps) if isinstance(one, ChatPromptTemplate)), 0)
            steps[at] = fill(steps[at])
            return step.model_copy(update=_name_steps(steps))
    return step


def _reads(step: Runnable[Any, Any], names: Iterable[str]) -> bool:
    """Return whether a step reads one of these names, as far as LangChain can see it."""
    try:
        fields = step.get_input_jsonschema().get("properties", {})
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return not set(fields).isdisjoint(names)


# -- What gets the input ---------------------------------------------------------------------------


def _can_take_messages(inner: Runnable[Any, Any], configurable: Mapping[str, Any]) -> bool:
    """Return whether `inner` takes messages: a language model, or a chain that begins with one.

    The model may be bound, retried, configurable, have fallbacks or be chosen at the call:
    LangChain passes its declared input type through all of these.
    """
    try:
        declared = _find_first(inner, configurable).InputType
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return ChatPromptValueConcrete in get_args(declared)


def _find_first(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any]
) -> Runnable[Any, Any]:
    """Return what gets the input first, where that is chosen at the call or declared by a part."""
    if isinstance(runnable, RunnableBindingBase):
        is_passed_on = runnable.custom_input_type is None
    else:
        is_passed_on = isinstance(
            runnable, DynamicRunnable | RunnableWithFallbacks | RunnableSequence
        )
    if not is_passed_on:
        return runnable
    configurable = _merge_bound(runnable, configurable)
    first, *_ = _list_parts(runnable, configurable)
    return _find_first(first, configurable)


def _takes_text(first: Runnable[Any, Any]) -> bool:
    """Return whether the first step hands its whole input to retrievers, or to variables."""
    from langchain_core.retrievers import BaseRetriever

    if isinstance(first, BaseRetriever):
        return True
    return isinstance(first, RunnableParallel) and any(
        isinstance(one, BaseRetriever | RunnablePassthrough)
        for one in map(_find_start, first.steps__.values())
    )


def _find_start(runnable: Runnable[Any, Any]) -> Runnable[Any, Any]:
    return runnable.first if isinstance(runnable, RunnableSequence) else runnable


# -- Prompts and models inside ---------------------------------------------------------------------


def _find_slots(
    runnable: Runnable[Any, Any],
    configurable: Mapping[str, Any],
    seen: frozenset[int],
    *,
    in_maps: bool = False,
) -> frozenset[str] | None:
    """Return the variables that the prompts of a chain use; None if there is no prompt.

    Where one of several prompts will run, those that all of them use: what one leaves out must
    reach it another way.

    Args:
        runnable: The chain.
        configurable: What the call carries under `configurable`.
        seen: What was looked at.
        in_maps: Whether prompts count whose model's reply is one value of a map.
    """
    from langchain_core.prompts import BasePromptTemplate

    if isinstance(runnable, BasePromptTemplate):
        return frozenset((*runnable.input_variables, *runnable.optional_variables))
    if id(runnable) in seen:
        return None
    if not in_maps and isinstance(runnable, RunnableParallel | RunnableAssign):
        return None  # prompts beside the chain's own are not what the model reads
    seen |= {id(runnable)}
    configurable = _merge_bound(runnable, configurable)
    parts = _list_parts(runnable, configurable)
    inside = (_find_slots(part, configurable, seen, in_maps=in_maps) for part in parts)
    found = [slots for slots in inside if slots is not None]
    if not found:
        return None
    is_sequence = isinstance(runnable, RunnableSequence)
    return reduce(frozenset.union if is_sequence else frozenset.intersection, found)


def _shows_recalled(part: Runnable[Any, Any]) -> bool:
    from langchain_core.prompts import ChatPromptTemplate

    if not isinstance(part, ChatPromptTemplate):
        return False
    from langchain_convmem.turns.memory_prompt import MemoryPrompt

    return isinstance(part, MemoryPrompt)


def _list_places(part: Runnable[Any, Any]) -> list[str]:
    from langchain_core.prompts import ChatPromptTemplate

    from langchain_convmem.turns.memory_prompt import list_places

    return list_places(part) if isinstance(part, ChatPromptTemplate) else []


def _walk(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any], seen: frozenset[int]
) -> Iterator[Runnable[Any, Any]]:
    """Yield a runnable and all it is made of; a function that names itself is met once."""
    yield runnable
    if id(runnable) in seen:
        return
    configurable = _merge_bound(runnable, configurable)
    for part in _list_parts(runnable, configurable):
        yield from _walk(part, configurable, seen | {id(runnable)})


def _merge_bound(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return what parts of the runnable are called with: a binding's values, then the call's."""
    if not isinstance(runnable, RunnableBindingBase | DynamicRunnable) or not runnable.config:
        return configurable
    return {**runnable.config.get("configurable", {}), **configurable}


def _list_parts(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any]
) -> Iterable[Runnable[Any, Any]]:
    """Return what a runnable is made of, one level deep."""
    parts: Iterable[Runnable[Any, Any]] = ()
    match runnable:
        case RunnableBindingBase() | RunnableEachBase():
            parts = (runnable.bound,)
        case DynamicRunnable():
            parts = (_choose(runnable, configurable),)
        case RunnableLambda():
            parts = runnable.deps
        case RunnableBranch():
            parts = (*(branch for _, branch in runnable.branches), runnable.default)
        case RunnableSequence():
            parts = runnable.steps
        case RunnableWithFallbacks():
            parts = (runnable.runnable, *runnable.fallbacks)
        case RunnableParallel():
            parts = runnable.steps__.values()
        case RunnableAssign():
            parts = (runnable.mapper,)
        case RouterRunnable():
            parts = runnable.runnables.values()
    return parts


def _choose(
    runnable: DynamicRunnable[Any, Any], configurable: Mapping[str, Any]
) -> Runnable[Any, Any]:
    """Return what a call runs in its place.

    Fields that the call sets make another object of the same class, which for a model may open
    connections: the one they are set for tells as much.
    """
    from langchain_core.runnables.configurable import RunnableConfigurableFields

    if isinstance(runnable, RunnableConfigurableFields) and isinstance(
        runnable.default, BaseLanguageModel
    ):
        return runnable.default
    config = cast("RunnableConfig", {"configurable": dict(configurable)})
    return runnable.prepare(config)[0]
