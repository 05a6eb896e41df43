"""What our engines and their sessions have in common: a template, marks to go back to, an end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from langchain_convmem.errors import ConfigError, ConversationError
from langchain_convmem.text import ChatTemplate
from langchain_convmem.text.sessions import Part

MOST_STOPS = 4
"""Many services take no more; a text is cut at all of them here in any case."""


def load_template(template: Any) -> Any:
    """Return a template as it is, or the built-in of a name."""
    return ChatTemplate.from_builtin(template) if isinstance(template, str) else template


class KeptEngine:
    """What all our engines say of themselves, and whether they are closed."""

    template: ChatTemplate | None

    def __init__(
        self,
        template: ChatTemplate | str | None,
        reply_format: str | None,
        stop: Sequence[str],
        max_tokens: int,
        options: Mapping[str, Any],
    ) -> None:
        """Keep what sessions go by; see the engines."""
        self.template = load_template(template)
        self.reply_format = reply_format
        self.stop = tuple(stop)
        self.max_tokens = max_tokens
        self.options = dict(options)
        self._is_closed = False

    def close(self) -> None:
        """Refuse everything from here on. Idempotent."""
        self._is_closed = True

    def check_open(self) -> None:
        """Raise `ConversationError` if the engine is closed."""
        if self._is_closed:
            raise ConversationError("the engine is closed; create another one")


@dataclass(eq=False, slots=True)
class SessionCheckpoint:
    """A length that a session once had. It is known by itself, not by its length."""

    length: int


class KeptSession:
    """A session whose state is a list that grows; a mark is a length that it once had."""

    holds_stop = False

    def __init__(
        self, engine: Any, items: Sequence[Any] = (), known: Sequence[SessionCheckpoint] = ()
    ) -> None:
        """Begin with nothing, or with what a session holds that this one is cloned from."""
        self.finish_reason: Literal["stop", "length"] | None = None
        self.stop_text = ""
        self.engine = engine
        self._items = list(items)
        self._known = list(known)
        self._is_closed = False

    def cut(self, length: int) -> None:
        """Forget what comes after the first `length` items, and marks there."""
        self._known = [known for known in self._known if known.length <= length]
        del self._items[length:]

    def checkpoint(self) -> SessionCheckpoint:
        """Return a mark of the state as it is."""
        self.check_open()
        self._known.append(SessionCheckpoint(len(self._items)))
        return self._known[-1]

    def rewind(self, checkpoint: Any) -> None:
        """Go back to a mark.

        Raises:
            ConversationError: If it is not of this session, or was rewound past.
        """
        self.check_open()
        if all(known is not checkpoint for known in self._known):
            raise ConversationError(
                "no such checkpoint: it is another session's, or was rewound past; take a new one"
            )
        self.cut(checkpoint.length)

    def clone(self) -> Self:
        """Return a session that goes on from here by itself."""
        self.check_open()
        return type(self)(self.engine, self._items, self._known)

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
