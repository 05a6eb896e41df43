"""What a call brings, for every host of a turn: its messages, and what of a list is new."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.causes import describe_name
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import derive_ulid, get_ulid_ms, is_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.view import SPOKEN, place_turn
from langchain_convmem.views.codec import dump_json, get_role, get_text_pieces
from langchain_convmem.views.content import is_paused
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import (
    MESSAGE_FORMS,
    change_class,
    read_messages,
    unpack_messages,
)
from langchain_convmem.views.tool_calls import find_calls


def find_results(said: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the results of tools at the end of what is said, which an open turn goes on with."""
    start = len(said)
    while start and isinstance(said[start - 1], ToolMessage):
        start -= 1
    return [message for message in said[start:] if isinstance(message, ToolMessage)]


def read_input(
    value: Any, *, input_messages_key: str | None = None, history_messages_key: str | None = None
) -> tuple[Sequence[BaseMessage], Mapping[str, Any]]:
    """Read the input of a call, in any form that `read_messages` accepts.

    Args:
        value: The input; `None`, or results of tools alone, go on with a turn whose calls are open.
            A dict may hold `{"messages": ...}`, or the user's words under `input_messages_key`,
            earlier messages under `history_messages_key`, and further keys for the inner chain.
        input_messages_key: Key of what is said; None is `input`.
        history_messages_key: Key of what was said before; None is `history`.

    Returns:
        What the user says now, last, and what callers who send the whole chat, or its last
        messages, send along; or results of tools; or nothing, to go on with the turn as it stands.
        And what else a dict held.

    Raises:
        InvalidMessageError: If it cannot be answered: it has no message, one that the
            assistant said last, or a blank one of the user.
    """
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping) and not _is_message(value):
        value, extra = _take_keys(value, input_messages_key, history_messages_key or "history")
    if value is None:
        return (), extra
    messages = [
        change_class(one, HumanMessage)
        if get_role(one) == "user" and not isinstance(one, HumanMessage)
        else one
        for one in read_messages(value)
    ]
    said = [message for message in messages if get_role(message) != "system"]
    if not said:
        what = "any message but instructions" if messages else "any message"
        msg = f"the input is a {type(value).__name__} without {what}; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    if not isinstance(said[-1], HumanMessage | ToolMessage):
        msg = (
            f"the input ends with an {type(said[-1]).__name__}; it must end with what the user "
            "says, or with results of tools. Put messages into the thread with "
            "memory.add_messages()"
        )
        raise InvalidMessageError(msg)
    check_question(said[-1])
    return messages, extra


def check_question(message: BaseMessage) -> None:
    """Refuse a blank message of the user.

    Raises:
        InvalidMessageError: If it has neither text nor media.
    """
    if isinstance(message, HumanMessage) and not (get_text_pieces(message) or _list_media(message)):
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")


def _list_media(message: BaseMessage) -> list[Any]:
    blocks = () if isinstance(message.content, str) else message.content
    return [one for one in blocks if not isinstance(one, str) and one.get("type") != "text"]


def mark_unstored(message: BaseMessage) -> BaseMessage:
    """Return the message marked as one that is never stored."""
    marked = {**message.additional_kwargs, "remember": False}
    return message.model_copy(update={"additional_kwargs": marked})


def _is_message(value: Mapping[Any, Any]) -> bool:
    is_named = "role" in value or isinstance(value.get("type"), str)
    return is_named and ("content" in value or "data" in value or "tool_calls" in value)


