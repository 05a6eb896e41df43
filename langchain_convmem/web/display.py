"""What pages show of a thread: messages, recalled lines, summaries, as values for templates. Pure.

Whatever was said is text. Replies are read as Markdown, of which raw HTML, pictures and links other
than to the web are no part; everything else goes through the templates' escaping.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

from langchain_core.messages import BaseMessage, ToolMessage
from markupsafe import Markup

from langchain_convmem.records import DialogLine, Entry, Role
from langchain_convmem.turns.view import RECALLED
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.edits import INTERRUPTED
from langchain_convmem.views.lines import LineMatch, make_dialog_lines, name_speaker
from langchain_convmem.views.live import (
    describe_content,
    describe_entry,
    find_live_entries,
    list_calls,
)
from langchain_convmem.views.media import MediaBlock, read_media
from langchain_convmem.views.summaries import FORKED_FROM
from langchain_convmem.words.analysis import analyze, select_telling_words

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

LONG_TEXT = 6000
"""From this many characters on, the rest of a text waits to be unfolded."""
_MOST_MARKDOWN = 60_000
"""Longer replies are shown as plain text: a parser should not be fed a book."""
_SAFE_LINK = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_WORD = re.compile(r"\w+(?:['\u2019]\w+)*")
_TITLE_CHARS = 60
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Media types of the pictures that people attach and pages show."""


# -- Markdown -------------------------------------------------------------------------------------


