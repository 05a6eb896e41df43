"""What a call brings, for every host of a turn: its messages, and what of a list is new."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.causes import describe_name
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import derive_ulid, get_ulid_ms, is_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.view import SPOKEN
from langchain_convmem.views.codec import dump_json, get_role, get_text_pieces, make_plain
from langchain_convmem.views.live import find_live_entries, find_uncovered
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

    @property
    def continues(self) -> bool:
        """Whether a turn goes on whose calls were answered, rather than a new one begins."""
        return self.human is None

    @property
    def results(self) -> list[ToolMessage]:
        """Results of tools at the end, which an open turn goes on with."""
        found: list[ToolMessage] = []
        for message in reversed(self.said):
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


_ALIKE = 0.6
"""This share of the words, or of the characters, an edit has from what it replaces."""


_COMPARED_CHARS = 1000


_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Reconciled:
    """How a list of messages relates to a thread.

    Attributes:
        new: What is to be stored, in order; the last is what the user says.
        context_only: What only the model of this call sees.
        context_before: The entry that it stands before; None for what is new.
        again: The user's entry that is answered once more; nothing is new then.
        replaces: The user's entry in whose place the last new message stands; all that was said
            after it is retracted.
    """

    new: Sequence[BaseMessage] = ()
    context_only: Sequence[BaseMessage] = ()
    context_before: Entry | None = None
    again: Entry | None = None
    replaces: Entry | None = None


def _keep_unchanged(message: BaseMessage) -> BaseMessage | None:
    return message


def reconcile(
    entries: Sequence[Entry],
    said: Sequence[BaseMessage],
    *,
    is_whole: bool = True,
    stored_form: Callable[[BaseMessage], BaseMessage | None] = _keep_unchanged,
) -> Reconciled | None:
    """Work out how the messages of a call relate to a thread.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        said: Messages, none of them a system message; the last is the user's and not blank.
        is_whole: Whether these are all entries of the thread, or those that its next view needs.
        stored_form: Returns what the thread stores of a message; None if nothing.

    Returns:
        What they mean; None if it takes all entries to tell.
    """
    if len(said) == 1:
        return _reconcile_one(entries, said[0], stored_form(said[0]) or said[0])
    return _Comparison(entries, said, stored_form, is_whole=is_whole).reconcile()


def reconcile_thread(
    log: MessageLog,
    thread: LiveThread,
    said: Sequence[BaseMessage],
    stored_form: Callable[[BaseMessage], BaseMessage | None],
) -> tuple[LiveThread, Reconciled]:
    """Return what the messages of a call mean for a thread; see `reconcile`.

    Returns:
        The thread, all of it where that had to be read, and what they mean.
    """
    is_whole = not thread.floor
    meant = reconcile(thread.entries, said, is_whole=is_whole, stored_form=stored_form)
    if meant is None:
        thread = read_all(log, thread)
        meant = reconcile(thread.entries, said, stored_form=stored_form)
    return thread, cast("Reconciled", meant)


def _reconcile_one(entries: Sequence[Entry], asked: BaseMessage, form: BaseMessage) -> Reconciled:
    """Return what one message means: the last one once more, if that was never answered.

    Args:
        entries: The thread's entries by ascending position.
        asked: What the user says.
        form: What the thread stores of it.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    if asked.id is not None:
        return _reconcile_named(live, asked, form) or Reconciled(new=[asked])
    last = live[-1] if live else None
    if last is not None and last.role == "user" and last.message is not None:
        text = _read_text(last.message)
        if text.strip() and text == _read_text(form):
            return Reconciled(again=last)
    return Reconciled(new=[asked])


def _reconcile_named(
    live: Sequence[Entry], asked: BaseMessage, form: BaseMessage
) -> Reconciled | None:
    """Return what a message means whose id is that of an entry of the user, if there is one."""
    named = (one for one in reversed(live) if asked.id in (one.message_id, one.id))
    entry = next(named, None)
    if entry is None or entry.role != "user" or entry.message is None:
        return None
    if _read_text(entry.message) == _read_text(form):
        return Reconciled(again=entry)
    return Reconciled(new=[asked], replaces=entry)


