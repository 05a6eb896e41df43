"""`memory.wrap(inner)`: a Runnable that remembers.

A turn guarantees its order: the user's message is durable before the model is called, the
reply is stored as one message when it is complete, and what a cut stream had brought is stored as
`interrupted`. Failed writes are raised, not just logged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Hashable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from langchain_core.callbacks import AsyncCallbackManagerForChainRun, CallbackManagerForChainRun
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import Runnable, RunnableConfig, RunnableSerializable
from langchain_core.runnables.graph import Graph
from langchain_core.runnables.utils import ConfigurableFieldSpec
from langchain_core.utils.pydantic import TypeBaseModel
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr

from langchain_convmem.background import finish, hop
from langchain_convmem.conversation.streams import (
    ClosingStreams,
    aclose_quietly,
    merge_chunks,
    require_complete,
)
from langchain_convmem.history import LiveThread, read_all
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.messages import (
    CallInput,
    Joined,
    continue_turn,
    join_thread,
    read_input,
)
from langchain_convmem.turns.options import (
    NAMESPACE,
    RecallPlace,
    TurnOptions,
    TurnSettings,
    read_key,
)
from langchain_convmem.turns.recalled import RECALLED
from langchain_convmem.turns.replies import (
    INTERRUPTED,
    PartialReplyHandler,
    ReplyCollector,
    is_unfinished,
    read_reply,
    settle_unfinished,
)
from langchain_convmem.turns.tracing import TurnTrace, stamp_config
from langchain_convmem.turns.turn import TURN_QUEUE, measure_times, store_reply
from langchain_convmem.turns.view import (
    CallContext,
    ModelContext,
    TurnEntries,
    TurnView,
    find_turn_start,
    is_answered,
    list_earlier_entries,
    make_entry,
    note_recalled,
)
from langchain_convmem.views.codec import get_role, get_text_pieces, make_draft
from langchain_convmem.views.counting import get_text_counter
from langchain_convmem.views.edits import plan_replace, plan_rewind
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import build_message, is_remembered

if TYPE_CHECKING:
    from langchain_convmem.turns.memory import TurnMemory

_ATTEMPT = "attempt_of"
"""Key in the user entry's `aux`: the run whose retries are the same turn."""


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
    profile_tokens: int | None = None
    remember: bool = True
    recall_place: RecallPlace = "user"
    queue_timeout_s: float = 300.0
    provider: Any = Field(default=None, repr=False)
    user_id_key: SecretStr | None = Field(default=None, repr=False)
    input_messages_key: str | None = None
    history_messages_key: str | None = None
    output_messages_key: str | None = None
    record_recall: bool = False

    model_config = ConfigDict(
        arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )

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
        """The keys that a call may set under `configurable`."""
        own = [
            _make_spec("thread_id", str, "The conversation; required, here or as session_id."),
            _make_spec("session_id", str, "Another name of thread_id."),
            _make_spec("user_id", str, "Whose lines are recalled."),
            _make_spec(NAMESPACE, TurnSettings, "What this call sets of the memory's options."),
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
        return self._call_with_config(self._invoke, input, self._stamp(config), **kwargs)

    async def ainvoke(
        self,
        input: Any,
        config: RunnableConfig | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one turn and return what the inner chain returns."""
        stamp = self._stamp(config)
        return await self._acall_with_config(self._ainvoke, input, stamp, **kwargs)

    def _invoke(
        self,
        value: Any,
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._make_turn(value, config, run_manager.parent_run_id)
        with self._hold(turn):
            payload = turn.begin()
            heard = turn.listen()
            output = self.inner.invoke(payload, heard.listen(config), **kwargs)
            turn.finish(output, heard.message)
            turn.settle()
        return output

    async def _ainvoke(
        self,
        value: Any,
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Any:
        turn = self._make_turn(value, config, run_manager.parent_run_id)
        async with self._ahold(turn):
            payload = await hop(turn.begin)
            heard = turn.listen()
            output = await self.inner.ainvoke(payload, heard.listen(config), **kwargs)
            await finish(partial(turn.finish, output, heard.message))
            await hop(turn.settle)
        return output

    # -- streams --------------------------------------------------------------------------------

    def _stream(
        self,
        inputs: Iterator[Any],
        run_manager: CallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> Iterator[Any]:
        turn = self._make_turn(merge_chunks(list(inputs)), config, run_manager.parent_run_id)
        with self._hold(turn):
            payload = turn.begin()
            reply = ReplyCollector()
            heard = turn.listen()
            try:
                chunks = self.inner.stream(payload, heard.listen(config), **kwargs)
                for chunk in require_complete(chunks):
                    turn.take_chunk(reply, chunk)
                    yield chunk
            except BaseException:
                turn.cut(reply)
                raise
            turn.complete(reply, heard.message)
            turn.settle()

    async def _astream(
        self,
        inputs: AsyncIterator[Any],
        run_manager: AsyncCallbackManagerForChainRun,
        config: RunnableConfig,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        parts = [part async for part in inputs]
        turn = self._make_turn(merge_chunks(parts), config, run_manager.parent_run_id)
        async with self._ahold(turn):
            payload = await hop(turn.begin)
            reply = ReplyCollector()
            heard = turn.listen()
            stream = self.inner.astream(payload, heard.listen(config), **kwargs)
            try:
                async for chunk in stream:
                    turn.take_chunk(reply, chunk)
                    yield chunk
            except BaseException:
                await finish(partial(turn.cut, reply))
                raise
            finally:
                await aclose_quietly(stream)
            await finish(partial(turn.complete, reply, heard.message))
            await hop(turn.settle)

    # -- the turn -------------------------------------------------------------------------------

    @property
    def options(self) -> TurnOptions:
        """Options of every turn unless a call overrides them."""
        return TurnOptions(
            **{field.name: getattr(self, field.name) for field in fields(TurnOptions)}
        )

    def _make_turn(self, value: Any, config: RunnableConfig, parent_run_id: Any) -> WrappedTurn:
        """Return the turn of one call.

        Raises:
            ConfigError: If the call names no thread, two threads or two users, or sets an option
                that there is not.
            InvalidMessageError: If nothing in the input can be answered.
        """
        configurable = config.get("configurable", {})
        options = self.options.merge_call(configurable, self.inner)
        shape = self._read_shape(configurable)
        get_turn_memory(self.memory).use_model(shape.model, self.inner)
        keys = DictKeys(
            self.input_messages_key, self.history_messages_key, self.output_messages_key
        )
        return WrappedTurn(
            memory=get_turn_memory(self.memory),
            key=read_key(configurable, host="the chain"),
            options=options,
            incoming=read_input(
                value,
                input_messages_key=keys.input_messages_key,
                history_messages_key=keys.history_messages_key,
            ),
            shape=shape,
            keys=keys,
            trace=TurnTrace(config),
            attempt_of=None if parent_run_id is None else str(parent_run_id),
            notes_recall=self.record_recall,
        )

    @contextmanager
    def _hold(self, turn: WrappedTurn) -> Iterator[None]:
        """Hold the thread of a turn, and let who closes the memory wait for it."""
        queued = TURN_QUEUE.get_lock(turn.place).hold(self.queue_timeout_s)
        with queued, turn.memory.active_turns.count():
            yield

    @asynccontextmanager
    async def _ahold(self, turn: WrappedTurn) -> AsyncIterator[None]:
        """Hold the thread of a turn without blocking the event loop; see `_hold`."""
        async with TURN_QUEUE.get_lock(turn.place).ahold(self.queue_timeout_s):
            with turn.memory.active_turns.count():
                yield

    def _stamp(self, config: RunnableConfig | None) -> RunnableConfig:
        key = self.user_id_key
        return stamp_config(config, None if key is None else key.get_secret_value())

    def _read_shape(self, configurable: dict[str, Any]) -> ChainShape:
        if self._fixed_shape is not None:
            return self._fixed_shape
        shape = ChainShape.from_chain(self.inner, configurable, self.provider)
        if shape.is_fixed:
            self._fixed_shape = shape
        return shape


def _make_spec(name: str, annotation: Any, text: str) -> ConfigurableFieldSpec:
    return ConfigurableFieldSpec(
        id=name, annotation=annotation, name=name, description=text, default=None, is_shared=True
    )


class DictKeys(NamedTuple):
    """Names under which dicts hold what is said, what was said before, and the answer."""

    input_messages_key: str | None = None
    history_messages_key: str | None = None
    output_messages_key: str | None = None

    def rename(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Return what a chain is called with, under these names as well."""
        history, said = self.history_messages_key or "history", self.input_messages_key or "input"
        return {**payload, history: payload["history"], said: payload["input"]}


# -- One turn: what it stores, and what the chain is called with ----------------------------------


@dataclass(slots=True, kw_only=True)
class WrappedTurn:
    """One turn of a wrapped chain. Not thread-safe: one turn, one caller.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        options: What the model gets, and whether the turn is stored.
        incoming: What the call says.
        shape: What the chain takes.
        keys: Names of what dicts hold.
        trace: Where the turn is reported.
        attempt_of: The run whose retries are the same turn.
        notes_recall: Whether the reply's metadata says which lines were recalled for it.
        kept: What the write hook leaves of what the user says, to store and to search for; the
            model gets the user's own words.
        opening: How it began; None before.
        context: What the model gets; None before.
        started_ms: When the chain was called.
        first_token_ms: When the first words of a stream came.
        stored: What was stored of the reply.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    incoming: CallInput
    shape: ChainShape
    keys: DictKeys
    trace: TurnTrace
    attempt_of: str | None
    notes_recall: bool = False
    kept: BaseMessage | None = None
    opening: Opening | None = None
    context: ModelContext | None = None
    started_ms: int = 0
    first_token_ms: int | None = None
    stored: Sequence[Draft] = ()

    @property
    def place(self) -> tuple[Hashable, ThreadKey]:
        """The thread in its log."""
        return self.memory.log_place, self.key

    # -- before the model -------------------------------------------------------------------------

    def begin(self) -> Any:
        """Store the user's message and return the input of the inner chain.

        Raises:
            InvalidMessageError: If the call goes on with a turn that is not open.
        """
        self.memory.check_call(recalls=self.options.recall)
        with self.trace.mark_internal():
            self._pass_hook()
            shape = self.shape
            view = TurnView(
                self.memory,
                self.key,
                self.options,
                shape.provider,
                self.trace,
                shape.slots,
                shape.model.name,
            )
            thread = view.read_thread()
            if self.incoming.continues:
                thread, opening = self._continue(thread)
            else:
                thread, opening = self._open(thread)
            query = "" if opening.kept is None else "\n".join(get_text_pieces(opening.kept))
            context = view.build_context(opening.locate, query, thread=thread)
            self.trace.dispatch_event("convmem.context", context.counts)
        self.opening, self.context, self.started_ms = opening, context, get_now_ms()
        payload = context.build_payload(self.incoming.extra)
        return self.keys.rename(payload) if isinstance(payload, dict) else payload

    def _pass_hook(self) -> None:
        """Ask the write hook what is to be stored of what the user says, if anything is."""
        human = self.incoming.human
        if human is None:
            return
        self.kept = self.memory.drafting.apply_hook(human)
        if not (is_remembered(human) and is_remembered(self.kept)):
            self.options = replace(self.options, remember=False)

    def _open(self, thread: LiveThread) -> tuple[LiveThread, Opening]:
        """Store what is new, and return the thread as it was before, with the turn."""
        human = cast("HumanMessage", self.incoming.human)
        asked = self._find_attempt(thread.entries, human)
        meant = Joined(new=[human])
        if asked is None:
            whole, meant = join_thread(
                self.memory.log, thread, self.incoming.said, self._to_stored_form
            )
            if meant.again is not None or meant.replaces is not None:
                thread = whole  # else only the comparison took all of it
        asked = asked or meant.again
        aside = [one for one in self.incoming.said[:-1] if not is_remembered(one)]
        earlier: Sequence[Entry] = ()
        if asked is None:
            if self.options.remember and self.kept is not None:
                turn_id = make_ulid()
                earlier, asked = self._store_new(thread, meant, turn_id)
                if meant.replaces is None and asked.turn_id != turn_id:
                    thread = self._take_back_after(thread, asked)
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
        )

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        if message is self.incoming.human:
            return self.kept  # the write hook was asked already
        return self.memory.drafting.filter_message(message)

    # -- a turn that is new, or said otherwise ----------------------------------------------------

    def _store_new(
        self, thread: LiveThread, meant: Joined, turn_id: str
    ) -> tuple[Sequence[Entry], Entry]:
        """Return the entries of what is new; the last is what the user says, in a turn of this id.

        The log keeps the turn of a message whose id it knows.
        """
        kept = cast("BaseMessage", self.kept)
        drafts = list(self._draft_earlier(meant.new[:-1]))
        retracting: Sequence[Draft] = ()
        draft = make_draft(kept, turn_id=turn_id)
        if meant.replaces is not None:
            old = meant.replaces.message_id
            *retracting, draft = plan_replace(thread.entries, old, kept, keep_later=False)
        aux = {} if self.attempt_of is None else {_ATTEMPT: self.attempt_of}
        drafts = [*retracting, *drafts, replace(draft, metadata=Metadata(aux=aux))]
        *earlier, asked = self.memory.log.append(self.key, drafts)[len(retracting) :]
        return earlier, asked

    def _take_back_after(self, thread: LiveThread, asked: Entry) -> LiveThread:
        """Retract what followed a message of the archive, if its id was said with another text.

        Returns:
            All of the thread.
        """
        last = thread.entries[-1].position if thread.entries else 0
        thread = read_all(self.memory.log, thread)
        is_older = any(
            entry.turn_id == asked.turn_id and entry.id != asked.id for entry in thread.entries
        )
        if is_older and asked.position > last:
            drafts = plan_rewind(thread.entries, asked.id)
            self.memory.log.append(self.key, drafts)
        return thread

    def _draft_earlier(self, messages: Sequence[BaseMessage]) -> Iterator[Draft]:
        """Yield drafts of what was said elsewhere before this turn: each question opens one."""
        turn_id, role = make_ulid(), ""
        for message in messages:
            if get_role(message) == "user" and role != "user":
                turn_id = make_ulid()
            role = get_role(message)
            yield from self.memory.drafting.build_all([message], turn_id=turn_id)

    # -- a turn that the thread has ---------------------------------------------------------------

    def _find_attempt(self, entries: Sequence[Entry], human: HumanMessage) -> Entry | None:
        """Return the user's entry of a turn that this run tries again, if it does."""
        if self.attempt_of is None or human.id is not None:
            return None  # a message with an id is recognised by it
        live = find_live_entries(entries)
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

    def _continue(self, thread: LiveThread) -> tuple[LiveThread, Opening]:
        """Store what leads to the results of tools that a turn goes on with, and them."""
        results = self.incoming.results
        before = self.incoming.said[: len(self.incoming.said) - len(results)]
        entries = list(thread.entries)
        if before:
            thread, joined = join_thread(self.memory.log, thread, before, self._to_stored_form)
            drafts = list(self._draft_earlier(joined.new))
            entries = [*thread.entries, *self._keep(drafts, thread.entries)]
        found = continue_turn(entries, results)
        drafts = self.memory.drafting.build_all(found.results, turn_id=found.turn_id)
        if len(drafts) < len(results):  # the write hook takes one away, which the model has to see
            drafts = [make_draft(result, turn_id=found.turn_id) for result in found.results]
            kept = self._make_entries(drafts, entries)
        else:
            kept = list(self._keep(drafts, entries))
        asked, stored = found.asked, {entry.id for entry in kept}
        loop = [
            entry
            for entry in find_live_entries(entries)
            if entry.id in found.kept and entry.id not in {asked.id, *stored}
        ]
        earlier = [entry for entry in entries[len(thread.entries) :] if entry.id not in found.kept]
        return thread, Opening(
            self.key,
            cast("HumanMessage", build_message(asked)),
            asked.message,
            asked,
            earlier,
            loop=[*loop, *kept],
            instructions=self.incoming.instructions,
        )

    def _keep(self, drafts: Sequence[Draft], entries: Sequence[Entry]) -> Sequence[Entry]:
        """Store messages, if this turn is stored, and return their entries."""
        if not drafts:
            return []
        if not self.options.remember:
            return self._make_entries(drafts, entries)
        return self.memory.log.append(self.key, drafts)

    def _make_entries(self, drafts: Sequence[Draft], entries: Sequence[Entry]) -> list[Entry]:
        """Return messages as the entries that they would be after these."""
        last = entries[-1].position if entries else 0
        return [
            make_entry(
                draft.message,
                entry_id=make_ulid(),
                key=self.key,
                position=last + number,
                turn_id=str(draft.turn_id),
            )
            for number, draft in enumerate(drafts, 1)
            if draft.message is not None
        ]

    # -- after the model --------------------------------------------------------------------------

    def take_chunk(self, reply: ReplyCollector, chunk: Any) -> None:
        """Add a chunk of the reply; note the time of the first one."""
        reply.add(chunk)
        if self.first_token_ms is None and reply.has_text:
            self.first_token_ms = get_now_ms()

    def listen(self) -> PartialReplyHandler:
        """Return what hears the models of the chain, and learns what they take."""
        return PartialReplyHandler(self.memory.token_counters.learn)

    def finish(self, output: Any, heard: AIMessage | None = None) -> None:
        """Store a complete reply, or one that its provider never finished.

        Args:
            output: What the chain returned.
            heard: The last message that a model of it said.
        """
        reply = read_reply(
            output, self._given, heard=heard, output_messages_key=self.keys.output_messages_key
        )
        if reply.messages and is_unfinished(reply.messages[-1]):
            self._store(settle_unfinished(reply.messages), reply.aux, INTERRUPTED)
        else:
            self._store(reply.messages, reply.aux)

    def complete(self, reply: ReplyCollector, heard: AIMessage | None = None) -> None:
        """Store the reply of a stream that came to its end, its provider's last word included."""
        if reply.is_unfinished:
            self._store(reply.collect_unfinished(self._given), {}, INTERRUPTED)
        else:
            whole = reply.complete(
                self._given, heard=heard, output_messages_key=self.keys.output_messages_key
            )
            self._store(whole.messages, whole.aux)

    def cut(self, reply: ReplyCollector) -> None:
        """Store the part of a stream received before it was cut off, marked `interrupted`."""
        self._store(reply.collect_interrupted(self._given), {}, INTERRUPTED)

    @property
    def _given(self) -> Sequence[BaseMessage]:
        """The messages that the inner chain was called with."""
        return () if self.context is None else self.context.given

    def _store(
        self, messages: Sequence[BaseMessage], aux: Mapping[str, Any], *attributes: str
    ) -> None:
        context, opening = self.context, self.opening
        if context is None or opening is None or not (messages and self.options.remember):
            return
        with self.trace.mark_internal():
            own = self.trace.own_tokens.to_counts()
            timing = measure_times(self.started_ms, self.first_token_ms)
            aux = {**aux, **self._note_recall(context), **({OWN_TOKENS: own} if own else {})}
            drafts = store_reply(
                self.memory.log,
                self.key,
                self.memory.drafting,
                messages,
                turn_id=context.turn.own[-1].turn_id,
                start=context.turn.start,
                metadata=Metadata(attributes, timing, aux=aux),
                rounds=opening.rounds,
            )
            if drafts:
                self.stored = drafts
                self.memory.note_turn(self.key)
                self.trace.report_stored(drafts)
                self.trace.report_own_models()

    def settle(self) -> None:
        """Compact the thread after a reply that was stored, if that is due."""
        said = [draft.message for draft in self.stored if draft.message is not None]
        if said and self.context is not None:
            with self.trace.mark_internal():
                self.memory.compact(self.key, self.context.view, said)

    def _note_recall(self, context: ModelContext) -> dict[str, Any]:
        """Return what the reply's metadata says of recall; nothing where none was asked for."""
        if not (self.notes_recall and self.options.recall):
            return {}
        counter = self.memory.token_counters.get_counter(self.shape.model.name)
        return {RECALLED: note_recalled(context, get_text_counter(counter))}


@dataclass(frozen=True, slots=True)
class Opening:
    """A turn that has begun.

    Attributes:
        key: The thread.
        human: What the user says, as the model gets it.
        kept: The message after the write hook.
        asked: The user's entry; None of a turn that is not stored.
        earlier: Entries of what was said before it and came with the same call.
        loop: Entries that follow it: calls of its earlier rounds, and their results.
        instructions: System messages of this call.
        context_only: What else only this call shows, before what the user says.
    """

    key: ThreadKey
    human: HumanMessage
    kept: BaseMessage | None
    asked: Entry | None
    earlier: Sequence[Entry] = ()
    loop: Sequence[Entry] = ()
    instructions: Sequence[BaseMessage] = ()
    context_only: Sequence[BaseMessage] = ()

    @property
    def rounds(self) -> frozenset[str]:
        """Ids of the turn's entries that a reply follows, and does not replace."""
        return frozenset(entry.id for entry in self.loop)

    def locate(self, entries: Sequence[Entry]) -> TurnEntries:
        """Return the turn among the entries of its thread, which is seen as it was before."""
        before, start = (
            list_earlier_entries(entries, self.asked),
            find_turn_start(entries, self.asked),
        )
        known = {entry.id for entry in before}
        shown = [*before, *(entry for entry in self.earlier if entry.id not in known)]
        asked = self._make_unstored(start) if self.asked is None else self._show_in_full(self.asked)
        turn = TurnEntries(shown, [asked, *self.loop], start)
        return CallContext(self.instructions, self.context_only).add_to(turn)

    def _show_in_full(self, asked: Entry) -> Entry:
        """Return the user's entry with what the user said: the write hook is not for this turn."""
        return replace(asked, message=self.human, contents=get_text_pieces(self.human))

    def _make_unstored(self, position: int) -> Entry:
        """Return the user's message as the entry it would be, for a turn that is not stored."""
        entry_id = make_ulid()
        return make_entry(
            self.human, entry_id=entry_id, key=self.key, position=position, turn_id=entry_id
        )
