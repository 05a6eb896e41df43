"""Sync of a state with messages to the log: what to store, and what to retract.

For graphs and agents alike. A state holds messages by id and the log knows them by id, so whatever
runs again, a retry, a resumed run, a turn that is tried once more, stores nothing twice. The log
only ever adds entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import BaseMessage, ToolMessage
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.history import read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, Metadata, ThreadKey
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.messages import join_thread, name_result
from langchain_convmem.turns.node_context import NodeContext, read_step
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.state_diff import StateDiff, is_answer
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import CallContext
from langchain_convmem.views.codec import get_role, make_draft
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE
from langchain_convmem.views.live import find_live_entries, merge_entries
from langchain_convmem.views.messages import DraftBuilder, build_message, is_remembered
from langchain_convmem.views.summaries import find_summaries_over
from langchain_convmem.views.tool_calls import find_calls

_BEYOND = 2**32
"""A position after all that a log holds."""
NOTHING_ASKED: Final = (
    "the input ends with what the assistant says, so there is nothing to answer; end with what the "
    "user says, and put other messages into the thread with memory.add_messages()"
)
"""Why a run is refused that brings replies alone."""
_FIRST_STEPS: Final = 1
"""Up to this step a state holds what its first run was sent, and nobody's turn."""
_SUMMARY_SOURCE = "summarization"
_RANDOM = 4
"""The version of a UUID that holds nothing but chance, as LangGraph's do."""
_REFUSED: Final = "refused"
"""Document beside a thread: ids of messages that were sent to its state for other users."""
_NOTED: Final = 100
"""So many of these are kept."""
NOTE_KEY: Final = "convmem_turn"
"""Where a state keeps its `TurnNote`."""


