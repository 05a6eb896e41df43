"""A state that keeps messages, and the log: what to store of it, and what to take out of the views.

For graphs and agents alike. A state holds messages by id and the log knows them by id, so whatever
runs again, a retry, a resumed run, a turn that is tried once more, stores nothing twice. What is in
a state is what the user sees and edits, so the log follows; it only ever adds entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NotRequired

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from pydantic import BaseModel
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import derived_ulid, is_ulid, new_ulid, ulid_ms
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import (
    Changes,
    Control,
    Draft,
    Entry,
    Metadata,
    RetractReason,
    ThreadKey,
)
from langchain_convmem.steps import Steps, step
from langchain_convmem.turns.entries import says_same
from langchain_convmem.turns.replies import INTERRUPTED, with_free_ids
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.views.codec import draft_of, role_of
from langchain_convmem.views.copies import plain_value
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.plain_json import dumps
from langchain_convmem.views.summaries import summaries_over

__all__ = [
    "NOTE_KEY",
    "NodeContext",
    "StateDiffer",
    "StateSync",
    "SyncedTurn",
    "TurnNote",
    "check_user",
    "find_left_turns",
    "is_stand_in",
    "latest_exchange",
    "rewind_drafts",
]

NOTE_KEY: Final = "convmem_turn"
"""Where a state keeps its `TurnNote`."""
_AUX = "provenance"
"""Key in the `aux` of what was stored for a state: see `Provenance`."""
_SUMMARY_SOURCE = "summarization"


class TurnNote(TypedDict):
    """The turn under way, as a state keeps it: plain values, whatever the checkpointer allows."""

    id: str
    """The turn's id in the log, a ULID."""
    first: str
    """Id of the message it begins with."""
    user: str | None
    """Whose turn it is."""
    generation: NotRequired[int]
    """The log's generation of that user when the note was made; `forget` raises it."""
    settled: NotRequired[str | None]
    """Id of the last message that is not stored again where the log lacks it: it was forgotten."""


