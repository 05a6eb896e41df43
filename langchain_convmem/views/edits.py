"""Undo, redo, rewind, replace, cut, clear and fork, as entries to append.

Nothing is taken out of a log: every edit adds entries that the views obey.
"""

from __future__ import annotations

import string
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from langchain_core.messages import BaseMessage

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConversationError, InvalidMessageError
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason
from langchain_convmem.views.codec import encode_body, get_role, make_draft, redraft
from langchain_convmem.views.content import drop_compactions, find_compactions
from langchain_convmem.views.live import (
    EntryPlaces,
    Turn,
    find_entry,
    find_live_entries,
    find_retracted_ids,
    get_level,
    is_blank,
    is_named,
)
from langchain_convmem.views.messages import build_message
from langchain_convmem.views.summaries import (
    FORKED_FROM,
    add_origin,
    check_pieces,
    digest_children,
    find_pin_entries,
    find_summaries_over,
    get_children,
    is_pin,
    make_cover,
    make_summary_draft,
    translate_record,
)

INTERRUPTED, KEPT = "interrupted", "kept"
"""Marks of a reply that was cut off, and of one that the application keeps so, such as what was
heard of it: attributes of its entry; the first also in the message's `response_metadata`."""
Heard = int | str
"""How much of a reply was heard: characters of its text, or the words themselves."""
_SAID = frozenset({"user", "assistant", "tool"})
_REDOABLE = frozenset({"undo", "cleared"})
_OF_THE_WORDS = frozenset({"audio", "function_call", "reasoning_content", "refusal", "tool_calls"})
"""Keys of `additional_kwargs` that belong to the words of a message, and go with them."""
_OF_THE_ENTRY = frozenset({FORKED_FROM, "own_tokens", "convmem_step"})
"""Keys of `aux` that say how an entry came into the log; what takes its place came otherwise."""


def plan_clear(entries: Sequence[Entry]) -> list[Draft]:
    """Return the control entry that empties every view; nothing if they are empty."""
    shown = [*find_live_entries(entries), *find_pin_entries(entries)]
    return draft_retraction([entry.id for entry in shown], "cleared")


def plan_undo(entries: Sequence[Entry], exchanges: int) -> tuple[list[Draft], list[Entry]]:
    """Return the control entry that takes back the last exchanges, and what they hold.

    An exchange begins with what the user said; what the assistant said before the user did is one
    too. System messages stay. Summaries that tell of what is taken back go with it.

    Raises:
        ConfigError: If `exchanges` is not at least 1.
    """
    if isinstance(exchanges, bool) or not isinstance(exchanges, int) or exchanges < 1:
        got = describe_value(exchanges)
        raise ConfigError(f"exchanges must be a whole number of at least 1, got {got}")
    live = find_live_entries(entries)
    said = [entry for entry in live if entry.role in _SAID]
    starts = _find_starts([entry for entry in said if not is_blank(entry)])
    if not starts:
        return [], []
    undone = said[said.index(starts[-exchanges]) :] if exchanges <= len(starts) else said
    return _retract_with_summaries(live, {entry.id for entry in undone}, "undo"), undone


def plan_rewind(entries: Sequence[Entry], message_id: str | None) -> list[Draft]:
    """Return the control entry that takes back all that was said after a message.

    Summaries that tell of anything taken back go with it.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        message_id: The last message to keep, by its id or its entry's; None takes back everything.

    Raises:
        ConversationError: If the message is not live any more.
    """
    live = find_live_entries(entries)
    said = [entry for entry in live if entry.role != "summary"]
    kept = 0
    if message_id is not None:
        kept = 1 + next((n for n, one in enumerate(said) if is_named(one, message_id)), -2)
        if kept < 1:
            raise ConversationError("the thread no longer shows the message of this checkpoint")
    return _retract_with_summaries(live, {entry.id for entry in said[kept:]}, "rewind")


