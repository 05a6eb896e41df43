"""`memory.wrap(inner)`: a Runnable that remembers.

The order of a turn is its promise: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. A failed write is raised, never logged away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.language_models import BaseLanguageModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompt_values import ChatPromptValueConcrete
from langchain_core.runnables import (
    RouterRunnable,
    Runnable,
    RunnableAssign,
    RunnableBranch,
    RunnableConfig,
    RunnableLambda,
    RunnableParallel,
    RunnableSequence,
    RunnableSerializable,
    RunnableWithFallbacks,
)
from langchain_core.runnables.base import (
    RunnableBindingBase,
    RunnableEachBase,
    RunnableLike,
    coerce_to_runnable,
)
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.runnables.graph import Graph
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from langchain_convmem.effects import Steps, arun, run, step
from langchain_convmem.errors import ConfigError
from langchain_convmem.history import LiveThread, read_all_steps, read_live_steps
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.streams import ClosingStreams, carried_through, closed, summed, unbroken
from langchain_convmem.turns.messages import (
    Incoming,
    Reconciled,
    continue_turn,
    read_input,
    reconcile,
)
from langchain_convmem.turns.options import NAMESPACE, TurnOptions, TurnSettings, read_key
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    HeardReplies,
    ReplyCollector,
    is_unfinished,
    read_reply,
    settle_unfinished,
)
from langchain_convmem.turns.tracing import OWN_TOKENS, TurnTrace, stamped
from langchain_convmem.turns.turn import (
    TURN_QUEUE,
    entry_said,
    is_answered,
    measure_times,
    said_before,
    start_of,
    store_reply_steps,
)
from langchain_convmem.turns.view import CallContext, ModelContext, TurnEntries, TurnView
from langchain_convmem.views.codec import draft_of, role_of, text_pieces
from langchain_convmem.views.drafts import is_remembered
from langchain_convmem.views.edits import replacing, rewinding
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.messages import handed_out
from langchain_convmem.views.providers import Profile, profile_for

if TYPE_CHECKING:
    from langchain_convmem.turns.turn import TurnMemory


@dataclass(frozen=True, slots=True)
class ChainShape:
    """What a memory must know of a chain.

    Attributes:
        slots: The variables that its prompts use; None for a chain that takes messages.
        profile: Whose rules the messages must keep.
        is_fixed: Whether it is the same for every call.
    """

    slots: frozenset[str] | None
    profile: Profile
    is_fixed: bool


# -- `memory.wrap(inner)`: a Runnable that remembers ----------------------------------------------


class RememberingRunnable(ClosingStreams, RunnableSerializable[Any, Any]):
    """A chain with a memory; made by `ConversationMemory.wrap`."""

    memory: Any = Field(exclude=True, repr=False)
    inner: Runnable[Any, Any]
    recall: bool = True
    recall_tokens: int | None = None
    recall_k: int | None = None
    history_tokens: int | None = None
    context_tokens: int | None = None
    reserved_tokens: int = 0
    remember: bool = True
    queue_timeout_s: float = 300.0
    profile: Any = Field(default=None, repr=False)
    user_id_key: SecretStr | None = Field(default=None, repr=False)
    input_key: str | None = None
    history_key: str | None = None
    output_key: str | None = None

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    _fixed_shape: ChainShape | None = PrivateAttr(default=None)

    # -- what it is -----------------------------------------------------------------------------

    @property
    def InputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Messages in any form, or a dict with them; None goes on with an open turn."""
        return str | HumanMessage | dict[str, Any] | list[Any] | None

    @property
    def OutputType(self) -> Any:  # noqa: N802 - LangChain's name
        """Whatever the inner chain returns."""
        return self.inner.OutputType

    @property
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        """What a call may carry under `configurable`."""
        own = [
            _spec("thread_id", str, "The conversation; required, here or as session_id."),
            _spec("session_id", str, "Another name of thread_id."),
            _spec("user_id", str, "Whose lines are recalled."),
            _spec(NAMESPACE, TurnSettings, "What this call sets of the memory's options."),
        ]
        named = {spec.id for spec in own}
        return [*own, *(spec for spec in self.inner.config_specs if spec.id not in named)]

    def get_output_schema(self, config: RunnableConfig | None = None) -> TypeBaseModel:
        """Return the schema of what the inner chain returns."""
        return self.inner.get_output_schema(config)

    def get_graph(self, config: RunnableConfig | None = None) -> Graph:
        """Return the chain as a graph: this memory first, then what it wraps."""
        graph = Graph()
        said = graph.add_node(self.get_input_schema(config))
        memory = graph.add_node(self, metadata=config.get("metadata") if config else None)
        graph.add_edge(said, memory)
        inner = self.inner.get_graph(config)
        inner.trim_first_node()
        first, _ = graph.extend(inner)
        if first is not None:
            graph.add_edge(memory, first)
        return graph

    # -- one call -------------------------------------------------------------------------------

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run one turn and return what the inner chain returns."""
        return self._call_with_config(self._invoke, input, self._stamped(config), **kwargs)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamp = self._stamped(config)
        return await self._acall_with_config(self._ainvoke, input, stamp, **kwargs)

    def _invoke(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        with self._held(turn):
            payload = run(turn.begin())
            heard = HeardReplies()
            output = self.inner.invoke(payload, heard.listen(config), **kwargs)
            run(turn.finish(output, heard.message))
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._turn(value, config, run_manager.parent_run_id)
        async with self._aheld(turn):
            payload = await arun(turn.begin())
            heard = HeardReplies()
            output = await self.inner.ainvoke(payload, heard.listen(config), **kwargs)
            await carried_through(arun(turn.finish(output, heard.message)))
        return output

    # -- streams --------------------------------------------------------------------------------

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        turn = self._turn(summed(list(inputs)), config, run_manager.parent_run_id)
        with self._held(turn):
            payload = run(turn.begin())
            reply, heard = ReplyCollector(), HeardReplies()
            try:
                chunks = self.inner.stream(payload, heard.listen(config), **kwargs)
                for chunk in unbroken(chunks):
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                run(turn.cut(reply))
                raise
            run(turn.complete(reply, heard.message))

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        parts = [part async for part in inputs]
        turn = self._turn(summed(parts), config, run_manager.parent_run_id)
        async with self._aheld(turn):
            payload = await arun(turn.begin())
            reply, heard = ReplyCollector(), HeardReplies()
            stream = self.inner.astream(payload, heard.listen(config), **kwargs)
            try:
                async for chunk in stream:
                    turn.saw(reply, chunk)
                    yield chunk
            except BaseException:
                await carried_through(arun(turn.cut(reply)))
                raise
            finally:
                await closed(stream)
            await carried_through(arun(turn.complete(reply, heard.message)))

    # -- the turn -------------------------------------------------------------------------------

    @property
    def options(self) -> TurnOptions:
        """What holds for every turn, unless a call sets it."""
        return TurnOptions(
            **{field.name: getattr(self, field.name) for field in fields(TurnOptions)}
        )

    def _turn(self, value: Any, config: RunnableConfig, parent_run_id: Any) -> Turn:
        configurable = config.get("configurable", {})
        return Turn.of(
            self.memory,
            value,
            configurable,
            defaults=self.options,
            inner=self.inner,
            shape=self._shape(configurable),
            attempt_of=None if parent_run_id is None else str(parent_run_id),
            trace=TurnTrace(config),
            keys=DictKeys(self.input_key, self.history_key, self.output_key),
        )

    @contextmanager
    def _held(self, turn: Turn) -> Iterator[None]:
        """Hold the thread of a turn, and let who closes the memory wait for it."""
        queued = TURN_QUEUE.turn(turn.place, self.queue_timeout_s)
        with queued, self.memory.active_turns.counted():
            yield

    @asynccontextmanager
    async def _aheld(self, turn: Turn) -> AsyncIterator[None]:
        """Hold the thread of a turn without blocking the event loop; see `_held`."""
        async with TURN_QUEUE.aturn(turn.place, self.queue_timeout_s):
            with self.memory.active_turns.counted():
                yield

    def _stamped(self, config: RunnableConfig | None) -> RunnableConfig:
        key = self.user_id_key
        return stamped(config, None if key is None else key.get_secret_value())

    def _shape(self, configurable: dict[str, Any]) -> ChainShape:
        if self._fixed_shape is not None:
            return self._fixed_shape
        shape = chain_shape(self.inner, configurable, self.profile)
        if shape.is_fixed:
            self._fixed_shape = shape
        return shape


def _spec(name: str, annotation: Any, text: str) -> ConfigurableFieldSpec:
    return ConfigurableFieldSpec(
        id=name, annotation=annotation, name=name, description=text, default=None, is_shared=True
    )


# -- One turn of a wrapped chain: what it reads, what it stores, and when -------------------------


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


# -- How a turn begins ----------------------------------------------------------------------------


_ATTEMPT = "attempt_of"


"""Key in the user entry's `aux`: the run whose retries are the same turn."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A turn that has begun.

    Attributes:
        key: The thread.
        human: What the user says, as the model gets it.
        kept: What the write hook left of it.
        asked: The user's entry; None of a turn that is not stored.
        earlier: Entries of what was said before it and came with the same call.
        loop: Entries that follow it: calls of its earlier rounds, and their results.
        continues: Whether an open turn goes on.
        instructions: System messages of this call.
        context_only: What else only this call shows.
        context_before: The entry that this stands before; None for what the user says.
    """

    key: ThreadKey
    human: HumanMessage
    kept: BaseMessage | None
    asked: Entry | None
    earlier: Sequence[Entry] = ()
    loop: Sequence[Entry] = ()
    continues: bool = False
    instructions: Sequence[BaseMessage] = ()
    context_only: Sequence[BaseMessage] = ()
    context_before: Entry | None = field(default=None)

    @property
    def rounds(self) -> frozenset[str]:
        """Ids of the turn's entries that a reply follows, and does not replace."""
        return frozenset(entry.id for entry in self.loop)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among the entries of its thread, which is seen as it was before."""
        before, start = said_before(entries, self.asked), start_of(entries, self.asked)
        known = {entry.id for entry in before}
        shown = [*before, *(entry for entry in self.earlier if entry.id not in known)]
        asked = self._make_unstored(start) if self.asked is None else self._show_in_full()
        turn = TurnEntries(shown, [asked, *self.loop], start)
        stands_before = None if self.context_before is None else self.context_before.turn_id
        return CallContext(self.instructions, self.context_only, stands_before).add_to(turn)

    def _show_in_full(self) -> Entry:
        """Return the user's entry with what the user said: the write hook is not for this turn."""
        asked = cast("Entry", self.asked)
        return replace(asked, message=self.human, contents=text_pieces(self.human))

    def _make_unstored(self, position: int) -> Entry:
        """Return the user's message as the entry it would be, for a turn that is not stored."""
        entry_id = new_ulid()
        return entry_said(
            self.human, entry_id=entry_id, key=self.key, position=position, turn_id=entry_id
        )


