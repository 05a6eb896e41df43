"""A state that keeps the messages, and the log: what the log has to learn of it. Pure.

The state is what the user sees and edits, so the log follows: what is new is stored, a message
replaced under its id is replaced, and what was taken out of the state is taken out of the views.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import BaseMessage

from langchain_convmem.ids import new_ulid
from langchain_convmem.integrations.langgraph.moment import Mark, Moment, mark_of
from langchain_convmem.integrations.langgraph.rewinding import Branches, rewinding
from langchain_convmem.logs.rows import same_payload
from langchain_convmem.records import Draft, Entry
from langchain_convmem.views.codec import encode_body, role_of
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.live import live_entries

__all__ = ["edits", "latest_exchange", "news", "says"]


def latest_exchange(messages: Sequence[BaseMessage]) -> int:
    """Return where the latest exchange begins: with the newest message of the user, or at 0.

    What the user says in several messages without an answer is one beginning.
    """
    start = 0
    for number in reversed(range(len(messages))):
        if role_of(messages[number]) == "user":
            start = number
            if number == 0 or role_of(messages[number - 1]) != "user":
                break
        elif start:
            break
    return start


# -- what is new ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scribe:
    """Writes drafts of messages in the order of the state.

    Attributes:
        drafting: What is stored of a message.
        moment: Where the node stands.
        known: Entries by message id.
        after: Id of the latest message that is in the log, or will be.
        turn: Turn of the latest message.
        joins: Whether a message of the user goes on with what the user newly said.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
        same: Entries that say what the state says.
    """

    drafting: Drafting
    moment: Moment
    known: dict[str, Entry]
    after: str | None = None
    turn: str | None = None
    joins: bool = False
    is_heard: bool = True
    same: list[Entry] = field(default_factory=list)

    def drafts(self, messages: Iterable[BaseMessage]) -> Iterator[Draft]:
        """Yield a draft for every message that the log does not have as it is."""
        for message in messages:
            entry = self.known.get(message.id or "")
            self._place(message, entry)
            draft = self._draft(message)
            if role_of(message) == "user":
                self.is_heard = entry is not None or draft is not None
            if entry is not None and (draft is None or says(entry, draft)):
                self.same.append(entry)
            elif draft is not None and (self.is_heard or role_of(message) == "system"):
                yield draft
            else:
                continue
            self.after = message.id

    def _place(self, message: BaseMessage, entry: Entry | None) -> None:
        """Find the turn: what the user newly says begins one, up to the next answer."""
        role = role_of(message)
        if role == "system":
            return
        if entry is not None:
            self.turn = entry.turn_id
        elif self.turn is None or (role == "user" and not self.joins):
            self.turn = new_ulid()
        self.joins = role == "user" and entry is None

    def _draft(self, message: BaseMessage) -> Draft | None:
        turn_id = None if role_of(message) == "system" else self.turn
        metadata = self.moment.metadata("message", self.after)
        return self.drafting.draft(message, turn_id=turn_id, metadata=metadata)


def says(entry: Entry, draft: Draft) -> bool:
    """Return whether an entry holds what a draft does, the message's id aside."""
    told = Draft(role=entry.role, message=entry.message, contents=entry.contents)
    return same_payload(encode_body(told), encode_body(draft))


def _known(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the version of each message that a state was last seen with, else the latest.

    What was edited in the log since is not marked, and so not taken for what the state said.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.control is None and entry.role != "summary":
            before = found.get(entry.message_id)
            if before is None or mark_of(entry) is not None or mark_of(before) is None:
                found[entry.message_id] = entry
    return found


def news(
    drafting: Drafting,
    moment: Moment,
    found: Sequence[Entry],
    messages: Sequence[BaseMessage],
    start: int,
) -> list[Draft]:
    """Return what to append of the latest exchange.

    Args:
        drafting: What is stored of a message.
        moment: Where the node stands.
        found: The entries that have ids of the exchange, or of the message before it, by position.
        messages: All messages of the state.
        start: Where the exchange begins.
    """
    known = _known(found)
    before = messages[start - 1].id if start else None
    scribe = _Scribe(drafting, moment, known, after=before if before in known else None)
    return list(scribe.drafts(messages[start:]))


# -- what is gone --------------------------------------------------------------------------------


def edits(
    drafting: Drafting,
    moment: Moment,
    entries: Sequence[Entry],
    messages: Sequence[BaseMessage],
    *,
    follow: bool,
) -> list[Draft]:
    """Return what to append so that the log shows what the state holds.

    Args:
        drafting: What is stored of a message.
        moment: Where the node stands.
        entries: All entries of the thread.
        messages: All messages of the state.
        follow: Whether messages that were taken out of the state go out of the views as well.
    """
    scribe = _Scribe(drafting, moment, _known(entries))
    drafts = list(scribe.drafts(messages))
    if not follow:
        return drafts
    ids = {message.id or "" for message in messages}
    marks = _marks(entries)
    left = _left(marks, messages, ids, moment, _answered(entries))
    gone = {entry.id for entry in live_entries(entries) if entry.message_id in left}
    wanted = {entry.id for entry in scribe.same}
    return [*rewinding(entries, moment, left=gone, wanted=wanted), *drafts]


def _marks(entries: Iterable[Entry]) -> dict[str, Mark]:
    found = ((entry.message_id, mark_of(entry)) for entry in entries)
    return {name: mark for name, mark in found if mark is not None and mark.unit == "message"}


def _answered(entries: Sequence[Entry]) -> set[str]:
    """Return the ids of the messages in turns that have an answer."""
    turns = {entry.turn_id for entry in entries if entry.role == "assistant"}
    return {entry.message_id for entry in entries if entry.turn_id in turns}


def _left(
    marks: dict[str, Mark],
    messages: Sequence[BaseMessage],
    ids: set[str],
    moment: Moment,
    answered: set[str],
) -> set[str]:
    """Return the ids of messages that the state held once and holds no more.

    A message that another run stored meanwhile is none of them: this state never held it. So only
    what stood before the newest known message counts, and what stood behind it if this run can
    only have begun after that was stored. What a `Send` carries was picked out of a state, so what
    it lacks was not taken out.
    """
    newest = next((m.id for m in reversed(messages) if m.id in marks), None)
    branches = Branches({name: mark.after for name, mark in marks.items()})
    if moment.since is not None:
        if newest is not None:
            behind = branches.behind(ids)
        else:
            at_top = not moment.level and not moment.is_sent
            behind = {name for name in marks if at_top and marks[name].checkpoint >= moment.since}
        return {name for name in behind - ids if marks[name].checkpoint != moment.checkpoint}
    if moment.is_sent:
        return set()
    before = set(branches.path(newest))
    behind = set(marks) if newest is None else branches.behind({newest})
    over = {name for name in behind & answered if _is_over(marks[name], moment)}
    return (before | over) - ids


def _is_over(mark: Mark, moment: Moment) -> bool:
    """Return whether the run that stored something had ended when this one began.

    A run that began later counts on from its last step, with one more step for its input. Where a
    checkpointer was lost, or there is none, runs begin at the first step again. A run beside it may
    count on from a third one's step: so what has no answer yet is never taken to be over.
    """
    at_top = not mark.level and not moment.level
    return at_top and bool(mark.checkpoint) and moment.step >= mark.step + 2