def _find_starts(said: Sequence[Entry]) -> list[Entry]:
    """Return the entries that exchanges begin with.

    Several messages of the user in a row are one beginning, unless they are known to belong to
    turns of their own, such as a question that was never answered before the next one.
    """
    answered = {entry.turn_id for entry in said if entry.role != "user"}
    starts = list(said[:1])
    for before, entry in pairwise(said):
        is_own_turn = entry.turn_id in answered and entry.turn_id != before.turn_id
        if entry.role == "user" and (before.role != "user" or is_own_turn):
            starts.append(entry)
    return starts


def plan_redo(entries: Sequence[Entry]) -> list[Draft]:
    """Return the control entry that takes back the latest undo, unpinning or clear.

    Nothing comes back once something was said after it: that would stand in another place.
    """
    dead = find_retracted_ids(entries)
    shown = {entry.id for entry in entries if entry.control is None or is_pin(entry)}
    for entry in reversed(entries):
        if entry.id in dead:
            continue
        if entry.control is None and entry.role != "summary":
            return []
        control = entry.control
        if control and control.reason in _REDOABLE and not shown.isdisjoint(control.retracts):
            return draft_retraction([entry.id], "undo")
    return []


def plan_replace(
    entries: Sequence[Entry], message_id: str, message: BaseMessage | str, *, keep_later: bool
) -> list[Draft]:
    """Return the entries that put a message in the place of another one.

    The new message takes the id of the old one, by which the log knows what it replaces, and its
    metadata: when it was said, marks, and what the application added.

    Raises:
        ConfigError: If no live message has the id.
        InvalidMessageError: If the new message is blank, or of another role.
    """
    live = find_live_entries(entries)
    old = find_entry(live, message_id)
    new = _make_message_like(old, message)
    # An instruction is not part of the dialogue: nothing was said because of its place.
    ends_here = keep_later or old.role == "system"
    later = [] if ends_here else live[live.index(old) + 1 :]
    named = {old.id, *(entry.id for entry in later if entry.role in _SAID)}
    drafts = _retract_with_summaries(live, named, "rewind", kept={old.id})
    return [*drafts, make_draft(new, turn_id=old.turn_id, metadata=_keep_metadata(old))]


def plan_edited(entries: Sequence[Entry], edited: Collection[str]) -> list[Draft]:
    """Return the control entry for summaries that tell of entries which new versions replace."""
    return _retract_with_summaries(find_live_entries(entries), edited, "rewind", kept=edited)


def is_edited(entry: Entry, draft: Draft) -> bool:
    """Return whether a draft says something else than an entry of the same message id."""
    message = draft.message and draft.message.model_copy(update={"id": entry.message_id})
    return encode_body(fork_entry(entry)) != encode_body(replace(draft, message=message))


def plan_without_compactions(
    entries: Sequence[Entry], erased: Collection[str]
) -> tuple[list[Draft], list[str]]:
    """Return what takes the place of messages in which a provider's compaction tells of entries.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        erased: Ids of those that are to be erased.

    Returns:
        The same messages without their compactions, and the ids of the entries to erase for them.
        A message of which nothing else is left, or that has no id of its own by which it could be
        told apart from its new version, goes whole.
    """
    first = min((entry.position for entry in entries if entry.id in erased), default=None)
    if first is None:
        return [], []
    telling = [
        entry
        for entry in entries
        if entry.position > first and entry.id not in erased and find_compactions(entry.message)
    ]
    live = {entry.id for entry in find_live_entries(entries)}
    drafts: list[Draft] = []
    for entry in telling:
        if entry.id in live and entry.message is not None and entry.message.id is not None:
            bare = drop_compactions(entry.message)
            if bare.content or getattr(bare, "tool_calls", None):
                drafts += plan_replace(entries, entry.id, bare, keep_later=True)
    return drafts, [entry.id for entry in telling]


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
    live = find_live_entries(entries)
    said = build_message(reply)
    cut = cut_to_heard(said, heard)
    if cut is said:
        return []
    if cut is None:
        return _retract_with_summaries(live, {reply.id}, "cancelled")
    known = _keep_metadata(reply)
    marks = [mark for mark in known.attributes if mark not in (INTERRUPTED, KEPT)]
    metadata = replace(known, attributes=(*marks, INTERRUPTED, KEPT))
    drafts = _retract_with_summaries(live, {reply.id}, "rewind", kept={reply.id})
    return [*drafts, make_draft(cut, turn_id=reply.turn_id, metadata=metadata)]