@dataclass(frozen=True, slots=True)
class TurnOpener:
    """Begins a turn with what a call says.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        incoming: What the call says.
        kept: What the write hook left of what the user says.
        remember: Whether anything is stored.
        attempt_of: The run whose retries are the same turn.
    """

    memory: TurnMemory
    key: ThreadKey
    incoming: Incoming
    kept: BaseMessage | None
    remember: bool
    attempt_of: str | None

    def open(self, thread: LiveThread) -> Steps[tuple[LiveThread, Opening]]:
        """Store what is new, and return the turn, with the thread as it was before.

        Raises:
            InvalidMessageError: If the call goes on with a turn that is not open.
        """
        if self.incoming.continues:
            return thread, (yield from self._continue(thread))
        human = cast("HumanMessage", self.incoming.human)
        asked = self._find_attempt(thread.entries, human)
        meant = Reconciled(new=[human]) if asked is not None else self._compare(thread)
        if meant is None:
            whole = yield from read_all_steps(self.memory.log, thread)
            meant = cast("Reconciled", self._compare(whole))
            if meant.again is not None or meant.replaces is not None:
                thread = whole  # else only the comparison took all of it
        asked = asked or meant.again
        aside = list(meant.context_only)
        earlier: Sequence[Entry] = ()
        if asked is None:
            if self.remember and self.kept is not None:
                turn_id = new_ulid()
                earlier, asked = yield from self._store(thread, meant, turn_id)
                if meant.replaces is None and asked.turn_id != turn_id:
                    thread = yield from self._take_back_after(thread, asked)
            else:
                aside += meant.new[:-1]
        return thread, Opening(
            self.key,
            human,
            self.kept,
            asked,
            earlier,
            instructions=self.incoming.instructions,
            context_only=aside,
            context_before=meant.context_before,
        )

    def _compare(self, thread: LiveThread) -> Reconciled | None:
        return reconcile(
            thread.entries,
            self.incoming.said,
            is_whole=thread.part is None,
            stored_form=self._to_stored_form,
        )

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        if message is self.incoming.human:
            return self.kept  # the write hook was asked already
        return self.memory.drafting.hooked(message) if is_remembered(message) else None

    # -- a turn that is new, or said otherwise ----------------------------------------------------

    def _store(
        self, thread: LiveThread, meant: Reconciled, turn_id: str
    ) -> Steps[tuple[Sequence[Entry], Entry]]:
        """Return the entries of what is new; the last is what the user says, in a turn of this id.

        The log keeps the turn of a message whose id it knows.
        """
        kept = cast("BaseMessage", self.kept)
        drafts = list(self._draft_earlier(meant.new[:-1]))
        retracting: Sequence[Draft] = ()
        draft = draft_of(kept, turn_id=turn_id)
        if meant.replaces is not None:
            old = meant.replaces.message_id
            *retracting, draft = replacing(thread.entries, old, kept, keep_later=False)
        aux = {} if self.attempt_of is None else {_ATTEMPT: self.attempt_of}
        drafts = [*retracting, *drafts, replace(draft, metadata=Metadata(aux=aux))]
        added: list[Entry] = yield step(self.memory.log, "append", self.key, drafts)
        *earlier, asked = added[len(retracting) :]
        return earlier, asked

    def _take_back_after(self, thread: LiveThread, asked: Entry) -> Steps[LiveThread]:
        """Retract what followed a message of the archive, if its id was said with another text.

        Returns:
            All of the thread.
        """
        last = thread.entries[-1].position if thread.entries else 0
        thread = yield from read_all_steps(self.memory.log, thread)
        is_older = any(
            entry.turn_id == asked.turn_id and entry.id != asked.id for entry in thread.entries
        )
        if is_older and asked.position > last:
            drafts = rewinding(thread.entries, asked.id)
            yield step(self.memory.log, "append", self.key, drafts)
        return thread

    def _draft_earlier(self, messages: Sequence[BaseMessage]) -> Iterator[Draft]:
        """Yield drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = new_ulid(), ""
        for message in messages:
            if role_of(message) == "user" and role != "user":
                turn_id = new_ulid()
            role = role_of(message)
            yield from self.memory.drafting.drafts([message], turn_id=turn_id)

    # -- a turn that the thread has ---------------------------------------------------------------

    def _find_attempt(self, entries: Sequence[Entry], human: HumanMessage) -> Entry | None:
        """Return the user's entry of a turn that this run tries again, if it does."""
        if self.attempt_of is None or human.id is not None:
            return None  # a message with an id is recognised by it
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

    def _continue(self, thread: LiveThread) -> Steps[Opening]:
        found = continue_turn(thread.entries, self.incoming.results)
        asked = found.asked
        results = yield from self._store_results(found.results, asked, thread.entries[-1].position)
        others = {asked.id, *(entry.id for entry in results)}
        loop = [
            entry
            for entry in live_entries(thread.entries)
            if entry.id in found.kept and entry.id not in others
        ]
        return Opening(
            self.key,
            cast("HumanMessage", handed_out(asked)),
            asked.message,
            asked,
            loop=[*loop, *results],
            continues=True,
            instructions=self.incoming.instructions,
        )

    def _store_results(
        self, results: Sequence[BaseMessage], asked: Entry, last: int
    ) -> Steps[Sequence[Entry]]:
        drafts = self.memory.drafting.drafts(results, turn_id=asked.turn_id)
        if not self.remember or len(drafts) < len(results):
            return [
                entry_said(
                    message,
                    entry_id=new_ulid(),
                    key=self.key,
                    position=last + number,
                    turn_id=asked.turn_id,
                )
                for number, message in enumerate(results, 1)
            ]
        if not drafts:
            return []
        return (yield step(self.memory.log, "append", self.key, drafts))  # type: ignore[no-any-return]  # steps are not typed


