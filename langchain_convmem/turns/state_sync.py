"""Sync of a state with messages to the log: what to store, and what to retract.

For graphs and agents alike. A state holds messages by id and the log knows them by id, so whatever
runs again, a retry, a resumed run, a turn that is tried once more, stores nothing twice. What is in
a state is what the user sees and edits, so the log follows; it only ever adds entries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, Final, Literal, NotRequired, cast
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError, InvalidMessageError
from langchain_convmem.history import LiveThread, read_all, read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, Metadata
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.messages import (
    ContinuedTurn,
    Joined,
    continue_turn,
    join,
    name_result,
)
from langchain_convmem.turns.provenance import NodeContext, Provenance
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import SPOKEN, CallContext, has_same_content
from langchain_convmem.views.codec import get_role, make_draft
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE
from langchain_convmem.views.edits import plan_replace
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, build_message, is_remembered
from langchain_convmem.views.summaries import find_summaries_over
from langchain_convmem.views.tool_calls import find_calls

NOTE_KEY: Final = "convmem_turn"
"""Where a state keeps its `TurnNote`."""
_SUMMARY_SOURCE = "summarization"
_RANDOM = 4
"""The version of a UUID that holds nothing but chance, as LangGraph's do."""
_PAGE = 64
"""So many of the latest entries are read where the last thing said is asked for."""


