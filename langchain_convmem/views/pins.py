"""Pinned facts: words that stay in view, as they were said, however long a thread becomes.

A pin is a control entry that retracts nothing and holds the words. It counts as long as it is not
taken back and its message still says the words; what is undone or edited takes its pins along, and
what brings it back brings them back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import BudgetError, ConfigError, InvalidMessageError
from langchain_convmem.records import Control, Draft, Entry, Metadata
from langchain_convmem.views.codec import clean_text, get_line_time_ms
from langchain_convmem.views.lines import format_day, indent_text, name_speaker
from langchain_convmem.views.live import find_live_entries, find_retracted_ids
from langchain_convmem.views.summaries import check_pieces
from langchain_convmem.views.tokens import count_text_tokens

PINS_HEADING = "Pinned, word for word:"
MAX_PINS = 32
"""How many pins a thread has at most."""
MAX_PIN_TOKENS = 2_000
"""How many tokens the pins of a thread take at most."""

FORKED_FROM = "forked_from"
"""Key in `aux` of a forked entry: `thread_id` and `entry_id` of what it is a copy of."""

_KEY = "pin"
"""Key in `aux` of a pin's entry: where its words come from."""


@dataclass(frozen=True, slots=True)
class Pin:
    """Words that stay in view.

    Attributes:
        id: Id of its entry in the log.
        text: The words.
        message_id: The message, or the summary, that says them; None for the application's own.
        speaker: Who said them; empty for the application's own.
        time_ms: When, milliseconds since the epoch; None for the application's own.
    """

    id: str
    text: str
    message_id: str | None = None
    speaker: str = ""
    time_ms: int | None = None

    def __str__(self) -> str:
        day = "" if self.time_ms is None else format_day(self.time_ms)
        said = ", ".join(filter(None, [self.speaker, day]))
        return indent_text(f"{said}: {self.text}" if said else self.text)


def format_pins(pins: Sequence[Pin]) -> str:
    """Return pins as a model reads them, one below the other; empty without any."""
    return "\n".join([PINS_HEADING, *(f"- {clean_text(str(pin))}" for pin in pins)] if pins else [])


# -- Which pins count -----------------------------------------------------------------------------
def find_pins(entries: Sequence[Entry]) -> list[Pin]:
    """Return the pins that count, in the order of pinning.

    Args:
        entries: A thread's entries by ascending position, control entries included. Where a pin's
            message is not among them, nothing was done to it.
    """
    return [read_pin(entry) for entry in find_pin_entries(entries)]


def find_pin_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries of the pins that count; see `find_pins`."""
    pinned = [entry for entry in entries if is_pin(entry)]
    if not pinned:
        return []
    dead = find_retracted_ids(entries)
    return [one for one in pinned if one.id not in dead and _is_said(one, entries, dead)]


def is_pin(entry: Entry) -> bool:
    """Return whether an entry pins something, whether it counts or not."""
    return entry.control is not None and isinstance(entry.metadata.aux.get(_KEY), Mapping)


def find_pins_over(entries: Sequence[Entry], gone: Collection[str]) -> list[str]:
    """Return the ids of the pins, taken back or not, whose words go with these entries.

    Args:
        entries: A thread's entries, those that go among them.
        gone: Ids of entries.
    """
    named = {entry.message_id for entry in entries if entry.id in gone and entry.control is None}
    left = [entry for entry in entries if entry.id not in gone]
    over = [one for one in entries if is_pin(one) and read_pin(one).message_id in named]
    return [one.id for one in over if not _find_saying(one, left)]


def _is_said(pinned: Entry, entries: Iterable[Entry], dead: Collection[str]) -> bool:
    """Return whether the message of a pin still says its words, as far as can be seen."""
    versions = _find_versions(pinned, entries)
    if not versions or versions[0].role == "summary":
        return True  # a summary that is taken back was a summary of the same words
    return any(one.id not in dead for one in _find_saying(pinned, versions))


def _find_versions(pinned: Entry, entries: Iterable[Entry]) -> list[Entry]:
    name = read_pin(pinned).message_id
    return [one for one in entries if one.control is None and one.message_id == name]


def _find_saying(pinned: Entry, entries: Iterable[Entry]) -> list[Entry]:
    """Return the versions of a pin's message that say its words."""
    words = "\n".join(pinned.contents)
    return [one for one in _find_versions(pinned, entries) if words in "\n".join(one.contents)]


def read_pin(entry: Entry) -> Pin:
    """Return the pin of an entry that `is_pin`."""
    known: Mapping[str, Any] = entry.metadata.aux[_KEY]
    time_ms = known.get("time_ms")
    return Pin(
        entry.id,
        "\n".join(entry.contents),
        known.get("message_id"),
        str(known.get("speaker", "")),
        time_ms if isinstance(time_ms, int) else None,
    )