# -- What a wrapped chain takes -------------------------------------------------------------------


_NOTHING: Mapping[str, Any] = {}


def read_chain(inner: RunnableLike[Any, Any]) -> Runnable[Any, Any]:
    """Return what a memory is wrapped around as a Runnable; LangChain makes one of functions.

    Raises:
        ConfigError: If nothing can be made of it.
    """
    if isinstance(inner, Runnable):
        return inner
    if isinstance(inner, type):
        msg = f"{inner.__name__} is a class; pass an object of it, {inner.__name__}(...)"
        raise ConfigError(msg)
    try:
        return coerce_to_runnable(inner)
    except TypeError:
        kind = type(inner).__name__
        msg = f"a value of type {kind} is not a chain; pass a chat model, a chain or a function"
        raise ConfigError(msg) from None


def chain_shape(
    inner: Runnable[Any, Any],
    configurable: Mapping[str, Any] = _NOTHING,
    profile: Profile | None = None,
) -> ChainShape:
    """Return the shape of a chain as a call with these `configurable` values runs it.

    Args:
        inner: The chain.
        configurable: What the call carries under `configurable`.
        profile: Whose rules to keep, whatever models are found; None goes by these.
    """
    return ChainShape(
        slots=None if takes_messages(inner, configurable) else prompt_slots(inner, configurable),
        profile=provider_profile(inner, configurable) if profile is None else profile,
        is_fixed=not any(isinstance(p, DynamicRunnable) for p in _parts(inner, configurable)),
    )


