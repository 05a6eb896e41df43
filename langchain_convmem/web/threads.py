"""Threads as pages need them: lists with titles, the end of a thread, why a line was recalled.

Everything is read anew for every page; nothing is kept but titles, which are made of what was said
first and stored as a cache beside their thread, so that they go when their line is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from langchain_convmem.background import hop
from langchain_convmem.errors import ConfigError
from langchain_convmem.message_log import CACHE_PREFIX
from langchain_convmem.records import Entry, StateDocument, ThreadInfo, ThreadKey
from langchain_convmem.summarizing import aexplain_summary
from langchain_convmem.titles import list_titles
from langchain_convmem.turns.memory import NAMESPACE, TurnOptions
from langchain_convmem.views.edits import plan_redo
from langchain_convmem.views.live import find_live_entries
from langchain_convmem.web.display import (
    NotedBlock,
    RecallNote,
    ShownBlock,
    ShownLine,
    ShownMessage,
    ShownSummary,
    get_message_ids,
    get_origin,
    make_title,
    read_note,
    show_block,
    show_line,
    show_message,
    show_messages,
)

if TYPE_CHECKING:
    from langchain_convmem.memory import ConversationMemory
    from langchain_convmem.summarizing.citations import CitedSentence
    from langchain_convmem.views.summaries import SummaryNode

TITLE_DOCUMENT = f"{CACHE_PREFIX}title"
"""Name of the document that keeps the title made for a thread: `{"title"}`."""
SETTINGS_DOCUMENT = "turn_settings"
"""Name of the document that keeps what a thread sets of `TurnOptions`, by name."""
UNTITLED = "New conversation"
WINDOW = 120
"""Entries of a thread that its page shows at first."""
LISTED = 60
"""Threads that a list shows at first."""
FOUND = 40
"""Lines that a search for words shows at most."""
_WHOLE = 400
"""A thread with more entries is titled by one of its latest."""
_BLOCKS = 8
_ATTEMPTS = 5
SETTABLE = ("recall", "recall_tokens", "recall_k", "history_tokens", "context_tokens")
"""Options of turns that people set for a thread."""
_TEXTS = ("instructions", "model")
"""What else they set for it: the system prompt, and which model answers."""


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """Where somebody is: a user, and perhaps a thread."""

    user_id: str
    thread_id: str | None = None

    def build_url(self, path: str, **more: str | int | None) -> str:
        """Return the address of a page about this place; ids may hold any sign."""
        named = {"user": self.user_id, "thread": self.thread_id, **more}
        return f"{path}?{urlencode({name: one for name, one in named.items() if one is not None})}"

    @property
    def key(self) -> ThreadKey:
        """The thread.

        Raises:
            ConfigError: If no thread is named.
        """
        return ThreadKey(self.user_id, self.thread_id or "")


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """A thread in a list.

    Attributes:
        place: The thread.
        title: What people called it, else what was said first.
        last_ms: When something was stored last.
        is_archived: Whether it was put away.
        is_named: Whether people gave it its title.
    """

    place: ThreadPlace
    title: str
    last_ms: int
    is_archived: bool = False
    is_named: bool = False


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """The end of a thread.

    Attributes:
        title: Of the thread.
        messages: The latest, in order.
        has_earlier: Whether the thread has more before them.
        origin: The thread that it was forked from, and the last message taken along.
        can_redo: Whether something that was undone can be restored.
        is_archived: Whether the thread was put away.
        is_named: Whether people gave it its title.
    """

    title: str
    messages: Sequence[ShownMessage] = ()
    has_earlier: bool = False
    origin: tuple[str, str] | None = None
    can_redo: bool = False
    is_archived: bool = False
    is_named: bool = False

    @property
    def last_question(self) -> ShownMessage | None:
        """What the user said last; None where the page does not show it."""
        said = [one for one in self.messages if one.role == "user"]
        return said[-1] if said else None

    @property
    def is_open(self) -> bool:
        """Whether the last question has no answer."""
        last = self.last_question
        return last is not None and self.messages[-1].id == last.id


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a reply was given what it was given.

    Attributes:
        question: What the user had said.
        note: What the reply's metadata say; None where nothing was noted.
        blocks: The recalled blocks, as far as they are still there.
        reply: The reply.
    """

    question: str
    note: RecallNote | None
    blocks: Sequence[ShownBlock] = ()
    reply: ShownMessage | None = None


