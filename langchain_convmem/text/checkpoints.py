"""What sessions of our engines have in common: marks to go back to, and how they end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from langchain_convmem.errors import ConfigError, ConversationError
from langchain_convmem.text.sessions import Part


class SessionCheckpoint:
    """A length that a session once had. It is known by itself, not by its length."""

    __slots__ = ("length",)

    def __init__(self, length: int) -> None:
        self.length = length


class KeptSession:
    """A session whose state is a list that grows; a mark is a length that it once had."""

    holds_stop = False

    def __init__(self, engine: Any, known: Sequence[SessionCheckpoint] = ()) -> None:
        """Begin empty, or with the marks of the session that this one is cloned from."""
        self.finish_reason: Literal["stop", "length"] | None = None
        self.stop_text = ""
        self.engine = engine
        self._known = list(known)
        self._is_closed = False

    @property
    def length(self) -> int:
        """How much it holds."""
        raise NotImplementedError

    def cut(self, length: int) -> None:
        """Forget what comes after the first `length`, and marks there."""
        self._known = [known for known in self._known if known.length <= length]

    def checkpoint(self) -> SessionCheckpoint:
        """Return a mark of the state as it is."""
        self.check_open()
        self._known.append(SessionCheckpoint(self.length))
        return self._known[-1]

    def rewind(self, checkpoint: Any) -> None:
        """Go back to a mark.

        Raises:
            ConversationError: If it is not of this session, or was rewound past.
        """
        self.check_open()
        if all(known is not checkpoint for known in self._known):
            raise ConversationError(
                "the session has no such checkpoint: it belongs to another session, or the session "
                "went back to before it; take a new one"
            )
        self.cut(checkpoint.length)

    def reset(self) -> None:
        """Forget everything; checkpoints, too."""
        self.check_open()
        self._known = []
        self.cut(0)

    def close(self) -> None:
        """Forget everything for good."""
        self._is_closed = True
        self.cut(0)

    def check_open(self) -> None:
        """Raise `ConversationError` if the session or its engine is closed."""
        self.engine.check_open()
        if self._is_closed:
            raise ConversationError("the session is closed; create another one")

    def list_texts(self, parts: Sequence[Part]) -> list[str]:
        """Return what a session that reads text only is to read.

        Raises:
            ConfigError: If there are media.
        """
        self.check_open()
        texts = [part for part in parts if isinstance(part, str)]
        if len(texts) < len(parts):
            raise ConfigError(f"{type(self).__name__} reads no images and no sounds")
        return texts
