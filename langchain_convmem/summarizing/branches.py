"""Opening what was folded: the summaries below those that a view shows, and what they say to it.

The view of a long thread shows summaries that were made of other summaries. What these leave out
is one layer or more below, still in the log. A question that recall alone does not answer opens
them: their sentences are compared with it by what they mean, and the nearest are shown.
"""

from __future__ import annotations

import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.forks import make_lock
from langchain_convmem.records import Entry, Owner, Stretch, ThreadKey
from langchain_convmem.summarizing.citations import list_sentences
from langchain_convmem.views.live import find_frontier
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.shown import OpenedSummary
from langchain_convmem.views.summaries import get_children, get_days
from langchain_convmem.views.tokens import count_text_tokens

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, soon and without cost: it runs while a turn waits."""

ReadStretches: TypeAlias = Callable[[Sequence[Stretch]], Sequence[Entry]]
"""Reads entries of a thread from after a position up to another, by position."""

_MOST_READ = 2048
"""So many folded summaries of a thread are known at once, the latest ones."""
_MOST_OPENED = 64
_LEAST_NEAR = 0.05
"""A sentence whose cosine is smaller has nothing to do with a question."""
_MOST_MISSES = 12
"""After so many sentences in a row that do not fit, the rest hardly will."""
_SHORTEST = 8
"""Fewer characters say nothing."""
_QUESTION_MARKS = "?？؟;"  # noqa: RUF001 - marks of several scripts


# -- what is folded -------------------------------------------------------------------------------
def find_folding(live: Sequence[Entry]) -> list[Entry]:
    """Return the summaries that a view shows and that fold others."""
    return [one for one in find_frontier(live) if get_children(one)]


@dataclass(frozen=True, slots=True)
class FoldedSummary:
    """A summary that others fold.

    Attributes:
        summary_id: Its entry.
        position: Where it is in its thread.
        first: The first position that it covers.
        days: The first and the last day that it tells of; empty where that is not known.
        sentences: What it says.
        children: Ids and positions of the summaries that it folds; empty for one that was written.
    """

    summary_id: str
    position: int
    first: int
    days: tuple[str, ...]
    sentences: tuple[str, ...]
    children: tuple[tuple[str, int], ...]

    @classmethod
    def read(cls, entry: Entry) -> FoldedSummary:
        """Return what a summary's entry says."""
        ranges = entry.cover.ranges if entry.cover is not None else ()
        sentences = tuple(list_sentences(entry.contents))
        return cls(
            entry.id,
            entry.position,
            ranges[0][0] if ranges else entry.position,
            get_days(entry),
            sentences,
            tuple(get_children(entry)),
        )