@dataclass(frozen=True, slots=True)
class StateSync:
    """Keeps a thread of the log in sync with a state. As thread-safe as the log.

    Attributes:
        log: Where the thread is.
        drafting: What is stored of a message.
        context: The node that runs.
        follows_removals: Whether messages removed from the state are retracted.
        is_one_turn: Whether all that follows the beginning of a turn belongs to it, as in an agent;
            in a graph, what the user says begins another.
        trace: Reports what was stored of replies; None reports nothing.
    """

    log: MessageLog
    drafting: DraftBuilder
    context: NodeContext
    follows_removals: bool = False
    is_one_turn: bool = False
    trace: TurnTrace | None = field(default=None, repr=False)

    # -- A turn begins --------------------------------------------------------------------------

    def begin(self, messages: Sequence[BaseMessage], note: TurnNote | None = None) -> BegunTurn:
        """Store what the state holds and the log does not; return the turn that begins now.

        What was forgotten is not stored again, what was undone stays undone, and what the user
        says again counts again. A question that comes again without an id before anyone answered
        it leaves the state. A run that brings nothing new asks for another answer: the one that
        the state holds stays until there is another.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        self._check_user(note)
        spoken = select_spoken(messages, self.context, _ignore_again(note))
        if not spoken:
            return BegunTurn(None)
        entries = self._find(spoken)
        if note is None and self.context.since is None:
            sent = self._begin_sent(spoken, entries)
            if sent is not None:
                return BegunTurn(sent)
        retries = self._find_retries(spoken, entries)
        doubled = [*_find_superseded(spoken, note), *retries]
        held = [one for one in spoken if one.id not in doubled]
        again = self._find_answered(held, entries, note)
        spoken = [one for one in held if one.id not in again]
        asked = _find_question(spoken)
        is_whole = self._follows_state or self.context.since is not None
        if is_whole or any(entry.message_id == spoken[asked].id for entry in entries):
            entries = self._read()
        generation = self._read_generation()
        own = self._select_own(note)
        before = max(find_exchange(spoken), min(asked, _count_to(spoken, own, "last")))
        settled = _count_settled(spoken, own, generation, before)
        differ = StateDiffer(self.drafting, self.context, entries)
        differ.compare(spoken, settled=settled, asked=asked)
        back = self._follow(differ, held) if is_whole else []
        stored = self._append([*back, *differ.news])
        turn_id = differ.turns[asked]
        first = str(spoken[differ.turns.index(turn_id)].id)
        places = (entry.position for entry in [*entries, *stored] if entry.message_id == first)
        begun = TurnNote(
            id=_find_turn(stored, spoken[asked]) or turn_id or make_ulid(),
            first=first,
            user=self.context.key.user_id,
            generation=generation,
            settled=spoken[settled - 1].id if settled else None,
            last=spoken[-1].id,
            position=min(places, default=None),
            run=self.context.run,
        )
        if again:
            begun["again"] = again
        return BegunTurn(begun, [*_remove(doubled), *differ.edits])

    def find_note(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> TurnNote | None:
        """Return the turn under way: as the state notes it, or as its messages tell.

        A state notes none where an agent's run went past the hook that does, or where nothing
        keeps the state: then a caller sent the chat, and what is said of the turn already may
        come after it.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        self._check_user(note)
        if note is not None:
            return note
        sent = list(messages)
        if not self.is_one_turn:
            if not self.context.is_stateless or self.context.is_sent:
                return None
            while sent and get_role(sent[-1]) == "assistant":
                sent.pop()
        return self.begin(sent).note

    def _check_user(self, note: TurnNote | None) -> None:
        """Refuse to continue one user's state for another user.

        A checkpointer knows a thread by its id alone, and the config of a snapshot names no user.
        """
        key = self.context.key
        if note is not None and note["user"] not in (None, key.user_id):
            msg = (
                f"the state of thread {key.thread_id!r} is of the user {note['user']!r}, and this "
                f"run is for {key.user_id!r}; name that user, or another thread. The config of a "
                'snapshot names no user: add user_id to its "configurable"'
            )
            raise ConfigError(msg)

    def _find_retries(self, spoken: Sequence[BaseMessage], found: Sequence[Entry]) -> list[str]:
        """Return the ids of unanswered questions that are repeated without an id."""
        context = self.context
        if context.since is not None or context.is_stateless or context.is_sent:
            return []
        known = {entry.message_id for entry in found}
        ids = [str(one.id) for one in _select_same_questions(spoken)]
        stays = next((name for name in ids if name in known), spoken[-1].id)
        doubled = [name for name in ids if name != stays]
        if not doubled or spoken[-1].id in known or not all(map(_is_made_up, doubled)):
            return []
        if stays in known:
            entries = self._read(last=_PAGE)
            return doubled if _is_unanswered(entries, stays) else []
        return doubled

    def _find_answered(
        self, spoken: Sequence[BaseMessage], found: Iterable[Entry], note: TurnNote | None
    ) -> list[str]:
        """Return the ids of what answers the latest question, if this run brings nothing new.

        A graph may come by here twice in a run; so the note tells whether another run has begun.
        """
        context = self.context
        is_own = note is None or note.get("run") in (None, context.run)
        if is_own or context.since is not None or context.is_stateless or context.is_sent:
            return []
        asked = _find_question(spoken)
        answer = spoken[asked + 1 :]
        if context.place.level or not answer or not _is_answer(answer[-1]):
            return []
        is_known = any(entry.message_id == spoken[asked].id for entry in found)
        return [str(one.id) for one in answer if get_role(one) != "system"] if is_known else []

    @property
    def _follows_state(self) -> bool:
        """Whether what a state lacks was taken out of it: nobody sends all that was ever said."""
        return self.follows_removals and not self.context.is_stateless

    def _begin_sent(self, spoken: Sequence[BaseMessage], found: Sequence[Entry]) -> TurnNote | None:
        """Store what is new of a chat that its caller sends whole, or the end of, with every run.

        Such a state knows of no earlier turn, and perhaps no ids of the log. What the user says
        alone is one more attempt if the same words stand in the thread without an answer.

        Args:
            spoken: The messages of the state.
            found: Entries that have their ids.

        Returns:
            The note of the turn; None where the state is not of this kind.
        """
        said = [message for message in spoken if get_role(message) != "system"]
        if not said or get_role(said[-1]) == "assistant":
            return None
        if len(said) == 1:
            return self._begin_again(said[0], found)
        if found and not self.context.is_stateless:
            return None
        thread = read_live(self.log, self.context.key)
        if not any(entry.role == "user" for entry in find_live_entries(thread.entries)):
            return None
        if get_role(said[-1]) != "user":
            return self._go_on_sent(said, thread.entries)
        # Where the log knows none of the user's messages, the graph has made up ids for this run:
        # it may have that of the latest one, from an earlier node.
        mine = [one for one in found if one.message_id == said[-1].id and _is_made_up(said[-1].id)]
        is_named = any(entry.role == "user" for entry in found if entry not in mine)
        sent = [one if is_named else one.model_copy(update={"id": None}) for one in said]
        meant = self._reconcile(thread, sent, mine)
        if thread.floor and (meant.replaces is not None or not meant.is_certain):
            thread = read_all(self.log, thread)
            meant = self._reconcile(thread, sent, mine)
        own = {id(one): message for one, message in zip(sent, said, strict=True)}
        old = meant.again or meant.replaces
        *earlier, asked = [said[-1]] if old else [own[id(one)] for one in meant.new]
        names: dict[str, str] = {}
        if old is not None and self.context.is_stateless:
            names = {str(asked.id): old.message_id}
            asked = _rename(asked, names)
        differ = StateDiffer(self.drafting, self.context, [*found, *thread.entries])
        differ.compare(earlier)
        differ.compare([asked], turn_id=make_ulid() if old is None else old.turn_id)
        gone = _find_replaced(thread.entries, meant, asked)
        back = self.context.retract(gone, "replaced")
        stored = self._append([*back, *differ.news])
        return TurnNote(
            id=_find_turn(stored, asked) or differ.turns[-1] or make_ulid(),
            first=str(asked.id),
            user=self.context.key.user_id,
            generation=self._read_generation(),
            settled=None,
            is_sent=True,
            names=names,
        )

    def _begin_again(self, asked: BaseMessage, found: Sequence[Entry]) -> TurnNote | None:
        """Return the turn of a question that is asked once more, since nobody answered it.

        Only where LangGraph named the message: under another id of its caller's it is another one.
        """
        is_unknown = not found and self.context.is_stateless and not self.context.is_sent
        if not is_unknown or get_role(asked) != "user" or not _is_made_up(asked.id):
            return None
        entries = self._read(last=_PAGE)
        said = asked.model_copy(update={"id": None})
        if not _is_unanswered(entries) or self.drafting.filter_message(asked) is None:
            return None
        meant = join(entries, [said], stored_form=self.drafting.filter_message)
        if meant.again is None:
            return None
        return self._go_on(meant.again, {str(asked.id): meant.again.message_id})

    def _go_on_sent(self, said: Sequence[BaseMessage], entries: Sequence[Entry]) -> TurnNote | None:
        """Return the open turn that a chat goes on with whose caller ran the tools.

        The results are stored when the turn is caught up with.
        """
        results = [one for one in said[_find_question(said) :] if isinstance(one, ToolMessage)]
        try:
            turn = continue_turn(entries, results)
        except InvalidMessageError:
            return None  # of calls that the log knows nothing of
        names = _find_names(said[_find_question(said) :], turn, entries)
        return self._go_on(turn.asked, names)

    def _go_on(self, asked: Entry, names: dict[str, str]) -> TurnNote:
        """Return the note of a turn that the log has, for a state that knows other ids.

        Args:
            asked: What the user said in it.
            names: The log's ids by those of the state.
        """
        return TurnNote(
            id=asked.turn_id,
            first=asked.message_id,
            user=self.context.key.user_id,
            generation=self._read_generation(),
            settled=None,
            position=asked.position,
            is_sent=True,
            names=names,
        )

    def _reconcile(
        self, thread: LiveThread, sent: Sequence[BaseMessage], mine: Sequence[Entry]
    ) -> Joined:
        """Compare a chat with the thread as it was before the question, while nobody answered it.

        Args:
            thread: The thread.
            sent: The chat.
            mine: Versions of the question that an earlier node of this run stored.
        """
        entries = thread.entries
        if mine and _is_unanswered(entries, mine[-1].message_id):
            turn_id = mine[-1].turn_id
            entries = [entry for entry in entries if entry.turn_id != turn_id]
        return join(entries, sent, stored_form=self.drafting.filter_message)

    # -- A turn goes on -------------------------------------------------------------------------

    def catch_up(self, messages: Sequence[BaseMessage], note: TurnNote | None = None) -> SyncedTurn:
        """Store what the state holds of the latest turn and the log does not.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.
        """
        spoken = select_spoken(messages, self.context, note)
        if not spoken:
            return SyncedTurn()
        start, entries, is_whole = self._read_turn(spoken, note)
        differ = StateDiffer(self.drafting, self.context, entries)
        first = 0 if is_whole else start
        settled = self._settle(spoken, first, start, differ.known, note)
        turn_id = None
        if self.is_one_turn and note is not None:
            turn_id, settled = note["id"], max(settled, start)
        differ.compare(spoken, first=first, settled=settled, turn_id=turn_id)
        held = select_spoken(messages, self.context, _ignore_again(note))
        back = self._follow(differ, held) if is_whole else []
        turn = self._make_turn(differ, spoken[start:], turn_id, back)
        self._write(turn, differ.news, back)
        return turn

    def _read_turn(
        self, spoken: Sequence[BaseMessage], note: TurnNote | None
    ) -> tuple[int, list[Entry], bool]:
        """Return where the turn begins, the entries from there on, or all, and if these are all."""
        start, position, found = self._locate_turn(spoken, note)
        if position is not None and self.context.since is None:
            entries = self._read(after=position - 1)
            first = [message.id for message in spoken[start : start + 1]]
            if self.is_one_turn or {entry.message_id for entry in entries}.issuperset(first):
                earlier = [entry for entry in found if entry.position < position]
                return start, [*earlier, *entries], False
        is_sent = note is not None and note.get("is_sent", False)
        return start, self._read(), not is_sent

    def _locate_turn(
        self, spoken: Sequence[BaseMessage], note: TurnNote | None
    ) -> tuple[int, int | None, list[Entry]]:
        """Return where the turn begins in the state, where in the log, and what was read of it."""
        ids = [message.id for message in spoken]
        start = find_exchange(spoken)
        is_gone = False
        if note is not None:
            is_gone = self.is_one_turn and note["first"] not in ids
            if self.is_one_turn and not is_gone:
                start = ids.index(note["first"])
            elif note.get("is_sent", False) and not is_gone:
                start = max(start, ids.index(note["first"]))
            if ids[start] == note["first"] and note.get("position") is not None:
                return start, note["position"], []
        found = self._find(spoken if is_gone else spoken[max(start - 1, 0) :])
        if note is not None and is_gone:
            others = {entry.message_id for entry in found if entry.turn_id != note["id"]}
            start = max((n for n, name in enumerate(ids, 1) if name in others), default=0)
        places = (entry.position for entry in found if entry.message_id in ids[start:])
        return start, min(places, default=None), found

    def _settle(
        self,
        spoken: Sequence[BaseMessage],
        first: int,
        start: int,
        known: Collection[str],
        note: TurnNote | None,
    ) -> int:
        """Return how many messages were forgotten, if the log lacks them."""
        own = self._select_own(note)
        held = [n for n, one in enumerate(spoken, 1) if n > start and one.id in known]
        # What was forgotten of the turn stood before anything that is still there. If nothing is,
        # only an answer is new that this run gave and did not store yet.
        is_new = not self.is_one_turn and _is_answer(spoken[-1])
        most = max(held, default=len(spoken) - is_new)
        if own is None or all(message.id in known for message in spoken[first:most]):
            return 0
        return _count_settled(spoken, own, self._read_generation(), most)

    def _select_own(self, note: TurnNote | None) -> TurnNote | None:
        """Return the note if it is of the same user: what was another's is new to this one."""
        return note if note is not None and note["user"] == self.context.key.user_id else None

    def _make_turn(
        self,
        differ: StateDiffer,
        own: Sequence[BaseMessage],
        turn_id: str | None,
        back: Sequence[Draft],
    ) -> SyncedTurn:
        turn_id = next((turn for turn in reversed(differ.turns) if turn), turn_id)
        gone = {name for draft in back if draft.control for name in draft.control.retracts}
        live = [
            entry
            for entry in find_live_entries(differ.entries)
            if entry.turn_id == turn_id and entry.id not in gone
        ]
        return SyncedTurn(
            id=turn_id,
            messages=own,
            known={entry.message_id: entry for entry in live},
            abandoned=_find_abandoned(live, own, self.context),
            after=differ.after,
            is_heard=differ.is_heard,
            edits=differ.edits,
        )

    def _write(self, turn: SyncedTurn, news: Sequence[Draft], back: Sequence[Draft] = ()) -> None:
        """Write; what is new of the turn takes the place of what an attempt said before."""
        replaced: Sequence[str] = ()
        if any(draft.turn_id == turn.id for draft in news):
            replaced, turn.abandoned = turn.abandoned, ()
        controls = [*back, *self.context.retract(replaced, "replaced")]
        stored = self._append([*controls, *news])
        own = [entry for entry in stored[len(controls) :] if entry.turn_id == turn.id]
        turn.known.update({entry.message_id: entry for entry in own})

    def _follow(self, differ: StateDiffer, messages: Sequence[BaseMessage]) -> list[Draft]:
        """Return what takes out of the views what the state no longer holds, and brings back."""
        self.context.check_known(len(differ.entries))
        branches = _Branches(differ.entries)
        held = [str(message.id) for message in messages]
        left = branches.find_left(self.context, held, follows_removals=self._follows_state)
        wanted = {entry.id for entry in differ.same}
        if not self._follows_state:
            earlier = set(branches.trace_back(held)) - set(held)
            wanted |= {differ.known[name].id for name in earlier if name in differ.known}
        live = find_live_entries(differ.entries)
        # No state ever held words that broke off: they stay, or go, with what they follow.
        cut = {entry.message_id for entry in live if INTERRUPTED in entry.metadata.attributes}
        follows = {name: branches.marks[name].after for name in cut & branches.marks.keys()}
        left -= {name for name, after in follows.items() if after in held}
        left |= {name for name, after in follows.items() if after in left}
        gone = {entry.id for entry in live if entry.message_id in left}
        return _rewind(differ.entries, self.context, gone, wanted)

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
        found = self._find(messages)
        taken = {str(message.id) for message in state}
        taken |= {entry.message_id for entry in found if entry.turn_id != turn.id}
        own = list(assign_free_ids(messages, taken, lambda _: make_ulid()))
        if not turn.is_heard:
            return own
        news: list[Draft] = []
        for message in own:
            metadata = self.context.make_metadata("message", turn.after, timing, attributes)
            if turn.own_tokens:
                aux = {**metadata.aux, OWN_TOKENS: dict(turn.own_tokens)}
                metadata, turn.own_tokens = replace(metadata, aux=aux), {}
            draft = _draft(self.drafting, message, turn.id, metadata)
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
            self.store_reply(turn, messages, state, timing, (INTERRUPTED,))

    def store_call(
        self, note: TurnNote, messages: Sequence[BaseMessage], call_id: str | None
    ) -> BaseMessage | None:
        """Make sure that a call is stored before the tool runs; return the message that makes it.

        None if nothing is stored of the turn. What other middleware made of the message after it
        was stored is stored now.
        """
        caller = _find_caller(messages, call_id)
        draft = None if caller is None else _draft(self.drafting, caller, note["id"])
        if caller is None or draft is None:
            return None
        found = self._find([caller])
        if not found or not has_same_content(found[-1], draft):
            turn = self.catch_up(messages, note)
            return caller if turn.is_heard else None
        return caller

    def store_result(
        self, note: TurnNote, caller: BaseMessage, result: ToolMessage, call_id: str
    ) -> ToolMessage:
        """Store the result of a call and return it, with the id that it has in every attempt.

        A message that answers another call is returned as it is.
        """
        if result.tool_call_id != call_id:
            return result
        result = name_result(result, self.context.key, note["id"], str(caller.id))
        metadata = self.context.make_metadata("message", caller.id)
        draft = _draft(self.drafting, result, note["id"], metadata)
        if draft is not None:
            self._append([draft])
        return result

    def finish(self, note: TurnNote, messages: Sequence[BaseMessage]) -> None:
        """Store what is left of a turn that came to its end."""
        turn = self.catch_up(messages, note)
        self._append(self.context.retract(turn.abandoned, "replaced"))

    # -- The log --------------------------------------------------------------------------------

    def _append(self, drafts: Sequence[Draft]) -> list[Entry]:
        if not drafts:
            return []
        entries = self.log.append(self.context.key, drafts)
        if self.trace is not None and any(draft.role != "user" for draft in drafts):
            self.trace.report_stored(drafts)
        return entries

    def _read(self, after: int = 0, last: int | None = None) -> list[Entry]:
        return self.log.entries(self.context.key, after=after, last=last)

    def _find(self, messages: Iterable[BaseMessage]) -> list[Entry]:
        return self.log.find(self.context.key, {one.id for one in messages if one.id})

    def _read_generation(self) -> int:
        return self.log.changes(self.context.key.owner, 0, limit=1).generation


