"""A reply as messages to store: from a chain's output, its stream, or what its models said."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    InvalidToolCall,
    RemoveMessage,
    ToolCall,
)
from langchain_core.messages.base import BaseMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import merge_configs, var_child_runnable_config

from langchain_convmem.causes import describe_name
from langchain_convmem.ids import get_now_ms
from langchain_convmem.runnables import INTERNAL_TAGS
from langchain_convmem.views.codec import describe_as_json
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.messages import RUN_PREFIX, is_continued_by, merge_pieces
from langchain_convmem.views.tool_calls import find_calls

_ANSWERS = ("output", "answer", "result", "response")
"""Keys under which LangChain's chains return their answer."""
_HANDED_ON = {"input", "history", "messages", "recalled", "summary", "__interrupt__"}
"""Keys that a chain may pass on from its input, or that LangGraph adds."""
_logger = logging.getLogger("langchain_convmem")


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
            stored as the message that it was parsed from, if one was heard, or as JSON or text.
        given: The messages that the chain was called with, the user's last; if they come back in a
            list, they are not new.
        heard: The last message that a chat model of the chain said.
        output_messages_key: The key under which a dict holds the answer.
    """
    answer = output
    if isinstance(output, dict):
        names = _ANSWERS if heard is None or "messages" in output else _ANSWERS[:1]
        if output_messages_key in output:
            answer = output[output_messages_key]
        elif not _select_new(_find_messages(output.get("messages")) or (), given):
            # A chain that passes its input on, as with `RunnablePassthrough.assign`, also returns
            # the user's words.
            found = [output[name] for name in names if _find_messages(output.get(name)) is not None]
            answer = next((one for one in found if one != given[-1].text), output)
    if isinstance(answer, BaseMessage):
        return [answer]
    if isinstance(answer, str):
        is_all_of_it = heard is not None and heard.text == answer and not _list_calls(heard)
        return [heard if heard is not None and is_all_of_it else AIMessage(answer)]
    if isinstance(answer, dict) and "parsed" in answer and isinstance(answer.get("raw"), AIMessage):
        return [_make_message(answer["parsed"], answer["raw"])]
    said = _find_messages(answer)
    messages = _select_new(said or (), given)
    if not messages and isinstance(answer, dict):
        messages = [one for one in answer.values() if isinstance(one, AIMessage)]
    if messages or (said is not None and heard is None):
        if not messages and isinstance(answer, dict) and (left := answer.keys() - _HANDED_ON):
            _logger.warning(
                "the chain returned a dict without a new message, so no reply is stored; name the "
                "key of its reply with output_messages_key= (it has %s)",
                ", ".join(sorted(map(describe_name, left))),
            )
        return list(messages)
    # A chain that returns nothing, and whose models said nothing, answers nothing.
    return [] if answer is None and heard is None else [_make_message(answer, heard)]


def _cut_last(messages: list[BaseMessage]) -> list[BaseMessage]:
    """Return the messages of a reply; if the last one has no end, only its text is left of it.

    Half a call looks like a whole one, and half of a model's reasoning has no signature.
    """
    for cut in messages[-1:]:
        if isinstance(cut, AIMessageChunk) and cut.chunk_position != "last":
            part = AIMessage(str(cut.text), id=cut.id, usage_metadata=cut.usage_metadata)
            return [*messages[:-1], part] if cut.text.strip() else messages[:-1]
    return messages


def mark_interrupted(message: BaseMessage) -> BaseMessage:
    """Return a message marked as cut off."""
    metadata = {**message.response_metadata, INTERRUPTED: True}
    return message.model_copy(update={"response_metadata": metadata})


def _find_messages(output: object) -> list[BaseMessage] | None:
    if isinstance(output, dict) and "messages" in output:
        output = output["messages"]
    if isinstance(output, str):
        return [AIMessage(output)]
    if isinstance(output, BaseMessage):
        return [output]
    if isinstance(output, list) and all(isinstance(item, BaseMessage) for item in output):
        return [message for message in output if not isinstance(message, RemoveMessage)]
    return None


def _make_message(value: object, heard: BaseMessage | None) -> BaseMessage:
    """Return the message that a value was parsed from, or one that holds the value."""
    if not isinstance(heard, AIMessage):
        return AIMessage(value if isinstance(value, str) else describe_as_json(value))
    calls = _list_calls(heard)
    items = value if isinstance(value, list) else [value]
    ids = {item.get("id") for item in items if isinstance(item, dict)}
    if not calls or any(call["id"] in ids - {None} for call in calls):
        return heard  # a parser may have returned the calls, and the caller will answer them
    # Nobody will answer these calls: they are how the model wrote the value.
    args = [call["args"] for call in calls]
    texts = [one if isinstance(one, str) else describe_as_json(one) for one in [heard.text, *args]]
    content = "\n".join(text for text in texts if text.strip())
    plain: dict[str, Any] = {"tool_calls": [], "invalid_tool_calls": [], "additional_kwargs": {}}
    return heard.model_copy(update={"content": content, **plain})


def _list_calls(message: AIMessage) -> list[ToolCall | InvalidToolCall]:
    return [*find_calls(message), *message.invalid_tool_calls]


def _select_new(
    found: Sequence[BaseMessage], given: Sequence[BaseMessage]
) -> Sequence[BaseMessage]:
    """Return what follows the user's message if that comes back, or all that is not in `given`."""
    asked = given[-1]
    for number in reversed(range(len(found))):
        one = found[number]
        is_anew = one.id is None and isinstance(one, HumanMessage) and one.content == asked.content
        if is_anew or (one.id is not None and one.id == asked.id):
            return found[number + 1 :]
    # Compared whole, because a chain may use the same ids again in every turn.
    return [one for one in found if one not in given]


