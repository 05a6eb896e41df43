"""The report: what one user or thread holds, as a single page without server or script."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import get_now_ms
from langchain_convmem.records import Entry
from langchain_convmem.turns.whole_threads import ThreadStats, compute_stats
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.web.display import (
    ShownBlock,
    ShownLine,
    ShownMessage,
    ShownSummary,
    render_plain,
    show_messages,
)
from langchain_convmem.web.pages import read_asset, render_page
from langchain_convmem.web.threads import Explanation, ThreadPlace, ThreadReader, ThreadRow

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory

_ALL = 10_000_000


@dataclass(frozen=True, slots=True)
class ThreadReport:
    """A thread in a report.

    Attributes:
        number: In the report, from 1.
        name: Its id; its number where text is left out.
        title: What people call it.
        messages: All that it shows.
        explanations: What was recalled for its replies, by message id.
        summaries: What a model reads in the place of old messages.
        stats: The thread in numbers.
    """

    number: int
    name: str
    title: str
    messages: Sequence[ShownMessage]
    explanations: Mapping[str, Explanation]
    summaries: Sequence[ShownSummary]
    stats: ThreadStats


async def stream_report(
    memory: ConversationMemory,
    user_id: str,
    *,
    thread_id: str | None = None,
    redact: bool = False,
) -> AsyncIterator[str]:
    """Yield a report as HTML, thread by thread, so that no more than one is held.

    Args:
        memory: What it is about.
        user_id: Whose.
        thread_id: This thread alone.
        redact: Leave out every text, name, title and id of a user or thread, but not when things
            were said, by which side, how long they are, and how recall scored them.

    Raises:
        ConfigError: If the user has nothing, or no such thread.
    """
    reader = ThreadReader(memory)
    rows = await _list_rows(reader, user_id, thread_id)
    numbers = {str(row.place.thread_id): number for number, row in enumerate(rows, 1)}
    titles = {str(row.place.thread_id): row.title for row in rows}
    shown = [_redact_row(row, numbers) for row in rows] if redact else rows
    yield render_page(
        "report_head.html",
        style=read_asset("app.css"),
        user_id="[left out]" if redact else user_id,
        rows=shown,
        made_ms=get_now_ms(),
        redact=redact,
        thread_id=thread_id,
    )
    for row in rows:
        thread = await _read_thread(reader, row, numbers, titles)
        thread = _redact_thread(thread, numbers) if redact else thread
        yield await hop(partial(render_page, "report_thread.html", thread=thread))
    yield render_page("report_tail.html")


async def _list_rows(reader: ThreadReader, user_id: str, thread_id: str | None) -> list[ThreadRow]:
    rows: list[ThreadRow] = []
    for is_archived in (False, True):
        found, _ = await reader.list_threads(user_id, archived=is_archived, most=_ALL)
        rows += found
    if not rows:
        raise ConfigError(f"user {user_id!r} has no messages; 'convmem threads' lists threads")
    kept = [row for row in rows if thread_id in (None, row.place.thread_id)]
    if not kept:
        msg = f"user {user_id!r} has no thread {thread_id!r}; 'convmem threads' lists threads"
        raise ConfigError(msg)
    return kept


async def _read_thread(
    reader: ThreadReader, row: ThreadRow, numbers: Mapping[str, int], titles: Mapping[str, str]
) -> ThreadReport:
    key = row.place.key
    entries = await reader.memory.log.aentries(key)
    live: list[Entry] = await hop(partial(find_live_entries, entries))
    return ThreadReport(
        number=numbers[key.thread_id],
        name=key.thread_id,
        title=row.title,
        messages=await hop(partial(show_messages, entries)),
        explanations=await reader.explain_all(key, live, titles),
        summaries=await reader.list_summaries(key),
        stats=await hop(partial(compute_stats, entries)),
    )


# -- leaving text out ---------------------------------------------------------------------------


def _redact_row(row: ThreadRow, numbers: Mapping[str, int]) -> ThreadRow:
    number = numbers[str(row.place.thread_id)]
    return replace(row, place=ThreadPlace("[left out]", str(number)), title=f"Thread {number}")


def _redact_thread(thread: ThreadReport, numbers: Mapping[str, int]) -> ThreadReport:
    return replace(
        thread,
        name=str(thread.number),
        title=f"Thread {thread.number}",
        messages=[_redact_message(one) for one in thread.messages],
        explanations={
            name: replace(one, question="", blocks=[_redact_block(b, numbers) for b in one.blocks])
            for name, one in thread.explanations.items()
        },
        summaries=[
            replace(one, sentences=tuple((_blank(text), at) for text, at in one.sentences))
            for one in thread.summaries
        ],
    )


def _redact_message(message: ShownMessage) -> ShownMessage:
    return replace(
        message,
        speaker=message.role.capitalize(),
        html=render_plain(_blank(message.text)),
        rest=Markup(""),
        text="",
        pictures=(),
        calls=tuple((name, "") for name, _ in message.calls),
    )


def _redact_block(block: ShownBlock, numbers: Mapping[str, int]) -> ShownBlock:
    number = numbers.get(block.thread_id)
    name = "another thread" if number is None else f"Thread {number}"
    return replace(block, thread_id=name, title=name, lines=tuple(map(_redact_line, block.lines)))


def _redact_line(line: ShownLine) -> ShownLine:
    if line.line is None:
        return line
    bare = replace(line.line, speaker=line.line.role.capitalize(), text="")
    return replace(line, line=bare, html=Markup.escape(_blank(line.line.text)), words=())


def _blank(text: str) -> str:
    return f"[{len(text):,} characters left out]"
