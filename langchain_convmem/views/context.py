"""What a model gets: a list of messages that its provider accepts, within a token budget.

System text first, then a user turn, roles alternating around tool loops, every call answered right
behind it and every result owned, no empty text, nothing the provider does not take (see
`profiles`). What had to be mended is reported, never written back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Context, Entry
from langchain_convmem.views.budget import Piece, TokenCount, within
from langchain_convmem.views.copies import (
    block_type,
    clean_text,
    handed_out,
    is_blank_message,
    is_plain_text,
    message_key,
)
from langchain_convmem.views.live import live_entries, live_summary, uncovered
from langchain_convmem.views.profiles import Place, Profile, ProviderProfile, resolved
from langchain_convmem.views.profiles.blocks import BlockFitter
from langchain_convmem.views.profiles.limits import keep_newest
from langchain_convmem.views.profiles.names import (
    has_several_speakers,
    introduced,
    named,
    speaker_of,
)
from langchain_convmem.views.profiles.reasoning import (
    forget_dialect,
    has_reasoning,
    made_behind_another_beginning,
    without_idle_reasoning,
    without_reasoning,
)
from langchain_convmem.views.summary_text import shown_summary
from langchain_convmem.views.tokens import count_tokens
from langchain_convmem.views.tool_calls import (
    CALL_BLOCKS,
    INTERRUPTED_RESULT,
    INTERRUPTED_SOURCE,
    ToolCalls,
)
from langchain_convmem.views.turns import PLACEHOLDER_TEXT, placeholder_turn

__all__ = [
    "INTERRUPTED_RESULT",
    "INTERRUPTED_SOURCE",
    "SUMMARY_SOURCE",
    "Profile",
    "ProviderProfile",
    "SummaryPlace",
    "context",
]

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
