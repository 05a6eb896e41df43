"""Replies: how models write what they think, what they say and what they call."""

from __future__ import annotations

import json
import re
import secrets
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.messages.tool import ToolCallChunk, tool_call_chunk

from langchain_convmem.text.call_syntaxes import (
    ParsedCall,
    clean_text,
    ends_in_text,
    may_open_calls,
    set_texts,
    split_bare_calls,
)
from langchain_convmem.text.reply_formats import (
    Channel,
    ReplyFormat,
    ToolCallBlock,
    get_reply_format,
)

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_ID_LENGTH = 9


class ReplyReader:
    """Reads one reply. The result does not depend on how the text was split.

    The text is `content`, always a `str`. What the model thought is
    `additional_kwargs["reasoning_content"]`, which `content_blocks` shows as a block of reasoning
    and chat templates know; other channels are in `additional_kwargs["channels"]`, by name. Calls
    come whole, when their block closes. Calls that cannot be read become `invalid_tool_calls`,
    their `args` the text of the call as a text in JSON: whatever LangChain adds up, it never takes
    that for arguments. The last chunk has the whole text in `response_metadata["raw_text"]`.

    Line ends next to a mark belong to the mark. One reader per reply; not thread-safe.
    """

    def __init__(
        self,
        format: str | ReplyFormat,  # noqa: A002 - the usual name
        *,
        channels: Sequence[Channel] | None = None,
        prompt_end: str = "",
        tools: bool | Sequence[Any] = True,
    ) -> None:
        """Begin a reply.

        Args:
            format: How it is written; a name of `REPLY_FORMATS`, or a format.
            channels: Its channels, in place of those of the format; none of them if it is empty.
            prompt_end: The prompt, or its end: if it ends inside a channel, the reply starts there.
            tools: Whether there may be calls; otherwise what looks like one is text. The tools
                themselves, in the form of OpenAI, say which arguments are texts where the model
                does not.

        Raises:
            ConfigError: If there is no such format, or a channel has an empty name or mark.
        """
        form = get_reply_format(format)
        if channels is not None:
            form = replace(form, channels=tuple(channels))
        self._parser = ReplyParser(form, prompt_end=prompt_end, tools=bool(tools))
        self._texts = {} if isinstance(tools, bool) else find_text_arguments(tools)
        self._ids: set[str] = set()
        self._raw: list[str] = []

    def feed(self, text: str) -> list[AIMessageChunk]:
        """Take what comes next, and return what is certain by now: a chunk, or nothing."""
        # Halves of characters cannot be stored, nor sent.
        text = clean_text(text)
        self._raw.append(text)
        self._parser.feed(text)
        chunk = self._build_chunk()
        return [] if chunk is None else [chunk]

    @property
    def end_of_thought(self) -> str:
        """What closes the thoughts in which the reply is now; empty outside of thoughts."""
        opened = self._parser.opened
        return opened.end if isinstance(opened, Channel) and opened.reasoning else ""

    def finish(self, *, finish_reason: str | None = "stop") -> list[AIMessageChunk]:
        """Return what was held back, if anything, and the last chunk, which has no content."""
        self._parser.finish()
        chunk = self._build_chunk()
        raw = "".join(self._raw)
        last = AIMessageChunk(
            content="",
            response_metadata={"raw_text": raw, "finish_reason": finish_reason},
            chunk_position="last",
        )
        return [last] if chunk is None else [chunk, last]

    def _build_chunk(self) -> AIMessageChunk | None:
        content = self._parser.content.take()
        extra = self._take_channels()
        calls, self._parser.calls = self._parser.calls, []
        if not (content or extra or calls):
            return None
        return AIMessageChunk(
            content=content,
            additional_kwargs=extra,
            tool_call_chunks=[self._build_call(call) for call in calls],
        )

    def _take_channels(self) -> dict[str, Any]:
        """Return what is new in channels."""
        sinks = self._parser.channels.items()
        new = {name: text for name, sink in sinks if (text := sink.take())}
        thought = new.pop(None, "")
        extra: dict[str, Any] = {"reasoning_content": thought} if thought else {}
        return {**extra, "channels": new} if new else extra

    def _build_call(self, found: ParsedCall) -> ToolCallChunk:
        call = set_texts(found, self._texts.get(found.name or "", ()))
        index = len(self._ids)
        call_id = _create_id() if call.id is None or call.id in self._ids else call.id
        self._ids.add(call_id)
        args = call.arguments or json.dumps(call.text, ensure_ascii=False)
        return tool_call_chunk(name=call.name, args=args, id=call_id, index=index)


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
    """
    reader = ReplyReader(format, **options)
    chunks = [*reader.feed(text), *reader.finish(finish_reason=finish_reason)]
    message = message_chunk_to_message(add_ai_message_chunks(chunks[0], *chunks[1:]))
    assert isinstance(message, AIMessage)  # noqa: S101 - chunks of AI messages become AI messages
    return message


def _create_id() -> str:
    """Return an id that all templates take; those of Mistral take no other length."""
    return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(_ID_LENGTH))


# -- A reply, taken apart while it comes ----------------------------------------------------------


_LOOKS_LIKE_A_MARK = re.compile(r"<\S|\[/?[A-Z_]+\]")


class ReplyParser:
    """Sorts a text into content, channels and calls; equal for every way to cut the text.

    Attributes:
        content: The text outside of channels and calls.
        channels: The text of every channel that was opened, by its name; what the model thought
            in whatever channel, in the order of its thoughts, by None.
        calls: The calls found so far.
        opened: The channel or block in which it stands; None outside of both.
    """

    def __init__(self, form: ReplyFormat, *, prompt_end: str, tools: bool) -> None:
        """Begin a reply after the prompt that ends so."""
        self.content = TextSink()
        self.channels: dict[str | None, TextSink] = {}
        self.calls: list[ParsedCall] = []
        self._opens: dict[str, Channel | ToolCallBlock | None] = {
            **dict.fromkeys(form.marks),
            **{block.start: block for block in (form.call_blocks if tools else ())},
            **{channel.start: channel for channel in form.channels},
        }
        self._starts = Delimiters(self._opens)
        self._may_be_bare = form.has_bare_calls and tools
        # What follows may make a longer mark of it.
        self._held = max(filter(prompt_end.endswith, form.marks), key=len, default="")
        self._enter(None)
        for channel in form.channels:
            _, start, after = prompt_end.rpartition(channel.start)
            if start and channel.end not in after and not _LOOKS_LIKE_A_MARK.search(after):
                self._held = ""
                self._enter(channel)
                break

    def _enter(self, opened: Channel | ToolCallBlock | None) -> None:
        """Go on within a channel or a block, or outside of both."""
        self.opened = opened
        self._wanted = self._starts
        self._sink = self.content
        self._body = ""
        if opened is not None:
            self._wanted = Delimiters([opened.end or opened.start])
        if isinstance(opened, Channel):
            name = None if opened.reasoning else opened.name
            self._sink = self.channels.setdefault(name, TextSink())
            self._sink.mark()

    def feed(self, text: str, *, is_end: bool = False) -> None:
        """Take what comes next."""
        data, self._held = self._held + text, ""
        while data:
            if self._may_be_bare and self.opened is None and not self.content.has_text:
                if not is_end and may_open_calls(data):
                    self._held = data
                    return
                if is_end:
                    calls, data = split_bare_calls(data)
                    self._take(calls)
            at, mark = self._wanted.find(data, is_end=is_end)
            if isinstance(self.opened, ToolCallBlock):
                self._body += data[:at]
            else:
                self._sink.write(data[:at])
            if mark is None:
                self._held = data[at:]
                return
            data = self._meet(mark, data[at + len(mark) :])

    def finish(self) -> None:
        """Take apart what was held back; what is open ends here."""
        self.feed("", is_end=True)
        block = self.opened
        if isinstance(block, ToolCallBlock):
            if re.match(block.begins, self._body):
                self._take((block.open_syntax or block.syntax)(self._body))
            else:
                self.content.write(block.start + self._body)
        self.content.finish()

    def _meet(self, mark: str, rest: str) -> str:
        """Go on behind a mark; return the text to go on with."""
        block = self.opened
        if isinstance(block, ToolCallBlock):
            calls = block.syntax(self._body)
            # The mark may stand within an argument: then the call goes on.
            if any(call.arguments is None for call in calls) and ends_in_text(self._body):
                self._body += mark
                return rest
            self._take(calls)
            self._enter(None if block.end else block)
            return rest
        self.content.mark()
        self._enter(None if block is not None else self._opens[mark])
        return rest

    def _take(self, calls: Sequence[ParsedCall]) -> None:
        self.calls += calls
        if calls:
            self.content.mark()


# -- Where the text of a reply and of its channels is gathered ------------------------------------


class TextSink:
    """Text between marks. The line ends next to a mark belong to it, not to the text.

    Those at the end are held back until it is known what follows.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.has_text = False
        self._new: list[str] = []
        self._line_ends = 0
        self._is_after_mark = False

    def write(self, text: str) -> None:
        """Add text."""
        if self._is_after_mark:
            text = text.lstrip("\n")
        body = text.rstrip("\n")
        if body:
            self._new.append("\n" * self._line_ends + body)
            self._line_ends = 0
            self.has_text = True
        if text:
            self._is_after_mark = False
        self._line_ends += len(text) - len(body)

    def mark(self) -> None:
        """Note that a mark stands here."""
        self._is_after_mark = True
        if not self.has_text:
            self._line_ends = 0

    def finish(self) -> None:
        """Note that nothing follows."""
        if not self._is_after_mark:
            self._new.append("\n" * self._line_ends)

    def take(self) -> str:
        """Return what is new since the last time."""
        new, self._new = "".join(self._new), []
        return new


