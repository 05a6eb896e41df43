"""A view within a token budget: whole exchanges are left out, oldest first, and nothing else.

An exchange is a user turn and all that follows it up to the next one, so no cut ever separates a
tool call from its result, and the latest exchange, with the question that waits for an answer,
stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.records import Role
from langchain_convmem.views.profiles.reasoning import without_reasoning

__all__ = ["ContextBudget", "Piece", "TokenCount", "within"]

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
