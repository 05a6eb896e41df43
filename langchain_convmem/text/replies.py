"""Replies: how models write what they think, what they say and what they call."""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    ToolCallChunk,
    message_chunk_to_message,
)
from langchain_core.messages.ai import add_ai_message_chunks

from langchain_convmem.text.call_syntaxes import (
    LONGEST_HEAD,
    BareSyntax,
    ParsedCall,
    ends_in_text,
    set_texts,
    write_json_text,
)
from langchain_convmem.text.reply_formats import (
    Channel,
    ReplyFormat,
    ToolCallBlock,
    check_channels,
    get_reply_format,
)

_LETTERS_AND_DIGITS = string.ascii_letters + string.digits
_SHORT_ID = 9
_SHOWN = 200
_SURROGATES = re.compile("[\ud800-\udfff]")


class ReplyReader:
    """Reads one reply. What its chunks add up to does not depend on how the text was cut.

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
        call_ids: Callable[[], str] | None = None,
    ) -> None:
        """Begin a reply.

        Args:
            format: How it is written; a name of `REPLY_FORMATS`, or a format.
            channels: Its channels, in place of those of the format; none of them if it is empty.
            prompt_end: The prompt, or its end: if it ends inside a channel, the reply starts there.
            tools: Whether there may be calls; otherwise what looks like one is text. The tools
                themselves, in the form of OpenAI, say which arguments are texts where the model
                does not.
            call_ids: Makes an id for a call that the model gave none, or one given before.

        Raises:
            ConfigError: If there is no such format, or a channel has an empty name or mark.
        """
        form = get_reply_format(format)
        chosen = form.channels if channels is None else check_channels(channels)
        self._parser = ReplyParser(form, chosen, prompt_end=prompt_end, tools=bool(tools))
        self._texts = {} if isinstance(tools, bool) else find_text_arguments(tools)
        self._new_id = call_ids or (_create_short_id if form.has_short_ids else _create_long_id)
        self._ids: set[str] = set()
        self._raw: list[str] = []

    def feed(self, text: str) -> list[AIMessageChunk]:
        """Take what comes next, and return what is certain by now: a chunk, or nothing."""
        # Halves of characters cannot be stored, nor sent.
        text = _SURROGATES.sub("\ufffd", text)
        self._raw.append(text)
        self._parser.feed(text)
        chunk = self._build_chunk()
        return [] if chunk is None else [chunk]

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
        call_id = call.id
        if call_id is None or call_id in self._ids:
            call_id = self._new_id()
        while call_id in self._ids:
            call_id = f"{call_id}_{index}"
        self._ids.add(call_id)
        args = write_json_text(call.text) if call.arguments is None else call.arguments
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
    """
    reader = ReplyReader(format, **options)
    chunks = [*reader.feed(text), *reader.finish(finish_reason=finish_reason)]
    message = message_chunk_to_message(add_ai_message_chunks(chunks[0], *chunks[1:]))
    assert isinstance(message, AIMessage)  # noqa: S101 - chunks of AI messages become AI messages
    return message


def _create_long_id() -> str:
    return f"call_{secrets.token_hex(12)}"


def _create_short_id() -> str:
    return "".join(secrets.choice(_LETTERS_AND_DIGITS) for _ in range(_SHORT_ID))


# -- A reply, taken apart while it comes ----------------------------------------------------------


_LOOKS_LIKE_A_MARK = re.compile(r"<\S|\[/?[A-Z_]+\]")

_Reader: TypeAlias = Callable[[int, bool], int]
"""Goes on from a place in the data, and returns up to where it came."""