def find_reply(entries: Sequence[Entry], message_id: str | None) -> Entry:
    """Return the live entry of a reply; without an id, of the latest one.

    Raises:
        ConfigError: If the thread shows no such message, or no reply at all.
        InvalidMessageError: If the assistant did not say it.
    """
    live = find_live_entries(entries)
    if message_id is not None:
        named = find_entry(live, message_id)
        if named.role != "assistant":
            raise InvalidMessageError(f"message {message_id!r} is not a reply of the assistant")
        return named
    for entry in reversed(live):
        if entry.role == "assistant" and not is_blank(entry):
            return entry
    raise ConfigError("the thread shows no reply that could be cut")


def _keep_metadata(entry: Entry) -> Metadata:
    """Return what is known of a message, for what takes its place."""
    aux = {key: one for key, one in entry.metadata.aux.items() if key not in _OF_THE_ENTRY}
    return replace(entry.metadata, aux=aux)


def _make_message_like(old: Entry, message: BaseMessage | str) -> BaseMessage:
    if isinstance(message, str):
        check_pieces(message, what="a message")
        message = _make_text_message(old, message)
    if not isinstance(message, BaseMessage):
        kind = type(message).__name__
        raise InvalidMessageError(f"expected a message or a text, got a value of type {kind}")
    role = get_role(message)
    if role != old.role:
        raise InvalidMessageError(f"a message of the role {old.role} cannot become one of {role}")
    return message.model_copy(update={"id": old.message_id})


def _make_text_message(old: Entry, text: str) -> BaseMessage:
    """Return a text as a message of the entry's role, with what is known of the old message."""
    known = build_message(old)
    marks = {key: one for key, one in known.additional_kwargs.items() if key not in _OF_THE_WORDS}
    cleared: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "artifact": None}
    own = {name: one for name, one in cleared.items() if name in type(known).model_fields}
    return known.model_copy(update={"content": text, "additional_kwargs": marks, **own})


def draft_retraction(ids: Sequence[str], reason: RetractReason) -> list[Draft]:
    """Return the control entry that takes entries out of every view; nothing without ids."""
    return [Draft(role="control", control=Control(tuple(ids), reason))] if ids else []


