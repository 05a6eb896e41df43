"""A turn at every host: which messages of a call are new, what is stored, how turns wait."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from uuid import UUID
from weakref import WeakValueDictionary

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    RemoveMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config
from langchain_core.utils.utils import LC_ID_PREFIX

from langchain_convmem.causes import describe_name
from langchain_convmem.errors import InvalidMessageError, LogError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import derive_ulid, get_now_ms, get_ulid_ms, is_ulid, make_ulid
from langchain_convmem.locks import FifoLock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Control, Draft, Entry, Metadata, RetractReason, ThreadKey
from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.turns.chains import ChainShape, list_media
from langchain_convmem.turns.memory import TurnMemory, TurnOptions
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.view import SPOKEN, TurnView, make_entry, place_turn, read_all
from langchain_convmem.views.codec import (
    describe_as_json,
    dump_json,
    get_role,
    get_text_pieces,
    make_draft,
)
from langchain_convmem.views.content import is_paused
from langchain_convmem.views.edits import INTERRUPTED, KEPT, plan_replace
from langchain_convmem.views.live import find_live_entries, merge_entries
from langchain_convmem.views.messages import (
    is_continued_by,
    is_of_summary,
    is_remembered,
    merge_pieces,
)
from langchain_convmem.views.summaries import find_summaries_over
from langchain_convmem.views.tool_calls import find_calls

if TYPE_CHECKING:
    from langchain_convmem.turns.view import LiveThread, ModelContext, TurnEntries

_logger = logging.getLogger("langchain_convmem")


# -- One turn -------------------------------------------------------------------------------------
Status: TypeAlias = Literal["done", "interrupted", "failed", "cancelled"]
"""How a turn ended."""

Opening: TypeAlias = "tuple[LiveThread, Entry | None, list[Entry], Sequence[Entry]]"
"""How a turn began: the thread before it; the user's entry, if the log has one; the turn as the
model sees it; and entries of earlier messages that came with the same call."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """One turn of a thread, from what is said to what is stored of the answer.

    A host calls `begin`, the model, `finish` and `settle`, in this order. The three methods may
    wait for the log, so a coroutine calls them through `background.hop` or `background.finish`.
    Not thread-safe: one caller at a time.

    Attributes:
        memory: Where the thread is.
        key: The thread.
        options: What the model gets, and whether the turn is stored.
        shape: What the chain takes.
        trace: Where the turn is reported.
        record_recall: Whether the reply's metadata says which lines were recalled for it.
        id: The turn's id in the log, for what is stored from now on.
        context: What the model gets; None until `begin` has built it.
        started_ms: When the model was called.
        first_token_ms: When the first words of a stream came.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    trace: TurnTrace
    record_recall: bool = False
    id: str = ""
    context: ModelContext | None = None
    started_ms: int = 0
    first_token_ms: int | None = None
    # What the user says now.
    _human: BaseMessage | None = field(default=None, init=False)
    # What the write hook leaves of it, or of the question that the turn goes on with.
    _kept: BaseMessage | None = field(default=None, init=False)
    # Id of the question's entry; None if the log has none.
    _asked_id: str | None = field(default=None, init=False)
    # The thread's last position before the turn.
    _since: int = field(default=0, init=False)
    # Ids of the turns that came with the call: what was stored of them can be retracted.
    _own_turns: set[str] = field(default_factory=set, init=False)
    # The reply, once it is stored.
    _reply: Sequence[BaseMessage] = field(default=(), init=False)

    # -- before the model -------------------------------------------------------------------------

    def begin(self, messages: Sequence[BaseMessage] = ()) -> ModelContext:
        """Store what is new of what is said, and return what the model gets.

        Args:
            messages: What the user says now, last, after whatever the caller sends along; or
                results of tools, or nothing, to go on with open calls. System messages, and those
                marked `remember=False`, are for this call alone.

        Raises:
            InvalidMessageError: If there are no open calls to go on with.
        """
        self.memory.check_call(self.options)
        with self._mark_calls():
            steering = [one for one in messages if get_role(one) == "system"]
            said = [one for one in messages if get_role(one) != "system" and not is_of_summary(one)]
            self._pass_hook(said)
            view = self.make_view()
            thread = view.read_thread()
            self._since = thread.entries[-1].position if thread.entries else 0
            opening = self._continue if self._human is None else self._open
            thread, asked, own, earlier = opening(thread, said)
            aside = steering + [one for one in said[:-1] if not is_remembered(one)]

            def locate(entries: Sequence[Entry]) -> TurnEntries:
                turn = place_turn(entries, asked, own)
                if earlier:
                    turn = replace(turn, before=merge_entries(turn.before, earlier))
                return turn.add_aside(aside)

            # Recall searches for what the write hook leaves of the question.
            query = "" if self._kept is None else "\n".join(get_text_pieces(self._kept))
            context = view.build_context(locate, query, thread)
            if self._is_watched:
                self.trace.dispatch_event("convmem.context", context.count)
        self.context, self.started_ms = context, get_now_ms()
        self._asked_id = None if asked is None else asked.id
        self.id = own[-1].turn_id
        return context

    def _mark_calls(self) -> AbstractContextManager[None]:
        """Mark calls of models in a block as the memory's own, if it may make any."""
        may_call = self.options.recall or self.memory.drafting.hook is not None
        return self.trace.mark_internal() if may_call else nullcontext()

    @property
    def _is_watched(self) -> bool:
        """Whether anybody may listen: a handler of the call, or the log at DEBUG."""
        callbacks = self.trace.config.get("callbacks")
        return bool(getattr(callbacks, "handlers", ())) or _logger.isEnabledFor(logging.DEBUG)

    def make_view(self) -> TurnView:
        """Return what builds the view of the thread for the turn's model."""
        return TurnView(self.memory, self.key, self.options, self.shape, self.trace)

    def _pass_hook(self, said: Sequence[BaseMessage]) -> None:
        """Ask the write hook what to store of the user's message; if nothing, store no turn."""
        if not said or get_role(said[-1]) != "user":
            return
        self._human = said[-1]
        self._kept = self.memory.drafting.apply_hook(self._human)
        if not (is_remembered(self._human) and is_remembered(self._kept)):
            self.options = replace(self.options, remember=False)

    def _to_stored_form(self, message: BaseMessage) -> BaseMessage | None:
        """Return what the thread stores of a message that came with the call; None if nothing."""
        if message is self._human:
            return self._kept  # the write hook was asked already
        return self.memory.drafting.filter_message(message)

    def _open(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Begin a turn whose question is new, edited, or to be answered once more."""
        human = cast("BaseMessage", self._human)
        thread, joined = join_thread(self.memory.log, thread, said, self._to_stored_form)
        # The model gets the user's own words, also those that the write hook takes away.
        shown: dict[str, Any] = {"message": human, "contents": get_text_pieces(human)}
        if joined.again is not None:
            return thread, joined.again, [replace(joined.again, **shown)], ()
        kept = cast("BaseMessage", self._kept) if self.options.remember else human
        drafts = [*self._draft_chat(joined.new[:-1]), make_draft(kept, turn_id=make_ulid())]
        if joined.replaces is not None:
            thread = read_all(self.memory.log, thread)  # all that followed goes
        if joined.replaces is not None and self.options.remember:
            made = plan_replace(thread.entries, joined.replaces.id, kept, keep_later=False)
            drafts = [replace(one, turn_id=made[-1].turn_id) for one in made]
        *earlier, own = self._keep(drafts, thread.entries, stores=self.options.remember)
        earlier = [entry for entry in earlier if entry.control is None]
        return thread, own if self.options.remember else None, [replace(own, **shown)], earlier

    def _continue(self, thread: LiveThread, said: Sequence[BaseMessage]) -> Opening:
        """Go on with a turn of the thread or of the call, by results of tools if there are any."""
        results = find_results(said)
        before = said[: len(said) - len(results)]
        news: Sequence[Entry] = ()
        if before:
            thread, joined = join_thread(self.memory.log, thread, before, self._to_stored_form)
            drafts = self._draft_chat(joined.new)
            news = self._keep(drafts, thread.entries, stores=self.options.remember)
        entries = [*thread.entries, *news]
        turn, results = continue_turn(entries, results)
        asked, turn_id = turn[0], turn[-1].turn_id
        self._kept = asked.message
        drafts = self.memory.drafting.build_all(results, turn_id=turn_id)
        is_all = len(drafts) == len(results)
        if not is_all:  # the model has to see a result, even one that the write hook drops
            drafts = [make_draft(result, turn_id=turn_id) for result in results]
        kept = self._keep(drafts, entries, stores=self.options.remember and is_all)
        told = {entry.message_id for entry in kept}
        loop = [entry for entry in turn if entry.message_id not in told]
        earlier = [entry for entry in news if entry not in turn]
        return thread, asked, [*loop, *kept], earlier

    def _draft_chat(self, messages: Sequence[BaseMessage]) -> list[Draft]:
        """Return drafts of messages from before this turn; each question begins a turn."""
        turn_id = role = ""
        drafts: list[Draft] = []
        for message in messages:
            if not role or (get_role(message) == "user" and role != "user"):
                turn_id = make_ulid()
            role = get_role(message)
            drafts += self.memory.drafting.build_all([message], turn_id=turn_id)
        return drafts

    def _keep(
        self, drafts: Sequence[Draft], entries: Sequence[Entry], *, stores: bool
    ) -> Sequence[Entry]:
        """Store drafts and return their entries; if not `stores`, return what would be stored."""
        self._own_turns |= {str(draft.turn_id) for draft in drafts}
        if stores and drafts:
            return self.memory.log.append(self.key, drafts)
        last = entries[-1].position if entries else 0
        return [
            make_entry(cast("BaseMessage", draft.message), self.key, last + n, str(draft.turn_id))
            for n, draft in enumerate(drafts, 1)
        ]

    # -- after the model --------------------------------------------------------------------------

    def note_first_token(self, heard_ms: int | None = None) -> None:
        """Note when the first words of a stream came.

        Args:
            heard_ms: When a model said them; None for just now, if they did not come before.
        """
        self.first_token_ms = heard_ms or self.first_token_ms or get_now_ms()

    def finish(self, messages: Sequence[BaseMessage], status: Status = "done") -> None:
        """Store the reply, in place of one that an earlier attempt stored.

        Args:
            messages: The reply, in order; nothing to store nothing.
            status: `interrupted` marks the last message as cut off. `failed` and `cancelled`
                retract the turn: views skip it, and the log keeps it. Their messages are stored
                under new ids, because the same messages may be sent again.
        """
        is_void = status in ("failed", "cancelled")
        if status == "interrupted" and messages:
            messages = [*messages[:-1], mark_interrupted(messages[-1])]
        if is_void:
            messages = [one.model_copy(update={"id": None}) for one in messages]
        with self._mark_calls():
            try:
                stored = self._write(messages, is_kept=status == "done")
            except LogError as error:
                error.text = messages[-1].text  # the caller gets the reply at least this way
                raise
            finally:  # also where the write hook refuses what was said
                if is_void and self.options.remember:
                    self._retract(cast("RetractReason", status))
            if stored and not is_void:
                if self._is_watched:
                    self.trace.report_stored(stored)
                    self.trace.report_own_models()
                self._reply = messages
                self.memory.note_turn(self.key)

    def _write(self, messages: Sequence[BaseMessage], *, is_kept: bool) -> Sequence[Entry]:
        """Append a reply, and return what was appended.

        The thread is read and the reply appended in one transaction, if the log has any; the write
        hook is asked before. If the question was forgotten meanwhile, nothing is appended.
        """
        context = self.context
        if context is None or not (messages and self.options.remember):
            return ()
        made = self.memory.drafting.build_all(messages, turn_id=self.id)
        if made:
            aux: dict[str, Any] = self.trace.get_own_tokens() if self.trace.own_tokens else {}
            if self.record_recall and self.options.recall:
                aux |= context.note_recalled(self.memory.count_text)
            is_cut = messages[-1].response_metadata.get(INTERRUPTED)
            marks = (INTERRUPTED, KEPT) if is_kept else (INTERRUPTED,)
            metadata = Metadata(
                attributes=marks if is_cut else (),
                timing=measure_times(self.started_ms, self.first_token_ms),
                aux=aux,
            )
            made[-1] = replace(made[-1], metadata=metadata)

        def plan(there: Sequence[Entry]) -> Sequence[Draft]:
            is_open = self._asked_id in (None, *[one.id for one in there])
            return self._replace_attempt(context, made, there) if is_open else ()

        ids, after = [one.id for one in messages if one.id], context.turn.start - 1
        return self.memory.log.append_planned(self.key, plan, after=after, message_ids=ids)

    def _replace_attempt(
        self, context: ModelContext, made: Sequence[Draft], there: Sequence[Entry]
    ) -> Sequence[Draft]:
        """Return what to append: a reply that retracts those of earlier attempts.

        Args:
            context: What the model got.
            made: The reply, in order.
            there: The thread's entries from the turn's first on, and those with the reply's ids.
        """
        said = [cast("BaseMessage", draft.message) for draft in made]
        named = assign_free_ids(said, [entry.message_id for entry in there], lambda _: None)
        drafts = [replace(draft, message=one) for draft, one in zip(made, named, strict=True)]
        seen = {entry.id for entry in context.turn.own}  # a reply replaces none of these
        if {entry.id for entry in there} <= seen:
            return drafts
        live = find_live_entries([one for one in there if one.position >= context.turn.start])
        own = [one for one in live if one.turn_id == self.id and one.id not in seen]
        old = [one.id for one in own if one.role != "user"]
        if not old or not drafts:
            return drafts
        control = Control((*old, *find_summaries_over(live, old)), "replaced")
        return [Draft(role="control", turn_id=self.id, control=control), *drafts]

    def _retract(self, reason: RetractReason) -> None:
        """Retract what was stored since the turn began; what it had replaced counts again."""
        own = {self.id, *self._own_turns}
        # Read from the log: a write may have been stored although its call failed.
        entries = self.memory.log.entries(self.key, after=self._since)
        gone = [one.id for one in entries if one.turn_id in own]
        gone += [one.id for one in entries if one.control and one.control.replacement in gone]
        if gone:
            control = Control(tuple(dict.fromkeys(gone)), reason)
            draft = Draft(role="control", control=control, turn_id=self.id or None)
            self.memory.log.append(self.key, [draft])

    def settle(self) -> None:
        """Compact the thread if a reply was stored and compaction is due."""
        if self._reply and self.context is not None and self.memory.compactor is not None:
            with self.trace.mark_internal():
                self.memory.compact(self.key, self.context.view, self._reply)


def measure_times(started_ms: int, first_token_ms: int | None = None) -> dict[str, int]:
    """Return the times of a reply that ends now, by the names of `Metadata.timing`."""
    times = {"llmStart": started_ms, "llmEnd": get_now_ms(), "firstToken": first_token_ms}
    return {name: ms for name, ms in times.items() if ms is not None}


# -- What a call brings ---------------------------------------------------------------------------
def find_results(said: Sequence[BaseMessage]) -> list[ToolMessage]:
    """Return the results of tools at the end of a list; an open turn goes on with these."""
    results = takewhile(lambda one: isinstance(one, ToolMessage), reversed(said))
    return cast("list[ToolMessage]", [*results][::-1])


def check_question(message: BaseMessage) -> None:
    """Refuse a blank message of the user.

    Raises:
        InvalidMessageError: If it has neither text nor media.
    """
    if get_role(message) == "user" and not (get_text_pieces(message) or list_media(message)):
        raise InvalidMessageError("the user's message is blank; there is nothing to answer")


def mark_unstored(message: BaseMessage) -> BaseMessage:
    """Return the message marked as one that is never stored."""
    marked = {**message.additional_kwargs, "remember": False}
    return message.model_copy(update={"additional_kwargs": marked})


# -- Which messages of a list are new -------------------------------------------------------------
_COMPARED = 200
"""How many of the user's latest messages in the thread a list is compared with."""

StoredForm: TypeAlias = Callable[[BaseMessage], BaseMessage | None]
"""Returns what the thread stores of a message; None if nothing."""
Sent: TypeAlias = tuple[BaseMessage, BaseMessage | None]
"""A message of a list, and what the thread stores of it; None if nothing."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Where a list of messages joins a thread.

    Attributes:
        new: What is to be stored, in order; the last is what the user says now, if anything.
        again: The user's entry that is answered once more; nothing is new then.
        replaces: The user's entry in whose place the last message stands; all that was said after
            it is retracted.
    """

    new: Sequence[BaseMessage] = ()
    again: Entry | None = None
    replaces: Entry | None = None


def join_thread(
    log: MessageLog, thread: LiveThread, said: Sequence[BaseMessage], stored_form: StoredForm
) -> tuple[LiveThread, Joined]:
    """Find where the messages of a call join a thread.

    Reads all of the thread for several messages, or for one whose id it has.

    Returns:
        The thread as far as it was read, and where the messages join it; see `join`.
    """
    own = said[-1].id
    if thread.floor and (len(said) > 1 or (own and log.find(thread.key, [own]))):
        thread = read_all(log, thread)
    return thread, join(thread.entries, said, stored_form=stored_form)


def join(
    entries: Sequence[Entry],
    said: Sequence[BaseMessage],
    *,
    stored_form: StoredForm = lambda message: message,
) -> Joined:
    """Find where a list of messages joins a thread, and which of them are new.

    A message is known by its id. Without one, only the user's messages are compared, by text and in
    order. What follows the last one that the thread has is new, except its reply, which an
    application may show in a form of its own. Only an id can take anything back. A known question
    at the end is answered once more if it has an id or no reply yet, and asked anew otherwise.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        said: Messages, none of them a system message.
        stored_form: What the thread stores of a message.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    while live and {INTERRUPTED, KEPT} & {*live[-1].metadata.attributes} == {INTERRUPTED}:
        live.pop()  # the next reply to the question takes the place of this one
    last, is_asked = said[-1], get_role(said[-1]) == "user"
    if any(entry.role == "summary" and entry.id == last.id for entry in entries):
        raise InvalidMessageError(f"{last.id!r} is a summary; history.turns has what was asked")
    asked = live if is_asked and last.id else ()
    named = next((one for one in asked if last.id in (one.message_id, one.id)), None)
    if named is not None and named.role == "user":
        is_same = _fold(named.message) == _fold(stored_form(last) or last)
        return Joined(again=named) if is_same else Joined([last], replaces=named)
    waits = live[-1] if live and live[-1].role == "user" else None
    if is_asked and len(said) == 1 and waits is None:
        return Joined([last])  # no question is open that this could be
    forms = [stored_form(message) for message in said]
    if is_asked:
        forms[-1] = forms[-1] or last  # compared, also where it is not stored
    latest = next((entry for entry in reversed(live) if entry.role == "user"), None)
    anchor, rest = _find_last_known(entries, said, forms)
    if rest < len(said):
        anchor = anchor or latest
    elif waits and _is_same(waits, _fold(waits.message), last.id, _fold(forms[-1])):
        return Joined(again=waits)  # also where one that was answered has the same text
    else:  # asked anew, with results that open calls wait for
        anchor, rest = latest, rest - 1 - len(find_results(said[:-1]))
    return Joined(_list_new(entries, live, anchor, [*zip(said, forms, strict=True)][rest:]))


def _find_last_known(
    entries: Sequence[Entry], said: Sequence[BaseMessage], forms: Sequence[BaseMessage | None]
) -> tuple[Entry | None, int]:
    """Find the last of the user's messages that the thread has, in its order.

    Returns:
        Its entry, None if there is none; and the index of what follows it in the list.
    """
    users = [entry for entry in entries if entry.role == "user"][-_COMPARED:]
    texts = [_fold(entry.message) for entry in users]
    anchor, rest, at = None, 0, 0
    for number, form in enumerate(forms):
        if form is not None and get_role(form) == "user":
            own, text = said[number].id, _fold(form)
            same = (n for n in range(at, len(users)) if _is_same(users[n], texts[n], own, text))
            found = next(same, None)
            if found is not None:
                anchor, rest, at = users[found], number + 1, found + 1
    return anchor, rest


def _is_same(entry: Entry, known: str, own: str | None, text: str) -> bool:
    """Return whether an entry holds a message, by its id, or by text unless both have an id."""
    if own in (entry.message_id, entry.id):
        return True
    has_ids = bool(own and entry.message and entry.message.id)
    return bool(text) and known == text and not has_ids


def _list_new(
    entries: Sequence[Entry], live: Sequence[Entry], anchor: Entry | None, sent: Sequence[Sent]
) -> list[BaseMessage]:
    """Return what is new of the messages after one that the thread knows.

    Args:
        entries: The thread's entries.
        live: Those that count.
        anchor: The user's entry that the messages follow; None if nothing was asked yet.
        sent: The messages.
    """
    ids = {name for entry in entries for name in (entry.message_id, entry.id)}
    later = live[live.index(anchor) + 1 :] if anchor in live else ()
    replies = takewhile(lambda one: one.role != "user", later)
    is_over = anchor is not None and (anchor not in live or any(map(_is_last_word, replies)))
    there = {mark for entry in entries for mark in _mark(entry.message)}
    new, is_reply = list[BaseMessage](), True
    for message, form in sent:
        is_reply = is_reply and get_role(message) != "user"
        if form is None or (message.id in ids and message is not sent[-1][0]):
            continue
        marks = _mark(form)
        if not is_reply or not (is_over or (marks and marks <= there)):
            new.append(message)
    return new


def _mark(message: BaseMessage | None) -> set[tuple[str, str | None]]:
    """Return what a result, or the calls of a reply, are known by; empty for other messages."""
    if isinstance(message, ToolMessage):
        return {("result", message.tool_call_id)}
    return {("call", call["id"]) for call in find_calls(message)}


def _fold(message: BaseMessage | None) -> str:
    """Return a message's text without regard to blocks and lines, and the media of a user's."""
    if message is None:
        return ""
    text = " ".join((str(message.text) or " ".join(get_text_pieces(message))).split())
    media = list_media(message) if get_role(message) == "user" else []
    return text + dump_json(media, what="media") if media else text


# -- A turn that goes on --------------------------------------------------------------------------
def continue_turn(
    entries: Sequence[Entry], results: Sequence[ToolMessage]
) -> tuple[Sequence[Entry], list[ToolMessage]]:
    """Return what a call goes on with: the user's last words, and what followed in the thread.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        results: Results of its calls; none to go on with what the thread has.

    Returns:
        The entries of the turn that come before the next reply, and the results, each under an id
        that is the same in every attempt. Messages that were added one by one are turns of their
        own, so the turn that goes on in the log is that of the last entry.

    Raises:
        InvalidMessageError: If a result answers no call of the turn, or if the turn has ended and
            there are no results.
    """
    live = [entry for entry in find_live_entries(entries) if entry.role in SPOKEN]
    asked = next((entry for entry in reversed(live) if entry.role == "user"), None)
    # Messages of one turn in a row are one question.
    start = place_turn(live, asked, ()).start
    turn = [one for one in live if asked and one.position >= start]
    callers = {call["id"]: n for n, one in enumerate(turn) for call in find_calls(one.message)}
    unknown = [one.tool_call_id for one in results if one.tool_call_id not in callers]
    if not turn or unknown or (not results and _is_last_word(turn[-1])):
        found = "the input is None or says nothing new, and no call is open"
        if unknown:
            found = f"the tool result for {unknown[0]!r} answers no call"
        msg = f"there is nothing to go on with: {found} in the thread's last turn; pass what the "
        raise InvalidMessageError(
            msg + "user says, or results of the calls that the last reply made"
        )
    end, named = -1 if results else len(turn) - 1, list[ToolMessage]()
    for result in results:
        caller = turn[callers[result.tool_call_id]]
        end = max(end, callers[result.tool_call_id])
        named.append(name_result(result, caller.key, caller.turn_id, caller.message_id))
    while end + 1 < len(turn) and turn[end + 1].role == "tool":
        end += 1
    return turn[: end + 1], named


def _is_last_word(entry: Entry) -> bool:
    """Return whether an entry ends a turn: a reply without calls that is not paused."""
    return entry.role == "assistant" and not (find_calls(entry.message) or is_paused(entry.message))


def name_result(result: ToolMessage, key: ThreadKey, turn_id: str, caller: str) -> ToolMessage:
    """Return a result under an id that is the same in every attempt: a retry stores nothing twice.

    Args:
        result: A result; if it has an id, it keeps it.
        key: Its thread.
        turn_id: Its turn.
        caller: Id of the message that makes the call.
    """
    if result.id:
        return result
    at_ms = get_ulid_ms(turn_id) if is_ulid(turn_id) else 0
    own = derive_ulid(at_ms, key.user_id, key.thread_id, caller, result.tool_call_id)
    return result.model_copy(update={"id": own})


# -- The line in which the turns of a thread wait -------------------------------------------------
Place: TypeAlias = tuple[Hashable, ThreadKey]
"""A thread and the log it is in: equal names in two logs are two threads."""

_LINES: WeakValueDictionary[Place, FifoLock] = WeakValueDictionary()
_LINES_LOCK = make_lock()


def get_line(place: Place) -> FifoLock:
    """Return the line in which the turns of a thread wait, in order of arrival.

    A process has one line per thread, for synchronous and asynchronous turns alike. It exists as
    long as somebody holds it.
    """
    with _LINES_LOCK:
        return _LINES.setdefault(place, FifoLock(place[1].thread_id))


# -- A reply as messages: from a chain's output, its stream, or what its models said --------------
_ANSWERS = ("output", "answer", "result", "response")
"""Keys under which LangChain's chains return their answer."""
_HANDED_ON = {"input", "history", "messages", "recalled", "summary", "__interrupt__"}
"""Keys that a chain may pass on from its input, or that LangGraph adds."""


def read_reply(
    output: Any,
    given: Sequence[BaseMessage],
    *,
    heard: AIMessage | None = None,
    output_messages_key: str | None = None,
) -> list[BaseMessage]:
    """Return what to store of a chain's output, of any type: the new messages, in order.

    Args:
        output: Text, a message, messages, `{"messages": [...]}`; a dict that holds one of these
            under `output_messages_key` or `output`; or any value that a parser made. A value is
            stored as the message that it was parsed from, if one was heard, or as JSON or text.
        given: The messages that the chain was called with, the user's last; if they come back in a
            list, they are not new.
        heard: The last message that a chat model of the chain said.
        output_messages_key: The key under which a dict holds the answer.
    """
    answer = output
    if isinstance(output, dict):
        names = _ANSWERS if heard is None or "messages" in output else _ANSWERS[:1]
        if output_messages_key in output:
            answer = output[output_messages_key]
        elif not _select_new(_find_messages(output.get("messages")) or (), given):
            # A chain that passes its input on, as with `RunnablePassthrough.assign`, also returns
            # the user's words.
            found = [output[name] for name in names if _find_messages(output.get(name)) is not None]
            answer = next((one for one in found if one != given[-1].text), output)
    if isinstance(answer, BaseMessage):
        return [answer]
    if isinstance(answer, str):
        is_all_of_it = heard is not None and heard.text == answer and not _list_calls(heard)
        return [heard if heard is not None and is_all_of_it else AIMessage(answer)]
    if isinstance(answer, dict) and "parsed" in answer and isinstance(answer.get("raw"), AIMessage):
        return [_make_message(answer["parsed"], answer["raw"])]
    said = _find_messages(answer)
    messages = _select_new(said or (), given)
    if not messages and isinstance(answer, dict):
        messages = [one for one in answer.values() if isinstance(one, AIMessage)]
    if messages or (said is not None and heard is None):
        if not messages and isinstance(answer, dict) and (left := answer.keys() - _HANDED_ON):
            _logger.warning(
                "the chain returned a dict without a new message, so no reply is stored; name the "
                "key of its reply with output_messages_key= (it has %s)",
                ", ".join(sorted(map(describe_name, left))),
            )
        return list(messages)
    # A chain that returns nothing, and whose models said nothing, answers nothing.
    return [] if answer is None and heard is None else [_make_message(answer, heard)]


def _cut_last(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply; if the last one has no end, only its text is left of it.

    Half a call looks like a whole one, and half of a model's reasoning has no signature.
    """
    for cut in messages[-1:]:
        if isinstance(cut, AIMessageChunk) and cut.chunk_position != "last":
            part = AIMessage(str(cut.text), id=cut.id, usage_metadata=cut.usage_metadata)
            return [*messages[:-1], part] if cut.text.strip() else messages[:-1]
    return messages


def mark_interrupted(message: BaseMessage) -> BaseMessage:
    """Return a message marked as cut off."""
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(update={"response_metadata": metadata})


def _find_messages(output: object) -> list[BaseMessage] | None:
    if isinstance(output, dict) and "messages" in output:
        output = output["messages"]
    if isinstance(output, str | BaseMessage):
        return [AIMessage(output) if isinstance(output, str) else output]
    if isinstance(output, list) and all(isinstance(item, BaseMessage) for item in output):
        return [message for message in output if not isinstance(message, RemoveMessage)]
    return None


def _make_message(value: object, heard: BaseMessage | None) -> BaseMessage:
    """Return the message that a value was parsed from, or one that holds the value."""
    if not isinstance(heard, AIMessage):
        return AIMessage(value if isinstance(value, str) else describe_as_json(value))
    calls = _list_calls(heard)
    items = value if isinstance(value, list) else [value]
    ids = {item.get("id") for item in items if isinstance(item, dict)}
    if not calls or any(call["id"] in ids - {None} for call in calls):
        return heard  # a parser may have returned the calls, and the caller will answer them
    # Nobody will answer these calls: they are how the model wrote the value.
    args = [call["args"] for call in calls]
    texts = [one if isinstance(one, str) else describe_as_json(one) for one in [heard.text, *args]]
    content = "\n".join(text for text in texts if text.strip())
    plain: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    return heard.model_copy(update={"content": content, **plain})


def _list_calls(message: AIMessage) -> list[ToolCall | InvalidToolCall]:
    return [*find_calls(message), *message.invalid_tool_calls]


def _select_new(
    found: Sequence[BaseMessage], given: Sequence[BaseMessage]
) -> Sequence[BaseMessage]:
    """Return what follows the user's message if that comes back, or all that is not in `given`."""
    asked = given[-1]
    for number in reversed(range(len(found))):
        one = found[number]
        is_anew = one.id is None and isinstance(one, HumanMessage) and one.content == asked.content
        if is_anew or (one.id is not None and one.id == asked.id):
            return found[number + 1 :]
    # Compared whole, because a chain may use the same ids again in every turn.
    return [one for one in found if one not in given]


# -- A stream -------------------------------------------------------------------------------------
@dataclass(slots=True)
class ReplyCollector:
    """Collects the chunks of a stream, which add up to the chain's output."""

    _parts: list[list[BaseMessage]] = field(default_factory=list, init=False)
    _value: Any = field(default=None, init=False)

    @property
    def output(self) -> Any:
        """What the chain would have returned: a message, messages, or a value."""
        said = list(map(merge_pieces, self._parts))
        return (said[0] if len(said) == 1 else said) if said else self._value

    def add(self, chunk: Any) -> None:
        """Take one chunk: a message or part of one, LangGraph's updates, or part of a value."""
        pieces = _list_pieces(chunk)
        if not pieces:
            self._value = chunk if self._value is None else add_up(self._value, chunk)
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: BaseMessage) -> None:
        parts = [one for one in self._parts if piece.id and piece.id in (one[0].id, one[-1].id)]
        parts = parts or [one for one in self._parts[-1:] if is_continued_by(one, piece)]
        if parts and not isinstance(piece, BaseMessageChunk):
            parts[-1][:] = [piece]  # the whole message after its chunks
        elif parts and isinstance(parts[-1][-1], BaseMessageChunk):
            parts[-1].append(piece)
        else:
            self._parts.append([piece])

    def collect_cut(
        self, given: Sequence[BaseMessage], output_messages_key: str | None = None
    ) -> list[BaseMessage]:
        """Return what a stream that broke off has brought; see `read_reply`."""
        output = self.output or None  # nothing was said by an empty value
        return _cut_last(read_reply(output, given, output_messages_key=output_messages_key))


def _list_pieces(chunk: Any) -> list[BaseMessage]:
    """Return the messages in a chunk of a model, or of LangGraph: with metadata, or by node."""
    if isinstance(chunk, tuple):
        chunk = next(iter(chunk), None)
    if isinstance(chunk, dict):
        nodes = [one.get("messages") for one in chunk.values() if isinstance(one, dict)]
        return [piece for one in nodes for piece in _find_messages(one) or ()]
    return [chunk] if isinstance(chunk, BaseMessage) else []


async def aclose_quietly(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    if hasattr(stream, "aclose"):
        await stream.aclose()


def add_up(total: Any, chunk: Any) -> Any:
    """Return the value of a stream so far, as LangChain adds values up."""
    try:
        return total + chunk
    except TypeError:
        return chunk


# -- Ids ------------------------------------------------------------------------------------------
def assign_free_ids(
    messages: Iterable[BaseMessage], taken: Iterable[str], new_id: Callable[[int], str | None]
) -> Iterator[BaseMessage]:
    """Yield the messages, each with an id that no other message of the thread has.

    A model behind a cache repeats its ids, and with an equal id a message would replace another.

    Args:
        messages: In order.
        taken: Ids of other messages of the thread.
        new_id: Returns the id of a message that has none of its own, by the message's number; None
            leaves it to the log.
    """
    used = set(taken)
    for number, message in enumerate(messages):
        if message.id and message.id not in used:
            used.add(message.id)
            yield message
        else:
            yield message.model_copy(update={"id": new_id(number)})


# -- What the models of a host say ----------------------------------------------------------------
class PartialReplyHandler(BaseCallbackHandler):
    """Collects the replies of the models that are called for one turn of a host.

    It does not listen to models that another model calls to make its reply, to those of the memory
    itself, nor to those whose words no stream shows. If several run at the same time, the one that
    ends last counts.
    """

    run_inline = True

    def __init__(self) -> None:
        """Start with nothing heard."""
        self._chunks: dict[UUID, list[BaseMessage] | None] = {}  # by run; None after its end
        self.first_token_ms: int | None = None
        """When the first words of the latest reply came, if it was streamed."""
        self.message: AIMessage | None = None
        """The last whole reply."""

    def listen(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return a config; models that are called with it are heard."""
        return merge_configs(config, {"callbacks": [self]})

    def collect_broken(self) -> list[BaseMessage]:
        """Return the partial messages of the last unfinished reply, if any."""
        begun = [chunks for chunks in self._chunks.values() if chunks]
        return _cut_last([merge_pieces(begun[-1])]) if begun else []

    def on_chat_model_start(self, *_: Any, run_id: UUID, **run: Any) -> None:
        """Listen to a reply, unless it is one of those that are not heard."""
        is_own = not set(INTERNAL_TAGS).isdisjoint(run.get("tags") or ())
        if not is_own and run.get("parent_run_id") not in self._chunks:
            self._chunks[run_id] = []
            self.first_token_ms = None

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Take a chunk."""
        chunks, message = self._chunks.get(run_id), getattr(chunk, "message", None)
        if chunks is not None and message is not None:
            chunks.append(message)
            self.first_token_ms = self.first_token_ms or get_now_ms()

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Take the text of an event: LangChain's typed streams (`version="v3"`) have no chunks."""
        delta = event.get("delta") or {}
        if delta.get("type") == "text-delta":
            said = AIMessageChunk(content=delta["text"], id=f"{LC_ID_PREFIX}-{run_id}")
            self.on_llm_new_token(run_id=run_id, chunk=ChatGenerationChunk(message=said))

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep a whole reply, and drop what broke off before it, because this is the retry."""
        made = response.generations
        said = getattr(made[0][0], "message", None) if made and made[0] else None
        if run_id not in self._chunks:
            return
        for begun in list(self._chunks):  # models that run at the same time end in any order
            self._chunks[begun] = None
            if begun == run_id:
                break
        if isinstance(said, AIMessage):
            self.message = said


@contextmanager
def collect_replies() -> Iterator[PartialReplyHandler]:
    """Listen to the models that are called inside the block; see `PartialReplyHandler`."""
    heard = PartialReplyHandler()
    before = var_child_runnable_config.get()
    var_child_runnable_config.set(heard.listen(before))
    try:
        yield heard
    finally:
        var_child_runnable_config.set(before)
