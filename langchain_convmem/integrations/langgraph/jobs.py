"""What the nodes do, as steps: the same for both forms of a node, and for nodes of one's own."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.integrations.langgraph.replies import (
    Reply,
    asked_in_turn,
    keep_asked,
    keep_reply,
)
from langchain_convmem.integrations.langgraph.state import (
    asked_in,
    check_answerable,
    messages_in,
    not_to_store,
    value_in,
)
from langchain_convmem.integrations.langgraph.viewing import StateTurn
from langchain_convmem.memory import ConversationMemory
from langchain_convmem.records import Entry
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.chain_shape import ChainShape, chain_shape
from langchain_convmem.turns.heard_replies import HeardReplies
from langchain_convmem.turns.messages import check_question
from langchain_convmem.turns.options import TurnOptions, read_key
from langchain_convmem.turns.recording import measure_times
from langchain_convmem.turns.replies import read_reply
from langchain_convmem.turns.state_sync import (
    NOTE_KEY,
    NodeContext,
    StateSync,
    TurnNote,
    check_user,
    find_aside,
    latest_exchange,
    select_spoken,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import ModelContext, TurnView
from langchain_convmem.views.context import Profile

__all__ = ["Asking", "Jobs", "Update"]

Update = dict[str, Any]

_PLAIN = ChainShape(slots=None, profile="strict", is_fixed=True)
"""What is known of a model that a node does not see."""


@dataclass(frozen=True, slots=True)
class Asking:
    """A call of the model in the making.

    Attributes:
        context: What there is to answer from.
        payload: What the model is called with.
        taken: Ids of the state's messages; None if the state keeps none.
        messages_key: Where the state keeps them.
        is_kept: Whether the turn is stored.
        started_ms: When the call begins.
        speaker: Under whose name the replies stand that name nobody.
    """

    context: ModelContext
    payload: Any
    taken: Collection[str | None] | None
    messages_key: str
    is_kept: bool
    started_ms: int
    speaker: str | None = None

    def answered(self, output: Any, heard: HeardReplies) -> Update:
        """Return what the state learns of the model's output, and of what was heard of it."""
        reply = read_reply(output, self.context.given)
        messages = [self._named(message) for message in reply.messages]
        if self.taken is None:
            timing = measure_times(self.started_ms, heard.first_token_ms)
            carried = Reply(messages, timing, self.is_kept)
            return {"reply": carried.to_text(), "answer": carried.text}
        return {self.messages_key: [self._with_free_id(message) for message in messages]}

    def _named(self, message: BaseMessage) -> BaseMessage:
        if self.speaker is None or message.name or message.type != "ai":
            return message
        return message.model_copy(update={"name": self.speaker})

    def _with_free_id(self, message: BaseMessage) -> BaseMessage:
        """Return a message that replaces none: a cached model repeats its ids."""
        if message.id and message.id not in (self.taken or ()):
            return message
        return message.model_copy(update={"id": new_ulid()})


