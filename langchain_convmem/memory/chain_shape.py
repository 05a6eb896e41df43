"""What a wrapped chain takes: messages or a dict, and which variables its prompts use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from langchain_core.language_models import BaseLanguageModel
from langchain_core.prompt_values import ChatPromptValueConcrete
from langchain_core.runnables import (
    Runnable,
    RunnableSequence,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.configurable import DynamicRunnable

from langchain_convmem.views.context import Profile
from langchain_convmem.views.profiles import profile_for

__all__ = ["prompt_slots", "provider_profile", "takes_messages"]


def takes_messages(inner: Runnable[Any, Any]) -> bool:
    """Return whether `inner` takes messages: a language model, or a chain that begins with one.

    The model may be bound, retried, configurable, have fallbacks or be chosen at the call:
    LangChain passes its declared input type through all of these.
    """
    try:
        declared = inner.InputType
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return ChatPromptValueConcrete in get_args(declared)


def _within(runnable: Runnable[Any, Any]) -> Runnable[Any, Any] | None:
    if isinstance(runnable, RunnableBindingBase):
        return runnable.bound
    if isinstance(runnable, RunnableWithFallbacks):
        return runnable.runnable
    return runnable.default if isinstance(runnable, DynamicRunnable) else None


def prompt_slots(inner: Runnable[Any, Any]) -> frozenset[str]:
    """Return the variables that the prompts of a chain use."""
    from langchain_core.prompts import BasePromptTemplate

    return frozenset(
        name
        for runnable in _parts(inner)
        if isinstance(runnable, BasePromptTemplate)
        for name in (*runnable.input_variables, *runnable.optional_variables)
    )


def provider_profile(inner: Runnable[Any, Any]) -> Profile:
    """Return whose rules the messages must keep: those of the chain's chat models.

    Where the models are of several providers, or none can be seen, what all providers accept.
    """
    found = {profile_for(part) for part in _parts(inner) if isinstance(part, BaseLanguageModel)}
    return found.pop() if len(found) == 1 else "strict"


def _parts(runnable: Runnable[Any, Any]) -> Iterator[Runnable[Any, Any]]:
    yield runnable
    inside = runnable.steps if isinstance(runnable, RunnableSequence) else []
    within = _within(runnable)
    others = runnable.fallbacks if isinstance(runnable, RunnableWithFallbacks) else ()
    for part in [*inside, *([within] if within is not None else []), *others]:
        yield from _parts(part)
