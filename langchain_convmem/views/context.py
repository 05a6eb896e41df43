"""What a model gets: a list of messages that its provider accepts, within a token budget.

System text first, then a user turn, roles alternating around tool loops, every call answered right
after it and every result owned, no empty text, nothing the provider does not take (see
`views.providers`). What had to be fixed is reported, never written back.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, Literal, cast

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.ids import is_ulid
from langchain_convmem.records import Entry, Role, Stretch
from langchain_convmem.views.codec import clean_text
from langchain_convmem.views.content import (
    BlockFitter,
    add_speaker,
    drop_idle_reasoning,
    drop_reasoning,
    find_speaker,
    find_stale,
    forget_dialect,
    is_paused,
    keep_newest,
    place_name,
)
from langchain_convmem.views.live import (
    PLACEHOLDER_TEXT,
    describe_damage,
    find_frontier,
    find_live_entries,
    find_nodes,
    find_uncovered,
    make_placeholder_turn,
    merge_entries,
)
from langchain_convmem.views.messages import (
    TextCounter,
    TokenCounter,
    build_message,
    copy_detached,
    count_tokens,
    find_prefix,
    find_suffix,
    get_block_type,
    get_text_counter,
    is_blank_message,
    is_of_summary,
    is_plain_text,
    make_summary_messages,
)
from langchain_convmem.views.providers import Place, Provider, ProviderProfile, resolve_provider
from langchain_convmem.views.summaries import (
    find_pin_entries,
    format_pins,
    format_summary,
    is_pin,
    read_pin,
    read_summaries,
)
from langchain_convmem.views.tool_calls import CALL_BLOCKS, ToolCalls, find_answered_calls

SummaryPlace = Literal["user", "system", "omit"]


@dataclass(frozen=True)
class Context:
    """The messages that a model gets.

    Attributes:
        messages: New copies, valid for the provider they were built for.
        repairs: One sentence for each repair; empty for an intact history.
        positions: Positions of the entries that `messages` contain whole.
        is_whole: Whether the budget left out none of the entries that were read.
        is_cut: Whether there are earlier messages that `messages` neither contain nor summarise.
        token_counter: Counts `tokens`.
    """

    messages: list[BaseMessage]
    repairs: tuple[str, ...]
    positions: frozenset[int]
    is_whole: bool = True
    is_cut: bool = False
    token_counter: TokenCounter = field(default=count_tokens, repr=False, compare=False)

    @cached_property
    def tokens(self) -> int:
        """The tokens of `messages`, counted on first access."""
        return self.token_counter(self.messages)


def build_context(
    entries: Sequence[Entry],
    *,
    provider: Provider = "strict",
    max_tokens: int | None = None,
    summary: SummaryPlace = "user",
    token_counter: TokenCounter = count_tokens,
    is_cut: bool = False,
    shorten: bool = True,
) -> Context:
    """Return the model's view of a thread.

    The message of the summary begins with the thread's pins and ends with a line on the messages
    that are neither shown nor summarised, if there are any.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        provider: Whose rules to keep: `bedrock_converse`, `anthropic`, `openai`,
            `openai_responses`, `gemini`, `strict` (what all of them accept), `text` (that without
            media), or a provider of the caller's.
        max_tokens: Budget; the oldest exchanges are left out whole until the rest fits. System
            messages and the summaries are never cut. Where the latest exchange does not fit, its
            longest texts of the user and of tools are shown by their beginning and their end; so
            are those of the first exchange left out, where what fits is the latest or half of that.
        summary: The summaries of the frontier as one marked message, with the authority of the
            user, whose words they hold, and a short answer to it, or with that of the system; or
            left out. Where not even the latest exchange would fit beside them, the latest of them.
        token_counter: Counts the tokens of messages.
        is_cut: Whether there are messages before these entries that no summary covers.
        shorten: Whether long texts may be shown cut.

    Raises:
        BudgetError: If what must not be cut is larger than `max_tokens`.
        ConfigError: If an option is unknown.
    """
    rules = provider if isinstance(provider, ProviderProfile) else resolve_provider(provider)
    if summary not in ("user", "system", "omit"):
        raise ConfigError(f"summary must be 'user', 'system' or 'omit', got {summary!r}")
    if max_tokens is not None and max_tokens < 1:
        raise ConfigError(f"max_tokens must be at least 1, got {max_tokens}")
    plain = [] if is_cut else _list_plain(entries)
    if plain and (max_tokens is None or token_counter(plain) <= max_tokens):
        positions = frozenset([entry.position for entry in entries])
        return Context(plain, (), positions, token_counter=token_counter)
    live, repairs = find_live_entries(entries), describe_damage(entries)
    uncovered = find_uncovered(live)
    several = len({find_speaker(one) for one in uncovered if one.role == "user"} - {None}) > 1
    stale = find_stale(entries, uncovered, hoists=rules.system == "head")
    head, body = _ContextBuilder(rules, repairs, uncovered, stale, several).build_pieces()
    keep_newest([piece.message for piece in (*head, *body)], rules, repairs)
    pinned, shown = find_pin_entries(entries), _find_shown_summaries(live)
    view = _FittedView(head, body, pinned, shown, summary, token_counter, is_cut, repairs)
    if max_tokens is not None:
        view.fit_latest(max_tokens, shorten=shorten)
    return view.build(max_tokens)


def _list_plain(entries: Sequence[Entry]) -> list[BaseMessage]:
    """Return copies of the messages of a plain dialogue, which every provider takes as it is.

    Nothing where it is more than texts of the user and the assistant in turn, one turn of the log
    after the other.
    """
    messages: list[BaseMessage] = []
    for number, entry in enumerate(entries):
        role, kind = ("assistant", AIMessage) if number % 2 else ("user", HumanMessage)
        message = entry.message
        if entry.role != role or not isinstance(message, kind) or not is_plain_text(message):
            return []
        messages.append(copy_detached(message, id=entry.message_id))
    turns = [turn for turn, _ in groupby([entry.turn_id for entry in entries])]
    is_intact = len({*turns}) == len(turns) and len({one.id for one in messages}) == len(messages)
    return messages if is_intact else []


@dataclass(slots=True)
class _ContextBuilder:
    """Entries on their way to messages. Not thread-safe."""

    rules: ProviderProfile
    repairs: list[str]
    shown: Sequence[Entry]
    stale: Collection[str]
    several: bool
    head: list[ContextPiece] = field(default_factory=list)
    body: list[ContextPiece] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    fitter: BlockFitter = field(init=False)
    old: Collection[str] = field(init=False)
    current: Collection[str] = field(init=False)

    def __post_init__(self) -> None:
        """Tell what is of the turn that is going on from what is of earlier ones."""
        self.fitter = BlockFitter(self.rules, self.repairs)
        shown = self.shown
        asked = next((entry for entry in reversed(shown) if entry.role == "user"), None)
        earlier = [one for one in shown if asked is not None and one.position < asked.position]
        self.old = {one.id for one in earlier if asked and one.turn_id != asked.turn_id}
        # What is said for the call alone stands before all that a log holds.
        recent = {one.id for one in shown if one.position < 1 or one.id not in self.old}
        self.current = recent if asked is not None and _is_unanswered(shown) else ()

    def build_pieces(self) -> tuple[list[ContextPiece], list[ContextPiece]]:
        """Return what stands before the conversation, and the conversation."""
        calls = ToolCalls(self.shown, self.repairs, self.rules)
        for entry in self.shown:
            if entry.role == "tool":
                continue  # pulled up to stand after its call
            message = build_message(entry)
            self._note_id(message, entry)
            if not is_plain_text(message):  # which every provider takes as it is
                back = self._goes_back(message, entry)
                calls.settle(message, entry, as_written=back)
                self._fit(message, entry, as_written=back)
            if is_blank_message(message):
                self.repairs.append(f"left out {entry.message_id}: it is blank")
                continue
            self._add(message, entry)
            for result, positions in calls.find_results(message, entry, self._fit_result):
                self.body.append(ContextPiece("tool", result, positions))
        return self.head, self.body

    def _note_id(self, message: BaseMessage, entry: Entry) -> None:
        """Give a message whose id was handed out already the id of its entry."""
        key = str(message.id)
        if key in self.ids:
            message.id = entry.id  # one id twice would be one message to callers that merge by id
        self.ids.add(key)

    def _fit_result(self, message: BaseMessage, entry: Entry) -> None:
        self._note_id(message, entry)
        self._fit(message, entry, as_written=self._goes_back(message, entry))

    def _goes_back(self, message: BaseMessage, entry: Entry) -> bool:
        """Return whether the message's blocks go to the provider as they were written."""
        is_current = entry.id in self.current
        return self.fitter.goes_back(message, stale=entry.id in self.stale, is_current=is_current)

    def _fit(self, message: BaseMessage, entry: Entry, *, as_written: bool) -> None:
        """Give the message content, and a name, that the provider takes."""
        key, is_current = entry.message_id, entry.id in self.current
        self.fitter.fit(
            message,
            cast("Place", entry.role),
            key,
            as_written=as_written,
            compacts=is_current or entry.id not in self.stale,
            is_old=entry.id in self.old,
        )
        if not is_current and drop_idle_reasoning(message):
            self.repairs.append(f"left out the reasoning of {key}: nothing follows it")
        if not as_written or isinstance(message.content, str):
            forget_dialect(message, self.rules)
        if entry.role == "tool":
            return
        lost = place_name(message, self.rules, is_user=entry.role == "user", several=self.several)
        if lost is not None:
            self.repairs.append(f"left out the name {lost!r} of {key}")

    # -- joining --------------------------------------------------------------------------------

    def _add(self, message: BaseMessage, entry: Entry) -> None:
        piece = ContextPiece(entry.role, message, {entry.position}, find_speaker(entry))
        if piece.role == "system":
            self._add_system(piece)
            return
        if piece.role == "assistant" and not self.body:
            opening = HumanMessage(PLACEHOLDER_TEXT, id=make_placeholder_turn(entry).id)
            self.body.append(ContextPiece("user", opening))
            self.repairs.append("opened with a placeholder user turn: the assistant spoke first")
        before = self.body[-1] if self.body else None
        if before is None or not _may_join(before, piece):
            self.body.append(piece)
            return
        if [one for one in (before, piece) if drop_reasoning(one.message)]:
            self.repairs.append(f"left out the reasoning of {piece.message.id}: it was joined")
        if piece.role == "assistant":
            _tell_apart(before, piece)
        before.positions |= piece.positions
        before.message = merge_messages(before.message, piece.message)
        forget_dialect(before.message, self.rules)

    def _add_system(self, piece: ContextPiece) -> None:
        if self.rules.system == "in_place" and self.body:
            self.body.append(piece)
        elif not self.head:
            self.head.append(piece)
        else:
            first = self.head[0]
            first.positions |= piece.positions
            first.message = merge_messages(first.message, piece.message, between="\n\n")


