"""What a turn's model sees: the thread and the recalled lines, in one budget where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.errors import BudgetError
from langchain_convmem.history import LiveThread, read_all, read_further, read_live
from langchain_convmem.ids import make_ulid
from langchain_convmem.logs.base import has_same_payload
from langchain_convmem.records import Draft, Entry, Role, ThreadKey
from langchain_convmem.turns.memory import PROFILE_SOURCE, TurnMemory, choose_items
from langchain_convmem.turns.options import RecallPlace, TurnOptions
from langchain_convmem.turns.recalled import (
    CARRIED,
    NOTICES,
    RECALL_SOURCE,
    Carried,
    MessageList,
    SaidText,
    fit_blocks,
    fold_recalled,
    join_system,
    select_visible,
    take_blocks,
    write_fence,
)
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.views.codec import encode_body, get_role, get_text_pieces, make_storable
from langchain_convmem.views.context import (
    SUMMARY_SOURCE,
    Context,
    ContextBudget,
    build_context,
    format_summary_text,
)
from langchain_convmem.views.lines import OpenedSummary, Recall, RecalledBlock
from langchain_convmem.views.live import find_live_entries, find_uncovered, get_level
from langchain_convmem.views.messages import DraftBuilder, TextCounter

if TYPE_CHECKING:
    from langchain_convmem.profile import ProfileItem, UserProfile
    from langchain_convmem.turns.chains import ChainShape

_LINES_SHARE = 0.3
"""How much of the room of recall lines keep that do not answer, beside folded summaries."""
_WHOLE = 0.8
"""A line of which the profile quotes so much is not recalled as well."""
_WAIT_S = 1.0
"""How long a turn waits until what was said a moment ago is embedded."""


@dataclass(slots=True)
class TurnView:
    """Builds what a turn's model sees. Thread-safe: it only holds settings.

    Attributes:
        memory: Whose log and recall.
        key: The thread.
        options: Budgets and limits.
        shape: Whose rules the messages keep, and what the prompt has slots for.
        trace: Where recall is reported.
    """

    memory: TurnMemory
    key: ThreadKey
    options: TurnOptions
    shape: ChainShape
    trace: TurnTrace = field(repr=False)
    _wished: int = field(init=False, repr=False)
    _shows_summary: bool = field(init=False, repr=False)
    _rules: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Find what the prompt has slots for, and the rules of the view."""
        self._wished = self.memory.get_recall_budget(self.options)
        self._shows_summary = "summary" in (self.shape.slots or ())
        self._rules = {
            "provider": self.shape.provider,
            "summary": "omit" if self._shows_summary else "user",
            "shorten": False,
            "token_counter": self.memory.token_counter,
        }

    def build_context(
        self, locate: Locate, query: str, thread: LiveThread | None = None
    ) -> ModelContext:
        """Return what the model gets, with lines of other places than what it sees anyway.

        A turn that is tried again must not quote its own earlier answer, nor what followed. Where
        there is nothing to search for, the lines are those of the relevance buffer, if there is
        one.

        Args:
            locate: Finds the turn among the entries that were read.
            query: What to search for; empty for nothing.
            thread: What was read of the thread already; None reads it.
        """
        seen = self.read_view(locate, thread)
        budget = self._find_budget(seen.turn.entries) if self.options.recall else None
        room = None
        if budget is not None:
            room = budget.count_recall_tokens(self._wished, seen.view.tokens)
        if room == 0 or not self.options.recall:
            return seen
        found = self._find_lines(seen, query, room)
        blocks, by_time = self._select_visible(found)
        blocks, opened, text = fit_blocks(
            blocks, found.opened, by_time=by_time, max_tokens=room, count=self.memory.count_text
        )
        return replace(seen, blocks=blocks, opened=opened, recalled=text)

    def read_thread(self) -> LiveThread:
        """Return as much of the thread as the view can show, and all that no budget leaves out."""
        return read_live(self.memory.log, self.key, self.options.room, self.memory.token_counter)

    def read_view(self, locate: Locate, thread: LiveThread | None = None) -> ModelContext:
        """Return what the model gets of the thread, without recall; see `build_context`."""
        thread = thread or self.read_thread()
        turn = locate(thread.entries)
        if thread.floor and _lacks_summary(turn, thread):
            # A turn that is answered once more: what the summary tells of is shown again.
            thread = read_all(self.memory.log, thread)
            turn = locate(thread.entries)
        most = self.memory.get_profile_budget(self.options)
        known = self.memory.profile_reader.read(self.key.owner).profile if most else None
        if known is None or not known.items:
            return self._read_within(locate, thread, turn)
        try:
            seen = self._read_within(locate, thread, turn, most)
        except BudgetError:  # what is said now comes before what is known
            return self._read_within(locate, thread, turn)
        return self._add_profile(seen, known, most)

    def _add_profile(self, seen: ModelContext, known: UserProfile, most: int) -> ModelContext:
        """Return what the model gets of the thread, and what is known of the user."""
        from langchain_convmem.profile.profile import format_items

        shown = [one for one in seen.turn.entries if one.position in seen.view.positions]
        spoken = [one for one in shown if one.role in SPOKEN]
        items = choose_items(known, spoken, most, self.memory.count_text)
        messages = join_system(seen.view.messages, format_items(items), source=PROFILE_SOURCE)
        added = len(messages) - len(seen.view.messages)
        asked = None if seen.asked is None else seen.asked + added
        view = replace(seen.view, messages=messages)
        return replace(seen, view=view, asked=asked, profile=items)

    def _read_within(
        self, locate: Locate, thread: LiveThread, turn: TurnEntries, reserved: int = 0
    ) -> ModelContext:
        """Return what the model gets of the thread alone, beside so many tokens of other text."""
        while True:
            budgets = self._list_budgets(turn, reserved)
            view = self._build_within(budgets, thread, turn)
            if view is not None or not thread.floor:
                break
            # The turn began long ago, or the budget reaches further back than what was read.
            thread = read_further(self.memory.log, thread, self.memory.token_counter)
            turn = locate(thread.entries)
        if view is None:
            # What was said before and never answered is one exchange with the turn, which is never
            # left out; but an old message must not block the thread for good. Where the turn alone
            # does not fit, its longest texts are cut.
            before = find_uncovered(find_live_entries(turn.before))
            is_cut = any(entry.role != "system" for entry in before)
            options = {**self._rules, "max_tokens": budgets[-1], "shorten": True}
            view = build_context(turn.fixed, is_cut=is_cut, **options)
        place = self.options.recall_place
        asked = _find_asked(view, turn.own)
        return ModelContext(thread, turn, view, asked, self.shape, recall_place=place)

    def _build_within(
        self, budgets: Sequence[int | None], thread: LiveThread, turn: TurnEntries
    ) -> Context | None:
        """Return the view in the first budget that it fits; None if more has to be read for it."""
        if turn.start > thread.floor and (turn.is_whole or not thread.floor):
            seen = replace(thread, entries=turn.entries)
            for budget in budgets:
                view = seen.build_view(max_tokens=budget, **self._rules)
                if view is not None:
                    return view
        return None

    # -- Recalled lines and folded summaries ------------------------------------------------------

    def _find_lines(self, seen: ModelContext, query: str, room: int | None) -> Recall:
        options, start = self.options, seen.turn.start
        tokens = options.recall_tokens if options.recall_k is None else None
        later = {one.position for one in seen.thread.entries if one.position >= start}
        excluded = {self.key: later.union(seen.view.positions)}
        for item in seen.profile:
            if item.share >= _WHOLE:
                excluded.setdefault(item.key, set()).add(item.position)
        find = partial(
            self.memory.line_recall.recall,
            self.key.owner,
            query,
            k=options.recall_k,
            max_tokens=tokens if room is None else room,
            exclude=excluded,
            count_text=self.memory.count_text,
            buffer=self.key,
        )
        if not query:
            return find()
        before = _find_user_text(seen.thread.entries, start)
        find = partial(find, before=before, remember=options.remember, wait_s=_WAIT_S)

        def recall() -> Recall:
            found = find()
            is_folded = any(map(get_level, seen.thread.entries))
            return self._open_summaries(found, seen, query, room) if is_folded else found

        return self.trace.trace_recall(query, recall)

    def _select_visible(self, found: Recall) -> tuple[Sequence[RecalledBlock], bool]:
        has_buffer = bool(self.memory.line_recall.settings.buffer_size)
        return select_visible(found, has_buffer=has_buffer)

    def _open_summaries(
        self, found: Recall, seen: ModelContext, query: str, room: int | None
    ) -> Recall:
        """Return a recall with what the folded summaries of the thread add to it.

        Lines that do not answer leave room for it, and get back what it leaves.
        """
        count, total = self.memory.count_text, self._wished if room is None else room
        blocks, _ = self._select_visible(found)
        is_answered = found.verdict == "answered"
        if is_answered or blocks is not found.blocks or self.options.recall_k is not None:
            opened = self._open(seen, query, blocks, total, is_answered=is_answered)
            return replace(found, opened=opened)
        best = take_blocks(blocks, int(total * _LINES_SHARE), count) or blocks[:1]
        opened = self._open(seen, query, best, total, is_answered=is_answered)
        left = total - sum(count(f"\n\n{one.text}") for one in opened)
        return replace(found, blocks=take_blocks(blocks, left, count) or best, opened=opened)

    def _open(
        self,
        seen: ModelContext,
        query: str,
        lines: Sequence[RecalledBlock],
        room: int,
        *,
        is_answered: bool,
    ) -> tuple[OpenedSummary, ...]:
        """Return what folded summaries say, in the room that recalled lines leave."""
        from langchain_convmem.recall.embedding import choose_embedder
        from langchain_convmem.summarizing.branches import (
            BRANCHES,
            find_folding,
            fold_text,
            open_summaries,
        )

        memory, entries = self.memory, seen.thread.entries
        fence = write_fence([], NOTICES) if self.options.budget is not None else ""
        texts = [block.text for block in lines]
        shown = [piece for message in seen.view.messages for piece in get_text_pieces(message)]
        folded = fold_text("\n".join([*shown, format_summary_text(entries), *texts]))
        own = [line for block in lines for line in block.lines if line.key == self.key]
        parts = {line.position for line in own if fold_text(line.text) not in folded}
        hits = {line.position for line in own}
        return open_summaries(
            BRANCHES.get(memory.log_place, self.key),
            find_folding(find_live_entries(entries)),
            query,
            lambda stretches: [
                entry
                for after, until in stretches
                for entry in memory.log.entries(self.key, after=after, until=until)
            ],
            hits=hits,
            whole=hits - parts,
            shown=folded,
            max_tokens=room - sum(map(memory.count_text, [fence, *texts])),
            count=memory.count_text,
            embed=None if is_answered else choose_embedder(None).embed_documents,
        )

    # -- Budgets ----------------------------------------------------------------------------------

    def _list_budgets(self, turn: TurnEntries, reserved: int) -> Sequence[int | None]:
        """Return the budgets of the view to try, until what must not be cut fits."""
        most = self.options.history_tokens
        if most is not None:  # the turn and the summary come on top of it
            kept = [entry for entry in turn.fixed if entry.role != "system"]
            asked = build_context([*turn.instructions, *turn.own], **self._rules)
            most = max(most + asked.tokens, build_context(kept, **self._rules).tokens)
        budget = self._find_budget(turn.entries, reserved)
        if budget is None:
            return (most,)
        shares = budget.list_message_budgets(self._wished)
        return [share if most is None else min(share, most) for share in shares]

    def _find_budget(self, entries: Sequence[Entry], reserved: int = 0) -> ContextBudget | None:
        """Return the budget of messages and recalled lines."""
        budget = self.options.budget
        if budget is not None and self._shows_summary:
            reserved += self.memory.count_text(format_summary_text(entries, is_cut=True))
        return None if budget is None else budget.reserve(reserved)