# -- What is compared -----------------------------------------------------------------------------
class _Item(NamedTuple):
    """A text of the user or of the assistant, in the thread or in a list."""

    role: str
    text: str
    id: str | None
    """The message's own, which the caller gave it."""
    place: int
    """Number of the message in the list, or of the entry among the live ones."""
    entry_id: str | None = None
    """The entry's, under which messages without an id are handed out."""


def _read_item(message: BaseMessage, place: int) -> _Item | None:
    """Return a message as it is compared; None for tool loops and for what says nothing."""
    role = get_role(message)
    if role not in ("user", "assistant") or find_calls(message):
        return None
    text = _read_text(message)
    return _Item(role, text, message.id, place) if text.strip() else None


def _read_text(message: BaseMessage) -> str:
    """Return a message's text, however it is cut into blocks, and its media, if it has any."""
    content = message.content
    if isinstance(content, str):
        return content
    media = [
        block for block in content if not isinstance(block, str) and block.get("type") != "text"
    ]
    text = str(message.text)
    return (
        text + dump_json(make_plain(media), what="media") if media and _is_user(message) else text
    )


def _is_user(message: BaseMessage) -> bool:
    return get_role(message) == "user"


def _is_same(stored: _Item, item: _Item, known: frozenset[str]) -> bool:
    """Return whether an item of the list is one of the thread."""
    if stored.role != item.role:
        return False
    if item.id is not None and item.id in known:
        return item.id in (stored.id, stored.entry_id)
    if item.role == "user" and item.id is not None and stored.id is not None:
        return False  # both have a name of their own
    return stored.text == item.text


