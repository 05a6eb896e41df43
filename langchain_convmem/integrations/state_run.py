"""What nodes of graphs and hooks of agents do alike: a step of a run whose state has messages."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import TurnMemory, TurnOptions, read_key
from langchain_convmem.turns.state_sync import (
    BegunTurn,
    NodeContext,
    StateSync,
    SyncedTurn,
    TurnNote,
    find_aside,
    find_exchange,
    find_start,
    is_stand_in,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import PartialReplyHandler, mark_unstored, measure_times
from langchain_convmem.turns.view import (
    SPOKEN,
    ModelContext,
    TurnEntries,
    TurnView,
    make_entry,
    place_turn,
)
from langchain_convmem.views.codec import get_role, get_text_pieces
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.providers import Provider, resolve_provider

KeepState: TypeAlias = Literal["all", "turn"]

_FRONT = 0
"""Where a stand-in stands: before every position of a log."""
_BEHIND = 2**32
"""Where a turn stands: behind every position of a log."""


def check_settings(
    memory: TurnMemory, options: TurnOptions, keep_state: str, provider: Provider | None
) -> None:
    """Check what nodes and hooks are given.

    Raises:
        ConfigError: If an option is invalid, the provider unknown, or `keep_state` says neither to
            keep all of a state nor the latest turn of it.
    """
    memory.use_options(options)
    if provider is not None:
        resolve_provider(provider)
    if keep_state not in ("all", "turn"):
        raise ConfigError(f"keep_state must be 'all' or 'turn', got {keep_state!r}")


@dataclass(frozen=True, slots=True)
class StateRun:
    """A step of a run, as a node or a hook does it. Not thread-safe.

    Attributes:
        memory: Whose log and recall.
        sync: Keeps the log in step with the state.
        options: What holds for the turn.
        trace: Its callbacks.
    """

    memory: TurnMemory
    sync: StateSync
    options: TurnOptions
    trace: TurnTrace

    @classmethod
    def open(
        cls,
        memory: TurnMemory,
        options: TurnOptions,
        config: RunnableConfig,
        *,
        host: str,
        context: Any = None,
    ) -> StateRun:
        """Return a step of the run that a config is of.

        Args:
            memory: Whose log and recall.
            options: What holds for every turn; the call may override them.
            config: Of the node.
            host: What is called, for errors.
            context: That of the graph; None is that of the run that goes on.

        Raises:
            ConfigError: If the run names no thread, or sets an option that there is not.
        """
        configurable = config.get("configurable", {})
        chosen = options.merge_call(configurable)
        place = NodeContext.read(config, read_key(configurable, context, host=host))
        trace = TurnTrace(config)
        sync = StateSync(memory, place, trace)
        return cls(memory, sync, chosen, trace)

    @property
    def key(self) -> ThreadKey:
        """The thread."""
        return self.sync.context.key

    def begin(
        self, messages: Sequence[BaseMessage], note: TurnNote | None, keep_state: KeepState
    ) -> BegunTurn:
        """Store what the state has new, and return the turn that begins; see `StateSync.begin`."""
        if not self.options.remember:
            messages = _mark_question(messages)
        begun = self.sync.begin(messages, note)
        if keep_state == "turn" and not self.sync.context.is_stateless:
            return replace(begun, messages=begun.messages[find_start(begun.messages, begun.note) :])
        return begun

    def read_context(
        self,
        turn: BegunTurn,
        synced: SyncedTurn,
        shown: Sequence[BaseMessage],
        shape: ChainShape,
    ) -> ModelContext:
        """Build what a model gets: the thread, the turn, and recalled lines in the question.

        Args:
            turn: The turn as the state has it.
            synced: The same as the log has it.
            shown: What the call would show of the state; others may have changed it.
            shape: What the model takes.
        """
        self.memory.use_model(shape.model)
        ids = {one.id for one in turn.messages}
        earlier = ids - {one.id for one in synced.messages}
        aside = find_aside([one for one in shown if one.id in ids], turn.note, self.sync.context)
        said = [one for one in shown if one.id not in earlier and not is_stand_in(one)]
        own, names = self._make_entries(synced, said), {one.id for one in said}
        asked = next(iter(synced.known.values()), None)

        def locate(entries: Sequence[Entry]) -> TurnEntries:
            placed = place_turn(entries, asked, own)
            before = [entry for entry in placed.before if entry.message_id not in names]
            before = _put_stand_in(before, shown, earlier, self.key)
            return replace(placed, before=before).add_aside(aside)

        view = TurnView(self.memory, self.key, self.options, shape, self.trace)
        opening = map(self.memory.drafting.apply_hook, _select_opening(synced.messages))
        searched = (get_text_pieces(one) for one in opening if one is not None)
        context = view.build_context(locate, "\n".join(chain.from_iterable(searched)))
        self.trace.dispatch_event("convmem.context", context.count)
        return context

    def _make_entries(self, turn: SyncedTurn, said: Sequence[BaseMessage]) -> list[Entry]:
        """Return what a model is to see of a turn as entries behind all that the log has.

        Names that a view makes up are made of the entry's id, which must not change.
        """
        turn_id = turn.id or make_ulid()
        return [
            make_entry(
                message,
                entry_id=turn.known[message.id].id if message.id in turn.known else make_ulid(),
                key=self.key,
                position=_BEHIND + number,
                turn_id=turn_id,
            )
            for number, message in enumerate(said)
        ]


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call of the model, from before it to what is stored of its reply.

    Attributes:
        turn: The turn.
        heard: What is heard of the reply.
        started_ms: When the call begins.
    """

    turn: SyncedTurn
    heard: PartialReplyHandler
    started_ms: int = field(default_factory=get_now_ms)

    def store(self, said: Sequence[BaseMessage], run: StateRun) -> list[BaseMessage]:
        """Store a reply; return it with the ids under which it is stored."""
        timing = measure_times(self.started_ms, self.heard.first_token_ms)
        return run.sync.store_reply(self.turn, said, timing)

    def store_broken(self, run: StateRun) -> None:
        """Store the words that came of a reply that broke off."""
        if said := self.heard.collect_broken():
            timing = measure_times(self.started_ms, self.heard.first_token_ms)
            run.sync.store_reply(self.turn, said, timing, is_cut=True)


def _mark_question(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with what the user says now marked as not to be stored."""
    start = find_exchange(messages)
    said = [mark_unstored(one) if get_role(one) == "user" else one for one in messages[start:]]
    return [*messages[:start], *said]


def _select_opening(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return what the user said before anyone answered."""
    before = takewhile(lambda message: not isinstance(message, AIMessage | ToolMessage), messages)
    return [message for message in before if isinstance(message, HumanMessage)]


def _put_stand_in(
    before: list[Entry],
    shown: Sequence[BaseMessage],
    earlier: Collection[str | None],
    key: ThreadKey,
) -> list[Entry]:
    """Return what was said before, with a stand-in of the state for what it stands for."""
    places = [number for number, message in enumerate(shown) if is_stand_in(message)]
    if not places:
        return before
    stand_in = shown[places[-1]]
    kept = next((one.id for one in shown[places[-1] + 1 :] if one.id in earlier), None)
    live = [entry for entry in find_live_entries(before) if entry.role in SPOKEN]
    first = next((n for n, entry in enumerate(live) if entry.message_id == kept), len(live))
    gone = {entry.id for entry in live[:first]}
    entry_id = make_ulid()
    front = make_entry(stand_in, entry_id=entry_id, key=key, position=_FRONT, turn_id=entry_id)
    return [front, *(entry for entry in before if entry.id not in gone)]
