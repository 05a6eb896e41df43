"""The turn under way, as an agent's state keeps it from one run to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired

from langchain_core.messages import BaseMessage
from typing_extensions import TypedDict

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import ThreadKey

__all__ = ["TurnMark", "check_user", "settled_before"]


class TurnMark(TypedDict):
    """A turn as the agent's state keeps it: plain values, whatever the checkpointer allows."""

    id: str
    """The turn's id in the log, a ULID."""
    first: str
    """Id of the message it begins with."""
    user: str | None
    """Whose turn it is."""
    generation: NotRequired[int]
    """The log's generation of that user when the turn began; `forget` raises it."""
    settled: NotRequired[str | None]
    """Id of the last message of the state that was there when something was forgotten."""


def check_user(mark: TurnMark | None, key: ThreadKey) -> None:
    """Refuse to go on with somebody's state for somebody else.

    A checkpointer knows a thread by its id alone, and the config of a snapshot names no user.

    Raises:
        ConfigError: If the state holds a turn of another user than the run is for.
    """
    if mark is not None and mark["user"] not in (None, key.user_id):
        msg = (
            f"the agent's state in thread {key.thread_id!r} is of the user {mark['user']!r}, and "
            f"this run is for {key.user_id!r}; name that user in the config, or another thread"
        )
        raise ConfigError(msg)


def settled_before(
    spoken: Sequence[BaseMessage], start: int, mark: TurnMark | None, generation: int
) -> int:
    """Return how many messages, from the first on, are not stored again if the log lacks them.

    Something was forgotten since they were stored, and a state must not bring it back.

    Args:
        spoken: The messages of the state.
        start: Number of the message that a new turn begins with.
        mark: The turn before, if the same user's.
        generation: The log's generation of the user now.
    """
    if mark is None:
        return 0
    if mark.get("generation", generation) != generation:
        return start
    settled = mark.get("settled")
    places = (number for number, one in enumerate(spoken, 1) if one.id == settled)
    return 0 if settled is None else min(start, next(places, 0))
