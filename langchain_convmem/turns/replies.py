"""A chain's reply as messages to store: from its output, or chunk by chunk."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.messages.tool import default_tool_parser
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

from langchain_convmem.causes import describe_name
from langchain_convmem.ids import get_now_ms
from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.messages import merge_pieces
from langchain_convmem.views.tool_calls import find_calls

INTERRUPTED = "interrupted"
"""Attribute of a reply that was cut off."""


_RUN_PREFIX = "lc_run-"
"""Ids that LangChain gives to the chunks of a run; a provider's own id may stand beside them."""

_NOTHING: Any = object()
_ANSWERS = ("output", "answer", "result", "response")
"""Under which names LangChain's chains return what they answer."""
_HANDED_ON = {"input", "history", "messages", "recalled", "summary", "__interrupt__"}
_logger = logging.getLogger("langchain_convmem")


# -- Streams --------------------------------------------------------------------------------------
async def aclose_quietly(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    close = getattr(stream, "aclose", None)
    if close is not None:
        await close()


def add_up(total: Any, chunk: Any) -> Any:
    """Return the value of a stream so far, as LangChain adds values up."""
    try:
        return total + chunk
    except TypeError:
        return chunk


# -- A chain's output -----------------------------------------------------------------------------
def read_reply(
    output: Any,
    given: Sequence[BaseMessage],
    *,
    heard: AIMessage | None = None,
    output_messages_key: str | None = None,
) -> list[BaseMessage]:
    """Return what to store of a chain's output, of any type: the new messages, in order.

    Args:
        output: Text, a message, messages, `{"messages": [...]}`; a dict that holds one of these
            under `output_messages_key` or `output`; or any value that a parser made. A value is
            stored as the message that it was read from, where one was heard, else as JSON or text.
        given: The messages the chain was called with, the user's last; they are not new when they
            come back in a list.
        heard: The last message that a chat model of the chain said.
        output_messages_key: The key under which a dict holds the answer.
    """
    answer = output
    if isinstance(output, dict):
        names = _ANSWERS if heard is None or "messages" in output else _ANSWERS[:1]
        answer = _find_answer(output, given, output_messages_key, names)
    if isinstance(answer, BaseMessage):
        return [message_chunk_to_message(answer)]
    if isinstance(answer, str):
        is_all_of_it = heard is not None and heard.text == answer and not _has_calls(heard)
        return [heard if heard is not None and is_all_of_it else AIMessage(answer)]
    if isinstance(answer, dict) and "parsed" in answer and isinstance(answer.get("raw"), AIMessage):
        return [_make_message(answer["parsed"], message_chunk_to_message(answer["raw"]))]
    found = _find_messages(answer)
    messages = _select_new(found or (), given)
    if not messages and isinstance(answer, dict):
        messages = [one for one in answer.values() if isinstance(one, AIMessage)]
    if messages or (found is not None and heard is None):
        if not messages and isinstance(answer, dict) and (left := answer.keys() - _HANDED_ON):
            _logger.warning(
                "the chain returned a dict without a new message, so no reply is stored; name the "
                "key of its reply with output_messages_key= (it has %s)",
                ", ".join(sorted(map(describe_name, left))),
            )
        return [message_chunk_to_message(message) for message in messages]
    # A chain that returns nothing, and whose models said nothing, answers nothing.
    return [] if answer is None and heard is None else [_make_message(answer, heard)]


def is_unfinished(*pieces: BaseMessage) -> bool:
    """Return whether a message, or the chunks of one, lack the end that their provider gives.

    A proxy that gives up ends a stream of OpenAI's form in good order, but without the event that
    says why the model stopped: `finish_reason`, or `status` with the Responses API.
    """
    must_end = False
    for piece in pieces:
        metadata = getattr(piece, "response_metadata", None) or {}
        if metadata.get("finish_reason") or metadata.get("status"):
            return False
        must_end = must_end or metadata.get("model_provider") == "openai"
    return must_end


def cut_last(messages: Sequence[BaseMessage], *, keeps_calls: bool) -> list[BaseMessage]:
    """Return the messages of a reply whose last one has no end: of that one its text alone.

    Half a call looks like a whole one, and half a thought has no signature.

    Args:
        messages: The reply, in order.
        keeps_calls: Whether a message of nothing but calls is kept: who got them answers them.
    """
    *whole, cut = messages
    if cut.text.strip():
        usage = getattr(cut, "usage_metadata", None)
        return [*whole, AIMessage(str(cut.text), id=cut.id, usage_metadata=usage)]
    return [*whole, cut] if keeps_calls and _has_calls(cut) else whole


def mark_interrupted(message: BaseMessage) -> BaseMessage:
    """Return a message that says that it was cut off."""
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(update={"response_metadata": metadata})


def _has_calls(message: BaseMessage) -> bool:
    broken = getattr(message, "invalid_tool_calls", None)
    return bool(broken or find_calls(message))


def _find_answer(
    output: Mapping[str, Any],
    given: Sequence[BaseMessage],
    output_messages_key: str | None,
    names: Iterable[str],
) -> Any:
    """Return what a chain answered: under its key, else under one of `names`, else all of it."""
    if output_messages_key is not None and output_messages_key in output:
        return output[output_messages_key]
    if _select_new(_find_messages(output.get("messages")) or (), given):
        return output
    # A chain that hands on what it got, as `RunnablePassthrough.assign` does, returns the words
    # of the user, too.
    said = given[-1].text
    found = (output[name] for name in names if _find_messages(output.get(name)) is not None)
    return next((one for one in found if one != said), output)


def _find_messages(output: Any) -> list[BaseMessage] | None:
    if isinstance(output, dict) and "messages" in output:
        output = output["messages"]
    if isinstance(output, str):
        return [AIMessage(output)]
    if isinstance(output, BaseMessage):
        return [output]
    if isinstance(output, list) and all(isinstance(item, BaseMessage) for item in output):
        return [message for message in output if not isinstance(message, RemoveMessage)]
    return None


def _make_message(value: Any, heard: BaseMessage | None) -> BaseMessage:
    """Return a value as the message that it was read from, or as one that holds it."""
    if not isinstance(heard, AIMessage):
        return AIMessage(value if isinstance(value, str) else describe_as_json(value))
    calls = [*find_calls(heard), *heard.invalid_tool_calls]
    if not calls or _has_call_ids(value, {call["id"] for call in calls}):
        return heard
    # Nobody will answer these calls: they are how the model wrote the value.
    args = [call["args"] for call in calls]
    written = args[0] if len(args) == 1 else args
    found = [str(heard.text), written if isinstance(written, str) else describe_as_json(written)]
    content = "\n".join(text for text in found if text.strip())
    plain: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    return heard.model_copy(update={"content": content, **plain})


def _has_call_ids(value: Any, ids: set[str | None]) -> bool:
    """Return whether a parser handed on the ids of calls, so that they can be answered."""
    items = value if isinstance(value, list) else [value]
    return any(isinstance(item, dict) and item.get("id") in ids - {None} for item in items)


# -- Messages -------------------------------------------------------------------------------------
def _select_new(
    found: Sequence[BaseMessage], given: Sequence[BaseMessage]
) -> Sequence[BaseMessage]:
    """Return what comes after the user's message where it comes back, else all but `given`."""
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


def _is_growing(pieces: Sequence[BaseMessage]) -> bool:
    """Return whether a message of a stream comes by chunks."""
    return isinstance(pieces[0], BaseMessageChunk)


def _is_finished(pieces: Sequence[BaseMessage]) -> bool:
    """Return whether it needs no more; LangChain marks the last chunk of every stream that ends."""
    return not _is_growing(pieces) or getattr(pieces[-1], "chunk_position", None) == "last"


def _has(pieces: Sequence[BaseMessage], piece: BaseMessage) -> bool:
    known = (pieces[0].id, pieces[-1].id)
    return (piece.id is not None and piece.id in known) or pieces[-1] is piece


def _is_continued_by(pieces: Sequence[BaseMessage], piece: BaseMessage) -> bool:
    """Return whether a chunk without a known id belongs to a message.

    A message has at most one id of its provider and one of its run.
    """
    if type(pieces[-1]) is not type(piece) or _is_finished(pieces):
        return False
    by_run = piece.id is not None and piece.id.startswith(_RUN_PREFIX)
    known = [one.id.startswith(_RUN_PREFIX) for one in (pieces[0], pieces[-1]) if one.id]
    return piece.id is None or by_run not in known


def _merge(pieces: Sequence[BaseMessage]) -> BaseMessage:
    """Return the message; without an end, only calls with whole arguments are calls."""
    total = merge_pieces(pieces)
    message = message_chunk_to_message(total)
    chunks = total.tool_call_chunks if isinstance(total, AIMessageChunk) else []
    if not chunks or not is_unfinished(*pieces):
        return message
    raw = [
        {"id": one["id"], "function": {"name": one["name"], "arguments": one["args"] or "{}"}}
        for one in chunks
    ]
    calls, broken = default_tool_parser(raw)
    return message.model_copy(update={"tool_calls": calls, "invalid_tool_calls": broken})


class ReplyCollector:
    """Collects the chunks of a stream as they pass, and makes messages of them at its end."""

    def __init__(self) -> None:
        self._parts: list[list[BaseMessage]] = []
        self._value: Any = _NOTHING
        self._state: Any = _NOTHING  # the latest dict of a chain that hands on what it got
        self._is_text = True

    @property
    def has_text(self) -> bool:
        """Whether any piece of a reply has passed."""
        return bool(self._parts)

    def add(self, chunk: Any) -> None:
        """Take one chunk: text, a message (chunk), a list, or a dict of LangGraph updates."""
        self._is_text &= isinstance(chunk, str)
        pieces = _list_pieces(chunk)
        if isinstance(chunk, dict) and "messages" in chunk:
            self._state = chunk
        if not pieces and (chunk or not isinstance(chunk, str | list | dict)):
            is_first = self._value is _NOTHING
            self._value = chunk if is_first else add_up(self._value, chunk)
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: BaseMessage) -> None:
        known = next((part for part in reversed(self._parts) if _has(part, piece)), None)
        is_chunk = isinstance(piece, BaseMessageChunk)
        if known is not None and not is_chunk:
            known[:] = [piece]  # the whole message after its chunks
        elif known is not None and _is_growing(known):
            known.append(piece)
        elif is_chunk and self._parts and _is_continued_by(self._parts[-1], piece):
            self._parts[-1].append(piece)
        else:
            self._parts.append([piece])

    def complete(
        self,
        given: Sequence[BaseMessage],
        *,
        heard: AIMessage | None = None,
        output_messages_key: str | None = None,
    ) -> list[BaseMessage]:
        """Return what to store of a stream that came to its end; see `read_reply`."""
        messages, output = self._merge_new(given), self._value
        output = self._state if output is _NOTHING else output
        if self._is_text and len(messages) == 1:
            output = str(messages[0].text)
        elif messages or (output is _NOTHING and heard is None):
            return messages
        return read_reply(output, given, heard=heard, output_messages_key=output_messages_key)

    def collect_cut(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what a stream brought whose last message has no end.

        Args:
            given: The messages the chain was called with.
        """
        messages = self._merge_new(given)
        if not messages:
            return [] if self._value is _NOTHING else _keep_cut_value(self._value)
        last = self._parts[-1]
        is_whole = _is_finished(last) and not is_unfinished(*last)
        return messages if is_whole else cut_last(messages, keeps_calls=False)

    def _merge_new(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the new messages; what came in chunks was made just now, whatever its id."""
        whole = [part[0] for part in self._parts if not _is_growing(part)]
        new = {id(one) for one in _select_new(whole, given)}
        parts = (part for part in self._parts if _is_growing(part) or id(part[0]) in new)
        return list(map(_merge, parts))


def _keep_cut_value(value: Any) -> list[BaseMessage]:
    """Return what a stream of values had brought before it was cut off."""
    raw = value.get("raw") if isinstance(value, dict) else None
    if isinstance(raw, BaseMessage):
        return cut_last([raw], keeps_calls=False)
    return [AIMessage(describe_as_json(value))]


def _list_pieces(chunk: Any) -> list[BaseMessage]:
    """Return the messages in a chunk, also those of LangGraph's updates by node."""
    if isinstance(chunk, BaseMessage):
        return [chunk]
    if isinstance(chunk, str):
        return [AIMessageChunk(content=chunk)] if chunk else []
    if isinstance(chunk, dict):
        holders = [chunk] if "messages" in chunk else chunk.values()
        chunk = [one["messages"] for one in holders if isinstance(one, dict) and "messages" in one]
    elif isinstance(chunk, tuple):
        chunk = [one for one in chunk[:1] if isinstance(one, BaseMessage)]  # with its metadata
    return (
        [piece for item in chunk for piece in _list_pieces(item)] if isinstance(chunk, list) else []
    )


def assign_free_ids(
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


# -- Hears what the models of a host say ----------------------------------------------------------


class PartialReplyHandler(BaseCallbackHandler):
    """Collects the replies of the models that are called for one turn of a host.

    Not heard are models that make a reply of another one that is heard, those of the memory itself,
    and those whose words nobody is shown. Of models that run at the same time, the last that ends
    counts.
    """

    run_inline = True

    def __init__(self) -> None:
        """Start with nothing heard."""
        self._chunks: dict[UUID, list[BaseMessage] | None] = {}  # None when a reply is over
        self.first_token_ms: int | None = None
        """When the first words of the latest reply came, if it was streamed."""
        self.message: AIMessage | None = None
        """The last whole reply."""

    def listen(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config with which models are called that are to be heard."""
        return merge_configs(config, {"callbacks": [self]})

    def collect_broken(self) -> list[BaseMessage]:
        """Return the partial messages of the last unfinished reply, if any."""
        reply = ReplyCollector()
        for chunks in [one for one in self._chunks.values() if one is not None][-1:]:
            for chunk in chunks:
                reply.add(chunk)
        return reply.collect_cut(())

    def on_chat_model_start(self, *_: Any, run_id: UUID, **run: Any) -> None:
        """Listen to a reply, unless another model makes it, or the memory for itself."""
        is_own = not set(INTERNAL_TAGS).isdisjoint(run.get("tags") or ())
        if not is_own and run.get("parent_run_id") not in self._chunks:
            self._chunks[run_id] = []
            self.first_token_ms = None

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Take a chunk."""
        self._add(run_id, getattr(chunk, "message", None))

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Take the text of an event; such streams bring no chunks."""
        delta = event.get("delta") or {}
        if delta.get("type") == "text-delta":
            self._add(run_id, AIMessageChunk(content=delta["text"], id=f"{_RUN_PREFIX}-{run_id}"))

    def _add(self, run_id: UUID, chunk: BaseMessage | None) -> None:
        chunks = self._chunks.get(run_id)
        if chunks is None or chunk is None:
            return
        chunks.append(chunk)
        if self.first_token_ms is None:
            self.first_token_ms = get_now_ms()

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep a reply that came whole; forget what broke before it: it was tried again."""
        made = response.generations
        said = getattr(made[0][0], "message", None) if made and made[0] else None
        if run_id not in self._chunks:
            return
        for begun in list(self._chunks):  # models that run at the same time end in any order
            self._chunks[begun] = None
            if begun == run_id:
                break
        if isinstance(said, AIMessage):
            whole = message_chunk_to_message(said)
            self.message = whole if isinstance(whole, AIMessage) else None


@contextmanager
def collect_replies() -> Iterator[PartialReplyHandler]:
    """Listen to the models that are called inside the block; see `PartialReplyHandler`."""
    heard = PartialReplyHandler()
    before = var_child_runnable_config.get()
    var_child_runnable_config.set(heard.listen(before))
    try:
        yield heard
    finally:
        var_child_runnable_config.set(before)
