"""What a context promises beside being valid: nothing vanishes unsaid, and the question stays."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Self

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.records import Entry
from langchain_convmem.testing.log_contract import read_backwards
from langchain_convmem.turns.view import LiveThread
from langchain_convmem.views.codec import clean_text
from langchain_convmem.views.content import find_compactions
from langchain_convmem.views.context import (
    LEFT_OUT_ID,
    LEFT_OUT_TEXT,
    Context,
    LiveReach,
    build_context,
)
from langchain_convmem.views.live import find_live_entries, find_uncovered
from langchain_convmem.views.messages import SUMMARY_SOURCE, count_tokens
from langchain_convmem.views.providers import resolve_provider
from tests.fuzz.generator import KEY
from tests.fuzz.validators import VALIDATORS

SEES_NAMES = ("openai", "openai_responses")


@dataclass(frozen=True)
class Thread:
    """A thread and what follows from its entries, whatever the profile."""

    entries: Sequence[Entry]
    uncovered: Sequence[Entry]
    people: frozenset[str]

    @classmethod
    def from_chain(cls, entries: Sequence[Entry]) -> Self:
        """Return the thread of these entries."""
        live = find_live_entries(entries)
        said = find_uncovered(live)
        people = {e.message.name for e in said if e.role == "user" and e.message and e.message.name}
        return cls(entries, said, frozenset(people))


def _is_judged(thread: Thread) -> bool:
    """Return whether the rules hold for the whole view: what goes on is sent as it is said."""
    spoken = [entry for entry in thread.uncovered if entry.role != "system"]
    asked = [*takewhile(lambda entry: entry.role == "user", reversed(spoken))]
    before = spoken[: len(spoken) - len(asked)]
    is_plain = all(entry.message and isinstance(entry.message.content, str) for entry in asked)
    return is_plain and (not before or before[-1].role == "assistant")


def broken_promises(thread: Thread, profile: str) -> list[str]:
    """Return which promises the whole view of a thread breaks, and what its provider refuses."""
    shown = build_context(thread.entries, provider=profile)  # type: ignore[arg-type]  # one of the names
    faults = VALIDATORS[profile](shown.messages) if _is_judged(thread) else []
    faults += _unaccounted(thread, shown)
    faults += _silenced(thread, shown, profile)
    if shown.tokens != count_tokens(shown.messages):
        faults.append(f"counts {shown.tokens} tokens where there are others")
    return faults


def _unaccounted(thread: Thread, shown: Context) -> Iterator[str]:
    """Yield entries that are neither shown nor named among the repairs."""
    named = "\n".join(shown.repairs)
    for entry in thread.uncovered:
        if entry.position not in shown.positions and f"left out {entry.message_id}:" not in named:
            yield f"drops {entry.message_id} ({entry.role}) without a word"


def _silenced(thread: Thread, shown: Context, profile: str) -> Iterator[str]:
    """Yield texts and names of people that the model cannot see."""
    said = [message for message in shown.messages if isinstance(message, HumanMessage)]
    # Further lines of a text under a name are indented, by which only white space changes.
    whole = " ".join(" ".join(str(message.text) for message in said).split())
    names = {message.name for message in said} if profile in SEES_NAMES else frozenset()
    for entry in thread.uncovered:
        if entry.role != "user" or entry.position not in shown.positions:
            continue
        if not all(" ".join(clean_text(text).split()) in whole for text in entry.contents):
            yield f"changes the words of {entry.message_id}"
        name = entry.message.name if entry.message is not None else None
        label = clean_text(" ".join((name or "").split()))
        if label and len(thread.people) > 1 and name not in names and f"{label}:" not in whole:
            yield f"hides that {name!r} said {entry.message_id}"


def budget_faults(thread: Thread, profile: str, rng: random.Random) -> list[str]:
    """Return what is wrong with the view of a thread within a random budget."""
    place = rng.choice(("user", "user", "system", "omit"))
    whole = build_context(thread.entries, provider=profile, summary=place)  # type: ignore[arg-type]
    budget = rng.randint(1, max(whole.tokens, 1))
    needed = count_tokens(_never_cut(whole.messages))
    options: dict[str, Any] = {"provider": profile, "summary": place, "max_tokens": budget}
    shortens = rng.random() < 0.5
    try:
        cut = build_context(thread.entries, shorten=shortens, **options)
    except BudgetError as error:
        is_least = error.needed <= needed if shortens else error.needed == needed
        is_right = budget < error.needed and is_least and error.available == budget
        return [] if is_right else [f"refuses {budget} tokens saying {error}; needed: {needed}"]
    faults = VALIDATORS[profile](cut.messages)
    if cut.tokens > budget or (budget < needed and not shortens):
        faults.append(f"makes {cut.tokens} tokens of a budget of {budget}, {needed} needed")
    # Where it does not fit, what users said and tools found is shown cut, and nothing else.
    may_differ = {"human", "tool"} if budget < needed else set()
    before, after = _never_cut(whole.messages), _never_cut(drop_note(cut))
    kept = [one.content for one in before if one.type not in may_differ]
    if [one.content for one in after if one.type not in may_differ] != kept:
        faults.append("cuts the latest exchange")
    if [one.type for one in before] != [one.type for one in after]:
        faults.append("leaves out a message of the latest exchange")
    if cut.is_cut is not any("left out older messages" in one for one in cut.repairs):
        faults.append(f"is_cut is {cut.is_cut}")
    return faults


def drop_note(view: Context) -> list[BaseMessage]:
    """Return the messages of a view without the line on what it leaves out."""
    kept = []
    for message in view.messages:
        update = {"content": message.content}
        if message.additional_kwargs.get("source") == SUMMARY_SOURCE:
            update = {"content": str(message.content).replace(f"\n\n{LEFT_OUT_TEXT}\n</", "\n</")}
        if message.id not in (LEFT_OUT_ID, f"{LEFT_OUT_ID}-noted"):
            kept.append(message.model_copy(update=update))
    return kept


def _never_cut(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the system messages, what stands for what was said before, and the latest exchange."""
    users = [number for number, message in enumerate(messages) if message.type == "human"]
    latest = users[-1] if users else 0
    kept = []
    for message in messages[:latest]:
        marked = str(message.additional_kwargs.get("source")).startswith("convmem_summary")
        if message.type == "system" or marked:
            kept.append(message)
    return [*kept, *messages[latest:]]


