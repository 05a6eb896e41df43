"""What providers compact themselves: items that stand for all that was said before them.

An item goes back, as it came, to the provider that made it, and what it stands for is then not
sent again. Everybody else gets what it stands for: the messages, and the item's own words where it
has any. Once something of what it stands for is undone, replaced or taken out, it holds no longer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import clean_text, make_plain
from langchain_convmem.views.live import find_changes
from langchain_convmem.views.messages import get_block_type, unwrap_block
from langchain_convmem.views.providers import ProviderProfile, find_origin
from langchain_convmem.views.tool_calls import find_answered_calls

_KIND = "compaction"
_OF_STREAMS = frozenset({"index"})
"""Where a piece of a stream belongs; no provider takes it back."""


def is_compaction(block: object) -> bool:
    """Return whether a content block is a provider's item of a compaction."""
    return get_block_type(block) == _KIND


def find_compactions(message: BaseMessage | None) -> list[Mapping[Any, Any]]:
    """Return the items of a message, in order."""
    content = None if message is None else message.content
    if not isinstance(content, list):
        return []
    return [inner for block in content if is_compaction(inner := unwrap_block(block))]


def find_sendable_compaction(
    block: Mapping[Any, Any], message: BaseMessage, provider: ProviderProfile
) -> dict[str, Any] | None:
    """Return an item as its provider takes it back; None where it may not be sent.

    One without content stands for nothing: the provider failed to make it.
    """
    # One that does not say who made it: one of them enciphers all of it.
    is_cipher = "content" not in block and "encrypted_content" in block
    origin = find_origin(message, "openai" if is_cipher else "anthropic")
    said = block.get("content" if origin == "anthropic" else "encrypted_content")
    if origin not in provider.takes_back or not isinstance(said, str) or not said:
        return None
    return {
        str(key): make_plain(value)
        for key, value in block.items()
        if key not in _OF_STREAMS and (value is not None or key == "content")
    }


def read_compaction(message: BaseMessage | None) -> str:
    """Return what a message's last item says in words; empty where it says nothing readable."""
    for block in reversed(find_compactions(message)):
        said = block.get("content")
        if isinstance(said, str) and said.strip():
            return clean_text(said)
    return ""


def keep_compactions(message: BaseMessage) -> BaseMessage | None:
    """Return a message with its items and nothing else; None if it has none."""
    kept = [dict(block) for block in find_compactions(message)]
    calls = [name for name in ("tool_calls", "invalid_tool_calls") if hasattr(message, name)]
    bare: dict[str, Any] = {"content": kept, **{name: [] for name in calls}}
    return message.model_copy(update=bare) if kept else None


def drop_compactions(message: BaseMessage) -> BaseMessage:
    """Return a message without its items."""
    if not find_compactions(message):
        return message
    kept = [block for block in message.content if not is_compaction(unwrap_block(block))]
    return message.model_copy(update={"content": kept})


# -- What a view makes of them --------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class CompactedPart:
    """What a provider compacted of a thread, for one view of it.

    Attributes:
        shown: What the view shows: the item that goes back, what it cannot stand for, and the
            system messages before it; all of it where none goes back.
        sent: The entry whose items go back.
        told: The latest entry after it whose item tells in words what it stands for.
    """

    shown: Sequence[Entry]
    sent: Entry | None = None
    told: Entry | None = None

    def holds_all_of(self, entry: Entry) -> bool:
        """Return whether a summary covers nothing but what the item that goes back stands for."""
        sent, cover = self.sent, entry.cover
        if sent is None or cover is None:
            return False
        return all(last < sent.position for _first, last in cover.ranges)


def find_compacted_part(
    entries: Sequence[Entry], shown: Sequence[Entry], provider: ProviderProfile
) -> CompactedPart:
    """Return what of a thread stands behind a provider's item.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        shown: Those that count and no summary covers, in order.
        provider: Who reads the view.
    """
    holding = [one for one in shown if one.role == "assistant" and find_compactions(one.message)]
    if not holding:
        return CompactedPart(shown)
    changes = find_changes(entries)
    holding = [
        one
        for one in holding  # whose item does not stand for anything that was changed since
        if not any(begun < one.position < done for begun, done in changes)
    ]
    sent = next((one for one in reversed(holding) if _may_send(one, shown, provider)), None)
    if sent is not None:
        behind = find_later(shown, sent)
        known = {sent.id, *(one.id for one in behind)}
        head = [one for one in shown if one.role == "system" and one.id not in known]
        shown = [*head, sent, *behind]
        holding = [one for one in holding if one.id in known and one is not sent]
    told = next((one for one in reversed(holding) if read_compaction(one.message)), None)
    return CompactedPart(shown, sent, told)


def find_later(shown: Sequence[Entry], item: Entry) -> list[Entry]:
    """Return what an entry's item does not stand for: what follows it, and what was said later.

    A turn that began before it may end after it, and then stands before it in a conversation.

    Args:
        shown: Entries in the order of the conversation, the item's own among them.
        item: The entry that holds the item.
    """
    at = shown.index(item)
    return [
        one
        for number, one in enumerate(shown)
        if number > at or (number < at and one.position > item.position)
    ]


def _may_send(entry: Entry, shown: Sequence[Entry], provider: ProviderProfile) -> bool:
    """Return whether the view may begin with the entry: what it leaves out is in the item."""
    message = entry.message
    items = find_compactions(message)
    if message is None or not any(find_sendable_compaction(b, message, provider) for b in items):
        return False
    gone = {one.id for one in shown} - {entry.id, *(one.id for one in find_later(shown, entry))}
    return not any(
        call in gone and result not in gone for call, result in find_answered_calls(shown)
    )
