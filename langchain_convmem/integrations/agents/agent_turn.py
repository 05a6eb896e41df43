"""The turns of an agent in the log: where one begins, and what of a run is not stored yet.

A state holds messages by id and the log knows them by id, so whatever happens again, a retry, a
resumed run, a turn that is tried once more, doubles nothing. Written as steps, so that both forms
of every hook do the very same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_convmem.history import LiveThread, read_all_steps, read_live_steps
from langchain_convmem.ids import derived_ulid, is_ulid, new_ulid, ulid_ms
from langchain_convmem.integrations.agents.state_messages import said, storable
from langchain_convmem.integrations.agents.turn_mark import TurnMark, settled_before
from langchain_convmem.integrations.agents.turn_places import (
    MADE_BY_AGENT,
    Versions,
    abandoned,
    asked_last,
    beginning,
    caller_of,
    entries_of,
    is_news,
    left_behind,
    retracting,
    turns_before,
    versions_of,
)
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Changes, Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.replies import INTERRUPTED, with_free_ids
from langchain_convmem.views.codec import draft_of
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.live import retracted_ids

__all__ = ["AgentThread", "Loop"]


@dataclass(frozen=True, slots=True)
class Loop:
    """A turn under way.

    Attributes:
        mark: The turn.
        messages: Its messages in the state, stored as far as they are to be.
        known: The turn's entries by message id; some may be of messages that left the state.
        thread: What a view needs of the thread, read before the turn was caught up with.
        abandoned: Entries of replies that an attempt made which came to nothing.
    """

    mark: TurnMark
    messages: Sequence[BaseMessage]
    known: Mapping[str, Entry]
    thread: LiveThread
    abandoned: Sequence[str]


@dataclass(frozen=True, slots=True)
class AgentThread:
    """A thread of the log that an agent's runs write to. Thread-safe as the log is.

    Attributes:
        log: Where the thread is.
        drafting: What is stored of a message.
        key: The thread.
        goes_back: Whether the caller said from which checkpoint to go on: then what was said after
            what the state holds no longer counts.
    """

    log: MessageLog
    drafting: Drafting
    key: ThreadKey
    goes_back: bool = False

    # -- a turn begins --------------------------------------------------------------------------

    def begin(
        self, messages: Sequence[BaseMessage], before: TurnMark | None = None
    ) -> Steps[tuple[TurnMark, int] | None]:
        """Store what the state holds and the log does not; return the turn that begins now.

        What was forgotten since is not stored again.

        Args:
            messages: Those of the state.
            before: The turn that the state noted last.

        Returns:
            The turn, and the number of the state's messages before it; None for an empty state.
        """
        spoken = said(messages)
        if not spoken:
            return None
        drafts = [self._draft(message) for message in spoken]
        generation = yield from self._generation()
        versions = versions_of((yield from self._found(spoken)))
        entries: Sequence[Entry] = ()
        if self.goes_back or _is_said_again(spoken, drafts, versions):
            entries = yield step(self.log, "entries", self.key)
        dead = retracted_ids(entries)

        def live(message: BaseMessage) -> Entry | None:
            own = versions.get(message.id, ())
            return next((entry for entry in reversed(own) if entry.id not in dead), None)

        start, turn_id = beginning(spoken, versions, live)
        turns = [*turns_before(spoken[:start], versions), *[turn_id] * (len(spoken) - start)]
        same_user = before is not None and before["user"] == self.key.user_id
        settled = settled_before(spoken, start, before if same_user else None, generation)
        undone = 0 if self.goes_back else start
        news = []
        for number, (message, draft) in enumerate(zip(spoken, drafts, strict=True)):
            was_there = number < (undone if message.id in versions else settled)
            if draft is not None and is_news(draft, live(message), was_there=was_there):
                news.append(replace(draft, turn_id=turns[number]))
        if self.goes_back:
            held = {message.id for message in spoken}
            news = [*retracting(left_behind(entries, held, turn_id), "rewind"), *news]
        if news:
            yield step(self.log, "append", self.key, news)
        first = spoken[start]
        mark = TurnMark(
            id=turn_id,
            first=str(first.id),
            user=self.key.user_id,
            generation=generation,
            settled=spoken[settled - 1].id if settled else None,
        )
        return mark, next(number for number, one in enumerate(messages) if one is first)

    def _draft(
        self,
        message: BaseMessage,
        turn_id: str | None = None,
        timing: Mapping[str, int] | None = None,
        attributes: tuple[str, ...] = (),
    ) -> Draft | None:
        """Return what is to be stored of a message, if anything is."""
        metadata = Metadata(attributes, timing or {}, aux={MADE_BY_AGENT: True})
        return self.drafting.kept(draft_of(storable(message), turn_id=turn_id, metadata=metadata))

    def _generation(self) -> Steps[int]:
        changes: Changes = yield step(self.log, "changes", self.key.owner, 0, limit=1)
        return changes.generation

    def _found(self, messages: Sequence[BaseMessage]) -> Steps[list[Entry]]:
        ids = {message.id for message in messages if message.id}
        found: list[Entry] = yield step(self.log, "find", self.key, ids)
        return found

    # -- a turn goes on -------------------------------------------------------------------------

    def caught_up(self, mark: TurnMark, messages: Sequence[BaseMessage]) -> Steps[Loop]:
        """Store what the state holds of the turn and the log does not."""
        own = yield from self._own(mark, messages)
        thread = yield from read_live_steps(self.log, self.key)
        entries = entries_of(mark["id"], thread.entries)
        if self.goes_back or not entries:  # an old turn goes on
            thread = yield from read_all_steps(self.log, thread)
            entries = entries_of(mark["id"], thread.entries)
        if self.goes_back:
            thread = yield from self._rewound(mark, messages, thread)
        known = {entry.message_id: entry for entry in entries}
        gone: Sequence[str] = abandoned(entries, {message.id for message in own})
        settled = yield from self._settled(mark, own, known)
        news = []
        for number, message in enumerate(own):
            draft = self._draft(message, mark["id"])
            entry = known.get(message.id or "")
            if draft is not None and is_news(draft, entry, was_there=number < settled):
                news.append(draft)
        if news:
            controls = retracting(gone, "replaced")
            stored = yield step(self.log, "append", self.key, [*controls, *news])
            known.update({entry.message_id: entry for entry in stored[len(controls) :]})
            gone = ()
        return Loop(mark, own, known, thread, gone)

    def _settled(
        self, mark: TurnMark, own: Sequence[BaseMessage], known: Mapping[str, Entry]
    ) -> Steps[int]:
        """Return how many messages of the turn are not stored again if the log lacks them."""
        held = [number for number, message in enumerate(own, 1) if message.id in known]
        if len(held) == len(own) or mark["user"] != self.key.user_id:
            return 0
        generation = yield from self._generation()
        if mark.get("generation", generation) == generation:
            return 0
        # Something was forgotten: of this turn, what stands before anything that is still there.
        return held[-1] if held else len(own)

    def _own(self, mark: TurnMark, messages: Sequence[BaseMessage]) -> Steps[list[BaseMessage]]:
        """Return the messages of the turn, also where its first one was taken out of the state."""
        spoken = said(messages)
        ids = [message.id for message in spoken]
        if mark["first"] in ids:
            return spoken[ids.index(mark["first"]) :]
        found = yield from self._found(spoken)
        others = {entry.message_id for entry in found if entry.turn_id != mark["id"]}
        return [message for message in spoken if message.id not in others]

    def _rewound(
        self, mark: TurnMark, messages: Sequence[BaseMessage], thread: LiveThread
    ) -> Steps[LiveThread]:
        """Take out what was said after the turn; return the thread without it."""
        held = {message.id for message in messages}
        gone = left_behind(thread.entries, held, mark["id"])
        if not gone:
            return thread
        yield step(self.log, "append", self.key, retracting(gone, "rewind"))
        return (yield from read_all_steps(self.log, thread))

    # -- what the model and the tools say -------------------------------------------------------

    def replied(
        self,
        loop: Loop,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
        attributes: tuple[str, ...] = (),
    ) -> Steps[list[BaseMessage]]:
        """Store a reply and return it with ids of its own, under which it is stored.

        It takes the place of what an attempt said before that came to nothing.
        """
        turn_id = loop.mark["id"]
        found = yield from self._found(messages)
        taken = {str(message.id) for message in state}
        taken |= {entry.message_id for entry in found if entry.turn_id != turn_id}
        own = list(with_free_ids(messages, taken, lambda _: new_ulid()))
        names = {message.id for message in own}
        again = {entry.id for entry in loop.known.values() if entry.message_id in names}
        gone = [entry_id for entry_id in loop.abandoned if entry_id not in again]
        drafts = [self._draft(message, turn_id, timing, attributes) for message in own]
        news = [draft for draft in drafts if draft is not None]
        if gone or news:
            controls = retracting(gone, "replaced")
            yield step(self.log, "append", self.key, [*controls, *news])
        return own

    def broken_off(
        self,
        loop: Loop,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
    ) -> Steps[None]:
        """Store what came of a reply that broke off, unless an earlier attempt said all of it."""
        earlier = [entry for entry in loop.known.values() if entry.id in loop.abandoned]
        if all(INTERRUPTED in entry.metadata.attributes for entry in earlier):
            yield from self.replied(loop, messages, state, timing, (INTERRUPTED,))

    def calling(
        self, mark: TurnMark, messages: Sequence[BaseMessage], call_id: str | None
    ) -> Steps[BaseMessage | None]:
        """Make sure that a call is stored before the tool runs; return the message that makes it.

        Nothing is written but what other middleware made of the message after it was stored.
        """
        caller = caller_of(messages, call_id)
        draft = None if caller is None else self._draft(caller)
        if caller is not None and draft is not None:
            found = yield from self._found([caller])
            if not found or found[-1].message != draft.message:
                yield from self.caught_up(mark, messages)
        return caller

    def returned(
        self, mark: TurnMark, caller: BaseMessage | None, result: ToolMessage, call_id: str
    ) -> Steps[ToolMessage]:
        """Store the result of a call and return it, with the id that it has in every attempt.

        A message that answers another call is returned as it is.
        """
        if result.tool_call_id != call_id:
            return result
        if not result.id:
            behind = "" if caller is None else str(caller.id)
            at_ms = ulid_ms(mark["id"]) if is_ulid(mark["id"]) else 0
            own = derived_ulid(at_ms, self.key.user_id, self.key.thread_id, behind, call_id)
            result = result.model_copy(update={"id": own})
        draft = self._draft(result, mark["id"])
        if draft is not None:
            yield step(self.log, "append", self.key, [draft])
        return result

    def finish(self, mark: TurnMark, messages: Sequence[BaseMessage]) -> Steps[None]:
        """Store what is left of a turn that came to its end."""
        loop = yield from self.caught_up(mark, messages)
        if loop.abandoned:
            yield step(self.log, "append", self.key, retracting(loop.abandoned, "replaced"))


def _is_said_again(
    spoken: Sequence[BaseMessage], drafts: Sequence[Draft | None], versions: Versions
) -> bool:
    """Return whether the log had the question before, or has any message otherwise."""
    return spoken[asked_last(spoken)].id in versions or any(
        draft is not None and draft.message != versions[message.id][-1].message
        for message, draft in zip(spoken, drafts, strict=True)
        if message.id in versions
    )
