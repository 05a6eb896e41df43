"""`ReplyReader`: the text of a model to chunks of a message, while it comes."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Sequence
from typing import Any, Literal

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ToolCallChunk,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks

from langchain_convmem.conversation.replies.families import reply_format
from langchain_convmem.conversation.replies.formats import Channel, ReplyFormat, checked_channels
from langchain_convmem.conversation.replies.parsing import ReplyParser
from langchain_convmem.conversation.replies.syntaxes.calls import Call, as_json_text, with_texts
from langchain_convmem.conversation.replies.text_arguments import text_arguments
from langchain_convmem.errors import ReplyFormatError

__all__ = ["ReplyReader", "read_reply"]

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_SHORT_ID = 9
_SHOWN = 200
_SURROGATES = re.compile("[\ud800-\udfff]")


class ReplyReader:
    """Reads one reply. What its chunks add up to does not depend on how the text was cut.

    The text is `content`, always a `str`. What the model thought is
    `additional_kwargs["reasoning_content"]`, which `content_blocks` shows as a block of reasoning
    and chat templates know; other channels are in `additional_kwargs["channels"]`, by name. Calls
    come whole, when their fence closes. Calls that cannot be read become `invalid_tool_calls`,
    their `args` the text of the call as a text in JSON: whatever LangChain adds up, it never takes
    that for arguments. The last chunk has the whole text in `response_metadata["raw_text"]`.

    Line ends beside a mark belong to the mark. One reader per reply; not thread-safe.
    """

    def __init__(
        self,
        format: str | ReplyFormat,  # noqa: A002 - what everybody calls it
        *,
        channels: Sequence[Channel] | None = None,
        prompt_end: str = "",
        tools: bool | Sequence[Any] = True,
        broken_calls: Literal["raise", "invalid"] = "invalid",
        call_ids: Callable[[], str] | None = None,
    ) -> None:
        """Begin a reply.

        Args:
            format: How it is written; a name of `REPLY_FORMATS`, or a format.
            channels: Its channels, in place of those of the format; none of them if it is empty.
            prompt_end: The prompt, or its end: if it ends inside a channel, the reply starts there.
            tools: Whether there may be calls; otherwise what looks like one is text. The tools
                themselves, in the form of OpenAI, tell which arguments are texts where the model
                does not.
            broken_calls: What to do with calls that cannot be read.
            call_ids: Makes an id for a call that the model gave none, or one given before.

        Raises:
            ConfigError: If there is no such format, or a channel has an empty name or mark.
        """
        form = reply_format(format)
        chosen = form.channels if channels is None else checked_channels(channels)
        self._parser = ReplyParser(form, chosen, prompt_end=prompt_end, tools=bool(tools))
        self._texts = {} if isinstance(tools, bool) else text_arguments(tools)
        self._raises = broken_calls == "raise"
        self._new_id = call_ids or (_short_id if form.has_short_ids else _long_id)
        self._ids: set[str] = set()
        self._raw: list[str] = []
        self._is_broken = False

    def feed(self, text: str) -> list[AIMessageChunk]:
        """Take what comes next, and return what is certain by now: a chunk, or nothing."""
        # Halves of characters cannot be stored, nor sent.
        text = _SURROGATES.sub("\ufffd", text)
        self._raw.append(text)
        self._parser.feed(text)
        chunk = self._chunk()
        return [] if chunk is None else [chunk]

    def finish(self, *, finish_reason: str | None = "stop") -> list[AIMessageChunk]:
        """Return what was held back, if anything, and the last chunk, which has no content.

        Raises:
            ReplyFormatError: If there were broken calls, and they are to be raised.
        """
        self._parser.finish()
        chunk = self._chunk()
        raw = "".join(self._raw)
        if self._is_broken and self._raises:
            raise ReplyFormatError(
                f"a tool call cannot be read in the reply {raw[:_SHOWN]!r}", text=raw
            )
        last = AIMessageChunk(
            content="",
            response_metadata={"raw_text": raw, "finish_reason": finish_reason},
            chunk_position="last",
        )
        return [last] if chunk is None else [chunk, last]

    def _chunk(self) -> AIMessageChunk | None:
        content = self._parser.content.take()
        extra = self._channels()
        calls, self._parser.calls = self._parser.calls, []
        if not (content or extra or calls):
            return None
        return AIMessageChunk(
            content=content,
            additional_kwargs=extra,
            tool_call_chunks=[self._call(call) for call in calls],
        )

    def _channels(self) -> dict[str, Any]:
        """Return what is new in channels."""
        sinks = self._parser.channels.items()
        new = {name: text for name, sink in sinks if (text := sink.take())}
        thought = new.pop(None, "")
        extra: dict[str, Any] = {"reasoning_content": thought} if thought else {}
        return {**extra, "channels": new} if new else extra

    def _call(self, found: Call) -> ToolCallChunk:
        call = with_texts(found, self._texts.get(found.name or "", ()))
        self._is_broken = self._is_broken or call.arguments is None
        index = len(self._ids)
        call_id = call.id
        if call_id is None or call_id in self._ids:
            call_id = self._new_id()
        while call_id in self._ids:
            call_id = f"{call_id}_{index}"
        self._ids.add(call_id)
        args = as_json_text(call.text) if call.arguments is None else call.arguments
        return ToolCallChunk(
            name=call.name, args=args, id=call_id, index=index, type="tool_call_chunk"
        )


def read_reply(
    text: str,
    format: str | ReplyFormat,  # noqa: A002 - as above
    *,
    finish_reason: str | None = "stop",
    **options: Any,
) -> AIMessage:
    """Return the message of a whole reply: what the chunks of a reader add up to.

    Args:
        text: The reply.
        format: How it is written.
        finish_reason: Why it ended.
        **options: See `ReplyReader`.

    Raises:
        ConfigError: See `ReplyReader`.
        ReplyFormatError: See `ReplyReader`.
    """
    reader = ReplyReader(format, **options)
    chunks = [*reader.feed(text), *reader.finish(finish_reason=finish_reason)]
    message = message_chunk_to_message(add_ai_message_chunks(chunks[0], *chunks[1:]))
    assert isinstance(message, AIMessage)  # noqa: S101 - chunks of AI messages become AI messages
    return message


def _long_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _short_id() -> str:
    return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(_SHORT_ID))