def _is_unanswered(shown: Sequence[Entry]) -> bool:
    """Return whether a model is to speak next: what it said last, if anything, is not all of it."""
    latest = next((entry for entry in reversed(shown) if entry.role != "system"), None)
    return latest is not None and (latest.role != "assistant" or is_paused(latest.message))


def _may_join(before: ContextPiece, piece: ContextPiece) -> bool:
    """Return whether one message can stand for both without losing who spoke."""
    if before.role != piece.role or piece.role != "user":
        return before.role == piece.role
    return len({before.message.name, piece.message.name} - {None}) < 2  # noqa: PLR2004 - two people


def _tell_apart(before: ContextPiece, piece: ContextPiece) -> None:
    """Have the text say who speaks, where two assistants do in one message."""
    if piece.speaker is None or piece.speaker == before.speaker:
        return
    for one in (before, piece):
        if one.speaker is not None:
            one.message.content = add_speaker(one.message.content, one.speaker)
            one.message.name = None
    before.speaker = None


def merge_messages(first: BaseMessage, second: BaseMessage, *, between: str = "\n") -> BaseMessage:
    """Return `first` with the content of `second` after its own; nothing is summarised."""
    merged = first.model_copy()
    if isinstance(first.content, str) and isinstance(second.content, str):
        merged.content = between.join(text for text in (first.content, second.content) if text)
    else:
        # Blocks that repeat calls are read as their message's provider writes them.
        told = [block for block in _get_blocks(second) if get_block_type(block) not in CALL_BLOCKS]
        merged.content = [*_get_blocks(first), *told]
    merged.name = first.name or second.name
    if isinstance(merged, AIMessage) and isinstance(second, AIMessage):
        merged.tool_calls = list(second.tool_calls)
    return merged


