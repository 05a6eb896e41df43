"""A reply, taken apart while it comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from langchain_convmem.conversation.replies.delimiters import Delimiters
from langchain_convmem.conversation.replies.formats import Channel, Fence, ReplyFormat
from langchain_convmem.conversation.replies.sinks import TextSink
from langchain_convmem.conversation.replies.syntaxes.bare import BareSyntax, BareText, Seen
from langchain_convmem.conversation.replies.syntaxes.calls import (
    Call,
    JsonEnd,
    broken,
    json_end,
)

__all__ = ["ReplyParser"]

_LOOKS_LIKE_A_MARK = re.compile(r"<\S|\[/?[A-Z_]+\]")
_Step: TypeAlias = Callable[[int, bool], int]
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
        """Begin a reply behind the prompt that ends so."""
        self.content = TextSink()
        self.channels: dict[str | None, TextSink] = {}
        self.calls: list[Call] = []
        fences = form.fences if tools else ()
        self._opens: dict[str, Channel | Fence | None] = {
            **dict.fromkeys(form.marks),
            **{fence.start: fence for fence in fences},
            **{channel.start: channel for channel in channels},
        }
        self._starts = Delimiters(self._opens)
        ends = [fence.end or fence.start for fence in fences]
        ends += [channel.end for channel in channels]
        self._ends = {end: Delimiters([end]) for end in ends}
        self._bare = form.bare if tools else None
        self._bare_text: BareText | None = None
        self._fence: Fence | None = None
        self._body: list[str] = []
        # Where in the body an end was passed over first, since it seemed to stand within a text.
        self._passed_over: int | None = None
        self._data = self._held = ""
        self._step: _Step = self._outside()
        self._begin_behind(prompt_end, channels, form.marks)

    def feed(self, text: str) -> None:
        """Take what comes next."""
        self._run(text, is_end=False)

    def finish(self) -> None:
        """Take apart what was held back; what is open is closed."""
        self._run("", is_end=True)
        while self._bare_text is not None or self._fence is not None:
            if self._bare_text is not None:
                self._end_bare(self._bare_text)
            elif self._fence is not None:
                self._end_fence(self._fence)
        for sink in self.channels.values():
            sink.mark()
        self.content.finish()

    def _run(self, text: str, *, is_end: bool) -> None:
        self._data, self._held = self._held + text, ""
        place = 0
        while place < len(self._data):
            place = self._step(place, is_end)

    def _hold(self, place: int) -> int:
        """Wait for more before what comes from here on is looked at."""
        self._held = self._data[place:]
        return len(self._data)

    def _begin_behind(
        self, prompt_end: str, channels: Sequence[Channel], marks: Sequence[str]
    ) -> None:
        for channel in channels:
            _, start, behind = prompt_end.rpartition(channel.start)
            if start and channel.end not in behind and not _LOOKS_LIKE_A_MARK.search(behind):
                self._open_channel(channel)
                return
        # What follows may make a longer mark of it.
        self._held = max(filter(prompt_end.endswith, marks), key=len, default="")

    # -- outside of channels and fences -----------------------------------------------------------

    def _outside(self) -> _Step:
        if self._bare is None or self.content.has_text:
            return self._in_text
        return partial(self._in_bare, self._bare)

    def _in_text(self, place: int, is_end: bool) -> int:
        at, mark = self._starts.find(self._data, place, is_end=is_end)
        self.content.write(self._data[place:at])
        if mark is None:
            return self._hold(at)
        self.content.mark()
        opened = self._opens[mark]
        if isinstance(opened, Channel):
            self._open_channel(opened)
        elif opened is not None:
            self._fence, self._step = opened, partial(self._in_fence, opened)
        return at + len(mark)

    # -- calls without a fence --------------------------------------------------------------------

    def _in_bare(self, syntax: BareSyntax, place: int, _is_end: bool) -> int:
        held = self._bare_text
        bare = held or BareText(syntax, is_first=True)
        end, seen = bare.feed(self._data, place)
        if seen is Seen.TEXT:
            self._bare_text, self._step = None, self._in_text
            if held is None:
                return place
            self._data = bare.text + self._data[end:]
            return 0
        self._bare_text = bare
        if seen is Seen.CLOSED:
            self.calls += syntax.read(bare.text)
            self.content.mark()
            self._bare_text = BareText(syntax, is_first=False)
        return end

    def _end_bare(self, bare: BareText) -> None:
        """Decide on a text that may be a call and is not closed."""
        self._bare_text, self._step = None, self._in_text
        if bare.is_call:
            self.calls.append(broken(bare.text))
            self.content.mark()
        else:
            self._run(bare.text, is_end=True)

    # -- channels ---------------------------------------------------------------------------------

    def _open_channel(self, channel: Channel) -> None:
        name = None if channel.reasoning else channel.name
        sink = self.channels.setdefault(name, TextSink())
        sink.mark()
        self._step = partial(self._in_channel, self._ends[channel.end], sink)

    def _in_channel(self, ends: Delimiters, sink: TextSink, place: int, is_end: bool) -> int:
        at, mark = ends.find(self._data, place, is_end=is_end)
        sink.write(self._data[place:at])
        if mark is None:
            return self._hold(at)
        sink.mark()
        self.content.mark()
        self._step = self._outside()
        return at + len(mark)

    # -- fences -----------------------------------------------------------------------------------

    def _in_fence(self, fence: Fence, place: int, is_end: bool) -> int:
        ends = self._ends[fence.end or fence.start]
        at, mark = ends.find(self._data, place, is_end=is_end)
        self._body.append(self._data[place:at])
        if mark is None:
            return self._hold(at)
        body = "".join(self._body)
        calls = fence.syntax(body)
        is_broken = any(call.arguments is None for call in calls)
        json = json_end(body) if is_broken else JsonEnd.RIGHT
        if json is JsonEnd.IN_TEXT:
            if self._passed_over is None:
                self._passed_over = len(body)
            self._body = [body, mark]
            return at + len(mark)
        if json is JsonEnd.WRONG and self._passed_over is not None:
            self._data = self._close_earlier(fence, body, self._passed_over) + self._data[at:]
            return 0
        self._close(fence, calls)
        return at + len(mark)

    def _close(self, fence: Fence, calls: Sequence[Call]) -> None:
        self._take(calls)
        if fence.end:
            self._fence, self._step = None, self._outside()

    def _close_earlier(self, fence: Fence, body: str, place: int) -> str:
        """Close where an end was passed over, as the text was broken; return what stands behind."""
        self._close(fence, fence.syntax(body[:place]))
        return body[place + len(fence.end or fence.start) :]

    def _end_fence(self, fence: Fence) -> None:
        """Decide on what stands behind the start of a fence that is not closed."""
        body = "".join(self._body)
        if self._passed_over is not None and json_end(body) is not JsonEnd.RIGHT:
            self._run(self._close_earlier(fence, body, self._passed_over), is_end=True)
            return
        self._fence = None
        if re.match(fence.begins, body):
            self._take((fence.open_syntax or fence.syntax)(body))
        else:
            self.content.write(fence.start + body)

    def _take(self, calls: Sequence[Call]) -> None:
        self.calls += calls
        self._body, self._passed_over = [], None
        self.content.mark()
