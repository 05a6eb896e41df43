"""What a model gets of a thread, and of others, in one turn: the view and the recalled lines.

Both share one budget, where there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from langchain_core.messages import BaseMessage, HumanMessage

from langchain_convmem.history import LiveThread
from langchain_convmem.records import Context, Entry, Recall, RecalledBlock, ThreadKey
from langchain_convmem.steps import Steps
from langchain_convmem.turns.entries import framing, summary_text, user_text_before
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.rendering import in_sight, shown_blocks
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.views.budget import ContextBudget
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.context import Profile, SummaryPlace, context
from langchain_convmem.views.tokens import count_text_tokens, count_tokens

if TYPE_CHECKING:
    from langchain_convmem.recall import DialogRecall
    from langchain_convmem.turns.turn_memory import TurnMemory

__all__ = ["TurnView", "recalled_in_turn"]


@dataclass(frozen=True, slots=True)
class TurnView:
    """How a turn looks at its thread.

    Attributes:
        memory: Whose lines are recalled.
        key: The thread.
        human: What the user says.
        kept: What the write hook left of it, to search for.
        switches: Budgets and limits.
        slots: The places of the prompt that can be filled; None where it gets messages alone.
        profile: Whose rules the messages keep.
        trace: Where recall is told.
    """

    memory: TurnMemory
    key: ThreadKey
    human: HumanMessage
    kept: BaseMessage | None
    switches: TurnOptions
    slots: frozenset[str] | None
    profile: Profile
    trace: TurnTrace

    def has_slot(self, name: str) -> bool:
        """Return whether the prompt has a place of this name."""
        return self.slots is not None and name in self.slots

    def options(self, entries: Sequence[Entry]) -> dict[str, Any]:
        """Return the options of the view that is tried first."""
        return self._options(self._budgets(entries)[0])

    def _budgets(self, entries: Sequence[Entry]) -> tuple[int | None, ...]:
        """Return the budgets of the view to try, until what must not be cut fits."""
        own = self.switches.history_tokens
        # The history's budget does not count what the user says now.
        most = None if own is None else own + count_tokens([self.human])
        if self.switches.budget is None:
            return (most,)
        shares = self._budget(entries).of_messages(self._wished)
        return tuple(share if most is None else min(share, most) for share in shares)

    def _budget(self, entries: Sequence[Entry]) -> ContextBudget:
        """Return the budget of messages and recalled lines."""
        budget = cast(ContextBudget, self.switches.budget)
        if not self.has_slot("summary"):
            return budget
        # The prompt shows the summary in a place of its own, outside the messages.
        return budget.without(count_text_tokens(summary_text(entries)))

    @property
    def _wished(self) -> int:
        return self.memory.wished_tokens(self.switches.recall, self.switches.max_tokens)

    def _options(self, budget: int | None) -> dict[str, Any]:
        place: SummaryPlace = "omit" if self.has_slot("summary") else "system"
        return {"profile": self.profile, "max_tokens": budget, "summary": place}

    def viewed(self, thread: LiveThread) -> Context | None:
        """Return the messages up to the user's; see `LiveThread.viewed`."""
        views = (thread.viewed(**self._options(budget)) for budget in self._budgets(thread.entries))
        return next((view for view in views if view is not None), None)

    def viewed_without_unanswered(self, thread: LiveThread) -> Context:
        """Return the user's message alone behind the system messages.

        What was said before and never answered is one exchange with it, which is never cut; but an
        old message must not block the thread for good.
        """
        *before, asked = thread.entries
        return context([*framing(before), asked], **self._options(self._budgets(before)[-1]))

    def recalled(
        self, entries: Sequence[Entry], view: Context, seen: Collection[int]
    ) -> Steps[tuple[Sequence[RecalledBlock], str]]:
        """Return lines of other places than what the model sees anyway, and how it reads them.

        A turn that is tried again must not quote its own earlier answer, nor what followed.
        """
        limits: dict[str, Any] = {**self.switches.recall_limits}
        room: int | None = None
        if self.switches.budget is not None:
            room = self._budget(entries).of_recall(self._wished, view.tokens)
            limits["max_tokens"] = room
        if not self.switches.recall or room == 0:
            return (), ""
        blocks, by_time = yield from recalled_in_turn(
            self.memory.line_recall,
            self.key,
            "" if self.kept is None else "\n".join(text_pieces(self.kept)),
            seen,
            before=user_text_before(entries, entries[-1].turn_id if entries else None),
            remember=self.switches.remember,
            watched=self.trace.recalled,
            **limits,
        )
        return shown_blocks(blocks, by_time=by_time, max_tokens=room)


# -- recalled lines -------------------------------------------------------------------------------

_PATIENCE_S = 0.3
"""How long a turn waits for lines of other threads that were said a moment ago."""

Watched: TypeAlias = "Callable[[str, Callable[[], Steps[Recall]]], Steps[Recall]]"


def recalled_in_turn(
    engine: DialogRecall,
    key: ThreadKey,
    query: str,
    seen: Collection[int],
    *,
    before: str | None = None,
    remember: bool = True,
    watched: Watched | None = None,
    **limits: Any,
) -> Steps[tuple[tuple[RecalledBlock, ...], bool]]:
    """Return the blocks that a model is shown, and whether they come by time, oldest first.

    Where there is nothing to search for, they are those of the relevance buffer, if there is one.

    Args:
        engine: Finds the lines.
        key: The thread of the turn.
        query: What to search for; empty for nothing.
        seen: Positions of the thread that the model sees anyway.
        before: What the user said just before in the thread.
        remember: Whether what is found enters the buffer.
        watched: Runs the recall where somebody watches it.
        **limits: How much; see `RecallOptions`.
    """
    exclude = {key: seen}
    if query:
        recall = partial(
            engine.recall_steps,
            key.owner,
            query,
            exclude=exclude,
            buffer=key,
            before=before,
            remember=remember,
            patience_s=_PATIENCE_S,
            **limits,
        )
        found = yield from (recall() if watched is None else watched(query, recall))
    else:
        found = yield from engine.buffer_steps(key, exclude=exclude, **limits)
    return in_sight(found, has_buffer=bool(engine.settings.buffer_size))