# -- Pinning, and taking it back ------------------------------------------------------------------
def find_pinned_text(entries: Sequence[Entry], text: str | None, message_id: str | None) -> str:
    """Return the words that are to be pinned, without white space around them.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        text: The words; None is all that the message says.
        message_id: The message that says them, by its id or its entry's.

    Raises:
        ConfigError: If neither is given, or the thread shows no such message.
        InvalidMessageError: If there are no words, or the message does not say them.
    """
    if text is None and message_id is None:
        raise ConfigError("pin() takes words, the id of a message, or both; got neither")
    said = text or ""
    if message_id is not None:
        said = "\n".join(_find_message(find_live_entries(entries), message_id).contents)
    words = check_pieces([said if text is None else text], what="what is pinned")[0].strip()
    if words not in said:
        msg = f"message {message_id!r} does not say what is to be pinned; pass words of it"
        raise InvalidMessageError(msg)
    return words


def find_pin_source(
    entries: Sequence[Entry], text: str, message_id: str | None = None
) -> Entry | None:
    """Return what says the words: the message that was named, or the latest one that does.

    Where no message says them, that is a summary that does; None if they are the application's own.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        text: The words, as they are stored.
        message_id: Where they come from, by the message's id or its entry's.

    Raises:
        ConfigError: If the thread shows no such message.
    """
    live = find_live_entries(entries)
    if message_id is not None:
        return _find_message(live, message_id)
    saying = [entry for entry in live if text in "\n".join(entry.contents)]
    return max(saying, key=lambda one: (one.role != "summary", one.position), default=None)


def _find_message(live: Sequence[Entry], message_id: str) -> Entry:
    for entry in reversed(live):
        if message_id in (entry.id, entry.message_id):
            return entry
    raise ConfigError(f"there is no message {message_id!r} in the thread's view")


def draft_pin(text: str, source: Entry | None, known: Sequence[Pin]) -> Draft:
    """Return the entry that pins words.

    Args:
        text: The words.
        source: What says them; None for the application's own.
        known: The thread's pins.

    Raises:
        BudgetError: If there are too many, or too long ones.
    """
    _check_room(text, known)
    made: dict[str, Any] = {"message_id": None, "speaker": "", "time_ms": None}
    if source is not None:
        said_ms = None if source.message is None else get_line_time_ms(source.message)
        time_ms = source.metadata.timing.get("creation") if said_ms is None else said_ms
        speaker = name_speaker(source)
        made = {"message_id": source.message_id, "speaker": speaker, "time_ms": time_ms}
    return _make_draft((text,), Metadata(aux={_KEY: made}))


def _make_draft(contents: tuple[str, ...], metadata: Metadata) -> Draft:
    # A control entry needs a reason, though this one retracts nothing.
    control = Control((), "rewind")
    return Draft(role="control", contents=contents, control=control, metadata=metadata)


def _check_room(text: str, known: Sequence[Pin]) -> None:
    if len(known) >= MAX_PINS:
        msg = f"the thread has {len(known)} pins already; take one back with unpin()"
        raise BudgetError(msg, needed=len(known) + 1, available=MAX_PINS)
    needed = sum(count_text_tokens(one) for one in [text, *(pin.text for pin in known)])
    if needed > MAX_PIN_TOKENS:
        msg = (
            f"the thread's pins would take {needed} tokens of every context, and {MAX_PIN_TOKENS} "
            "may be pinned; pin a sentence instead, or take a pin back with unpin()"
        )
        raise BudgetError(msg, needed=needed, available=MAX_PIN_TOKENS)


def plan_unpin(entries: Sequence[Entry], pin: Pin | str) -> list[Draft]:
    """Return the control entry that takes back the pins of an id or of words; nothing for none.

    Raises:
        ConfigError: If it is neither a pin nor text.
    """
    name = pin.id if isinstance(pin, Pin) else pin
    if not isinstance(name, str) or not name:
        raise ConfigError(f"unpin() takes a pin, its id or its words, got {describe_value(pin)}")
    ids = tuple(one.id for one in find_pins(entries) if name in (one.id, one.text))
    return [Draft(role="control", control=Control(ids, "undo"))] if ids else []


# -- Forks ----------------------------------------------------------------------------------------
def fork_pins(
    entries: Sequence[Entry], copies: Mapping[str, Entry], there: Iterable[Entry]
) -> list[Draft]:
    """Return the pins of a thread for a fork of it: all but those of messages that do not go along.

    Args:
        entries: The thread's entries.
        copies: The copies of messages and summaries, by the id of what they are copies of.
        there: What the fork holds already, if it was cut short.
    """
    done = {entry.metadata.aux.get(FORKED_FROM, {}).get("entry_id") for entry in there}
    names = {one.message_id: copies[one.id].message_id for one in entries if one.id in copies}
    said = {one.message_id for one in entries if one.control is None and one.role != "summary"}
    drafts: list[Draft] = []
    for entry in find_pin_entries(entries):
        name = read_pin(entry).message_id
        if entry.id not in done and (name in names or name not in said):
            known = add_origin(entry)
            made = {**known.aux[_KEY], "message_id": names.get(name or "", name)}
            metadata = replace(known, aux={**known.aux, _KEY: made})
            drafts.append(_make_draft(entry.contents, metadata))
    return drafts


def add_origin(entry: Entry) -> Metadata:
    """Return an entry's metadata for a copy of it in a fork."""
    origin = {"thread_id": entry.key.thread_id, "entry_id": entry.id}
    return replace(entry.metadata, aux={**entry.metadata.aux, FORKED_FROM: origin})
