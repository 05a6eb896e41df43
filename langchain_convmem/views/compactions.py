"""What providers compact themselves: items that stand for all that was said before them.

An item goes back, as it came, to the provider that made it, which then reads nothing before it.
Everybody else gets the messages alone, and so does it once one of them is undone or replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import make_plain
from langchain_convmem.views.live import find_changes
from langchain_convmem.views.messages import get_block_type, unwrap_block
from langchain_convmem.views.providers import ProviderProfile, find_origin

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


def drop_compactions(message: BaseMessage) -> BaseMessage:
    """Return a message without its items."""
    if not find_compactions(message):
        return message
    kept = [block for block in message.content if not is_compaction(unwrap_block(block))]
    return message.model_copy(update={"content": kept})


def find_outdated(entries: Sequence[Entry], shown: Iterable[Entry]) -> frozenset[str]:
    """Return the ids of entries whose items stand for something that was changed since.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        shown: Those that a view may show.
    """
    holding = [one for one in shown if one.role == "assistant" and find_compactions(one.message)]
    changes = find_changes(entries) if holding else []
    return frozenset(
        one.id for one in holding if any(begun < one.position < done for begun, done in changes)
    )
