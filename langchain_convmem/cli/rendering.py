"""Records as lines for people and as plain data for programs. Pure: prints nothing."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langchain_convmem.cli.output import Styled, align, escape_line, format_count, make_data
from langchain_convmem.records import DialogLine, Entry, ForgetReceipt, ThreadInfo, ThreadKey
from langchain_convmem.titles import list_titles as list_thread_titles
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.lines import clean_name, format_iso_time, get_moment, name_speaker
from langchain_convmem.views.live import describe_entry, find_retracted_ids
from langchain_convmem.views.summaries import is_pin

if TYPE_CHECKING:
    from langchain_convmem.message_log import MessageLog
    from langchain_convmem.turns.whole_threads import ThreadStats
    from langchain_convmem.views.lines import LineMatch, Recall, RecalledBlock

_SHOWN_MATCHES = 3
_EXCERPT_CHARS = 40
_BRIEF_BLOCKS = 3
_BRIEF_CHARS = 150


# -- recall -------------------------------------------------------------------------------------


def format_recall(found: Recall, titles: Mapping[ThreadKey, str] | None = None) -> Iterator[Styled]:
    """Yield the blocks, best first: where and when, the lines as a model reads them, and why."""
    if not found.blocks:
        is_empty, other = found.best_rejected is None, "no lines; --user ID searches another user's"
        yield Styled(other if is_empty else "no relevant lines found")
    for number, block in enumerate(found.blocks, start=1):
        yield Styled(f"{number}. {_format_head(block, titles or {})}", "bold")
        yield Styled("   " + indent_rest(block.text.rstrip("\n"), "   "))
        for match in block.matches[:_SHOWN_MATCHES]:
            yield Styled(f"   why: {_format_match(match)}", "dim")


def format_recall_briefly(found: Recall) -> Iterator[Styled]:
    """Yield one line per block, the best ones only: the best hit in it, and why."""
    if not found.blocks:
        yield Styled("  recalled: nothing relevant")
    for block in found.blocks[:_BRIEF_BLOCKS]:
        best = block.matches[0]
        said = textwrap.shorten(best.line.text, _BRIEF_CHARS, placeholder=" ...")
        reasons = "; ".join(best.why) or "fits"
        speaker = escape_line(best.line.speaker)
        yield Styled(f"  recalled: {format_minute(best.line.time_ms)} {speaker}: {said}")
        yield Styled(f"            why: {reasons}")
    if len(found.blocks) > _BRIEF_BLOCKS:
        yield Styled(f"            (and {len(found.blocks) - _BRIEF_BLOCKS} more)")


def _format_head(block: RecalledBlock, titles: Mapping[ThreadKey, str]) -> str:
    first = block.lines[0]
    session = "" if first.session is None else f", session {first.session}"
    where = f"thread {titles.get(first.key) or first.key.thread_id}{session}"
    return f"{escape_line(where)}, {format_minute(first.time_ms)}, {_format_scores(block)}"


def _format_match(match: LineMatch) -> str:
    line = match.line
    reasons = "; ".join(match.why) or "fits"
    said = textwrap.shorten(line.text, _EXCERPT_CHARS, placeholder="...")
    who = f"{escape_line(line.speaker)}, {format_minute(line.time_ms)}"
    return f'"{said}" ({who}): {reasons} ({_format_scores(match)})'


def _format_scores(scored: RecalledBlock | LineMatch) -> str:
    return f"relevance {scored.relevance:.2f}, similarity {scored.similarity:.2f}"


def describe_recall(query: str, found: Recall) -> dict[str, Any]:
    """Return a recall as JSON shows it."""
    return {
        "query": query,
        "verdict": found.verdict,
        "blocks": found.blocks,
        "best_rejected": found.best_rejected,
        "problems": found.problems,
    }


def list_titles(log: MessageLog, found: Recall) -> dict[ThreadKey, str]:
    """Return the titles of the threads that a recall found something in."""
    return list_thread_titles(log, {block.lines[0].key for block in found.blocks})


def format_found_lines(
    lines: Sequence[DialogLine], titles: Mapping[ThreadKey, str]
) -> Iterator[Styled]:
    """Yield lines with when, where and who."""
    if not lines:
        yield Styled("no line contains all of these words")
    for line in lines:
        thread = titles.get(line.key) or line.key.thread_id
        where = f"{format_minute(line.time_ms)}  {escape_line(thread)}"
        yield Styled(where, "dim")
        yield Styled(f"  {escape_line(line.speaker)}: {indent_rest(line.text, '    ')}")


# -- the log ------------------------------------------------------------------------------------


def format_log(entries: Sequence[Entry]) -> Iterator[Styled]:
    """Yield a thread's entries in order of position; what no view shows any more is marked."""
    dead = find_retracted_ids(entries)
    for entry in entries:
        marks = [*entry.metadata.attributes, *(["retracted"] if entry.id in dead else [])]
        suffix = f"  ({escape_line(', '.join(marks))})" if marks else ""
        head = f"{format_minute(_get_time(entry))}  {_show_speaker(entry)}: "
        # Lines after the first stand under the text, so that no text can pass for a new entry.
        body = indent_rest(_get_text(entry), " " * 4)
        yield Styled(f"{head}{body}{suffix}", "dim" if entry.id in dead else None)


