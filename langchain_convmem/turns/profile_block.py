"""What a turn's model gets of a user's profile: one block, frozen per thread.

The block stands in the system messages, where a provider's cache begins. So it stays as it is, byte
for byte, until the thread is compacted, or nobody spoke in it for an hour and the cache is cold
anyway: what the user said since then stands in the thread. What is retracted or forgotten leaves at
once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import LogError
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.records import Entry, StateDocument, ThreadKey
from langchain_convmem.turns.recalled import Latest, join_system
from langchain_convmem.views.live import find_frontier, find_live_entries
from langchain_convmem.views.messages import TextCounter

if TYPE_CHECKING:
    from langchain_convmem.profile import ProfileItem, UserProfile
    from langchain_convmem.turns.memory import TurnMemory

PROFILE_SOURCE = "convmem_profile"
"""Marks a system message that holds a profile: `additional_kwargs["source"]`."""

PAUSE_MS = 3_600_000
"""After so long a pause a block is made anew: no provider keeps a prefix longer."""

_logger = logging.getLogger(__name__)

_DOCUMENT = "cache:profile"


@dataclass(frozen=True, slots=True)
class FrozenBlock:
    """Which items a thread's block shows, and for how long.

    Attributes:
        ids: The items, in order.
        summary: The summaries that the thread showed.
        generation: That of the user's changes.
        tokens: The budget it was made for.
        at_ms: When it was made, milliseconds since the epoch.
    """

    ids: tuple[str, ...]
    summary: str
    generation: int
    tokens: int
    at_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON; no text of the user's is in it."""
        return {**asdict(self), "ids": list(self.ids)}

    @classmethod
    def read(cls, value: Any) -> FrozenBlock | None:
        """Return what `to_json` wrote; None for anything else."""
        try:
            ids, summary = tuple(map(str, value["ids"])), str(value["summary"])
            numbers = [int(value[name]) for name in ("generation", "tokens", "at_ms")]
        except (TypeError, KeyError, ValueError):
            return None
        return cls(ids, summary, *numbers)


@dataclass(frozen=True, slots=True)
class ProfileBlock:
    """What a model reads of a profile.

    Attributes:
        text: Fenced; empty for nothing.
        items: The items in it.
    """

    text: str = ""
    items: tuple[ProfileItem, ...] = ()

    def add_to(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return messages with the block at the end of the first system message, or first."""
        return join_system(messages, self.text, source=PROFILE_SOURCE)

    def list_whole(self) -> set[tuple[ThreadKey, int]]:
        """Return the entries of which the block quotes nearly all: thread and position."""
        shares: dict[tuple[ThreadKey, int], dict[str, float]] = {}
        for item in self.items:
            # A clause that two items quote counts once.
            place = shares.setdefault((item.key, item.position), {})
            place[item.id.rpartition(".")[0]] = item.share
        return {place for place, parts in shares.items() if sum(parts.values()) >= _WHOLE}


_WHOLE = 0.8


_FROZEN: Latest[FrozenBlock] = Latest(1_024)
"""One per process, by log and thread."""


def read_block(
    memory: TurnMemory,
    key: ThreadKey,
    entries: Sequence[Entry],
    *,
    max_tokens: int,
    count: TextCounter,
    stores: bool,
) -> ProfileBlock:
    """Return the block of a thread: the frozen one, or a new one if it is time.

    Args:
        memory: Whose profile.
        key: The thread.
        entries: What was read of it, before the turn.
        max_tokens: How long the block may be, fence included; 0 for none.
        count: Counts the tokens of a text.
        stores: Whether other processes may know of the block.
    """
    if not max_tokens:
        return ProfileBlock()
    from langchain_convmem.profile.profile import select_items

    followed = memory.read_profile(key.owner)
    profile, now_ms = followed.profile, get_now_ms()
    live = find_live_entries(entries)
    summary = ",".join(one.id for one in find_frontier(live))
    spoke_ms = max((get_ulid_ms(one.id) for one in live), default=None)

    def is_good(block: FrozenBlock | None) -> bool:
        if block is None or (block.summary, block.tokens) != (summary, max_tokens):
            return False
        if block.generation != followed.generation:
            return False
        paused = spoke_ms is not None and now_ms - spoke_ms >= PAUSE_MS
        return not paused or block.at_ms >= (spoke_ms or 0) + PAUSE_MS

    place = (memory.log_place, key)
    frozen = _FROZEN.get(place)
    if not is_good(frozen):
        stored = _read_document(memory, key)
        frozen = None if stored is None else FrozenBlock.read(stored.value)
        if not is_good(frozen):
            seen = {one.id for one in live if one.role == "user"}
            hidden = [item.id for item in profile.items if item.entry_id in seen]
            items = select_items(profile, max_tokens, count, hidden=hidden)
            ids = tuple(item.id for item in items)
            frozen = FrozenBlock(ids, summary, followed.generation, max_tokens, now_ms)
            if stores and ids:
                expected = None if stored is None else stored.version
                _write_document(memory, key, frozen.to_json(), expected)
    if frozen is None:
        return ProfileBlock()
    _FROZEN.keep(place, frozen)
    return _show_block(profile, frozen)


def _show_block(profile: UserProfile, frozen: FrozenBlock) -> ProfileBlock:
    """Return a frozen block without what was retracted or forgotten since."""
    from langchain_convmem.profile.profile import format_items

    by_id = {item.id: item for item in profile.items}
    items = tuple(
        by_id[name] for name in frozen.ids if name in by_id and by_id[name].state != "retracted"
    )
    return ProfileBlock(format_items(items), items)


def _read_document(memory: TurnMemory, key: ThreadKey) -> StateDocument | None:
    try:
        return memory.log.get_state(key, _DOCUMENT)
    except LogError:
        return None  # a cache: the block is made anew


def _write_document(memory: TurnMemory, key: ThreadKey, value: Any, expected: int | None) -> None:
    """Write the block down; a log that refuses it costs time, and nothing else."""
    try:
        memory.log.set_state(key, _DOCUMENT, value, expected=expected)
    except LogError as error:
        _logger.info("could not write %s of %r: %s", _DOCUMENT, key.thread_id, error)