# -- What a state notes, and what is known of its turn --------------------------------------------
class TurnNote(TypedDict):
    """The current turn as a state keeps it: plain values that any checkpointer accepts."""

    id: str
    """The turn's id in the log, a ULID."""
    first: str
    """Id of the message it begins with."""
    user: str | None
    """The user of the turn."""
    generation: NotRequired[int]
    """The log's generation of that user when the note was made; `forget` raises it."""
    settled: NotRequired[str | None]
    """Id of the last message that is not stored again where the log lacks it: it was forgotten."""
    last: NotRequired[str | None]
    """Id of the last message that the state held when the note was made."""
    position: NotRequired[int | None]
    """Where in the log the turn begins; None if that is not stored."""
    is_sent: NotRequired[bool]
    """Whether its caller sent a chat that the log has already."""
    names: NotRequired[dict[str, str]]
    """Ids in the log of messages that the caller sent once more, by those that they have now."""
    run: NotRequired[int | None]
    """The run that made the note; see `NodeContext.run`."""
    again: NotRequired[list[str]]
    """Ids of what answered the question before: this run puts another answer in its place."""


@dataclass(slots=True)
class SyncedTurn:
    """A turn in progress, synced to the log. Not thread-safe.

    Attributes:
        id: The turn; None where the state holds nothing of one.
        messages: Its messages in the state.
        known: Its live entries by message id, some perhaps of messages that left the state.
        abandoned: Ids of entries of replies that an attempt made which came to nothing.
        after: Id of the last message that is in the log.
        is_heard: Whether anything is stored of what the user said; if not, no answer is.
        own_tokens: What the memory's own models took before the next reply; see `OwnTokens`.
        edits: Messages that were edited in the log since the state was last seen.
    """

    id: str | None = None
    messages: Sequence[BaseMessage] = ()
    known: dict[str, Entry] = field(default_factory=dict)
    abandoned: Sequence[str] = ()
    after: str | None = None
    is_heard: bool = True
    own_tokens: Mapping[str, int] = field(default_factory=dict)
    edits: Sequence[BaseMessage] = ()

    def apply_edits(
        self, messages: Sequence[BaseMessage], held: Sequence[BaseMessage]
    ) -> list[BaseMessage]:
        """Return messages as they were edited in the log, if they say what the state holds."""
        texts = {message.id: message.content for message in held}
        edits = {edit.id: edit for edit in self.edits}
        return [
            edits.get(one.id, one) if texts.get(one.id) == one.content else one for one in messages
        ]