def faults_of_reading_back(thread: Thread, profile: str, rng: random.Random) -> list[str]:
    """Return what differs where a thread is read backwards for a budget, in pages of any size."""
    budget = rng.choice((None, rng.randint(1, 400)))
    reach = LiveReach(budget, count_tokens)
    pages = read_backwards(thread.entries, reach, page=rng.randint(1, 8))
    if not reach.is_certain(pages):
        return []  # the thread is read whole then
    read = reach.select_needed(pages)
    options: dict[str, Any] = {"provider": profile, "max_tokens": budget}
    cut_at = budget if reach.is_cut else None
    shown = LiveThread(KEY, read, reach.floor, cut_at).build_view(**options)
    if shown is None:
        return []  # more is read then
    whole = build_context(thread.entries, **options)
    has_items = any(find_compactions(entry.message) for entry in thread.uncovered)
    if reach.is_cut and (has_items or len(thread.people) > 1):
        return []  # these count as far as the budget reaches
    if (shown.positions, shown.is_cut) != (whole.positions, whole.is_cut):
        return [f"shows other messages within {budget} where it reads from {reach.floor} on"]
    in_place = resolve_provider(profile).system == "in_place"  # type: ignore[arg-type]  # one of the names
    leaves = "system" if reach.is_cut and in_place else None
    if without_numbering(shown, leaves) != without_numbering(whole, leaves):
        return [f"shows something else within {budget} where it reads from {reach.floor} on"]
    return []


def without_numbering(view: Context, leaves: str | None = None) -> list[str]:
    """Return the messages as text, alike where ids and names are told apart in another way.

    Calls that repeat an id, and files that repeat a name, are told apart by what is in view.

    Args:
        view: The view.
        leaves: A type of messages to leave out.
    """
    fields = [
        message.model_dump(exclude={"tool_calls", "tool_call_id"})
        for message in view.messages
        if message.type != leaves
    ]
    return [
        re.sub(r"-\d+'", "'", repr({**each, "content": str(each["content"])})) for each in fields
    ]