def takes_messages(inner: Runnable[Any, Any], configurable: Mapping[str, Any] = _NOTHING) -> bool:
    """Return whether `inner` takes messages: a language model, or a chain that begins with one.

    The model may be bound, retried, configurable, have fallbacks or be chosen at the call:
    LangChain passes its declared input type through all of these.
    """
    try:
        declared = _head(inner, configurable).InputType
    except TypeError:  # LangChain's way to say that the type cannot be inferred
        return False
    return ChatPromptValueConcrete in get_args(declared)


def _head(runnable: Runnable[Any, Any], configurable: Mapping[str, Any]) -> Runnable[Any, Any]:
    """Return what gets the input first, where that is chosen at the call or declared by a part."""
    if isinstance(runnable, RunnableBindingBase):
        if runnable.custom_input_type is not None:
            return runnable
        return _head(runnable.bound, _with_bound(runnable, configurable))
    if isinstance(runnable, DynamicRunnable):
        return _head(_chosen(runnable, configurable), configurable)
    if isinstance(runnable, RunnableWithFallbacks):
        return _head(runnable.runnable, configurable)
    return (
        _head(runnable.first, configurable) if isinstance(runnable, RunnableSequence) else runnable
    )


def prompt_slots(
    inner: Runnable[Any, Any], configurable: Mapping[str, Any] = _NOTHING
) -> frozenset[str]:
    """Return the variables that the prompts of a chain use.

    Where one of several prompts will run, those that all of them use: what one leaves out must
    reach it another way.
    """
    return _slots(inner, configurable, set()) or frozenset()