def _find_asked(view: Context, own: Sequence[Entry]) -> int | None:
    """Return where the view holds what the user said first in the turn.

    The message may hold what was said before and never answered as well. Where it holds what is
    said now alone, or with it, it goes by the id of what is said now.
    """
    said = {entry.message_id: entry for entry in own if entry.role == "user"}
    if not said:
        return None
    asked = None
    for number in reversed(range(len(view.messages))):
        one = view.messages[number]
        if isinstance(one, HumanMessage) and one.additional_kwargs.get("source") != SUMMARY_SOURCE:
            asked = number if asked is None or one.id in said else asked
            if one.id in said:
                break
    message = next(iter(said.values())).message
    if asked is not None and len(said) == 1 and isinstance(message, HumanMessage):
        shown = view.messages[asked]
        update = {"id": next(iter(said)), "content": shown.content, "name": shown.name}
        view.messages[asked] = message.model_copy(update=update, deep=True)
    return asked


def join_searchable(messages: Iterable[BaseMessage], drafting: DraftBuilder) -> str:
    """Return the searchable text of the user's messages.

    What the write hook removes must not reach an embedder either.
    """
    kept = [drafting.apply_hook(message) for message in messages]
    return "\n".join(piece for one in kept if one is not None for piece in get_text_pieces(one))


