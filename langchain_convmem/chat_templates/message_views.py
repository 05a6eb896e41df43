"""Messages and loops as a template sees them while it is run message by message.

Both notice every look at where the conversation ends: what a template writes before it looks cannot
change when the conversation goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

__all__ = ["Chat", "MessageView", "NotSeparableError", "WalkedLoop", "first_shown"]

Message = dict[str, Any]


class NotSeparableError(Exception):
    """A template does what cannot be followed message by message; it is rendered whole."""


class Chat:
    """The messages a template runs over; they are set anew for every run.

    Attributes:
        messages: All so far.
        end_seen: Whether the template has learned where they end.
    """

    __slots__ = ("end_seen", "messages")

    def __init__(self) -> None:
        self.messages: Sequence[Message] = ()
        self.end_seen = False


class MessageView:
    """`messages`, or `messages[n:]`, read-only.

    It has no public names: lists have none that a template may use.
    """

    __slots__ = ("_chat", "_offset")

    def __init__(self, chat: Chat, offset: int = 0) -> None:
        self._chat = chat
        self._offset = offset

    def _known(self) -> int:
        return max(0, len(self._chat.messages) - self._offset)

    def _whole(self) -> list[Message]:
        self._chat.end_seen = True
        return list(self._chat.messages[self._offset :])

    def __len__(self) -> int:
        self._chat.end_seen = True
        return self._known()

    def __bool__(self) -> bool:
        if self._known():
            return True
        self._chat.end_seen = True
        return False

    def __iter__(self) -> Iterator[Message]:
        number = self._offset
        while number < len(self._chat.messages):
            yield self._chat.messages[number]
            number += 1
        self._chat.end_seen = True

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self._slice(key)
        if isinstance(key, int) and 0 <= key < self._known():
            return self._chat.messages[self._offset + key]
        return self._whole()[key]

    def _slice(self, key: slice) -> Any:
        start, stop = key.start or 0, key.stop
        is_plain = key.step in (None, 1) and isinstance(start, int) and start >= 0
        if is_plain and stop is None:
            return MessageView(self._chat, self._offset + start)
        if is_plain and isinstance(stop, int) and 0 <= stop <= self._known():
            return list(self._chat.messages[self._offset + start : self._offset + stop])
        return self._whole()[key]

    def __add__(self, other: Any) -> Any:
        return self._whole() + (other._whole() if isinstance(other, MessageView) else other)

    def __radd__(self, other: Any) -> Any:
        return other + self._whole()

    def __eq__(self, other: object) -> bool:
        return self._whole() == (other._whole() if isinstance(other, MessageView) else other)

    __hash__ = None  # type: ignore[assignment]  # lists have none either

    def __str__(self) -> str:
        return str(self._whole())

    __repr__ = __str__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSeparableError(f"it uses messages.{name}")


def first_shown(view: Any, chat: Chat) -> int | None:
    """Return the number of the first message that a view of the chat shows, None for others."""
    is_view = isinstance(view, MessageView) and view._chat is chat  # noqa: SLF001
    return view._offset if is_view else None  # noqa: SLF001


class WalkedLoop:
    """`loop` of the loop over the messages, for one of them."""

    __slots__ = ("_chat", "_memo", "_offset", "_undefined", "index0")

    depth = 1
    depth0 = 0

    def __init__(
        self,
        chat: Chat,
        offset: int,
        index0: int,
        memo: dict[str, Any],
        undefined: Callable[[str], Any],
    ) -> None:
        self._chat = chat
        self._offset = offset
        self._memo = memo
        self._undefined = undefined
        self.index0 = index0

    @property
    def index(self) -> int:
        """The number of the message, from 1."""
        return self.index0 + 1

    @property
    def first(self) -> bool:
        """Whether it is the first."""
        return self.index0 == 0

    @property
    def length(self) -> int:
        """How many messages there are."""
        self._chat.end_seen = True
        return max(0, len(self._chat.messages) - self._offset)

    def __len__(self) -> int:
        return self.length

    @property
    def revindex(self) -> int:
        """How many messages there are from this one on."""
        return self.length - self.index0

    @property
    def revindex0(self) -> int:
        """How many messages follow."""
        return self.length - self.index

    @property
    def last(self) -> bool:
        """Whether it is the last."""
        # What is not the last message will never be; what is may cease to be.
        if self._offset + self.index < len(self._chat.messages):
            return False
        self._chat.end_seen = True
        return True

    @property
    def nextitem(self) -> Any:
        """The message behind it."""
        following = self._offset + self.index
        if following < len(self._chat.messages):
            return self._chat.messages[following]
        self._chat.end_seen = True
        return self._undefined("there is no next item")

    @property
    def previtem(self) -> Any:
        """The message before it."""
        if self.first:
            return self._undefined("there is no previous item")
        return self._chat.messages[self._offset + self.index0 - 1]

    def cycle(self, *values: Any) -> Any:
        """Return the value whose turn it is."""
        if not values:
            raise TypeError("no items for cycling given")
        return values[self.index0 % len(values)]

    def changed(self, *values: Any) -> bool:
        """Return whether the values differ from those of the last call."""
        if self._memo.get("changed") == values:
            return False
        self._memo["changed"] = values
        return True

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotSeparableError(f"it uses loop.{name}")

    def __str__(self) -> str:
        raise NotSeparableError("it prints the loop")

    __repr__ = __str__
