"""`ConversationSession`: a thread of the memory as a session of the OpenAI Agents SDK.

Its items are kept as they came and returned to the SDK as they are; all other hosts read the
messages that they make: text, tool calls and results.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from langchain_convmem.causes import describe_value
from langchain_convmem.effects import Steps, run_async
from langchain_convmem.errors import ConfigError, InvalidMessageError, MissingExtraError
from langchain_convmem.integrations.natives import NativeThread, find_answered_calls
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.transfer.messages import make_invalid_call, parse_tool_call

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

try:
    from agents.memory.session import SessionABC
    from agents.memory.session_settings import SessionSettings, resolve_session_limit
except ImportError as error:
    raise MissingExtraError.build("A session of the OpenAI Agents SDK", "openai-agents") from error

HOST = "openai_agents"

_TEXTS = ("input_text", "output_text", "text")
_SPEAKERS: Mapping[str, type[BaseMessage]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "system": SystemMessage,
    "developer": SystemMessage,
}
_ROLES = {"user": "user", "assistant": "assistant", "system": "developer"}


class ConversationSession(SessionABC):
    """A session of the OpenAI Agents SDK that survives restarts, in the memory all hosts share.

    Reads and writes are safe from several processes at once; two runs of one session at the same
    time interleave, as in the SDK's own sessions. What a summary of the memory stands for is told
    by the summary, in a message of the user's.
    """

    def __init__(
        self,
        memory: ConversationMemory,
        session_id: str,
        *,
        user_id: str | None = None,
        session_settings: SessionSettings | None = None,
    ) -> None:
        """Open a session; nothing is written.

        Args:
            memory: The memory; the caller closes it.
            session_id: The thread.
            user_id: Its user, whose lines are recalled together; None is an anonymous thread.
            session_settings: The SDK's, such as how many of the latest items a run reads.

        Raises:
            ConfigError: If an id is empty.
        """
        self.session_id = session_id
        self.session_settings = session_settings or SessionSettings()
        self._thread = NativeThread(memory, ThreadKey(user_id, session_id), HOST)
        self._history = memory.history(session_id, user_id=user_id)

    def __repr__(self) -> str:
        return f"ConversationSession({self.session_id!r}, user_id={self._history.user_id!r})"

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Return the latest items in the order in which they were said.

        Args:
            limit: How many at most; None is what the session's settings say, or all.

        Raises:
            ConfigError: If the limit is below 0.
            LogError: If the log cannot be read.
        """
        wanted = resolve_session_limit(limit, self.session_settings)
        if wanted is not None and wanted < 0:
            raise ConfigError(f"limit must be at least 0 or None, got {describe_value(wanted)}")
        items = await run_async(self._read_steps())
        return items if wanted is None else items[max(len(items) - wanted, 0) :]

    async def add_items(self, items: list[Any]) -> None:
        """Store items in order, all or none.

        Raises:
            InvalidMessageError: If one is not an item of the Responses API; nothing is written.
        """
        messages = [self._thread.attach(_make_message(item), item) for item in items]
        if messages:
            await run_async(self._thread.append_steps(messages))

    async def pop_item(self) -> Any:
        """Take back the latest item and return it; None from an empty session.

        A message of another host goes whole, with all items that it makes.
        """
        return await run_async(self._pop_steps())

    async def clear_session(self) -> None:
        """Let the session start anew. The log keeps what was said; `memory.forget` erases it."""
        await self._history.aclear()

    def _read_steps(self) -> Steps[list[Any]]:
        told, entries = yield from self._thread.read_steps()
        answered = find_answered_calls(entries)
        items: list[Any] = [_make_text_item(message) for message in told]
        for entry in entries:
            items += self._list_items(entry, answered)
        return items

    def _pop_steps(self) -> Steps[Any]:
        _, entries = yield from self._thread.read_steps()
        answered = find_answered_calls(entries)
        for entry in reversed(entries):
            items = self._list_items(entry, answered)
            if items:
                yield from self._thread.retract_steps(entry)
                return items[-1]
        return None

    def _list_items(self, entry: Entry, answered: frozenset[str]) -> list[Any]:
        native = self._thread.find_item(entry)
        return list(_make_items(entry, answered)) if native is None else [native]


