"""Opening what was folded: the summaries below those that a view shows, and what they say to it.

The view of a long thread shows summaries that were made of other summaries. What these leave out
stands one layer or more below, still in the log. A question opens them: their sentences are
searched by its words, by what it means and by the entries that recall found for it, and the best
are shown.
"""

# ruff: noqa: E501 - words in several languages

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.forks import make_lock
from langchain_convmem.records import Entry, Owner, ThreadKey
from langchain_convmem.summarizing.citations import list_sentences, read_cites
from langchain_convmem.views.lines import OpenedSummary
from langchain_convmem.views.live import find_frontier
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.summaries import get_children, get_days
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.analysis import analyze, extract_query_terms, select_telling_words
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.facts import FactSource, list_points
from langchain_convmem.words.languages import FUNCTION_CHARACTERS
from langchain_convmem.words.speech import find_questions

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, soon and without cost: it runs while a turn waits."""

ReadEntries: TypeAlias = Callable[..., Sequence[Entry]]
"""Reads entries of a thread `after` a position and `until` another; see `MessageLog.entries`."""

_MOST_READ = 2048
"""So many folded summaries of a thread are read at once, the latest ones."""
_MOST_SENTENCES, _MOST_MEANT = 8, 64
"""So many sentences are opened at most by their words, and by what they mean."""
_ANSWERING = 0.66
"""A sentence that holds this share of a question answers it."""
_LEAST_NEAR = 0.05
"""A sentence whose cosine is no larger has nothing to do with a question."""
_LEAST_SHARE, _LEAST_PART = 0.34, 0.2
"""Of what a question asks about, by rarity, a sentence holds at least the first share, or the
second one where recall found what it comes from."""
_HELD = 0.3
"""What it counts beside a cosine that a sentence holds what a question asks for."""
_NEAR_BEST = 0.5
"""And this share of what the best sentence holds."""
_SHORTEST = 8
"""Fewer characters say nothing."""


def find_folding(live: Sequence[Entry]) -> list[Entry]:
    """Return the summaries that a view shows and that fold others."""
    return [one for one in find_frontier(live) if get_children(one)]


@dataclass(frozen=True, slots=True)
class FoldedSummary:
    """A summary that others were made of, or that others fold.

    Attributes:
        summary_id: Its entry.
        position: Where it stands.
        first: The first position that it covers.
        days: The first and the last day that it tells of; empty where that is not known.
        sentences: What it says.
        cites: The positions that each sentence comes from; empty where that is not known.
        children: Ids and positions of the summaries that it folds; empty for one that was written.
    """

    summary_id: str
    position: int
    first: int
    days: tuple[str, ...]
    sentences: tuple[str, ...]
    cites: tuple[frozenset[int], ...]
    children: tuple[tuple[str, int], ...]

    @classmethod
    def read(cls, entry: Entry) -> FoldedSummary:
        """Return the branch that a summary's entry is."""
        sentences = tuple(list_sentences(entry.contents))
        ranges = entry.cover.ranges if entry.cover is not None else ()
        return cls(
            entry.id,
            entry.position,
            ranges[0][0] if ranges else entry.position,
            get_days(entry),
            sentences,
            tuple(map(frozenset, read_cites(entry, len(sentences)) or [()] * len(sentences))),
            tuple(get_children(entry)),
        )

    def write(self, numbers: Sequence[int], *, has_header: bool = True) -> OpenedSummary:
        """Return some sentences as a model reads them, after the days that they tell of."""
        days = " to ".join(dict.fromkeys(self.days))
        header = f"[{days}, from a summary]" if days else "[from a summary]"
        sentences = tuple(self.sentences[number] for number in numbers)
        items = [f"- {sentence.removeprefix('- ')}" for sentence in sentences]
        text = "\n".join([header, *items] if has_header else items)
        return OpenedSummary(self.summary_id, self.position, sentences, text)


_Sentence: TypeAlias = tuple[FoldedSummary, int]
"""A sentence by its summary and its number."""