# -- A stream -------------------------------------------------------------------------------------
@dataclass(slots=True)
class ReplyCollector:
    """Collects the chunks of a stream, which add up to the chain's output."""

    _parts: list[list[BaseMessage]] = field(default_factory=list, init=False)
    _value: Any = field(default=None, init=False)

    @property
    def output(self) -> Any:
        """What the chain would have returned: a message, messages, or a value."""
        said = list(map(merge_pieces, self._parts))
        return (said[0] if len(said) == 1 else said) if said else self._value

    def add(self, chunk: Any) -> None:
        """Take one chunk: a message or part of one, LangGraph's updates, or part of a value."""
        pieces = _list_pieces(chunk)
        if not pieces:
            self._value = chunk if self._value is None else add_up(self._value, chunk)
        for piece in pieces:
            self._take(piece)

    def _take(self, piece: BaseMessage) -> None:
        parts = [one for one in self._parts if piece.id and piece.id in (one[0].id, one[-1].id)]
        parts = parts or [one for one in self._parts[-1:] if is_continued_by(one, piece)]
        if parts and not isinstance(piece, BaseMessageChunk):
            parts[-1][:] = [piece]  # the whole message after its chunks
        elif parts and isinstance(parts[-1][-1], BaseMessageChunk):
            parts[-1].append(piece)
        else:
            self._parts.append([piece])

    def collect_cut(
        self, given: Sequence[BaseMessage], output_messages_key: str | None = None
    ) -> list[BaseMessage]:
        """Return what a stream that broke off has brought; see `read_reply`."""
        output = self.output or None  # nothing was said by an empty value
        return _cut_last(read_reply(output, given, output_messages_key=output_messages_key))


def _list_pieces(chunk: Any) -> list[BaseMessage]:
    """Return the messages in a chunk of a model, or of LangGraph: with metadata, or by node."""
    if isinstance(chunk, tuple):
        chunk = next(iter(chunk), None)
    if isinstance(chunk, dict):
        nodes = [one.get("messages") for one in chunk.values() if isinstance(one, dict)]
        return [piece for one in nodes for piece in _find_messages(one) or ()]
    return [chunk] if isinstance(chunk, BaseMessage) else []


