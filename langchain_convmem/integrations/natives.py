"""Items of frameworks that are no LangChain: kept as they came, beside a message for all others.

A framework hands over items of its own: of reasoning, of its provider's compactions, of tools that
its provider ran. Each is stored with the entry that it makes, and given back to the framework that
it came from, and to no other: one provider's reasoning means nothing to the next.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from langchain_convmem.effects import Steps, perform
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.records import Context, Entry, ThreadKey
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE
from langchain_convmem.views.edits import draft_retraction
from langchain_convmem.views.live import find_frontier, find_live_entries

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

_NATIVE = "native"
_SAID = ("user", "assistant", "tool", "system")


class NativeThread:
    """A thread as a framework with items of its own reads and writes it. Thread-safe."""

    def __init__(self, memory: ConversationMemory, key: ThreadKey, host: str) -> None:
        """Look at a thread.

        Args:
            memory: The memory; the caller closes it.
            key: The thread, which need not exist yet.
            host: The framework, by which its items are told from those of others.
        """
        self._memory = memory
        self._key = key
        self._host = host

    def attach(self, message: BaseMessage, item: Any) -> BaseMessage:
        """Return a message that keeps the item it was made of, which is not None.

        Where the memory's write hook changes the message, the item is left out: it says what the
        hook took away.

        Raises:
            InvalidMessageError: If the item is not JSON.
        """
        try:
            plain = json.loads(json.dumps(item, allow_nan=False))
        except (TypeError, ValueError) as error:
            msg = f"an item of {self._host} must be JSON: text, numbers, lists and maps of these"
            raise InvalidMessageError(msg) from error
        hooked = self._memory.turn_memory.drafting.filter_message(message)
        if hooked is None or hooked.content != message.content:
            return message
        marks = {**message.additional_kwargs, _NATIVE: {"host": self._host, "item": plain}}
        return message.model_copy(update={"additional_kwargs": marks})

    def find_item(self, entry: Entry) -> Any:
        """Return the item that an entry was made of; None for one of another host."""
        message = entry.message
        native = None if message is None else message.additional_kwargs.get(_NATIVE)
        if isinstance(native, Mapping) and native.get("host") == self._host:
            return native.get("item")
        return None

    def append_steps(self, messages: Sequence[BaseMessage]) -> Steps[list[Entry]]:
        """Store messages, all or none."""
        memory, key = self._memory, self._key
        return perform(
            memory.add_messages,
            memory.aadd_messages,
            list(messages),
            thread_id=key.thread_id,
            user_id=key.user_id,
        )

    def read_steps(self) -> Steps[tuple[list[BaseMessage], list[Entry]]]:
        """Return what tells the summaries of the thread, and the entries that none stands for."""
        log = self._memory.log
        entries: list[Entry] = yield from perform(log.entries, log.aentries, self._key)
        live = find_live_entries(entries)
        frontier = find_frontier(live)
        ranges = [one for summary in frontier if summary.cover for one in summary.cover.ranges]
        shown = [
            entry
            for entry in live
            if entry.role in _SAID
            and not any(first <= entry.position <= last for first, last in ranges)
        ]
        told = (yield from self._read_summary_steps()) if frontier else []
        return told, shown

    def _read_summary_steps(self) -> Steps[list[BaseMessage]]:
        history = self._memory.history(self._key.thread_id, user_id=self._key.user_id)
        view: Context = yield from perform(history.context, history.acontext)
        sources = (SUMMARY_SOURCE, NOTED_SOURCE)
        return [one for one in view.messages if one.additional_kwargs.get("source") in sources]

    def retract_steps(self, entry: Entry) -> Steps[None]:
        """Take an entry out of every view; the log keeps it."""
        log = self._memory.log
        drafts = draft_retraction([entry.id], "undo")
        yield from perform(log.append, log.aappend, self._key, drafts)


def has_item(message: BaseMessage) -> bool:
    """Return whether a message keeps an item that it was made of."""
    return _NATIVE in message.additional_kwargs


def find_answered_calls(entries: Sequence[Entry]) -> frozenset[str]:
    """Return the ids of the tool calls that stand among the entries with their results."""
    messages = [entry.message for entry in entries]
    calls = {
        call["id"] for one in messages if isinstance(one, AIMessage) for call in one.tool_calls
    }
    results = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
    return frozenset(name for name in calls & results if name)
