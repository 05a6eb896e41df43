"""Recall of dialog lines: `DialogRecall`, the interface; `LineRecall`, which is one over a log.

A `LineRecall` keeps an index per owner and answers in blocks.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, Unpack

from langchain_core.runnables import Runnable

from langchain_convmem.background import ask, to_async
from langchain_convmem.causes import UnreadableError, describe_value, report_problem
from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.recall.blocks import TableView, build_recall
from langchain_convmem.recall.buffer import BufferedBlock, select_living, show_blocks, update_buffer
from langchain_convmem.recall.embedding import choose_embedder
from langchain_convmem.recall.index import (
    OwnerIndex,
    embed_missing,
    finish_later,
    scan_lines,
    stop_embedding,
)
from langchain_convmem.recall.options import (
    Owners,
    Progress,
    RecallOptions,
    RecallQuery,
    RecallSettings,
    make_query,
    remove_names,
    sort_owners,
)
from langchain_convmem.recall.ranking import rank
from langchain_convmem.records import DialogLine, Owner, ThreadKey
from langchain_convmem.runnables import check_askable
from langchain_convmem.views.lines import Recall
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.tokens import count_text_tokens

if TYPE_CHECKING:
    from langchain_core.embeddings import Embeddings


QueryHook: TypeAlias = Callable[[str], str]
"""Gets a question before it is searched for, and returns what to search for; blank for nothing."""


class DialogRecall(ABC):
    """Finds verbatim dialog lines; accepted by memories, retrievers and wrapped chains.

    Thread-safe. The caller closes the log and the embedder.
    """

    log: MessageLog
    """Where the lines stand."""
    embeddings: Embeddings
    """What embeds lines and questions."""
    settings: RecallSettings
    """What counts where a call says nothing."""

    query_hook: QueryHook | None = None
    """What each question passes first."""
    count_text: TextCounter = staticmethod(count_text_tokens)
    """Counts the tokens of a text where a call says nothing."""

    def bind(
        self, *, query_hook: QueryHook | None = None, count_text: TextCounter = count_text_tokens
    ) -> Self:
        """Return this recall, over the same indexes, for questions and texts of an application.

        Args:
            query_hook: What each question passes first; where it leaves nothing of one, nothing is
                found.
            count_text: What counts the tokens of texts.
        """
        recall = copy(self)
        recall.query_hook, recall.count_text = query_hook, count_text
        return recall

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return itself: copies of what holds a recall share its indexes."""
        return self

    # -- recalling ---------------------------------------------------------------------------

    def find_lines(self, owner: Owner, words: Collection[str]) -> list[DialogLine]:
        """Return an owner's lines that hold all of these words, in commit order.

        Args:
            owner: Whose lines.
            words: Folded words, at least one; parts of longer ones count.

        Raises:
            LogError: If the log cannot be read.
        """
        return scan_lines(self.log, owner, words)

    afind_lines = to_async(find_lines)

    def recall(self, owner: Owners, query: str, **options: Unpack[RecallOptions]) -> Recall:
        """Return the lines of `owner` that answer `query` best, in blocks, best first.

        Args:
            owner: Whose lines are searched; of several owners, those of all together.
            query: What is asked, in plain words; blank only with a `buffer`, to read that alone.
                Of more than 8,000 characters the first and the last 4,000 are read.
            **options: How much, from where and how like; see `RecallOptions`.

        Raises:
            ConfigError: If an argument is invalid; the message names it. If the rewriter is a
                coroutine function, which only `arecall` can await.
            LogError: If the log cannot be read.
        """
        options.setdefault("count_text", self.count_text)
        checked = make_query(owner, query, self.settings, **options)
        if (hook := self.query_hook) is not None and checked.text.strip():
            before = checked.before and hook(checked.before)
            checked = replace(checked, text=hook(checked.text), before=before)
        # Only now, so that no hook gets half of what it would have left out.
        return self.answer(checked.cut())

    arecall = to_async(recall)

    @abstractmethod
    def answer(self, query: RecallQuery) -> Recall:
        """Answer a query; a blank one with its buffer alone."""

    # -- indexes -----------------------------------------------------------------------------

    @abstractmethod
    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            owner: Whose lines; several owners who are searched together may share one index.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
        """

    arefresh = to_async(refresh)

    @abstractmethod
    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed what another embedder has embedded; otherwise `refresh`."""

    areindex = to_async(reindex)

    def get_embedder_use(self, owner: Owners) -> EmbedderUse:  # noqa: ARG002 - of other kinds each may
        """Return what embeds the lines of an owner, and how many wait for it."""
        return EmbedderUse(self.embeddings)

    def embed_later(self, owner: Owner) -> None:  # noqa: B027 - most kinds have nothing to do
        """Embed an owner's new lines soon; does nothing if none are pending."""

    def close(self) -> None:  # noqa: B027 - as above
        """End the work in the background; another recall may start it again. Idempotent."""

    def list_copies(
        self,
        scope: Owner | ThreadKey,  # noqa: ARG002 - as above
        entry_ids: Collection[str] | None,  # noqa: ARG002
    ) -> list[str]:
        """List, before they are forgotten, which lines are kept elsewhere."""
        return []

    @abstractmethod
    def drop_forgotten(self, owner: Owner, copies: Sequence[str] = ()) -> None:
        """Drop what the log has forgotten of an owner; never raises.

        Args:
            owner: Whose lines.
            copies: What `list_copies` listed before.
        """