async def aclose_quietly(stream: AsyncIterator[Any]) -> None:
    """Close a stream now, if it can be closed, rather than when it is collected."""
    if hasattr(stream, "aclose"):
        await stream.aclose()


def add_up(total: Any, chunk: Any) -> Any:
    """Return the value of a stream so far, as LangChain adds values up."""
    try:
        return total + chunk
    except TypeError:
        return chunk


# -- Ids ------------------------------------------------------------------------------------------
def assign_free_ids(
    messages: Iterable[BaseMessage], taken: Iterable[str], new_id: Callable[[int], str | None]
) -> Iterator[BaseMessage]:
    """Yield the messages, each with an id that no other message of the thread has.

    A model behind a cache repeats its ids, and with an equal id a message would replace another.

    Args:
        messages: In order.
        taken: Ids of other messages of the thread.
        new_id: Returns the id of a message that has none of its own, by the message's number; None
            leaves it to the log.
    """
    used = set(taken)
    for number, message in enumerate(messages):
        if message.id and message.id not in used:
            used.add(message.id)
            yield message
        else:
            yield message.model_copy(update={"id": new_id(number)})


# -- What the models of a host say ----------------------------------------------------------------
class PartialReplyHandler(BaseCallbackHandler):
    """Collects the replies of the models that are called for one turn of a host.

    It does not listen to models that another model calls to make its reply, to those of the memory
    itself, nor to those whose words no stream shows. If several run at the same time, the one that
    ends last counts.
    """

    run_inline = True

    def __init__(self) -> None:
        """Start with nothing heard."""
        self._chunks: dict[UUID, list[BaseMessage] | None] = {}  # by run; None after its end
        self.first_token_ms: int | None = None
        """When the first words of the latest reply came, if it was streamed."""
        self.message: AIMessage | None = None
        """The last whole reply."""

    def listen(self, config: RunnableConfig | None) -> RunnableConfig:
        """Return a config; models that are called with it are heard."""
        return merge_configs(config, {"callbacks": [self]})

    def collect_broken(self) -> list[BaseMessage]:
        """Return the partial messages of the last unfinished reply, if any."""
        begun = [chunks for chunks in self._chunks.values() if chunks]
        return _cut_last([merge_pieces(begun[-1])]) if begun else []

    def on_chat_model_start(self, *_: Any, run_id: UUID, **run: Any) -> None:
        """Listen to a reply, unless it is one of those that are not heard."""
        is_own = not set(INTERNAL_TAGS).isdisjoint(run.get("tags") or ())
        if not is_own and run.get("parent_run_id") not in self._chunks:
            self._chunks[run_id] = []
            self.first_token_ms = None

    def on_llm_new_token(self, *_: Any, run_id: UUID, chunk: Any = None, **__: Any) -> None:
        """Take a chunk."""
        chunks, message = self._chunks.get(run_id), getattr(chunk, "message", None)
        if chunks is not None and message is not None:
            chunks.append(message)
            self.first_token_ms = self.first_token_ms or get_now_ms()

    def on_stream_event(self, event: Mapping[str, Any], *, run_id: UUID, **_: Any) -> None:
        """Take the text of an event: LangChain's typed streams (`version="v3"`) have no chunks."""
        delta = event.get("delta") or {}
        if delta.get("type") == "text-delta":
            said = AIMessageChunk(content=delta["text"], id=f"{RUN_PREFIX}-{run_id}")
            self.on_llm_new_token(run_id=run_id, chunk=ChatGenerationChunk(message=said))

    def on_llm_end(self, response: Any, *, run_id: UUID, **_: Any) -> None:
        """Keep a whole reply, and drop what broke off before it, because this is the retry."""
        made = response.generations
        said = getattr(made[0][0], "message", None) if made and made[0] else None
        if run_id not in self._chunks:
            return
        for begun in list(self._chunks):  # models that run at the same time end in any order
            self._chunks[begun] = None
            if begun == run_id:
                break
        if isinstance(said, AIMessage):
            self.message = said


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