class Branches:
    """The folded summaries of a thread, searched by a question. Thread-safe."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = make_lock()
        self._known: dict[str, FoldedSummary | None] = {}
        self._index = LexicalIndex()
        self._sentences: list[_Sentence] = []
        self._vectors: dict[str, NDArray[np.float32]] = {}
        self._kinds: dict[str, list[set[str]]] = {}

    def read(self, roots: Iterable[Entry], read: ReadEntries) -> None:
        """Read what these fold and is not known yet; drop what they no longer fold.

        Args:
            roots: The summaries that the view shows and that fold others.
            read: Reads entries of the thread.
        """
        known = self._known
        reached: dict[str, FoldedSummary | None] = {}
        layer = [child for root in roots for child in get_children(root)]
        while layer:
            missing = sorted(position for name, position in layer if name not in known)
            read_at = (read(after=one - 1, until=one) for one in missing[-_MOST_READ:])
            found = chain.from_iterable(read_at)
            fresh = {one.id: FoldedSummary.read(one) for one in found if one.role == "summary"}
            summaries = {name: known.get(name) or fresh.get(name) for name, _ in layer}
            reached |= summaries
            layer = [
                child
                for one in summaries.values()
                for child in (one.children if one is not None else ())
                if child[0] not in reached
            ]
        with self._lock:
            self._known = reached
            self._settle()

    def _settle(self) -> None:
        """Bring the index up to what is known."""
        leaves = [one for one in self._known.values() if one is not None and not one.children]
        held = {one.summary_id for one, _ in self._sentences}
        if not held.issubset(one.summary_id for one in leaves):
            self._index, self._sentences, held = LexicalIndex(), [], set()
            for name in self._vectors.keys() - self._known.keys():
                del self._vectors[name], self._kinds[name]
        for leaf in sorted(leaves, key=lambda one: one.position):
            if leaf.summary_id not in held:
                self._index.add(map(analyze, leaf.sentences))
                self._sentences += [(leaf, number) for number in range(len(leaf.sentences))]

    def embed(self, embed: Embed) -> None:
        """Embed what is known and has no vectors yet, so that no question waits for it."""
        with self._lock:
            leaves = {leaf.summary_id: leaf for leaf, _ in self._sentences}
        for name in leaves.keys() - self._vectors.keys():
            sentences = leaves[name].sentences
            self._kinds[name] = [_find_kinds(sentence) for sentence in sentences]
            self._vectors[name] = np.array(embed([*sentences]), dtype=np.float32)

    def open(
        self,
        roots: Sequence[Entry],
        question: str,
        read: ReadEntries,
        *,
        hits: Collection[int] = (),
        whole: Collection[int] = (),
        shown: str = "",
        max_tokens: int,
        count: TextCounter = count_text_tokens,
        embed: Embed | None = None,
    ) -> tuple[OpenedSummary, ...]:
        """Return what the summaries that these fold say to a question, in the order they cover.

        First come sentences that answer it by its words; where `embed` is given and none answers
        most of it, those follow that are nearest to it in what they mean or hold.

        Args:
            roots: The summaries that the view shows and that fold others.
            question: What is asked.
            read: Reads entries of the thread.
            hits: The positions of the lines that recall found.
            whole: Those that are shown whole: a sentence that comes from these alone says nothing
                new.
            shown: All that is shown anyway, folded by `fold_text`.
            max_tokens: How long the texts may be together.
            count: Counts the tokens of a text.
            embed: Embeds sentences and the question; None opens by words alone.
        """
        if not roots or max_tokens <= 0:
            return ()
        self.read(roots, read)
        with self._lock:
            shares = self._measure_shares(question)
            ranked = self._rank_by_words(shares, frozenset(hits), frozenset(whole))
        most = max(shares, default=0.0)
        if embed is not None and most < _ANSWERING and find_questions(question):
            self.embed(embed)
            asked = np.array(embed([question])[0], dtype=np.float32)
            with self._lock:
                ranked += self._rank_by_meaning(question, asked)
        return _pack(ranked, shown, max_tokens, count)

    def _measure_shares(self, question: str) -> NDArray[np.float64]:
        """Return which share of a question's words, by rarity, each sentence holds."""
        terms = {
            term: word
            for term, word in extract_query_terms(question, self._index).items()
            if not set(term) <= FUNCTION_CHARACTERS
        }
        shares = np.zeros(len(self._sentences))
        if not terms or not select_telling_words(question):
            return shares
        rarities, worth = self._index.compute_rarities(terms), dict[str, float]()
        holding = {word: np.zeros(len(shares), dtype=bool) for word in terms.values()}
        for term, word in terms.items():
            worth[word] = max(worth.get(word, 0.0), rarities.get(term, 0.0))
            holding[word][self._index.find([term]).documents] = True
        for word, holds in holding.items():
            # What nobody says anywhere is asked about all the same.
            worth[word] = worth[word] or self._index.rarest
            shares[holds] += worth[word]
        return shares / (sum(worth.values()) or 1.0)

    def _rank_by_words(
        self, shares: NDArray[np.float64], hits: frozenset[int], whole: frozenset[int]
    ) -> list[_Sentence]:
        """Return the sentences that answer a question by its words, best first."""
        ranked: list[_Sentence] = []
        for place in (-shares).argsort(kind="stable").tolist():
            leaf, number = self._sentences[place]
            cites = leaf.cites[number]
            least = _LEAST_SHARE if cites.isdisjoint(hits) else _LEAST_PART
            is_near = shares[place] >= max(least, _NEAR_BEST * shares.max())
            if is_near and not (cites and cites <= whole):
                ranked.append((leaf, number))
        return ranked[:_MOST_SENTENCES]

    def _rank_by_meaning(self, question: str, asked: NDArray[np.float32]) -> list[_Sentence]:
        """Return the sentences nearest to a question in what they mean or hold, best first."""
        known = [one for one in self._sentences if one[0].summary_id in self._vectors]
        if not known:
            return []
        rows = np.array([self._vectors[leaf.summary_id][number] for leaf, number in known])
        lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
        wanted = _find_asked_kinds(question)
        holds = [not wanted.isdisjoint(self._kinds[leaf.summary_id][n]) for leaf, n in known]
        scores = rows @ asked / np.where(lengths > 0, lengths, 1) + _HELD * np.array(holds)
        best = (-scores).argsort(kind="stable")[:_MOST_MEANT].tolist()
        return [known[place] for place in best if scores[place] >= _LEAST_NEAR]


