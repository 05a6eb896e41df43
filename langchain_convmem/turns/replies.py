"""What a chain answered, as messages to store: from a whole output, or chunk by chunk."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk

from langchain_convmem.errors import InvalidMessageError

__all__ = [
    "INTERRUPTED",
    "ReplyCollector",
    "is_unfinished",
    "reply_messages",
    "with_free_ids",
    "without_cut_calls",
]

INTERRUPTED = "interrupted"
"""Attribute of a reply that was cut off."""

_RUN_PREFIX = "lc_run-"
"""Ids that LangChain gives to the chunks of a run; a provider's own id may stand beside them."""


def reply_messages(output: Any, given: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the new messages of a chain's output, in order.

    Args:
        output: Text, a message, a list of messages, or a dict that holds one under `messages`.
        given: The messages the chain was called with, the user's last; they are no news when
            they come back in a list.

    Raises:
        InvalidMessageError: If the output is of another kind.
    """
    found = _messages_in(output)
    if found is None:
        msg = (
            f"the wrapped chain returned a {type(output).__name__}, which is no reply; it must "
            "return text, a message, messages or {'messages': [...]}. Put parsers behind it: "
            "memory.wrap(prompt | model) | parser"
        )
        raise InvalidMessageError(msg)
    alone = isinstance(output, str | BaseMessage)
    return [_whole(message) for message in (found if alone else _behind(found, given))]


def is_unfinished(*pieces: BaseMessage) -> bool:
    """Return whether a message, or the chunks of one, lack the end that their provider gives.

    A proxy that gives up ends a stream of OpenAI's form in good order, but without the event that
    says why the model stopped: `finish_reason`, or `status` with the Responses API.
    """
    told = [getattr(piece, "response_metadata", None) or {} for piece in pieces]
    return any(one.get("model_provider") == "openai" for one in told) and not any(
        one.get("finish_reason") or one.get("status") for one in told
    )


def without_cut_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply whose last one was cut: of that one its text alone.

    Half a call looks like a whole one, and half a thought has no signature.
    """
    *whole, cut = messages
    if not cut.text.strip():
        return whole
    usage = getattr(cut, "usage_metadata", None)
    return [*whole, AIMessage(str(cut.text), id=cut.id, usage_metadata=usage)]


def _messages_in(output: Any) -> list[BaseMessage] | None:
    if isinstance(output, str):
        return [AIMessage(output)]
    if isinstance(output, BaseMessage):
        return [output]
    if isinstance(output, dict) and "messages" in output:
        return _messages_in(output["messages"])
    if isinstance(output, list) and all(isinstance(item, BaseMessage) for item in output):
        return output
    return None


def _behind(found: Sequence[BaseMessage], given: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Return what stands behind the user's message where it comes back, else all but `given`."""
    for number in reversed(range(len(found))):
        if _is_asked(found[number], given[-1]):
            return found[number + 1 :]
    # Compared whole: a chain that counts its ids anew in every turn has something new to say.
    return [message for message in found if not any(message == old for old in given)]


def _is_asked(message: BaseMessage, asked: BaseMessage) -> bool:
    """Return whether a message is the user's of this turn; a chain may have built it anew."""
    if message.id is not None:
        return message.id == asked.id
    return isinstance(message, HumanMessage) and message.content == asked.content


def _whole(message: BaseMessage) -> BaseMessage:
    if isinstance(message, BaseMessageChunk):
        return message_chunk_to_message(message)
    return message


class _Part:
    """One message of a stream: whole, or growing by chunks."""

    def __init__(self, piece: BaseMessage) -> None:
        self.pieces = [piece]
        self.ids = {piece.id} - {None}

    @property
    def is_growing(self) -> bool:
        return isinstance(self.pieces[0], BaseMessageChunk)

    @property
    def is_finished(self) -> bool:
        """Whether it needs no more chunks; LangChain marks the last of every stream that ends."""
        return not self.is_growing or getattr(self.pieces[-1], "chunk_position", None) == "last"

    @property
    def is_whole(self) -> bool:
        return self.is_finished and not is_unfinished(*self.pieces)

    def has(self, piece: BaseMessage) -> bool:
        return piece.id in self.ids or self.pieces[-1] is piece

    def continues_with(self, piece: BaseMessage) -> bool:
        """Return whether a chunk without a known id belongs to this message.

        A message has at most one id of its provider and one of its run.
        """
        if type(self.pieces[-1]) is not type(piece) or self.is_finished:
            return False
        if piece.id is None:
            return True
        by_run = piece.id.startswith(_RUN_PREFIX)
        return not any(known.startswith(_RUN_PREFIX) is by_run for known in self.ids if known)

    def append(self, piece: BaseMessage) -> None:
        self.pieces.append(piece)
        self.ids |= {piece.id} - {None}

    def message(self) -> BaseMessage:
        return _whole(_sum(self.pieces))


def _sum(pieces: Sequence[BaseMessage]) -> BaseMessage:
    first, *others = pieces
    if not others:
        return first
    # An empty list as first content would swallow text that follows; so all empty contents are
    # of the kind that the first real one has. Adding also forgets the speaker's name.
    kind = next((type(piece.content) for piece in pieces if piece.content), str)
    even = [
        piece if piece.content else piece.model_copy(update={"content": kind()}) for piece in pieces
    ]
    total: BaseMessage = even[0] + even[1:]  # type: ignore[assignment]  # chunks add up
    total.name = next((piece.name for piece in pieces if piece.name), None)
    return total


class ReplyCollector:
    """Collects the chunks of a stream as they pass, and makes messages of them at its end."""

    def __init__(self) -> None:
        self._parts: list[_Part] = []
        self._strangers: list[Any] = []

    @property
    def has_text(self) -> bool:
        """Whether any piece of a reply has passed."""
        return bool(self._parts)

    @property
    def is_unfinished(self) -> bool:
        """Whether the last message lacks the end that its provider gives."""
        return bool(self._parts) and is_unfinished(*self._parts[-1].pieces)

    def add(self, chunk: Any) -> None:
        """Take one chunk: text, a message (chunk), a list, or a dict of LangGraph updates."""
        pieces = list(_pieces_in(chunk))
        if not pieces and (chunk or not isinstance(chunk, str | list | dict)):
            self._strangers = [chunk]
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: BaseMessage) -> None:
        known = next((part for part in reversed(self._parts) if part.has(piece)), None)
        if not isinstance(piece, BaseMessageChunk):
            if known is None:
                self._parts.append(_Part(piece))
            else:
                known.pieces = [piece]  # the whole message behind its chunks
        elif known is not None and known.is_growing:
            known.append(piece)
        elif self._parts and self._parts[-1].continues_with(piece):
            self._parts[-1].append(piece)
        else:
            self._parts.append(_Part(piece))

    def complete(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the messages of a stream that came to its end.

        Raises:
            InvalidMessageError: If the stream brought nothing but what is no reply.
        """
        if self._strangers and not self._parts:
            return reply_messages(self._strangers[0], given)
        return self._new(self._parts, given)

    def interrupted(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what a stream brought before it was cut off.

        Tool calls of a message that was cut are left out: half a call looks like a whole one.
        """
        parts = list(self._parts)
        cut = [parts.pop().message()] if parts and not parts[-1].is_whole else []
        whole = self._new(parts, given)
        return [*whole, *(without_cut_calls(cut) if cut else [])]

    @staticmethod
    def _new(parts: Sequence[_Part], given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the parts' messages; what came in chunks was made just now, whatever its id."""
        messages = [part.message() for part in parts]
        whole = [m for m, part in zip(messages, parts, strict=True) if not part.is_growing]
        new = {id(message) for message in _behind(whole, given)}
        return [
            message
            for message, part in zip(messages, parts, strict=True)
            if part.is_growing or id(message) in new
        ]


def _pieces_in(chunk: Any) -> Iterator[BaseMessage]:
    if isinstance(chunk, BaseMessage):
        yield chunk
    elif isinstance(chunk, str):
        if chunk:
            yield AIMessageChunk(content=chunk)
    elif isinstance(chunk, tuple):
        if chunk and isinstance(chunk[0], BaseMessage):
            yield chunk[0]  # (message chunk, metadata): LangGraph's "messages" mode
    else:
        for item in chunk if isinstance(chunk, list) else _message_lists(chunk):
            yield from _pieces_in(item)


def _message_lists(chunk: Any) -> Iterator[Any]:
    """Yield what stands under `messages`, at the top or per node as LangGraph's updates do."""
    if isinstance(chunk, dict):
        holders = [chunk] if "messages" in chunk else chunk.values()
        for holder in holders:
            if isinstance(holder, dict) and "messages" in holder:
                yield holder["messages"]


def with_free_ids(
    messages: Iterable[BaseMessage], taken: Iterable[str], new_id: Callable[[int], str | None]
) -> Iterator[BaseMessage]:
    """Yield the messages, each with an id that no other message of the thread has.

    A cached model repeats its ids, and an equal id would replace what was said before.

    Args:
        messages: In order.
        taken: Ids of other messages of the thread.
        new_id: Makes the id of a message that has none of its own, by the message's number; None
            leaves it to the log.
    """
    used = set(taken)
    for number, message in enumerate(messages):
        if message.id and message.id not in used:
            used.add(message.id)
            yield message
        else:
            yield message.model_copy(update={"id": new_id(number)})