def _find_user_text(entries: Sequence[Entry], start: int) -> str | None:
    """Return what the user said last before the turn; None where that is nothing."""
    before = [one for one in entries if one.control is not None or one.position < start]
    said = [entry for entry in find_live_entries(before) if entry.role == "user"]
    return "\n".join(said[-1].contents) if said else None


# -- What a model gets ----------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class ModelContext:
    """What a model gets in a turn.

    Attributes:
        thread: What was read of the thread.
        turn: The turn in it.
        view: The messages, up to and with those of the turn; fresh copies.
        asked: Which of them holds what the user says in the turn; None if none does.
        shape: What the chain takes.
        blocks: The recalled blocks.
        opened: What folded summaries of the thread say.
        recalled: The text of both; may be empty.
        profile: What the messages hold of the user's profile.
        recall_place: Where recalled lines stand, unless a slot takes them.
    """

    thread: LiveThread
    turn: TurnEntries
    view: Context
    asked: int | None
    shape: ChainShape
    blocks: Sequence[RecalledBlock] = ()
    opened: Sequence[OpenedSummary] = ()
    recalled: str = ""
    profile: Sequence[ProfileItem] = ()
    recall_place: RecallPlace = "user"

    @property
    def given(self) -> list[BaseMessage]:
        """The messages, with the recalled lines in them unless a slot takes these."""
        has_slot = "recalled" in (self.shape.slots or ())
        return self.view.messages if has_slot or not self.recalled else self._add_lines()

    def _add_lines(self) -> list[BaseMessage]:
        """Return the messages with the recalled lines in them."""
        if self.recall_place == "system":
            return join_system(self.view.messages, self.recalled, source=RECALL_SOURCE)
        messages = list(self.view.messages)
        if self.asked is not None:
            message = messages[self.asked]
            if isinstance(message, HumanMessage):
                messages[self.asked] = fold_recalled(message, self.recalled)
        return messages

    def make_call(
        self,
        config: RunnableConfig,
        extra: Mapping[str, Any] | None = None,
        *,
        said_key: str | None = None,
        history_key: str | None = None,
    ) -> tuple[Any, RunnableConfig]:
        """Return what the chain is called with, messages or a dict, and the config of that call.

        Args:
            config: The config.
            extra: What else the dict holds.
            said_key: Another name in it for what the user says.
            history_key: Another name for what was said before.
        """
        given, shape = self.given, self.shape
        if shape.slots is None:
            return given, config
        at = len(given)
        if self.asked is not None:
            at = self.asked + len(given) - len(self.view.messages)
        leading = takewhile(lambda one: isinstance(one, SystemMessage), given[:at])
        framing = MessageList(leading if shape.shows_recalled else ())
        start = 0 if shape.has_other_ways else len(framing)
        history = MessageList(given[start:at])
        whole = self._add_lines() if self.recalled else given
        said = MessageList(given[at:])
        names = ["input", *([said_key] if said_key else ())]
        told: Any = said
        is_text = bool(shape.slots) and shape.places.isdisjoint(names)  # in the prompts
        if shape.takes_text or is_text:
            shown = str(MessageList(said[:1] if shape.shows_recalled else said))
            told = SaidText(self._find_text() if shape.shows_recalled else shown, shown)
        recalled = [HumanMessage(self.recalled, additional_kwargs={"source": RECALL_SOURCE})]
        own = {
            "recalled": MessageList(recalled if self.recalled else ()),
            "summary": format_summary_text(self.turn.entries, is_cut=self.view.is_cut),
            "messages": MessageList(whole[start:]),
            "history": history,
        }
        payload = {
            **own,
            **(extra or {}),  # the application's own values win, except in place of messages
            **{name: own[name] for name in own if name in shape.places},
            history_key or "history": history,
            **dict.fromkeys(names, told),
        }
        carried = {CARRIED: Carried(history, framing, said)}
        configurable = {**config.get("configurable", {}), **carried}
        return told if shape.takes_text else payload, {**config, "configurable": configurable}

    def _find_text(self) -> str:
        """Return what the user says, without the recalled lines."""
        asked = () if self.asked is None else get_text_pieces(self.view.messages[self.asked])
        return "\n".join(asked)

    def count(self) -> dict[str, int]:
        """Return what the model gets, in numbers."""
        return {
            "entries": len(self.turn.before) + len(self.turn.own),
            "messages": len(self.view.messages),
            "tokens": self.view.tokens,
            "repairs": len(self.view.repairs),
            "is_cut": self.view.is_cut,
            "blocks": len(self.blocks),
            "lines": sum(len(block.lines) for block in self.blocks),
            "opened": sum(len(one.sentences) for one in self.opened),
            "profile": len(self.profile),
        }


