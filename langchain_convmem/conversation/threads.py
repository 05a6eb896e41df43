"""What a conversation keeps its history in: a thread of a memory, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.causes import describe_value
from langchain_convmem.conversation.inputs import copy_message
from langchain_convmem.errors import ConfigError, ConversationError, InvalidMessageError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import make_ulid
from langchain_convmem.views.edits import cut_to_heard

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

    from langchain_convmem.locks import FifoLock


class ThreadView(NamedTuple):
    """What a model sees of a thread in one turn.

    Attributes:
        before: What was said before; a summary stands first, where older messages are left out.
        asked: What is said now, as the model gets it: with recalled text before the user's words.
        turn: What stores what is said.
    """

    before: tuple[BaseMessage, ...]
    asked: tuple[BaseMessage, ...]
    turn: ThreadTurn


class ThreadTurn(Protocol):
    """One turn of a thread, as a conversation writes it.

    `open` before the model is called, then `finish`, and `settle` if it stands. Until it is
    finished, the turn shows in no other answer of the thread.
    """

    def open(self, asked: Sequence[BaseMessage], asked_ms: int) -> None:
        """Make what is asked durable, where a turn that fails can be taken back.

        Args:
            asked: What is said now, and results of tools that come with it; in order.
            asked_ms: When it was said, in milliseconds since the epoch.
        """
        ...

    def note_first_token(self) -> None:
        """Note that the first words came just now, if they did not before."""
        ...

    def finish(
        self,
        messages: Sequence[BaseMessage],
        status: Literal["done", "failed", "cancelled"] = "done",
    ) -> object:
        """Store the rest of the turn, all of it or nothing; or take the turn back.

        Args:
            messages: Replies and what the tools said, in order.
            status: How the turn ended. One that failed or was cancelled shows in no view, however
                far it was written.
        """
        ...

    def settle(self) -> None:
        """Do what is due after a turn that was stored; it may take long."""
        ...


@runtime_checkable
class ThreadMemory(Protocol):
    """One thread, as a conversation reads and writes it.

    The conversation runs one turn at a time: `select_asked` and `read_view`, then what the
    view's `turn` does.
    """

    @property
    def lock(self) -> FifoLock | None:
        """The line of those who run turns of this thread; None if only the conversation does."""
        ...

    def count(self) -> AbstractContextManager[None]:
        """Let who closes the memory wait until the block has run."""
        ...

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config of a send, with what its runs are found by."""
        ...

    def select_asked(self, sent: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what is asked with these messages; writes nothing.

        Who shows a chat may send all of it every time; what the thread has of it is left out.
        """
        ...

    def read_view(self, asked: Sequence[BaseMessage]) -> ThreadView:
        """Return what the model sees when these messages are said; writes nothing."""
        ...

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all that was said, in order."""
        ...

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last exchanges; return what they held."""
        ...

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
        """Cut a reply to what was heard of it.

        Args:
            heard: Characters of its text, or the words that were heard.
            message_id: Its id; None is the latest reply.

        Returns:
            A copy of what is left; None if nothing was heard.

        Raises:
            ConfigError: If there is no such reply.
            InvalidMessageError: If the words are not in it.
        """
        ...

    def rewind(self, message_id: str | None) -> None:
        """Take back everything that was said after a message; None takes back all.

        Raises:
            ConversationError: If the thread does not hold the message any more.
        """
        ...

    def branch(self) -> ThreadMemory:
        """Return a thread that holds the same and goes on by itself."""
        ...


# -- A history without a memory -------------------------------------------------------------------


class ListThread:
    """A history in a list. Reading is thread-safe; one turn writes at a time."""

    lock = None

    def __init__(self, messages: Sequence[BaseMessage] = ()) -> None:
        """Begin with what was said, oldest first."""
        # Reentrant: the garbage collector may close a forgotten stream at any moment.
        self._lock = make_lock()
        self._messages: list[BaseMessage] = []
        self.add(messages)

    def __repr__(self) -> str:
        return f"{len(self._messages)} messages"

    def count(self) -> AbstractContextManager[None]:
        """Let nobody wait: a list is not closed."""
        return nullcontext()

    def stamp_config(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config as it is: a list has no name."""
        return config

    def select_asked(self, sent: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return everything: what is sent is said now; see `ThreadMemory`."""
        return list(sent)

    def read_view(self, asked: Sequence[BaseMessage]) -> ThreadView:
        """Return everything; see `ThreadMemory`."""
        with self._lock:
            return ThreadView(tuple(self._messages), tuple(asked), ListTurn(self))

    def add(self, said: Sequence[BaseMessage]) -> None:
        """Store messages, each with an id: checkpoints go by it."""
        for message in said:
            message.id = message.id or make_ulid()
        with self._lock:
            self._messages += said

    def read_messages(self) -> list[BaseMessage]:
        """Return copies of all messages."""
        with self._lock:
            return list(map(copy_message, self._messages))

    def undo(self, turns: int) -> list[BaseMessage]:
        """Take back the last exchanges; see `ThreadMemory`."""
        if isinstance(turns, bool) or not isinstance(turns, int) or turns < 1:
            raise ConfigError(
                f"turns must be a whole number of at least 1, got {describe_value(turns)}"
            )
        with self._lock:
            # An exchange begins with the first of several messages of the user in a row.
            speakers = ["", *(message.type for message in self._messages)]
            pairs = enumerate(pairwise(speakers))
            starts = [number for number, (old, new) in pairs if new == "human" != old]
            return self._cut_from(starts[-turns] if turns <= len(starts) else 0)

    def cut(self, heard: int | str, message_id: str | None) -> BaseMessage | None:
        """Cut a reply to what was heard of it; see `ThreadMemory`."""
        with self._lock:
            number = self._find_reply(message_id)
            cut = cut_to_heard(self._messages[number], heard)
            # Another object in its place: a clone may hold the reply too.
            self._messages[number : number + 1] = [] if cut is None else [cut]
        return None if cut is None else copy_message(cut)

    def _find_reply(self, message_id: str | None) -> int:
        """Return the number of a reply, or of the latest one."""
        for number, message in reversed(list(enumerate(self._messages))):
            is_reply = isinstance(message, AIMessage)
            if message_id is None and is_reply and message.text.strip():
                return number
            if message_id is not None and message.id == message_id:
                if is_reply:
                    return number
                raise InvalidMessageError(f"message {message_id!r} is not a reply of the assistant")
        named = "" if message_id is None else f" {message_id!r}"
        raise ConfigError(f"the conversation holds no reply{named} that could be cut")

    def rewind(self, message_id: str | None) -> None:
        """Take back what was said after a message; see `ThreadMemory`."""
        with self._lock:
            ids = [None, *(message.id for message in self._messages)]
            if message_id not in ids:
                raise ConversationError(
                    "the conversation no longer holds the message of this checkpoint"
                )
            self._cut_from(ids.index(message_id))

    def _cut_from(self, count: int) -> list[BaseMessage]:
        # Copies: a clone may hold these messages too.
        cut = list(map(copy_message, self._messages[count:]))
        del self._messages[count:]
        return cut

    def branch(self) -> ListThread:
        """Return a list that goes on by itself."""
        with self._lock:
            return ListThread(self._messages)


class ListTurn:
    """One turn of a list."""

    def __init__(self, thread: ListThread) -> None:
        """Begin a turn of a thread."""
        self._thread = thread
        self._asked: Sequence[BaseMessage] = ()

    def open(self, asked: Sequence[BaseMessage], asked_ms: int) -> None:
        """Keep what is asked; see `ThreadTurn`."""
        del asked_ms
        self._asked = asked

    def note_first_token(self) -> None:
        """Note nothing: a list keeps no times."""

    def finish(
        self,
        messages: Sequence[BaseMessage],
        status: Literal["done", "failed", "cancelled"] = "done",
    ) -> None:
        """Store the turn if it stands: a list keeps no failures."""
        if status == "done":
            self._thread.add([*self._asked, *messages])

    def settle(self) -> None:
        """Do nothing: nothing is due."""
