"""A session of the OpenAI Agents SDK that keeps its items in a `ConversationMemory`.

Copy this file into your application and change it as you like:

    session = MemorySession(memory, "monday", user_id="ana")
    await Runner.run(agent, "The spare key is with Teresa.", session=session)

Each item of the SDK becomes a LangChain message, so that chains, recall and everything else over
the same memory can read it. The items themselves, reasoning included, are stored in the message's
`additional_kwargs["openai_items"]` and handed back to the SDK unchanged. If your memory has a write
hook that redacts messages, have it drop that key: items are then made from the redacted text.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agents.memory.session import SessionABC
from agents.memory.session_settings import SessionSettings, resolve_session_limit
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import default_tool_parser

from langchain_convmem import ConversationMemory

KEY = "openai_items"
SPEAKERS: dict[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
}


class MemorySession(SessionABC):
    """One thread of a memory as a session of the SDK. The caller closes the memory."""

    def __init__(
        self,
        memory: ConversationMemory,
        session_id: str,
        *,
        user_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Open the thread `session_id` of a user; nothing is written."""
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._memory = memory
        self._history = memory.history(session_id, user_id=user_id)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the latest items, oldest first: what no summary covers, and the summary."""
        found = [item for _, items in await self._read() for item in items]
        wanted = resolve_session_limit(limit, self.session_settings)
        return found if wanted is None else found[max(len(found) - wanted, 0) :]

    async def add_items(self, items: list[Any]) -> None:
        """Store items, all or none. An item that is no message is stored with the next one."""
        messages: list[BaseMessage] = []
        waiting: list[Any] = []
        for item in items:
            waiting.append(item)
            message = make_message(item)
            if message is not None:
                message.additional_kwargs[KEY] = waiting
                messages.append(message)
                waiting = []
        if waiting:
            text = ", ".join(f"[{item.get('type')}]" for item in waiting)
            messages.append(AIMessage(text, additional_kwargs={KEY: waiting}))
        await self._memory.aadd_messages(
            messages, thread_id=self.session_id, user_id=self._history.user_id
        )

    async def pop_item(self) -> Any:
        """Erase the latest item and return it; None if there is none."""
        for entry_id, items in reversed(await self._read()):
            if entry_id and items:
                await self._memory.aforget(
                    user_id=self._history.user_id, thread_id=self.session_id, entry_ids=[entry_id]
                )
                await self.add_items(items[:-1])
                return items[-1]
        return None

    async def clear_session(self) -> None:
        """Start anew. The log keeps what was said; `memory.forget` erases it."""
        await self._history.aclear()

    async def _read(self) -> list[tuple[str, list[Any]]]:
        """Return the items of each entry with its id; summaries have none."""
        turns, summary = await asyncio.gather(
            self._history.amodel_turns(), self._history.alast_summary()
        )
        entries = [entry for turn in turns for entry in turn.entries if entry.message is not None]
        answered = {getattr(one.message, "tool_call_id", None) for one in entries}
        told = "" if summary is None else "\n\n".join(summary.contents)
        found = [("", [{"role": "developer", "content": told}])] if told else []
        return found + [(one.id, list(make_items(one.message, answered))) for one in entries]


def make_message(item: Mapping[str, Any]) -> BaseMessage | None:
    """Return the message of an item; None for what only the SDK reads, such as reasoning."""
    if item.get("role") in SPEAKERS:
        return SPEAKERS[item["role"]](read_text(item.get("content")))
    if item.get("type") == "function_call":
        calls, _ = default_tool_parser([{"function": item, "id": item["call_id"]}])
        broken = {"name": item["name"], "args": {}, "id": item["call_id"]}
        return AIMessage("", tool_calls=calls or [broken])
    if item.get("type") == "function_call_output":
        return ToolMessage(read_text(item.get("output")), tool_call_id=item["call_id"])
    return None


def read_text(content: Any) -> str:
    """Return the text of an item; other parts are named."""
    if isinstance(content, str):
        return content
    return "\n\n".join(part.get("text") or f"[{part.get('type')}]" for part in content or ())


def make_items(message: Any, answered: Iterable[str | None]) -> Iterable[dict[str, Any]]:
    """Yield the items of a message; calls without a result, which the API refuses, are left out."""
    if KEY in message.additional_kwargs:
        yield from message.additional_kwargs[KEY]
        return
    if isinstance(message, ToolMessage):
        result = {"call_id": message.tool_call_id, "output": message.text}
        yield {"type": "function_call_output", **result}
        return
    if message.text:
        role = {"human": "user", "ai": "assistant"}.get(message.type, "developer")
        yield {"role": role, "content": message.text}
    for call in getattr(message, "tool_calls", ()):
        if call["id"] in answered:
            said = {"name": call["name"], "arguments": json.dumps(call["args"])}
            yield {"type": "function_call", "call_id": call["id"], **said}