def _get_blocks(message: BaseMessage) -> list[str | dict[Any, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return list(message.content)


def is_framing(message: BaseMessage) -> bool:
    """Return whether a message stands before a conversation: a system's, or of the summary."""
    return isinstance(message, SystemMessage) or is_of_summary(message)


# -- The message of the summary -------------------------------------------------------------------


LEFT_OUT_ID = "convmem-left-out"
"""Id of a message that says nothing but how many others are left out."""


LEFT_OUT_TEXT = (
    "Earlier messages of this conversation are neither shown nor summarised here; "
    "search for what you miss."
)
"""Tells of them without a number, so that the beginning of a view stays what it was."""


def format_summary_text(entries: Sequence[Entry], *, is_cut: bool = False) -> str:
    """Return what the message of the summary says, without its fence, for a place of its own.

    Args:
        entries: A thread's entries, or those that its next view needs.
        is_cut: Whether earlier messages are neither shown nor summarised.
    """
    shown = _find_shown_summaries(find_live_entries(entries))
    return _format_summary_text(find_pin_entries(entries), shown, is_cut=is_cut)


def _find_shown_summaries(live: Sequence[Entry]) -> Sequence[Entry]:
    """Return the summaries that are shown, oldest first; none where all are blank."""
    summaries = find_frontier(live)
    return summaries if any("".join(one.contents).strip() for one in summaries) else ()


def _format_summary_text(
    pinned: Sequence[Entry], summaries: Sequence[Entry], *, is_cut: bool
) -> str:
    """Return what stands for all that a view does not show; empty where there is nothing to say."""
    told = "\n".join(map(clean_text, read_summaries(summaries)))
    pins = format_pins(list(map(read_pin, pinned)))
    return "\n\n".join(filter(None, [pins, told, LEFT_OUT_TEXT if is_cut else ""]))


# -- A view within a token budget -----------------------------------------------------------------


@dataclass(slots=True)
class _FittedView:
    """The parts of a view, on their way into a budget.

    Attributes:
        head: System messages before the conversation.
        body: The conversation.
        pinned: The entries of the thread's pins.
        summaries: Those that are shown, oldest first.
        place: Whose message the summary is.
        count: Counts the tokens of messages; it need not be additive.
        is_cut: Whether messages before the conversation are left out anyway.
        repairs: Receives a sentence for each message that is cut or left out.
        says_so: Whether the message of the summary says that something is left out.
    """

    head: Sequence[ContextPiece]
    body: Sequence[ContextPiece]
    pinned: Sequence[Entry]
    summaries: Sequence[Entry]
    place: SummaryPlace
    count: TokenCounter
    is_cut: bool
    repairs: list[str]
    says_so: bool = False

    def fit_latest(self, max_tokens: int, *, shorten: bool) -> None:
        """Keep the latest summaries that the latest exchange fits beside.

        So many are shown at once only until the next compaction puts them under a parent.

        Args:
            max_tokens: The budget.
            shorten: Whether the longest texts of users and tools in the exchange are cut where
                fewer summaries do not help.
        """
        if not self._fit_summaries(max_tokens) and shorten:
            self._cut_texts(self._find_exchanges()[-1], None, max_tokens)
            self._fit_summaries(max_tokens)

    def _cut_texts(self, first: int, end: int | None, max_tokens: int) -> None:
        """Cut the longest texts of an exchange; in one that is over, also those of replies."""
        body = list(self.body)
        numbers = [
            number
            for number, piece in enumerate(body[first:end], start=first)
            if piece.role in ("user", "tool")
            or (end and piece.role == "assistant" and isinstance(piece.message.content, str))
        ]
        whole = [body[number].message for number in numbers]
        cut = _shorten_messages(whole, self._weigh(first) - max_tokens, self.count)
        for number, before, message in zip(numbers, whole, cut, strict=True):
            if before is not message:  # recall may quote the rest of it
                body[number] = replace(body[number], message=message, positions=set())
                self.repairs.append(f"show {message.id} cut to stay within {max_tokens} tokens")
        self.body = body

    def _cut_previous(self, starts: Sequence[int], at: int, max_tokens: int) -> int:
        """Return where the view begins: with the exchange before, if it fits with its texts cut.

        The user may go on with it. A view that is half full without it begins where it did, unless
        it would show nothing but the latest exchange.
        """
        body, said, says_so = self.body, len(self.repairs), self.says_so
        first, start = starts[at - 1 : at + 1] if at else (0, starts[0])
        if not at or (start < starts[-1] and self._weigh(start) > max_tokens / 2):
            return start
        self.says_so = says_so and (self.is_cut or at > 1)
        self._cut_texts(first, start, max_tokens)
        if self._weigh(first) <= max_tokens:
            return first
        self.body, self.says_so = body, says_so
        del self.repairs[said:]
        return start

    def _fit_summaries(self, max_tokens: int) -> bool:
        """Keep as many of the latest summaries as fit; all of them where not one does."""
        every = self.summaries
        for first in range(max(len(every), 1)):
            self.summaries = every[first:]
            if self._weigh(self._find_exchanges()[-1]) <= max_tokens:
                return True
        self.summaries = every
        return False

    def build(self, max_tokens: int | None) -> Context:
        """Return the view: as many of the latest exchanges as fit.

        System messages are kept, also those of exchanges that go.

        Raises:
            BudgetError: If what must not be cut is larger than the budget.
        """
        starts = self._find_exchanges()
        fits = max_tokens is None or self._weigh(0) <= max_tokens
        self.says_so = self.is_cut or not fits
        if max_tokens is not None and self.says_so:  # where a line that says so fits
            self.says_so = self._weigh(starts[-1]) <= max_tokens
        start = 0 if max_tokens is None else self._find_start(starts, max_tokens, fits=fits)
        if any(piece.role != "system" for piece in self.body[:start]):
            self.is_cut = True
            self.repairs.append(f"left out older messages to stay within {max_tokens} tokens")
            # They were thought after what is cut now.
            self.repairs.extend(
                f"left out the reasoning of {piece.message.id}: it was thought after what is cut"
                for piece in self.body[start : starts[-1]]
                if drop_reasoning(piece.message)
            )
        kept = self._keep_from(start)
        pieces = [*self._make_head(), *kept]
        return Context(
            [piece.message for piece in pieces],
            tuple(self.repairs),
            frozenset(position for piece in pieces for position in piece.positions),
            fits,
            self.is_cut,
            self.count,
        )

    def _find_start(self, starts: Sequence[int], max_tokens: int, *, fits: bool) -> int:
        """Return the first of these from which on everything fits; `fits` is whether all does."""
        needed = self._weigh(starts[-1])
        if needed > max_tokens:
            msg = (
                f"the system messages and the latest exchange need {needed} tokens even where long "
                f"texts are cut, more than the budget of {max_tokens}; raise it or shorten them"
            )
            raise BudgetError(msg, needed=needed, available=max_tokens)
        if fits and self._weigh(starts[0]) <= max_tokens:
            return starts[0]
        last = len(starts) - 1
        at = bisect_left(starts, 1, 0, last, key=lambda one: self._weigh(one) <= max_tokens)
        return self._cut_previous(starts, at, max_tokens)

    def _find_exchanges(self) -> list[int]:
        """Return where exchanges begin, in order."""
        return [number for number, one in enumerate(self.body) if one.role == "user"] or [0]

    def _keep_from(self, start: int) -> list[ContextPiece]:
        """Return what is left of the conversation where all before an exchange is cut."""
        system = [piece for piece in self.body[:start] if piece.role == "system"]
        return [*system, *self.body[start:]]

    def _weigh(self, start: int) -> int:
        return self.count([one.message for one in (*self._make_head(), *self._keep_from(start))])

    def _make_head(self) -> list[ContextPiece]:
        """Return what stands before the conversation: system messages, and that of the summary."""
        text = ""
        if self.place != "omit":
            text = _format_summary_text(self.pinned, self.summaries, is_cut=self.says_so)
        if not text:
            return [*self.head]
        newest = max(self.summaries, key=lambda entry: entry.position, default=None)
        source = newest or next(iter(self.pinned), None)
        name = LEFT_OUT_ID if source is None else source.id
        role: Role = "system" if self.place == "system" else "user"
        ids = (name,) if role == "system" else (name, f"{name}-noted")
        message, *noted = make_summary_messages(format_summary([text]), ids)
        positions = {entry.position for entry in (*self.summaries, *self.pinned)}
        answers = [ContextPiece("assistant", one) for one in noted]
        return [*self.head, ContextPiece(role, message, positions), *answers]


@dataclass(slots=True)
class ContextPiece:
    """A message of a view under construction.

    Attributes:
        role: Whose message it is.
        message: The message.
        positions: Positions of the entries it shows.
        speaker: The name of who says it, where the text does not.
    """

    role: Role
    message: BaseMessage
    positions: set[int] = field(default_factory=set)
    speaker: str | None = None


# -- Long texts, cut: what a user pasted or a tool returned ----------------------------------------
# The log keeps every message whole. Of those that a view cannot leave out, the longest are shown by
# their beginning and their end, where a question often stands.
LEAST_SHOWN = 96
"""A text of no more tokens than this is never cut, and one that is takes no fewer, the note
included."""

_MOST_PASSES = 6
_MARGIN = 4
_SHARE_OF_BEGINNING = 2 / 3


def _describe_cut(left_out: int) -> str:
    """Return the note in the middle of a text that is shown cut."""
    return f"\n[... {left_out:,} more characters here, not shown]\n"


def _shorten_messages(
    messages: Sequence[BaseMessage], excess: int, counter: TokenCounter
) -> list[BaseMessage]:
    """Return messages, the longest as cut copies, so that all are smaller by an excess.

    The longest texts are cut to one length, so that short ones stay whole. Where that does not
    suffice, all of them are cut as far as they may be.

    Args:
        messages: What may be cut.
        excess: So many tokens are to be saved.
        counter: Counts the tokens of messages.
    """
    count = get_text_counter(counter)
    sizes = [count(text) for one in messages for text in map(_get_text, _list_blocks(one)) if text]
    whole, shown = counter(messages), _find_level(sizes, sum(sizes) - excess)
    cut = list(messages)
    for _ in range(_MOST_PASSES):
        cut = [_shorten(message, shown, count) for message in messages]
        saved = whole - counter(cut)
        if saved >= excess or shown <= LEAST_SHOWN:
            break
        # What is said in parts need not count as their sum: what is too much is taken from each.
        longer = sum(size > shown for size in sizes)
        shown = max(shown - (excess - saved) // max(longer, 1) - _MARGIN, LEAST_SHOWN)
    return cut


def _find_level(sizes: Sequence[int], room: int) -> int:
    """Return to how many tokens the longest are cut so that all fit into a room."""
    left = sorted(sizes)
    while left:
        level = room // len(left)
        if left[0] > level:
            return max(level, LEAST_SHOWN)
        room -= left.pop(0)
    return max(sizes, default=LEAST_SHOWN)


def _shorten(message: BaseMessage, shown: int, count: TextCounter) -> BaseMessage:
    """Return a message whose texts of more tokens are cut; itself where there are none."""
    blocks = _list_blocks(message)
    cut = [_shorten_block(block, shown, count) for block in blocks]
    content = cut[0] if isinstance(message.content, str) else cut
    return message if cut == blocks else message.model_copy(update={"content": content})


def _shorten_block(
    block: str | dict[str, object], shown: int, count: TextCounter
) -> str | dict[str, object]:
    text = _get_text(block)
    if not text or count(text) <= shown:
        return block
    piece = _cut_text(text, shown, count)
    return piece if isinstance(block, str) else {**block, "text": piece}


def _cut_text(text: str, tokens: int, count: TextCounter) -> str:
    """Return a text's beginning and its end around a note, in about so many tokens."""
    room = max(tokens - count(_describe_cut(len(text))), 2)
    first = find_prefix(text, round(room * _SHARE_OF_BEGINNING), count)
    rest = text[first:]
    last = find_suffix(rest, room - count(text[:first]), count)
    left_out = len(rest) - last
    return f"{text[:first]}{_describe_cut(left_out)}{rest[left_out:]}"


def _list_blocks(message: BaseMessage) -> list[str | dict[str, object]]:
    content = message.content
    return [content] if isinstance(content, str) else list(content)


def _get_text(block: str | dict[str, object]) -> str:
    text = block if isinstance(block, str) else block.get("text")
    return text if isinstance(text, str) else ""


# -- How far back a thread is read for its next view, so that none reads an archive ---------------
# A view shows the latest messages within its budget, the system messages, and the summaries with
# what they do not cover. `LiveReach` tells a log that reads backwards what it can skip and when it
# has enough; the view of what was read is then that of the whole thread, with these limits:
#
# - What a provider compacted counts only as far as the budget reaches; it is always nearer than
#   that where the provider saw the thread within the same budget.
# - What is a system message between messages further back stands before all that is shown.
# - Names are written into the text where several people speak within reach.
_RESERVE = 1.25
"""How much further than its budget a view's entries reach: what is shown may weigh less."""


class LiveReach:
    """What the next view of a thread needs, for one read of it; see `MessageLog.read_back`.

    Attributes:
        floor: All entries after this position were read; 0: all of them.
        is_cut: Whether something that a view could show lies before it.
    """

    def __init__(self, max_tokens: int | None, token_counter: TokenCounter) -> None:
        """Prepare for a budget of `max_tokens`; None needs all that no summary covers."""
        self._tokens = None if max_tokens is None else round(_RESERVE * max_tokens)
        self._count = token_counter
        self._framing: Sequence[Entry] = ()
        self._named: Collection[str] = ()
        self._covered_ends: list[int] = []
        self.floor = 0
        self.is_cut = False

    def find_stretches(self, framing: Sequence[Entry]) -> Sequence[Stretch]:
        """Return where entries may stand that no summary covers, and what is before each of them.

        Args:
            framing: The thread's system messages, summaries and control entries, by position.
        """
        if not framing:
            return [(0, None)]
        self._framing = framing
        found: list[Stretch] = []
        after = 0
        summaries = find_nodes(find_live_entries(framing))
        for first, last in _join_ranges(summaries, framing):
            if first > after + 1:
                found.append((max(after - 1, 0), first - 1))
            after = last
            self._covered_ends.append(last)
        self.floor = after
        return [*found, (max(after - 1, 0), None)]

    def find_named(self, framing: Sequence[Entry]) -> Collection[str]:
        """Return the ids of messages of pins: what was done to a message may take its pin away."""
        pinned = [read_pin(entry) for entry in framing if is_pin(entry)]
        self._named = {pin.message_id for pin in pinned if pin.message_id is not None}
        return self._named

    def is_enough(self, page: Sequence[Entry]) -> bool:
        """Return whether a view needs nothing before these entries.

        Args:
            page: The entries read so far of `find_stretches`, by position.
        """
        if self._tokens is None or not page:
            return False
        live = find_live_entries(merge_entries(self._framing, page))
        said = [entry for entry in find_uncovered(live) if entry.role != "system"]
        cut = self._find_cut(said, page)
        if cut is None:
            return False
        self.floor, self.is_cut = max(self.floor, cut), True
        return True

    def is_certain(self, entries: Sequence[Entry]) -> bool:
        """Return whether the order of a conversation can be told from the entries of a read.

        A turn stands where it began, and that may be where a summary covers it.
        """
        if not self.floor or self.is_cut:
            return True
        unknown = self._find_unknown_turns(entries, is_from_start=True)
        return not any(one.turn_id in unknown for one in find_uncovered(find_live_entries(entries)))

    def select_needed(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of a read without those that a view of all would leave out."""
        if not self.is_cut:
            return list(entries)
        shown = {entry.id for entry in find_uncovered(find_live_entries(entries))}
        return [
            entry
            for entry in entries
            if entry.position > self.floor
            or entry.role == "system"
            or entry.id not in shown
            or entry.message_id in self._named
        ]

    def _find_cut(self, said: Sequence[Entry], page: Sequence[Entry]) -> int | None:
        """Return the position after which all is needed, and nothing before it.

        What follows it weighs enough, begins with a user's message, and is complete: every turn
        and tool loop of it was read from its beginning, and all before it was said before.
        """
        calls = {result: call for call, result in find_answered_calls(said)}
        highest = list(accumulate((entry.position for entry in said), max))
        unknown = self._find_unknown_turns(page)
        lowest, weight = page[-1].position, 0
        waiting: set[str] = set()
        for number in range(len(said) - 1, 0, -1):
            entry, earlier = said[number], said[number - 1]
            if entry.turn_id in unknown:
                return None
            lowest = min(lowest, entry.position)
            weight += 0 if entry.message is None else self._count([entry.message])
            waiting.discard(entry.id)
            waiting.update(calls[name] for name in [entry.id] if name in calls)
            opens = entry.role == "user" and earlier.role != "user"
            is_alone = earlier.turn_id != entry.turn_id and highest[number - 1] < lowest
            if weight >= (self._tokens or 0) and opens and is_alone and not waiting:
                return lowest - 1
        return None

    def _find_unknown_turns(
        self, entries: Sequence[Entry], *, is_from_start: bool = False
    ) -> Collection[str]:
        """Return the turns that may have begun before the first entry of theirs that was read."""
        seen: set[str] = set()
        unknown: set[str] = set()
        before = None if is_from_start else entries[0].id
        ends = list(self._covered_ends)
        for entry in entries:
            turn = entry.turn_id
            while ends and entry.position >= ends[0]:
                before = entry.id  # what a summary covers was not read
                ends.pop(0)
            if entry.control is None and turn not in seen:
                seen.add(turn)
                is_newer = before is None or (is_ulid(turn) and turn > before)
                if not (turn == entry.id or is_newer):
                    unknown.add(turn)
        return unknown


def _join_ranges(summaries: Iterable[Entry], framing: Iterable[Entry]) -> list[tuple[int, int]]:
    """Return the positions that summaries cover as ranges, ascending, with framing between them."""
    covers = (one.cover for one in summaries if one.cover is not None)
    known = {entry.position for entry in framing}
    found: list[tuple[int, int]] = []
    for first, end in sorted(part for cover in covers for part in cover.ranges):
        last = max(end, found[-1][1] if found else 0)
        while last + 1 in known:
            last += 1
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found
