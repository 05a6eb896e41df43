"""What a new thread holds that goes on from a point of an old one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey, Turn
from langchain_convmem.views.copies import message_key
from langchain_convmem.views.editing import entry_named
from langchain_convmem.views.live import Places, live_entries
from langchain_convmem.views.summaries import written_summary
from langchain_convmem.views.window import cover_of

__all__ = ["FORKED_FROM", "check_target", "forked", "forked_summary", "kept_until"]

FORKED_FROM = "forked_from"
"""Key in `aux` of a forked entry: `thread_id` and `entry_id` of what it is a copy of."""


def kept_until(entries: Sequence[Entry], at: str | Turn | None) -> list[Entry]:
    """Return the live entries up to a point, in display order.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        at: The last one to keep: a message's id, an entry's id, or a turn of it; None keeps all.

    Raises:
        ConfigError: If it is not in the thread's view.
    """
    live = live_entries(entries)
    if at is None:
        return live
    if isinstance(at, Turn):
        if not at.entries:
            raise ConfigError("a placeholder is not in the log; fork at the turn behind it")
        at = at.entries[-1].id
    last = entry_named(live, at)
    return live[: live.index(last) + 1]


def check_target(key: ThreadKey, entries: Sequence[Entry], origin: ThreadKey) -> None:
    """Refuse to mix a fork with another conversation; a fork that was cut short may go on.

    Raises:
        ConfigError: If the thread holds anything that is no copy from `origin`.
    """
    for entry in entries:
        known = entry.metadata.aux.get(FORKED_FROM)
        if not isinstance(known, Mapping) or known.get("thread_id") != origin.thread_id:
            msg = f"thread {key.thread_id!r} is in use; fork to one that is not"
            raise ConfigError(msg)


def forked(entry: Entry) -> Draft:
    """Return the draft that says the same in the new thread: same message, id, times and marks."""
    message = entry.message
    if isinstance(message, BaseMessage):
        message = message.model_copy(update={"id": message_key(entry)})
    return Draft(
        role=entry.role,
        message=message,
        contents=entry.contents,
        turn_id=entry.turn_id,
        metadata=_with_origin(entry),
    )


def forked_summary(summary: Entry, kept: Sequence[Entry], copies: Mapping[str, Entry]) -> Draft:
    """Return the draft of a summary that covers the copies of what it covered.

    Args:
        summary: The summary.
        kept: The entries that were copied, no summaries among them, in display order.
        copies: The copies by the id of what they are copies of, earlier summaries included.
    """
    covered = [copies[kept[number].id] for number in sorted(Places(kept).under(summary.cover))]
    spoken = [copies[entry.id] for entry in kept]
    known = _with_origin(summary)
    names = tuple(copies[name].id for name in known.summary_ids if name in copies)
    cover = cover_of(spoken, covered)
    if summary.cover is not None:
        model, version = summary.cover.model, summary.cover.prompt_version
        cover = replace(cover, model=model, prompt_version=version)
    # Where nothing is left of what it covers, it stands before all that was said.
    cover = replace(cover, ranges=cover.ranges or ((0, 0),))
    return written_summary(summary.contents, cover, replace(known, summary_ids=names))


def _with_origin(entry: Entry) -> Metadata:
    origin = {"thread_id": entry.key.thread_id, "entry_id": entry.id}
    return replace(entry.metadata, aux={**entry.metadata.aux, FORKED_FROM: origin})
