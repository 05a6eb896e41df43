"""A view within a token budget: whole exchanges are left out, oldest first, and nothing else.

An exchange is a user turn and all that follows it up to the next one, so no cut ever separates a
tool call from its result, and the latest exchange, with the question that waits for an answer,
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import BudgetError
from langchain_convmem.records import Role
from langchain_convmem.views.profiles.reasoning import without_reasoning

__all__ = ["Piece", "TokenCount", "within"]

TokenCount: TypeAlias = Callable[[Sequence[BaseMessage]], int]


@dataclass(slots=True)
class Piece:
    """A message of a view under construction.

    Attributes:
        role: Whose message it is.
        message: The message.
        positions: Positions of the entries it shows.
    """

    role: Role
    message: BaseMessage
    positions: set[int] = field(default_factory=set)


def within(
    head: Sequence[Piece],
    body: Sequence[Piece],
    max_tokens: int | None,
    count: TokenCount,
    repairs: list[str],
) -> list[Piece]:
    """Return the head and the latest exchanges that fit.

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
        return [*head, *body]
    starts = [number for number, piece in enumerate(body) if piece.role == "user"] or [0]
    kept = _kept(head, body, starts[-1])
    needed = _weight(kept, count)
    if needed > max_tokens:
        msg = (
            f"the system messages and the latest exchange need {needed} tokens, "
            f"more than max_tokens={max_tokens}; raise the budget or shorten them"
        )
        raise BudgetError(msg, needed=needed, available=max_tokens)
    start = _first_that_fits(body, starts, max_tokens - needed, count)
    # Counters need not be additive: the whole may weigh more than its parts.
    while start < starts[-1] and _weight(_kept(head, body, start), count) > max_tokens:
        start = next(later for later in starts if later > start)
    cut = [piece for piece in body[:start] if piece.role != "system"]
    if cut:
        repairs.append(f"left out older messages to stay within {max_tokens} tokens")
        _forget_thoughts(body[start : starts[-1]], repairs)
    return _kept(head, body, start)


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


def _forget_thoughts(pieces: Sequence[Piece], repairs: list[str]) -> None:
    """Take reasoning out of earlier exchanges: they were thought behind what is cut now."""
    repairs.extend(
        f"left out the reasoning of {piece.message.id}: it was thought behind what is cut"
        for piece in pieces
        if without_reasoning(piece.message)
    )
