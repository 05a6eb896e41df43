"""`PydanticAIHistory`: a thread of the memory as the message history of a Pydantic AI agent.

Its messages are kept as they came, thinking and provider details included, and returned to
Pydantic AI as they are; all other hosts read the messages that they make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from langchain_convmem.effects import Steps, sync, twin
from langchain_convmem.errors import InvalidMessageError, MissingExtraError
from langchain_convmem.integrations.natives import NativeThread, find_answered_calls, has_item
from langchain_convmem.records import Entry, ThreadKey

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

try:
    from pydantic_ai.messages import (
        ModelMessage,
        ModelMessagesTypeAdapter,
        ModelRequest,
        ModelResponse,
        RetryPromptPart,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
except ImportError as error:
    raise MissingExtraError.build("A message history of Pydantic AI", "pydantic-ai") from error

HOST = "pydantic_ai"
_FOLLOWS = {"follows": True}
"""The item of an entry that another one, just before it, holds the message of."""


class PydanticAIHistory:
    """The message history of Pydantic AI agents, in the memory that all hosts share. Thread-safe.

    Pass what `load` returns as `message_history`, and `add` the new messages of the run. What a
    summary of the memory stands for is told by the summary, in a request of the user's.
    """

    def __init__(
        self, memory: ConversationMemory, thread_id: str, *, user_id: str | None = None
    ) -> None:
        """Look at a thread, which need not exist yet.

        Args:
            memory: The memory; the caller closes it.
            thread_id: The thread.
            user_id: Its user, whose lines are recalled together; None is an anonymous thread.

        Raises:
            ConfigError: If an id is empty.
        """
        self._key = ThreadKey(user_id, thread_id)
        self._thread = NativeThread(memory, self._key, HOST)

    def __repr__(self) -> str:
        return f"PydanticAIHistory({self._key.thread_id!r}, user_id={self._key.user_id!r})"

    @sync
    def load(self) -> Steps[list[ModelMessage]]:
        """Return the thread's messages in the order in which they were said.

        Raises:
            LogError: If the log cannot be read.
        """
        return self._load_steps()

    aload = twin(load)
    """Async `load`."""

    @sync
    def add(self, messages: Sequence[ModelMessage]) -> Steps[None]:
        """Store messages, such as `result.new_messages()`, all or none.

        Raises:
            InvalidMessageError: If one is no message of Pydantic AI; nothing is written.
        """
        return self._add_steps(messages)

    aadd = twin(add)
    """Async `add`."""

    def _add_steps(self, messages: Sequence[ModelMessage]) -> Steps[None]:
        made = [one for message in messages for one in self._make_messages(message)]
        if made:
            yield from self._thread.append_steps(made)

    def _make_messages(self, message: ModelMessage) -> Iterator[BaseMessage]:
        """Yield the messages of one of Pydantic AI's; the first of them keeps it whole."""
        if isinstance(message, ModelRequest):
            made = list(_read_request(message)) or [AIMessage("")]
        elif isinstance(message, ModelResponse):
            made = [_read_response(message)]
        else:
            msg = f"expected messages of Pydantic AI, got a {type(message).__name__}"
            raise InvalidMessageError(msg)
        [item] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
        whole = [self._thread.attach(made[0], item)]
        whole += [self._thread.attach(later, _FOLLOWS) for later in made[1:]]
        # Where a write hook changed one of them, none keeps what it took away.
        yield from whole if all(has_item(one) for one in whole) else made

    def _load_steps(self) -> Steps[list[ModelMessage]]:
        told, entries = yield from self._thread.read_steps()
        answered = find_answered_calls(entries)
        shown: list[ModelMessage] = [_write_text(message) for message in told]
        for entry in entries:
            item = self._thread.find_item(entry)
            if item == _FOLLOWS:
                continue
            if item is not None:
                shown += ModelMessagesTypeAdapter.validate_python([item])
            else:
                shown += _write_message(entry, answered)
        return shown


# -- From messages of Pydantic AI -----------------------------------------------------------------
def _read_request(request: ModelRequest) -> Iterator[BaseMessage]:
    """Yield what the user said and what tools returned. Instructions steer a run alone."""
    for part in request.parts:
        if isinstance(part, UserPromptPart):
            yield HumanMessage(_read_prompt(part.content))
        elif isinstance(part, ToolReturnPart):
            text = part.model_response_str()
            yield ToolMessage(text, name=part.tool_name, tool_call_id=part.tool_call_id)
        elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
            text = part.model_response()
            yield ToolMessage(text, tool_call_id=part.tool_call_id, status="error")


def _read_prompt(content: Any) -> str:
    if isinstance(content, str):
        return content
    texts = [getattr(one, "content", one) for one in content]
    said = [one if isinstance(one, str) else "[media: not shown]" for one in texts]
    return "\n\n".join(said)


def _read_response(response: ModelResponse) -> AIMessage:
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [part for part in response.parts if isinstance(part, ToolCallPart)]
    return AIMessage(
        "".join(texts),
        tool_calls=[
            {"name": one.tool_name, "args": one.args_as_dict(), "id": one.tool_call_id}
            for one in calls
        ],
    )


# -- To messages of Pydantic AI -------------------------------------------------------------------
def _write_message(entry: Entry, answered: frozenset[str]) -> list[ModelMessage]:
    """Return what another host wrote; calls that nothing answers are left out."""
    message = entry.message
    if isinstance(message, ToolMessage):
        if message.tool_call_id not in answered:
            return []
        part = ToolReturnPart(
            tool_name=message.name or "tool",
            content=str(message.text),
            tool_call_id=message.tool_call_id,
        )
        return [ModelRequest(parts=[part])]
    if not isinstance(message, AIMessage):
        return [] if message is None or entry.role == "system" else [_write_text(message)]
    parts: list[Any] = [TextPart(content=str(message.text))] if entry.contents else []
    parts += [
        ToolCallPart(tool_name=call["name"], args=call["args"], tool_call_id=call["id"] or "")
        for call in message.tool_calls
        if call["id"] in answered
    ]
    return [ModelResponse(parts=parts)] if parts else []


def _write_text(message: BaseMessage) -> ModelMessage:
    text = str(message.text)
    if isinstance(message, AIMessage):
        return ModelResponse(parts=[TextPart(content=text)])
    return ModelRequest(parts=[UserPromptPart(content=text)])