# -- where in a run a node stands -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Provenance:
    """How a state's message came into the log.

    Attributes:
        unit: What entries are linked by: `message` or `turn`; `control` of what retracts.
        after: The id of the one before it in the state, if there is one.
        level: Names of the nodes around the graph that stored it; empty at the top.
        step: Number of the step within that graph; grows from run to run.
        path: Checkpoint and task of each level, outermost first.
    """

    unit: str
    after: str | None
    level: str
    step: int
    path: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, entry: Entry) -> Provenance | None:
        """Return how an entry came into the log; None for one that was not stored for a state."""
        fields = entry.metadata.aux.get(_AUX)
        if not isinstance(fields, dict) or fields.keys() != set(cls.__slots__):
            return None
        path = tuple((str(checkpoint), str(task)) for checkpoint, task in fields["path"])
        return cls(**{**fields, "path": path})

    @property
    def checkpoint(self) -> str:
        """The checkpoint that the node ran from; later ones are greater."""
        return self.path[-1][0]

    def is_beside(self, path: Sequence[tuple[str, str]]) -> bool:
        """Return whether it was stored in another branch of the same step, side by side."""
        for (checkpoint, task), (other, other_task) in zip(self.path, path, strict=False):
            if task != other_task:
                return checkpoint == other
        return False


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One execution of a node of a graph; see `Provenance` for what it leaves in the log.

    Attributes:
        key: The thread of the log.
        level: Names of the nodes around the graph that the node is in; empty at the top.
        step: Number of the step within that graph.
        path: Checkpoint and task of each level, outermost first. A task is the same when it is
            retried or resumed, and another in a new run.
        since: The checkpoint that the run was told to begin from, if it was told.
        is_sent: Whether a `Send` brought the node its state.
        configurable: What the call set.
    """

    key: ThreadKey
    level: str
    step: int
    path: tuple[tuple[str, str], ...]
    since: str | None = None
    is_sent: bool = False
    configurable: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, config: RunnableConfig, key: ThreadKey) -> NodeContext:
        """Read a node's config."""
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        names = metadata.get("langgraph_checkpoint_ns", "").split("|")
        checkpoints = configurable.get("checkpoint_map") or {}
        path = [
            (checkpoints.get("|".join(names[:depth])) or "", name.partition(":")[2] or new_ulid())
            for depth, name in enumerate(names)
        ]
        return cls(
            key=key,
            level="|".join(name.partition(":")[0] for name in names[:-1]),
            step=metadata.get("langgraph_step", 0),
            path=tuple(path),
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            configurable=configurable,
        )

    @property
    def task(self) -> str:
        """What the node's own execution is called."""
        return self.path[-1][1]

    @property
    def checkpoint(self) -> str:
        """Id of the checkpoint that the node runs from."""
        return self.path[-1][0]

    @property
    def is_at_top(self) -> bool:
        """Whether an empty state means the beginning of the thread.

        Inside another graph, or brought by a `Send`, a state is empty for other reasons as well.
        """
        return not self.level and not self.is_sent

    def check_known(self, entries: int) -> None:
        """Refuse to go back in a thread that the log does not know.

        Raises:
            ConfigError: If the run was told where to begin, and there is no such thread.
        """
        if self.since is not None and self.key.user_id is None and not entries:
            msg = (
                f"the log has nothing of thread {self.key.thread_id!r} without a user, where the "
                "run is to begin from a checkpoint; the config of a snapshot names no user: add "
                'user_id to its "configurable"'
            )
            raise ConfigError(msg)

    def metadata(
        self,
        unit: str,
        after: str | None = None,
        *,
        timing: Mapping[str, int] | None = None,
        attributes: tuple[str, ...] = (),
    ) -> Metadata:
        """Return the metadata of an entry that this node stores; see `Provenance`."""
        mark = {
            "unit": unit,
            "after": after,
            "level": self.level,
            "step": self.step,
            "path": [list(one) for one in self.path],
        }
        return Metadata(attributes, timing or {}, aux={_AUX: mark})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return the control entry that takes entries out of the views; nothing for none."""
        if not ids:
            return []
        control = Control(tuple(ids), reason)
        return [Draft(role="control", control=control, metadata=self.metadata("control"))]


def check_user(note: TurnNote | None, key: ThreadKey) -> None:
    """Refuse to go on with somebody's state for somebody else.

    A checkpointer knows a thread by its id alone, and the config of a snapshot names no user.

    Raises:
        ConfigError: If the state holds a turn of another user than the run is for.
    """
    if note is not None and note["user"] not in (None, key.user_id):
        msg = (
            f"the state of thread {key.thread_id!r} is of the user {note['user']!r}, and this run "
            f"is for {key.user_id!r}; name that user, or another thread. The config of a snapshot "
            'names no user: add user_id to its "configurable"'
        )
        raise ConfigError(msg)


# -- reading and writing --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SyncedTurn:
    """A turn under way, stored as far as its messages are to be.

    Attributes:
        id: The turn; None where the state holds nothing of one.
        note: What the state is to note of it.
        messages: Its messages in the state.
        known: Its live entries by message id, some perhaps of messages that left the state.
        abandoned: Ids of entries of replies that an attempt made which came to nothing.
        after: Id of the last message that is in the log.
        is_heard: Whether anything is stored of what the user said; if not, no answer is.
    """

    id: str | None
    note: TurnNote | None
    messages: Sequence[BaseMessage]
    known: Mapping[str, Entry]
    abandoned: Sequence[str]
    after: str | None
    is_heard: bool


@dataclass(frozen=True, slots=True)
class StateSync:
    """Keeps a thread of the log in step with a state. Thread-safe as the log is.

    Attributes:
        log: Where the thread is.
        drafting: What is stored of a message.
        context: The node that runs.
        follows_removals: Whether messages that were taken out of the state go out of the views.
        is_one_turn: Whether all that follows the beginning of a turn belongs to it, as in an agent;
            in a graph, what the user says begins another.
        trace: Where it is reported what was stored of replies; None reports nothing.
    """

    log: MessageLog
    drafting: Drafting
    context: NodeContext
    follows_removals: bool = False
    is_one_turn: bool = False
    trace: TurnTrace | None = field(default=None, repr=False)

    @property
    def _key(self) -> ThreadKey:
        return self.context.key

    # -- a turn begins --------------------------------------------------------------------------

    def begin(
        self, messages: Sequence[BaseMessage], note: TurnNote | None = None
    ) -> Steps[TurnNote | None]:
        """Store what the state holds and the log does not; return the turn that begins now.

        What was forgotten since is not stored again, what was undone stays undone, and what the
        user says again counts again.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.

        Returns:
            The note of the turn; None for an empty state.
        """
        spoken = _drop_stand_ins(messages)
        if not spoken:
            return None
        asked = _asked_last(spoken)
        entries: Sequence[Entry] = ()
        is_whole = self.follows_removals or self.context.since is not None
        if not is_whole:
            entries = yield from self._find(spoken)
            is_whole = any(entry.message_id == spoken[asked].id for entry in entries)
        if is_whole:
            entries = yield from self._read_all()
        generation = yield from self._generation()
        differ = StateDiffer(self.drafting, self.context, entries)
        start = differ.find_start(spoken, asked)
        own = note if note is not None and note["user"] == self._key.user_id else None
        settled = _count_settled(spoken, start, own, generation)
        differ.compare(spoken, now=start, settled=settled)
        back = self._follow(differ, spoken, entries) if is_whole else []
        if back or differ.news:
            yield from self._append([*back, *differ.news])
        turn_id = differ.turns[asked] or new_ulid()
        return TurnNote(
            id=turn_id,
            first=str(spoken[min(start, _first_of(turn_id, differ.turns, start))].id),
            user=self._key.user_id,
            generation=generation,
            settled=spoken[settled - 1].id if settled else None,
        )

    # -- a turn goes on -------------------------------------------------------------------------

    def catch_up(
        self, messages: Sequence[BaseMessage], note: TurnNote | None = None
    ) -> Steps[SyncedTurn]:
        """Store what the state holds of the latest turn and the log does not.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.
        """
        spoken = _drop_stand_ins(messages)
        if not spoken:
            return SyncedTurn(None, note, (), {}, (), None, is_heard=True)
        start, found = yield from self._find_turn(spoken, note)
        entries, is_whole = yield from self._read_turn(spoken, start, found)
        by_id = {entry.id: entry for entry in [*found, *entries]}
        every = sorted(by_id.values(), key=lambda entry: entry.position)
        differ = StateDiffer(self.drafting, self.context, every)
        first = 0 if is_whole and not self.is_one_turn else start
        settled, note = yield from self._settle(spoken, first, differ.known, note)
        if is_whole:
            settled = max(settled, start if self.is_one_turn else 0)
            first = 0
        turn_id = note["id"] if self.is_one_turn and note is not None else None
        differ.compare(spoken, first=first, start=start, turn_id=turn_id, settled=settled)
        back = self._follow(differ, spoken, entries) if is_whole else []
        synced = self._as_synced(differ, entries, spoken[start:], note, back)
        return (yield from self._write(synced, back, differ.news))

    def _find_turn(
        self, spoken: Sequence[BaseMessage], note: TurnNote | None
    ) -> Steps[tuple[int, list[Entry]]]:
        """Return where the turn begins, and the log's entries of it and the message before it."""
        ids = [message.id for message in spoken]
        if note is None or not self.is_one_turn:
            start = latest_exchange(spoken)
        elif note["first"] in ids:
            start = ids.index(note["first"])
        else:  # its first message left the state
            found = yield from self._find(spoken)
            others = {entry.message_id for entry in found if entry.turn_id != note["id"]}
            start = max((n for n, name in enumerate(ids, 1) if name in others), default=0)
            return start, found
        return start, (yield from self._find(spoken[max(start - 1, 0) :]))

    def _read_turn(
        self, spoken: Sequence[BaseMessage], start: int, found: Sequence[Entry]
    ) -> Steps[tuple[list[Entry], bool]]:
        """Return the entries from the turn's first on, or all, and whether these are all."""
        names = {message.id for message in spoken[start:]}
        places = [entry.position for entry in found if entry.message_id in names]
        is_begun = spoken[start:] and any(e.message_id == spoken[start].id for e in found)
        if places and (is_begun or self.is_one_turn) and self.context.since is None:
            entries: list[Entry] = yield step(self.log, "entries", self._key, after=min(places) - 1)
            return entries, False
        return (yield from self._read_all()), True

    def _settle(
        self,
        spoken: Sequence[BaseMessage],
        start: int,
        known: Mapping[str, Entry],
        note: TurnNote | None,
    ) -> Steps[tuple[int, TurnNote | None]]:
        """Return how many messages are not stored again if the log lacks them, and a newer note."""
        held = [n for n, one in enumerate(spoken[start:], start + 1) if one.id in known]
        is_own = note is not None and note["user"] == self._key.user_id
        if note is None or not is_own or len(held) == len(spoken) - start:
            return 0, note
        generation = yield from self._generation()
        if note.get("generation", generation) == generation:
            return _count_settled(spoken, len(spoken), note, generation), note
        # Of what was forgotten, all stood before anything that is still there.
        settled = held[-1] if held else len(spoken)
        name = spoken[settled - 1].id
        return settled, TurnNote(**{**note, "generation": generation, "settled": name})

    def _as_synced(
        self,
        differ: StateDiffer,
        entries: Sequence[Entry],
        own: Sequence[BaseMessage],
        note: TurnNote | None,
        back: Sequence[Draft],
    ) -> SyncedTurn:
        turn_id = next((turn for turn in reversed(differ.turns) if turn), None)
        gone = {name for one in back if one.control for name in one.control.retracts}
        live = [e for e in _entries_of(turn_id, entries) if e.id not in gone]
        return SyncedTurn(
            id=turn_id,
            note=note,
            messages=own,
            known={entry.message_id: entry for entry in live},
            abandoned=_find_abandoned(live, own, self.context),
            after=differ.after,
            is_heard=differ.is_heard,
        )

    def _write(
        self, turn: SyncedTurn, back: Sequence[Draft], news: Sequence[Draft]
    ) -> Steps[SyncedTurn]:
        """Write; what is new of the turn takes the place of what an attempt said before."""
        is_replaced = any(draft.turn_id == turn.id for draft in news)
        controls = [
            *back,
            *(self.context.retract(turn.abandoned, "replaced") if is_replaced else []),
        ]
        if not controls and not news:
            return turn
        stored = yield from self._append([*controls, *news])
        own = [entry for entry in stored[len(controls) :] if entry.turn_id == turn.id]
        return SyncedTurn(
            id=turn.id,
            note=turn.note,
            messages=turn.messages,
            known={**turn.known, **{entry.message_id: entry for entry in own}},
            abandoned=() if is_replaced else turn.abandoned,
            after=turn.after,
            is_heard=turn.is_heard,
        )

    def _follow(
        self, differ: StateDiffer, spoken: Sequence[BaseMessage], entries: Sequence[Entry]
    ) -> list[Draft]:
        """Return what takes out of the views what the state no longer holds, and brings back."""
        self.context.check_known(len(entries))
        left, wanted = _find_left(
            entries, spoken, self.context, follows_removals=self.follows_removals
        )
        wanted |= {entry.id for entry in differ.same}
        return rewind_drafts(entries, self.context, left=left, wanted=wanted)

    # -- what a model and its tools say, before the state holds it ------------------------------

    def reply(
        self,
        turn: SyncedTurn,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
        attributes: tuple[str, ...] = (),
    ) -> Steps[list[BaseMessage]]:
        """Store a reply and return it with ids of its own, under which it is stored.

        It takes the place of what an attempt said before that came to nothing.
        """
        found = yield from self._find(messages)
        taken = {str(message.id) for message in state}
        taken |= {entry.message_id for entry in found if entry.turn_id != turn.id}
        own = list(with_free_ids(messages, taken, lambda _: new_ulid()))
        if not turn.is_heard:
            return own
        after = turn.after
        news: list[Draft] = []
        for message in own:
            metadata = self.context.metadata("message", after, timing=timing, attributes=attributes)
            draft = _draft(self.drafting, message, turn.id, metadata)
            if draft is not None:
                news.append(draft)
                after = message.id
        names = {message.id for message in own}
        again = {entry.id for entry in turn.known.values() if entry.message_id in names}
        gone = [name for name in turn.abandoned if name not in again]
        if gone or news:
            controls = self.context.retract(gone, "replaced")
            yield from self._append([*controls, *news])
        return own

    def reply_broken(
        self,
        turn: SyncedTurn,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
    ) -> Steps[None]:
        """Store what came of a reply that broke off, unless an earlier attempt said all of it."""
        earlier = [entry for entry in turn.known.values() if entry.id in turn.abandoned]
        if all(INTERRUPTED in entry.metadata.attributes for entry in earlier):
            yield from self.reply(turn, messages, state, timing, (INTERRUPTED,))

    def call(
        self, note: TurnNote, messages: Sequence[BaseMessage], call_id: str | None
    ) -> Steps[BaseMessage | None]:
        """Make sure that a call is stored before the tool runs; return the message that makes it.

        Nothing is written but what other middleware made of the message after it was stored.
        """
        caller = _caller_of(messages, call_id)
        draft = None if caller is None else _draft(self.drafting, caller, note["id"])
        if caller is not None and draft is not None:
            found = yield from self._find([caller])
            if not found or not says_same(found[-1], draft):
                yield from self.catch_up(messages, note)
        return caller

    def result(
        self, note: TurnNote, caller: BaseMessage | None, result: ToolMessage, call_id: str
    ) -> Steps[ToolMessage]:
        """Store the result of a call and return it, with the id that it has in every attempt.

        A message that answers another call is returned as it is, and nothing is stored of a turn of
        which nothing is.
        """
        if result.tool_call_id != call_id:
            return result
        behind = "" if caller is None else str(caller.id)
        if not result.id:
            at_ms = ulid_ms(note["id"]) if is_ulid(note["id"]) else 0
            own = derived_ulid(at_ms, self._key.user_id, self._key.thread_id, behind, call_id)
            result = result.model_copy(update={"id": own})
        metadata = self.context.metadata("message", behind or None)
        draft = _draft(self.drafting, result, note["id"], metadata)
        if draft is not None:
            yield from self._append([draft])
        return result

    def finish(self, note: TurnNote, messages: Sequence[BaseMessage]) -> Steps[None]:
        """Store what is left of a turn that came to its end."""
        turn = yield from self.catch_up(messages, note)
        if turn.abandoned:
            controls = self.context.retract(turn.abandoned, "replaced")
            yield from self._append(controls)

    # -- the log --------------------------------------------------------------------------------

    def _append(self, drafts: Sequence[Draft]) -> Steps[list[Entry]]:
        entries: list[Entry] = yield step(self.log, "append", self._key, drafts)
        if self.trace is not None and any(draft.role != "user" for draft in drafts):
            yield from self.trace.told_stored(drafts)
        return entries

    def _read_all(self) -> Steps[list[Entry]]:
        entries: list[Entry] = yield step(self.log, "entries", self._key)
        return entries

    def _find(self, messages: Sequence[BaseMessage]) -> Steps[list[Entry]]:
        ids = {message.id for message in messages if message.id}
        found: list[Entry] = yield step(self.log, "find", self._key, ids)
        return found

    def _generation(self) -> Steps[int]:
        changes: Changes = yield step(self.log, "changes", self._key.owner, 0, limit=1)
        return changes.generation


