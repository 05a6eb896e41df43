"""What a turn's model gets of a user's profile: one block, frozen per thread.

The block stands in the system messages, where a provider's cache begins. So it stays as it is, byte
for byte, until the thread is compacted, or nobody spoke in it for an hour and the cache is cold
anyway, or what the user said here is too far back to be read: what was said since then stands in
the thread. What is retracted or forgotten leaves at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from langchain_convmem.errors import LogError
from langchain_convmem.ids import get_now_ms, get_ulid_ms
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.views.live import find_frontier, find_live_entries
from langchain_convmem.views.messages import TextCounter

if TYPE_CHECKING:
    from langchain_convmem.profile import ProfileItem
    from langchain_convmem.turns.memory import TurnMemory

PROFILE_SOURCE = "convmem_profile"
"""Marks a system message that holds a profile: `additional_kwargs["source"]`."""

PAUSE_MS = 3_600_000
"""After so long a pause a block is made anew: no provider keeps a prefix longer."""

_DOCUMENT = "cache:profile"


@dataclass(frozen=True, slots=True)
class ProfileBlock:
    """What a model reads of a profile.

    Attributes:
        text: Fenced; empty for nothing.
        items: The items in it.
        waiting: Where in the thread, before the turn, there is more that it would say if the model
            did not see it.
    """

    text: str = ""
    items: tuple[ProfileItem, ...] = ()
    waiting: frozenset[int] = frozenset()

    def list_whole(self) -> set[tuple[ThreadKey, int]]:
        """Return the entries of which the block quotes nearly all: thread and position."""
        shares: dict[tuple[ThreadKey, int], dict[str, float]] = {}
        for item in self.items:
            # A clause that two items quote counts once.
            place = shares.setdefault((item.key, item.position), {})
            place[item.id.rpartition(".")[0]] = item.share
        return {place for place, parts in shares.items() if sum(parts.values()) >= _WHOLE}


_WHOLE = 0.8


def read_block(
    memory: TurnMemory,
    key: ThreadKey,
    entries: Sequence[Entry],
    own: Sequence[Entry] = (),
    *,
    shown: Collection[int] | None = None,
    max_tokens: int,
    count: TextCounter,
    stores: bool,
) -> ProfileBlock:
    """Return the block of a thread: the frozen one, or a new one if it is time.

    Frozen are the ids of its items, in a document beside the thread: no text of the user's. What
    was retracted or forgotten since is left out.

    Args:
        memory: Whose profile.
        key: The thread.
        entries: What was read of it, before the turn.
        own: Entries of the turn: what is said now needs no quoting.
        shown: Positions of what the model sees of these entries; None for all of them.
        max_tokens: How long the block may be, fence included; 0 for none.
        count: Counts the tokens of a text.
        stores: Whether later turns may know of the block.
    """
    if not max_tokens:
        return ProfileBlock()
    from langchain_convmem.profile.profile import format_items, select_items

    followed, now_ms = memory.profiles.reader.read(key.owner), get_now_ms()
    live = find_live_entries(entries)
    summary = ",".join([one.id for one in find_frontier(live)])
    made_for = {"summary": summary, "generation": followed.generation, "tokens": max_tokens}
    stored = memory.log.get_states([key], _DOCUMENT).get(key)
    frozen = stored.value if stored is not None and isinstance(stored.value, dict) else {}
    cold_ms = max([get_ulid_ms(one.id) for one in live], default=now_ms) + PAUSE_MS
    before = [one for one in live if shown is None or one.position in shown]
    seen = {one.id for one in (*before, *own) if one.role == "user"}
    items = [item for item in followed.profile.items if item.state != "retracted"]
    unseen = {item.id for item in items if item.key == key and item.entry_id not in seen}
    is_due = {**frozen, **made_for} != frozen or frozen["at_ms"] < cold_ms <= now_ms
    if is_due or not unseen.issubset([*frozen["ids"], *frozen.get("left", ())]):
        hidden = [item.id for item in items if item.entry_id in seen]
        chosen = select_items(followed.profile, max_tokens, count, hidden=hidden)
        ids = [item.id for item in chosen]
        frozen = {**made_for, "ids": ids, "left": sorted(unseen.difference(ids)), "at_ms": now_ms}
        if stores and (chosen or frozen["left"]):
            version = None if stored is None else stored.version
            with suppress(LogError):  # the next turn makes the block anew
                memory.log.set_state(key, _DOCUMENT, frozen, expected=version)
    known = {item.id: item for item in items}
    told = tuple([known[name] for name in frozen["ids"] if name in known])
    settled, said_now = {*frozen["ids"], *frozen.get("left", ())}, {one.id for one in own}
    here = [one for one in items if one.key == key and one.entry_id not in said_now]
    waiting = frozenset(one.position for one in here if one.id not in settled)
    return ProfileBlock(format_items(told), told, waiting)
