"""A chain's reply as messages to store: from its output, or chunk by chunk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    RemoveMessage,
    message_chunk_to_message,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

from langchain_convmem.conversation.streams import add_up
from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.messages import merge_pieces
from langchain_convmem.views.tool_calls import find_calls

LearnUsage: TypeAlias = Callable[[str, Sequence[BaseMessage], Any, Any], object]
"""Gets a model's name, the messages that it got, the input tokens it reports, and its tools."""

INTERRUPTED = "interrupted"
"""Attribute of a reply that was cut off."""


STRUCTURED = "structured_output"
"""Key in a reply's `aux`: the names of what a value was made of, where the reply stands for one."""


_RUN_PREFIX = "lc_run-"
"""Ids that LangChain gives to the chunks of a run; a provider's own id may stand beside them."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What to store of a chain's output.

    Attributes:
        messages: The new messages, in order.
        aux: What is noted with the last of them.
    """

    messages: Sequence[BaseMessage]
    aux: Mapping[str, Any] = field(default_factory=dict)


def read_reply(
    output: Any,
    given: Sequence[BaseMessage],
    *,
    heard: AIMessage | None = None,
    output_messages_key: str | None = None,
) -> Reply:
    """Return what to store of a chain's output, of any type.

    Args:
        output: Text, a message, messages, `{"messages": [...]}`; a dict that holds one of these
            under `output_messages_key` or `output`; or any value that a parser made. A value is
            stored as the message that it was read from, where one was heard, else as JSON or text.
        given: The messages the chain was called with; see `read_reply_messages`.
        heard: The last message that a chat model of the chain said.
        output_messages_key: The key under which a dict holds the answer.
    """
    answer = _find_answer(output, output_messages_key)
    if isinstance(answer, dict) and _is_parsed(answer):
        return _make_reply(answer["parsed"], _complete_chunk(answer["raw"]))
    found = _find_messages(answer)
    messages = [] if found is None else read_reply_messages(answer, given)
    if not messages and isinstance(answer, dict):
        messages = [_complete_chunk(one) for one in answer.values() if isinstance(one, AIMessage)]
    if not messages and (found is None or heard is not None):
        return _make_reply(answer, heard)
    if isinstance(answer, str) and heard is not None and _is_text_of(heard, answer):
        return Reply([heard])
    return Reply(list(messages))


