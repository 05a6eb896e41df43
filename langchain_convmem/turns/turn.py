"""One turn of a wrapped chain: what it reads, what it stores, and when.

Written as steps, so that the synchronous and the asynchronous Runnable run the very same turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from langchain_convmem.history import read_live_steps
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.chain_shape import ChainShape
from langchain_convmem.turns.entries import entry_said, is_answered, said_before, start_of
from langchain_convmem.turns.messages import human_of
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.recording import draft_reply, measure_times
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    ReplyCollector,
    is_unfinished,
    reply_messages,
    without_cut_calls,
)
from langchain_convmem.turns.tracing import OWN_TOKENS, TurnTrace
from langchain_convmem.turns.view import ModelContext, TurnEntries, TurnView
from langchain_convmem.views.codec import draft_of, text_pieces
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
    options: TurnOptions
    shape: ChainShape
    attempt_of: str | None
    trace: TurnTrace
    turn_id: str = ""
    context: ModelContext | None = None
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
        inner: Runnable[Any, Any],
        shape: ChainShape,
        attempt_of: str | None,
        trace: TurnTrace,
    ) -> Turn:
        """Return the turn for one call.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an option
                that there is not.
            InvalidMessageError: If the input is not one message of the user.
        """
        key = read_key(configurable, host="the chain")
        options = defaults.for_call(configurable, inner)
        human, extra = human_of(value)
        with trace.internal():
            kept = memory.drafting.hooked(human)
        if not (is_remembered(human) and is_remembered(kept)):
            options = replace(options, remember=False)
        return cls(memory, key, human, kept, extra, options, shape, attempt_of, trace)

    # -- before the model -----------------------------------------------------------------------

    def begin(self) -> Steps[Any]:
        """Store the user's message, then gather what the inner chain is called with."""
        with self.trace.internal():
            return (yield from self._begin())

    def _begin(self) -> Steps[Any]:
        log = self.memory.log
        thread = yield from read_live_steps(log, self.key)
        mine = self._earlier_attempt(thread.entries)
        if mine is None and self.kept is not None and self.options.remember:
            [mine] = yield step(log, "append", self.key, [self._user_draft(self.kept)])
        query = "" if self.kept is None else "\n".join(text_pieces(self.kept))
        context = yield from self._view.context_steps(
            partial(self._locate, mine), query, thread=thread
        )
        self.context = context
        self.turn_id = context.turn.own[-1].turn_id
        yield from self.trace.told("convmem.context", context.counts)
        self.started_ms = now_ms()
        return context.payload(self.extra)

    @property
    def _view(self) -> TurnView:
        shape = self.shape
        return TurnView(self.memory, self.key, self.options, shape.profile, self.trace, shape.slots)

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

    def _locate(self, mine: Entry | None, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among the entries of its thread, which is seen as it was before.

        Args:
            mine: The user's entry; None for a turn whose question is not stored.
            entries: The thread.
        """
        before = said_before(entries, mine)
        asked = self._unstored(before) if mine is None else self._in_full(mine)
        start = start_of(entries, mine)
        return TurnEntries(before, [asked], start)

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

    # -- after the model ------------------------------------------------------------------------

    @property
    def given(self) -> Sequence[BaseMessage]:
        """The messages that the inner chain was called with."""
        return () if self.context is None else self.context.given

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
        if self.options.remember and messages:
            with self.trace.internal():
                yield from self._stored(messages, attributes)

    def _stored(self, messages: Sequence[BaseMessage], attributes: tuple[str, ...]) -> Steps[None]:
        context = self.context
        if context is None:
            return
        log, own = self.memory.log, self.trace.own_tokens.counts()
        names = {message.id for message in messages if message.id}
        timing = measure_times(self.started_ms, self.first_token_ms)
        drafts = draft_reply(
            self.memory.drafting,
            messages,
            turn_id=self.turn_id,
            entries=(yield step(log, "entries", self.key, after=context.turn.start - 1)),
            found=(yield step(log, "find", self.key, names)),
            metadata=Metadata(attributes, timing, aux={OWN_TOKENS: own} if own else {}),
        )
        if drafts:
            yield step(log, "append", self.key, drafts)
            yield from self.trace.told_stored(drafts)
            yield from self.trace.told_own_models()
            said = [draft.message for draft in drafts if draft.message is not None]
            yield from self.memory.after_turn_steps(self.key, context.view, said)
