"""Keeps the log in sync with the state of a graph or an agent: what to store, what to retract.

The state and the log know messages by id, so whatever runs again (a retry, a resumed run, a turn
that is tried once more) stores nothing twice. The log only ever adds entries.

`StateSync` does it for a node, which `NodeContext` describes. `StateDiff` compares a state with the
log, and `TurnNote` is what the state itself notes of its turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile, pairwise, takewhile
from typing import Any, Final, TypeAlias
from uuid import NAMESPACE_OID, uuid5

from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import has_same_payload
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.turns.memory import TurnMemory
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import assign_free_ids, join_thread, mark_interrupted, name_result
from langchain_convmem.turns.view import read_live
from langchain_convmem.views.codec import encode_body, get_role, redraft
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.live import find_live_entries, find_retracted_ids, merge_entries
from langchain_convmem.views.messages import build_message, is_of_summary, is_remembered
from langchain_convmem.views.summaries import find_summaries_over
from langchain_convmem.views.tool_calls import find_calls

_AUX = "convmem_step"  # in the metadata of an entry: the step and the task that stored it
_CHECKPOINTER = "__pregel_checkpointer"
"""Key of a node's config: what keeps the state from run to run."""
_SCRATCHPAD = "__pregel_scratchpad"
"""Key of a node's config: among other things, the step at which the run stops at the latest."""
_BEYOND = 2**32
"""A position after every position of a log."""
NOTHING_ASKED: Final = (
    "the input ends with what the assistant says, so there is nothing to answer; end with what the "
    "user says, and put other messages into the thread with memory.add_messages()"
)
"""Why a run that brings only replies is refused."""
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[45][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
"""Ids that an application did not choose: those of LangGraph and of `name_messages`."""
NOTE_KEY: Final = "convmem_turn"
"""Key of a state: its `TurnNote`."""


# -- Where a node stands in the run of a graph ----------------------------------------------------
@dataclass(frozen=True, slots=True)
class NodeContext:
    """One execution of a node of a graph.

    Attributes:
        key: The thread of the log.
        step: The checkpoint of the outermost graph with which its step began.
        task: LangGraph's name for this execution, with those of the nodes around it: the same when
            it is retried or resumed, another in a new run.
        since: The checkpoint that the run starts from, if one was given.
        is_sent: Whether a `Send` brought the node its state.
        is_stateless: Whether no checkpointer keeps the state, so that it begins with what this run
            was sent.
        run: A number that is the same in all nodes of a run, and another in the next run of the
            same state; None if LangGraph does not provide it.
    """

    key: ThreadKey
    step: str
    task: str
    since: str | None = None
    is_sent: bool = False
    is_stateless: bool = False
    run: int | None = None

    @classmethod
    def read(cls, config: RunnableConfig, key: ThreadKey) -> NodeContext:
        """Read a node's config."""
        configurable = config.get("configurable", {})
        metadata = config.get("metadata", {})
        return cls(
            key=key,
            step=(configurable.get("checkpoint_map") or {}).get("") or "",
            task=metadata.get("langgraph_checkpoint_ns") or make_ulid(),
            since=metadata.get("checkpoint_id"),
            is_sent=(metadata.get("langgraph_path") or ("",))[0] == "__pregel_push",
            is_stateless=configurable.get(_CHECKPOINTER, ...) is None,
            run=getattr(configurable.get(_SCRATCHPAD), "stop", None),
        )

    def replaces(self, entry: Entry) -> bool:
        """Return whether an entry that the state lacks is of an earlier attempt at the turn.

        One that another branch stores in the same step is not, nor one of another graph.
        """
        step, task = entry.metadata.aux.get(_AUX, (self.step, ""))
        is_earlier = task == self.task or step != self.step
        return entry.role != "user" and is_earlier and _name_graph(task) == _name_graph(self.task)

    def make_metadata(self) -> Metadata:
        """Return the metadata of an entry that this node stores."""
        return Metadata(aux={_AUX: [self.step, self.task]})

    def retract(self, ids: Collection[str], reason: RetractReason) -> list[Draft]:
        """Return a list with the control entry that retracts entries; empty without ids."""
        control = Control(tuple(ids), reason)
        draft = Draft(role="control", control=control, metadata=self.make_metadata())
        return [draft] if ids else []


def _name_graph(task: str) -> str:
    """Return the names of the nodes around the graph that a task runs in; none at the top."""
    return re.sub(":[^|]*", "", task).rpartition("|")[0]


def _is_of_a_state(entry: Entry) -> bool:
    """Return whether an entry was stored for a state."""
    return _AUX in entry.metadata.aux


# -- A turn of a state ----------------------------------------------------------------------------
class TurnNote(TypedDict):
    """The current turn as a state keeps it: plain values that any checkpointer accepts.

    Attributes:
        id: The turn's id in the log, a ULID.
        first: Id of the message that it begins with.
        user: The user of the turn.
        generation: The log's generation of that user when the note was made, which `forget` raises.
        position: Where in the log the turn begins, so that nodes need not look it up.
        run: The run that made the note; see `NodeContext.run`.
        held: Ids of what the state held last; empty at a host that does not follow removals.
    """

    id: str
    first: str
    user: str | None
    generation: int
    position: int
    run: int | None
    held: list[str]


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that begins with what a state holds.

    Attributes:
        note: What the state is to note of it; None for an empty state.
        messages: The messages that the state is to hold: under their ids in the log, without those
            that were forgotten or are to be answered again.
    """

    note: TurnNote | None
    messages: Sequence[BaseMessage] = ()

    def has_changed(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether the state is to hold other messages than these."""
        return [*map(id, messages)] != [*map(id, self.messages)]


@dataclass(slots=True)
class SyncedTurn:
    """A turn in progress, synced to the log. Not thread-safe.

    Attributes:
        held: Ids of all messages of the state.
        id: The turn; empty if nothing of it is stored.
        messages: Its messages in the state, except those that were undone in the log.
        known: Its live entries by message id, perhaps also of messages that left the state.
        abandoned: Replies of an attempt that failed, and summaries of them.
        is_heard: Whether anything of the user's message is stored; if not, neither is the answer.
        own_tokens: What the memory's own models took before the next reply; see `OwnTokens.to_aux`.
    """

    held: Collection[str]
    id: str = ""
    messages: Sequence[BaseMessage] = ()
    known: dict[str, Entry] = field(default_factory=dict)
    abandoned: Sequence[Entry] = ()
    is_heard: bool = True
    own_tokens: Mapping[str, Any] = field(default_factory=dict)


# -- Comparing a state with the log ---------------------------------------------------------------
MakeDraft: TypeAlias = Callable[[BaseMessage, str | None], Draft | None]
"""Returns what to store of a message in a turn; None if nothing."""


class StateDiff:
    """Compares a state with the log, once. Not thread-safe.

    Attributes:
        entries: By position, at least those of the messages to compare.
        versions: All entries of each message, by the message's id.
        dead: Ids that control entries retract.
        live: The entries that count.
        news: What to append.
        turns: The turn of each message compared; None for system messages and forgotten ones.
        is_heard: Whether anything of the user's latest message is stored; if not, neither is the
            answer.
    """

    def __init__(self, entries: Sequence[Entry], draft: MakeDraft) -> None:
        """Prepare a comparison.

        Args:
            entries: Those of the log, by position.
            draft: Makes drafts of messages.
        """
        self.entries, self._draft = entries, draft
        self.versions: dict[str, list[Entry]] = {}
        for entry in entries:
            if entry.control is None and entry.role != "summary":
                self.versions.setdefault(entry.message_id, []).append(entry)
        self.dead, self.live = find_retracted_ids(entries), find_live_entries(entries)
        self.news: list[Draft] = []
        self.turns: list[str | None] = []
        self.is_heard = True

    def compare(
        self, said: Sequence[BaseMessage], forgotten: Collection[str], turn_id: str | None
    ) -> None:
        """Compare messages of a state, in order.

        A new message of the user begins a turn. While a turn is under way, it does so only after an
        answer: in the middle of a tool loop, it belongs to the turn.

        Args:
            said: The messages.
            forgotten: Ids of messages that are not stored again.
            turn_id: The turn that is under way; None if one begins.
        """
        turn, before, joins = turn_id, None, False
        for message in said:
            role, versions = get_role(message), self.versions.get(message.id or "", [])
            self.turns.append(None)
            if message.id in forgotten:
                continue
            if role != "system":
                begins = is_answer(before) or (turn_id is None and not joins)
                if versions:
                    turn = versions[-1].turn_id
                elif turn is None or (role == "user" and begins):
                    turn = make_ulid()
                self.turns[-1] = turn
                before, joins = message, role == "user" and not versions
            draft = self._draft(message, self.turns[-1])
            if role == "user":
                self.is_heard = bool(versions) or draft is not None
            if draft and (self.is_heard or role == "system") and not _is_known(versions, draft):
                self.news.append(draft)

    def count_settled(self, messages: Sequence[BaseMessage]) -> int:
        """Return how many messages come before the last one that the log has."""
        known = (number for number, one in enumerate(messages) if one.id in self.versions)
        return max(known, default=0)

    def is_changed(self, message: BaseMessage, *, ever: bool = False) -> bool:
        """Return whether a message differs from what the state last said, or ever, under its id."""
        versions = self.versions.get(message.id or "", [])
        draft = self._draft(message, None) if versions else None
        return draft is not None and not _is_known(versions, draft, ever=ever)


def _is_known(versions: Sequence[Entry], draft: Draft, *, ever: bool = False) -> bool:
    """Return whether a message is one that the state said before, or an edit of it in the log.

    If the latest version was not stored for a state, it is such an edit; then all versions count.
    """
    said = versions if ever or not all(map(_is_of_a_state, versions[-1:])) else versions[-1:]
    return any(has_same_payload(encode_body(redraft(one)), encode_body(draft)) for one in said)


@dataclass(frozen=True, slots=True)
class StateSync:
    """Keeps a thread of the log in sync with a state. As thread-safe as the log.

    Attributes:
        memory: Where the thread is.
        context: The node that runs.
        trace: Reports what was stored of replies.
    """

    memory: TurnMemory
    context: NodeContext
    trace: TurnTrace = field(repr=False)

    # -- A turn begins --------------------------------------------------------------------------

    def find_turn(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> BegunTurn:
        """Return the turn under way, as the state notes it or as its messages show.

        A state has no note if the run did not pass the node that writes one, if it has no key for
        one, or if nothing keeps it. Then the answers at its end belong to the turn.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        if note is not None:
            self._check_user(note["user"])
            return BegunTurn(note, messages)
        end = len(messages) - len([*takewhile(is_answer, reversed(messages))])
        begun = self.begin(messages[:end])
        return replace(begun, messages=[*begun.messages, *messages[end:]])

    def begin(self, messages: Sequence[BaseMessage], note: TurnNote | None = None) -> BegunTurn:
        """Store what the state holds and the log does not; return the turn that begins now.

        What was forgotten leaves a state with a note, what was undone stays undone, and what the
        user says again counts again. A run that brings nothing new asks for another answer: the
        present one leaves the state, and stays in the log until the next one is stored.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
            InvalidMessageError: If there is nothing to answer.
        """
        context, held = self.context, select_spoken(messages, self.context)
        ids = [str(one.id) for one in held]
        if note is not None:
            self._check_user(note["user"], ids)
        self._go_back(ids)
        is_kept = not (context.is_stateless or context.is_sent)
        removed = set(note["held"] if note is not None and is_kept else ()).difference(ids)
        found = self.memory.log.find(context.key, [*ids, *removed])
        diff = StateDiff(self._read(found[0].position - 1) if found else [], self._draft)
        if note is None and is_kept and ids[1:] and not diff.count_settled(held):
            self._check_user(self._find_user(ids[:-1]), ids)  # the state may have no key for a note
        # Retracted but never stored: refused when it was sent for another user; see `_check_user`.
        gone = set(diff.dead).difference(diff.versions)
        held, state = [one for one in held if one.id not in gone], messages
        for before, last in pairwise(held[-2:]):
            is_open = before.id in diff.versions and last.id not in diff.versions
            if is_open and before.model_copy(update={"id": None}) == _drop_made_up_id(last):
                gone.add(str(held.pop().id))  # the user repeats the question
        if not held:
            return BegunTurn(None, messages)
        if all(map(is_answer, held)):
            raise InvalidMessageError(NOTHING_ASKED)
        if note is None and context.is_stateless and not (context.is_sent or is_answer(held[-1])):
            held, diff, state = self._join(messages, held, diff)
        spoken = held[: self._count_kept(held, diff, note)]
        until = find_exchange(spoken)
        if note is None:
            until = diff.count_settled(spoken) if is_kept else 0
        forgotten = self._find_forgotten(spoken[:until], diff, note)
        back = _list_later(diff, spoken[-1]) if diff.is_changed(spoken[-1]) else []
        forgotten |= {one.message_id for one in diff.live if one.id in back} - {spoken[-1].id}
        left = _list_left(diff, removed, ids)
        asked = str(spoken[_find_question(spoken)].id)
        if all(one.id in diff.dead for one in diff.versions.get(asked, ())):
            diff.versions.pop(asked, None)  # what was taken back and is said again counts again
        diff.compare(spoken, forgotten, None)
        back += gone.difference(diff.dead)  # it may stay in the state of a graph around this one
        controls = [*context.retract(left, "rewind"), *context.retract(back, "replaced")]
        stored = self._append([*controls, *diff.news])
        # Without a note, nothing tells what was forgotten from what was never to be stored.
        gone.update(forgotten if note is not None else ())
        gone.update(str(one.id) for one in held[len(spoken) :])
        after = [one for one in state if one.id not in gone]
        return BegunTurn(self._make_note(diff, spoken, stored), after)

    def _make_note(
        self, diff: StateDiff, spoken: Sequence[BaseMessage], stored: Sequence[Entry]
    ) -> TurnNote:
        turn_id = diff.turns[_find_question(spoken)]
        first = str(spoken[diff.turns.index(turn_id)].id)
        own = [one for one in [*diff.entries, *stored] if one.message_id == first]
        return TurnNote(
            # A branch beside this one may have stored the question first.
            id=own[-1].turn_id if own else turn_id or make_ulid(),
            first=first,
            user=self.context.key.user_id,
            generation=self._read_generation(),
            position=own[0].position if own else _BEYOND,
            run=self.context.run,
            held=[str(one.id) for one in spoken],
        )

    def _find_user(self, ids: Collection[str]) -> str | None:
        """Return another user whose thread with this id has one of these messages, if any."""
        log, key = self.memory.log, self.context.key
        others = {owner.user_id for owner in log.owners()} - {None, key.user_id}
        return next((one for one in others if log.find(ThreadKey(one, key.thread_id), ids)), None)

    def _check_user(self, user: str | None, sent: Sequence[str] = ()) -> None:
        """Refuse to continue one user's state for another, and remember what was sent to it."""
        key = self.context.key
        if user in (None, key.user_id):
            return
        owner = ThreadKey(user, key.thread_id)
        entries = self.memory.log.entries(owner)
        known = {*(entry.message_id for entry in entries), *find_retracted_ids(entries)}
        # A checkpointer knows threads by id alone, so what was sent stays in the owner's state.
        refused = self.context.retract([name for name in sent if name not in known], "failed")
        self.memory.log.append(owner, refused)
        msg = (
            f"the state of thread {key.thread_id!r} is of the user {user!r}, and this run is for "
            f"{key.user_id!r}; name that user, or another thread. The config of a snapshot names "
            'no user: add user_id to its "configurable"'
        )
        raise ConfigError(msg)

    def _join(
        self, state: Sequence[BaseMessage], held: list[BaseMessage], diff: StateDiff
    ) -> tuple[list[BaseMessage], StateDiff, Sequence[BaseMessage]]:
        """Find what is new if a caller sends the whole chat, or its end, with every run.

        Such a state has no note, and its messages may lack the ids of the log. An id that LangGraph
        made up for this run counts as none.

        Returns:
            What is new before the turn and the messages of the turn; the log's side of the
            comparison; and the messages of the state, in which a turn that goes on is as the log
            has it.
        """
        log, stored_form = self.memory.log, self.memory.drafting.filter_message
        thread = read_live(log, self.context.key)
        if all(entry.role != "user" for entry in find_live_entries(thread.entries)):
            return held, diff, state
        sent = [one if one.id in diff.versions else _drop_made_up_id(one) for one in held]
        thread, joined = join_thread(log, thread, sent, stored_form)
        whole = StateDiff(merge_entries(diff.entries, thread.entries), self._draft)
        new = {id(one) for one in joined.new}
        news = [one for one, as_sent in zip(held, sent, strict=True) if id(as_sent) in new]
        start, question = find_exchange(held), held[_find_question(held)]
        if question.id in diff.versions:
            return held[start:], whole, state
        if any(get_role(one) == "user" for one in news):
            return news, whole, state
        asked = joined.again or [one for one in whole.live if one.role == "user"][-1]
        turn = [one for one in whole.live if one.turn_id == asked.turn_id]
        if get_role(held[-1]) == "user":
            turn = [one for one in turn if one.role == "user"]
        turn = [one for one in turn if one.role != "assistant" or find_calls(one.message)]
        own = [*map(build_message, turn), *news]
        before = next(n for n, one in enumerate(state) if one.id == held[start].id)
        return own, whole, [*state[:before], *own]

    def _count_kept(
        self, held: Sequence[BaseMessage], diff: StateDiff, note: TurnNote | None
    ) -> int:
        """Return how many messages stay, if a run brings no new question.

        Then the answer to the last one goes; if the run brings an edit of a question, all that
        followed that one does. A graph may come by here twice in a run, so the note tells whether
        another run has begun; in a graph within a node, only an edit does.

        Raises:
            InvalidMessageError: If the run brings an answer of its own after one that is stored.
        """
        users = [number for number, one in enumerate(held) if get_role(one) == "user"]
        is_inner = bool(_name_graph(self.context.task))
        if note is None or not users or (note["run"] == self.context.run and not is_inner):
            return len(held)
        is_known = held[users[-1]].id in diff.versions
        # An earlier state differs by what was edited since it was made, too.
        ever = self.context.since is not None
        changed = [n for n in users if is_known and diff.is_changed(held[n], ever=ever)]
        if not changed and (is_inner or not is_answer(held[-1])):
            return len(held)
        # Taken back in the log: the state still has it.
        gone = set(diff.versions).difference(one.message_id for one in diff.live)
        asked = (changed or [n for n in users if held[n].id not in gone] or users)[-1]
        answers = [one.id for one in held[asked + 1 :] if is_answer(one)]
        if any(one in diff.versions for one in answers) and answers[-1] not in diff.versions:
            raise InvalidMessageError(NOTHING_ASKED)
        return asked + 1

    def _go_back(self, ids: Sequence[str]) -> None:
        """Follow a run to the checkpoint that it starts from.

        The thread reads as it did when the log had the last message of the state: what came after
        it is retracted, and what runs have retracted since then counts again, also of turns that
        the state no longer holds. Nothing is erased.

        Args:
            ids: Those of the messages that the state holds.
        """
        context = self.context
        if context.since is None or context.is_sent:
            return
        diff = StateDiff(self._read(), self._draft)
        held = [diff.versions[name] for name in ids if name in diff.versions]
        if _name_graph(context.task) and not held:
            return  # a graph within a node starts with what it is given
        last = max((versions[0].position for versions in held), default=0)
        turns = {one.turn_id for name in ids[-1:] for one in diff.versions.get(name, ())}
        then = {one.id for one in diff.entries if one.position <= last or one.message_id in ids}
        lifted, dead = list[str](), set[str]()
        own = {one.id for one in diff.entries if _is_of_a_state(one) and one.message_id not in ids}
        for one in reversed(diff.entries):
            retracts = one.control.retracts if one.control and one.id not in dead else ()
            cause = (one.control and one.control.replacement) or one.id
            if one.position > last and cause in own and not then.isdisjoint(retracts):
                lifted.append(one.id)
            else:
                dead.update(retracts)
        live = find_live_entries([one for one in diff.entries if one.id not in lifted])
        left = [
            one.id
            for one in live
            if one.position > last and one.role != "summary" and one.message_id not in ids
            if one.id in diff.dead or one.turn_id not in turns
        ]
        gone = [*lifted, *left, *find_summaries_over(live, left)]
        self._append(context.retract(gone, "rewind"))

    # -- A turn goes on -------------------------------------------------------------------------

    def catch_up(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> SyncedTurn:
        """Store what the state holds of its turn and the log does not.

        Args:
            messages: Those of the state, each with an id.
            note: The turn; None if nothing of it is to be stored.
        """
        spoken = select_spoken(messages, self.context)
        ids = [str(one.id) for one in spoken]
        if note is None:
            return SyncedTurn(ids, messages=spoken[find_exchange(spoken) :], is_heard=False)
        is_back = self.context.since is not None and note["run"] != self.context.run
        if is_back:  # any message of the state may count again
            self._go_back(ids)
        said = spoken if is_back else spoken[find_start(spoken, note) :]
        diff = StateDiff(self._read(0 if is_back else note["position"] - 1), self._draft)
        forgotten = self._find_forgotten(said[: diff.count_settled(said)], diff, note)
        diff.compare(said, forgotten, note["id"])
        turn_id = next((turn for turn in reversed(diff.turns) if turn), note["id"])
        start = diff.turns.index(turn_id) if turn_id in diff.turns else 0
        own = [entry for entry in diff.live if entry.turn_id == turn_id]
        last = max((n for n, entry in enumerate(own, 1) if entry.message_id in ids), default=0)
        abandoned = [one for one in own[last or len(own) :] if self.context.replaces(one)]
        live = {entry.message_id for entry in diff.live}
        # If the question was forgotten, so was its answer.
        is_lost = note["first"] not in diff.versions and self._is_forgetting(note)
        over = find_summaries_over(diff.live, [entry.id for entry in abandoned])
        turn = SyncedTurn(
            ids,
            id=turn_id,
            messages=[one for one in said[start:] if one.id in live or one.id not in diff.versions],
            known={entry.message_id: entry for entry in own},
            abandoned=[*abandoned, *(entry for entry in diff.live if entry.id in over)],
            is_heard=diff.is_heard and not is_lost,
        )
        self._write(turn, [] if is_lost else diff.news)
        return turn

    def _write(self, turn: SyncedTurn, news: Sequence[Draft]) -> None:
        """Append what is new of the turn, in place of what a failed attempt said."""
        said = {draft.message.id for draft in news if draft.message is not None}
        replaced = [one.id for one in turn.abandoned if news and one.message_id not in said]
        turn.abandoned = () if news else turn.abandoned
        asked = list(turn.known)[:1] if all(draft.role != "user" for draft in news) else []
        stored = self._append([*self.context.retract(replaced, "replaced"), *news], asked)
        own = [one for one in stored if one.control is None and one.turn_id == turn.id]
        turn.known.update({entry.message_id: entry for entry in own})

    def _find_forgotten(
        self, settled: Sequence[BaseMessage], diff: StateDiff, note: TurnNote | None
    ) -> set[str]:
        """Return the ids of messages that were forgotten.

        What precedes a message of the log was in the log, too. If it is not, it was forgotten, or
        it was another user's; this user's log tells whether anything was forgotten since the note.
        """
        lacking = {str(one.id) for one in settled if one.id not in diff.versions}
        return lacking if lacking and (note is None or self._is_forgetting(note)) else set()

    def _is_forgetting(self, note: TurnNote) -> bool:
        """Return whether the user of the run had anything forgotten since a note was made."""
        is_own = note["user"] == self.context.key.user_id
        return is_own and self._read_generation() != note["generation"]

    # -- What a model and its tools say, before the state holds it ------------------------------

    def store_reply(
        self,
        turn: SyncedTurn,
        messages: Sequence[BaseMessage],
        timing: Mapping[str, int],
        *,
        is_cut: bool = False,
    ) -> list[BaseMessage]:
        """Store a reply and return it with ids of its own, under which it is stored.

        It replaces the reply of a failed attempt. A reply that broke off is not stored if an
        earlier attempt left a whole one.
        """
        if is_cut:
            if any(INTERRUPTED not in one.metadata.attributes for one in turn.abandoned):
                return []
            messages = [*messages[:-1], mark_interrupted(messages[-1])]
        found = self.memory.log.find(self.context.key, {one.id for one in messages if one.id})
        taken = {*turn.held, *(one.message_id for one in found if one.turn_id != turn.id)}
        own = list(assign_free_ids(messages, taken, lambda _: make_ulid()))
        if not turn.is_heard:
            return own
        mark = (INTERRUPTED,) if is_cut else ()
        metadata = replace(self.context.make_metadata(), timing=timing, attributes=mark)
        news = [draft for one in own if (draft := self._draft(one, turn.id, metadata)) is not None]
        if news:
            aux = {**metadata.aux, **turn.own_tokens}
            news[0], turn.own_tokens = replace(news[0], metadata=replace(metadata, aux=aux)), {}
        self._write(turn, news)
        return own

    def store_result(self, turn: SyncedTurn, result: ToolMessage) -> ToolMessage:
        """Store what a tool returns; return it under an id that is the same in every attempt."""
        callers = {call["id"]: one.id for one in turn.messages for call in find_calls(one)}
        caller = callers.get(result.tool_call_id)
        if caller is not None and turn.is_heard:
            result = name_result(result, self.context.key, turn.id, caller)
            draft = self._draft(result, turn.id)
            self._write(turn, [] if draft is None else [draft])
        return result

    # -- The log --------------------------------------------------------------------------------

    def _append(self, drafts: Sequence[Draft], asked: Sequence[str] = ()) -> list[Entry]:
        """Append drafts, unless the message that they answer was forgotten meanwhile.

        Args:
            drafts: What is new.
            asked: Id of that message, if it was stored before.
        """

        def plan(there: Sequence[Entry]) -> Sequence[Draft]:
            return drafts if there or not asked else []

        if not drafts:
            return []
        log, key = self.memory.log, self.context.key
        entries = log.append_planned(key, plan, after=_BEYOND, message_ids=asked)
        if entries and any(draft.role != "user" for draft in drafts):
            self.trace.report_stored(drafts)
        return entries

    def _draft(
        self, message: BaseMessage, turn_id: str | None, metadata: Metadata | None = None
    ) -> Draft | None:
        metadata = metadata or self.context.make_metadata()
        return self.memory.drafting.build(message, turn_id=turn_id, metadata=metadata)

    def _read(self, after: int = 0) -> list[Entry]:
        return self.memory.log.entries(self.context.key, after=after)

    def _read_generation(self) -> int:
        return self.memory.log.changes(self.context.key.owner, 0, limit=1).generation


# -- Which messages were said, and belong together ------------------------------------------------
def name_messages(messages: Iterable[BaseMessage], context: NodeContext) -> list[BaseMessage]:
    """Return the messages of a state, each with an id, which is the same when the node runs again.

    A reducer such as that of deep agents leaves texts and maps without one. Ids that are made up
    here look like LangGraph's.
    """

    def make_id(number: int) -> str:
        return str(uuid5(NAMESPACE_OID, f"{context.task}-{number}"))

    return list(assign_free_ids(messages, (), make_id))


def find_exchange(messages: Sequence[BaseMessage]) -> int:
    """Return where the latest exchange begins: with the newest message of the user, or at 0.

    Several messages of the user in a row are one beginning.
    """
    start = _find_question(messages)
    joined = takewhile(lambda one: get_role(one) == "user", reversed(messages[:start]))
    return start - len([*joined])


def _find_question(messages: Sequence[BaseMessage]) -> int:
    """Return the index of the user's last message; 0 if there is none."""
    users = (number for number, one in enumerate(messages) if get_role(one) == "user")
    return max(users, default=0)


def _drop_made_up_id(message: BaseMessage) -> BaseMessage:
    """Return a message without the id that LangGraph may have given to it."""
    is_made_up = _MADE_UP.fullmatch(message.id or "")
    return message.model_copy(update={"id": None}) if is_made_up else message


def is_answer(message: BaseMessage | None) -> bool:
    """Return whether a message answers the user; a call of a tool does not."""
    is_said = message is not None and get_role(message) == "assistant"
    return is_said and not getattr(message, "tool_calls", None)


def is_stand_in(message: BaseMessage) -> bool:
    """Return whether a message stands in for others, as a summary or the reply after it."""
    return is_of_summary(message) or message.additional_kwargs.get("lc_source") == "summarization"


def select_spoken(messages: Iterable[BaseMessage], context: NodeContext) -> list[BaseMessage]:
    """Return the messages of a state that are the thread's.

    The log has what stand-ins stand for, verbatim. If nothing keeps the state, its system messages
    are for one run alone.
    """
    aside = ("system",) if context.is_stateless else ()
    return [one for one in messages if not is_stand_in(one) and get_role(one) not in aside]


def find_aside(
    messages: Sequence[BaseMessage], note: TurnNote | None, context: NodeContext
) -> list[BaseMessage]:
    """Return the messages of a state that only the model of this run sees.

    If nothing keeps the state, these are its system messages, and those before the turn that are
    marked as not to be stored. Otherwise there are none.
    """
    shown = messages if context.is_stateless else ()
    marked = {id(one) for one in shown[: find_start(shown, note)] if not is_remembered(one)}
    return [one for one in shown if get_role(one) == "system" or id(one) in marked]


def find_start(messages: Sequence[BaseMessage], note: TurnNote | None) -> int:
    """Return where the turn of a note begins; 0 if its first message is not there."""
    first = None if note is None else note["first"]
    return next((number for number, one in enumerate(messages) if one.id == first), 0)


def _list_left(diff: StateDiff, removed: Collection[str], ids: Collection[str]) -> list[str]:
    """Return the ids of what goes with removed messages, and of summaries that cover any of it.

    That is all of their turns that the state does not hold, such as a partial reply.
    """
    turns = {one.turn_id for one in diff.live if one.message_id in removed}
    left = [one.id for one in diff.live if one.turn_id in turns and one.message_id not in ids]
    return [*left, *find_summaries_over(diff.live, left)]


def _list_later(diff: StateDiff, message: BaseMessage) -> list[str]:
    """Return the ids of what was said after a message, and of summaries that cover any of it."""
    said = (entry for entry in diff.live if entry.role != "summary")
    told = [one.id for one in dropwhile(lambda one: one.message_id != message.id, said)]
    return [*told[1:], *find_summaries_over(diff.live, told)]