def note_recalled(context: ModelContext, count: TextCounter) -> dict[str, Any]:
    """Return which lines a turn recalled, as ids and scores, for the metadata of its reply.

    No words, so that forgetting a line leaves nothing of it here: the reasons that name words are
    `words` alone. Blocks stand in the order in which the model was given them to choose from.

    Args:
        context: What the model got.
        count: Counts the tokens of a text.

    Returns:
        `tokens` of the recalled text, and `blocks`: each the `thread_id`, its `lines` as
        `[line_id, position, part]`, and its `hits` as `[number of the line, relevance, similarity,
        reasons]`; `summaries`, the ids of summaries that were opened, where there are any.
    """
    blocks: list[dict[str, Any]] = []
    for block in context.blocks:
        at = {line.line_id: number for number, line in enumerate(block.lines)}
        hits = [
            [
                at[hit.line.line_id],
                round(hit.relevance, 3),
                round(hit.similarity, 3),
                [reason.partition(":")[0] for reason in hit.why],
            ]
            for hit in block.matches
            if hit.line.line_id in at
        ]
        lines = [[line.line_id, line.position, line.part] for line in block.lines]
        thread_id = block.lines[0].key.thread_id
        blocks.append({"thread_id": thread_id, "lines": lines, "hits": hits})
    tokens = count(context.recalled) if context.recalled else 0
    opened = list(dict.fromkeys(one.summary_id for one in context.opened))
    return {"tokens": tokens, "blocks": blocks, **({"summaries": opened} if opened else {})}