class ReplyParser:
    """Sorts a text into content, channels and calls; equal for every way to cut the text.

    Attributes:
        content: The text outside of channels and calls.
        channels: The text of every channel that was opened, by its name; what the model thought
            in whatever channel, in the order of its thoughts, by None.
        calls: The calls found so far.
    """

    def __init__(
        self, form: ReplyFormat, channels: Sequence[Channel], *, prompt_end: str, tools: bool
    ) -> None:
        """Begin a reply after the prompt that ends so."""
        self.content = TextSink()
        self.channels: dict[str | None, TextSink] = {}
        self.calls: list[ParsedCall] = []
        blocks = form.call_blocks if tools else ()
        self._opens: dict[str, Channel | ToolCallBlock | None] = {
            **dict.fromkeys(form.marks),
            **{block.start: block for block in blocks},
            **{channel.start: channel for channel in channels},
        }
        self._starts = Delimiters(self._opens)
        ends = [block.end or block.start for block in blocks]
        ends += [channel.end for channel in channels]
        self._ends = {end: Delimiters([end]) for end in ends}
        self._bare = form.bare if tools else None
        self._held_bare: list[str] = []
        self._bare_head = ""
        self._block: ToolCallBlock | None = None
        self._body: list[str] = []
        # Where in the body an end was passed over first, since it seemed to stand within a text.
        self._passed_over: int | None = None
        self._data = self._held = ""
        self._read: _Reader = self._choose_reader()
        self._begin_after(prompt_end, channels, form.marks)

    def feed(self, text: str) -> None:
        """Take what comes next."""
        self._run(text, is_end=False)

    def finish(self) -> None:
        """Take apart what was held back; what is open is closed."""
        self._run("", is_end=True)
        if self._bare is not None and self._held_bare:
            self._end_bare(self._bare)
        while self._block is not None:
            self._end_block(self._block)
        for sink in self.channels.values():
            sink.mark()
        self.content.finish()

    def _run(self, text: str, *, is_end: bool) -> None:
        self._data, self._held = self._held + text, ""
        place = 0
        while place < len(self._data):
            place = self._read(place, is_end)

    def _hold(self, place: int) -> int:
        """Wait for more before what comes from here on is looked at."""
        self._held = self._data[place:]
        return len(self._data)

    def _begin_after(
        self, prompt_end: str, channels: Sequence[Channel], marks: Sequence[str]
    ) -> None:
        for channel in channels:
            _, start, after = prompt_end.rpartition(channel.start)
            if start and channel.end not in after and not _LOOKS_LIKE_A_MARK.search(after):
                self._open_channel(channel)
                return
        # What follows may make a longer mark of it.
        self._held = max(filter(prompt_end.endswith, marks), key=len, default="")

    # -- outside of channels and blocks -----------------------------------------------------------

    def _choose_reader(self) -> _Reader:
        if self._bare is None or self.content.has_text:
            return self._read_text
        return partial(self._read_bare, self._bare)

    def _read_text(self, place: int, is_end: bool) -> int:
        at, mark = self._starts.find(self._data, place, is_end=is_end)
        self.content.write(self._data[place:at])
        if mark is None:
            return self._hold(at)
        self.content.mark()
        opened = self._opens[mark]
        if isinstance(opened, Channel):
            self._open_channel(opened)
        elif opened is not None:
            self._block, self._read = opened, partial(self._read_block, opened)
        return at + len(mark)

    # -- calls without a block --------------------------------------------------------------------

    def _read_bare(self, syntax: BareSyntax, place: int, _is_end: bool) -> int:
        """Hold a reply that begins with a call until its end, or until it turns out to be text."""
        self._held_bare.append(self._data[place:])
        self._bare_head = (self._bare_head + self._data[place:])[:LONGEST_HEAD]
        if syntax.may_open(self._bare_head):
            return len(self._data)
        self._data = "".join(self._held_bare)
        self._held_bare, self._bare_head, self._read = [], "", self._read_text
        return 0

    def _end_bare(self, syntax: BareSyntax) -> None:
        """Decide on a text that may begin with calls."""
        text, self._held_bare, self._read = "".join(self._held_bare), [], self._read_text
        calls, rest = syntax.split(text)
        self.calls += calls
        if calls:
            self.content.mark()
        self._run(rest, is_end=True)

    # -- channels ---------------------------------------------------------------------------------

    def _open_channel(self, channel: Channel) -> None:
        name = None if channel.reasoning else channel.name
        sink = self.channels.setdefault(name, TextSink())
        sink.mark()
        self._read = partial(self._read_channel, self._ends[channel.end], sink)

    def _read_channel(self, ends: Delimiters, sink: TextSink, place: int, is_end: bool) -> int:
        at, mark = ends.find(self._data, place, is_end=is_end)
        sink.write(self._data[place:at])
        if mark is None:
            return self._hold(at)
        sink.mark()
        self.content.mark()
        self._read = self._choose_reader()
        return at + len(mark)

    # -- blocks -----------------------------------------------------------------------------------

    def _read_block(self, block: ToolCallBlock, place: int, is_end: bool) -> int:
        ends = self._ends[block.end or block.start]
        at, mark = ends.find(self._data, place, is_end=is_end)
        self._body.append(self._data[place:at])
        if mark is None:
            return self._hold(at)
        body = "".join(self._body)
        calls = block.syntax(body)
        if _is_broken(calls):
            if ends_in_text(body):
                if self._passed_over is None:
                    self._passed_over = len(body)
                self._body = [body, mark]
                return at + len(mark)
            if self._passed_over is not None:
                self._data = self._close_earlier(block, body, self._passed_over) + self._data[at:]
                return 0
        self._close(block, calls)
        return at + len(mark)

    def _close(self, block: ToolCallBlock, calls: Sequence[ParsedCall]) -> None:
        self._take(calls)
        if block.end:
            self._block, self._read = None, self._choose_reader()

    def _close_earlier(self, block: ToolCallBlock, body: str, place: int) -> str:
        """Close at the end that was passed over, as the text was broken; return what follows."""
        self._close(block, block.syntax(body[:place]))
        return body[place + len(block.end or block.start) :]

    def _end_block(self, block: ToolCallBlock) -> None:
        """Decide on what comes after the start of a block that is not closed."""
        body = "".join(self._body)
        if self._passed_over is not None and _is_broken(block.syntax(body)):
            self._run(self._close_earlier(block, body, self._passed_over), is_end=True)
            return
        self._block = None
        if re.match(block.begins, body):
            self._take((block.open_syntax or block.syntax)(body))
        else:
            self.content.write(block.start + body)

    def _take(self, calls: Sequence[ParsedCall]) -> None:
        self.calls += calls
        self._body, self._passed_over = [], None
        self.content.mark()


