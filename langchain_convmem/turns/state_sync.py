"""Sync of a state with messages to the log: what to store, and what to retract.

For graphs and agents alike. A state holds messages by id and the log knows them by id, so whatever
runs again, a retry, a resumed run, a turn that is tried once more, stores nothing twice. What is in
a state is what the user sees and edits, so the log follows; it only ever adds entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import BaseMessage, RemoveMessage, ToolMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history import read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.messages import (
    Joined,
    join_thread,
    name_result,
)
from langchain_convmem.turns.node_context import Mark, NodeContext, read_mark, read_step
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.state_differ import StateDiffer, draft_message
from langchain_convmem.turns.state_owner import StateOwner
from langchain_convmem.turns.synced_turn import BegunTurn, SyncedTurn, TurnNote
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import (
    CallContext,
)
from langchain_convmem.views.codec import get_role
from langchain_convmem.views.context import NOTED_SOURCE, SUMMARY_SOURCE
from langchain_convmem.views.edits import plan_replace
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.views.messages import DraftBuilder, is_remembered
from langchain_convmem.views.summaries import find_summaries_over

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


# -- What a state and the log know of each other --------------------------------------------------
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
        says again counts again. A run that brings nothing new asks for another answer: the one that
        the state holds leaves it, and stays in the log until there is another.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
            InvalidMessageError: If there is nothing to answer.
        """
        held = select_spoken(messages, self.context, note)
        entries = self._find(held)
        refused = self._find_refused(held, entries, note)
        held = [message for message in held if message.id not in refused]
        if not held:
            return BegunTurn(None)
        if all(map(_is_answer, held)):
            raise InvalidMessageError(NOTHING_ASKED)
        if note is None and self.context.since is None:
            sent = self._begin_sent(held, entries)
            if sent is not None:
                return BegunTurn(sent)
        edited = self._find_edited(held, entries, note)
        again = held[edited + 1 :] or self._find_old_answer(held, entries, note)
        spoken = held[: len(held) - len(again)]
        asked = _find_question(spoken)
        fork = self._find_fork(spoken, entries, note, read_step(self.context.path))
        is_back = self.context.since is not None or fork is not None
        is_whole = self._follows_state or is_back
        if is_whole or any(entry.message_id == spoken[asked].id for entry in entries):
            entries = self._read()
        generation = self._read_generation()
        forgotten = _find_forgotten(
            self.context.key.user_id, spoken[: find_exchange(spoken)], entries, note, generation
        )
        differ = StateDiffer(self.drafting, self.context, entries, forgotten)
        differ.compare(spoken, asked=asked)
        back = self._follow(differ, held, note, fork) if is_whole else []
        if edited < len(held):
            back += self.context.retract(_list_later(entries, str(held[edited].id)), "replaced")
        late = {draft.turn_id for draft in differ.news if draft.role == "assistant"}
        old = [entry for entry in find_live_entries(entries) if entry.turn_id in late]
        back += self.context.retract(_find_abandoned(old, spoken, self.context), "replaced")
        stored = self._append([*back, *differ.news])
        turn_id = differ.turns[asked]
        first = str(spoken[differ.turns.index(turn_id)].id)
        begun = TurnNote(
            id=_find_turn(stored, spoken[asked]) or turn_id or make_ulid(),
            first=first,
            user=self.context.key.user_id,
            generation=generation,
            forgotten=sorted(forgotten & {one.id for one in spoken if one.id}),
            held=[str(one.id) for one in spoken],
            run=self.context.run,
            again=[str(one.id) for one in again],
        )
        if note is not None and note.get("names"):
            begun["names"] = note["names"]
        removed = [RemoveMessage(id=name) for name in [*refused, *(str(one.id) for one in again)]]
        places = [one.position for one in [*entries, *stored] if one.message_id == first]
        if places:
            begun["position"] = min(places)
        known = {entry.turn_id for entry in entries}
        return BegunTurn(begun, [*removed, *differ.edits], len(known & late))

    def _find_old_answer(
        self, spoken: Sequence[BaseMessage], entries: Sequence[Entry], note: TurnNote | None
    ) -> Sequence[BaseMessage]:
        """Return what answers the latest question, if this run brings nothing new.

        A graph may come by here twice in a run; so the note tells whether another run has begun.

        Raises:
            InvalidMessageError: If it brings an answer of its own, behind one that is stored.
        """
        context = self.context
        is_own = note is None or note.get("run") in (None, context.run)
        if is_own or context.since is not None or context.is_stateless or context.is_sent:
            return []
        answer = spoken[_find_question(spoken) + 1 :]
        if context.level or not (answer and _is_answer(answer[-1])):
            return []
        ids = {entry.message_id for entry in entries}
        if answer[-1].id not in ids and any(one.id in ids for one in answer if _is_answer(one)):
            raise InvalidMessageError(NOTHING_ASKED)
        return answer

    def _find_edited(
        self, held: Sequence[BaseMessage], entries: Sequence[Entry], note: TurnNote | None
    ) -> int:
        """Return the number of the question that a run brings edited, and nothing else with it.

        The length of the state if there is none: an edit that a question follows stays an edit,
        and so does one that a node of this run made.
        """
        context = self.context
        is_begun = note is not None and note.get("run") == context.run
        if is_begun or context.is_stateless or context.is_sent or not _is_answer(held[-1]):
            return len(held)
        differ = StateDiffer(self.drafting, context, entries)
        differ.compare(held)
        ids = {draft.message.id for draft in differ.news if draft.message and draft.role == "user"}
        edited = [n for n, one in enumerate(held) if one.id in ids and one.id in differ.known]
        return max(edited, default=len(held))

    def _find_fork(
        self,
        held: Sequence[BaseMessage],
        entries: Sequence[Entry],
        note: TurnNote | None,
        step: int = 0,
    ) -> set[str] | None:
        """Return the messages that a state lacks since it was taken back; None if it was not.

        `update_state` with the config of an old snapshot does that, and the run says nothing of it.
        An answered turn that follows what the state holds last, and is not in it, tells. One that
        began in the same step does not, nor one without an answer, nor one behind a question that
        waits for its answer while another is asked: these run side by side.

        Args:
            held: The messages of the state.
            entries: Those that have their ids; where a turn goes on, what came later as well.
            note: What the state noted; nothing up to its turn was left.
            step: At which step a turn begins; 0 where one goes on, which others may follow.
        """
        context, ids = self.context, {str(message.id) for message in held}
        last = _find_last(entries, ids)
        if not last or context.since is not None or context.is_stateless or context.is_sent:
            return None
        if note is None and (context.level or not self._follows_state):
            return None
        known = [entry for entry in entries if entry.position <= last]
        later = self._read(after=last) if step else [one for one in entries if one.position > last]
        names = {entry.id for entry in known if entry.message_id in ids}
        for entry in later:
            gone = () if entry.control is None else entry.control.retracts
            if read_mark(entry) is not None and names.intersection(gone):
                return set(_follow_marks(later, ids, ids))  # a branch that was left before
        ends = [entry for entry in known if entry.position == last]
        if step and any(entry.role == "user" for entry in ends):
            return None
        roots = {entry.message_id for entry in ends}
        left = _follow_marks(_drop_beside(later, ends), roots, ids)
        answered = {one.turn_id for one in later if one.message_id in left and one.role != "user"}
        position = max(last, 0 if note is None else note.get("position", 0))
        for entry in later:
            mark = left.get(entry.message_id)
            is_turn = mark is not None and entry.role == "user" and mark.level == context.level
            if mark is None or not is_turn or entry.position <= position:
                continue
            if entry.turn_id not in answered:
                continue
            if mark.after not in ids or read_step(mark.path) < step:
                return set(left)
        return None

    def find_note(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> TurnNote | None:
        """Return the turn under way: as the state notes it, or as its messages tell.

        A state notes none where an agent's run went past the hook that does, or where nothing
        keeps the state: then a caller sent the chat, and what is said of the turn already may
        come after it.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        if note is not None:
            StateOwner(self.log, self.context.key).check(note["user"])
            return note
        sent = list(messages)
        if not self.is_one_turn:
            if not self.context.is_stateless or self.context.is_sent:
                return None
            while sent and _is_answer(sent[-1]):
                sent.pop()
        return self.begin(sent).note

    def _find_refused(
        self, held: Sequence[BaseMessage], entries: Sequence[Entry], note: TurnNote | None
    ) -> Collection[str]:
        """Return the ids of what was sent for another user, and stayed in the state.

        Raises:
            ConfigError: If the state is of another user than the run is for.
        """
        owner = StateOwner(self.log, self.context.key)
        ids, known = [str(one.id) for one in held], {entry.message_id for entry in entries}
        is_kept = not (self.context.is_stateless or self.context.is_sent)
        user = None if note is None else note["user"]
        start, is_later = find_exchange(held), read_step(self.context.path) > _FIRST_STEPS
        if note is None and is_kept and is_later and start and not (known or self.is_one_turn):
            user = owner.find_user(ids[:start])  # a graph whose state has no key for the note
        owner.check_sent(user, ids)
        news = [name for name in ids if name not in known]
        return owner.find_refused(news) if is_kept and known and news else []

    @property
    def _follows_state(self) -> bool:
        """Whether what a state lacks was taken out of it: nobody sends all that was ever said."""
        return self.follows_removals and not self.context.is_stateless

    def _begin_sent(self, spoken: Sequence[BaseMessage], found: Sequence[Entry]) -> TurnNote | None:
        """Store what is new of a chat that its caller sends whole, or the end of, with every run.

        Such a state knows of no earlier turn, and perhaps no ids of the log: an id that LangGraph
        made up for this run is none.

        Args:
            spoken: The messages of the state.
            found: Entries that have their ids.

        Returns:
            The note of the turn; None where the state is not of this kind.
        """
        said = [message for message in spoken if get_role(message) != "system"]
        is_asked = bool(said) and not _is_answer(said[-1])
        if not is_asked or self.context.is_sent or (found and not self.context.is_stateless):
            return None
        known = {entry.message_id for entry in found}
        sent = [one if one.id in known else _drop_made_up_id(one) for one in said]
        thread = read_live(self.log, self.context.key)
        if _find_asked(thread.entries) is None:
            return None
        thread, joined = join_thread(self.log, thread, sent, self.drafting.filter_message)
        own = {id(one): message for one, message in zip(sent, said, strict=True)}
        news = [own[id(one)] for one in joined.new]
        goes_on = not any(get_role(one) == "user" for one in news)
        asked = joined.again or _find_asked(thread.entries) if goes_on else joined.replaces
        turn_id, names = make_ulid(), {}
        if asked is not None:
            start, asked = _find_opening(said, asked, thread.entries)
            turn_id, names = asked.turn_id, _find_names(said[start:], news, asked, thread.entries)
        differ = StateDiffer(self.drafting, self.context, [*found, *thread.entries])
        last = _find_question(news) if asked is None and news else 0
        differ.compare(news[:last])
        differ.compare(_rename(news[last:], names), turn_id=turn_id)
        gone = _find_replaced(thread.entries, joined, news)
        stored = self._append([*self.context.retract(gone, "replaced"), *differ.news])
        first = said[_find_question(said)]
        note = TurnNote(
            id=_find_turn(stored, first) or turn_id,
            first=names.get(str(first.id), str(first.id)) if asked is None else asked.message_id,
            user=self.context.key.user_id,
            generation=self._read_generation(),
            names=names,
        )
        places = (
            [asked] if asked is not None else [e for e in stored if e.message_id == note["first"]]
        )
        if places:
            note["position"] = places[0].position
        return note

    # -- A turn goes on -------------------------------------------------------------------------

    def catch_up(
        self, messages: Sequence[BaseMessage], note: TurnNote | None = None, *, stores: bool = True
    ) -> SyncedTurn:
        """Store what the state holds of the latest turn and the log does not.

        Args:
            messages: Those of the state, each with an id.
            note: The turn that the state noted last.
            stores: Whether anything is written, or the turn only looked up.
        """
        spoken = select_spoken(messages, self.context, note)
        if not spoken:
            return SyncedTurn()
        start, entries = self._read_turn(spoken, note)
        first, entries = self._reach_unstored(spoken, start, entries, note)
        fork = self._find_fork(spoken, entries, note)
        entries = entries if fork is None else self._read()
        # What was forgotten of the turn stood before anything that is still there. If nothing is,
        # only an answer is new that this run gave and did not store yet.
        names = {entry.message_id for entry in entries}
        is_new = not self.is_one_turn and _is_answer(spoken[-1])
        known = [n for n, one in enumerate(spoken) if n >= first and one.id in names]
        old = spoken[first : max(known, default=len(spoken) - is_new)]
        forgotten: set[str] = set()
        if not names.issuperset(one.id for one in old):
            forgotten = _find_forgotten(
                self.context.key.user_id, old, entries, note, self._read_generation()
            )
        differ = StateDiffer(self.drafting, self.context, entries, forgotten)
        turn_id = note["id"] if self.is_one_turn and note is not None else None
        is_back = self.context.since is not None or fork is not None
        differ.compare(spoken, first=0 if is_back else first, turn_id=turn_id)
        back = self._follow(differ, spoken, note, fork) if is_back else []
        turn = self._make_turn(differ, spoken[start:], turn_id, back)
        if note is not None and note["first"] not in names and self._is_erased(note):
            turn.is_heard = False
        elif stores:
            self._write(turn, differ.news, back)
        return turn

    def _read_turn(
        self, spoken: Sequence[BaseMessage], note: TurnNote | None
    ) -> tuple[int, list[Entry]]:
        """Return where the turn begins in a state, and the entries from there on at least."""
        ids = [message.id for message in spoken]
        start = find_exchange(spoken)
        is_gone = self.is_one_turn and note is not None and note["first"] not in ids
        if note is not None and note["first"] in ids:
            first = ids.index(note["first"])
            start = first if self.is_one_turn else max(start, first)
        if self.context.since is not None:
            return start, self._read()
        if note is not None and "position" in note and ids[start] == note["first"]:
            return start, self._read(after=note["position"] - 1)
        found = self._find(spoken if is_gone else spoken[max(start - 1, 0) :])
        if note is not None and is_gone:
            others = {entry.message_id for entry in found if entry.turn_id != note["id"]}
            start = max((n for n, name in enumerate(ids, 1) if name in others), default=0)
        own = [entry.position for entry in found if entry.message_id in ids[start:]]
        if not own:
            return start, found
        earlier = [entry for entry in found if entry.position < min(own)]
        return start, [*earlier, *self._read(after=min(own) - 1)]

    def _reach_unstored(
        self,
        spoken: Sequence[BaseMessage],
        start: int,
        entries: list[Entry],
        note: TurnNote | None,
    ) -> tuple[int, list[Entry]]:
        """Return from which message on the state is compared, and the entries from there on.

        A graph may go on with other words after a reply that no node stored.
        """
        ids, known = [one.id for one in spoken], {entry.message_id for entry in entries}
        if self.is_one_turn or not start or ids[start - 1] in known:
            return start, entries
        if note is not None:
            return (ids.index(note["first"]) if note["first"] in ids[:start] else start), entries
        places = {one.message_id: one.position for one in reversed(self._find(spoken[:start]))}
        first = max((n for n, name in enumerate(ids[:start]) if name in places), default=start)
        if first == start:
            return start, entries
        return first, self._read(after=places[str(ids[first])] - 1)

    def _make_turn(
        self,
        differ: StateDiffer,
        own: Sequence[BaseMessage],
        turn_id: str | None,
        back: Sequence[Draft],
    ) -> SyncedTurn:
        turn_id = next((turn for turn in reversed(differ.turns) if turn), turn_id)
        gone = {name for draft in back if draft.control for name in draft.control.retracts}
        shown = [entry for entry in find_live_entries(differ.entries) if entry.id not in gone]
        live = [entry for entry in shown if entry.turn_id == turn_id]
        abandoned = _find_abandoned(live, own, self.context)
        names = {entry.message_id for entry in shown}
        names |= {str(draft.message.id) for draft in differ.news if draft.message is not None}
        return SyncedTurn(
            id=turn_id,
            messages=[one for one in own if one.id in names or one.id not in differ.known],
            known={entry.message_id: entry for entry in live},
            abandoned=[*abandoned, *find_summaries_over(shown, abandoned)],
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
        first = None if any(draft.role == "user" for draft in news) else turn.asked
        stored = self._append([*controls, *news], None if first is None else first.message_id)
        own = [entry for entry in stored[len(controls) :] if entry.turn_id == turn.id]
        turn.known.update({entry.message_id: entry for entry in own})

    def _follow(
        self,
        differ: StateDiffer,
        held: Sequence[BaseMessage],
        note: TurnNote | None,
        fork: set[str] | None = None,
    ) -> list[Draft]:
        """Return what takes out of the views what the state no longer holds, and brings back."""
        context, entries = self.context, differ.entries
        live, ids = find_live_entries(entries), {str(message.id) for message in held}
        if context.since is not None:
            left = _find_later(entries, ids, context)
        elif fork is not None:
            left = fork
        elif context.is_sent or note is None:
            left = set()
        else:
            left = {*note.get("held", ()), *_list_own(live, note, context)} - ids
        gone: set[str] = set()
        for entry in live:
            mark = read_mark(entry)
            # Words that broke off were in no state: they go with what they follow.
            is_cut = INTERRUPTED in entry.metadata.attributes
            if entry.message_id in left or (is_cut and mark is not None and mark.after in left):
                gone.add(entry.id)
                left.add(entry.message_id)
        wanted = {entry.id for entry in differ.same}
        # A state that does not hold all of the thread says nothing of what came before.
        first = 0 if self._follows_state else _find_last(entries, ids)
        return _rewind(entries, context, gone, wanted, first)

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
            metadata = self.context.make_metadata(turn.after, timing, attributes)
            if turn.own_tokens:
                aux = {**metadata.aux, OWN_TOKENS: dict(turn.own_tokens)}
                metadata, turn.own_tokens = replace(metadata, aux=aux), {}
            draft = draft_message(self.drafting, message, turn.id, metadata)
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
            draft = draft_message(self.drafting, result, note["id"], metadata)
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

    def _read(self, after: int = 0, last: int | None = None) -> list[Entry]:
        return self.log.entries(self.context.key, after=after, last=last)

    def _find(self, messages: Iterable[BaseMessage]) -> list[Entry]:
        return self.log.find(self.context.key, {one.id for one in messages if one.id})

    def _is_erased(self, note: TurnNote) -> bool:
        """Return whether what the user said in a turn was forgotten: so is what answers it."""
        is_same = self._read_generation() == note["generation"]
        return not is_same and not self.log.find(self.context.key, [note["first"]])

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


def _find_asked(entries: Sequence[Entry]) -> Entry | None:
    """Return what the user said last in a thread."""
    live = find_live_entries(entries)
    return next((entry for entry in reversed(live) if entry.role == "user"), None)


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
    messages steer one run alone.
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
    """Return the messages of a state under the ids that the log has."""
    return _rename(messages, {} if note is None else note.get("names", {}))


def _rename(messages: Iterable[BaseMessage], names: Mapping[str, str]) -> list[BaseMessage]:
    return [
        one.model_copy(update={"id": names[one.id]}) if one.id and one.id in names else one
        for one in messages
    ]


def _find_opening(
    said: Sequence[BaseMessage], asked: Entry, entries: Sequence[Entry]
) -> tuple[int, Entry]:
    """Return where a turn begins in a state and in the log: a question may be several messages.

    Args:
        said: The messages of a state.
        asked: What the user said last in the log.
        entries: Those of the thread.
    """
    live = find_live_entries(entries)
    own = [one for one in live if one.turn_id == asked.turn_id and one.role == "user"]
    last = _find_question(said)
    start = max(find_exchange(said), last - len(own) + 1)
    return start, own[start - last - 1]


def _find_names(
    said: Sequence[BaseMessage],
    news: Sequence[BaseMessage],
    asked: Entry,
    entries: Sequence[Entry],
) -> dict[str, str]:
    """Return the log's ids of a turn's messages that were sent once more, by those they have now.

    Args:
        said: Those of the turn in a state.
        news: Those that the log lacks.
        asked: What the turn begins with in the log.
        entries: Those of the thread.
    """
    new = {one.id for one in news if get_role(one) != "user"}
    old = [one for one in said if one.id not in new]
    own = [
        entry
        for entry in find_live_entries(entries)
        if entry.turn_id == asked.turn_id and entry.position >= asked.position
    ]
    pairs = zip(old, own, strict=False)
    return {str(one.id): entry.message_id for one, entry in pairs if get_role(one) == entry.role}


def _find_turn(stored: Iterable[Entry], asked: BaseMessage) -> str | None:
    """Return the turn of what the user says: a branch beside this one may have stored it first."""
    return next((entry.turn_id for entry in stored if entry.message_id == asked.id), None)


def _find_replaced(
    entries: Sequence[Entry], joined: Joined, news: Sequence[BaseMessage]
) -> list[str]:
    """Return the entries in whose place something else is said."""
    if joined.replaces is None:
        return []
    edits = plan_replace(entries, joined.replaces.message_id, news[-1], keep_later=False)
    gone = [name for one in edits if one.control for name in one.control.retracts]
    return [*gone, joined.replaces.id]


# -- What is gone ---------------------------------------------------------------------------------
def _find_forgotten(
    user: str | None,
    messages: Sequence[BaseMessage],
    entries: Iterable[Entry],
    note: TurnNote | None,
    generation: int,
) -> set[str]:
    """Return the ids of messages that the log had and has no more, since they were forgotten.

    Args:
        user: The user of the run.
        messages: Those of the state that were there when the note was made, or came since then
            without a question.
        entries: Those of the log, as far as they were read.
        note: What the state noted; what was another user's is new to this one.
        generation: The log's generation of the user now.
    """
    if note is None or note["user"] != user:
        return set()
    gone = set(note.get("forgotten", ()))
    if note.get("generation", generation) != generation:
        known = {entry.message_id for entry in entries}
        names = {str(one.id) for one in messages} | set(note.get("held", ()))
        gone |= names - known
    return gone


def _find_later(entries: Sequence[Entry], held: Collection[str], context: NodeContext) -> set[str]:
    """Return the ids of what states held after the last message that this one holds.

    Where it holds nothing that the log knows, of what was stored since the checkpoint. What this
    step stores is none of it, nor what no state held.
    """
    last = _find_last(entries, held)
    if not last and (context.level or context.is_sent):
        return set()
    later = [entry for entry in entries if entry.position > last and entry.message_id not in held]
    here, since = context.path[0][0], "" if last else str(context.since)
    checkpoints = {e.message_id: m.path[0][0] for e in later if (m := read_mark(e)) is not None}
    return {name for name, at in checkpoints.items() if at != here and at >= since}


def _drop_beside(later: Sequence[Entry], ends: Sequence[Entry]) -> list[Entry]:
    """Return entries without questions that were asked while the last one waits for its answer."""
    open_ids = {entry.message_id for entry in ends if entry.role == "user"}
    return [
        one
        for one in later
        if one.role != "user" or (mark := read_mark(one)) is None or mark.after not in open_ids
    ]


def _follow_marks(
    entries: Iterable[Entry], roots: Collection[str], held: Collection[str]
) -> dict[str, Mark]:
    """Return how what a state lacks, and follows some of its messages, came into the log, by id."""
    left: dict[str, Mark] = {}
    for entry in entries:
        mark = read_mark(entry)
        is_left = mark is not None and entry.control is None and entry.message_id not in held
        if mark is not None and is_left and (mark.after in roots or mark.after in left):
            left[entry.message_id] = mark
    return left


def _list_later(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the ids of what was said after a message, and of summaries that tell of it."""
    live = find_live_entries(entries)
    said = [entry for entry in live if entry.role != "summary"]
    number = next((n for n, entry in enumerate(said) if entry.message_id == name), len(said))
    gone = [entry.id for entry in said[number + 1 :]]
    return [*gone, *find_summaries_over(live, [entry.id for entry in said[number:]])]


def _list_own(live: Iterable[Entry], note: TurnNote, context: NodeContext) -> set[str]:
    """Return the ids of what was stored for the state in the turn that it notes."""
    own = {
        entry.message_id
        for entry in live
        if entry.turn_id == note["id"] and INTERRUPTED not in entry.metadata.attributes
        if (mark := read_mark(entry)) is not None and mark.level == context.level
    }
    return own - set(note.get("again", ()))


def _find_last(entries: Iterable[Entry], held: Collection[str]) -> int:
    """Return where the last message that a state holds was stored first; 0 for none."""
    places: dict[str, int] = {}
    for entry in entries:
        if entry.message_id in held and entry.control is None:
            places.setdefault(entry.message_id, entry.position)
    return max(places.values(), default=0)


def _find_abandoned(
    live: Sequence[Entry], own: Sequence[BaseMessage], context: NodeContext
) -> tuple[str, ...]:
    """Return the entries of replies that follow what the state holds last, and are not in it.

    An attempt made them that came to nothing. What another branch of the same step says is none of
    them, nor what another graph says within the turn.

    Args:
        live: The live entries of the turn.
        own: The messages of the turn in the state.
        context: The node that runs.
    """
    held = {str(message.id) for message in own}
    known = [entry.message_id for entry in live if entry.message_id in held]
    gone = set(known[-1:])
    found: list[str] = []
    for entry in live:
        mark = read_mark(entry)
        if mark is None or entry.role == "user" or entry.message_id in held:
            continue
        is_here = mark.level == context.level and not context.is_beside(mark.path)
        if mark.after in gone and is_here:
            gone.add(entry.message_id)
            found.append(entry.id)
    return tuple(found)


def _rewind(
    entries: Sequence[Entry],
    context: NodeContext,
    left: Collection[str],
    wanted: Collection[str],
    first: int,
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
        and read_mark(entry) is not None
        and any(name in wanted and name not in alive for name in entry.control.retracts)
    ]
    after = find_live_entries([entry for entry in entries if entry.id not in lifted])
    # What a lifted entry took out besides stays out, from the first of these on.
    back = {entry.id for entry in after if entry.role != "summary" and entry.position > first}
    back -= alive | set(wanted)
    gone = [entry.id for entry in after if entry.id in back or entry.id in left]
    return context.retract([*lifted, *gone, *find_summaries_over(after, gone)], "rewind")