# -- what is new ----------------------------------------------------------------------------------


@dataclass(slots=True)
class StateDiffer:
    """Tells what the log lacks of a state. Pure; one comparison, not thread-safe.

    Attributes:
        drafting: What is stored of a message.
        context: The node that runs.
        entries: Those of the messages compared at least, by position.
        news: What to append.
        same: Entries that say what the state says.
        turns: The turn of each message compared; None of a system message.
        after: Id of the latest message that is in the log, or will be.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
    """

    drafting: Drafting
    context: NodeContext
    entries: Sequence[Entry]
    news: list[Draft] = field(default_factory=list)
    same: list[Entry] = field(default_factory=list)
    turns: list[str | None] = field(default_factory=list)
    after: str | None = None
    is_heard: bool = True
    known: dict[str, Entry] = field(init=False)
    _dead: set[str] = field(init=False)
    _turn: str | None = None
    _joins: bool = False

    def __post_init__(self) -> None:
        """Look up what is known."""
        alive = {entry.message_id for entry in live_entries(self.entries)}
        self.known = _known_versions(self.entries)
        self._dead = {name for name in self.known if name not in alive}

    def find_start(self, spoken: Sequence[BaseMessage], asked: int) -> int:
        """Return where the turn of what the user said last begins.

        Args:
            spoken: The messages of the state.
            asked: Number of the user's last message.
        """
        entry = self._counted(spoken[asked])
        if entry is not None:
            counted = map(self._counted, spoken)
            same = [one is not None and one.turn_id == entry.turn_id for one in counted]
            return same.index(True)
        start = asked
        while start and role_of(spoken[start - 1]) == "user":
            if spoken[start - 1].id in self.known:
                break
            start -= 1
        return start

    def _counted(self, message: BaseMessage) -> Entry | None:
        """Return the entry of a message that the views show."""
        name = message.id or ""
        return None if name in self._dead else self.known.get(name)

    def compare(
        self,
        spoken: Sequence[BaseMessage],
        *,
        first: int = 0,
        start: int = 0,
        turn_id: str | None = None,
        now: int | None = None,
        settled: int = 0,
    ) -> None:
        """Compare the messages of a state, in order.

        Args:
            spoken: All of them.
            first: Number of the first one to compare.
            start: From here on, what is new belongs to `turn_id`, if that is given.
            turn_id: The turn under way.
            now: From here on, what was taken back and is said again counts again.
            settled: Before here, what the log lacks was forgotten, and is not stored again.
        """
        if first and spoken[first - 1].id in self.known:
            self.after = spoken[first - 1].id
        settled = max(settled, self._count_forgotten(spoken))
        for number, message in enumerate(spoken[first:], first):
            entry = self.known.get(message.id or "")
            if now is not None and number >= now:
                entry = self._counted(message)
            own = turn_id if number >= start else None
            self._place(message, entry, own)
            self._take(message, entry, is_settled=number < settled)

    def _count_forgotten(self, spoken: Sequence[BaseMessage]) -> int:
        """Return how many messages stand up to one that others followed, and that is gone."""
        marks = (Provenance.of(entry) for entry in self.known.values())
        linked = {mark.after for mark in marks if mark is not None and mark.unit == "message"}
        gone = linked - self.known.keys()
        return max((n for n, one in enumerate(spoken, 1) if one.id in gone), default=0)

    def _place(self, message: BaseMessage, entry: Entry | None, own: str | None) -> None:
        """Find the turn: what the user newly says begins one, up to the next answer."""
        role = role_of(message)
        if role == "system":
            self.turns.append(None)
            return
        if entry is not None:
            self._turn = entry.turn_id
        elif own is not None:
            self._turn = own
        elif self._turn is None or (role == "user" and not self._joins):
            self._turn = new_ulid()
        self._joins = role == "user" and entry is None
        self.turns.append(self._turn)

    def _take(self, message: BaseMessage, entry: Entry | None, *, is_settled: bool) -> None:
        metadata = self.context.metadata("message", self.after)
        draft = _draft(self.drafting, message, self.turns[-1], metadata)
        role = role_of(message)
        if role == "user":
            self.is_heard = entry is not None or draft is not None
        if entry is not None and (draft is None or says_same(entry, draft)):
            self.same.append(entry)
        elif draft is None or (entry is None and is_settled):
            return
        elif self.is_heard or role == "system":
            self.news.append(draft)
        else:
            return
        self.after = message.id