@dataclass(frozen=True, slots=True)
class SearchPage:
    """What a search found.

    Attributes:
        blocks: By meaning and words, best first.
        lines: Lines that hold every word as it was typed, latest first.
        is_cut: Whether there are more of these.
        problems: What went wrong, one sentence each.
        titles: Titles of the threads of the lines.
    """

    blocks: Sequence[ShownBlock] = ()
    lines: Sequence[ShownLine] = ()
    is_cut: bool = False
    problems: Sequence[str] = ()
    titles: Mapping[str, str] = field(default_factory=dict)


class ThreadReader:
    """Reads the threads of a memory for pages. Safe to share; blocks no event loop."""

    def __init__(self, memory: ConversationMemory) -> None:
        """Read from a memory."""
        self.memory = memory

    # -- lists ------------------------------------------------------------------------------------

    async def list_users(self) -> list[str]:
        """Return the users that the log knows, by name."""
        owners = await self.memory.log.aowners()
        return sorted(owner.user_id for owner in owners if owner.user_id is not None)

    async def list_threads(
        self,
        user_id: str,
        *,
        archived: bool = False,
        most: int = LISTED,
        infos: Sequence[ThreadInfo] | None = None,
    ) -> tuple[list[ThreadRow], int]:
        """Return a user's latest threads and how many there are.

        Args:
            user_id: Whose.
            archived: Those that were put away instead of the others.
            most: How many to return.
            infos: What the memory lists of the user; None asks it.
        """
        if infos is None:
            infos = await self.memory.athreads(user_id)
        kept = [info for info in infos if info.archived == archived]
        titles = await self._read_titles(kept[:most])
        rows = [
            ThreadRow(
                ThreadPlace(user_id, info.key.thread_id),
                titles[info.key.thread_id],
                info.last_ms,
                info.archived,
                bool(info.title),
            )
            for info in kept[:most]
        ]
        return rows, len(kept)

    async def read_titles(self, user_id: str, thread_ids: Sequence[str]) -> dict[str, str]:
        """Return the titles of some of a user's threads; of one that is gone, its id."""
        # Not a list of all threads, which takes the longer the more is stored.
        keys = [ThreadKey(user_id, name) for name in dict.fromkeys(thread_ids)]
        given = await hop(partial(list_titles, self.memory.log, keys))
        infos = [ThreadInfo(key, 0, 0, 0, given.get(key, "")) for key in keys]
        return await self._read_titles(infos)

    async def _read_titles(self, infos: Sequence[ThreadInfo]) -> dict[str, str]:
        unnamed = [info for info in infos if not info.title]
        made = await self._list_made_titles(unnamed)
        titles = {info.key.thread_id: info.title for info in infos if info.title}
        for info in unnamed:
            title = made.get(info.key.thread_id)
            titles[info.key.thread_id] = title or await self._make_title(info)
        return titles

    async def _list_made_titles(self, infos: Sequence[ThreadInfo]) -> dict[str, str | None]:
        log = self.memory.log
        keys = [info.key for info in infos]
        found = await log.aget_states(keys, TITLE_DOCUMENT)
        return {key.thread_id: _read_text(found.get(key), "title") for key in keys}

    async def _make_title(self, info: ThreadInfo) -> str:
        """Return a title made of what was said first, and keep it.

        Of a thread that is gone it is its id.
        """
        log = self.memory.log
        entries = await log.aentries(info.key, last=_WHOLE)
        if not entries:
            return info.key.thread_id
        title = await hop(partial(make_title, entries))
        if not title:
            return UNTITLED
        await log.aset_state(info.key, TITLE_DOCUMENT, {"title": title}, expected=None)
        # Its line may have been forgotten since it was read: then nothing of it stays.
        first = entries[0].position
        if not await log.aentries(info.key, after=first - 1, until=first):
            await log.adelete_state(info.key, TITLE_DOCUMENT)
        return title

    async def drop_title(self, key: ThreadKey) -> None:
        """Let the title of a thread be made anew: what it was made of may have changed."""
        await self.memory.log.adelete_state(key, TITLE_DOCUMENT)

    # -- one thread -------------------------------------------------------------------------------

    async def read_page(
        self,
        key: ThreadKey,
        *,
        window: int = WINDOW,
        at: int | None = None,
        info: ThreadInfo | None = None,
    ) -> ThreadPage:
        """Return the end of a thread.

        Args:
            key: The thread; of one that does not exist yet there is nothing.
            window: How many entries to read.
            at: A position that must be on the page, with some entries before it.
            info: What a list says of the thread; None reads its title alone.
        """
        entries = await self.memory.log.aentries(key, last=window + 1)
        if not entries:
            return ThreadPage(UNTITLED)
        has_earlier = len(entries) > window
        entries = entries[-window:]
        if at is not None and entries[0].position > at:
            entries = await self._read_from(key, at)
        if info is None:
            title = await self.memory.aget_title(key.thread_id, user_id=key.user_id)
            info = ThreadInfo(key, _WHOLE if has_earlier else len(entries), 0, 0, title)
        titles = await self._read_titles([info])
        messages = await hop(partial(show_messages, entries))
        return ThreadPage(
            title=titles[key.thread_id],
            messages=messages,
            has_earlier=has_earlier,
            origin=get_origin(entries),
            can_redo=bool(plan_redo(entries)),
            is_archived=info.archived,
            is_named=bool(info.title),
        )

    async def _read_from(self, key: ThreadKey, at: int) -> list[Entry]:
        """Return all from a position on, with a few entries before it."""
        log = self.memory.log
        before = await log.aentries(key, until=at - 1, last=20)
        return [*before, *await log.aentries(key, after=at - 1)]

    async def explain(self, key: ThreadKey, message_id: str) -> Explanation | None:
        """Return what a reply was given of earlier conversations; None if it is not there."""
        found = await self.memory.log.afind(key, [message_id])
        if not found:
            return None
        reply = found[-1]
        turn = await self.memory.log.aentries(key, until=reply.position, last=60)
        question = "\n".join(
            text
            for entry in turn
            if entry.turn_id == reply.turn_id and entry.role == "user"
            for text in entry.contents
        )
        note = read_note(reply)
        blocks = [] if note is None else await self._show_blocks(key, note.blocks, question)
        return Explanation(question, note, blocks, show_message(reply))

    async def _show_blocks(
        self,
        key: ThreadKey,
        blocks: Sequence[NotedBlock],
        question: str,
        titles: Mapping[str, str] | None = None,
    ) -> list[ShownBlock]:
        if titles is None:
            titles = await self.read_titles(str(key.user_id), [one.thread_id for one in blocks])
        shown = []
        for block in blocks:
            there = await self.memory.log.afind(
                ThreadKey(key.user_id, block.thread_id), get_message_ids(block)
            )
            found = {(entry.message_id, entry.position): entry for entry in there}
            title = titles.get(block.thread_id, block.thread_id)
            shown.append(show_block(block, title, found, question))
        return shown

    async def explain_all(
        self, key: ThreadKey, entries: Sequence[Entry], titles: Mapping[str, str]
    ) -> dict[str, Explanation]:
        """Return the explanations of a thread's replies, by message id; see `explain`.

        Args:
            key: The thread.
            entries: What it shows.
            titles: Those of the user's threads.
        """
        asked: dict[str, list[str]] = {}
        found: dict[str, Explanation] = {}
        for entry in entries:
            if entry.role == "user":
                asked.setdefault(entry.turn_id, []).extend(entry.contents)
            note = read_note(entry)
            if note is not None:
                question = "\n".join(asked.get(entry.turn_id, ()))
                blocks = await self._show_blocks(key, note.blocks, question, titles)
                found[entry.message_id] = Explanation(question, note, blocks)
        return found

    async def list_summaries(self, key: ThreadKey) -> list[ShownSummary]:
        """Return the summaries that a model reads of a thread, with what their sentences cite."""
        history = self.memory.history(key.thread_id, user_id=key.user_id)
        nodes = await history.asummaries()
        if not nodes:
            return []
        cited = await aexplain_summary(self.memory, key.thread_id, user_id=key.user_id)
        latest = await history.alast_summary()
        entries = await self.memory.log.aentries(key)
        return [
            _show_summary(
                node, cited, entries, is_latest=latest is not None and latest.id == node.id
            )
            for node in nodes
        ]

    # -- settings ---------------------------------------------------------------------------------

    async def read_settings(self, key: ThreadKey) -> dict[str, Any]:
        """Return what a thread sets, by name: options of its turns, instructions, its model."""
        log = self.memory.log
        found = await log.aget_state(key, SETTINGS_DOCUMENT)
        value = found.value if found is not None else {}
        known = value if isinstance(value, dict) else {}
        return {name: known[name] for name in (*SETTABLE, *_TEXTS) if name in known}

    async def write_settings(self, key: ThreadKey, settings: Mapping[str, Any]) -> None:
        """Keep what a thread sets of the options of its turns.

        Raises:
            ConfigError: If a value makes no sense.
        """
        log = self.memory.log
        TurnOptions().merge_call({NAMESPACE: select_options(settings)})
        for _ in range(_ATTEMPTS):
            found = await log.aget_state(key, SETTINGS_DOCUMENT)
            version = None if found is None else found.version
            if await log.aset_state(key, SETTINGS_DOCUMENT, dict(settings), expected=version):
                return
        raise ConfigError("other requests keep changing the settings of this thread; try again")

    # -- search -----------------------------------------------------------------------------------

    async def search(self, user_id: str, query: str) -> SearchPage:
        """Return what fits a query, by recall and word for word.

        Args:
            user_id: Whose lines.
            query: What to look for; blank for nothing. By recall, of more than 8,000 characters
                the first and the last 4,000 are read.
        """
        if not query.strip():
            return SearchPage()
        recall = await self.memory.arecall(query, user_id=user_id, k=_BLOCKS, remember=False)
        lines = await self.memory.asearch(query, user_id=user_id)
        threads = [block.lines[0].key.thread_id for block in recall.blocks]
        titles = await self.read_titles(
            user_id, [*threads, *(line.key.thread_id for line in lines[:FOUND])]
        )
        blocks = []
        for block, thread_id in zip(recall.blocks, threads, strict=True):
            why = {match.line.line_id: match for match in block.matches}
            shown = tuple(show_line(one, query, why.get(one.line_id)) for one in block.lines)
            first_ms = min(line.time_ms for line in block.lines)
            blocks.append(ShownBlock(thread_id, titles[thread_id], first_ms, shown))
        return SearchPage(
            blocks,
            [show_line(line, query) for line in lines[:FOUND]],
            len(lines) > FOUND,
            recall.problems,
            titles,
        )