def _retract_with_summaries(
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
    return draft_retraction([*named, *find_summaries_over(live, ids)], reason)


# -- A spoken reply, cut to what was heard of it: the rest was never said -------------------------
def count_heard(text: str, heard: Heard) -> int:
    """Return how many characters of a text were heard.

    Words are found by their letters and digits alone: what speaks a text, or listens to it, is
    free with case, accents, spaces, punctuation and marks of emphasis. They count where they fit
    first, since a voice may report its latest utterance only; what comes before them was heard as
    well.

    Args:
        text: What was to be said.
        heard: Characters (code points) from the beginning, or what was heard.

    Raises:
        ConfigError: If it is neither, or negative.
        InvalidMessageError: If the words are not in the text.
    """
    if isinstance(heard, str):
        return _find_end_of_words(text, heard)
    if isinstance(heard, bool) or not isinstance(heard, int) or heard < 0:
        got = describe_value(heard)
        raise ConfigError(f"heard_until must be a number of characters or the words, got {got}")
    return min(heard, len(text))


def cut_to_heard(message: BaseMessage, heard: Heard) -> BaseMessage | None:
    """Return a reply as far as it was heard, marked `interrupted`; its tool calls stay.

    Id, usage and what else the model's provider reported are kept.

    Args:
        message: The reply.
        heard: See `count_heard`.

    Returns:
        A new message; the message itself if all of it was heard, None if nothing was.
    """
    text = str(message.text)
    count = count_heard(text, heard)
    if count >= len(text.rstrip()):
        return message
    content = _keep_characters(message.content, len(text[:count].rstrip()))
    if not text[:count].strip() and not getattr(message, "tool_calls", None):
        return None
    # By this key a provider finds what it has spoken, all of it.
    kwargs = {key: one for key, one in message.additional_kwargs.items() if key != "audio"}
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(
        update={"content": content, "additional_kwargs": kwargs, "response_metadata": metadata}
    )


def _keep_characters(content: str | list[str | dict[str, object]], count: int) -> object:
    """Return content with the first characters of its text; what is not text stays."""
    if isinstance(content, str):
        return content[:count]
    kept: list[object] = []
    for block in content:
        text = block if isinstance(block, str) else block.get("text")
        if not isinstance(text, str) or (isinstance(block, dict) and block.get("type") != "text"):
            kept.append(block)
        elif count:
            part = text[:count]
            kept.append(part if isinstance(block, str) else {**block, "text": part})
            count -= len(part)
    return kept


def _find_end_of_words(text: str, heard: str) -> int:
    """Return where in a text the words end that were heard, with the marks that end them.

    Raises:
        InvalidMessageError: If they are not in it.
    """
    if text.startswith(heard):
        return len(heard)
    spoken, wanted = _fold(text), "".join(letter for _, letter in _fold(heard))
    if not wanted:
        return 0
    found = "".join(letter for _, letter in spoken).find(wanted)
    if found < 0:
        raise InvalidMessageError(
            "what was heard is not in the reply; pass the reply's own words, or how many of its "
            "characters were heard"
        )
    end = spoken[found + len(wanted) - 1][0] + 1
    marks = heard[len(heard.rstrip(string.punctuation)) :]
    while end < len(text) and (unicodedata.category(text[end])[0] == "M" or text[end] in marks):
        end += 1
    return end


def _fold(text: str) -> list[tuple[int, str]]:
    """Return letters without case and accents, and digits of any script, each with its place."""
    return [
        (place, str(unicodedata.digit(letter, letter)))
        for place, one in enumerate(text)
        for letter in unicodedata.normalize("NFKD", one).casefold()
        if letter.isalnum()
    ]


# -- Forking: what a new thread holds that goes on from a point of an old one ---------------------
def find_entries_until(entries: Sequence[Entry], at: str | Turn | None) -> list[Entry]:
    """Return the live entries up to a point, in display order.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        at: The last one to keep: a message's id, an entry's id, or a turn of it; None keeps all.

    Raises:
        ConfigError: If it is not in the thread's view.
    """
    live = find_live_entries(entries)
    if at is None:
        return live
    if isinstance(at, Turn):
        if not at.entries:
            raise ConfigError("a placeholder is not in the log; fork at the turn after it")
        at = at.entries[-1].id
    return live[: live.index(find_entry(live, at)) + 1]


def fork_entry(entry: Entry) -> Draft:
    """Return the draft that says the same in the new thread: same message, id, times and marks."""
    message = entry.message and entry.message.model_copy(update={"id": entry.message_id})
    return replace(redraft(entry), metadata=add_origin(entry), message=message)


def fork_summary(summary: Entry, kept: Sequence[Entry], copies: Mapping[str, Entry]) -> Draft:
    """Return the draft of a summary that covers the copies of what it covered.

    Args:
        summary: The summary.
        kept: The entries that were copied, no summaries among them, in display order.
        copies: The copies by the id of what they are copies of, earlier summaries included.
    """
    covered = [copies[kept[n].id] for n in sorted(EntryPlaces(kept).find_under(summary.cover))]
    names = tuple(copies[name].id for name in summary.metadata.summary_ids if name in copies)
    made = make_cover([copies[entry.id] for entry in kept], covered)
    digest = digest_children(names) if get_level(summary) else made.digest
    # Where nothing is left of what it covers, it stands before all that was said.
    ranges = made.ranges or ((0, 0),)
    cover = replace(summary.cover or made, ranges=ranges, digest=digest)
    old = {entry.id: entry.position for entry in kept} | dict(get_children(summary))
    ids = {name: copy.id for name, copy in copies.items()}
    places = {place: copies[name].position for name, place in old.items() if name in copies}
    aux = {**add_origin(summary).aux, **translate_record(summary, ids, places)}
    metadata = replace(summary.metadata, summary_ids=names, aux=aux)
    return make_summary_draft(summary.contents, cover, metadata)