def _pack(
    ranked: Iterable[_Sentence], shown: str, max_tokens: int, count: TextCounter
) -> tuple[OpenedSummary, ...]:
    """Return the first of the ranked sentences that are new and fit."""
    chosen: list[_Sentence] = []
    told: set[str] = set()
    room = max_tokens
    for leaf, number in ranked:
        folded = fold_text(leaf.sentences[number])
        if len(folded) < _SHORTEST or folded.endswith(":") or folded in told or folded in shown:
            continue
        cost = count(f"\n- {leaf.sentences[number]}")
        if all(one.days != leaf.days for one, _ in chosen):
            cost += count(f"\n\n{leaf.write(()).text}\n")
        if cost <= room:
            room -= cost
            told.add(folded)
            chosen.append((leaf, number))
    # Days that stand between others are written again.
    while count("\n\n".join(["", *(one.text for one in _write(chosen))])) > max_tokens:
        chosen.pop()
    return _write(chosen)


def _write(chosen: Iterable[_Sentence]) -> tuple[OpenedSummary, ...]:
    """Return sentences by their summaries, in the order of what these cover."""
    numbers: dict[str, list[int]] = {}
    leaves: dict[str, FoldedSummary] = {}
    for leaf, number in chosen:
        leaves[leaf.summary_id] = leaf
        numbers.setdefault(leaf.summary_id, []).append(number)
    written: list[OpenedSummary] = []
    days: tuple[str, ...] | None = None
    for leaf in sorted(leaves.values(), key=lambda one: (one.first, one.position)):
        of_leaf = sorted(numbers[leaf.summary_id])
        written.append(leaf.write(of_leaf, has_header=leaf.days != days))
        days = leaf.days
    return tuple(written)