# -- Where the next delimiter stands in a text that is still coming -------------------------------


class Delimiters:
    """Texts to look for. The leftmost wins, and of those that begin alike the longest.

    That holds for a text in pieces as for the whole: what may yet become a delimiter is waited for.
    """

    def __init__(self, texts: Collection[str]) -> None:
        """Prepare the search; none of the texts may be empty."""
        longest_first = sorted(texts, key=len, reverse=True)
        self._longest = max(map(len, texts), default=0)
        self._whole = re.compile("|".join(map(re.escape, longest_first)) or "(?!)")
        self._begun = {text[:end] for text in texts for end in range(1, len(text))}

    def find(self, data: str, *, is_end: bool) -> tuple[int, str | None]:
        """Return up to where there is no delimiter, and the one that stands there.

        It is None if there is none, or if it takes more text to know; no more is waited for than
        the longest delimiter is long.

        Args:
            data: The text.
            is_end: Whether no more text comes.
        """
        found = self._whole.search(data)
        place = len(data) if found is None else found.start()
        if not is_end:
            tail = range(max(0, len(data) - self._longest + 1), len(data))
            begun = next((start for start in tail if data[start:] in self._begun), len(data))
            if begun <= place:
                return begun, None
        return place, None if found is None else found.group()


# -- Which arguments of tools are texts -----------------------------------------------------------


