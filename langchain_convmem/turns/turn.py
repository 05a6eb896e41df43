"""One turn of a wrapped chain: what it reads, what it stores, and when.

Written as steps, so that the synchronous and the asynchronous Runnable run the very same turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.history import (
    LiveThread,
    note_steps,
    read_all_steps,
    read_live_steps,
)
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.records import (
    Context,
    Control,
    Draft,
    Entry,
    Metadata,
    RecalledBlock,
    ThreadKey,
)
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.chain_shape import ChainShape
from langchain_convmem.turns.entries import (
    entry_said,
    is_answered,
    replies_of,
    said_before,
    start_of,
    summary_text,
)
from langchain_convmem.turns.messages import human_of
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.rendering import MessageList, folded, recalled_messages
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    ReplyCollector,
    is_unfinished,
    reply_messages,
    with_free_ids,
    without_cut_calls,
)
from langchain_convmem.turns.tracing import OWN_TOKENS, TurnTrace
from langchain_convmem.turns.view import TurnView
from langchain_convmem.views.codec import draft_of, text_pieces
from langchain_convmem.views.context import Profile
from langchain_convmem.views.drafting import is_remembered
from langchain_convmem.views.live import live_entries

if TYPE_CHECKING:
    from langchain_convmem.turns.turn_memory import TurnMemory

__all__ = ["Turn"]

_ATTEMPT = "attempt_of"
"""Key in the user entry's `aux`: the run whose retries are the same turn."""