# -- A turn among the entries of its thread -------------------------------------------------------
@dataclass(frozen=True, slots=True)
class TurnEntries:
    """A turn among the entries of its thread.

    Attributes:
        before: What the thread held when the turn began, control entries included.
        own: What the model sees of the turn itself, in order, stored or not.
        start: The position at which it began in the log, or would begin.
        is_whole: Whether the entries that were read hold all of the turn.
        instructions: System messages of this call alone, which no budget of what was before counts.
    """

    before: Sequence[Entry]
    own: Sequence[Entry]
    start: int
    is_whole: bool = True
    instructions: Sequence[Entry] = ()

    @property
    def fixed(self) -> list[Entry]:
        """What no budget leaves out: system messages, the summary, and the turn."""
        framing = [entry for entry in self.before if entry.role not in SPOKEN]
        return [*self.instructions, *framing, *self.own]

    @property
    def entries(self) -> list[Entry]:
        """The thread as the turn sees it."""
        return [*self.instructions, *self.before, *self.own]


@dataclass(frozen=True, slots=True)
class CallContext:
    """What the model sees of a thread in one call alone.

    Attributes:
        instructions: System messages.
        messages: What else is not to be remembered.
    """

    instructions: Sequence[BaseMessage] = ()
    messages: Sequence[BaseMessage] = ()

    def add_to(self, turn: TurnEntries) -> TurnEntries:
        """Return a turn with what the call adds: system messages at the top, others before it."""
        if not turn.own or not (self.instructions or self.messages):
            return turn
        asked = turn.own[0]
        aside = [make_entry(one, asked.key, asked.position, asked.turn_id) for one in self.messages]
        top = [make_entry(one, asked.key, _BEFORE_ALL, make_ulid()) for one in self.instructions]
        return replace(turn, before=[*turn.before, *aside], instructions=top)