def _is_broken(calls: Iterable[ParsedCall]) -> bool:
    return any(call.arguments is None for call in calls)


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
        if not self._is_after_mark and self._line_ends:
            self._new.append("\n" * self._line_ends)
        self._line_ends = 0

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
        begun = [_build_prefix_pattern(text[:-1]) for text in longest_first if text[1:]]
        self._begun = re.compile(rf"(?:{'|'.join(begun) or '(?!)'})\Z")

    def find(self, data: str, start: int, *, is_end: bool) -> tuple[int, str | None]:
        """Return up to where there is no delimiter, and the one that stands there.

        It is None if there is none, or if it takes more text to know; no more is waited for than
        the longest delimiter is long.

        Args:
            data: The text.
            start: Where to look from.
            is_end: Whether no more text comes.
        """
        found = self._whole.search(data, start)
        place = len(data) if found is None else found.start()
        if not is_end:
            begun = self._begun.search(data, max(start, len(data) - self._longest + 1))
            if begun is not None and begun.start() <= place:
                return begun.start(), None
        return place, None if found is None else found.group()


def _build_prefix_pattern(text: str) -> str:
    """Return the pattern of all beginnings of a text that are not empty."""
    pattern = ""
    for character in reversed(text):
        pattern = re.escape(character) + (f"(?:{pattern})?" if pattern else "")
    return pattern


# -- Which arguments of tools are texts -----------------------------------------------------------


def find_text_arguments(tools: Iterable[Any]) -> dict[str, frozenset[str]]:
    """Return the names of the arguments that can only be texts, by the tool's name.

    Args:
        tools: In the form of OpenAI; what has another form says nothing.
    """
    found = {}
    for tool in tools:
        function = _get_map(tool, "function") or tool
        properties = _get_map(_get_map(function, "parameters"), "properties")
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            texts = (key for key, schema in properties.items() if _list_types(schema) == {"string"})
            found[function["name"]] = frozenset(texts)
    return found


def _list_types(schema: Any) -> set[str]:
    """Return the types that a schema names, without that of nothing."""
    if not isinstance(schema, Mapping):
        return set()
    told = schema.get("type", [])
    inner = [kind for one in schema.get("anyOf", []) for kind in _list_types(one)]
    return {*([told] if isinstance(told, str) else told), *inner} - {"null"}


def _get_map(holder: Any, key: str) -> Mapping[str, Any]:
    found = holder.get(key) if isinstance(holder, Mapping) else None
    return found if isinstance(found, Mapping) else {}


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
        self.found = ""
        """The stop text that came; empty until one does."""

    def feed(self, piece: str) -> str:
        """Return what is certain to stand before any stop text."""
        return self._filter(piece, is_end=False)

    def finish(self) -> str:
        """Return what was held back; no more text comes."""
        return self._filter("", is_end=True)

    def _filter(self, piece: str, *, is_end: bool) -> str:
        if self.found:
            return ""
        data = self._held + piece
        place, found = self._delimiters.find(data, 0, is_end=is_end)
        self.found = found or ""
        self._held = "" if found else data[place:]
        return data[:place]
