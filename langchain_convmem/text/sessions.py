"""What reads text and goes on with it: sessions of a model that knows nothing of messages.

First what any of them promises, then what our own engines have in common. A class that derives from
`ModelSession` or `TextEngine` inherits what it does not define.

Optional abilities are protocols of their own, asked for once with `isinstance`.
Asynchronous methods carry the prefix `a` and keep every promise of their synchronous form.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

from langchain_convmem.background import hop
from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError, ConversationError
from langchain_convmem.text.chat_template import ChatTemplate
from langchain_convmem.text.control_tokens import MEDIA_MARKS


@dataclass(frozen=True, slots=True)
class Media:
    """A picture or sound in a prompt, at the position of its mark in the text."""

    kind: Literal["image", "audio"]
    data: bytes
    mime_type: str


Part: TypeAlias = str | Media
"""What a session reads."""


@runtime_checkable
class ModelSession(Protocol):
    """The state of a model: everything it has read and written.

    To write your own, derive from this class and define `prefill`, `decode` and `reset`. Their
    asynchronous forms call them in a thread.

    One caller at a time. It applies no template of its own, and adds no text of its own. After an
    error, or a decode that was left early, its state is unknown until it is rewound or reset.
    """

    holds_stop: bool = False
    """Whether its state contains the stop text at which a decode ended."""

    finish_reason: Literal["stop", "length"] | None = None
    """Why the latest decode ended; None before the first, and while one runs."""

    stop_text: str = ""
    """The stop text at which the latest decode ended; empty if at none."""

    @abstractmethod
    def prefill(self, parts: Sequence[Part]) -> None:
        """Read text and media, after all that was read and written before."""

    async def aprefill(self, parts: Sequence[Part]) -> None:
        """Read text and media; see `prefill`. If cancelled, waits until they are read."""
        await hop(partial(self.prefill, parts))

    @abstractmethod
    def decode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> Iterator[str]:
        """Write on, and yield the text as it comes: every character of it, unchanged.

        Args:
            stop: Texts that end the reply, besides the model's own end; not yielded.
            max_tokens: The most tokens to write; None is the session's own limit.
            **options: What else the model takes, such as `temperature`.
        """

    async def adecode(
        self, *, stop: Sequence[str] = (), max_tokens: int | None = None, **options: Any
    ) -> AsyncIterator[str]:
        """Write on, each piece in a thread; see `decode`."""
        pieces = iter(self.decode(stop=stop, max_tokens=max_tokens, **options))
        while (piece := await hop(partial(next, pieces, None))) is not None:
            yield piece

    @abstractmethod
    def reset(self) -> None:
        """Forget everything: as new. Never blocks for long."""

    def close(self) -> None:
        """Release what it holds. Idempotent."""


@runtime_checkable
class RewindableSession(Protocol):
    """A session that can go back."""

    def checkpoint(self) -> Any:
        """Return a mark of the state as it is. Cheap."""

    def rewind(self, checkpoint: Any) -> None:
        """Go back to a mark of this session, or of the one that it was cloned from. Cheap.

        Raises:
            ConversationError: If the mark is not of this session, or lies after a rewind.
        """


@runtime_checkable
class ClonableSession(Protocol):
    """A session that can be copied with its state."""

    def clone(self) -> ModelSession:
        """Return a session that goes on from here by itself."""


@runtime_checkable
class TokenCountingSession(Protocol):
    """A session that can count the tokens it holds."""

    @property
    def token_count(self) -> int:
        """Tokens of its state."""


@runtime_checkable
class PiecewiseSession(Protocol):
    """A session that makes tokens of each text of a prefill by itself, so that none lies across.

    Where a message spells a control token, the text is cut inside it, and stays what it was. Other
    sessions get it in one text, with a blank there.
    """

    reads_pieces: Literal[True]


@runtime_checkable
class TokenNamingEngine(Protocol):
    """An engine that knows the tokens that are parts of no word, such as `<|im_start|>`."""

    @property
    def control_tokens(self) -> Collection[str]:
        """What no text of a message may become in a prompt."""


@runtime_checkable
class TextEngine(Protocol):
    """A model that hands out sessions. Thread-safe; the sessions are not.

    To write your own, derive from this class and define `create_session`.
    """

    template: ChatTemplate | None = None
    """How conversations are written for it; None if it does not know."""

    reply_format: str | None = None
    """Name of the format of its replies; None if it does not know."""

    stop: Sequence[str] = ()
    """Texts that end its replies."""

    @abstractmethod
    def create_session(self) -> ModelSession:
        """Return a new, empty session."""

    def close(self) -> None:
        """Release the model. Idempotent."""


# -- What our own engines and their sessions have in common ---------------------------------------


MOST_STOPS = 4
"""Many services take no more; a text is cut at all of them here in any case."""


def load_template(template: Any) -> Any:
    """Return a template as it is, or the built-in of a name."""
    return ChatTemplate.from_builtin(template) if isinstance(template, str) else template


def shows_pictures(template: Any) -> bool:
    """Return whether a template, or the built-in of a name, has a place for pictures."""
    found = load_template(template)
    return found is not None and any(mark in found.source for mark in MEDIA_MARKS["image"])


def read_stops(given: Any) -> tuple[str, ...]:
    """Return the texts that end a reply, given as one text, as several, or as None.

    Raises:
        ConfigError: If they are anything else.
    """
    texts = (given,) if isinstance(given, str) else given or ()
    if not isinstance(texts, Collection) or not all(isinstance(one, str) for one in texts):
        raise ConfigError(f"stop must be a text or a list of texts, got {describe_value(given)}")
    return tuple(texts)


class KeptEngine(TextEngine):
    """What all our engines say of themselves, and whether they are closed."""

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
        self.stop = read_stops(stop)
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


class KeptSession(ModelSession):
    """A session whose state is a list that grows; a mark is a length that it once had."""

    def __init__(
        self, engine: Any, items: Sequence[Any] = (), known: Sequence[SessionCheckpoint] = ()
    ) -> None:
        """Begin with nothing, or with what a session holds that this one is cloned from."""
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