def _slots(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any], seen: set[int]
) -> frozenset[str] | None:
    """Return the variables of the prompts inside; None if there is no prompt."""
    from langchain_core.prompts import BasePromptTemplate

    if isinstance(runnable, BasePromptTemplate):
        return frozenset((*runnable.input_variables, *runnable.optional_variables))
    if id(runnable) in seen or isinstance(runnable, RunnableParallel | RunnableAssign):
        return None  # prompts beside the chain's own are not what the model reads
    seen = {*seen, id(runnable)}
    configurable = _with_bound(runnable, configurable)
    inside = (_slots(part, configurable, seen) for part in _directly_in(runnable, configurable))
    found = [slots for slots in inside if slots is not None]
    if not found:
        return None
    one_after_the_other = isinstance(runnable, RunnableSequence)
    return reduce(frozenset.union if one_after_the_other else frozenset.intersection, found)


def provider_profile(
    inner: Runnable[Any, Any], configurable: Mapping[str, Any] = _NOTHING
) -> Profile:
    """Return whose rules the messages must keep: those of the chain's chat models.

    Models that a function uses by name count too. Where the models are of several providers, or
    none can be seen, what all providers accept.
    """
    parts = _parts(inner, configurable)
    found = {profile_for(part) for part in parts if isinstance(part, BaseLanguageModel)}
    return found.pop() if len(found) == 1 else "strict"