def _read_text(document: StateDocument | None, name: str) -> str | None:
    value = None if document is None else document.value
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def _show_summary(
    node: SummaryNode, cited: Sequence[CitedSentence], entries: Sequence[Entry], *, is_latest: bool
) -> ShownSummary:
    ids = {entry.id: entry.message_id for entry in entries}
    live = [entry for entry in find_live_entries(entries) if entry.role != "summary"]
    covered = sum(
        any(low <= one.position <= high for low, high in _list_ranges(node)) for one in live
    )
    sentences = tuple(
        (one.text, _list_places(one, ids)) for one in cited if one.summary_id == node.id
    )
    cover = node.turn.entries[0].cover if node.turn.entries else None
    return ShownSummary(
        id=node.id,
        days=node.days,
        messages=covered,
        sentences=sentences or ((node.text, ()),),
        is_latest=is_latest,
        writer="" if cover is None else cover.model,
    )


_MOST_PLACES = 6
"""More places than this are no reference to look up."""


def _list_places(sentence: CitedSentence, ids: Mapping[str, str]) -> tuple[tuple[int, str], ...]:
    if len(sentence.sources) > _MOST_PLACES:
        return ()
    return tuple((one.position, ids.get(one.entry_id, "")) for one in sentence.sources)


def _list_ranges(node: SummaryNode) -> list[tuple[int, int]]:
    return [*node.ranges, *(pair for child in node.children for pair in _list_ranges(child))]


def read_form_settings(form: Mapping[str, str]) -> dict[str, Any]:
    """Return what a form sets, by name; an empty field leaves the default.

    Raises:
        ConfigError: If a number is none.
    """
    settings: dict[str, Any] = {"recall": form.get("recall") == "on"}
    for name in SETTABLE[1:]:
        text = form.get(name, "").strip()
        if text:
            if not text.isdecimal():
                raise ConfigError(f"{name} must be a whole number, got {text[:20]!r}")
            settings[name] = int(text)
    return settings | {name: text for name in _TEXTS if (text := form.get(name, "").strip())}


def select_options(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a thread sets of the options of its turns."""
    return {name: value for name, value in settings.items() if name in SETTABLE}
