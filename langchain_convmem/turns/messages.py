"""What a call brings, for every host of a turn: its messages, and what of a list is new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.causes import describe_name
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import derive_ulid, get_ulid_ms, is_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.view import SPOKEN
from langchain_convmem.views.codec import dump_json, get_role, get_text_pieces, make_plain
from langchain_convmem.views.content import is_paused
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import (
    MESSAGE_FORMS,
    change_class,
    read_messages,
    unpack_messages,
)
from langchain_convmem.views.tool_calls import find_calls


@dataclass(frozen=True, slots=True)
class CallInput:
    """The input of a call, as messages.

    Attributes:
        instructions: System messages: they steer this call, and are not stored.
        said: The others in order: what is new, and what callers who send the whole chat, or its
            last messages, send along. Empty to go on with the turn as it stands.
        human: What the user says now, the last of them; None where a turn goes on.
        extra: What else a dict held, for the inner chain.
    """

    instructions: Sequence[BaseMessage] = ()
    said: Sequence[BaseMessage] = ()
    human: HumanMessage | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def find_results(said: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the results of tools at the end of what is said, which an open turn goes on with."""
    found: list[ToolMessage] = []
    for message in reversed(said):
        if not isinstance(message, ToolMessage):
            break
        found.insert(0, message)
    return found


def read_input(
    value: Any, *, input_messages_key: str | None = None, history_messages_key: str | None = None
) -> CallInput:
    """Read the input of a call, in any form that `read_messages` accepts.

    Args:
        value: The input; `None`, or results of tools alone, go on with a turn whose calls are open.
            A dict may hold `{"messages": ...}`, or the user's words under `input_messages_key`,
            earlier messages under `history_messages_key`, and further keys for the inner chain.
        input_messages_key: Key of what is said; None is `input`.
        history_messages_key: Key of what was said before; None is `history`.

    Raises:
        InvalidMessageError: If it cannot be answered: it has no message, one that the
            assistant said last, or a blank one of the user.
    """
    extra: Mapping[str, Any] = {}
    if isinstance(value, Mapping) and not _is_message(value):
        value, extra = _take_keys(value, input_messages_key, history_messages_key or "history")
    if value is None:
        return CallInput(extra=extra)
    if isinstance(value, int | float | bytes | bytearray):
        msg = f"the input is of type {type(value).__name__}; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    instructions, said = _split_instructions(read_messages(value))
    if not said:
        kind = type(value).__name__
        msg = f"the input is a {kind} without any message; {MESSAGE_FORMS}"
        raise InvalidMessageError(msg)
    last = said[-1]
    if not isinstance(last, HumanMessage | ToolMessage):
        msg = (
            f"the input ends with an {type(last).__name__}; it must end with what the user says, "
            "or with results of tools. Put messages into the thread with memory.add_messages()"
        )
        raise InvalidMessageError(msg)
    check_question(last)
    human = last if isinstance(last, HumanMessage) else None
    return CallInput(instructions, said, human, extra)


def check_question(message: BaseMessage) -> None:
    """Refuse a blank message of the user.

    Raises:
        InvalidMessageError: If it has neither text nor media.
    """
    if not isinstance(message, HumanMessage):
        return
    content = message.content
    if isinstance(content, str):
        is_blank = not content.strip()
    else:
        media = [b for b in content if not isinstance(b, str) and b.get("type") != "text"]
        is_blank = not media and not get_text_pieces(message)
    if is_blank:
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")


def mark_unstored(message: BaseMessage) -> BaseMessage:
    """Return the message marked as one that is never stored."""
    marked = {**message.additional_kwargs, "remember": False}
    return message.model_copy(update={"additional_kwargs": marked})


