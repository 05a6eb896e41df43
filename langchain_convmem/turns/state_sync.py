"""Sync of a state with messages to the log: what to store, and what to retract.

For graphs and agents alike. A state holds messages by id and the log knows them by id, so whatever
runs again, a retry, a resumed run, a turn that is tried once more, stores nothing twice. Each entry
says which message of the state it follows, so that a state which was taken back to an earlier
checkpoint shows what it has left. The log only ever adds entries.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import Final
from uuid import NAMESPACE_OID, UUID, uuid5

from langchain_core.messages import BaseMessage, ToolMessage

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.history import read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry
from langchain_convmem.runnables import OWN_TOKENS
from langchain_convmem.turns.messages import join_thread, name_result
from langchain_convmem.turns.node_context import NodeContext, read_mark, read_step
from langchain_convmem.turns.replies import INTERRUPTED, assign_free_ids, mark_interrupted
from langchain_convmem.turns.state_differ import StateDiffer, draft_message
from langchain_convmem.turns.state_owner import check_user, find_user, list_refused
from langchain_convmem.turns.synced_turn import BegunTurn, SyncedTurn, TurnNote
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import CallContext
from langchain_convmem.views.codec import get_role
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
        known = [*ids, *([] if note is None else note.get("held", ()))]
        entries = self._read_from(known) if context.since is None else self._read()
        refused = self._find_refused(ids, entries, note)
        held = [one for one in held if one.id not in refused]
        if not held:
            return BegunTurn(None, messages)
        if all(map(_is_answer, held)):
            raise InvalidMessageError(NOTHING_ASKED)
        state: Sequence[BaseMessage] = messages
        back: list[str] = []
        is_new = note is None and context.since is None and not context.is_sent
        if is_new and (context.is_stateless or not entries) and not _is_answer(held[-1]):
            held, entries, state, back = self._join(messages, held, entries)
        differ = StateDiffer(self.drafting, context, entries)
        kept = self._count_kept(held, differ, note)
        spoken, again = held[:kept], held[kept:]
        if again and differ.is_changed(spoken[-1]):
            back = _list_later(entries, str(spoken[-1].id))
        asked = _find_question(spoken)
        forgotten = self._find_forgotten(spoken, differ, note, until=find_exchange(spoken))
        differ.compare(spoken, forgotten, asked=asked)
        late = {draft.turn_id for draft in differ.news if draft.role == "assistant"}
        old = [entry for entry in differ.live if entry.turn_id in late]
        back += _find_abandoned(old, spoken, context)
        stored = self._append(
            [
                *self._take_back(differ, held, note),
                *context.retract(back, "replaced"),
                *differ.news,
            ]
        )
        turn_id = differ.turns[asked]
        first = str(spoken[differ.turns.index(turn_id)].id)
        begun = TurnNote(
            # A branch beside this one may have stored the question first.
            id=next((e.turn_id for e in stored if e.message_id == spoken[asked].id), turn_id)
            or make_ulid(),
            first=first,
            user=context.key.user_id,
            generation=self._read_generation(),
            run=context.run,
        )
        if self.follows_removals:
            begun["held"] = [str(one.id) for one in spoken]
            begun["until"] = entries[-1].position if entries else 0
        places = [one.position for one in [*entries, *stored] if one.message_id == first]
        if places:
            begun["position"] = min(places)
        gone = {*refused, *forgotten, *(one.id for one in again)}
        edits = {one.id: one for one in differ.edits}
        after = [edits.get(one.id, one) for one in state if one.id not in gone]
        return BegunTurn(begun, after, len({entry.turn_id for entry in entries} & late))

    def _find_refused(
        self, ids: Sequence[str], entries: Sequence[Entry], note: TurnNote | None
    ) -> Collection[str]:
        """Return the ids of what was sent for another user, and stayed in the state.

        Raises:
            ConfigError: If the state is of another user than the run is for.
        """
        known = {entry.message_id for entry in entries}.intersection(ids)
        is_kept = not (self.context.is_stateless or self.context.is_sent)
        user = None if note is None else note["user"]
        is_later = read_step(self.context.path) > _FIRST_STEPS and len(ids) > 1
        if note is None and is_kept and is_later and not (known or self.is_one_turn):
            # A graph whose state has no key for the note.
            user = find_user(self.log, self.context.key, ids[:-1])
        check_user(self.log, self.context.key, user, ids)
        news = [name for name in ids if name not in known]
        if not (is_kept and known and news):
            return []
        return set(news).intersection(list_refused(self.log, self.context.key))

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
        if said[start].id in ids:
            return [*framing, *said[start:]], entries, state, later
        known = users if get_role(said[-1]) == "user" else [*filter(_is_asked_or_called, turn)]
        own = [build_message(entry) for entry in known]
        if joined.replaces is not None:
            own[-1] = said[-1].model_copy(update={"id": asked.message_id})
        own += [one for one in news if get_role(one) != "user"]
        before = next(n for n, one in enumerate(state) if one.id == said[start].id)
        return [*framing, *own], entries, [*state[:before], *own], later

    def _count_kept(
        self, held: Sequence[BaseMessage], differ: StateDiffer, note: TurnNote | None
    ) -> int:
        """Return how many messages stay where a run brings no question but one that was asked.

        It may bring an earlier one, edited: all that followed goes. A graph may come by here twice
        in a run, so the note tells whether another run has begun.

        Raises:
            InvalidMessageError: If it brings an answer of its own, behind one that is stored.
        """
        context = self.context
        is_own = note is not None and note.get("run") in (None, context.run)
        if is_own or context.is_stateless or context.is_sent or not _is_answer(held[-1]):
            return len(held)
        for number in reversed(range(len(held))):
            if get_role(held[number]) == "user" and differ.is_changed(held[number]):
                return number + 1
        asked = _find_question(held)
        if note is None or context.level or context.since is not None:
            return len(held)
        answers = [one.id for one in held[asked + 1 :] if _is_answer(one)]
        if answers[-1] not in differ.versions and any(one in differ.versions for one in answers):
            raise InvalidMessageError(NOTHING_ASKED)
        return asked + 1

    def find_turn(self, messages: Sequence[BaseMessage], note: TurnNote | None) -> BegunTurn:
        """Return the turn under way: as the state notes it, or as its messages tell.

        A state notes none where an agent's run went past the hook that does, or where nothing
        keeps the state: then a caller sent the chat, and what is said of the turn already may
        come after it.

        Raises:
            ConfigError: If the state holds a turn of another user than the run is for.
        """
        end = len(messages)
        if note is not None:
            check_user(self.log, self.context.key, note["user"])
            return BegunTurn(note, messages)
        if not self.is_one_turn:
            if not self.context.is_stateless or self.context.is_sent:
                return BegunTurn(None, messages)
            while end and _is_answer(messages[end - 1]):
                end -= 1
        begun = self.begin(messages[:end])
        return replace(begun, messages=[*begun.messages, *messages[end:]])

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
        spoken = select_spoken(messages, self.context)
        if not spoken:
            return SyncedTurn()
        start, first, entries = self._read_turn(spoken, note)
        differ = StateDiffer(self.drafting, self.context, entries)
        known = [n for n, one in enumerate(spoken) if n >= first and one.id in differ.versions]
        until = max(known, default=first)
        forgotten = self._find_forgotten(spoken, differ, note, first=first, until=until)
        turn_id = note["id"] if self.is_one_turn and note is not None else None
        differ.compare(spoken, forgotten, first=first, turn_id=turn_id)
        back = [] if self.context.since is None else self._take_back(differ, spoken)
        turn = self._make_turn(differ, spoken[start:], turn_id, back)
        if note is not None and note["first"] not in differ.versions and self._is_erased(note):
            turn.is_heard = False
        elif stores:
            self._write(turn, differ.news, back)
        return turn

    def _read_turn(
        self, spoken: Sequence[BaseMessage], note: TurnNote | None
    ) -> tuple[int, int, list[Entry]]:
        """Return where the turn begins in a state, from where on it is compared, and its entries.

        A graph may go on with other words after a reply that no node stored.
        """
        ids, start = [str(one.id) for one in spoken], find_exchange(spoken)
        if note is not None and note["first"] in ids:
            first = ids.index(note["first"])
            start = first if self.is_one_turn else max(start, first)
            if self.context.since is None and "position" in note:
                return start, first, self._read(after=note["position"] - 1)
        if self.context.since is not None:
            return start, 0, self._read()
        if note is not None and self.is_one_turn and note["first"] not in ids:
            entries = self._read_from(ids)
            others = {entry.message_id for entry in entries if entry.turn_id != note["id"]}
            start = max((n for n, name in enumerate(ids, 1) if name in others), default=0)
            return start, start, entries
        entries = self._read_from(ids[max(start - 1, 0) :])
        if not start or any(entry.message_id == ids[start - 1] for entry in entries):
            return start, start, entries
        entries = self._read_from(ids)
        names = {entry.message_id for entry in entries}
        first = max((n for n, name in enumerate(ids[:start]) if name in names), default=start)
        return start, first, entries

    def _make_turn(
        self,
        differ: StateDiffer,
        own: Sequence[BaseMessage],
        turn_id: str | None,
        back: Sequence[Draft],
    ) -> SyncedTurn:
        turn_id = next((turn for turn in reversed(differ.turns) if turn), turn_id)
        gone = {name for draft in back if draft.control for name in draft.control.retracts}
        shown = [entry for entry in differ.live if entry.id not in gone]
        abandoned = _find_abandoned(shown, own, self.context)
        names = {entry.message_id for entry in shown}
        names |= {str(draft.message.id) for draft in differ.news if draft.message is not None}
        return SyncedTurn(
            id=turn_id,
            messages=[one for one in own if one.id in names or one.id not in differ.versions],
            known={entry.message_id: entry for entry in shown if entry.turn_id == turn_id},
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

    # -- What is gone from the log, or from the state --------------------------------------------

    def _find_forgotten(
        self,
        spoken: Sequence[BaseMessage],
        differ: StateDiffer,
        note: TurnNote | None,
        *,
        first: int = 0,
        until: int,
    ) -> set[str]:
        """Return the ids of messages that the log had and has no more, since they were forgotten.

        What other messages followed, in the log, was there; so was all before a later message if
        the user had anything forgotten since the note.

        Args:
            spoken: The messages of the state.
            differ: What is known of them.
            note: What the state noted; what was another user's is new to this one.
            first: Number of the first that is compared.
            until: Number of the first that may be new.
        """
        marks = filter(None, map(read_mark, differ.entries))
        gone = {mark.after for mark in marks}.difference(differ.versions)
        followed = [n for n, one in enumerate(spoken, 1) if n > first and one.id in gone]
        settled = max(followed, default=first)
        lacking = [n for n in range(first, until) if spoken[n].id not in differ.versions]
        if lacking and note is not None and note["user"] == self.context.key.user_id:
            is_same = note.get("generation") in (None, self._read_generation())
            settled = settled if is_same else max(settled, until)
        return {str(one.id) for one in spoken[first:settled] if one.id not in differ.versions}

    def _take_back(
        self, differ: StateDiffer, held: Sequence[BaseMessage], note: TurnNote | None = None
    ) -> list[Draft]:
        """Return what takes out of the views what the state no longer holds, and brings back."""
        if self.context.is_stateless:
            return []
        ids = {str(one.id) for one in held}
        last = _find_last(differ.entries, ids)
        left = self._find_left(differ, ids, last)
        if self.follows_removals and note is not None and not self.context.is_sent:
            left |= {*note.get("held", ()), *_list_own(differ.live, note, self.context)} - ids
        # A state that does not hold all of the thread says nothing of what came before.
        first = 0 if self.follows_removals or last is None else last.position
        return self._rewind(differ, left, first)

    def _find_left(
        self, differ: StateDiffer, ids: Collection[str], last: Entry | None
    ) -> set[str | None]:
        """Return the messages of a branch that a state has left for an earlier checkpoint.

        The config of a snapshot says so itself. `update_state` with it does not: then a turn tells
        that follows what the state holds last, is not in it, has an answer, and began at an earlier
        step. One that began in the same step, or that waits for its answer, runs beside this one,
        and so does one behind an open question.

        Args:
            differ: What is known of the thread.
            ids: Those of the messages that the state holds.
            last: The latest of their entries.
        """
        context, at = self.context, 0 if last is None else last.position
        is_back = context.since is not None
        if last is None and (not is_back or context.level or context.is_sent):
            return set()
        roots: set[str | None] = {None if last is None else last.message_id}
        dead = {one.id for name in ids for one in differ.versions.get(name, ())}
        dead -= {entry.id for entry in differ.live}
        if is_back or not dead.isdisjoint(_list_rewound(differ.entries, at)):
            is_back = True  # it returns to a branch that it left before
            roots = roots if last is None else {*ids}
        elif last is None or last.role == "user" or context.is_sent:
            return set()
        answered = {one.turn_id for one in differ.entries if one.role == "assistant"}
        followed: set[str | None] = set()
        left: set[str | None] = set()
        for entry in differ.entries:
            mark = read_mark(entry)
            if mark is None or entry.control is not None or entry.message_id in ids:
                continue
            if is_back:
                is_left = mark.path[0][0] != context.path[0][0]
            else:
                is_turn = entry.role == "user" and mark.level == context.level
                is_left = is_turn and read_step(mark.path) < read_step(context.path)
                is_left = is_left and entry.turn_id in answered
            if mark.after in followed or (mark.after in roots and is_left):
                followed.add(entry.message_id)
                left |= {entry.message_id} if entry.position > at else set()
        return left

    def _rewind(self, differ: StateDiffer, left: Collection[str | None], first: int) -> list[Draft]:
        """Return the control entry that takes entries out, and brings back what the state holds.

        Nothing is erased, and a graph that returns to a branch it left finds it again: a later
        control entry takes back the earlier one. Summaries that cover retracted entries go as well.
        """
        wanted = {entry.id for entry in differ.same}
        alive = {entry.id for entry in differ.live}
        lifted = [
            entry.id
            for entry in differ.entries
            if entry.control is not None
            and read_mark(entry) is not None
            and not wanted.isdisjoint(set(entry.control.retracts) - alive)
        ]
        after = find_live_entries([one for one in differ.entries if one.id not in lifted])
        gone: set[str] = set()
        for entry in after:
            mark = read_mark(entry)
            # Words that broke off were in no state: they go with what they follow.
            is_cut = INTERRUPTED in entry.metadata.attributes
            is_left = entry.message_id in left or (mark and is_cut and mark.after in left)
            is_back = entry.id not in alive and entry.id not in wanted and entry.position > first
            if entry.role != "summary" and (is_left or is_back):
                gone.add(entry.id)
        taken = [entry.id for entry in after if entry.id in gone]
        return self.context.retract([*lifted, *taken, *find_summaries_over(after, taken)], "rewind")

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

    def _read(self, after: int = 0) -> list[Entry]:
        return self.log.entries(self.context.key, after=after)

    def _read_from(self, ids: Collection[str]) -> list[Entry]:
        """Return the entries of a thread from the first of some messages on."""
        found = self.log.find(self.context.key, ids)
        return self._read(after=found[0].position - 1) if found else []

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


def _is_answer(message: BaseMessage | None) -> bool:
    """Return whether a message answers the user; a call of a tool does not."""
    is_said = message is not None and get_role(message) == "assistant"
    return is_said and not getattr(message, "tool_calls", None)


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


# -- What is gone ---------------------------------------------------------------------------------
def _list_later(entries: Sequence[Entry], name: str) -> list[str]:
    """Return the ids of what was said after a message, and of summaries that tell of it."""
    live = find_live_entries(entries)
    said = [entry for entry in live if entry.role != "summary"]
    number = next((n for n, entry in enumerate(said) if entry.message_id == name), len(said))
    gone = [entry.id for entry in said[number + 1 :]]
    return [*gone, *find_summaries_over(live, [entry.id for entry in said[number:]])]


def _list_own(live: Iterable[Entry], note: TurnNote, context: NodeContext) -> set[str]:
    """Return the ids of what was stored for a state since the turn began that it notes."""
    own = [one for one in live if one.turn_id == note["id"] and one.position > note.get("until", 0)]
    return {
        entry.message_id
        for entry in own
        if INTERRUPTED not in entry.metadata.attributes
        if (mark := read_mark(entry)) is not None and mark.level == context.level
    }


def _list_rewound(entries: Iterable[Entry], after: int) -> set[str]:
    """Return the ids of what a state took out by control entries since a position."""
    return {
        name
        for entry in entries
        if entry.control is not None and entry.position > after and read_mark(entry) is not None
        for name in entry.control.retracts
    }


def _find_last(entries: Iterable[Entry], held: Collection[str]) -> Entry | None:
    """Return the entry of the latest message that a state holds, as it was stored first."""
    places: dict[str, Entry] = {}
    for entry in entries:
        if entry.message_id in held and entry.control is None:
            places.setdefault(entry.message_id, entry)
    return max(places.values(), key=lambda entry: entry.position, default=None)


def _find_abandoned(
    live: Sequence[Entry], own: Sequence[BaseMessage], context: NodeContext
) -> list[str]:
    """Return the entries of replies that follow what the state holds last, and are not in it.

    An attempt made them that came to nothing; what followed them goes as well. What another branch
    of the same step says is none of them, nor what another graph says within the turn.

    Args:
        live: The live entries from the beginning of the turn on.
        own: The messages of the turn in the state.
        context: The node that runs.
    """
    held = {str(message.id) for message in own}
    last = [entry.message_id for entry in live if entry.message_id in held][-1:]
    found: dict[str, str] = {}
    for entry in live:
        mark = read_mark(entry)
        if mark is None or entry.message_id in held:
            continue
        is_here = mark.level == context.level and not context.is_beside(mark.path)
        is_reply = entry.role != "user" and mark.after in last and is_here
        if is_reply or mark.after in found:
            found[entry.message_id] = entry.id
    return [*found.values()]