_BEFORE_ALL = 0
"""A position before every position of a log."""


Locate: TypeAlias = Callable[[Sequence[Entry]], TurnEntries]
"""Finds the turn among the entries of its thread, as far as they were read."""
SPOKEN: frozenset[Role] = frozenset({"user", "assistant", "tool"})
"""Roles of what is said in a conversation."""


def make_entry(
    message: BaseMessage,
    key: ThreadKey,
    position: int,
    turn_id: str,
    entry_id: str | None = None,
) -> Entry:
    """Return a message as an entry, as if it were stored; under a new id unless it has one."""
    return Entry(
        id=entry_id or make_ulid(),
        key=key,
        position=position,
        turn_id=turn_id,
        role=get_role(message),
        message=make_storable(message),
        contents=get_text_pieces(message),
    )


def list_earlier_entries(entries: Sequence[Entry], mine: Entry | None) -> list[Entry]:
    """Return the entries before a turn began: a retry does not see its own answer.

    Nor does it see a summary that tells of the turn, or of what followed.
    """
    if mine is None:
        return list(entries)
    start = find_turn_start(entries, mine)
    begun = {entry.turn_id for entry in entries if entry.position < start}
    return [
        entry
        for entry in entries
        if (
            entry.turn_id in begun or entry.control is not None
            if entry.role != "summary"
            # It may come while the turn is under way: what it covers is not read any more.
            else entry.cover is None or all(last < start for _, last in entry.cover.ranges)
        )
    ]


def _lacks_summary(turn: TurnEntries, thread: LiveThread) -> bool:
    """Return whether a summary of the thread tells of what the turn is not to see."""
    shown = {entry.id for entry in turn.before if entry.role == "summary"}
    return any(one.role == "summary" and one.id not in shown for one in thread.entries)


def find_turn_start(entries: Sequence[Entry], mine: Entry | None) -> int:
    """Return the position at which the turn of `mine` began; None: at which one would begin."""
    if mine is None:
        return entries[-1].position + 1 if entries else 1
    for entry in entries:
        if entry.turn_id == mine.turn_id:
            return min(entry.position, mine.position)
    return mine.position


def has_same_content(entry: Entry, draft: Draft) -> bool:
    """Return whether an entry holds what a draft does, the message's id aside."""
    stored = Draft(role=entry.role, message=entry.message, contents=entry.contents)
    return has_same_payload(encode_body(stored), encode_body(draft))