def _split_instructions(
    messages: Iterable[BaseMessage],
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return system messages, and the others; a chat message of a user's role as what it is."""
    instructions: list[BaseMessage] = []
    said: list[BaseMessage] = []
    for message in messages:
        role = get_role(message)
        if role == "system":
            instructions.append(message)
        elif role == "user" and not isinstance(message, HumanMessage):
            said.append(change_class(message, HumanMessage))
        else:
            said.append(message)
    return instructions, said


def _is_message(value: Mapping[Any, Any]) -> bool:
    is_named = "role" in value or isinstance(value.get("type"), str)
    return is_named and ("content" in value or "data" in value or "tool_calls" in value)


def _take_keys(
    value: Mapping[Any, Any], input_messages_key: str | None, history_messages_key: str
) -> tuple[Any, Mapping[str, Any]]:
    """Return what a dict says, and its other keys."""
    key = input_messages_key or next(
        (name for name in ("input", "messages") if name in value), "input"
    )
    if key not in value:
        keys = sorted(map(describe_name, value))
        msg = (
            f"a dict input needs the key {key!r}; got {keys}. Name the key of what the user says "
            "with wrap(..., input_messages_key=...)"
        )
        raise InvalidMessageError(msg)
    said, before = value[key], value.get(history_messages_key)
    taken = {key}
    if said is not None and history_messages_key != key and _is_list(before):
        taken.add(history_messages_key)
        said = [*_list_items(before), *_list_items(said)]
    return said, {str(name): item for name, item in value.items() if name not in taken}


def _is_list(value: Any) -> bool:
    return value is not None and not isinstance(value, str) and unpack_messages(value) is not None


def _list_items(value: Any) -> list[Any]:
    items = unpack_messages(value)
    return [value] if items is None else items


# -- What of a list is new ----------------------------------------------------------------------
_COMPARED = 200
"""So many of the latest messages of the user are compared, in the thread and in the list."""

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
        is_certain: Whether older entries of the thread could not change this.
    """

    new: Sequence[BaseMessage] = ()
    again: Entry | None = None
    replaces: Entry | None = None
    is_certain: bool = True


def _keep_unchanged(message: BaseMessage) -> BaseMessage | None:
    return message


def join_thread(
    log: MessageLog, thread: LiveThread, said: Sequence[BaseMessage], stored_form: StoredForm
) -> tuple[LiveThread, Joined]:
    """Find where the messages of a call join a thread, and read all of it if that takes it.

    Returns:
        The thread, all of it where that was read, and what is new; see `join`.
    """
    joined = join(thread.entries, said, stored_form=stored_form)
    if joined.is_certain or not thread.floor:
        return thread, joined
    thread = read_all(log, thread)
    return thread, join(thread.entries, said, stored_form=stored_form)


def join(
    entries: Sequence[Entry],
    said: Sequence[BaseMessage],
    *,
    stored_form: StoredForm = _keep_unchanged,
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
    entries = _drop_void(entries)
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    forms = [stored_form(message) for message in said]
    if _is_user(said[-1]):
        forms[-1] = forms[-1] or said[-1]  # compared, also where it is not stored
        named = _find_named(live, said[-1])
        if named is not None:
            is_same = _fold(named.message) == _fold(forms[-1])
            return Joined(again=named) if is_same else Joined(said[-1:], replaces=named)
    told = [n for n, form in enumerate(forms) if form is not None and _is_user(form)][-_COMPARED:]
    users = [entry for entry in entries if entry.role == "user"][-_COMPARED:]
    matches = _match_users(users, [(said[number].id, forms[number]) for number in told])
    counts = _count_common(matches, len(users))
    is_certain = counts[-2:-1] in ([], [len(told) - 1])
    latest = next((entry for entry in reversed(live) if entry.role == "user"), None)
    last = counts.index(counts[-1]) if counts and counts[-1] else None
    if last is None:
        return Joined(_list_new(entries, live, latest, said, forms), is_certain=is_certain)
    anchor: Entry | None = users[matches[last].bit_length() - 1]
    rest = told[last] + 1
    if rest == len(said) and live[-1:] == [anchor]:
        return Joined(again=anchor, is_certain=is_certain)
    if rest == len(said):  # asked anew, with results that open calls wait for
        anchor, rest = latest, rest - 1 - len(find_results(said[:-1]))
    new = _list_new(entries, live, anchor, said[rest:], forms[rest:])
    return Joined(new, is_certain=is_certain)


def _find_named(live: Sequence[Entry], asked: BaseMessage) -> Entry | None:
    """Return the user's entry that has the id of a message."""
    if asked.id is None:
        return None
    named = (one for one in reversed(live) if asked.id in (one.message_id, one.id))
    entry = next(named, None)
    return entry if entry is not None and entry.role == "user" and entry.message else None


def _match_users(
    users: Sequence[Entry], messages: Iterable[tuple[str | None, BaseMessage | None]]
) -> list[int]:
    """Return for each message, by its id and form, which entries it may be: bit n for entry n."""
    by_text: dict[str, int] = {}
    by_id: dict[str | None, int] = {}
    unnamed = 0
    for number, entry in enumerate(users):
        bit, text = 1 << number, _fold(entry.message)
        by_text[text] = by_text.get(text, 0) | bit
        by_id[entry.message_id] = by_id[entry.id] = bit
        if entry.message is None or not entry.message.id:
            unnamed |= bit
    by_text.pop("", None)
    matches = []
    for own, message in messages:
        same = by_text.get(_fold(message), 0)
        matches.append(same if own is None else by_id.get(own, same & unnamed))
    return matches


def _count_common(matches: Sequence[int], size: int) -> list[int]:
    """Return how many messages the thread has, in its order, of each beginning of a list.

    The length of the longest common subsequence, after Hyyro: a zero bit in `row` is a place of the
    thread where one more message is matched.

    Args:
        matches: For each message of the list, the places that it matches, as bits.
        size: How many places there are.
    """
    every = (1 << size) - 1
    row, counts = every, []
    for places in matches:
        hit = row & places
        row = ((row + hit) | (row - hit)) & every
        counts.append(size - row.bit_count())
    return counts


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
    is_over = anchor is not None and (anchor not in live or _is_answered(live, anchor))
    new: list[BaseMessage] = []
    is_reply = True
    for message, form in zip(said, forms, strict=True):
        is_reply = is_reply and not _is_user(message)
        if form is None or (message.id in ids and message is not said[-1]):
            continue
        if not is_reply or not (is_over or _is_known(form, entries)):
            new.append(message)
    return new


def _is_answered(live: Sequence[Entry], asked: Entry) -> bool:
    """Return whether a reply without calls follows a message, before the user's next one."""
    for entry in live[live.index(asked) + 1 :]:
        if entry.role == "user":
            return False
        if _is_last_word(entry):
            return True
    return False


def _is_known(message: BaseMessage, entries: Sequence[Entry]) -> bool:
    """Return whether a thread has a reply, calls, or a result."""
    calls = {call["id"] for entry in entries for call in find_calls(entry.message)}
    if isinstance(message, ToolMessage):
        results = [one.message for one in entries if isinstance(one.message, ToolMessage)]
        return message.tool_call_id in {result.tool_call_id for result in results}
    own = find_calls(message)
    if own:
        return all(call["id"] in calls for call in own)
    role, text = get_role(message), _fold(message)
    return any(entry.role == role and _fold(entry.message) == text for entry in entries)


def _is_user(message: BaseMessage) -> bool:
    return get_role(message) == "user"


def _fold(message: BaseMessage | None) -> str:
    """Return a message's text, however it is cut into blocks or lines, and the user's media."""
    if message is None:
        return ""
    content = message.content
    if isinstance(content, str):
        return " ".join(content.split())
    text = " ".join(str(message.text).split())
    media = [
        block for block in content if not isinstance(block, str) and block.get("type") != "text"
    ]
    if not (media and _is_user(message)):
        return text
    return text + dump_json(make_plain(media), what="media")


def _drop_void(entries: Sequence[Entry]) -> Sequence[Entry]:
    """Return the entries without turns that failed: what was said in them is said again."""
    controls = [one.control for one in entries if one.control is not None]
    void = {
        name for one in controls if one.reason in ("failed", "cancelled") for name in one.retracts
    }
    return [entry for entry in entries if entry.id not in void] if void else entries


# -- A turn that goes on --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ContinuedTurn:
    """A turn that goes on with the results of its tools.

    Attributes:
        asked: The user's entry that it answers.
        kept: Ids of its entries that come before what is answered now.
        results: Results that the call brings, each with an id that it has in every attempt.
        turn_id: The turn in the log, of the last that is kept: messages that were added one by one
            are turns of their own.
    """

    asked: Entry
    kept: frozenset[str]
    results: Sequence[ToolMessage]
    turn_id: str


def continue_turn(entries: Sequence[Entry], results: Sequence[ToolMessage]) -> ContinuedTurn:
    """Return what a call goes on with: all that followed the user's last words in the thread.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        results: Results of its calls; none to go on with what the thread has.

    Raises:
        InvalidMessageError: If nothing since then makes a call that a result answers, or if it
            came to its end and there is nothing to go on with.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    turn = live[_find_last_asked(live) :]
    if not turn or turn[0].role != "user" or (not results and _is_last_word(turn[-1])):
        brought = "results of tools" if results else "None"
        msg = (
            f"there is nothing to go on with: the input is {brought}"
            ", and the thread has no turn with open tool calls; pass what the user says"
        )
        raise InvalidMessageError(msg)
    named = [_name_own_result(result, turn) for result in results]
    ends = [number for number, entry in enumerate(turn) if _is_caller(entry, named)]
    end = max(ends, default=len(turn) - 1)
    while end + 1 < len(turn) and turn[end + 1].role == "tool":
        end += 1
    kept = turn[: end + 1]
    return ContinuedTurn(turn[0], frozenset(one.id for one in kept), named, kept[-1].turn_id)


def _find_last_asked(live: Sequence[Entry]) -> int:
    """Return where the user's last words begin: messages of one turn in a row are one question."""
    users = [number for number, entry in enumerate(live) if entry.role == "user"]
    first = users[-1] if users else 0
    while users and first - 1 in users and live[first - 1].turn_id == live[first].turn_id:
        first -= 1
    return first


def _is_last_word(entry: Entry) -> bool:
    """Return whether an entry ends a turn: a reply without calls that is not paused."""
    is_open = bool(find_calls(entry.message)) or is_paused(entry.message)
    return entry.role == "assistant" and not is_open


def _is_caller(entry: Entry, results: Iterable[ToolMessage]) -> bool:
    """Return whether an entry makes one of the calls."""
    wanted = {result.tool_call_id for result in results}
    return any(call["id"] in wanted for call in find_calls(entry.message))


def _name_own_result(result: ToolMessage, turn: Sequence[Entry]) -> ToolMessage:
    """Return a result of a call of the turn under an id of its own; see `name_result`.

    Raises:
        InvalidMessageError: If no reply of the turn makes its call.
    """
    caller = next(
        (
            entry
            for entry in reversed(turn)
            if any(call["id"] == result.tool_call_id for call in find_calls(entry.message))
        ),
        None,
    )
    if caller is None:
        msg = (
            f"the tool result for {result.tool_call_id!r} answers no call of the thread's last "
            "turn; pass results of the calls that the last reply made"
        )
        raise InvalidMessageError(msg)
    return name_result(result, caller.key, caller.turn_id, caller.message_id)


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
