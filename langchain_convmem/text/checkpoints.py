"""Where a session can go back to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from langchain_convmem.errors import ConversationError


class SessionCheckpoint:
    """A length that a session once had. It is known by itself, not by its length."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


class SessionCheckpoints:
    """The checkpoints of one session. Not thread-safe."""

    def __init__(self, known: Iterable[SessionCheckpoint] = ()) -> None:
        """Begin with those of the session that this one was cloned from."""
        self._known = list(known)

    def add(self, length: int) -> SessionCheckpoint:
        """Return a checkpoint at the end of what the session holds."""
        made = SessionCheckpoint(length)
        self._known.append(made)
        return made

    def check(self, checkpoint: object) -> SessionCheckpoint:
        """Return the checkpoint if it is one of these.

        Raises:
            ConversationError: If it is not, or not any more.
        """
        for known in self._known:
            if known is checkpoint:
                return known
        raise ConversationError(
            "the session has no such checkpoint: it belongs to another session, or the session "
            "went back to before it; take a new one"
        )

    def cut(self, length: int) -> None:
        """Forget those after `length`."""
        self._known = [known for known in self._known if known.length <= length]

    def copy(self) -> Self:
        """Return the same checkpoints for a clone."""
        return type(self)(self._known)