def read_reply_messages(output: Any, given: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the new messages of a chain's output, in order.

    Args:
        output: Text, a message, a list of messages, or a dict that holds one under `messages`.
        given: The messages the chain was called with, the user's last; they are not new when
            they come back in a list.

    Raises:
        InvalidMessageError: If the output is of another kind.
    """
    found = _find_messages(output)
    if found is None:
        msg = (
            f"the wrapped chain returned a {type(output).__name__}, which is not a reply; it must "
            "return text, a message, messages or {'messages': [...]}. Put parsers after it: "
            "memory.wrap(prompt | model) | parser"
        )
        raise InvalidMessageError(msg)
    alone = isinstance(output, str | BaseMessage)
    return [_complete_chunk(message) for message in (found if alone else _select_new(found, given))]


def is_unfinished(*pieces: BaseMessage) -> bool:
    """Return whether a message, or the chunks of one, lack the end that their provider gives.

    A proxy that gives up ends a stream of OpenAI's form in good order, but without the event that
    says why the model stopped: `finish_reason`, or `status` with the Responses API.
    """
    found = [getattr(piece, "response_metadata", None) or {} for piece in pieces]
    return any(one.get("model_provider") == "openai" for one in found) and not any(
        one.get("finish_reason") or one.get("status") for one in found
    )


def drop_cut_calls(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply whose last one was cut: of that one its text alone.

    Half a call looks like a whole one, and half a thought has no signature.
    """
    *whole, cut = messages
    if not cut.text.strip():
        return whole
    usage = getattr(cut, "usage_metadata", None)
    return [*whole, AIMessage(str(cut.text), id=cut.id, usage_metadata=usage)]


def mark_interrupted(message: BaseMessage) -> BaseMessage:
    """Return a message that says that it was cut off."""
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(update={"response_metadata": metadata})


def settle_unfinished(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply that came to its end without its provider saying so.

    Of the last one its text alone, as of one that was cut; but a message of nothing but calls is
    kept: who got them will answer them.
    """
    kept = drop_cut_calls(messages)
    is_nothing_else = len(kept) < len(messages) and _has_calls(messages[-1])
    return list(messages) if is_nothing_else else kept


def _has_calls(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and bool(message.tool_calls or message.invalid_tool_calls)


def _find_answer(output: Any, output_messages_key: str | None) -> Any:
    """Return what a chain answered among what it returned."""
    if not isinstance(output, dict):
        return output
    if output_messages_key is not None and output_messages_key in output:
        return output[output_messages_key]
    is_wrapped = "messages" not in output and _find_messages(output.get("output")) is not None
    return output["output"] if is_wrapped else output


def _find_messages(output: Any) -> list[BaseMessage] | None:
    if isinstance(output, str):
        return [AIMessage(output)]
    if isinstance(output, BaseMessage):
        return [output]
    if isinstance(output, dict) and "messages" in output:
        return _find_messages(output["messages"])
    if isinstance(output, list) and all(isinstance(item, BaseMessage) for item in output):
        return [message for message in output if not isinstance(message, RemoveMessage)]
    return None


def _is_text_of(heard: AIMessage, text: str) -> bool:
    """Return whether a parser has taken a text, and nothing else, out of a message."""
    return heard.text == text and not _has_calls(heard) and not find_calls(heard)


# -- Values ---------------------------------------------------------------------------------------
def _is_parsed(output: Mapping[str, Any]) -> bool:
    """Return whether structured output comes with the message that it was read from."""
    return isinstance(output.get("raw"), BaseMessage) and "parsed" in output


def _make_reply(value: Any, heard: BaseMessage | None) -> Reply:
    if not isinstance(heard, AIMessage):
        text = value if isinstance(value, str) else describe_as_json(value)
        return Reply([AIMessage(text)], {STRUCTURED: [type(value).__name__]})
    calls = [*find_calls(heard), *heard.invalid_tool_calls]
    if not calls or _has_call_ids(value, {call["id"] for call in calls}):
        return Reply([heard])
    # Nobody will answer these calls: they are how the model wrote the value.
    args = [call["args"] for call in calls]
    written = args[0] if len(args) == 1 else args
    found = [str(heard.text), written if isinstance(written, str) else describe_as_json(written)]
    message = AIMessage(
        "\n".join(text for text in found if text.strip()),
        id=heard.id,
        name=heard.name,
        usage_metadata=heard.usage_metadata,
        response_metadata=heard.response_metadata,
    )
    return Reply([message], {STRUCTURED: [str(call["name"]) for call in calls]})


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


def _complete_chunk(message: BaseMessage) -> BaseMessage:
    if isinstance(message, BaseMessageChunk):
        return message_chunk_to_message(message)
    return message


class _StreamedMessage:
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

    def is_continued_by(self, piece: BaseMessage) -> bool:
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

    def merge(self) -> BaseMessage:
        return _complete_chunk(merge_pieces(self.pieces))


_NOTHING: Any = object()


def _keep_cut_value(value: Any) -> list[BaseMessage]:
    """Return what a stream of values had brought before it was cut off."""
    raw = value.get("raw") if isinstance(value, dict) else None
    if isinstance(raw, BaseMessage):
        return drop_cut_calls([_complete_chunk(raw)])
    return [AIMessage(describe_as_json(value))]


def _keep_whole_calls(message: BaseMessage, pieces: Sequence[BaseMessage]) -> BaseMessage:
    """Return a message whose calls are those with whole arguments; LangChain completes half ones.

    Args:
        message: What was made of the pieces.
        pieces: The chunks of it.
    """
    total = merge_pieces(pieces)
    if not isinstance(message, AIMessage) or not isinstance(total, AIMessageChunk):
        return message
    broken = [
        InvalidToolCall(
            type="invalid_tool_call",
            name=chunk["name"],
            args=chunk["args"],
            id=chunk["id"],
            error="the stream ended within it",
        )
        for chunk in total.tool_call_chunks
        if not _is_json(chunk["args"])
    ]
    lost = {call["id"] for call in broken}
    whole = [call for call in message.tool_calls if call["id"] not in lost]
    return message.model_copy(update={"tool_calls": whole, "invalid_tool_calls": broken})


def _is_json(text: str | None) -> bool:
    try:
        json.loads(text or "{}")
    except ValueError:
        return False
    return True


class ReplyCollector:
    """Collects the chunks of a stream as they pass, and makes messages of them at its end."""

    def __init__(self) -> None:
        self._parts: list[_StreamedMessage] = []
        self._value: Any = _NOTHING
        self._is_text = True

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
        self._is_text &= isinstance(chunk, str)
        pieces = list(_list_pieces(chunk))
        if not pieces and (chunk or not isinstance(chunk, str | list | dict)):
            is_first = self._value is _NOTHING
            self._value = chunk if is_first else add_up(self._value, chunk)
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: BaseMessage) -> None:
        known = next((part for part in reversed(self._parts) if part.has(piece)), None)
        if not isinstance(piece, BaseMessageChunk):
            if known is None:
                self._parts.append(_StreamedMessage(piece))
            else:
                known.pieces = [piece]  # the whole message after its chunks
        elif known is not None and known.is_growing:
            known.append(piece)
        elif self._parts and self._parts[-1].is_continued_by(piece):
            self._parts[-1].append(piece)
        else:
            self._parts.append(_StreamedMessage(piece))

    def complete(
        self,
        given: Sequence[BaseMessage],
        *,
        heard: AIMessage | None = None,
        output_messages_key: str | None = None,
    ) -> Reply:
        """Return what to store of a stream that came to its end; see `read_reply`."""
        messages = self._select_new_parts(self._parts, given)
        if not messages and (self._value is not _NOTHING or heard is not None):
            return read_reply(
                self._value, given, heard=heard, output_messages_key=output_messages_key
            )
        if self._is_text and len(messages) == 1:
            return read_reply(str(messages[0].text), given, heard=heard)
        return Reply(list(messages))

    def collect_unfinished(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return the messages of a stream that ended normally, but without a finish reason."""
        messages = settle_unfinished(self._select_new_parts(self._parts, given))
        if messages and _has_calls(messages[-1]):
            messages[-1] = _keep_whole_calls(messages[-1], self._parts[-1].pieces)
        return messages

    def collect_interrupted(self, given: Sequence[BaseMessage]) -> list[BaseMessage]:
        """Return what a stream produced before it was cut off.

        Tool calls of a message that was cut are left out: half a call looks like a whole one.
        """
        if self._value is not _NOTHING and not self._select_new_parts(self._parts, given):
            return _keep_cut_value(self._value)
        parts = list(self._parts)
        cut = [parts.pop().merge()] if parts and not parts[-1].is_whole else []
        whole = self._select_new_parts(parts, given)
        return [*whole, *(drop_cut_calls(cut) if cut else [])]

    @staticmethod
    def _select_new_parts(
        parts: Sequence[_StreamedMessage], given: Sequence[BaseMessage]
    ) -> list[BaseMessage]:
        """Return the parts' messages; what came in chunks was made just now, whatever its id."""
        messages = [part.merge() for part in parts]
        whole = [m for m, part in zip(messages, parts, strict=True) if not part.is_growing]
        new = {id(message) for message in _select_new(whole, given)}
        return [
            message
            for message, part in zip(messages, parts, strict=True)
            if part.is_growing or id(message) in new
        ]


def _list_pieces(chunk: Any) -> Iterator[BaseMessage]:
    if isinstance(chunk, BaseMessage):
        yield chunk
    elif isinstance(chunk, str):
        if chunk:
            yield AIMessageChunk(content=chunk)
    elif isinstance(chunk, tuple):
        if chunk and isinstance(chunk[0], BaseMessage):
            yield chunk[0]  # (message chunk, metadata): LangGraph's "messages" mode
    else:
        for item in chunk if isinstance(chunk, list) else _list_holders(chunk):
            yield from _list_pieces(item)


def _list_holders(chunk: Any) -> Iterator[Any]:
    """Yield what stands under `messages`, at the top or per node as LangGraph's updates do."""
    if isinstance(chunk, dict):
        holders = [chunk] if "messages" in chunk else chunk.values()
        for holder in holders:
            if isinstance(holder, dict) and "messages" in holder:
                yield holder["messages"]


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
    ignore_chain = True
    ignore_retriever = True
    ignore_agent = True
    ignore_custom_event = True

    def __init__(self, learn: LearnUsage | None = None) -> None:
        """Start with nothing heard.

        Args:
            learn: Is told what models report to have read, of any that is called.
        """
        self._learn = learn
        self._requests: dict[UUID, _Request] = {}
        self.first_token_ms: int | None = None
        """When the first words of the latest reply came, if it was streamed."""
        self.message: AIMessage | None = None
        """The last whole reply."""
        self._runs: set[UUID] = set()
        self._replies: dict[UUID, ReplyCollector] = {}

    def listen(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return the config with which models are called that are to be heard."""
        return merge_configs(config, {"callbacks": [self]})

    def collect_broken(self) -> list[BaseMessage]:
        """Return the partial messages of the last unfinished reply, if any."""
        latest = list(self._replies.values())[-1:]
        return [message for reply in latest for message in reply.collect_interrupted(())]

    def on_chat_model_start(
        self,
        serialized: dict[str, Any],  # noqa: ARG002 - LangChain passes it by place
        messages: Sequence[Any],
        *,
        run_id: UUID,
        parent_run_id: UUID | None = None,
        tags: Sequence[str] | None = None,
        **more: Any,
    ) -> None:
        """Listen to a reply, unless another model makes it, or the memory for itself."""
        if self._learn is not None and len(messages) == 1:
            self._requests[run_id] = _Request.read(messages[0], more)
        if parent_run_id not in self._runs and not set(INTERNAL_TAGS) & set(tags or ()):
            self._runs.add(run_id)
            self._replies[run_id] = ReplyCollector()
            self.first_token_ms = None

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Take a chunk."""
        message = getattr(chunk, "message", None)
        if message is not None and run_id in self._replies:
            self._add(run_id, message)

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Take the text of an event; such streams bring no chunks."""
        delta = event.get("delta") or {}
        if delta.get("type") == "text-delta" and run_id in self._replies:
            self._add(run_id, AIMessageChunk(content=delta["text"], id=f"lc_run--{run_id}"))

    def _add(self, run_id: UUID, chunk: BaseMessage) -> None:
        reply = self._replies[run_id]
        reply.add(chunk)
        if self.first_token_ms is None and reply.has_text:
            self.first_token_ms = get_now_ms()

    def on_llm_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:  # noqa: ARG002
        """Forget what was sent: nothing is reported of it."""
        self._requests.pop(run_id, None)

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep a reply that came whole; forget what broke before it: it was tried again."""
        self._note_usage(response, self._requests.pop(run_id, None))
        if run_id not in self._runs:
            return
        begun = list(self._replies)  # models that run at the same time end in any order
        for earlier in begun[: begun.index(run_id) + 1] if run_id in begun else ():
            self._replies.pop(earlier, None)
        generations = response.generations
        said = (
            getattr(generations[0][0], "message", None) if generations and generations[0] else None
        )
        if isinstance(said, AIMessage):
            whole = message_chunk_to_message(said) if isinstance(said, AIMessageChunk) else said
            self.message = whole if isinstance(whole, AIMessage) else None

    def _note_usage(self, response: Any, request: _Request | None) -> None:
        generations = response.generations
        if self._learn is None or request is None or request.model is None or not generations:
            return
        said = getattr(generations[0][0], "message", None) if generations[0] else None
        usage = getattr(said, "usage_metadata", None) or {}
        if usage:
            self._learn(request.model, request.messages, usage.get("input_tokens"), request.tools)


@dataclass(frozen=True, slots=True)
class _Request:
    """What a model was called with.

    Attributes:
        model: Its name; None if it has none.
        messages: All that it got.
        tools: Descriptions of tools that it got beside them.
    """

    model: str | None
    messages: Sequence[BaseMessage]
    tools: Any

    @classmethod
    def read(cls, messages: Sequence[BaseMessage], more: Mapping[str, Any]) -> _Request:
        """Return what the start of a run tells."""
        name = (more.get("metadata") or {}).get("ls_model_name")
        tools = (more.get("invocation_params") or {}).get("tools")
        return cls(name if isinstance(name, str) and name else None, messages, tools)


@contextmanager
def collect_replies(learn: LearnUsage | None = None) -> Iterator[PartialReplyHandler]:
    """Listen to the models that are called inside the block; see `PartialReplyHandler`."""
    heard = PartialReplyHandler(learn)
    before = var_child_runnable_config.get()
    var_child_runnable_config.set(heard.listen(before))
    try:
        yield heard
    finally:
        var_child_runnable_config.set(before)