def _take_keys(
    value: Mapping[Any, Any], input_messages_key: str | None, history_messages_key: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return what a dict says, and its other keys."""
    own = "messages" if "messages" in value and "input" not in value else "input"
    key = input_messages_key or own
    if key not in value:
        keys = sorted(map(describe_name, value))
        msg = (
            f"a dict input needs the key {key!r}; got {keys}. Name the key of what the user says "
            "with wrap(..., input_messages_key=...)"
        )
        raise InvalidMessageError(msg)
    said, before = value[key], value.get(history_messages_key)
    taken = {key}
    earlier = None if isinstance(before, str) else unpack_messages(before)
    if said is not None and history_messages_key != key and earlier is not None:
        taken.add(history_messages_key)
        items = unpack_messages(said)
        said = [*earlier, *([said] if items is None else items)]
    return said, {str(name): item for name, item in value.items() if name not in taken}


# -- What of a list is new ----------------------------------------------------------------------
_COMPARED = 200
"""With so many of the user's latest messages in the thread a list is compared."""

StoredForm: TypeAlias = Callable[[BaseMessage], BaseMessage | None]
"""Returns what the thread stores of a message; None if nothing."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Where a list of messages joins a thread.

    Attributes:
        new: What is to be stored, in order; the last is what the user says now, if anything.
        again: The user's entry that is answered once more; nothing is new then.
        replaces: The user's entry in whose place the last message stands; all that was said after
            it is retracted.
    """

    new: Sequence[BaseMessage] = ()
    again: Entry | None = None
    replaces: Entry | None = None


def join_thread(
    log: MessageLog, thread: LiveThread, said: Sequence[BaseMessage], stored_form: StoredForm
) -> tuple[LiveThread, Joined]:
    """Find where the messages of a call join a thread, in all of it unless only one is new.

    Returns:
        The thread, all of it where that was read, and what is new; see `join`.
    """
    own = said[-1].id
    if thread.floor and (len(said) > 1 or (own and log.find(thread.key, [own]))):
        thread = read_all(log, thread)
    return thread, join(thread.entries, said, stored_form=stored_form)


def join(
    entries: Sequence[Entry],
    said: Sequence[BaseMessage],
    *,
    stored_form: StoredForm = lambda message: message,
) -> Joined:
    """Find where a list of messages joins a thread, and what of it is new.

    A message is known by its id. Without one, the user's messages alone are compared, by text and
    in order: what follows the last one that the thread knows is new, but for its reply, which an
    application may show in a form of its own. Nothing is taken back but by an id. A question at the
    end that the thread ends with is answered once more; one that was answered is asked anew.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        said: Messages, none of them a system message.
        stored_form: What the thread stores of a message.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    while live and INTERRUPTED in live[-1].metadata.attributes:
        live.pop()  # what is asked again is answered in its place
    last, is_asked = said[-1], get_role(said[-1]) == "user"
    named = next((one for one in live if last.id in (one.message_id, one.id)), None)
    if is_asked and named is not None and named.role == "user":
        is_same = _fold(named.message) == _fold(stored_form(last) or last)
        return Joined(again=named) if is_same else Joined([last], replaces=named)
    if is_asked and len(said) == 1 and not (live and live[-1].role == "user"):
        return Joined([last])  # no question is open that this could be
    forms = [stored_form(message) for message in said]
    if is_asked:
        forms[-1] = forms[-1] or last  # compared, also where it is not stored
    latest = next((entry for entry in reversed(live) if entry.role == "user"), None)
    anchor, rest = _find_last_known(entries, said, forms)
    if anchor is None:
        anchor = latest
    elif rest == len(said) and live[-1:] == [anchor]:
        return Joined(again=anchor)
    elif rest == len(said):  # asked anew, with results that open calls wait for
        anchor, rest = latest, rest - 1 - len(find_results(said[:-1]))
    return Joined(_list_new(entries, live, anchor, said[rest:], forms[rest:]))


def _find_last_known(
    entries: Sequence[Entry], said: Sequence[BaseMessage], forms: Sequence[BaseMessage | None]
) -> tuple[Entry | None, int]:
    """Find the last of the user's messages that the thread has, in its order.

    Returns:
        Its entry, and the number of what follows the message.
    """
    users = [entry for entry in entries if entry.role == "user"][-_COMPARED:]
    texts = [_fold(entry.message) for entry in users]
    anchor, rest, at = None, 0, 0
    for number, form in enumerate(forms):
        if form is not None and get_role(form) == "user":
            own, text = said[number].id, _fold(form)
            same = (n for n in range(at, len(users)) if _is_same(users[n], texts[n], own, text))
            found = next(same, None)
            if found is not None:
                anchor, rest, at = users[found], number + 1, found + 1
    return anchor, rest


def _is_same(entry: Entry, known: str, own: str | None, text: str) -> bool:
    """Return whether an entry holds a message, by its id, or by text unless both have an id."""
    if own in (entry.message_id, entry.id):
        return True
    has_ids = bool(own and entry.message and entry.message.id)
    return bool(text) and known == text and not has_ids


def _list_new(
    entries: Sequence[Entry],
    live: Sequence[Entry],
    anchor: Entry | None,
    said: Sequence[BaseMessage],
    forms: Sequence[BaseMessage | None],
) -> list[BaseMessage]:
    """Return what is new of the messages after one that the thread knows.

    Args:
        entries: The thread's entries.
        live: Those that count.
        anchor: The user's entry that the messages follow; None if nothing was asked yet.
        said: The messages.
        forms: What the thread stores of them.
    """
    ids = {name for entry in entries for name in (entry.message_id, entry.id)}
    is_over = anchor is not None and anchor not in live
    if anchor is not None and not is_over:
        later = takewhile(lambda one: one.role != "user", live[live.index(anchor) + 1 :])
        is_over = any(map(_is_last_word, later))
    there = set().union(*[_mark(entry.message) for entry in entries]) if not is_over else set()
    new: list[BaseMessage] = []
    is_reply = True
    for message, form in zip(said, forms, strict=True):
        is_reply = is_reply and get_role(message) != "user"
        if form is None or (message.id in ids and message is not said[-1]):
            continue
        if not is_reply or not (is_over or _mark(form) <= there):
            new.append(message)
    return new


def _mark(message: BaseMessage | None) -> set[tuple[str, str | None]]:
    """Return what a reply, calls, or a result are known by in a turn."""
    if message is None:
        return set()
    if isinstance(message, ToolMessage):
        return {("result", message.tool_call_id)}
    calls = {("call", call["id"]) for call in find_calls(message)}
    return calls or {(get_role(message), _fold(message))}


def _fold(message: BaseMessage | None) -> str:
    """Return a message's text, however it is cut into blocks or lines, and the user's media."""
    if message is None:
        return ""
    text = " ".join(str(message.text).split())
    media = _list_media(message) if get_role(message) == "user" else []
    return text + dump_json(media, what="media") if media else text


# -- A turn that goes on --------------------------------------------------------------------------
def continue_turn(
    entries: Sequence[Entry], results: Sequence[ToolMessage]
) -> tuple[Sequence[Entry], list[ToolMessage]]:
    """Return what a call goes on with: all that followed the user's last words in the thread.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        results: Results of its calls; none to go on with what the thread has.

    Returns:
        The entries of the turn that come before what is answered now, and the results, each under
        an id that it has in every attempt. Messages that were added one by one are turns of their
        own: the turn in the log is that of the last entry.

    Raises:
        InvalidMessageError: If nothing since then makes a call that a result answers, or if it
            came to its end and there is nothing to go on with.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    asked = next((entry for entry in reversed(live) if entry.role == "user"), None)
    # Messages of one turn in a row are one question.
    start = place_turn(live, asked, ()).start
    turn = [one for one in live if asked and one.position >= start]
    callers = {call["id"]: n for n, one in enumerate(turn) for call in find_calls(one.message)}
    unknown = [one.tool_call_id for one in results if one.tool_call_id not in callers]
    if not turn or unknown or (not results and _is_last_word(turn[-1])):
        found = "the input is None and no call is open"
        if unknown:
            found = f"the tool result for {unknown[0]!r} answers no call"
        msg = f"there is nothing to go on with: {found} in the thread's last turn; pass what the "
        raise InvalidMessageError(
            msg + "user says, or results of the calls that the last reply made"
        )
    end, named = -1 if results else len(turn) - 1, list[ToolMessage]()
    for result in results:
        caller = turn[callers[result.tool_call_id]]
        end = max(end, callers[result.tool_call_id])
        named.append(name_result(result, caller.key, caller.turn_id, caller.message_id))
    while end + 1 < len(turn) and turn[end + 1].role == "tool":
        end += 1
    return turn[: end + 1], named


def _is_last_word(entry: Entry) -> bool:
    """Return whether an entry ends a turn: a reply without calls that is not paused."""
    is_open = bool(find_calls(entry.message)) or is_paused(entry.message)
    return entry.role == "assistant" and not is_open


def name_result(result: ToolMessage, key: ThreadKey, turn_id: str, caller: str) -> ToolMessage:
    """Return a result under an id that it has in every attempt, so that a retry doubles nothing.

    Args:
        result: A result; its own id stays.
        key: Its thread.
        turn_id: Its turn.
        caller: Id of the message that makes the call.
    """
    if result.id:
        return result
    at_ms = get_ulid_ms(turn_id) if is_ulid(turn_id) else 0
    own = derive_ulid(at_ms, key.user_id, key.thread_id, caller, result.tool_call_id)
    return result.model_copy(update={"id": own})
