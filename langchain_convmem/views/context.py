"""What a model gets: a list of messages that its provider accepts, within a token budget.

System text first, then a user turn, roles alternating around tool loops, every call answered right
behind it and every result owned, no empty text, nothing the provider does not take (see
`profiles`). What had to be mended is reported, never written back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.ids import is_ulid
from langchain_convmem.records import Context, Entry, Role
from langchain_convmem.views.content import (
    BlockFitter,
    first_speakers,
    has_several_speakers,
    introduced,
    keep_newest,
    named,
    speaker_of,
)
from langchain_convmem.views.live import (
    live_entries,
    live_summary,
    retracted_ids,
    summary_chain,
    uncovered,
)
from langchain_convmem.views.messages import (
    block_type,
    clean_text,
    handed_out,
    is_blank_message,
    is_plain_text,
    message_key,
)
from langchain_convmem.views.providers import Place, Profile, ProviderProfile, resolved
from langchain_convmem.views.reasoning import (
    forget_dialect,
    has_reasoning,
    made_behind_another_beginning,
    without_idle_reasoning,
    without_reasoning,
)
from langchain_convmem.views.summaries import shown_summary
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.tool_calls import (
    CALL_BLOCKS,
    ToolCalls,
    answered_calls,
)
from langchain_convmem.views.turns import PLACEHOLDER_TEXT, placeholder_turn

SummaryPlace = Literal["system", "omit"]


SUMMARY_SOURCE = "convmem_summary"


"""Marks the message that carries the summary: `additional_kwargs["source"]`."""


def context(
    entries: Sequence[Entry],
    *,
    profile: Profile = "strict",
    max_tokens: int | None = None,
    summary: SummaryPlace = "system",
    token_counter: TokenCount = count_tokens,
    earlier_speakers: Collection[str] = (),
) -> Context:
    """Return the model's view of a thread.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        profile: Whose rules to keep: `bedrock_converse`, `anthropic`, `openai`, `gemini`, `strict`
            (what all of them accept), or a profile of the caller's.
        max_tokens: Budget; the oldest exchanges are left out whole until the rest fits. System
            messages, the summary and the latest exchange are never cut.
        summary: The live summary as one marked system message, or left out.
        token_counter: Counts the tokens of messages.
        earlier_speakers: Names that messages before these entries bear, where `entries` are not
            the whole thread.

    Raises:
        BudgetError: If what must not be cut is larger than `max_tokens`.
        ConfigError: If an option is unknown.
    """
    rules = resolved(profile)
    if summary not in ("system", "omit"):
        raise ConfigError(f"summary must be 'system' or 'omit', got {summary!r}")
    if max_tokens is not None and max_tokens < 1:
        raise ConfigError(f"max_tokens must be at least 1, got {max_tokens}")
    repairs: list[str] = []
    live = live_entries(entries)
    shown = uncovered(live)
    several = has_several_speakers(live, earlier_speakers)
    view = _View(rules, repairs, shown, several=several)
    view.stale = _stale(entries, live, shown, rules)
    head, body = view.pieces()
    latest = live_summary(live)
    if summary == "system" and latest is not None and "".join(latest.contents).strip():
        head.append(_summary_piece(latest))
    keep_newest([piece.message for piece in (*head, *body)], rules, repairs)
    pieces, tokens = within(head, body, max_tokens, token_counter, repairs)
    messages = [piece.message for piece in pieces]
    positions = frozenset(position for piece in pieces for position in piece.positions)
    is_whole = len(pieces) == len(head) + len(body)
    return Context(messages, tuple(repairs), tokens, positions, is_whole)


def _stale(
    entries: Sequence[Entry], live: Sequence[Entry], shown: Sequence[Entry], rules: ProviderProfile
) -> frozenset[str]:
    """Return the ids of entries whose reasoning may no longer be sent."""
    if not any(has_reasoning(entry.message) for entry in shown if entry.role == "assistant"):
        return frozenset()
    hoists = rules.system == "head"
    return made_behind_another_beginning(entries, live, shown, hoists=hoists)


class _View:
    """Entries on their way to messages. Not thread-safe."""

    def __init__(
        self,
        rules: ProviderProfile,
        repairs: list[str],
        shown: Sequence[Entry],
        *,
        several: bool,
    ) -> None:
        self.stale: frozenset[str] = frozenset()
        self._rules = rules
        self._repairs = repairs
        self._shown = shown
        self._several = several
        self._fitter = BlockFitter(rules, repairs)
        self._head: list[Piece] = []
        self._body: list[Piece] = []
        self._ids: set[str] = set()

    def pieces(self) -> tuple[list[Piece], list[Piece]]:
        """Return what stands before the conversation, and the conversation."""
        calls = ToolCalls(self._shown, self._repairs, self._rules)
        for entry in self._shown:
            if entry.role == "tool":
                continue  # pulled up behind its call
            message = handed_out(entry)
            calls.settle(message, entry)
            self._fit(message, entry)
            if is_blank_message(message):
                self._repairs.append(f"left out {message_key(entry)}: it is blank")
                continue
            piece = Piece(entry.role, message, {entry.position}, speaker_of(entry))
            self._add(piece, entry)
            for result, positions in calls.results(message, entry, self._fit):
                self._body.append(Piece("tool", result, positions))
        return self._head, self._body

    def _fit(self, message: BaseMessage, entry: Entry) -> None:
        """Give the message content, and a name, that the provider takes."""
        key = message_key(entry)
        if key in self._ids:
            message.id = entry.id  # one id twice would be one message to whoever merges by id
        self._ids.add(key)
        if is_plain_text(message) and entry.role != "tool":
            return  # as most are
        self._fitter.fit(message, _PLACES[entry.role], key, stale=entry.id in self.stale)
        if without_idle_reasoning(message):
            self._repairs.append(f"left out the reasoning of {key}: nothing follows it")
        forget_dialect(message, self._rules)
        if entry.role == "tool":
            return
        lost = named(message, self._rules, is_user=entry.role == "user", several=self._several)
        if lost is not None:
            self._repairs.append(f"left out the name {lost!r} of {key}")

    # -- joining --------------------------------------------------------------------------------

    def _add(self, piece: Piece, entry: Entry) -> None:
        if piece.role == "system":
            self._add_system(piece)
            return
        if piece.role == "assistant" and not any(one.role == "user" for one in self._body):
            self._body.append(_placeholder(entry))
            self._repairs.append("opened with a placeholder user turn: the assistant spoke first")
        before = self._body[-1] if self._body else None
        if before is None or before.role != piece.role or not self._may_join(before, piece):
            self._body.append(piece)
            return
        if [one for one in (before, piece) if without_reasoning(one.message)]:
            self._repairs.append(f"left out the reasoning of {piece.message.id}: it was joined")
        if piece.role == "assistant":
            _tell_apart(before, piece)
        before.positions |= piece.positions
        before.message = _merge(before.message, piece.message)
        forget_dialect(before.message, self._rules)

    def _add_system(self, piece: Piece) -> None:
        if self._rules.system == "in_place" and self._body:
            self._body.append(piece)
        elif not self._head:
            self._head.append(piece)
        else:
            first = self._head[0]
            first.positions |= piece.positions
            first.message = _merge(first.message, piece.message, between="\n\n")

    def _may_join(self, before: Piece, piece: Piece) -> bool:
        """Return whether one message can stand for both without losing who spoke."""
        names = {one.message.name for one in (before, piece)} - {None}
        return piece.role != "user" or len(names) < 2  # noqa: PLR2004 - two people


_PLACES: dict[str, Place | Literal["system"]] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
}


def _placeholder(entry: Entry) -> Piece:
    turn = placeholder_turn(entry)
    return Piece("user", HumanMessage(PLACEHOLDER_TEXT, id=turn.id))


def _tell_apart(before: Piece, piece: Piece) -> None:
    """Have the text say who speaks, where two assistants do in one message."""
    if piece.speaker is None or piece.speaker == before.speaker:
        return
    for one in (before, piece):
        if one.speaker is not None:
            one.message.content = introduced(one.message.content, one.speaker)
            one.message.name = None
    before.speaker = None


def _merge(first: BaseMessage, second: BaseMessage, *, between: str = "\n") -> BaseMessage:
    """Return `first` with the content of `second` behind its own; nothing is summed up."""
    merged = first.model_copy()
    if isinstance(first.content, str) and isinstance(second.content, str):
        merged.content = between.join(text for text in (first.content, second.content) if text)
    else:
        # Blocks that repeat calls are read as their message's provider writes them.
        told = [block for block in _blocks(second) if block_type(block) not in CALL_BLOCKS]
        merged.content = [*_blocks(first), *told]
    merged.name = first.name or second.name
    if isinstance(merged, AIMessage) and isinstance(second, AIMessage):
        merged.tool_calls = list(second.tool_calls)
    return merged


def _blocks(message: BaseMessage) -> list[str | dict[Any, Any]]:
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return list(message.content)


def _summary_piece(entry: Entry) -> Piece:
    message = SystemMessage(
        shown_summary([clean_text(piece) for piece in entry.contents]),
        id=entry.id,
        additional_kwargs={"source": SUMMARY_SOURCE},
    )
    return Piece("system", message, {entry.position})


# -- A view within a token budget -----------------------------------------------------------------


TokenCount: TypeAlias = Callable[[Sequence[BaseMessage]], int]


@dataclass(slots=True)
class Piece:
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


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """One budget for all that a model gets, shared out by need.

    First what cannot be cut: the prompt around the messages, system messages, the summary and the
    latest exchange with the new message. Then recalled lines, up to what is wished for. What is
    left holds earlier exchanges, so how many of them a model sees does not depend on what recall
    happens to find, and what it reads begins alike from turn to turn.

    Attributes:
        tokens: All of it.
        reserved: Of these so many stay free for what stands outside the messages, such as the
            prompt's own words and the descriptions of tools.
    """

    tokens: int
    reserved: int = 0

    def __post_init__(self) -> None:
        """Refuse a budget that leaves nothing."""
        if self.tokens < 1 or not 0 <= self.reserved < self.tokens:
            msg = (
                "a context budget needs room for messages, got "
                f"context_tokens={self.tokens!r} and reserved_tokens={self.reserved!r}"
            )
            raise ConfigError(msg)

    def of_messages(self, wished: int) -> tuple[int, ...]:
        """Return the budgets of a thread's messages to try, until what cannot be cut fits.

        Args:
            wished: Tokens of recalled lines that are wished for.
        """
        room = self.tokens - self.reserved
        return (room - wished, room) if 0 < wished < room else (room,)

    def without(self, tokens: int) -> ContextBudget:
        """Return the budget with so many more tokens reserved, as far as there are any."""
        return replace(self, reserved=min(self.reserved + tokens, self.tokens - 1))

    def of_recall(self, wished: int, messages: int) -> int:
        """Return how many tokens of recalled lines fit behind messages of so many tokens."""
        return max(min(wished, self.tokens - self.reserved - messages), 0)


def within(
    head: Sequence[Piece],
    body: Sequence[Piece],
    max_tokens: int | None,
    count: TokenCount,
    repairs: list[str],
) -> tuple[list[Piece], int]:
    """Return the head and the latest exchanges that fit, and how many tokens they are.

    Args:
        head: What stands before the conversation; never cut.
        body: The conversation. System messages in it are kept, also those of exchanges that go.
        max_tokens: The budget; None for no limit.
        count: Counts the tokens of messages; it need not be additive.
        repairs: Receives a sentence when something was left out.

    Raises:
        BudgetError: If what must not be cut is larger than the budget.
    """
    if max_tokens is None:
        return [*head, *body], _weight([*head, *body], count)
    starts = [number for number, piece in enumerate(body) if piece.role == "user"] or [0]
    kept = _kept(head, body, starts[-1])
    needed = _weight(kept, count)
    if needed > max_tokens:
        msg = (
            f"the system messages and the latest exchange need {needed} tokens, "
            f"more than the budget of {max_tokens}; raise it or shorten them"
        )
        raise BudgetError(msg, needed=needed, available=max_tokens)
    start = _first_that_fits(body, starts, max_tokens - needed, count)
    kept = _kept(head, body, start)
    weight = _weight(kept, count)
    # Counters need not be additive: the whole may weigh more than its parts.
    while start < starts[-1] and weight > max_tokens:
        start = next(later for later in starts if later > start)
        kept = _kept(head, body, start)
        weight = _weight(kept, count)
    if any(piece.role != "system" for piece in body[:start]):
        repairs.append(f"left out older messages to stay within {max_tokens} tokens")
        if _forget_thoughts(body[start : starts[-1]], repairs):
            weight = _weight(kept, count)
    return kept, weight


def _first_that_fits(
    body: Sequence[Piece], starts: Sequence[int], room: int, count: TokenCount
) -> int:
    start = starts[-1]
    for earlier in reversed(starts[:-1]):
        room -= _weight([piece for piece in body[earlier:start] if piece.role != "system"], count)
        if room < 0:
            break
        start = earlier
    return start


def _kept(head: Sequence[Piece], body: Sequence[Piece], start: int) -> list[Piece]:
    earlier = (piece for piece in body[:start] if piece.role == "system")
    return [*head, *earlier, *body[start:]]


def _weight(pieces: Sequence[Piece], count: TokenCount) -> int:
    return count([piece.message for piece in pieces])


def _forget_thoughts(pieces: Sequence[Piece], repairs: list[str]) -> bool:
    """Take reasoning out of earlier exchanges: they were thought behind what is cut now.

    Returns:
        Whether there was any.
    """
    forgotten = [piece.message.id for piece in pieces if without_reasoning(piece.message)]
    repairs.extend(
        f"left out the reasoning of {name}: it was thought behind what is cut" for name in forgotten
    )
    return bool(forgotten)


# -- Where the part of a thread begins that its next view needs, so that no view reads an archive --


_FORM = 1


_MOST_KEPT = 32


_RESERVE = 1.25


"""A note made for a budget reaches back so many times as far, since budgets and threads change."""


@dataclass(frozen=True, slots=True)
class LivePart:
    """What a view needs of a thread that was read up to `upto`.

    Attributes:
        upto: The newest position when this was noted.
        newest_id: Id of the entry there; ids made later are greater.
        floor: Entries up to this position are not needed, but for those at `kept`.
        kept: Their positions: system messages and the live summary, with what they replaced.
        summary_id: The live summary's entry, if there was one.
        speakers: Up to two names that messages up to `floor` bear.
        is_whole: Whether nothing that a model would read lies before it. Otherwise it serves only
            views that leave something of it out for their budget.
        reach: So many tokens lie behind `floor` at least; 0 if all that counts does.
    """

    upto: int
    newest_id: str
    floor: int
    kept: tuple[int, ...]
    summary_id: str | None
    speakers: tuple[str, ...]
    is_whole: bool
    reach: int

    @classmethod
    def of(cls, document: Any) -> Self | None:
        """Return the note of a state document; None if it is none that this release wrote."""
        if not isinstance(document, dict) or document.get("form") != _FORM:
            return None
        fields = {name: value for name, value in document.items() if name != "form"}
        lists = {name: tuple(fields[name]) for name in ("kept", "speakers")}
        return cls(**{**fields, **lists})

    def to_document(self) -> dict[str, Any]:
        """Return the note as a state document."""
        return {
            "form": _FORM,
            "upto": self.upto,
            "newest_id": self.newest_id,
            "floor": self.floor,
            "kept": list(self.kept),
            "summary_id": self.summary_id,
            "speakers": list(self.speakers),
            "is_whole": self.is_whole,
            "reach": self.reach,
        }


# -- reading on from a note -----------------------------------------------------------------------
def is_current(part: LivePart, entries: Sequence[Entry]) -> bool:
    """Return whether a view of these entries is the view of the whole thread.

    Args:
        part: What was noted.
        entries: The thread's entries at `part.kept` and behind `part.floor`, by position.
    """
    by_id = {entry.id: entry for entry in entries}
    positions = {entry.position for entry in entries}
    fresh = [entry for entry in entries if entry.position > part.upto]
    known = {entry.turn_id for entry in entries if entry.position <= part.upto}
    return (
        positions.issuperset(part.kept)
        and _still_stands(part.summary_id, entries)
        and all(_is_known(name, by_id) for entry in fresh for name in _retracts(entry))
        and _begin_here(fresh, known, part.newest_id)
        and (part.is_whole or _are_asked_here(fresh, entries))
    )


def _retracts(entry: Entry) -> tuple[str, ...]:
    return () if entry.control is None else entry.control.retracts


def _still_stands(summary_id: str | None, entries: Sequence[Entry]) -> bool:
    """Return whether the summary is the live one, or the live one continues it."""
    if summary_id is None:
        return True
    chain = summary_chain(live_entries(entries))
    return summary_id in {summary.id for summary in chain}


def _is_known(entry_id: str, by_id: dict[str, Entry]) -> bool:
    """Return whether an entry is among these, and all that it retracts itself."""
    entry = by_id.get(entry_id)
    return entry is not None and all(_is_known(name, by_id) for name in _retracts(entry))


def _begin_here(fresh: Iterable[Entry], known: Collection[str], newest_id: str) -> bool:
    """Return whether no entry belongs to a turn that began before the noted part."""
    begun = set(known)
    for entry in fresh:
        turn = entry.turn_id
        is_new = turn == entry.id or (is_ulid(turn) and turn > newest_id)
        if entry.control is None and turn not in begun and not is_new:
            return False
        begun.add(turn)
    return True


def _are_asked_here(fresh: Iterable[Entry], entries: Sequence[Entry]) -> bool:
    """Return whether every new tool result has its call among the entries."""
    results = [entry.id for entry in fresh if entry.role == "tool"]
    return not results or {
        result for _, result in answered_calls(live_entries(entries))
    }.issuperset(results)


def reads_alone(page: Sequence[Entry]) -> bool:
    """Return whether the latest entries of a thread refer to nothing before the first of them."""
    if not page:
        return True
    first = page[0]
    part = LivePart(first.position, first.id, first.position, (), None, (), True, 0)
    return is_current(part, page[1:])


# -- noting ---------------------------------------------------------------------------------------
def narrowed(
    entries: Sequence[Entry],
    before: LivePart | None,
    *,
    max_tokens: int | None,
    token_counter: TokenCount,
    min_saved: int = 32,
) -> LivePart | None:
    """Return a note of what the next view needs; None where it would save too little.

    Args:
        entries: The thread's entries by position, or those that `before` says are needed.
        before: What was noted earlier, if `entries` are not the whole thread.
        max_tokens: The budget of the view, if it has one.
        token_counter: Counts the tokens of messages.
        min_saved: A note that saves fewer entries is not worth writing.
    """
    live = live_entries(entries)
    shown = uncovered(live)
    said = [entry for entry in shown if entry.role != "system"]
    # Two budgets in turn must not narrow and widen each other's note for ever.
    reach = max(round(_RESERVE * (max_tokens or 0)), 0 if before is None else before.reach)
    needed = _latest(said, reach, token_counter) if max_tokens or reach else said
    summary = live_summary(live)
    framing = [entry for entry in shown if entry.role == "system"]
    framing += [] if summary is None else [summary]
    floor = _floor(entries, needed)
    kept = sorted(position for position in _origins(entries, framing) if position <= floor)
    saved = sum(entry.position <= floor for entry in entries) - len(kept)
    if saved < min_saved or len(kept) > _MOST_KEPT:
        return None
    earlier = [entry for entry in live if entry.position <= floor and entry.position not in kept]
    speakers = () if before is None else before.speakers
    is_whole = len(needed) == len(said) and (before is None or before.is_whole)
    return LivePart(
        upto=entries[-1].position,
        newest_id=entries[-1].id,
        floor=floor,
        kept=tuple(kept),
        summary_id=None if summary is None else summary.id,
        speakers=first_speakers(earlier, speakers),
        is_whole=is_whole,
        reach=0 if is_whole else reach,
    )


def _latest(said: Sequence[Entry], tokens: int, count: TokenCount) -> Sequence[Entry]:
    """Return the latest exchanges that weigh so much, or all there are."""
    weight = 0
    for number in range(len(said) - 1, 0, -1):
        entry, earlier = said[number], said[number - 1]
        weight += 0 if entry.message is None else count([entry.message])
        if weight >= tokens and entry.role == "user" and earlier.role != "user":
            return said[number:]
    return said


def _floor(entries: Sequence[Entry], needed: Sequence[Entry]) -> int:
    """Return the position up to which nothing is needed, and no turn or tool loop is cut."""
    end = entries[-1].position if entries else 0
    floor = min(_origins(entries, needed), default=end + 1) - 1
    reaches = [*_turn_spans(entries), *_call_spans(entries)]
    while True:
        cut = [first for first, last in reaches if first <= floor < last]
        if not cut:
            return floor
        floor = min(cut) - 1


def _turn_spans(entries: Iterable[Entry]) -> Iterator[tuple[int, int]]:
    spans: dict[str, tuple[int, int]] = {}
    for entry in entries:
        if entry.control is None and entry.role not in ("system", "summary"):
            first, _ = spans.get(entry.turn_id, (entry.position, 0))
            spans[entry.turn_id] = (first, entry.position)
    return iter(spans.values())


def _call_spans(entries: Sequence[Entry]) -> Iterator[tuple[int, int]]:
    at = {entry.id: entry.position for entry in entries}
    for call, result in answered_calls(live_entries(entries)):
        yield at[call], at[result]


def _origins(entries: Sequence[Entry], shown: Iterable[Entry]) -> set[int]:
    """Return the positions of entries, of what they replaced, and of what says so."""
    at = {entry.id: entry for entry in entries}
    dead = retracted_ids(entries)
    replacing = {
        entry.control.replacement: entry
        for entry in entries
        if entry.control is not None and entry.id not in dead
    }
    found: set[int] = set()
    waiting = list(shown)
    while waiting:
        entry = waiting.pop()
        if entry.position not in found:
            found.add(entry.position)
            control = replacing.get(entry.id)
            origins = () if control is None else (control.id, *_retracts(control)[:1])
            waiting.extend(at[name] for name in origins if name in at)
    return found
