"""`PrefixSummarizer`: the conversation's own model summarises, on top of what it read before.

Providers keep what they computed of a request for a while, and charge little for one that begins
alike. So the request for a summary is what the model was sent in the conversation, up to the end of
what is to be summarised, and one message more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.prompts.chat import MessagesPlaceholder
from langchain_core.prompts.message import BaseMessagePromptTemplate
from langchain_core.runnables import Runnable, RunnableBinding, RunnableSequence

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Entry
from langchain_convmem.summarizing.summarizers import (
    ModelSummarizer,
    SummaryRequest,
    build_messages,
)
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import Provider, find_provider, resolve_provider
from langchain_convmem.views.summaries import SummaryWindow

_OPENING = (
    "The conversation pauses here. The application writes this, not the user: do not answer what "
    "was said, and call no tool."
)
_ABOVE = (
    "It is not repeated here: it is all that stands above, from the first message on. A summary at "
    "its beginning tells of what was said before; do not tell that again."
)


class PrefixSummarizer(ModelSummarizer):
    """Asks the conversation's model on top of the messages that it has read already.

    Where there are none to build on, it asks as a `ModelSummarizer` does: for the parts of a
    stretch that is too long for one request, and for texts that are to be shortened. Thread-safe as
    the model is.
    """

    def __init__(
        self,
        model: Runnable[Any, Any],
        *,
        before: Iterable[BaseMessage] = (),
        provider: Provider | None = None,
        name: str | None = None,
    ) -> None:
        """Take the model.

        Args:
            model: The chat model as the chain calls it, with the tools that are bound to it: they
                are part of what a provider keeps.
            before: What the chain's prompt puts before the messages of a thread.
            provider: Whose rules the messages keep; None follows the model.
            name: What stands with its summaries; by default the name of the model.

        Raises:
            ConfigError: If the model is not a Runnable, or there is no such provider.
        """
        if not isinstance(model, Runnable):
            raise ConfigError(f"a model must be a Runnable, got {describe_value(model)}")
        super().__init__(model, name=name)
        self.before = tuple(before)
        self.provider: Provider = find_provider(model) if provider is None else provider
        resolve_provider(self.provider)

    @classmethod
    def from_chain(cls, chain: Runnable[Any, Any]) -> Self | None:
        """Return who summarises on top of a chain's requests; None where that cannot be seen.

        The chain is a chat model, or a prompt and a model, perhaps with steps behind; what its
        prompt puts before the history must need no variables.
        """
        steps = chain.steps if isinstance(chain, RunnableSequence) else [chain]
        if len(steps) > 1 and isinstance(steps[0], ChatPromptTemplate) and _is_model(steps[1]):
            before = _find_leading_messages(steps[0])
            return None if before is None else cls(steps[1], before=before)
        return cls(steps[0]) if _is_model(steps[0]) else None

    def __repr__(self) -> str:
        return f"PrefixSummarizer({self.name!r})"

    def build_messages(self, request: SummaryRequest) -> list[BaseMessage]:
        """Return the conversation and, behind it, what is asked."""
        if not request.messages:
            return build_messages(request)
        asked = build_messages(replace(request, transcript=_ABOVE, previous=""))
        text = "\n\n".join([_OPENING, *(str(message.text) for message in asked)])
        return [*self.before, *request.messages, HumanMessage(text)]


def _is_model(step: Runnable[Any, Any]) -> bool:
    while isinstance(step, RunnableBinding):
        step = step.bound
    return isinstance(step, BaseChatModel)


def _find_leading_messages(prompt: ChatPromptTemplate) -> list[BaseMessage] | None:
    """Return what a prompt puts before the history; None where that depends on a call."""
    found: list[BaseMessage] = []
    for part in prompt.messages:
        if isinstance(part, MessagesPlaceholder):
            return found if part.variable_name == "history" else None
        if isinstance(part, BaseMessage):
            found.append(part)
        elif isinstance(part, BaseMessagePromptTemplate) and not part.input_variables:
            found += part.format_messages()
        else:
            return None
    return None


def show_window(
    entries: Sequence[Entry], window: SummaryWindow, provider: Provider
) -> tuple[BaseMessage, ...]:
    """Return what a model reads of a thread up to the end of a window.

    Args:
        entries: The entries that the thread's next view needs, by ascending position.
        window: What is to be summarised.
        provider: Whose rules the messages keep.

    Returns:
        The messages; empty where the view does not begin with the window.
    """
    wanted = set(window.entry_ids)
    end = max((entry.position for entry in entries if entry.id in wanted), default=0)
    hoists = resolve_provider(provider).system == "head"
    kept = [one for one in entries if one.position <= end or _is_framing_entry(one, hoists=hoists)]
    view = build_context(kept, provider=provider)
    positions = {entry.position for entry in entries if entry.id in wanted}
    others = [one for one in kept if one.role in _SPOKEN and one.position in view.positions]
    begins = positions <= view.positions and all(one.id in wanted for one in others)
    is_read = len(positions) == len(wanted)  # what a summary covers already is not
    return tuple(view.messages) if begins and is_read else ()


_SPOKEN = ("user", "assistant", "tool")


def _is_framing_entry(entry: Entry, *, hoists: bool) -> bool:
    """Return whether an entry behind the window belongs to what stands before or in it."""
    return entry.role in ("summary", "control") or (hoists and entry.role == "system")