def fold_text(text: str) -> str:
    """Return a text as sentences are looked for in it: case and white space do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removeprefix("- ")


# -- what a question asks for ---------------------------------------------------------------------
_ASKED_AS = {"time": "date", "link": "id"}
_ASKING_WORDS = {
    "amount": r"""
how much|prices?|costs?|worth|sums?|spend|spent|pays?|paid|expensive|cheap|fees?|afford
wie ?viel|kosten|kostet|preis|teuer|bezahl\w*|combien|prix|coûte?|cher|payer|cuánto|precio|cuesta|caro|pagar|quanto|prezzo|costa
""",
    "date": """
what (?:day|date|time)|(?:which|what) (?:day|evening|morning|afternoon|night|week|weekend|month|year)|dates?|deadline|how soon
wann|welche[nrms]? (?:tag|abend|woche|monat|jahr)|datum|quand|quel jour|quelle date|cuándo|qué día|fecha|quando|che giorno
""",
    "id": """
codes?|combination|secret|pin|pass(?:word|code)s?|numbers?|keys?|log ?in|serial|type|unlocks?|opens?|enter|connect|get in(?:to)?|lets? (?:me|us) in(?:to)?|reach|e-?mail|phone|address|url|iban
(?:kenn|pass)wort|nummer|zugang|mot de passe|numéro|contraseña|código|número|codice|numero
""",
    "name": """
whom|whose|names?|called|which (?:doctor|person|colleague|friend|man|woman|one of)
wer|wen|wem|heißt|qui|appelle|quién|llama|chi|chiama
""",
    "preference": r"""
likes?|prefer\w*|favou?rites?|enjoys?|loves?|hates?|rather|choice|taste|allerg\w*
mag|liebling\w*|bevorzug\w*|am liebsten|aime\w*|préfère\w*|gusta\w*|prefier\w*|piace|preferi\w*
""",
    "promise": r"""
must|should|shall|promise[ds]?|pledge\w*|dut(?:y|ies)|remind\w*|ha(?:ve|s) to|needs? to|prepare\w*|am i to|are we to|want(?:ed)? to do|to do|tasks?|left|plan\w*|still|owe|agreed?|done
muss|soll|versproch\w*|erinner\w*|dois|promis\w*|rappel\w*|debo|tengo que|promet\w*|devo|promess\w*|ricord\w*
""",
}
"""How people ask for what `list_points` finds, in the languages that profiles are read in."""
_OPENERS = {"who": "name", "when": "date"}
"""Words that ask where a clause begins with them; elsewhere they join clauses."""
_BEGIN = r"(?:^|[,;:.!?]\s*|\b(?:and|or|so|by|to|from|of|for|since|until|know|remember|remind me|tell me)\s+)\W*"


def _find_kinds(sentence: str) -> set[str]:
    return {_ASKED_AS.get(one.kind, one.kind) for one in list_points([FactSource(sentence)])}


def _find_asked_kinds(question: str) -> set[str]:
    folded = unicodedata.normalize("NFKC", question).casefold().replace("\u2019", "'").strip()
    return {kind for kind, pattern in _list_patterns() if pattern.search(folded)}


@cache
def _list_patterns() -> list[tuple[str, re.Pattern[str]]]:
    spaced = {kind: "|".join(words.split("\n")[1:-1]) for kind, words in _ASKING_WORDS.items()}
    return [
        *((kind, re.compile(rf"(?<!\w)(?:{words})(?!\w)")) for kind, words in spaced.items()),
        *((kind, re.compile(rf"{_BEGIN}{word}(?!\w)")) for word, kind in _OPENERS.items()),
    ]


# -- over a log -----------------------------------------------------------------------------------
open_summaries = Branches.open


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
    read: ReadEntries,
    embed: Embed,
) -> None:
    """Take up what the summaries of a thread fold, which the next turn would have to.

    Args:
        place: Identifies the log.
        key: The thread.
        live: Its live entries.
        read: `MessageLog.entries` of it.
        embed: What a turn asks for vectors.
    """
    if roots := find_folding(live):
        branches = BRANCHES.get(place, key)
        branches.read(roots, read)
        branches.embed(embed)
