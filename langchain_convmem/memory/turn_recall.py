"""What a turn is shown of other conversations: the same for chains, graphs and agents."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_convmem.memory.rendering import in_sight
from langchain_convmem.records import Recall, RecalledBlock, ThreadKey
from langchain_convmem.steps import Steps

if TYPE_CHECKING:
    from langchain_convmem.recall import DialogRecall

__all__ = ["recalled_in_turn"]

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
