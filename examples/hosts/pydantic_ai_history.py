"""The message history of a Pydantic AI agent in a `ConversationMemory`.

Copy this file into your application and change it as you like:

    history = MemoryHistory(memory, "monday", user_id="ana")
    result = agent.run_sync("Who has the spare key?", message_history=history.load())
    history.add(result.new_messages())

What was said, called and returned becomes LangChain messages, so that chains, recall and all else
over the same memory can read it. The messages themselves, thinking included, are stored in
`additional_kwargs["pydantic_ai"]` and handed back to the agent unchanged. If your memory has a
write hook that redacts messages, have it drop that key: the history is then made from the redacted
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
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

from langchain_convmem import ConversationMemory

KEY = "pydantic_ai"
FOLLOWS = "follows"
"""Stands for the messages of a request after its first one, which holds the whole request."""


class MemoryHistory:
    """One thread of a memory as a message history. The caller closes the memory."""

    def __init__(
        self, memory: ConversationMemory, thread_id: str, *, user_id: str | None = None
    ) -> None:
        """Open a thread of a user; nothing is written."""
        self._memory = memory
        self._history = memory.history(thread_id, user_id=user_id)

    def load(self) -> list[ModelMessage]:
        """Return the thread's messages: what no summary covers, and the summary before it."""
        summary = self._history.last_summary
        found: list[ModelMessage] = []
        if summary is not None:
            told = "\n\n".join(summary.contents)
            found.append(ModelRequest(parts=[UserPromptPart(content=told)]))
        entries = [entry for turn in self._history.model_turns for entry in turn.entries]
        messages = [entry.message for entry in entries if entry.message is not None]
        answered = {one.tool_call_id for one in messages if isinstance(one, ToolMessage)}
        for message in messages:
            found += write_message(message, answered)
        return found

    def add(self, messages: Iterable[ModelMessage]) -> None:
        """Store messages, such as `result.new_messages()`, all or none."""
        made = [one for message in messages for one in read_message(message)]
        self._memory.add_messages(
            made, thread_id=self._history.thread_id, user_id=self._history.user_id
        )


def read_message(message: ModelMessage) -> Iterator[BaseMessage]:
    """Yield the LangChain messages of a message; the first one keeps it whole."""
    [whole] = ModelMessagesTypeAdapter.dump_python([message], mode="json")
    parts = read_request(message) if isinstance(message, ModelRequest) else read_response(message)
    for number, made in enumerate(parts):
        made.additional_kwargs[KEY] = FOLLOWS if number else whole
        yield made


def read_request(request: ModelRequest) -> Iterator[BaseMessage]:
    """Yield what the user said and what tools returned; instructions belong to one run alone."""
    for part in request.parts:
        if isinstance(part, UserPromptPart):
            yield HumanMessage(read_prompt(part.content))
        elif isinstance(part, ToolReturnPart):
            text = part.model_response_str()
            yield ToolMessage(text, name=part.tool_name, tool_call_id=part.tool_call_id)
        elif isinstance(part, RetryPromptPart) and part.tool_name is not None:
            text = part.model_response()
            yield ToolMessage(text, tool_call_id=part.tool_call_id, status="error")


def read_prompt(content: Any) -> str:
    """Return the text of a prompt; media are named."""
    if isinstance(content, str):
        return content
    return "\n\n".join(one if isinstance(one, str) else "[media]" for one in content)


def read_response(response: ModelResponse) -> Iterator[BaseMessage]:
    """Yield the model's reply with its calls."""
    texts = [part.content for part in response.parts if isinstance(part, TextPart)]
    calls = [
        {"name": part.tool_name, "args": part.args_as_dict(), "id": part.tool_call_id}
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    yield AIMessage("".join(texts), tool_calls=calls)


def write_message(message: BaseMessage, answered: set[str]) -> list[ModelMessage]:
    """Return a message as Pydantic AI takes it; calls without a result are left out."""
    kept = message.additional_kwargs.get(KEY)
    if kept is not None:
        return [] if kept == FOLLOWS else ModelMessagesTypeAdapter.validate_python([kept])
    if isinstance(message, ToolMessage):
        result = ToolReturnPart(
            tool_name=message.name or "tool",
            content=message.text,
            tool_call_id=message.tool_call_id,
        )
        return [ModelRequest(parts=[result])]
    if isinstance(message, HumanMessage):
        return [ModelRequest(parts=[UserPromptPart(content=message.text)])]
    if not isinstance(message, AIMessage):
        return []
    parts: list[Any] = [TextPart(content=message.text)] if message.text else []
    parts += [
        ToolCallPart(tool_name=call["name"], args=call["args"], tool_call_id=call["id"] or "")
        for call in message.tool_calls
        if call["id"] in answered
    ]
    return [ModelResponse(parts=parts)] if parts else []
