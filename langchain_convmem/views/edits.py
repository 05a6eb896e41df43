"""Undo, redo, replace, cut and clear, as entries to append: nothing is taken out of a log."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.records import (
    Control,
    Draft,
    Entry,
    Metadata,
    RetractReason,
    ThreadKey,
    Turn,
)
from langchain_convmem.views.codec import draft_of, role_of
from langchain_convmem.views.drafts import INTERRUPTED, Heard, cut_to_heard
from langchain_convmem.views.live import Places, live_entries, retracted_ids
from langchain_convmem.views.messages import handed_out, message_key
from langchain_convmem.views.summaries import (
    checked_pieces,
    cover_of,
    summaries_over,
    written_summary,
)
from langchain_convmem.views.turns import is_blank

_SAID = frozenset({"user", "assistant", "tool"})


_REDOABLE = frozenset({"undo", "cleared"})


_OF_THE_WORDS = frozenset({"audio", "function_call", "reasoning_content", "refusal", "tool_calls"})


"""Keys of `additional_kwargs` that belong to the words of a message, and go with them."""


_OF_THE_ENTRY = frozenset({"attempt_of", "forked_from", "own_tokens", "provenance"})


"""Keys of `aux` that tell how an entry came into the log; what takes its place came otherwise."""


def clearing(entries: Sequence[Entry]) -> list[Draft]:
    """Return the control entry that empties every view; nothing if they are empty."""
    return _retracting([entry.id for entry in live_entries(entries)], "cleared")


def undoing(entries: Sequence[Entry], exchanges: int) -> tuple[list[Draft], list[Entry]]:
    """Return the control entry that takes back the last exchanges, and what they hold.

    An exchange begins with what the user said; what the assistant said before the user did is one
    too. System messages stay. Summaries that tell of what is taken back go with it.

    Raises:
        ConfigError: If `exchanges` is not at least 1.
    """
    if isinstance(exchanges, bool) or not isinstance(exchanges, int) or exchanges < 1:
        raise ConfigError(f"exchanges must be a whole number of at least 1, got {exchanges!r}")
    live = live_entries(entries)
    said = [entry for entry in live if entry.role in _SAID]
    starts = _starts([entry for entry in said if not is_blank(entry)])
    if not starts:
        return [], []
    first = starts[-exchanges] if exchanges <= len(starts) else said[0]
    undone = said[said.index(first) :]
    return _retracting_with_summaries(live, {entry.id for entry in undone}, "undo"), undone


def rewinding(entries: Sequence[Entry], message_id: str | None) -> list[Draft]:
    """Return the control entry that takes back all that was said after a message.

    Summaries that tell of anything taken back go with it.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        message_id: The last message to keep, by its id or its entry's; None takes back everything.

    Raises:
        LookupError: If the message is not live any more.
    """
    live = live_entries(entries)
    said = [entry for entry in live if entry.role != "summary"]
    kept = 0
    if message_id is not None:
        kept = 1 + next((n for n, one in enumerate(said) if _is_named(one, message_id)), -2)
        if kept < 1:
            raise LookupError(message_id)
    return _retracting_with_summaries(live, {entry.id for entry in said[kept:]}, "rewind")


def _starts(said: Sequence[Entry]) -> list[Entry]:
    """Return the entries that exchanges begin with.

    Several messages of the user in a row are one beginning, unless they are known to belong to
    turns of their own, such as a question that was never answered before the next one.
    """
    answered = {entry.turn_id for entry in said if entry.role != "user"}
    return [
        entry
        for number, entry in enumerate(said)
        if number == 0
        or (
            entry.role == "user"
            and (said[number - 1].role != "user" or _begins_turn(said, number, answered))
        )
    ]


def _begins_turn(said: Sequence[Entry], number: int, answered: Collection[str]) -> bool:
    turn_id = said[number].turn_id
    return turn_id in answered and said[number - 1].turn_id != turn_id


def redoing(entries: Sequence[Entry]) -> list[Draft]:
    """Return the control entry that takes back the latest undo or clear.

    Nothing comes back once something was said after it: that would stand in another place.
    """
    dead = retracted_ids(entries)
    shown = {entry.id for entry in entries if entry.control is None}
    for entry in reversed(entries):
        if entry.id in dead:
            continue
        if entry.control is None and entry.role != "summary":
            return []
        if _can_be_redone(entry, shown):
            return _retracting([entry.id], "undo")
    return []


def _can_be_redone(entry: Entry, shown: Collection[str]) -> bool:
    """Return whether the entry took out anything but other control entries."""
    control = entry.control
    if control is None or control.reason not in _REDOABLE:
        return False
    return any(name in shown for name in control.retracts)


def replacing(
    entries: Sequence[Entry], message_id: str, message: BaseMessage | str, *, keep_later: bool
) -> list[Draft]:
    """Return the entries that put a message in the place of another one.

    The new message takes the id of the old one, by which the log knows what it replaces, and its
    metadata: when it was said, marks, and what the application added.

    Raises:
        ConfigError: If no live message has the id.
        InvalidMessageError: If the new message is blank, or of another role.
    """
    live = live_entries(entries)
    old = entry_named(live, message_id)
    new = _message_like(old, message)
    # An instruction is no part of the dialogue: nothing was said because of its place.
    later = [] if keep_later or old.role == "system" else _later(live, old)
    named = {entry.id for entry in later}
    drafts = _retracting_with_summaries(live, named | {old.id}, "rewind", kept={old.id})
    return [*drafts, draft_of(new, turn_id=old.turn_id, metadata=_keep_metadata(old))]


def plan_cut(entries: Sequence[Entry], reply: Entry, heard: Heard) -> list[Draft]:
    """Return the entries that cut a reply to what was heard of it.

    The reply keeps its id, place and metadata, and is marked; one of which nothing was heard is
    taken out. What was said after it stays, for that answers what was heard. A summary that tells
    of it goes.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        reply: A live entry among them; see `find_reply`.
        heard: See `count_heard`.

    Returns:
        Control entries and, last, the reply; nothing if all of it was heard.
    """
    live = live_entries(entries)
    said = handed_out(reply)
    cut = cut_to_heard(said, heard)
    if cut is said:
        return []
    if cut is None:
        return _retracting_with_summaries(live, {reply.id}, "cancelled")
    known = _keep_metadata(reply)
    marks = [mark for mark in known.attributes if mark != INTERRUPTED]
    metadata = replace(known, attributes=(*marks, INTERRUPTED))
    drafts = _retracting_with_summaries(live, {reply.id}, "rewind", kept={reply.id})
    return [*drafts, draft_of(cut, turn_id=reply.turn_id, metadata=metadata)]


def find_reply(entries: Sequence[Entry], message_id: str | None) -> Entry:
    """Return the live entry of a reply; without an id, of the latest one.

    Raises:
        ConfigError: If the thread shows no such message, or no reply at all.
        InvalidMessageError: If the assistant did not say it.
    """
    live = live_entries(entries)
    if message_id is not None:
        named = entry_named(live, message_id)
        if named.role != "assistant":
            raise InvalidMessageError(f"message {message_id!r} is not a reply of the assistant")
        return named
    for entry in reversed(live):
        if entry.role == "assistant" and not is_blank(entry):
            return entry
    raise ConfigError("the thread shows no reply that could be cut")


def _later(live: Sequence[Entry], old: Entry) -> list[Entry]:
    at = next(number for number, entry in enumerate(live) if entry.id == old.id)
    return [entry for entry in live[at + 1 :] if entry.role in _SAID]


def entry_named(live: Sequence[Entry], message_id: str) -> Entry:
    """Return the live entry of a message, by the message's id or the entry's.

    Raises:
        ConfigError: If there is none, or it is a summary.
    """
    for entry in reversed(live):
        if entry.role != "summary" and _is_named(entry, message_id):
            return entry
    msg = f"there is no message {message_id!r} in the thread's view; ids are those of its messages"
    raise ConfigError(msg)


def _keep_metadata(entry: Entry) -> Metadata:
    """Return what is known of a message, for what takes its place."""
    known = entry.metadata
    return replace(
        known, aux={key: one for key, one in known.aux.items() if key not in _OF_THE_ENTRY}
    )


def _is_named(entry: Entry, message_id: str) -> bool:
    return message_id in (entry.id, message_key(entry))


def _message_like(old: Entry, message: BaseMessage | str) -> BaseMessage:
    if isinstance(message, str):
        checked_pieces(message, what="a message")
        message = _text_message(old, message)
    elif isinstance(message, BaseMessage) and role_of(message) != old.role:
        msg = f"a message of the role {old.role} cannot become one of {role_of(message)}"
        raise InvalidMessageError(msg)
    if not isinstance(message, BaseMessage):
        raise InvalidMessageError(f"expected a message or a text, got {message!r:.80}")
    return message.model_copy(update={"id": message_key(old)})


def _text_message(old: Entry, text: str) -> BaseMessage:
    """Return a text as a message of the entry's role, with what is known of the old message."""
    known = handed_out(old)
    more: dict[str, Any] = {
        "name": None if old.message is None else old.message.name,
        "additional_kwargs": {
            key: one for key, one in known.additional_kwargs.items() if key not in _OF_THE_WORDS
        },
        "response_metadata": known.response_metadata,
    }
    if isinstance(known, ToolMessage):
        return ToolMessage(text, tool_call_id=known.tool_call_id, status=known.status, **more)
    if isinstance(known, AIMessage):
        return AIMessage(text, usage_metadata=known.usage_metadata, **more)
    return HumanMessage(text, **more) if old.role == "user" else SystemMessage(text, **more)


# -- control entries ----------------------------------------------------------------------------
def _retracting(ids: Sequence[str], reason: RetractReason) -> list[Draft]:
    return [Draft(role="control", control=Control(tuple(ids), reason))] if ids else []


def _retracting_with_summaries(
    live: Sequence[Entry],
    ids: Collection[str],
    reason: RetractReason,
    kept: Collection[str] = (),
) -> list[Draft]:
    """Return the control entry for these entries, and for what summaries tell of them.

    Args:
        live: The live entries.
        ids: Entries whose telling ends.
        reason: Why.
        kept: Those of `ids` that something else retracts.
    """
    named = [entry.id for entry in live if entry.id in ids and entry.id not in kept]
    return _retracting([*named, *summaries_over(live, ids)], reason)


# -- What a new thread holds that goes on from a point of an old one ------------------------------


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