class EmbedderUse(NamedTuple):
    """What embeds the lines of an owner.

    Attributes:
        embeddings: The embedder.
        segments: How many segments their lines have; None if unknown.
        pending: How many of these wait to be embedded, and are found by their words.
        problems: Why lines could not be embedded, one sentence each.
    """

    embeddings: Embeddings
    segments: int | None = None
    pending: int = 0
    problems: tuple[str, ...] = ()


# -- recall over a log: an index per owner -------------------------------------------------------
class LineRecall(DialogRecall):
    """Finds verbatim dialog lines in a log, by meaning, words and neighbourhood.

    Indexes are caches of the log: built when an owner first asks, kept fresh by cursor, dropped
    when too many other owners came since. Thread-safe; recalls of one owner queue, those of
    different owners do not. The caller closes the log and the embedder.
    """

    def __init__(
        self,
        log: MessageLog,
        embeddings: Embeddings | None = None,
        settings: RecallSettings | None = None,
        *,
        max_segments: int = 1_000_000,
        rewriter: Rewriter | None = None,
    ) -> None:
        """Create a recall over `log`; nothing is read yet.

        Args:
            log: Where the lines stand.
            embeddings: Any LangChain embedder; None is `UniversalSentenceEmbeddings`.
            settings: How much is shown, and what a call that says nothing gets.
            max_segments: How many segments of lines stay in memory, where each owner's count for
                at least 4,000; the least recently used leave. An index that is larger by itself
                stays as long as nobody else asks.
            rewriter: Makes of a question the text to search for: a Runnable, or a function, plain
                or asynchronous. Where it fails or says nothing, the question itself is asked, and
                `Recall.problems` says why.

        Raises:
            ConfigError: If the limit is not positive, the rewriter is none, `embeddings` no
                embedder, or `settings` something else.
        """
        check_rewriter(rewriter)
        if max_segments < 1:
            raise ConfigError(f"max_segments must be at least 1, got {max_segments!r}")
        if not isinstance(settings, RecallSettings | None):
            found = describe_value(settings)
            raise ConfigError(f"settings must be a RecallSettings or None, got {found}")
        self.log = log
        self.embeddings: Embeddings = choose_embedder(embeddings)
        self.settings = RecallSettings() if settings is None else settings
        self.rewriter = rewriter
        self._max_segments = max_segments
        self._reindexing, self._lock = make_lock(), make_lock()
        # Those used last come last.
        self._indexes: dict[tuple[Owner, ...], OwnerIndex] = {}

    def __repr__(self) -> str:
        return f"LineRecall({self.log!r}, {type(self.embeddings).__name__})"

    # -- recalling -----------------------------------------------------------------------------

    def answer(self, query: RecallQuery) -> Recall:
        """Answer a query; a blank one with its buffer alone."""
        index = self._open(query.scope.owners)
        if not query.text.strip():
            return self._add_buffer(index, replace(query, remember=False), Recall((), ()))
        text, failure = rewrite(self.rewriter, query.text)
        query = query if text == query.text else replace(query, text=text)
        with index.lock:
            index.catch_up()
            is_awaited = bool(index.vectors.missing) and index.count_waiting(
                index.table.select_allowed(query.scope)
            )
            speakers, dim = index.table.speakers, index.vectors.dim
        if is_awaited and query.wait_s:
            embed_missing(index, query.wait_s)
            dim = index.vectors.dim
        problems, vector = [failure], None
        if dim is not None:
            vector, failure = index.border.embed_question(
                remove_names(query.search_text, speakers), dim
            )
            problems.append(failure)
        with index.lock:
            ranking = rank(query, index.table, index.vectors, index.lexical, vector)
            if count := index.count_waiting(ranking.view.allowed):
                which = "1 segment waits" if count == 1 else f"{count} segments wait"
                problems.append(f"{which} to be embedded, found by words alone until then")
            known = [one for one in (*index.problems, *problems) if one is not None]
            recall = build_recall(ranking, list(dict.fromkeys(known)))
        finish_later(index)
        return self._add_buffer(index, query, recall)

    def _add_buffer(self, index: OwnerIndex, query: RecallQuery, recall: Recall) -> Recall:
        """Return a recall with what its thread's buffer shows after it."""
        if query.buffer is None:
            return recall

        def select_kept(blocks: Sequence[BufferedBlock]) -> list[BufferedBlock]:
            with index.lock:
                # Another process may have buffered lines that this index has not read yet.
                index.catch_up()
                return select_living(blocks, index.table)[: query.settings.buffer_size]

        kept, problem = update_buffer(
            self.log, query.buffer, recall.blocks, select_kept, remember=query.remember
        )
        with index.lock:
            ground = TableView(index.table, index.table.select_allowed(query.scope), query)
            why = {match.line.line_id: match for block in recall.blocks for match in block.matches}
            shown = show_blocks(kept, ground, why)
        problems = recall.problems if problem is None else (*recall.problems, problem)
        return replace(recall, buffer=shown, problems=problems)

    # -- indexes -------------------------------------------------------------------------------

    def _open(self, owners: tuple[Owner, ...]) -> OwnerIndex:
        """Return the index over these owners, made if needed; too many let the oldest leave."""
        with self._lock:
            index = self._indexes.pop(owners, None)
            if index is None:
                index = OwnerIndex(self.log, owners, self.embeddings)
            self._indexes[owners] = index
            sizes = {key: max(len(one.table), _LEAST) for key, one in self._indexes.items()}
            while sum(sizes.values()) > self._max_segments and len(sizes) > 1:
                oldest = next(iter(sizes))
                del sizes[oldest], self._indexes[oldest]
            return index

    def refresh(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Index new lines now, so that the next recall does not have to.

        Args:
            owner: Whose lines; several owners who are searched together share one index.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
            ConfigError: If lines wait for `reindex`; all else was done.
        """
        index = self._open(sort_owners(owner))
        embed_missing(index, progress=progress)
        index.save_snapshot()
        with index.lock:
            index.store_rest()
            if index.change is not None:
                raise ConfigError(index.change)
            return index.problems

    def reindex(self, owner: Owners, progress: Progress | None = None) -> tuple[str, ...]:
        """Re-embed what another embedder has embedded, then delete the old vectors.

        Until then lines with old vectors alone are found by their words. Each batch is stored
        before the next one is sent, so after a failure or a kill another call goes on where this
        one stopped. Recalls need not wait. Calls of this kind wait for each other.

        Args:
            owner: Whose lines.
            progress: Called with (done, total) segments after each batch, in the thread that works.

        Returns:
            Problems, one sentence each; empty if every line is fully indexed.

        Raises:
            LogError: If the log cannot be read.
        """
        with self._reindexing:
            index = self._open(sort_owners(owner))
            embed_missing(index, progress=progress, anew=True)
            with index.lock:
                index.store_rest()
                index.finish_reindex()
                return index.problems

    def get_embedder_use(self, owner: Owners) -> EmbedderUse:
        """Return what embeds the lines of an owner, and how many wait for it.

        Raises:
            LogError: If the log cannot be read.
        """
        index = self._open(sort_owners(owner))
        with index.lock:
            index.catch_up()
            segments, pending = len(index.table), len(index.vectors.missing)
            return EmbedderUse(self.embeddings, segments, pending, index.problems)

    def close(self) -> None:
        """Embed nothing more: few lines are finished, of more the batch under way.

        Nothing else is closed; recalls still work. Idempotent.
        """
        with self._lock:
            indexes = list(self._indexes.values())
        stop_embedding(indexes)

    def find_lines(self, owner: Owner, words: Collection[str]) -> list[DialogLine]:
        """Return an owner's lines that hold all of these words; see `DialogRecall.find_lines`.

        Of an owner who was searched before, only what is new is read from the log.
        """
        if (owner,) not in self._indexes:
            return super().find_lines(owner, words)
        index = self._open((owner,))
        with index.lock:
            index.catch_up()
            return index.table.find_lines(words)

    def drop_forgotten(self, owner: Owner, copies: Sequence[str] = ()) -> None:  # noqa: ARG002 - there are none
        """Drop from memory what the log has forgotten of an owner.

        The next recall would do so anyway; in other processes it does. Nothing is raised.
        """
        with self._lock:
            indexes = [index for owners, index in self._indexes.items() if owner in owners]
        for index in indexes:
            with index.lock:
                index.drop_forgotten()


# -- the border to a rewriter ------------------------------------------------------------------
Rewriter: TypeAlias = "Runnable[str, str] | Callable[[str], str] | Callable[[str], Awaitable[str]]"
"""Makes of a question what to search for."""

_LEAST = 4_000
"""An index counts for so many segments at least: an empty one takes room, too."""
_log = logging.getLogger("langchain_convmem")


def check_rewriter(rewriter: Any) -> None:
    """Refuse what cannot be a rewriter.

    Raises:
        ConfigError: If it cannot; the message names it.
    """
    if not (rewriter is None or isinstance(rewriter, Runnable) or callable(rewriter)):
        wanted = "rewriter must be a Runnable or a function of a question"
        raise ConfigError(f"{wanted}, got {describe_value(rewriter)}")


def rewrite(rewriter: Rewriter | None, question: str) -> tuple[str, str | None]:
    """Return what to search for instead of the question, and what went wrong, if anything did.

    Raises:
        ConfigError: If the rewriter is a coroutine function, and nothing here can await it.
    """
    if rewriter is None:
        return question, None
    check_askable(rewriter, "the rewriter", "arecall, ainvoke or the like")
    try:
        return _check_text(_ask_rewriter(rewriter, question)), None
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        return question, report_problem(
            _log, "the rewriter failed and the question is asked as it is", error
        )


def _check_text(answer: Any) -> str:
    if not isinstance(answer, str) or not answer.strip():
        raise UnreadableError(f"expected a text that is not blank, got {describe_value(answer)}")
    return answer.strip()


def _ask_rewriter(rewriter: Any, question: str) -> Any:
    if isinstance(rewriter, Runnable):
        return ask(partial(rewriter.invoke, question), partial(rewriter.ainvoke, question))
    answer = rewriter(question)
    return ask(partial(asyncio.run, answer), lambda: answer) if iscoroutine(answer) else answer
