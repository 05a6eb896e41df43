"""One turn of a wrapped chain: what it reads, what it stores, and when.

Written as steps, so that the synchronous and the asynchronous Runnable run the very same turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable

from langchain_convmem.history import read_live_steps
from langchain_convmem.ids import now_ms
from langchain_convmem.records import Metadata, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.chain_shape import ChainShape
from langchain_convmem.turns.messages import Incoming, read_input
from langchain_convmem.turns.opening import Opening, TurnOpener
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.recording import measure_times, store_reply_steps
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    ReplyCollector,
    is_unfinished,
    read_reply,
    settle_unfinished,
)
from langchain_convmem.turns.tracing import OWN_TOKENS, TurnTrace
from langchain_convmem.turns.view import ModelContext, TurnView
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.drafting import is_remembered

if TYPE_CHECKING:
    from langchain_convmem.turns.turn_memory import TurnMemory

__all__ = ["DictKeys", "Turn"]

_NO_NOTE: Mapping[str, Any] = {}


class DictKeys(NamedTuple):
    """Names under which dicts hold what is said, what was said before, and the answer."""

    input_key: str | None = None
    history_key: str | None = None
    output_key: str | None = None

    def rename(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what a chain is called with, under these names as well."""
        history, said = self.history_key or "history", self.input_key or "input"
        return {**payload, history: payload["history"], said: payload["input"]}


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
    keys: DictKeys
    incoming: Incoming
    turn_id: str = ""
    opening: Opening | None = None
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
        keys: DictKeys,
    ) -> Turn:
        """Return the turn for one call.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an option
                that there is not.
            InvalidMessageError: If nothing in the input can be answered.
        """
        key = read_key(configurable, host="the chain")
        options = defaults.for_call(configurable, inner)
        incoming = read_input(value, input_key=keys.input_key, history_key=keys.history_key)
        human = incoming.human or HumanMessage("")
        with trace.internal():
            kept = None if incoming.continues else memory.drafting.hooked(human)
        if not incoming.continues and not (is_remembered(human) and is_remembered(kept)):
            options = replace(options, remember=False)
        extra = incoming.extra
        return cls(
            memory, key, human, kept, extra, options, shape, attempt_of, trace, keys, incoming
        )

    # -- before the model -----------------------------------------------------------------------

    def begin(self) -> Steps[Any]:
        """Store the user's message, then gather what the inner chain is called with."""
        with self.trace.internal():
            return (yield from self._begin())

    def _begin(self) -> Steps[Any]:
        thread = yield from read_live_steps(self.memory.log, self.key)
        thread, opening = yield from self._opener.open(thread)
        self.opening, self.human, self.kept = opening, opening.human, opening.kept
        query = "" if self.kept is None else "\n".join(text_pieces(self.kept))
        context = yield from self._view.context_steps(
            opening.locate, query, thread=thread, note_later=True
        )
        self.context, self.turn_id = context, context.turn.own[0].turn_id
        yield from self.trace.told("convmem.context", context.counts)
        self.started_ms = now_ms()
        payload = context.payload(self.extra)
        return self.keys.rename(payload) if isinstance(payload, dict) else payload

    @property
    def _opener(self) -> TurnOpener:
        return TurnOpener(
            self.memory,
            self.key,
            self.incoming,
            self.kept,
            self.options.remember,
            self.attempt_of,
        )

    @property
    def _view(self) -> TurnView:
        shape = self.shape
        return TurnView(self.memory, self.key, self.options, shape.profile, self.trace, shape.slots)

    @property
    def place(self) -> tuple[Hashable, ThreadKey]:
        """The thread in its log."""
        return self.memory.log_place, self.key

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

    def finish(self, output: Any, heard: AIMessage | None = None) -> Steps[None]:
        """Store a whole reply, or one that its provider never finished.

        Args:
            output: What the chain returned.
            heard: The last message that a model of it said.
        """
        reply = read_reply(output, self.given, heard=heard, output_key=self.keys.output_key)
        if reply.messages and is_unfinished(reply.messages[-1]):
            yield from self._store(settle_unfinished(reply.messages), (INTERRUPTED,), reply.aux)
        else:
            yield from self._store(reply.messages, aux=reply.aux)

    def complete(self, reply: ReplyCollector, heard: AIMessage | None = None) -> Steps[None]:
        """Store the reply of a stream that came to its end, its provider's last word included."""
        if reply.is_unfinished:
            yield from self._store(reply.unfinished(self.given), (INTERRUPTED,))
        else:
            whole = reply.complete(self.given, heard=heard, output_key=self.keys.output_key)
            yield from self._store(whole.messages, aux=whole.aux)

    def cut(self, reply: ReplyCollector) -> Steps[None]:
        """Store what a stream had brought before it was cut off, marked `interrupted`."""
        yield from self._store(reply.interrupted(self.given), attributes=(INTERRUPTED,))

    def _store(
        self,
        messages: Sequence[BaseMessage],
        attributes: tuple[str, ...] = (),
        aux: Mapping[str, Any] = _NO_NOTE,
    ) -> Steps[None]:
        if self.options.remember and messages:
            with self.trace.internal():
                yield from self._stored(messages, attributes, aux)

    def _stored(
        self, messages: Sequence[BaseMessage], attributes: tuple[str, ...], aux: Mapping[str, Any]
    ) -> Steps[None]:
        context, opening = self.context, self.opening
        if context is None or opening is None:
            return
        own = self.trace.own_tokens.counts()
        timing = measure_times(self.started_ms, self.first_token_ms)
        drafts = yield from store_reply_steps(
            self.memory.log,
            self.key,
            self.memory.drafting,
            messages,
            turn_id=self.turn_id,
            start=context.turn.start,
            metadata=Metadata(attributes, timing, aux={**aux, OWN_TOKENS: own} if own else aux),
            rounds=opening.rounds,
            documents=() if context.note is None else (context.note,),
        )
        if drafts:
            yield from self.trace.report_stored(drafts)
            yield from self.trace.report_own_models()
            said = [draft.message for draft in drafts if draft.message is not None]
            yield from self.memory.after_turn_steps(self.key, context.view, said)