# -- A turn of a state ----------------------------------------------------------------------------
class TurnNote(TypedDict):
    """The current turn as a state keeps it: plain values that any checkpointer accepts."""

    id: str
    """The turn's id in the log, a ULID."""
    first: str
    """Id of the message it begins with."""
    user: str | None
    """The user of the turn."""
    generation: int
    """The log's generation of that user when the note was made; `forget` raises it."""
    position: int
    """Where in the log the turn begins: nodes need not look it up."""
    run: int | None
    """The run that made the note; see `NodeContext.run`."""
    held: list[str]
    """Ids of what the state held last, if the log follows removals."""


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that begins with what a state holds.

    Attributes:
        note: What the state is to note of it; None for an empty state.
        messages: The messages of the state as they are to be: without what was forgotten, or is to
            be answered otherwise, as they were edited in the log, and under their ids there.
        late: Of how many earlier turns replies were stored just now.
    """

    note: TurnNote | None
    messages: Sequence[BaseMessage] = ()
    late: int = 0

    def has_changed(self, messages: Sequence[BaseMessage]) -> bool:
        """Return whether the state is to hold others than these."""
        return [*map(id, messages)] != [*map(id, self.messages)]


@dataclass(slots=True)
class SyncedTurn:
    """A turn in progress, synced to the log. Not thread-safe.

    Attributes:
        id: The turn; empty where nothing of it is stored.
        messages: Its messages in the state, but those that were undone in the log.
        known: Its live entries by message id, some perhaps of messages that left the state.
        abandoned: Ids of entries of replies that an attempt made which came to nothing.
        after: Id of the last message that is in the log.
        is_heard: Whether anything is stored of what the user said; if not, no answer is.
        own_tokens: What the memory's own models took before the next reply; see `OwnTokens`.
    """

    id: str = ""
    messages: Sequence[BaseMessage] = ()
    known: dict[str, Entry] = field(default_factory=dict)
    abandoned: Sequence[str] = ()
    after: str | None = None
    is_heard: bool = True
    own_tokens: Mapping[str, int] = field(default_factory=dict)

    @property
    def asked(self) -> Entry | None:
        """The first of its entries; None of a turn that is not stored."""
        return next(iter(self.known.values()), None)


# -- What a state and the log know of each other --------------------------------------------------
@dataclass(frozen=True, slots=True)
class StateSync:
    """Keeps a thread of the log in sync with a state. As thread-safe as the log.

    Attributes:
        log: Where the thread is.
        drafting: What is stored of a message.
        context: The node that runs.
        follows_removals: Whether messages removed from the state are retracted.
        trace: Reports what was stored of replies; None reports nothing.
    """

    log: MessageLog
    drafting: DraftBuilder
    context: NodeContext
    follows_removals: bool = False
    trace: TurnTrace | None = field(default=None, repr=False)

    # -- A turn begins --------------------------------------------------------------------------

    def find_turn(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> BegunTurn:
        """Return the turn under way: as the state notes it, or as its messages tell.

        A state notes none where a run went past what does, where it has no place for the note, and
        where nothing keeps it: then what is said of the turn already comes after it.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        if note is not None:
            self._check_user(note["user"])
            return BegunTurn(note, messages)
        end = len(messages)
        while end and is_answer(messages[end - 1]):
            end -= 1
        begun = self.begin(messages[:end])
        return replace(begun, messages=[*begun.messages, *messages[end:]])

    def begin(self, messages: Sequence[BaseMessage], note: TurnNote | None = None) -> BegunTurn:
        """Store what the state holds and the log does not; return the turn that begins now.

        What was forgotten leaves the state, what was undone stays undone, and what the user says
        again counts again. A run that brings nothing new asks for another answer: the one that the
        state holds leaves it, and stays in the log until there is another.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
            InvalidMessageError: If there is nothing to answer.
        """
        context, held = self.context, select_spoken(messages, self.context)
        ids = [str(one.id) for one in held]
        entries = self._read_from([*ids, *(note["held"] if note else ())])
        refused = self._find_refused(ids, entries, note)
        held = [one for one in held if one.id not in refused]
        if _is_said_again(held, {entry.message_id for entry in entries}):
            refused = {*refused, str(held.pop().id)}
        if not held:
            return BegunTurn(None, messages)
        if all(map(is_answer, held)):
            raise InvalidMessageError(NOTHING_ASKED)
        back: Sequence[str] = ()
        state, is_new = messages, note is None and context.since is None and not context.is_sent
        if is_new and (context.is_stateless or not entries) and not is_answer(held[-1]):
            held, entries, state, back = self._join(messages, held, entries)
        diff = StateDiff(self.drafting, context, entries)
        spoken = held[: self._count_kept(held, diff, note)]
        again = {one.id for one in held[len(spoken) :]}
        if again and diff.is_changed(spoken[-1]):
            back = _list_later(entries, str(spoken[-1].id))
        asked = _find_question(spoken)
        forgotten = self._find_forgotten(spoken, diff, note, until=find_exchange(spoken))
        diff.compare(spoken, forgotten, asked=asked)
        late = {draft.turn_id for draft in diff.news if draft.role == "assistant"}
        old = [entry for entry in diff.live if entry.turn_id in late]
        back = [*back, *diff.find_abandoned(old, spoken)]
        controls = [*self._take_back(diff, ids, note), *context.retract(back, "replaced")]
        stored = self._append([*controls, *diff.news])
        turn = self._make_note(diff, spoken, asked, stored)
        gone = {*refused, *forgotten, *again}
        edits = {one.id: one for one in diff.edits}
        after = [edits.get(one.id, one) for one in state if one.id not in gone]
        return BegunTurn(turn, after, len({entry.turn_id for entry in entries} & late))

    def _make_note(
        self,
        diff: StateDiff,
        spoken: Sequence[BaseMessage],
        asked: int,
        stored: Sequence[Entry],
    ) -> TurnNote:
        turn_id, known = diff.turns[asked], [*diff.entries, *stored]
        first = str(spoken[diff.turns.index(turn_id)].id)
        # A branch beside this one may have stored the question first.
        named = (one.turn_id for one in stored if one.message_id == spoken[asked].id)
        places = [one.position for one in known if one.message_id == first]
        return TurnNote(
            id=next(named, turn_id) or make_ulid(),
            first=first,
            user=self.context.key.user_id,
            generation=self._read_generation(),
            position=min(places, default=known[-1].position + 1 if known else 1),
            run=self.context.run,
            held=[str(one.id) for one in spoken] if self.follows_removals else [],
        )

    def _find_refused(
        self, ids: Sequence[str], entries: Sequence[Entry], note: TurnNote | None
    ) -> Collection[str]:
        """Return the ids of what was sent for another user, and stayed in the state.

        A checkpointer knows a thread by its id, and not its user, whom two may name. A run for the
        wrong one is refused, but what it was sent stays in the state: so its ids are noted.

        Raises:
            ConfigError: If the state is of another user than the run is for.
        """
        known = {entry.message_id for entry in entries}.intersection(ids)
        is_kept = not (self.context.is_stateless or self.context.is_sent)
        user = None if note is None else note["user"]
        is_later = read_step(self.context.path) > _FIRST_STEPS and len(ids) > 1
        if note is None and is_kept and is_later and not known:
            user = self._find_user(ids[:-1])  # a graph whose state has no key for the note
        self._check_user(user, ids)
        document = self.log.get_state(self.context.key, _REFUSED) if is_kept and known else None
        return set() if document is None else set(document.value).difference(known)

    def _find_user(self, ids: Collection[str]) -> str | None:
        """Return another user in whose thread of this name some messages are, if any."""
        key = self.context.key
        users = {owner.user_id for owner in self.log.owners()} - {None, key.user_id}
        keys = [ThreadKey(user, key.thread_id) for user in users]
        return next((one.user_id for one in keys if self.log.find(one, ids)), None)

    def _check_user(self, user: str | None, sent: Sequence[str] = ()) -> None:
        """Refuse to continue one user's state for another, and note what that user's log lacks."""
        key = self.context.key
        if user in (None, key.user_id):
            return
        if sent:
            owner = ThreadKey(user, key.thread_id)
            known = {entry.message_id for entry in self.log.find(owner, sent)}
            document = self.log.get_state(owner, _REFUSED)
            noted = [] if document is None else document.value
            names = [*dict.fromkeys([*noted, *(name for name in sent if name not in known)])]
            version = None if document is None else document.version
            self.log.set_state(owner, _REFUSED, names[-_NOTED:], expected=version)
        msg = (
            f"the state of thread {key.thread_id!r} is of the user {user!r}, and this run is for "
            f"{key.user_id!r}; name that user, or another thread. The config of a snapshot names "
            'no user: add user_id to its "configurable"'
        )
        raise ConfigError(msg)

    def _join(
        self, state: Sequence[BaseMessage], held: list[BaseMessage], found: list[Entry]
    ) -> tuple[list[BaseMessage], list[Entry], Sequence[BaseMessage], list[str]]:
        """Find what is new of a chat that its caller sends whole, or the end of, with every run.

        Such a state knows of no earlier turn, and perhaps no ids of the log: an id that LangGraph
        made up for this run is none.

        Returns:
            The messages of the turn, and those that are new before it; the entries of the thread;
            the messages of the state, those of a turn that goes on as the log has them; and the ids
            of entries in whose place something else is said.
        """
        framing = [one for one in held if get_role(one) == "system"]
        said = [one for one in held if get_role(one) != "system"]
        ids = {entry.message_id for entry in found}
        sent = [one if one.id in ids else _drop_made_up_id(one) for one in said]
        thread = read_live(self.log, self.context.key)
        if all(entry.role != "user" for entry in find_live_entries(thread.entries)):
            return held, found, state, []
        thread, joined = join_thread(self.log, thread, sent, self.drafting.filter_message)
        entries, live = merge_entries(found, thread.entries), find_live_entries(thread.entries)
        new = {id(one) for one in joined.new}
        news = [one for one, as_sent in zip(said, sent, strict=True) if id(as_sent) in new]
        asked = joined.replaces or joined.again
        if asked is None and all(get_role(one) != "user" for one in news):
            asked = next(entry for entry in reversed(live) if entry.role == "user")
        if asked is None:
            return [*framing, *news], entries, state, []
        # A turn that goes on: its question may be several messages.
        turn = [entry for entry in live if entry.turn_id == asked.turn_id]
        users = [one for one in turn if one.role == "user" and one.position <= asked.position]
        start = max(find_exchange(said), _find_question(said) - len(users) + 1)
        later = [] if joined.replaces is None else _list_later(entries, asked.message_id)
        if said[start].id in ids:  # the state has the log's ids, and words that a hook may hide
            return [*framing, *said[start:]], entries, state, later
        known = users if get_role(said[-1]) == "user" else [*filter(_is_asked_or_called, turn)]
        own = [build_message(entry) for entry in known]
        if joined.replaces is not None:
            own[-1] = said[-1].model_copy(update={"id": asked.message_id})
        own += [one for one in news if get_role(one) != "user"]
        before = next(n for n, one in enumerate(state) if one.id == said[start].id)
        return [*framing, *own], entries, [*state[:before], *own], later

    def _count_kept(
        self, held: Sequence[BaseMessage], diff: StateDiff, note: TurnNote | None
    ) -> int:
        """Return how many messages stay where a run brings no question but one that was asked.

        It may bring an earlier one, edited: all that followed goes. A graph may come by here twice
        in a run, so the note tells whether another run has begun.

        Raises:
            InvalidMessageError: If it brings an answer of its own, behind one that is stored.
        """
        context = self.context
        is_own = note is None or note["run"] in (None, context.run)
        is_placed = context.is_stateless or context.is_sent or context.level or context.since
        if is_own or is_placed or not is_answer(held[-1]):
            return len(held)
        for number in reversed(range(len(held))):
            if get_role(held[number]) == "user" and diff.is_changed(held[number]):
                return number + 1
        asked = _find_question(held)
        answers = [one.id for one in held[asked + 1 :] if is_answer(one)]
        if answers[-1] not in diff.versions and any(one in diff.versions for one in answers):
            raise InvalidMessageError(NOTHING_ASKED)
        return asked + 1

    # -- A turn goes on -------------------------------------------------------------------------

    def catch_up(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> SyncedTurn:
        """Store what the state holds of its turn and the log does not.

        Args:
            messages: Those of the state, each with an id.
            note: The turn; None if nothing of it is to be stored.
        """
        spoken, context = select_spoken(messages, self.context), self.context
        if note is None:
            return SyncedTurn(messages=spoken[find_exchange(spoken) :], is_heard=False)
        ids, first = [str(one.id) for one in spoken], 0
        if context.since is None and note["first"] in ids:
            first = ids.index(note["first"])
        entries = self._read(0 if context.since is not None else note["position"] - 1)
        diff = StateDiff(self.drafting, context, entries)
        known = [n for n, name in enumerate(ids) if n >= first and name in diff.versions]
        until = max(known, default=first)
        forgotten = self._find_forgotten(spoken, diff, note, first=first, until=until)
        diff.compare(spoken, forgotten, first=first, turn_id=note["id"])
        back = [] if context.since is None else self._take_back(diff, ids)
        turn = self._make_turn(diff, spoken[first:], note, back)
        is_lost = note["first"] not in diff.versions
        if is_lost and self._read_generation() != note["generation"]:
            turn.is_heard = False  # the question was forgotten: so is what answers it
        else:
            self._write(turn, diff.news, back)
        return turn

    def _make_turn(
        self,
        diff: StateDiff,
        compared: Sequence[BaseMessage],
        note: TurnNote,
        back: Sequence[Draft],
    ) -> SyncedTurn:
        turn_id = next((turn for turn in reversed(diff.turns) if turn), note["id"])
        start = diff.turns.index(turn_id) if turn_id in diff.turns else 0
        own = compared[start:]
        gone = {name for draft in back if draft.control for name in draft.control.retracts}
        shown = [entry for entry in diff.live if entry.id not in gone]
        names = {entry.message_id for entry in shown}
        names |= {str(draft.message.id) for draft in diff.news if draft.message is not None}
        return SyncedTurn(
            id=turn_id,
            messages=[one for one in own if one.id in names or one.id not in diff.versions],
            known={entry.message_id: entry for entry in shown if entry.turn_id == turn_id},
            abandoned=diff.find_abandoned(shown, own),
            after=diff.after,
            is_heard=diff.is_heard,
        )

    def _write(self, turn: SyncedTurn, news: Sequence[Draft], back: Sequence[Draft] = ()) -> None:
        """Write; what is new of the turn takes the place of what an attempt said before."""
        replaced: Sequence[str] = ()
        if any(draft.turn_id == turn.id for draft in news):
            replaced, turn.abandoned = turn.abandoned, ()
        controls = [*back, *self.context.retract(replaced, "replaced")]
        first = None if any(draft.role == "user" for draft in news) else turn.asked
        stored = self._append([*controls, *news], None if first is None else first.message_id)
        own = [entry for entry in stored[len(controls) :] if entry.turn_id == turn.id]
        turn.known.update({entry.message_id: entry for entry in own})

    def _find_forgotten(
        self,
        spoken: Sequence[BaseMessage],
        diff: StateDiff,
        note: TurnNote | None,
        *,
        first: int = 0,
        until: int,
    ) -> set[str]:
        """Return the ids of messages that the log had and has no more, since they were forgotten.

        All before a later message was in the log, if the user had anything forgotten since the
        note; what was another user's is new to this one.
        """
        is_lacking = any(spoken[n].id not in diff.versions for n in range(first, until))
        if is_lacking and note is not None and note["user"] == self.context.key.user_id:
            is_same = self._read_generation() == note["generation"]
            return diff.find_forgotten(spoken, first=first, settled=first if is_same else until)
        return diff.find_forgotten(spoken, first=first, settled=first)

    def _take_back(
        self, diff: StateDiff, ids: Sequence[str], note: TurnNote | None = None
    ) -> list[Draft]:
        """Return what takes out of the views what the state no longer holds, and brings back."""
        if self.context.is_stateless:
            return []
        is_told = self.follows_removals and note is not None and not self.context.is_sent
        removed = note["held"] if is_told and note is not None else ()
        return diff.take_back(ids, removed, is_whole=self.follows_removals)

    # -- What a model and its tools say, before the state holds it ------------------------------

    def store_reply(
        self,
        turn: SyncedTurn,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
        attributes: tuple[str, ...] = (),
    ) -> list[BaseMessage]:
        """Store a reply and return it with ids of its own, under which it is stored.

        It takes the place of what an attempt said before that came to nothing.
        """
        found = self.log.find(self.context.key, {one.id for one in messages if one.id})
        taken = {str(message.id) for message in state}
        taken |= {entry.message_id for entry in found if entry.turn_id != turn.id}
        own = list(assign_free_ids(messages, taken, lambda _: make_ulid()))
        if not turn.is_heard:
            return own
        news: list[Draft] = []
        for message in own:
            metadata = self.context.make_metadata(turn.after, timing, attributes)
            if turn.own_tokens:
                aux = {**metadata.aux, OWN_TOKENS: dict(turn.own_tokens)}
                metadata, turn.own_tokens = replace(metadata, aux=aux), {}
            draft = self._draft(message, turn.id, metadata)
            if draft is not None:
                news.append(draft)
                turn.after = message.id
        names = {message.id for message in own}
        again = {entry.id for entry in turn.known.values() if entry.message_id in names}
        turn.abandoned = [name for name in turn.abandoned if name not in again]
        self._write(turn, news)
        return own

    def store_broken_reply(
        self,
        turn: SyncedTurn,
        messages: Sequence[BaseMessage],
        state: Sequence[BaseMessage],
        timing: Mapping[str, int],
    ) -> None:
        """Store what came of a reply that broke off, unless an earlier attempt said all of it."""
        earlier = [entry for entry in turn.known.values() if entry.id in turn.abandoned]
        if all(INTERRUPTED in entry.metadata.attributes for entry in earlier):
            cut = [*messages[:-1], mark_interrupted(messages[-1])]
            self.store_reply(turn, cut, state, timing, (INTERRUPTED,))

    def begin_results(
        self, note: TurnNote, messages: Sequence[BaseMessage], call_id: str
    ) -> Callable[[ToolMessage], ToolMessage]:
        """Store what the state holds up to a call; return what stores results of it.

        That returns a result with the id that it has in every attempt, and a message that answers
        another call as it is.
        """
        caller = _find_caller(messages, call_id)
        turn = self.catch_up(messages, note)

        def store(result: ToolMessage) -> ToolMessage:
            if caller is None or not turn.is_heard or result.tool_call_id != call_id:
                return result
            result = name_result(result, self.context.key, note["id"], str(caller.id))
            metadata = self.context.make_metadata(caller.id)
            draft = self._draft(result, note["id"], metadata)
            if draft is not None:
                self._append([draft], note["first"])
            return result

        return store

    def finish(self, note: TurnNote, messages: Sequence[BaseMessage]) -> None:
        """Store what is left of a turn that came to its end."""
        turn = self.catch_up(messages, note)
        self._append(self.context.retract(turn.abandoned, "replaced"))

    # -- The log --------------------------------------------------------------------------------

    def _append(self, drafts: Sequence[Draft], asked: str | None = None) -> list[Entry]:
        """Append what is new; nothing if it answers what was forgotten by now.

        Args:
            drafts: What is new.
            asked: Id of the message that it answers; None if it stands by itself.
        """
        if not drafts:
            return []
        key = self.context.key
        if asked is None:
            entries = self.log.append(key, drafts)
        else:
            plan = partial(_keep_answer, drafts)
            entries = self.log.append_planned(key, plan, after=_BEYOND, message_ids=[asked])
        if self.trace is not None and entries and any(draft.role != "user" for draft in drafts):
            self.trace.report_stored(drafts)
        return entries

    def _draft(self, message: BaseMessage, turn_id: str, metadata: Metadata) -> Draft | None:
        draft = make_draft(message, turn_id=turn_id, metadata=metadata)
        return self.drafting.filter_draft(draft)

    def _read(self, after: int = 0) -> list[Entry]:
        return self.log.entries(self.context.key, after=after)

    def _read_from(self, ids: Collection[str]) -> list[Entry]:
        """Return the entries of a thread from the first of some messages on; all for a snapshot."""
        if self.context.since is not None:
            return self._read()
        found = self.log.find(self.context.key, ids)
        return self._read(found[0].position - 1) if found else []

    def _read_generation(self) -> int:
        return self.log.changes(self.context.key.owner, 0, limit=1).generation


def _keep_answer(drafts: Sequence[Draft], asked: Sequence[Entry]) -> Sequence[Draft]:
    """Return what answers a message, if that is still in the log."""
    return drafts if asked else []


# -- Which messages were said, and belong together ------------------------------------------------
def name_messages(messages: Iterable[BaseMessage], context: NodeContext) -> list[BaseMessage]:
    """Return the messages of a state, each with an id: the same one when the node runs again.

    A reducer such as that of deep agents leaves texts and maps without one. What is made up here
    looks like what LangGraph makes up.
    """
    return [
        message
        if message.id
        else message.model_copy(update={"id": _make_id(f"{context.task}-{number}")})
        for number, message in enumerate(messages)
    ]


def _make_id(name: str) -> str:
    return str(UUID(int=uuid5(NAMESPACE_OID, name).int, version=_RANDOM))


def find_exchange(messages: Sequence[BaseMessage]) -> int:
    """Return where the latest exchange begins: with the newest message of the user, or at 0.

    What the user says in several messages without an answer is one beginning.
    """
    start = _find_question(messages)
    while start and get_role(messages[start - 1]) == "user":
        start -= 1
    return start if messages and get_role(messages[start]) == "user" else 0


def _find_question(messages: Sequence[BaseMessage]) -> int:
    """Return the number of what the user said last; of the last message if there is none."""
    users = (number for number, one in enumerate(messages) if get_role(one) == "user")
    return max(users, default=max(len(messages) - 1, 0))


def _drop_made_up_id(message: BaseMessage) -> BaseMessage:
    """Return a message without the id that LangGraph may have given to it."""
    try:
        is_made_up = UUID(message.id or "").version == _RANDOM
    except ValueError:
        return message
    return message.model_copy(update={"id": None}) if is_made_up else message


def _is_said_again(held: Sequence[BaseMessage], known: Collection[str]) -> bool:
    """Return whether the user repeats the open question, under an id that LangGraph made up."""
    latest = held[-2:]
    if [get_role(one) for one in latest] != ["user", "user"]:
        return False
    before, last = latest
    is_new = before.id in known and last.id not in known
    return is_new and before.content == last.content and _drop_made_up_id(last).id is None


def _is_asked_or_called(entry: Entry) -> bool:
    """Return whether an entry is part of a turn that waits for results."""
    return entry.role != "assistant" or bool(find_calls(entry.message))


def _find_caller(messages: Sequence[BaseMessage], call_id: str | None) -> BaseMessage | None:
    """Return the latest message that makes the call."""
    for message in reversed(messages):
        if any(call["id"] == call_id for call in getattr(message, "tool_calls", ())):
            return message
    return None


def is_stand_in(message: BaseMessage) -> bool:
    """Return whether a message stands for others that a summary took the place of."""
    more = message.additional_kwargs
    is_ours = more.get("source") in (SUMMARY_SOURCE, NOTED_SOURCE)
    return is_ours or more.get("lc_source") == _SUMMARY_SOURCE


def select_spoken(messages: Iterable[BaseMessage], context: NodeContext) -> list[BaseMessage]:
    """Return the messages of a state that are the thread's.

    What stand-ins stand for is in the log, verbatim. Where nothing keeps the state, its system
    messages steer one run alone.
    """
    return [
        message
        for message in messages
        if not is_stand_in(message) and not (context.is_stateless and get_role(message) == "system")
    ]


def find_aside(
    messages: Sequence[BaseMessage], note: TurnNote | None, context: NodeContext
) -> CallContext:
    """Return what of the messages of a state only the model of this run sees.

    Where nothing keeps the state, these are its system messages, and what stands before the turn
    and is marked as not to be stored.
    """
    if not context.is_stateless:
        return CallContext()
    first = None if note is None else note["first"]
    before = takewhile(lambda one: one.id != first, messages) if note is not None else ()
    return CallContext(
        [one for one in messages if get_role(one) == "system"],
        [one for one in before if not is_remembered(one) and get_role(one) != "system"],
    )


def drop_earlier(
    messages: Sequence[BaseMessage], note: TurnNote, context: NodeContext
) -> list[BaseMessage]:
    """Return the messages of the turn, and what else only this run shows."""
    ids = [one.id for one in messages]
    start = ids.index(note["first"]) if note["first"] in ids else 0
    aside = find_aside(messages[:start], note, context)
    return [*aside.instructions, *aside.messages, *messages[start:]]


def _list_later(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the ids of what was said after a message, and of summaries that tell of it."""
    live = find_live_entries(entries)
    said = [entry for entry in live if entry.role != "summary"]
    number = next((n for n, entry in enumerate(said) if entry.message_id == name), len(said))
    gone = [entry.id for entry in said[number + 1 :]]
    return [*gone, *find_summaries_over(live, [entry.id for entry in said[number:]])]