def _parts(
    runnable: Runnable[Any, Any],
    configurable: Mapping[str, Any],
    seen: frozenset[int] = frozenset(),
) -> Iterator[Runnable[Any, Any]]:
    """Yield a runnable and all it is made of; a function that names itself is met once."""
    yield runnable
    if id(runnable) in seen:
        return
    configurable = _with_bound(runnable, configurable)
    for part in _directly_in(runnable, configurable):
        yield from _parts(part, configurable, seen | {id(runnable)})


def _with_bound(runnable: Runnable[Any, Any], configurable: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what parts of the runnable are called with: a binding's values, then the call's."""
    if not isinstance(runnable, RunnableBindingBase | DynamicRunnable) or not runnable.config:
        return configurable
    return {**runnable.config.get("configurable", {}), **configurable}


def _directly_in(
    runnable: Runnable[Any, Any], configurable: Mapping[str, Any]
) -> Iterable[Runnable[Any, Any]]:
    if isinstance(runnable, RunnableBindingBase | RunnableEachBase):
        return (runnable.bound,)
    if isinstance(runnable, DynamicRunnable):
        return (_chosen(runnable, configurable),)
    if isinstance(runnable, RunnableLambda):
        return runnable.deps
    if isinstance(runnable, RunnableBranch):
        return (*(branch for _, branch in runnable.branches), runnable.default)
    return _steps(runnable)


def _steps(runnable: Runnable[Any, Any]) -> Iterable[Runnable[Any, Any]]:
    if isinstance(runnable, RunnableSequence):
        return runnable.steps
    if isinstance(runnable, RunnableWithFallbacks):
        return (runnable.runnable, *runnable.fallbacks)
    if isinstance(runnable, RunnableParallel):
        return runnable.steps__.values()
    if isinstance(runnable, RunnableAssign):
        return (runnable.mapper,)
    return runnable.runnables.values() if isinstance(runnable, RouterRunnable) else ()


def _chosen(
    runnable: DynamicRunnable[Any, Any], configurable: Mapping[str, Any]
) -> Runnable[Any, Any]:
    """Return what a call runs in its place.

    Fields that the call sets make another object of the same class, which for a model may open
    connections: the one they are set for tells as much.
    """
    from langchain_core.runnables.configurable import RunnableConfigurableFields

    if isinstance(runnable, RunnableConfigurableFields) and isinstance(
        runnable.default, BaseLanguageModel
    ):
        return runnable.default
    config = cast("RunnableConfig", {"configurable": dict(configurable)})
    return runnable.prepare(config)[0]