def _get_time(entry: Entry) -> int:
    own = None if entry.message is None else get_line_time_ms(entry.message)
    return entry.metadata.timing["creation"] if own is None else own


def _show_speaker(entry: Entry) -> str:
    """Return a speaker for a terminal: what is hidden in a name shows, and no second name does."""
    name = None if entry.message is None else entry.message.name
    return clean_name(escape_line(name or "")) or name_speaker(entry)


def _get_text(entry: Entry) -> str:
    if entry.damage:
        return f"[damaged: {entry.damage}]"
    if is_pin(entry):
        return f"pinned: {' '.join(entry.contents)}"
    if entry.control is not None:
        retracted = format_count(len(entry.control.retracts), "entry", "entries")
        return f"{entry.control.reason}: retracts {retracted}"
    return "\n".join(describe_entry(entry)) or "[no text]"


def describe_log(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    """Return a thread's entries as JSON shows them, in order of position."""
    dead = find_retracted_ids(entries)
    return [
        {
            **make_data(entry),
            "speaker": name_speaker(entry),
            "time": format_iso_time(_get_time(entry)),
            "is_retracted": entry.id in dead,
        }
        for entry in entries
    ]


# -- threads ------------------------------------------------------------------------------------


def format_threads(threads: Sequence[ThreadInfo], width: int = 120) -> Iterator[Styled]:
    """Yield one line per thread, in the given order: its title, or its id where it has none."""
    if not threads:
        yield Styled("no threads; --user ID shows another user's")
    room = max(20, width - (61 if any(info.archived for info in threads) else 49))
    names = align([escape_line(info.title or info.key.thread_id) for info in threads], room)
    for name, info in zip(names, threads, strict=True):
        first, last = format_minute(info.first_ms)[:10], format_minute(info.last_ms)[:10]
        span = f"stored {first}" if first == last else f"stored {first} to {last}"
        noun = "entry, " if info.entries == 1 else "entries,"
        about = "  (archived)" if info.archived else ""
        yield Styled(f"{name}  {info.entries:>6} {noun} {span}{about}")


def add_stats(found: Sequence[ThreadStats]) -> dict[str, Any]:
    """Return the numbers of threads together; none where there is no thread."""
    rows = [make_data(one) for one in found]
    total: dict[str, Any] = {"threads": len(rows)}
    for name in rows[0] if rows else ():
        values = [row[name] for row in rows]
        if name == "messages":
            total[name] = dict(sum(map(Counter, values), Counter()))
        else:
            total[name] = sum(values)
    return total


def format_stats(total: Mapping[str, Any]) -> Iterator[str]:
    """Yield numbers of threads, a line each."""
    for name, value in total.items():
        shown = f"{value:,}" if isinstance(value, int) else value or "none"
        if isinstance(value, dict):
            shown = ", ".join(f"{count:,} {role}" for role, count in value.items())
        yield f"{name.replace('_', ' ')}: {shown}"


def format_receipt(receipt: ForgetReceipt) -> str:
    """Return what was erased, as one sentence."""
    return (
        f"erased {format_count(receipt.entries, 'entry', 'entries')}, "
        f"{format_count(receipt.threads, 'thread')}, "
        f"{format_count(receipt.segments, 'index row')} and "
        f"{format_count(receipt.documents, 'document')}"
    )


# -- times and margins ----------------------------------------------------------------------------


def format_minute(at_ms: int) -> str:
    """Return the minute in UTC for a person; `at_ms` is milliseconds since the epoch."""
    moment = get_moment(at_ms)
    return f"{at_ms} ms" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def indent_rest(text: str, margin: str) -> str:
    """Return the text with `margin` before each of its lines but the first."""
    return f"\n{margin}".join(text.splitlines())