@dataclass(frozen=True, slots=True)
class BegunTurn:
    """A turn that begins with what a state holds.

    Attributes:
        note: What the state is to note of it; None for an empty state.
        changes: What the state is to learn: a `RemoveMessage` for what stands there twice, and
            messages that were edited in the log, under their ids.
    """

    note: TurnNote | None
    changes: Sequence[BaseMessage] = ()

    def apply(self, messages: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the messages of the state as they are after the changes."""
        changed = {change.id: change for change in self.changes}
        after = [changed.get(message.id, message) for message in messages]
        return [message for message in after if not isinstance(message, RemoveMessage)]


# -- What is new ----------------------------------------------------------------------------------
@dataclass(slots=True)
class StateDiffer:
    """Finds what the log lacks of a state. Pure; for one comparison, not thread-safe.

    Attributes:
        drafting: What is stored of a message.
        context: The node that runs.
        entries: Those of the messages compared at least, by position.
        known: The entry of each message, as it was when a state was last seen.
        news: What to append.
        same: Entries that say what the state says.
        edits: Messages that were edited in the log since the state was last seen.
        turns: The turn of each message compared; None of a system message, and of a forgotten one.
        after: Id of the latest message that is in the log, or will be.
        is_heard: Whether anything of the user's latest message is stored; if not, no answer is.
    """

    drafting: DraftBuilder
    context: NodeContext
    entries: Sequence[Entry]
    known: dict[str, Entry] = field(init=False)
    news: list[Draft] = field(default_factory=list)
    same: list[Entry] = field(default_factory=list)
    edits: list[BaseMessage] = field(default_factory=list)
    turns: list[str | None] = field(default_factory=list)
    after: str | None = None
    is_heard: bool = True
    _turn: str | None = None
    _joins: bool = False
    _newest: dict[str, Entry] = field(init=False)
    _live: set[str] = field(init=False)

    def __post_init__(self) -> None:
        """Look up what is known."""
        self.known = _select_versions(self.entries)
        self._newest = {
            entry.message_id: entry for entry in self.entries if entry.message_id in self.known
        }
        self._live = {entry.id for entry in find_live_entries(self.entries)}

    def compare(
        self,
        spoken: Sequence[BaseMessage],
        *,
        first: int = 0,
        settled: int = 0,
        turn_id: str | None = None,
        asked: int | None = None,
    ) -> None:
        """Compare the messages of a state, in order.

        Args:
            spoken: All of them.
            first: Number of the first one to compare.
            settled: How many were forgotten, if the log lacks them, and are not stored again.
            turn_id: What all that is new belongs to; None where it tells its turn itself.
            asked: Number of the message with which a turn begins; if it was taken back before, it
                counts again, and nothing else does.
        """
        if first and spoken[first - 1].id in self.known:
            self.after = spoken[first - 1].id
        settled = max(settled, self._count_forgotten(spoken))
        for number, message in enumerate(spoken[first:], first):
            entry = self.known.get(message.id or "")
            if number == asked and not self._is_live(message):
                entry = None
            if entry is None and number < settled:
                self.turns.append(None)
                continue
            self._place(message, entry, turn_id)
            self._take(message, entry)

    def _is_live(self, message: BaseMessage) -> bool:
        return any(
            entry.message_id == message.id and entry.id in self._live for entry in self.entries
        )

    def _count_forgotten(self, spoken: Sequence[BaseMessage]) -> int:
        """Return how many messages stand up to one that another followed, and that is gone."""
        marks = filter(None, map(Provenance.read, self.known.values()))
        gone = {mark.after for mark in marks if mark.unit == "message"} - self.known.keys()
        return max((n for n, one in enumerate(spoken, 1) if one.id in gone), default=0)

    def _place(self, message: BaseMessage, entry: Entry | None, turn_id: str | None) -> None:
        """Find the turn: what the user newly says begins one, up to the next answer."""
        role = get_role(message)
        if role == "system":
            self.turns.append(None)
            return
        if entry is not None:
            self._turn = entry.turn_id
        elif turn_id is not None:
            self._turn = turn_id
        elif self._turn is None or (role == "user" and not self._joins):
            self._turn = make_ulid()
        self._joins = role == "user" and entry is None
        self.turns.append(self._turn)

    def _take(self, message: BaseMessage, entry: Entry | None) -> None:
        """Note whether the message is news."""
        role = get_role(message)
        metadata = self.context.make_metadata("message", self.after)
        draft = _draft(self.drafting, message, self.turns[-1], metadata)
        if role == "user":
            self.is_heard = entry is not None or draft is not None
        if entry is not None and (draft is None or self._is_known(entry, draft)):
            self.same.append(entry)
        elif draft is not None and (self.is_heard or role == "system"):
            self.news.append(draft)
        else:
            return
        self.after = message.id

    def _is_known(self, entry: Entry, draft: Draft) -> bool:
        """Return whether the state says what it said before, or what was made of that in the log.

        A message of the log's own that is newer than what the state says is an edit, and stays.
        """
        newest = self._newest[entry.message_id]
        if Provenance.read(newest) is not None:
            return has_same_content(entry, draft)
        if has_same_content(newest, draft):
            return True
        is_known = any(
            has_same_content(one, draft) for one in self.entries if _is_version(one, newest)
        )
        if is_known and newest.message is not None and newest.id in self._live:
            self.edits.append(build_message(newest))
        return is_known


def _is_version(entry: Entry, of: Entry) -> bool:
    return entry.control is None and entry.role == of.role and entry.message_id == of.message_id


def _select_versions(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the version of each message that a state was last seen with, else the latest.

    What was edited in the log since is not marked, and so not taken for what the state said.
    """
    found: dict[str, Entry] = {}
    for entry in entries:
        if entry.control is None and entry.role != "summary":
            before = found.get(entry.message_id)
            if before is None or Provenance.read(entry) or not Provenance.read(before):
                found[entry.message_id] = entry
    return found


def _draft(
    drafting: DraftBuilder,
    message: BaseMessage,
    turn_id: str | None,
    metadata: Metadata | None = None,
) -> Draft | None:
    """Return what is to be stored of a message, if anything is."""
    own = None if get_role(message) == "system" else turn_id
    return drafting.filter_draft(make_draft(message, turn_id=own, metadata=metadata))


def _count_settled(
    spoken: Sequence[BaseMessage], note: TurnNote | None, generation: int, most: int
) -> int:
    """Return how many messages, from the first on, are not stored again if the log lacks them.

    Something was forgotten since they were stored, and a state must not bring it back.

    Args:
        spoken: The messages of the state.
        note: What the state noted of the same user's turn before, if it did.
        generation: The log's generation of the user now.
        most: How many they are if something was forgotten since the note was made.
    """
    if note is None:
        return 0
    if note.get("generation", generation) != generation:
        return most
    return min(most, _count_to(spoken, note, "settled"))


def _count_to(
    spoken: Sequence[BaseMessage], note: TurnNote | None, key: Literal["settled", "last"]
) -> int:
    """Return how many messages stand up to one that the note names; 0 without it."""
    name = None if note is None else note.get(key)
    places = (number for number, one in enumerate(spoken, 1) if one.id == name)
    return 0 if name is None else next(places, 0)


# -- Which messages were said, and belong together ------------------------------------------------
def name_messages(messages: Iterable[BaseMessage], context: NodeContext) -> list[BaseMessage]:
    """Return the messages of a state, each with an id: the same one when the node runs again.

    A reducer such as that of deep agents leaves texts and maps without one. What is made up here
    looks like what LangGraph makes up.
    """
    return [
        message
        if message.id
        else message.model_copy(update={"id": _make_id(f"{context.place.task}-{number}")})
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


def _is_made_up(message_id: str | None) -> bool:
    """Return whether an id may be one that LangGraph gave to a message without one."""
    try:
        return UUID(message_id or "").version == _RANDOM
    except ValueError:
        return False


def _select_same_questions(spoken: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages at the end that are the user's and say the same, the first one first."""
    text = spoken[-1].content
    same = takewhile(lambda one: get_role(one) == "user" and one.content == text, reversed(spoken))
    return [*same][::-1]


def _is_unanswered(entries: Sequence[Entry], message_id: str | None = None) -> bool:
    """Return whether the thread ends with what a user said, in the message of this id."""
    spoken = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    is_asked = bool(spoken) and spoken[-1].role == "user"
    return is_asked and message_id in (None, spoken[-1].message_id)


def _is_answer(message: BaseMessage | None) -> bool:
    """Return whether a message answers the user; a call of a tool does not."""
    is_said = message is not None and get_role(message) == "assistant"
    return is_said and not getattr(message, "tool_calls", None)


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


def select_spoken(
    messages: Iterable[BaseMessage], context: NodeContext, note: TurnNote | None
) -> list[BaseMessage]:
    """Return the messages of a state that are the thread's, under the ids that the log has.

    What stand-ins stand for is in the log, verbatim. Where nothing keeps the state, its system
    messages steer one run alone. An answer in whose place the run puts another is left out.
    """
    return [
        message
        for message in rename_known(messages, note)
        if not is_stand_in(message) and not (context.is_stateless and get_role(message) == "system")
    ]


def find_aside(
    messages: Iterable[BaseMessage], note: TurnNote | None, context: NodeContext
) -> CallContext:
    """Return what of the messages of a state only the model of this run sees.

    Where nothing keeps the state, these are its system messages, and what stands before the turn
    and is marked as not to be stored.
    """
    if not context.is_stateless:
        return CallContext()
    held = rename_known(messages, note)
    first = None if note is None else note["first"]
    before = takewhile(lambda one: one.id != first, held) if note is not None else ()
    return CallContext(
        [one for one in held if get_role(one) == "system"],
        [one for one in before if not is_remembered(one) and get_role(one) != "system"],
    )


def drop_earlier(
    messages: Sequence[BaseMessage], note: TurnNote, context: NodeContext
) -> list[BaseMessage]:
    """Return the messages of the turn, and what else only this run shows."""
    ids = [note.get("names", {}).get(str(one.id), one.id) for one in messages]
    start = ids.index(note["first"]) if note["first"] in ids else 0
    aside = find_aside(messages[:start], note, context)
    return [*aside.instructions, *aside.messages, *messages[start:]]


def rename_known(messages: Iterable[BaseMessage], note: TurnNote | None) -> list[BaseMessage]:
    """Return the messages of a state under the ids that the log has.

    What answered the question of the turn before is left out, if the run answers it again.
    """
    names = {} if note is None else note.get("names", {})
    again: Collection[str | None] = () if note is None else note.get("again", ())
    return [_rename(message, names) for message in messages if message.id not in again]


def remove_superseded(
    messages: Sequence[BaseMessage], note: TurnNote | None
) -> list[RemoveMessage]:
    """Return what takes an answer out of the state in whose place there is another by now."""
    return _remove(_find_superseded(messages, note))


def _find_superseded(messages: Sequence[BaseMessage], note: TurnNote | None) -> list[str]:
    """Return the ids of an answer in the state that another one follows by now."""
    again: Collection[str | None] = () if note is None else note.get("again", ())
    numbers = [number for number, message in enumerate(messages) if message.id in again]
    if not numbers:
        return []
    later = takewhile(lambda one: get_role(one) != "user", messages[numbers[-1] + 1 :])
    if all(get_role(message) != "assistant" for message in later):
        return []
    return [str(messages[number].id) for number in numbers]


def _ignore_again(note: TurnNote | None) -> TurnNote | None:
    """Return a note for which all that the state holds was said."""
    return None if note is None else cast("TurnNote", {**note, "again": []})


def _remove(ids: Iterable[str]) -> list[RemoveMessage]:
    return [RemoveMessage(id=name) for name in ids]


def _rename(message: BaseMessage, names: Mapping[str, str]) -> BaseMessage:
    name = names.get(message.id or "")
    return message if name is None else message.model_copy(update={"id": name})


def _find_names(
    said: Sequence[BaseMessage], turn: ContinuedTurn, entries: Sequence[Entry]
) -> dict[str, str]:
    """Return the log's ids of a turn's messages that were sent once more, by those they have now.

    Args:
        said: The question, and what followed it.
        turn: The open turn.
        entries: Those of the thread.
    """
    own = [entry for entry in find_live_entries(entries) if entry.turn_id == turn.asked.turn_id]
    found = {str(said[0].id): turn.asked.message_id} if get_role(said[0]) == "user" else {}
    results = {result.tool_call_id: str(result.id) for result in turn.results}
    for message in said:
        made, answered = find_calls(message), getattr(message, "tool_call_id", None)
        same = next((n for n, one in enumerate(own) if _is_same_step(one, made, answered)), None)
        if same is not None:
            found[str(message.id)], own = own[same].message_id, own[same + 1 :]
        elif answered in results:
            found[str(message.id)] = results[answered]
    return found


def _is_same_step(entry: Entry, made: Sequence[Any], answered: str | None) -> bool:
    """Return whether an entry makes these calls, or answers this one."""
    if answered is not None:
        return getattr(entry.message, "tool_call_id", None) == answered
    ids = [call["id"] for call in find_calls(entry.message)]
    return bool(ids) and ids == [call["id"] for call in made]


def _find_turn(stored: Iterable[Entry], asked: BaseMessage) -> str | None:
    """Return the turn of what the user says: a branch beside this one may have stored it first."""
    return next((entry.turn_id for entry in stored if entry.message_id == asked.id), None)


def _find_replaced(entries: Sequence[Entry], meant: Joined, asked: BaseMessage) -> list[str]:
    """Return the entries in whose place something else is said."""
    if meant.again is not None:
        # What was stored for a state makes way once there is another reply.
        turn_id = meant.again.turn_id
        own = [one for one in find_live_entries(entries) if one.turn_id == turn_id]
        if meant.again.message_id != asked.id:
            return [one.id for one in own]
        return [one.id for one in own if one.role != "user" and Provenance.read(one) is None]
    if meant.replaces is None:
        return []
    edits = plan_replace(entries, meant.replaces.message_id, asked, keep_later=False)
    gone = [name for one in edits if one.control for name in one.control.retracts]
    return [*gone, meant.replaces.id]


# -- What is gone ---------------------------------------------------------------------------------
class _Branches:
    """Which message followed which in the states of a graph."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        marks = ((entry, Provenance.read(entry)) for entry in entries)
        self._entries = entries
        self.marks = {
            entry.message_id: mark
            for entry, mark in marks
            if mark is not None and mark.unit == "message"
        }

    def trace_back(self, held: Sequence[str]) -> list[str]:
        """Return the newest known of these and all before it on its branch, newest first."""
        found: dict[str, None] = {}
        unit = next((name for name in reversed(held) if name in self.marks), None)
        while unit is not None and unit not in found:
            found[unit] = None
            unit = self.marks[unit].after if unit in self.marks else None
        return list(found)

    def find_later(self, kept: Collection[str]) -> set[str]:
        """Return the units that are not kept, but follow one that is, however much later."""
        follows = dict.fromkeys(kept, True)
        for unit in self.marks:
            walked: dict[str, None] = {}
            at: str | None = unit
            while at in self.marks and at not in follows and at not in walked:
                walked[at] = None
                at = self.marks[at].after
            follows.update(dict.fromkeys(walked, follows.get(at or "", False)))
        return {unit for unit in self.marks if unit not in kept and follows[unit]}

    def find_left(
        self, context: NodeContext, held: Sequence[str], *, follows_removals: bool = False
    ) -> set[str]:
        """Return the units that a state held once and holds no more.

        What another run stored meanwhile is none of them: this state never held it. So only what
        stood before the newest known one counts, and what came after it if this run can only have
        begun after that was stored. What a `Send` carries was picked out of a state, so what it
        lacks was not taken out. A run that starts from a checkpoint goes back to it.
        """
        path = self.trace_back(held)
        left: set[str] = set()
        if context.since is not None:
            kept = held if follows_removals else [*held, *path]
            later = self.find_later(kept) if path else self._find_since(context, context.since)
            here = context.place.checkpoint
            left = {name for name in later if self.marks[name].place.checkpoint != here}
        elif follows_removals and not context.is_sent:
            later = self.find_later(path[:1]) if path else set(self.marks)
            over = {name for name in later if self.marks[name].place.is_over(context.place)}
            left = {*path, *(over & self._find_answered_ids())}
        return left - set(held)

    def _find_since(self, context: NodeContext, since: str) -> set[str]:
        """Return what was stored since the checkpoint at which a run begins with nothing.

        Inside another graph, or brought by a `Send`, a state is empty for other reasons as well.
        """
        if context.place.level or context.is_sent:
            return set()
        return {name for name, mark in self.marks.items() if mark.place.checkpoint >= since}

    def _find_answered_ids(self) -> set[str]:
        """Return the ids of the messages in turns that have an answer."""
        turns = {entry.turn_id for entry in self._entries if _is_answer(entry.message)}
        return {entry.message_id for entry in self._entries if entry.turn_id in turns}


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
    held = [str(message.id) for message in own]
    branches = _Branches(live)
    later = branches.find_later(held[_find_question(own) :]) if own else set()
    places = {name: branches.marks[name].place for name in later - set(held)}
    return tuple(
        entry.id
        for entry in live
        if entry.role != "user"
        and entry.message_id in places
        and places[entry.message_id].level == context.place.level
        and not places[entry.message_id].is_parallel(context.place)
    )


def _rewind(
    entries: Sequence[Entry], context: NodeContext, left: Collection[str], wanted: Collection[str]
) -> list[Draft]:
    """Return the control entry that takes entries out, and brings back what this once took out.

    Nothing is erased, and a graph that returns to a branch it left finds it again: a later control
    entry takes back the earlier one. Summaries that cover retracted entries go as well.
    """
    live = find_live_entries(entries)
    alive = {entry.id for entry in live}
    lifted = [
        entry.id
        for entry in entries
        if entry.control is not None
        and Provenance.read(entry) is not None
        and any(name in wanted and name not in alive for name in entry.control.retracts)
    ]
    after = find_live_entries([entry for entry in entries if entry.id not in lifted])
    # What a lifted entry took out besides stays out.
    back = {entry.id for entry in after if entry.role != "summary"} - alive - set(wanted)
    gone = [entry.id for entry in after if entry.id in back or entry.id in left]
    return context.retract([*lifted, *gone, *find_summaries_over(after, gone)], "rewind")