def find_text_arguments(tools: Iterable[Any]) -> dict[str, frozenset[str]]:
    """Return the names of the arguments that can only be texts, by the tool's name.

    Args:
        tools: In the form of OpenAI; what has another form says nothing.
    """
    found = {}
    for tool in tools:
        try:
            function = tool.get("function", tool)
            properties = function["parameters"]["properties"].items()
            texts = [key for key, schema in properties if _list_types(schema) == {"string"}]
            found[str(function["name"])] = frozenset(texts)
        except (AttributeError, KeyError, TypeError):
            continue
    return found


def _list_types(schema: Mapping[str, Any]) -> set[Any]:
    """Return the types that a schema names, without that of nothing."""
    told = [schema.get("type"), *(one.get("type") for one in schema.get("anyOf", ()))]
    kinds = [one if isinstance(one, list) else [one] for one in told]
    return {kind for some in kinds for kind in some} - {None, "null"}


# -- Cutting a text that comes in pieces where a stop text begins ---------------------------------


class StopTexts:
    """Lets a text through up to the first stop text, which may lie across pieces.

    What may yet become a stop text is held back; of two that begin at one place the longer one
    counts. However the text is cut into pieces, the same of it comes through.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        """Look for `texts`; empty ones are left out."""
        self._delimiters = Delimiters({text for text in texts if text})
        self._held = ""
        self.found = ""  # the stop text that came

    def feed(self, piece: str, *, is_end: bool = False) -> str:
        """Return what is certain to stand before any stop text."""
        if self.found:
            return ""
        data = self._held + piece
        place, found = self._delimiters.find(data, is_end=is_end)
        self.found = found or ""
        self._held = data[place:]
        return data[:place]

    def finish(self) -> str:
        """Return what was held back; no more text comes."""
        return self.feed("", is_end=True)