def _known_versions(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the version of each message that a state was last seen with, else the latest.

    What was edited in the log since is not marked, and so not taken for what the state said.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.control is None and entry.role != "summary":
            before = found.get(entry.message_id)
            if before is None or Provenance.of(entry) or not Provenance.of(before):
                found[entry.message_id] = entry
    return found


def _draft(
    drafting: Drafting,
    message: BaseMessage,
    turn_id: str | None,
    metadata: Metadata | None = None,
) -> Draft | None:
    """Return what is to be stored of a message, if anything is."""
    own = None if role_of(message) == "system" else turn_id
    return drafting.kept(draft_of(_as_storable(message), turn_id=own, metadata=metadata))


def _count_settled(
    spoken: Sequence[BaseMessage], start: int, note: TurnNote | None, generation: int
) -> int:
    """Return how many messages, from the first on, are not stored again if the log lacks them.

    Something was forgotten since they were stored, and a state must not bring it back.

    Args:
        spoken: The messages of the state.
        start: How many stand before the turn.
        note: What the state noted of an earlier turn of the same user, if it did.
        generation: The log's generation of the user now.
    """
    if note is None:
        return 0
    if note.get("generation", generation) != generation:
        return start
    settled = note.get("settled")
    places = (number for number, one in enumerate(spoken, 1) if one.id == settled)
    return 0 if settled is None else min(start, next(places, 0))


# -- which messages belong together ---------------------------------------------------------------


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


def _asked_last(spoken: Sequence[BaseMessage]) -> int:
    """Return the number of what the user said last; of the last message if there is none."""
    users = (number for number, one in enumerate(spoken) if role_of(one) == "user")
    return max(users, default=len(spoken) - 1)


def _first_of(turn_id: str, turns: Sequence[str | None], default: int) -> int:
    return turns.index(turn_id) if turn_id in turns else default


def _entries_of(turn_id: str | None, entries: Sequence[Entry]) -> list[Entry]:
    """Return the live entries of a turn, in order."""
    return [entry for entry in live_entries(entries) if entry.turn_id == turn_id]


def _caller_of(messages: Sequence[BaseMessage], call_id: str | None) -> BaseMessage | None:
    """Return the latest message that makes the call."""
    for message in reversed(messages):
        if any(call["id"] == call_id for call in getattr(message, "tool_calls", ())):
            return message
    return None


def is_stand_in(message: BaseMessage) -> bool:
    """Return whether a message stands for others that a summarising middleware took away."""
    return message.additional_kwargs.get("lc_source") == _SUMMARY_SOURCE


def _drop_stand_ins(messages: Iterable[BaseMessage]) -> list[BaseMessage]:
    """Return the messages that were said: what the others stand for is in the log, verbatim."""
    return [message for message in messages if not is_stand_in(message)]


def _as_storable(message: BaseMessage) -> BaseMessage:
    """Return the message with an artifact that a log can keep: as a checkpointer keeps it.

    Artifacts are for programs, not for the model, and may be objects of any kind: models become
    maps, as checkpointers write them, and what has no plain form becomes text.
    """
    if not isinstance(message, ToolMessage) or message.artifact is None:
        return message
    try:
        dumps(message.artifact, what="artifact")
    except InvalidMessageError:
        return message.model_copy(update={"artifact": plain_value(_as_maps(message.artifact))})
    return message


def _as_maps(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _as_maps(value.model_dump())
    if isinstance(value, list | tuple):
        return [_as_maps(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _as_maps(item) for key, item in value.items()}
    return value


# -- what is gone ---------------------------------------------------------------------------------


class _Branches:
    """Which unit followed which in the states of a graph: messages, or turns."""

    def __init__(self, marks: Mapping[str, Provenance]) -> None:
        self._links = {unit: mark.after for unit, mark in marks.items()}

    def path(self, unit: str | None) -> list[str]:
        """Return a unit and all before it on its branch, newest first."""
        found: dict[str, None] = {}
        while unit is not None and unit not in found:
            found[unit] = None
            unit = self._links.get(unit)
        return list(found)

    def behind(self, kept: Collection[str | None]) -> set[str]:
        """Return the units that are not kept, but follow one that is, however far behind."""
        follows = {unit: True for unit in kept if unit is not None}
        for unit in self._links:
            walked: list[str] = []
            at: str | None = unit
            while at is not None and at not in follows and at not in walked[-1:]:
                walked.append(at)
                at = self._links.get(at)
            follows.update(dict.fromkeys(walked, follows.get(at or "", False)))
        return {unit for unit in self._links if unit not in kept and follows[unit]}


def _marks_of(entries: Iterable[Entry], unit: str) -> dict[str, Provenance]:
    """Return how the messages, or the turns, of a state came into the log, by their ids."""
    marks = ((entry, Provenance.of(entry)) for entry in entries)
    return {
        entry.message_id if unit == "message" else entry.turn_id: mark
        for entry, mark in marks
        if mark is not None and mark.unit == unit
    }


def _find_abandoned(
    live: Sequence[Entry], own: Sequence[BaseMessage], context: NodeContext
) -> tuple[str, ...]:
    """Return the entries of replies to what the user said last that the state does not hold.

    An attempt made them that came to nothing. What another branch of the same step says is none of
    them, nor what another graph says within the turn.

    Args:
        live: The live entries of the turn.
        own: The messages of the turn in the state.
        context: The node that runs.
    """
    held = [message.id for message in own]
    marks = _marks_of(live, "message")
    behind = _Branches(marks).behind(held[_asked_last(own) :] if own else ())
    return tuple(
        entry.id
        for entry in live
        if entry.role != "user"
        and entry.message_id in behind
        and entry.message_id not in held
        and marks[entry.message_id].level == context.level
        and not marks[entry.message_id].is_beside(context.path)
    )


def _find_left(
    entries: Sequence[Entry],
    spoken: Sequence[BaseMessage],
    context: NodeContext,
    *,
    follows_removals: bool,
) -> tuple[set[str], set[str]]:
    """Return the live entries of messages that the state no longer holds, and of its branch.

    A message that another run stored meanwhile is none of them: this state never held it. So only
    what stood before the newest known message counts, and what stood behind it if this run can
    only have begun after that was stored. What a `Send` carries was picked out of a state, so what
    it lacks was not taken out. A run that was told where to begin goes back to there.
    """
    marks = _marks_of(entries, "message")
    branches = _Branches(marks)
    ids = {message.id for message in spoken}
    newest = next((message.id for message in reversed(spoken) if message.id in marks), None)
    before = set(branches.path(newest))
    left: set[str] = set()
    if context.since is not None:
        behind = branches.behind(ids) if newest is not None else _later_than(marks, context)
        left = {name for name in behind if marks[name].checkpoint != context.checkpoint}
    elif follows_removals and not context.is_sent:
        behind = set(marks) if newest is None else branches.behind({newest})
        left = {name for name in behind & _answered(entries) if _is_over(marks[name], context)}
    if follows_removals and context.since is None and not context.is_sent:
        left |= before
    elif not follows_removals:
        ids |= before
    live = live_entries(entries)
    wanted = {entry.id for entry in entries if entry.message_id in before & ids}
    return {e.id for e in live if e.message_id in left and e.message_id not in ids}, wanted


def _later_than(marks: Mapping[str, Provenance], context: NodeContext) -> set[str]:
    """Return what was stored since the checkpoint at which a run begins with nothing."""
    since = context.since or ""
    return {name for name in marks if context.is_at_top and marks[name].checkpoint >= since}


def _answered(entries: Sequence[Entry]) -> set[str]:
    """Return the ids of the messages in turns that have an answer; a call of a tool is none."""
    turns = {
        entry.turn_id
        for entry in entries
        if entry.role == "assistant" and not getattr(entry.message, "tool_calls", None)
    }
    return {entry.message_id for entry in entries if entry.turn_id in turns}


def _is_over(mark: Provenance, context: NodeContext) -> bool:
    """Return whether the run that stored something had ended when this one began.

    A run that began later counts on from its last step, with one more step for its input. Where a
    checkpointer was lost, or there is none, runs begin at the first step again. A run beside it may
    count on from a third one's step: so what has no answer yet is never taken to be over.
    """
    at_top = not mark.level and not context.level
    return at_top and bool(mark.checkpoint) and context.step >= mark.step + 2


def find_left_turns(
    entries: Sequence[Entry], context: NodeContext, current: str | None
) -> tuple[set[str], set[str]]:
    """Return the turns that a graph has left by going back, and those it stands on.

    Args:
        entries: All entries of the thread.
        context: The node that runs; only a run that was told where to begin goes back.
        current: The latest turn that the state knows, if it knows any.
    """
    if context.since is None:
        return set(), set()
    marks = _marks_of(entries, "turn")
    kept: set[str] = set()
    if current in marks:
        branches = _Branches(marks)
        kept = set(branches.path(current))
        left = branches.behind(kept)
    else:
        left = _later_than(marks, context)
    return {turn for turn in left if marks[turn].checkpoint != context.checkpoint}, kept


def rewind_drafts(
    entries: Sequence[Entry],
    context: NodeContext,
    *,
    left: Collection[str],
    wanted: Collection[str],
) -> list[Draft]:
    """Return the control entry that takes entries out, and brings back what this once took out.

    Nothing is erased, and a graph that returns to a branch it left finds it again: a later control
    entry takes back the earlier one.

    Args:
        entries: All entries of the thread.
        context: The node that runs.
        left: Ids of entries that no longer count; summaries that tell of them go as well.
        wanted: Ids of entries that count.
    """
    live = live_entries(entries)
    alive = {entry.id for entry in live}
    lifted = [
        entry.id
        for entry in entries
        if entry.control is not None
        and Provenance.of(entry) is not None
        and any(name in wanted and name not in alive for name in entry.control.retracts)
    ]
    after = live if not lifted else live_entries([*entries, _as_control(entries[-1], lifted)])
    # What a lifted entry took out besides stays out.
    back = {entry.id for entry in after if entry.role != "summary"} - alive - set(wanted)
    gone = [entry.id for entry in after if entry.id in back or entry.id in left]
    return context.retract([*lifted, *gone, *summaries_over(after, gone)], "rewind")


def _as_control(last: Entry, ids: Sequence[str]) -> Entry:
    """Return the control entry as it would stand behind the last one."""
    return Entry(
        id=new_ulid(),
        key=last.key,
        position=last.position + 1,
        turn_id="",
        role="control",
        control=Control(tuple(ids), "rewind"),
    )