class Branches:
    """The folded summaries of a thread, searched by what a question means. Thread-safe."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = make_lock()
        self._known: dict[str, FoldedSummary | None] = {}
        self._vectors: dict[str, Vectors] = {}

    def read(self, roots: Iterable[Entry], read: ReadStretches) -> None:
        """Read what the summaries that these fold are not known to say yet; drop all others."""
        roots = list(roots)
        while missing := self._find_missing(roots):
            entries = read([(position - 1, position) for _, position in missing])
            found = {one.id: FoldedSummary.read(one) for one in entries if one.role == "summary"}
            with self._lock:
                # What is not found is gone.
                self._known.update((name, found.get(name)) for name, _ in missing)

    def _find_missing(self, roots: Iterable[Entry]) -> list[tuple[str, int]]:
        """Return ids and positions of the next layer that is not known yet, by position."""
        with self._lock:
            reached: dict[str, FoldedSummary | None] = {}
            missing: dict[str, int] = {}
            waiting = [child for root in roots for child in get_children(root)]
            while waiting:
                name, position = waiting.pop()
                if name not in self._known:
                    missing[name] = position
                    continue
                folded = reached[name] = self._known[name]
                if folded is not None:
                    waiting.extend(one for one in folded.children if one[0] not in reached)
            self._known = reached
            self._vectors = {name: one for name, one in self._vectors.items() if name in reached}
            latest = sorted(missing.items(), key=lambda one: -one[1])
            return sorted(latest[: max(_MOST_READ - len(reached), 0)], key=lambda one: one[1])

    def embed(self, embed: Embed) -> list[tuple[FoldedSummary, Vectors]]:
        """Return the summaries that were written, not made of others, with their vectors.

        Args:
            embed: Embeds the sentences that have no vector yet.
        """
        with self._lock:
            known = sorted(self._known.items())
            leaves = [one for _, one in known if one and one.sentences and not one.children]
            vectors = dict(self._vectors)
        for leaf in leaves:
            if leaf.summary_id not in vectors:
                # Outside the lock: a question meanwhile does not wait.
                made = _normalize(embed(list(leaf.sentences)))
                vectors[leaf.summary_id] = made
                with self._lock:
                    self._vectors[leaf.summary_id] = made
        return [(leaf, vectors[leaf.summary_id]) for leaf in leaves]

    def rank(self, question: str, embed: Embed) -> Iterator[tuple[FoldedSummary, int]]:
        """Yield the sentences nearest to a question by summary and number, best first."""
        leaves = self.embed(embed)
        if not leaves:
            return
        rows = np.concatenate([vectors for _, vectors in leaves])
        places = [(leaf, number) for leaf, _ in leaves for number in range(len(leaf.sentences))]
        scores = rows @ _normalize(embed([question]))[0]
        for place in (-scores).argsort(kind="stable")[:_MOST_OPENED].tolist():
            if scores[place] >= _LEAST_NEAR:
                yield places[place]


def _normalize(vectors: Sequence[Sequence[float]]) -> Vectors:
    """Return vectors of length one; those without a direction stay as they are."""
    rows = np.array(vectors, dtype=np.float32)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), dtype=np.float32)


# -- what is shown of it --------------------------------------------------------------------------
def open_summaries(
    branches: Branches,
    roots: Sequence[Entry],
    question: str,
    read: ReadStretches,
    *,
    shown: str = "",
    max_tokens: int,
    count: TextCounter = count_text_tokens,
    embed: Embed,
) -> tuple[OpenedSummary, ...]:
    """Return what the folded summaries of a thread say to a question, in order of what they cover.

    Args:
        branches: Those of the thread as far as they are known: the others are read.
        roots: The summaries that the view shows and that fold others.
        question: What is asked; a text without a question mark opens nothing.
        read: Reads entries of the thread.
        shown: All that is shown anyway, folded by `fold_text`.
        max_tokens: How long the texts may be together.
        count: Counts the tokens of a text.
        embed: Embeds sentences and the question.
    """
    is_question = any(mark in question for mark in _QUESTION_MARKS)
    if not roots or max_tokens <= 0 or not is_question:
        return ()
    branches.read(roots, read)
    chosen: list[tuple[FoldedSummary, int]] = []
    told: set[str] = set()
    room, misses = max_tokens, 0
    for leaf, number in branches.rank(question, embed):
        sentence = leaf.sentences[number]
        folded = fold_text(sentence)
        if len(folded) < _SHORTEST or folded.endswith(":") or folded in told or folded in shown:
            continue
        is_begun = any(one is leaf for one, _ in chosen)
        cost = count(f"\n- {sentence}") + (0 if is_begun else count(f"\n\n{_write_header(leaf)}"))
        if cost > room:
            misses += 1
            if misses == _MOST_MISSES:
                break
            continue
        chosen.append((leaf, number))
        told.add(folded)
        room -= cost
        misses = 0
    # Not every counter takes the parts for as long as the whole.
    while chosen and count(_join_opened(_write(chosen))) > max_tokens:
        chosen.pop()
    return _write(chosen)


def _write(chosen: Iterable[tuple[FoldedSummary, int]]) -> tuple[OpenedSummary, ...]:
    """Return sentences as a model reads them; the days stand once over what is told of them."""
    groups: dict[str, tuple[FoldedSummary, list[int]]] = {}
    for leaf, number in chosen:
        groups.setdefault(leaf.summary_id, (leaf, []))[1].append(number)
    written: list[OpenedSummary] = []
    days: tuple[str, ...] | None = None
    for leaf, numbers in sorted(groups.values(), key=lambda one: (one[0].first, one[0].position)):
        sentences = tuple(leaf.sentences[number] for number in sorted(numbers))
        header = [] if leaf.days == days else [_write_header(leaf)]
        lines = [*header, *(f"- {sentence.removeprefix('- ')}" for sentence in sentences)]
        text = "\n".join(lines)
        written.append(OpenedSummary(leaf.summary_id, leaf.position, sentences, text))
        days = leaf.days
    return tuple(written)


def _write_header(leaf: FoldedSummary) -> str:
    days = " to ".join(dict.fromkeys(leaf.days))
    return f"[{days}, from a summary]" if days else "[from a summary]"


def _join_opened(opened: Iterable[OpenedSummary]) -> str:
    return "\n\n".join(["", *(one.text for one in opened)])


def fold_text(text: str) -> str:
    """Return a text as sentences are looked for in it: case and white space do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removeprefix("- ")


# -- kept in the process --------------------------------------------------------------------------
class BranchCache:
    """The folded summaries of the latest threads of a process, which never change. Thread-safe."""

    def __init__(self, most: int = 64) -> None:
        """Start empty; keep those of at most this many threads."""
        self._most = most
        self._lock = make_lock()
        self._found: OrderedDict[tuple[Hashable, ThreadKey], Branches] = OrderedDict()

    def get(self, place: Hashable, key: ThreadKey) -> Branches:
        """Return those of a thread of a log."""
        with self._lock:
            found = self._found.setdefault((place, key), Branches())
            self._found.move_to_end((place, key))
            while len(self._found) > self._most:
                self._found.popitem(last=False)
            return found

    def drop(self, place: Hashable, owner: Owner) -> None:
        """Forget those of an owner's threads."""
        with self._lock:
            for name in [name for name in self._found if name[0] == place]:
                if name[1].owner == owner:
                    del self._found[name]


BRANCHES = BranchCache()
"""One per process."""


def prepare_branches(
    place: Hashable,
    key: ThreadKey,
    live: Sequence[Entry],
    read: Callable[..., list[Entry]],
    embed: Embed,
) -> None:
    """Read and embed what the summaries of a thread fold, which the next turn would have to.

    Args:
        place: Identifies the log.
        key: The thread.
        live: Its live entries.
        read: `MessageLog.entries` of it.
        embed: What a turn asks for vectors.
    """

    def read_stretches(stretches: Sequence[Stretch]) -> list[Entry]:
        return [one for after, until in stretches for one in read(after=after, until=until)]

    if roots := find_folding(live):
        branches = BRANCHES.get(place, key)
        branches.read(roots, read_stretches)
        branches.embed(embed)