# -- From an item to a message --------------------------------------------------------------------
def _make_message(item: Any) -> BaseMessage:
    """Return the message of an item; a blank one of the assistant for what only the SDK reads.

    Raises:
        InvalidMessageError: If it is no item.
    """
    if not isinstance(item, Mapping):
        msg = f"an item must be a map as the Responses API takes it, got {describe_value(item)}"
        raise InvalidMessageError(msg)
    kind, role = item.get("type", "message"), item.get("role")
    if isinstance(role, str) and role in _SPEAKERS:
        return _SPEAKERS[role](_read_content(item.get("content")))
    if kind == "function_call":
        return _make_call(item)
    if kind == "function_call_output":
        text = _read_content(item.get("output"))
        return ToolMessage(text, tool_call_id=str(item.get("call_id")))
    if role is not None or not isinstance(kind, str) or kind == "message":
        msg = (
            f"an item must have a type, or the role {', '.join(_SPEAKERS)}; "
            f"got {describe_value(role)}"
        )
        raise InvalidMessageError(msg)
    return AIMessage("")


def _make_call(item: Mapping[str, Any]) -> AIMessage:
    name, words, call_id = (str(item.get(key) or "") for key in ("name", "arguments", "call_id"))
    call = parse_tool_call(name, words, call_id)
    if call is None:
        return AIMessage("", invalid_tool_calls=[make_invalid_call(name, words, call_id)])
    return AIMessage("", tool_calls=[call])


def _read_content(content: Any) -> Any:
    """Return content of LangChain's: text, or blocks where there is more than text."""
    if isinstance(content, str):
        return content
    blocks = [_read_part(part) for part in content or () if isinstance(part, Mapping)]
    if all(block["type"] == "text" for block in blocks):
        return "\n\n".join(block["text"] for block in blocks)
    return blocks


def _read_part(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part.get("type")
    if kind in _TEXTS:
        return {"type": "text", "text": str(part.get("text", ""))}
    if kind == "refusal":
        return {"type": "text", "text": str(part.get("refusal", ""))}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        return {"type": "image_url", "image_url": {"url": part["image_url"]}}
    return {"type": "text", "text": f"[{kind or 'part'}: not shown]"}


# -- From a message to items ----------------------------------------------------------------------
def _make_items(entry: Entry, answered: frozenset[str]) -> Iterator[dict[str, Any]]:
    """Yield the items of what another host wrote; calls that nothing answers are left out."""
    message = entry.message
    if isinstance(message, ToolMessage):
        if message.tool_call_id in answered:
            yield {
                "type": "function_call_output",
                "call_id": message.tool_call_id,
                "output": str(message.text),
            }
        return
    if message is not None and (entry.contents or not isinstance(message, AIMessage)):
        yield _make_text_item(message)
    if isinstance(message, AIMessage):
        for call in message.tool_calls:
            if call["id"] in answered:
                yield {
                    "type": "function_call",
                    "call_id": call["id"],
                    "name": call["name"],
                    "arguments": json.dumps(call["args"], ensure_ascii=False),
                }


def _make_text_item(message: BaseMessage) -> dict[str, Any]:
    roles: Sequence[tuple[type[BaseMessage], str]] = (
        (HumanMessage, "user"),
        (AIMessage, "assistant"),
    )
    role = next((name for kind, name in roles if isinstance(message, kind)), "system")
    return {"role": _ROLES[role], "content": _write_content(message, role)}


def _write_content(message: BaseMessage, role: str) -> Any:
    """Return a message's content as the Responses API takes it; images of the user stay."""
    if role != "user" or isinstance(message.content, str):
        return str(message.text)
    parts: list[dict[str, Any]] = []
    for block in message.content:
        url = _find_image(block)
        text = block if isinstance(block, str) else block.get("text")
        if url is not None:
            parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
        elif isinstance(text, str) and text.strip():
            parts.append({"type": "input_text", "text": text})
    return parts or str(message.text)


def _find_image(block: Any) -> str | None:
    if not isinstance(block, Mapping) or block.get("type") not in ("image_url", "image"):
        return None
    image = block.get("image_url", block)
    url = image.get("url") if isinstance(image, Mapping) else image
    if isinstance(url, str):
        return url
    data, kind = block.get("base64"), block.get("mime_type")
    return f"data:{kind};base64,{data}" if data and kind else None