# -- The comparison -------------------------------------------------------------------------------
class _Comparison:
    """A thread beside a list. Holds what is compared; changes nothing."""

    def __init__(
        self,
        entries: Sequence[Entry],
        said: Sequence[BaseMessage],
        stored_form: Callable[[BaseMessage], BaseMessage | None],
        *,
        is_whole: bool,
    ) -> None:
        self._entries = entries
        self._said = said
        self._is_whole = is_whole
        self._live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
        self._forms = [*map(stored_form, said[:-1]), stored_form(said[-1]) or said[-1]]
        self._list = list(_read_list(said, self._forms))
        self._known = frozenset(
            name for entry in self._live for name in (entry.message_id, entry.id)
        )

    @cached_property
    def _stored(self) -> list[_Item]:
        return list(_read_entries(self._live))

    def reconcile(self) -> Reconciled | None:
        found = self._compare()
        return None if found is None else self._add_greeting(found)

    def _compare(self) -> Reconciled | None:
        asked = self._list[-1]
        if asked.id in self._known:
            form = self._forms[-1] or self._said[-1]
            named = _reconcile_named(self._live, self._said[-1], form)
            if named is not None:
                return named
        stored, given = _drop_greeting(self._stored), _drop_greeting(self._list)
        users = [item for item in stored if item.role == "user"]
        asking = [item for item in given if item.role == "user"]
        pairs = [(stored, given), (users, asking)] if len(asking) > 1 else [(stored, given)]
        found = self._find_first(self._match_all, pairs) or self._find_first(
            self._match_beginning, pairs
        )
        if found is not None or not self._is_whole:
            return found
        return self._match_inside(stored, given) or self._take_last(stored, given)

    @staticmethod
    def _find_first(
        match: Callable[[Sequence[_Item], Sequence[_Item]], Reconciled | None],
        pairs: Iterable[tuple[Sequence[_Item], Sequence[_Item]]],
    ) -> Reconciled | None:
        """Return what is found with every text, or else with those of the user alone."""
        found = (match(stored, given) for stored, given in pairs)
        return next((one for one in found if one is not None), None)

    def _add_greeting(self, found: Reconciled) -> Reconciled:
        """Show what the assistant says before the first question, whatever the list means."""
        first = next((item for item in self._stored if item.role == "user"), None)
        begins = next(item for item in self._list if item.role == "user")
        if not self._is_whole or found.context_only or first is None:
            return found
        entry = self._live[first.place]
        greeting = self._list_unknown(0, begins.place)
        if not greeting or entry is found.replaces or not _is_same(first, begins, self._known):
            return found
        return replace(found, context_only=greeting, context_before=entry)

    def _replace(self, entry: Entry) -> Reconciled:
        return Reconciled(new=self._said[-1:], replaces=entry)

    # -- A match of the whole list ----------------------------------------------------------------

    def _match_all(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled | None:
        """Return what a list means of which all but the last message stands in the thread."""
        return (
            self._match_window(stored, given)
            or self._match_question(stored, given)
            or self._match_edit(stored, given)
        )

    def _are_same(self, stored: Sequence[_Item], given: Sequence[_Item]) -> bool:
        pairs = zip(stored, given, strict=True)
        return all(_is_same(one, other, self._known) for one, other in pairs)

    def _match_window(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled | None:
        """Return what a list means that is the end of the thread, with one more message or not."""
        size = len(given)
        if self._is_end(stored, given):
            return Reconciled(again=self._live[stored[-1].place])
        if size > 1 and self._is_end(stored, given[:-1]):
            return self._go_on(stored[1 - size], given[0], given[-2])
        return None

    def _is_end(self, stored: Sequence[_Item], given: Sequence[_Item]) -> bool:
        return len(given) <= len(stored) and self._are_same(
            stored[len(stored) - len(given) :], given
        )

    def _match_question(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled | None:
        size = len(given)
        if size == 1:
            return None  # nothing tells it from the same words said once more
        for end in range(len(stored), size - 1, -1):
            if self._are_same(stored[end - size : end], given):
                return Reconciled(again=self._live[stored[end - 1].place])
        return None

    def _match_edit(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled | None:
        """Return the edit of a message that the list says otherwise, if it is one."""
        *before, asked = given
        if not before or asked.id is not None or not self._is_whole:
            return None
        for start in self._find_beginnings(stored):
            end = start + len(before)
            if end < len(stored) and self._are_same(stored[start:end], before):
                old = stored[end]
                if old.role == "user" and _is_edit_of(old.text, asked.text):
                    return self._replace(self._live[old.place])
        return None

    def _find_beginnings(self, stored: Sequence[_Item]) -> Iterable[int]:
        """Return where the thread begins, for who sees all of it and who sees no archive."""
        shown = {entry.id for entry in find_uncovered(find_live_entries(self._entries))}
        numbers = (n for n, item in enumerate(stored) if self._live[item.place].id in shown)
        return dict.fromkeys((0, next(numbers, 0)))

    # -- A match of a part ------------------------------------------------------------------------

    def _match_beginning(
        self, stored: Sequence[_Item], given: Sequence[_Item]
    ) -> Reconciled | None:
        """Return what follows the longest beginning of the list that is the end of the thread."""
        for size in range(min(len(stored), len(given) - 2), 0, -1):
            if self._are_same(stored[-size:], given[:size]):
                return self._go_on(stored[-size], given[0], given[size - 1])
        return None

    def _match_inside(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled | None:
        """Return what follows the longest part of the list that is the end of the thread."""
        best = (0, 0)
        for end in range(1, len(given)):
            size = 0
            while size < min(end, len(stored)) and _is_same(
                stored[-1 - size], given[end - 1 - size], self._known
            ):
                size += 1
            best = max(best, (size, end))
        size, end = best
        if not any(item.role == "user" for item in given[end - size : end]):
            return None
        return self._go_on(stored[-size], given[end - size], given[end - 1])

    def _take_last(self, stored: Sequence[_Item], given: Sequence[_Item]) -> Reconciled:
        """Return the last message as what is new, and as context what the thread has never had."""
        size = 0
        for start in range(len(stored)):
            length = 0
            while (
                length < min(len(given) - 1, len(stored) - start)
                and _is_same(stored[start + length], given[length], self._known)
            ):  # fmt: skip
                length += 1
            size = max(size, length)
        after = given[size - 1].place + 1 if size else 0
        aside = self._list_unknown(after, len(self._said) - 1)
        while stored and aside and get_role(aside[0]) == "assistant":
            aside = aside[1:]  # a greeting would read as the end of the thread's last reply
        return Reconciled(new=self._said[-1:], context_only=aside)

    def _go_on(self, first: _Item, begins: _Item, last: _Item) -> Reconciled | None:
        """Return what a list means that goes on from the end of the thread; None as `reconcile`.

        Args:
            first: Where the match begins in the thread.
            begins: Where it begins in the list.
            last: Where it ends in the list.
        """
        tail = self._list_unknown(last.place + 1, len(self._said) - 1)
        if last.role == "user" and self._live[-1].role != "user":
            while tail and get_role(tail[0]) != "user":
                tail = tail[1:]  # the reply that the thread has, in another form
        head = self._list_unknown(0, begins.place)
        if (head or tail) and not self._is_whole:
            return None
        starts = {items[0].place for items in (self._stored, _drop_greeting(self._stored)) if items}
        if first.place not in starts and all(get_role(one) == "assistant" for one in head):
            head = []  # a reply whose question stands before the window
        new = [*tail, self._said[-1]]
        return Reconciled(new, head, self._live[first.place] if head else None)

    # -- What the thread has ----------------------------------------------------------------------

    def _list_unknown(self, start: int, end: int) -> list[BaseMessage]:
        """Return the messages of a part of the list that the thread has never had."""
        if start >= end:
            return []
        entries = [entry for entry in self._entries if entry.message is not None]
        ids = {name for entry in entries for name in (entry.message_id, entry.id)}
        texts = {(e.role, _read_text(e.message)) for e in entries if e.message is not None}
        calls = {call["id"] for entry in entries for call in find_calls(entry.message)}
        return [
            self._said[number]
            for number in range(start, end)
            if (form := self._forms[number]) is not None
            and form.id not in ids
            and not _is_known_message(form, texts, calls)
        ]


def _read_entries(live: Iterable[Entry]) -> Iterator[_Item]:
    for number, entry in enumerate(live):
        message = entry.message
        item = None if message is None else _read_item(message, number)
        if message is not None and item is not None:
            yield item._replace(id=message.id or None, entry_id=entry.id)


def _read_list(said: Sequence[BaseMessage], forms: Sequence[BaseMessage | None]) -> Iterator[_Item]:
    last = len(said) - 1
    for number, form in enumerate(forms):
        if form is not None and number == last:
            yield _Item("user", _read_text(form), said[last].id, last)
        elif form is not None and (item := _read_item(form, number)) is not None:
            yield item


def _drop_greeting(items: Sequence[_Item]) -> list[_Item]:
    first = next((n for n, item in enumerate(items) if item.role == "user"), len(items))
    return list(items[first:])


def _is_known_message(
    message: BaseMessage, texts: set[tuple[Any, str]], calls: set[str | None]
) -> bool:
    if isinstance(message, ToolMessage):
        return message.tool_call_id in calls
    own = find_calls(message)
    if own:
        return all(call["id"] in calls for call in own)
    return (get_role(message), _read_text(message)) in texts


def _is_edit_of(old: str, new: str) -> bool:
    """Return whether a text can be an edited form of another one: a guess that errs towards no."""
    one, other = (text.casefold().strip()[:_COMPARED_CHARS] for text in (old, new))
    words, others = set(_WORD.findall(one)), set(_WORD.findall(other))
    if words and others and len(words & others) >= _ALIKE * min(len(words), len(others)):
        return True
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    return matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE


# -- A turn that goes on --------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ContinuedTurn:
    """A turn that goes on with the results of its tools.

    Attributes:
        asked: The user's entry of the turn.
        kept: Ids of its entries that come before what is answered now.
        results: Results that the call brings, each with an id that it has in every attempt.
    """

    asked: Entry
    kept: frozenset[str]
    results: Sequence[ToolMessage]


def continue_turn(entries: Sequence[Entry], results: Sequence[ToolMessage]) -> ContinuedTurn:
    """Return the open turn of a thread that a call continues.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        results: Results of its calls; none to go on with what the thread has.

    Raises:
        InvalidMessageError: If the thread's last turn has no call that a result answers, or if it
            came to its end and there is nothing to go on with.
    """
    live = [
        entry for entry in find_live_entries(entries) if entry.role not in ("summary", "system")
    ]
    turn = [entry for entry in live if live and entry.turn_id == live[-1].turn_id]
    asked = next((entry for entry in turn if entry.role == "user"), None)
    brought = "results of tools" if results else "None"
    if asked is None or (not results and _is_over(turn)):
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
    return ContinuedTurn(asked, frozenset(entry.id for entry in turn[: end + 1]), named)


def _is_over(turn: Sequence[Entry]) -> bool:
    """Return whether a turn has its answer: its last message is a reply without calls."""
    return turn[-1].role == "assistant" and not find_calls(turn[-1].message)


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