@dataclass(slots=True)
class Turn:
    """A turn in the making. Not thread-safe: one turn, one caller."""

    memory: TurnMemory
    key: ThreadKey
    human: HumanMessage
    kept: BaseMessage | None
    """What the write hook left of `human`, to store and to search for; the model gets `human`."""
    extra: Mapping[str, Any]
    switches: TurnOptions
    slots: frozenset[str] | None
    profile: Profile
    attempt_of: str | None
    trace: TurnTrace
    turn_id: str = ""
    start: int = 0
    given: Sequence[BaseMessage] = ()
    view: Context | None = None
    started_ms: int = 0
    first_token_ms: int | None = None

    @classmethod
    def of(
        cls,
        memory: TurnMemory,
        value: Any,
        configurable: Mapping[str, Any],
        *,
        defaults: TurnOptions,
        shape: ChainShape,
        attempt_of: str | None,
        trace: TurnTrace,
    ) -> Turn:
        """Return the turn for one call.

        Raises:
            ConfigError: If the call names no thread.
            InvalidMessageError: If the input is not one message of the user.
        """
        if configurable.get("thread_id") is None:
            msg = (
                "thread_id is missing; call the chain with "
                'config={"configurable": {"thread_id": "...", "user_id": "..."}}'
            )
            raise ConfigError(msg)
        key = ThreadKey(configurable.get("user_id"), configurable["thread_id"])
        human, extra = human_of(value)
        with trace.internal():
            kept = memory.drafting.hooked(human)
        switches = defaults.overridden(configurable)
        if not (is_remembered(human) and is_remembered(kept)):
            switches = replace(switches, remember=False)
        return cls(
            memory, key, human, kept, extra, switches, shape.slots, shape.profile, attempt_of, trace
        )

    # -- before the model -----------------------------------------------------------------------

    def begin(self) -> Steps[Any]:
        """Store the user's message, then gather what the inner chain is called with."""
        with self.trace.internal():
            return (yield from self._begin())

    def _begin(self) -> Steps[Any]:
        log = self.memory.log
        thread = yield from read_live_steps(log, self.key)
        mine = self._earlier_attempt(thread.entries)
        if mine is None and self.kept is not None and self.switches.remember:
            [mine] = yield step(log, "append", self.key, [self._user_draft(self.kept)])
        view: Context | None = None
        if mine is None or thread.holds(mine.position):
            asked, seen = self._so_far(thread, mine)
            view = self._view.viewed(seen)
        if view is None:  # an old message is said again, or the budget reaches further back
            thread = yield from read_all_steps(log, thread)
            asked, seen = self._so_far(thread, mine)
            view = self._view.viewed(seen) or self._view.viewed_without_unanswered(seen)
        if self.switches.remember:
            yield from note_steps(log, thread, view, self._view.options(seen.entries))
        self.view = view
        self.turn_id = asked.turn_id
        self.start = start_of(thread.entries, asked)
        later = {one.position for one in thread.entries if one.position >= self.start}
        blocks, recalled = yield from self._view.recalled(
            seen.entries, view, view.positions | later
        )
        payload = self._payload(view, asked, recalled, seen.entries)
        yield from self.trace.told("convmem.context", _counts(seen.entries, view, blocks))
        self.started_ms = now_ms()
        return payload

    @property
    def _view(self) -> TurnView:
        return TurnView(
            self.memory,
            self.key,
            self.human,
            self.kept,
            self.switches,
            self.slots,
            self.profile,
            self.trace,
        )

    @property
    def place(self) -> tuple[Hashable, ThreadKey]:
        """The thread in its log."""
        return self.memory.log_place, self.key

    def _user_draft(self, message: BaseMessage) -> Draft:
        aux = {} if self.attempt_of is None else {_ATTEMPT: self.attempt_of}
        return draft_of(message, turn_id=new_ulid(), metadata=Metadata(aux=aux))

    def _earlier_attempt(self, entries: Sequence[Entry]) -> Entry | None:
        """Return the user's entry of a turn that this call tries again, if it does."""
        if self.attempt_of is None or self.human.id is not None:
            return None  # a message with an id is recognised by the log itself
        live = live_entries(entries)
        for entry in reversed(live):
            if self._is_attempt(entry):
                return None if is_answered(live, entry.turn_id) else entry
        return None

    def _is_attempt(self, entry: Entry) -> bool:
        return (
            entry.role == "user"
            and entry.metadata.aux.get(_ATTEMPT) == self.attempt_of
            and entry.message is not None
            and self.kept is not None
            and entry.message.content == self.kept.content
        )

    def _so_far(self, thread: LiveThread, mine: Entry | None) -> tuple[Entry, LiveThread]:
        """Return the user's entry, and the thread up to it as it was when the turn began."""
        before = said_before(thread.entries, mine)
        asked = self._unstored(before) if mine is None else self._in_full(mine)
        return asked, replace(thread, entries=[*before, asked])

    def _in_full(self, mine: Entry) -> Entry:
        """Return the user's entry with what the user said: the write hook is not for this turn."""
        return replace(mine, message=self.human, contents=text_pieces(self.human))

    def _unstored(self, before: Sequence[Entry]) -> Entry:
        """Return the user's message as the entry it would be, for a turn that is not stored."""
        entry_id = new_ulid()
        position = before[-1].position + 1 if before else 1
        return entry_said(
            self.human, entry_id=entry_id, key=self.key, position=position, turn_id=entry_id
        )

    def _payload(
        self, view: Context, asked: Entry, recalled: str, entries: Sequence[Entry]
    ) -> list[BaseMessage] | dict[str, Any]:
        # The view joins what one person said since the last reply into one message, so that roles
        # alternate; it goes by the id of the newest.
        *history, last = view.messages
        human = self.human.model_copy(
            update={"id": asked.message_id, "content": last.content, "name": last.name}, deep=True
        )
        spoken = human if self._view.has_slot("recalled") else folded(human, recalled)
        self.given = [*history, spoken]
        if self.slots is None:
            return list(self.given)
        return {
            **self.extra,
            "history": MessageList(history),
            "input": MessageList([spoken]),
            "recalled": recalled_messages(recalled),
            "summary": summary_text(entries),
            "messages": MessageList([*history, folded(human, recalled)]),
        }

    # -- after the model ------------------------------------------------------------------------

    def saw(self, reply: ReplyCollector, chunk: Any) -> None:
        """Take a chunk of the reply, and the time of the first one."""
        reply.add(chunk)
        if self.first_token_ms is None and reply.has_text:
            self.first_token_ms = now_ms()

    def finish(self, output: Any) -> Steps[None]:
        """Store a whole reply, or one that its provider never finished."""
        messages = reply_messages(output, self.given)
        if messages and is_unfinished(messages[-1]):
            yield from self._store(without_cut_calls(messages), attributes=(INTERRUPTED,))
        else:
            yield from self._store(messages)

    def complete(self, reply: ReplyCollector) -> Steps[None]:
        """Store the reply of a stream that came to its end, its provider's last word included."""
        if reply.is_unfinished:
            yield from self.cut(reply)
        else:
            yield from self._store(reply.complete(self.given))

    def cut(self, reply: ReplyCollector) -> Steps[None]:
        """Store what a stream had brought before it was cut off, marked `interrupted`."""
        yield from self._store(reply.interrupted(self.given), attributes=(INTERRUPTED,))

    def _store(
        self, messages: Sequence[BaseMessage], attributes: tuple[str, ...] = ()
    ) -> Steps[None]:
        if self.switches.remember and messages:
            with self.trace.internal():
                yield from self._stored(messages, attributes)

    def _stored(self, messages: Sequence[BaseMessage], attributes: tuple[str, ...]) -> Steps[None]:
        names = {message.id for message in messages if message.id}
        found: list[Entry] = yield step(self.memory.log, "find", self.key, names)
        taken = {entry.message_id for entry in found if entry.turn_id != self.turn_id}
        fresh = with_free_ids(messages, taken, lambda _: None)
        drafts = self.memory.drafting.drafts(fresh, turn_id=self.turn_id)
        if not drafts:
            return
        own = self.trace.own_tokens.counts()
        metadata = Metadata(attributes, self._timing(), aux={OWN_TOKENS: own} if own else {})
        drafts[-1] = replace(drafts[-1], metadata=metadata)
        log = self.memory.log
        entries: list[Entry] = yield step(log, "entries", self.key, after=self.start - 1)
        outdated = replies_of(entries, self.turn_id)
        if outdated:
            drafts.insert(0, Draft(role="control", control=Control(outdated, "replaced")))
        yield step(log, "append", self.key, drafts)
        yield from self.trace.told(
            "convmem.stored",
            {
                "messages": len(drafts) - bool(outdated),
                "replaced": len(outdated),
                "interrupted": len(attributes),
            },
        )
        if own:
            yield from self.trace.told("convmem.own_models", own)
        if self.view is not None:
            said = [draft.message for draft in drafts if draft.message is not None]
            yield from self.memory.after_turn_steps(self.key, self.view, said)

    def _timing(self) -> dict[str, int]:
        timing = {"llmStart": self.started_ms, "llmEnd": now_ms()}
        if self.first_token_ms is not None:
            timing["firstToken"] = self.first_token_ms
        return timing


def _counts(
    entries: Sequence[Entry], view: Context, blocks: Sequence[RecalledBlock]
) -> dict[str, int]:
    """Return what a model gets, in numbers."""
    return {
        "entries": len(entries),
        "messages": len(view.messages),
        "tokens": view.tokens,
        "repairs": len(view.repairs),
        "blocks": len(blocks),
        "lines": sum(len(block.lines) for block in blocks),
    }
