"""`SummarizingMemory`: a step that compacts the messages that pass through it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, RemoveMessage, SystemMessage, convert_to_messages
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import Runnable, RunnableConfig, RunnableLambda, RunnableSerializable
from pydantic import ConfigDict, Field, InstanceOf, field_validator

from langchain_convmem.background import to_async
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, SummaryError
from langchain_convmem.ids import make_ulid
from langchain_convmem.offline.extractive import ExtractiveSummarizer
from langchain_convmem.records import Cover, Entry, ThreadKey
from langchain_convmem.summarizing.compactor import list_pieces
from langchain_convmem.summarizing.planning import SummarySettings, make_plan
from langchain_convmem.summarizing.summarizers import as_summarizer, check_summarizer, write
from langchain_convmem.turns.view import make_entry
from langchain_convmem.views.messages import SUMMARY_SOURCE, is_of_summary, make_summary_messages
from langchain_convmem.views.summaries import format_summary

if TYPE_CHECKING:
    from langchain_convmem.summarizing.summarizers import Summarizer

_logger = logging.getLogger("langchain_convmem")

_PIECES = "summary"
"""Key of a summary message's `additional_kwargs`: its text without the fence."""

_REMOVE_ALL = "__remove_all__"
_KEY = ThreadKey(None, "messages")


class SummarizingMemory(RunnableSerializable[Any, Any]):
    """Compacts messages on their way to a model: a summary replaces the oldest ones.

    Takes a list of messages, a prompt value, or a dict with messages under a key, and returns the
    same type. Below `trigger`, nothing changes. A question that waits for an answer, an open tool
    loop and system messages stay unchanged. The summary is a marked user message with a short
    reply. If both are in the input of the next call, the next summary continues it.

    It keeps no state between calls: pass its output to the next call, as `as_node` does. If you
    pass the whole conversation each time, it is summarised each time. If the summarizer fails, the
    messages pass unchanged, and the next call tries again.

    Nothing is stored. To recall summarised messages word for word, use a `ConversationMemory`,
    whose `wrap`, graph nodes and agent middleware summarise automatically.
    Thread-safe.

    Attributes:
        summarizer: A chat model, another Runnable or function of messages, or a `Summarizer`; by
            default one that quotes the most informative sentences, without a model.
        settings: When to compact, and how far.
        messages_key: The key of the messages in a state.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    summarizer: Any = Field(default_factory=ExtractiveSummarizer, validate_default=True)
    settings: InstanceOf[SummarySettings] = Field(default_factory=SummarySettings)
    messages_key: str = "messages"

    @field_validator("summarizer", mode="after")
    @classmethod
    def _coerce_summarizer(cls, value: Any) -> Summarizer:
        return as_summarizer(value)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return the input, compacted if due.

        Raises:
            ConfigError: If there are no messages, or the summarizer is a coroutine function,
                which only `ainvoke` can await.
        """
        return self._call_with_config(self._compact, input, config, **kwargs)

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Return the input, compacted if due."""
        return await self._acall_with_config(self._acompact, input, config, **kwargs)

    def as_node(self) -> Runnable[Any, dict[str, Any]]:
        """Return a LangGraph node that replaces a state's messages after a compaction.

        The state's messages need the reducer `add_messages`. Summarised messages leave the state,
        so the graph should store them elsewhere, for example with `record_node`.
        """
        return RunnableLambda(self._replace, self._areplace, name="summarize")

    # -- shapes ----------------------------------------------------------------------------------

    def _compact(self, value: Any) -> Any:
        messages = self._compact_messages(self._read_messages(value))
        if isinstance(value, PromptValue):
            return ChatPromptValue(messages=messages)
        return {**value, self.messages_key: messages} if isinstance(value, dict) else messages

    _acompact = to_async(_compact)

    def _replace(self, state: Any) -> dict[str, Any]:
        before = self._read_messages(state)
        after = self._compact_messages(before)
        return {} if after == before else {self.messages_key: [RemoveMessage(_REMOVE_ALL), *after]}

    _areplace = to_async(_replace)

    def _read_messages(self, value: Any) -> list[BaseMessage]:
        found = value.get(self.messages_key) if isinstance(value, dict) else value
        if not isinstance(found, list | tuple | PromptValue):
            raise ConfigError(
                "SummarizingMemory takes a list of messages, a prompt value, or a dict with a list "
                f"of messages under {self.messages_key!r}; got {describe_value(value)}"
            )
        return convert_to_messages(found)

    # -- compacting ------------------------------------------------------------------------------

    def _compact_messages(self, messages: list[BaseMessage]) -> list[BaseMessage]:
        check_summarizer(self.summarizer, self.settings.judge)
        plan = make_plan(_KEY, _build_entries(messages), self.settings)
        if plan is None:
            return messages
        try:
            written = write(self.summarizer, plan.window, self.settings)
        except SummaryError as error:
            _logger.warning("messages pass without a new summary: %s", error)
            return messages
        end = plan.window.cover.ranges[-1][1]
        kept = [one for place, one in enumerate(messages) if place > end or _is_instruction(one)]
        system = list(takewhile(_is_instruction, kept))
        pieces, _ = list_pieces(written, self.settings)
        name = f"summary-{make_ulid()}"
        told, noted = make_summary_messages(format_summary(pieces), (name, f"{name}-noted"))
        told.additional_kwargs[_PIECES] = list(pieces)
        return [*system, told, noted, *kept[len(system) :]]


def _is_instruction(message: BaseMessage) -> bool:
    return isinstance(message, SystemMessage) and not is_of_summary(message)


def _build_entries(messages: Sequence[BaseMessage]) -> list[Entry]:
    """Return what a log would hold of a conversation, each message at its place in the list."""
    entries: list[Entry] = []
    for place, message in enumerate(messages):
        kwargs, entry = message.additional_kwargs, make_entry(message, _KEY, place, str(place))
        if kwargs.get("source") == SUMMARY_SOURCE or kwargs.get("lc_source") == "summarization":
            kept = kwargs.get(_PIECES)
            pieces = tuple(kept) if isinstance(kept, list) else (str(message.text),)
            entries.append(replace(entry, role="summary", contents=pieces, cover=Cover(())))
        elif entry.role != "system" and not is_of_summary(message):
            entries.append(entry)
    return entries
