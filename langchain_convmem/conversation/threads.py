"""Where a conversation keeps its history if it has no memory: a list, or any chat history."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableConfig

from langchain_convmem.conversation.inputs import copied
from langchain_convmem.effects import Step, Steps, step
from langchain_convmem.errors import (
    ConfigError,
    HistoryWriteError,
    InvalidMessageError,
    UnknownCheckpointError,
    UnsupportedError,
)
from langchain_convmem.ids import new_ulid
from langchain_convmem.protocols import ThreadView
from langchain_convmem.views.drafts import cut_to_heard

__all__ = ["ListThread", "MessageStore"]


@runtime_checkable
class MessageStore(Protocol):
    """Any chat history of LangChain, by its shape."""

    @property
    def messages(self) -> Sequence[BaseMessage]:
        """All messages."""
        ...

    def add_messages(self, messages: Sequence[BaseMessage], /) -> None:
        """Store messages."""
        ...


class ListThread:
    """A history in a list; what is said goes to a store as well, if there is one.

    Reading is thread-safe; one turn writes at a time.
    """

    gate = None

    def __init__(
        self,
        messages: Sequence[BaseMessage] = (),
        starts: Sequence[int] | None = None,
        store: MessageStore | None = None,
    ) -> None:
        """Begin with messages.

        Args:
            messages: What was said, oldest first.
            starts: Where turns begin, as numbers of messages; None goes by the user's messages.
            store: Where later turns are stored.
        """
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = threading.RLock()
        self._messages = _named(messages)
        self._starts = _beginnings(self._messages) if starts is None else list(starts)
        self._store = store

    def __repr__(self) -> str:
        return f"{len(self._messages)} messages"

    @property
    def starts(self) -> list[int]:
        """Where turns begin, as numbers of messages."""
        with self._lock:
            return list(self._starts)

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config as it is: a list has no name."""
        return config

    def select_asked_steps(self, sent: Sequence[BaseMessage]) -> Steps[list[BaseMessage]]:
        """Return everything: what is sent is said now; see `ThreadMemory`."""
        yield from ()
        return list(sent)

    def view_steps(self, asked: Sequence[BaseMessage]) -> Steps[ThreadView]:
        """Return everything; see `ThreadMemory`."""
        yield from ()
        with self._lock:
            return ThreadView(tuple(self._messages), tuple(asked))

    def begin_steps(
        self, asked: Sequence[BaseMessage], view: ThreadView, asked_ms: int
    ) -> Steps[None]:
        """Do nothing: a list does not outlive the process, and a store takes nothing back."""
        del asked, view, asked_ms
        yield from ()

    def add_steps(
        self, said: Sequence[BaseMessage], view: ThreadView, timing: Mapping[str, int]
    ) -> Steps[None]:
        """Store the turn, what was asked included; see `ThreadMemory`."""
        del timing
        named = _named([*view.asked, *said])
        if self._store is not None:
            yield from self._stored(named)
        with self._lock:
            self._starts.append(len(self._messages))
            self._messages += named

    def _stored(self, messages: Sequence[BaseMessage]) -> Steps[None]:
        copies = [copied(message) for message in messages]
        reply = messages[-1].text if isinstance(messages[-1], AIMessage) else ""
        try:
            yield step(self._store, "add_messages", copies)
        # Border to foreign code: a store may fail in any way, and the reply must not be lost.
        except Exception as error:
            msg = f"the turn could not be stored ({error!r:.200}); the reply is in `text`"
            raise HistoryWriteError(msg, text=reply) from error

    def failed_steps(
        self, said: Sequence[BaseMessage], view: ThreadView, reason: Literal["failed", "cancelled"]
    ) -> Steps[None]:
        """Forget the turn: a list keeps no failures."""
        del said, view, reason
        yield from ()

    def messages_steps(self) -> Steps[list[BaseMessage]]:
        """Return copies of all messages."""
        yield from ()
        return [copied(message) for message in self.view()]

    def view(self) -> tuple[BaseMessage, ...]:
        """Return the messages themselves; they must not be changed."""
        with self._lock:
            return tuple(self._messages)

    def undo_steps(self, turns: int) -> Steps[list[BaseMessage]]:
        """Take back the last turns; see `ThreadMemory`."""
        yield from ()
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ConfigError(f"turns must be a whole number of at least 1, got {turns!r}")
        with self._lock:
            first = self._starts[-turns] if turns <= len(self._starts) else 0
            return self._cut(first)

    def cut_steps(self, heard: int | str, message_id: str | None) -> Steps[BaseMessage | None]:
        """Cut a reply to what was heard of it; see `ThreadMemory`."""
        yield from ()
        with self._lock:
            number = self._find_reply(message_id)
            cut = cut_to_heard(self._messages[number], heard)
            if cut is self._messages[number]:
                return copied(cut)
            self._check_writable()
            # Another object in its place: a clone may hold the reply too.
            self._messages[number : number + 1] = [] if cut is None else [cut]
            if cut is None:
                self._starts = [start - (start > number) for start in self._starts]
        return None if cut is None else copied(cut)

    def _find_reply(self, message_id: str | None) -> int:
        """Return the number of a reply, or of the latest one."""
        for number in reversed(range(len(self._messages))):
            message = self._messages[number]
            if message_id is not None and message.id == message_id:
                if isinstance(message, AIMessage):
                    return number
                raise InvalidMessageError(f"message {message_id!r} is not a reply of the assistant")
            if message_id is None and isinstance(message, AIMessage) and message.text.strip():
                return number
        named = "" if message_id is None else f" {message_id!r}"
        raise ConfigError(f"the conversation holds no reply{named} that could be cut")

    def mark_steps(self) -> Steps[Any]:
        """Return how many messages there are, and the latest one's id."""
        yield from ()
        with self._lock:
            return [len(self._messages), self._messages[-1].id if self._messages else None]

    def rewind_steps(self, mark: Any) -> Steps[None]:
        """Take back what was said since a mark; see `ThreadMemory`."""
        yield from ()
        count, last = mark
        with self._lock:
            held = self._messages[count - 1].id if 0 < count <= len(self._messages) else None
            if count and held != last:
                raise UnknownCheckpointError(
                    f"the conversation no longer holds the {count} messages of this checkpoint"
                )
            self._cut(count)

    def _cut(self, count: int) -> list[BaseMessage]:
        if count < len(self._messages):
            self._check_writable()
        # Copies: a clone may hold these messages too.
        cut = [copied(message) for message in self._messages[count:]]
        del self._messages[count:]
        self._starts = [start for start in self._starts if start < count]
        return cut

    def _check_writable(self) -> None:
        if self._store is not None:
            raise UnsupportedError(
                f"{type(self._store).__name__} cannot take messages back; keep the conversation "
                "in a ConversationMemory, or in no store"
            )

    def branch_steps(self) -> Steps[ListThread]:
        """Return a list that goes on by itself; what it adds goes to no store."""
        yield from ()
        with self._lock:
            return ListThread(self._messages, self._starts)

    @classmethod
    def of_store_steps(cls, store: MessageStore) -> Steps[ListThread]:
        """Return a thread that goes on from what a store holds."""

        async def aread() -> Sequence[BaseMessage]:
            return await store.aget_messages()  # type: ignore[attr-defined, no-any-return]

        messages: Sequence[BaseMessage] = yield Step(lambda: store.messages, aread)
        return cls([copied(message) for message in messages], store=store)


def _named(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return messages, each with an id: checkpoints go by it."""
    for message in messages:
        message.id = message.id or new_ulid()
    return list(messages)


def _beginnings(messages: Sequence[BaseMessage]) -> list[int]:
    """Return where turns begin: with the first of several messages of the user in a row."""
    return [
        number
        for number, message in enumerate(messages)
        if message.type == "human" and (number == 0 or messages[number - 1].type != "human")
    ]