@cache
def _make_parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": 20})
    parser.enable(["table", "strikethrough"]).disable(["image", "html_block", "html_inline"])
    parser.validateLink = is_safe_link  # type: ignore[assignment,method-assign]
    parser.add_render_rule("link_open", _render_link)
    for name in ("heading_open", "heading_close"):
        parser.add_render_rule(name, _render_heading)
    parser.add_render_rule("table_open", lambda *_: '<div class="table" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def is_safe_link(address: str) -> bool:
    """Return whether a link of a reply may be one: to the web or to a mailbox, and nothing else."""
    return bool(_SAFE_LINK.match(address.strip()))


def _render_link(renderer: Any, tokens: Any, number: int, options: Any, environment: Any) -> str:
    tokens[number].attrSet("rel", "noopener noreferrer nofollow")
    tokens[number].attrSet("target", "_blank")
    return str(renderer.renderToken(tokens, number, options, environment))


def _render_heading(renderer: Any, tokens: Any, number: int, options: Any, environment: Any) -> str:
    # The page has headings of its own: those of a reply stand below them.
    del renderer, options, environment
    token = tokens[number]
    level = min(6, int(token.tag[1:]) + 3)
    return f"<h{level}>" if token.nesting == 1 else f"</h{level}>\n"


@lru_cache(maxsize=2048)
def render_markdown(text: str) -> Markup:
    """Return a reply as HTML that holds no markup but what Markdown means.

    What is not closed yet, as in a reply that was cut, is text. Rendered anew only if it is not
    among the latest 2,048.
    """
    html: str = _make_parser().render(text)
    # Code may be wider than the page: it is scrolled by keys, too. In text, `<` is escaped.
    focusable = html.replace("<pre>", '<pre tabindex="0">')
    return Markup(focusable)  # noqa: S704 - the parser escapes all text


def render_plain(text: str) -> Markup:
    """Return a text as HTML that shows it as it is."""
    return Markup('<p class="verbatim">{}</p>').format(text)


# -- messages -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message of a thread, as a page shows it.

    Attributes:
        id: Its key in the thread.
        entry_id: The entry that holds it.
        position: Of the entry.
        turn_id: The exchange that it belongs to.
        role: Who speaks.
        speaker: By name.
        html: Its beginning, or all of it.
        rest: What waits to be unfolded, as HTML; empty for most.
        text: All of it, as it was said.
        time_ms: When, milliseconds since the epoch.
        is_interrupted: Whether it was cut off.
        is_imported: Whether a file brought it.
        pictures: Those that the message itself holds, with the numbers of their blocks.
        calls: Tools that it calls, by name, with what they are called with as text.
        recalled: How many lines were recalled for it; None where that was not noted.
        recalled_tokens: What these took.
        usage: Tokens as the provider reports them, by name.
        first_word_ms: How long until the first word came; None if that is not known.
        total_ms: How long until the last one came.
    """

    id: str
    entry_id: str
    position: int
    turn_id: str
    role: Role
    speaker: str
    html: Markup
    rest: Markup
    text: str
    time_ms: int
    is_interrupted: bool = False
    is_imported: bool = False
    pictures: Sequence[tuple[int, MediaBlock]] = ()
    calls: tuple[tuple[str, str], ...] = ()
    recalled: int | None = None
    recalled_tokens: int = 0
    usage: Mapping[str, int] | None = None
    first_word_ms: int | None = None
    total_ms: int | None = None


def show_messages(entries: Sequence[Entry]) -> list[ShownMessage]:
    """Return what a thread shows, in its order; summaries are among it.

    Args:
        entries: Entries up to the newest, by ascending position, control entries included.
    """
    return [show_message(entry) for entry in find_live_entries(entries) if _is_shown(entry)]


def _is_shown(entry: Entry) -> bool:
    return bool(entry.damage or describe_entry(entry))


def show_message(entry: Entry) -> ShownMessage:
    """Return one entry as a page shows it."""
    text = "\n\n".join(entry.contents)
    message, known = entry.message, entry.metadata
    head, rest = _render(entry.role, "\n\n".join(describe_content(entry)))
    note = read_note(entry)
    return ShownMessage(
        id=entry.message_id,
        entry_id=entry.id,
        position=entry.position,
        turn_id=entry.turn_id,
        role=entry.role,
        speaker=name_speaker(entry),
        html=head,
        rest=rest,
        text=text,
        time_ms=get_entry_time_ms(entry),
        is_interrupted=INTERRUPTED in known.attributes,
        is_imported="imported" in known.attributes,
        pictures=list_pictures(message),
        calls=_list_calls(message),
        recalled=None if note is None else note.count_lines(),
        recalled_tokens=0 if note is None else note.tokens,
        usage=_get_usage(message),
        first_word_ms=_subtract(known.timing, "firstToken"),
        total_ms=_subtract(known.timing, "llmEnd"),
    )


def get_entry_time_ms(entry: Entry) -> int:
    """Return when an entry was said: what its message says, else when it was stored."""
    own = None if entry.message is None else get_line_time_ms(entry.message)
    return entry.metadata.timing.get("creation", 0) if own is None else own


def get_origin(entries: Iterable[Entry]) -> tuple[str, str] | None:
    """Return the thread that this one was forked from, and the last message taken along."""
    origin = None
    for entry in entries:
        known = entry.metadata.aux.get(FORKED_FROM)
        if isinstance(known, Mapping) and isinstance(known.get("thread_id"), str):
            origin = known["thread_id"], entry.message_id
    return origin


def _render(role: Role, text: str) -> tuple[Markup, Markup]:
    if role == "assistant" and len(text) <= _MOST_MARKDOWN:
        return render_markdown(text), Markup("")
    if len(text) <= LONG_TEXT:
        return render_plain(text), Markup("")
    at = 1 + max(text.rfind(sign, LONG_TEXT // 2, LONG_TEXT) for sign in " \n")
    at = at or LONG_TEXT  # what has no blanks is cut anywhere
    return render_plain(text[:at]), render_plain(text[at:])


def list_pictures(message: BaseMessage | None) -> list[tuple[int, MediaBlock]]:
    """Return the pictures that a message itself holds, with the numbers of their blocks."""
    content = message.content if message and not isinstance(message.content, str) else []
    found = ((n, read_media(one)) for n, one in enumerate(content) if isinstance(one, dict))
    return [(n, one) for n, one in found if one and one.form == "base64" and one.type in PICTURES]


def _list_calls(message: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(message, ToolMessage) and message.name:
        return ((message.name, ""),)
    return tuple(list_calls(message))


def _get_usage(message: Any) -> Mapping[str, int] | None:
    usage = getattr(message, "usage_metadata", None)
    return None if not usage else {name: usage.get(name, 0) for name in _TOKENS}


_TOKENS = ("input_tokens", "output_tokens")


def _subtract(timing: Mapping[str, int], name: str) -> int | None:
    start, end = timing.get("llmStart"), timing.get(name)
    return None if start is None or end is None else max(0, end - start)


# -- titles ---------------------------------------------------------------------------------------


def make_title(entries: Sequence[Entry]) -> str:
    """Return a title made of the first thing that the user said; empty if nothing was."""
    for entry in find_live_entries(entries):
        if entry.role == "user":
            text = " ".join(" ".join(entry.contents).split())
            if text:
                return shorten(text, _TITLE_CHARS)
    return ""


def shorten(text: str, most: int) -> str:
    """Return a text on one line, cut after a word, without signs that turn its direction."""
    line = "".join(sign for sign in " ".join(text.split()) if not _is_invisible(sign))
    if len(line) <= most:
        return line
    cut = line[:most]
    return (cut.rpartition(" ")[0] or cut).rstrip(" ,.;:") + " …"


def _is_invisible(sign: str) -> bool:
    return unicodedata.category(sign) in {"Cf", "Cc"} and sign not in "\u200c\u200d"


# -- what was recalled ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotedBlock:
    """A block that was recalled for a reply, as its metadata name it.

    Attributes:
        thread_id: Where its lines were said.
        lines: `(line_id, position, part)` of each.
        hits: By the number of a line in the block: relevance, similarity and reasons.
    """

    thread_id: str
    lines: tuple[tuple[str, int, int], ...]
    hits: Mapping[int, tuple[float, float, tuple[str, ...]]]


@dataclass(frozen=True, slots=True)
class RecallNote:
    """What a reply's metadata say of the recall of its turn.

    Attributes:
        blocks: In the order in which they were found.
        tokens: Of the recalled text.
        summary_ids: Summaries that were opened for it.
    """

    blocks: tuple[NotedBlock, ...]
    tokens: int
    summary_ids: tuple[str, ...] = ()

    def count_lines(self) -> int:
        """Return how many lines were recalled."""
        return sum(len(block.lines) for block in self.blocks)


def read_note(entry: Entry) -> RecallNote | None:
    """Return what an entry's metadata say of recall; None where nothing was noted.

    What an application wrote under the same key in another form is not read.
    """
    value = entry.metadata.aux.get(RECALLED)
    if not isinstance(value, Mapping) or not isinstance(value.get("blocks"), list):
        return None
    try:
        blocks = tuple(map(_read_block, value["blocks"]))
        summaries = tuple(str(name) for name in value.get("summaries", ()))
        return RecallNote(blocks, int(value.get("tokens", 0)), summaries)
    except (KeyError, TypeError, ValueError):
        return None


def _read_block(value: Any) -> NotedBlock:
    lines = tuple((str(name), int(at), int(part)) for name, at, part in value["lines"])
    hits = {
        int(number): (float(relevance), float(similarity), tuple(map(str, why)))
        for number, relevance, similarity, why in value["hits"]
    }
    return NotedBlock(str(value["thread_id"]), lines, hits)


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A recalled or found line, as a page shows it.

    Attributes:
        line: The line; None where it was forgotten or replaced since.
        html: Its text, with the words that the question shares marked.
        is_hit: Whether it was found itself, not for its neighbours' sake.
        relevance: Of a hit.
        similarity: Of a hit.
        why: Reasons of a hit.
        words: Words of the question that it holds.
    """

    line: DialogLine | None
    html: Markup
    is_hit: bool = False
    relevance: float = 0.0
    similarity: float = 0.0
    why: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """Neighbouring lines that were recalled together, as a page shows them.

    Attributes:
        thread_id: Where they were said.
        title: Of that thread.
        time_ms: When the first of them was said; None where none is left.
        lines: In their order.
    """

    thread_id: str
    title: str
    time_ms: int | None
    lines: tuple[ShownLine, ...]

    @property
    def position(self) -> int | None:
        """Where the best hit stands that is still there, else the first line; None without any."""
        there = [one for one in self.lines if one.line is not None]
        best = max(there, key=lambda one: (one.is_hit, one.relevance), default=None)
        return None if best is None or best.line is None else best.line.position


def show_block(
    block: NotedBlock, title: str, found: Mapping[tuple[str, int], Entry], question: str
) -> ShownBlock:
    """Return a block as a page shows it.

    Args:
        block: What was noted.
        title: Of its thread.
        found: The entries that there still are, by message id and position.
        question: What was searched for.
    """
    terms = _find_terms(question)
    lines = tuple(
        _show_noted(name, found.get((_drop_part(name, part), position)), part, hit, terms)
        for number, (name, position, part) in enumerate(block.lines)
        for hit in (block.hits.get(number),)
    )
    times = [one.line.time_ms for one in lines if one.line is not None]
    return ShownBlock(block.thread_id, title, min(times, default=None), lines)


def _drop_part(line_id: str, part: int) -> str:
    return line_id if part == 0 else line_id.removesuffix(f"#{part + 1}")


def get_message_ids(block: NotedBlock) -> list[str]:
    """Return the ids of the messages that a block's lines stand in."""
    return list(dict.fromkeys(_drop_part(name, part) for name, _, part in block.lines))


def _show_noted(
    name: str,
    entry: Entry | None,
    part: int,
    hit: tuple[float, float, tuple[str, ...]] | None,
    terms: frozenset[str],
) -> ShownLine:
    lines = [] if entry is None else make_dialog_lines(entry)
    line = next((one for one in lines if one.part == part and one.line_id == name), None)
    if line is None:
        return ShownLine(None, Markup(""), is_hit=hit is not None)
    marked, words = mark_words(line.text, terms)
    if hit is None:
        return ShownLine(line, marked)
    return _score_line(line, marked, words, hit)


def show_line(line: DialogLine, question: str, hit: LineMatch | None = None) -> ShownLine:
    """Return a line that a search found, with the words of the question marked."""
    marked, words = mark_words(line.text, _find_terms(question))
    if hit is None:
        return ShownLine(line, marked, words=words)
    why = tuple(reason.partition(":")[0] for reason in hit.why)
    return _score_line(line, marked, words, (hit.relevance, hit.similarity, why))


def _score_line(
    line: DialogLine,
    marked: Markup,
    words: tuple[str, ...],
    scores: tuple[float, float, tuple[str, ...]],
) -> ShownLine:
    relevance, similarity, why = scores
    # What came along for its neighbours' sake alone was not found itself.
    is_hit = bool(set(why) - {"neighbours"})
    return ShownLine(line, marked, is_hit, relevance, similarity, why, words)


@lru_cache(maxsize=64)
def _find_terms(question: str) -> frozenset[str]:
    telling = " ".join(select_telling_words(question))
    return frozenset(analyze(telling))


def mark_words(text: str, terms: frozenset[str]) -> tuple[Markup, tuple[str, ...]]:
    """Return a text as HTML with the words marked that have one of these terms, and the words."""
    pieces: list[Markup] = []
    words: dict[str, None] = {}
    at = 0
    for match in _WORD.finditer(text) if terms else ():
        if terms.isdisjoint(_list_terms(match[0])):
            continue
        pieces += [
            Markup.escape(text[at : match.start()]),
            Markup("<mark>{}</mark>").format(match[0]),
        ]
        words.setdefault(match[0].casefold())
        at = match.end()
    return Markup("").join([*pieces, Markup.escape(text[at:])]), tuple(words)


@lru_cache(maxsize=4096)
def _list_terms(word: str) -> tuple[str, ...]:
    return tuple(analyze(word))


# -- summaries ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ShownSummary:
    """A summary of a thread, as a page shows it.

    Attributes:
        id: Of its entry.
        days: First and last day that it tells of.
        messages: How many messages it stands for.
        sentences: Each with the positions and message ids that it comes from.
        is_latest: Whether it is the one that can be taken back.
        writer: What wrote it.
    """

    id: str
    days: tuple[str, ...]
    messages: int
    sentences: tuple[tuple[str, tuple[tuple[int, str], ...]], ...]
    is_latest: bool = False
    writer: str = ""