@dataclass(frozen=True, slots=True)
class NodeRun:
    """One execution of a node.

    Attributes:
        node: Where in the run of the graph it is, and in which thread.
        options: What holds for the turn.
        trace: Its callbacks.
    """

    node: NodeContext
    options: TurnOptions
    trace: TurnTrace


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of the nodes. Thread-safe: it only holds settings.

    Attributes:
        memory: Whose log and recall.
        options: What holds for every turn, unless a call sets it.
        messages_key: Where a state keeps its messages, if it does.
        follow_edits: Whether what leaves the state leaves the views.
        model: What the node `model` calls; None where that is a node of the application's.
        profile: Whose rules the messages keep; None goes by the model.
        speaker: Under whose name the model's replies stand; None leaves them as they are.
        keeps_lines: Whether the state keeps which lines were recalled; if not, the node `model`
            recalls them itself, and the node `recall` need not.
    """

    memory: ConversationMemory
    options: TurnOptions
    messages_key: str = "messages"
    follow_edits: bool = True
    model: Runnable[Any, Any] | None = None
    profile: Profile | None = None
    speaker: str | None = None
    keeps_lines: bool = True

    # -- recall ---------------------------------------------------------------------------------

    def recalling(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Store what the user says, and look for lines."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is None:
            return (yield from self._recalling_input(state, run))
        check_answerable(messages)
        check_question(messages[-1])
        note: TurnNote | None = None
        if run.options.remember:
            note = yield from self._sync(state, run).begin(messages, _note_in(state))
        turn, found = yield from self._exchange(messages, run, note)
        update: Update = {NOTE_KEY: note}
        if self.keeps_lines:
            context = yield from self._context(turn, run)
            turn_id = found[-1].turn_id if found else ""
            update |= {"turn_id": turn_id, "recalled_ids": context.line_refs}
        if not run.options.remember and not run.node.is_sent:
            # The next call stores what the state has new; what is not to be stored says so itself.
            new = [message for message in turn.now if message.id not in turn.known]
            update[self.messages_key] = [not_to_store(message) for message in new]
        return update

    def _recalling_input(self, state: Any, run: NodeRun) -> Steps[Update]:
        asked = asked_in(state, run.node)
        if not run.options.remember or self.memory.drafting.draft(asked) is None:
            context = yield from self._context(StateTurn(run.node.key, (), [asked]), run)
            reply = Reply((), is_kept=False).to_text()
            return {"reply": reply, "answer": "", "recalled_ids": context.line_refs}
        before = value_in(state, "turn_id")
        entry = yield from keep_asked(self.memory, run.node, asked, before)
        context = yield from self._context(StateTurn(run.node.key, [entry.message_id]), run)
        return {
            "reply": "",
            "answer": "",
            "turn_id": entry.turn_id,
            "recalled_ids": context.line_refs,
            "input": _emptied(state),
        }

    # -- record ---------------------------------------------------------------------------------

    def recording(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Store the reply."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is not None:
            yield from self._catch_up(state, messages, run)
            return {}
        reply = Reply.of(value_in(state, "reply"), value_in(state, "answer"))
        if reply is None:
            return {}
        update: Update = {"reply": "", "answer": reply.text}
        if not reply.is_kept:
            return {**update, "input": _emptied(state)}
        if run.options.remember:
            drafts = yield from keep_reply(self.memory, run.node, _turn_in(state), reply)
            yield from trace.report_stored(drafts)
        return update

    # -- summarize ------------------------------------------------------------------------------

    def summarizing(self, _state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Update]:
        """Compact the thread if that is due; the state learns nothing of it."""
        run = self._run(config, trace)
        if run.options.remember:
            yield from self.memory.after_turn_steps(run.node.key)
        return {}

    # -- model ----------------------------------------------------------------------------------

    def asking(self, state: Any, config: RunnableConfig, trace: TurnTrace) -> Steps[Asking]:
        """Return the call of the model."""
        shape = _PLAIN
        if self.model is not None:
            shape = chain_shape(self.model, config.get("configurable", {}), self.profile)
        context = yield from self.looking(state, config, trace, shape=shape)
        messages = value_in(state, self.messages_key)
        taken = None if messages is None else {message.id for message in messages}
        is_kept = messages is not None or Reply.is_kept_in(value_in(state, "reply"))
        return Asking(
            context,
            context.payload(),
            taken,
            self.messages_key,
            is_kept,
            now_ms(),
            self.speaker,
        )

    def looking(
        self, state: Any, config: RunnableConfig, trace: TurnTrace, *, shape: ChainShape
    ) -> Steps[ModelContext]:
        """Store what is new, and return what there is to answer from."""
        run = self._run(config, trace)
        messages = messages_in(state, self.messages_key, run.node)
        if messages is not None:
            yield from self._catch_up(state, messages, run)
            turn, _ = yield from self._exchange(messages, run, _note_in(state))
        elif Reply.is_kept_in(value_in(state, "reply")):
            known = yield from asked_in_turn(self.memory, run.node, _turn_in(state))
            turn = StateTurn(run.node.key, known)
        else:
            turn = StateTurn(run.node.key, (), [asked_in(state, run.node)])
        only = value_in(state, "recalled_ids")
        context = yield from self._context(turn, run, shape=shape, only=only)
        yield from trace.told("convmem.context", context.counts)
        return context

    def calling(
        self,
        state: Any,
        config: RunnableConfig,
        trace: TurnTrace,
        *,
        update: Update,
    ) -> Steps[None]:
        """Store a reply that calls tools before they run."""
        replies = update.get(self.messages_key)
        if replies and getattr(replies[-1], "tool_calls", None):
            run = self._run(config, trace)
            messages = messages_in(state, self.messages_key, run.node) or []
            yield from self._catch_up(state, [*messages, *replies], run)

    def breaking(
        self,
        state: Any,
        config: RunnableConfig,
        trace: TurnTrace,
        *,
        asking: Asking,
        heard: HeardReplies,
    ) -> Steps[None]:
        """Store the words of a reply that broke off."""
        run = self._run(config, trace)
        said, timing = heard.broken(), measure_times(asking.started_ms, heard.first_token_ms)
        if not (said and asking.is_kept and run.options.remember):
            return
        messages = messages_in(state, self.messages_key, run.node)
        if messages is None:
            reply, turn_id = Reply(said, timing), _turn_in(state)
            drafts = yield from keep_reply(self.memory, run.node, turn_id, reply, is_broken=True)
            if drafts:
                yield from trace.report_stored(drafts)
        else:
            sync = self._sync(state, run)
            turn = yield from sync.catch_up(messages, _note_in(state))
            yield from sync.reply_broken(turn, said, messages, timing)

    # -- what they share ------------------------------------------------------------------------

    def _run(self, config: RunnableConfig, trace: TurnTrace) -> NodeRun:
        configurable = config.get("configurable", {})
        node = NodeContext.of(config, read_key(configurable, host="the graph"))
        return NodeRun(node, self.options.for_call(configurable, self.model), trace)

    def _sync(self, state: Any, run: NodeRun) -> StateSync:
        check_user(_note_in(state), run.node.key)
        return StateSync(
            self.memory.log,
            self.memory.drafting,
            run.node,
            follows_removals=self.follow_edits,
            trace=run.trace,
        )

    def _catch_up(self, state: Any, messages: Sequence[BaseMessage], run: NodeRun) -> Steps[None]:
        """Store what the state has new of the latest turn."""
        if run.options.remember:
            yield from self._sync(state, run).catch_up(messages, _note_in(state))

    def _exchange(
        self, messages: Sequence[BaseMessage], run: NodeRun, note: TurnNote | None
    ) -> Steps[tuple[StateTurn, list[Entry]]]:
        """Return the latest exchange of a state, and the log's entries of it, dead ones too."""
        spoken = select_spoken(messages, run.node, note)
        start = latest_exchange(spoken)
        names = [message.id for message in spoken]
        if note is not None and note["first"] in names[start:]:
            start = names.index(note["first"])  # what stands before was forgotten, or answered
        now, names = spoken[start:], names[start:]
        found: list[Entry] = yield step(self.memory.log, "find", run.node.key, names)
        known = {entry.message_id for entry in found}
        return StateTurn(run.node.key, known, now, find_aside(messages, note, run.node)), found

    def _context(
        self,
        turn: StateTurn,
        run: NodeRun,
        *,
        shape: ChainShape = _PLAIN,
        only: Collection[str] | None = None,
    ) -> Steps[ModelContext]:
        """Return what there is to answer from.

        Args:
            turn: The turn that the state is in.
            run: The node that runs.
            shape: What the model takes.
            only: Lines that were recalled before: others are left out. None recalls anew.
        """
        key, trace = run.node.key, run.trace
        view = TurnView(self.memory, key, run.options, shape.profile, trace, shape.slots)
        return (yield from view.context_steps(turn.locate, only=only))


def _note_in(state: Any) -> TurnNote | None:
    note: TurnNote | None = value_in(state, NOTE_KEY)
    return note


def _turn_in(state: Any) -> str:
    """Return the turn that a state is in.

    Raises:
        ConfigError: If it names none.
    """
    turn_id = value_in(state, "turn_id")
    if not isinstance(turn_id, str) or not turn_id:
        msg = (
            f"the state is in no turn (turn_id={turn_id!r}): the node 'recall' must run first, and "
            "the state needs the keys of MemoryState, or 'messages'"
        )
        raise ConfigError(msg)
    return turn_id


def _emptied(state: Any) -> str | None:
    """Return what stands for `input` where the user's words are no longer needed."""
    return "" if isinstance(value_in(state, "input"), str) else None
