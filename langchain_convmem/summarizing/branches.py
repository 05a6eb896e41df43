"""Opening what was folded: the summaries below those that a view shows, and what they say to it.

The view of a long thread shows summaries that were made of other summaries. What these leave out
stands one layer or more below, still in the log. A question opens them: their sentences are
searched by its words and by the entries that recall found for it, and the best are shown.
"""

# ruff: noqa: E501, RUF001 - words in the letters they are written in

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import (
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from langchain_convmem.forks import make_lock
from langchain_convmem.records import Entry, Owner, Stretch, ThreadKey
from langchain_convmem.summarizing.citations import list_sentences, read_cites
from langchain_convmem.views.live import find_frontier
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.shown import OpenedSummary
from langchain_convmem.views.summaries import get_children, get_days
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.analysis import analyze, extract_query_terms, select_telling_words
from langchain_convmem.words.bm25 import LexicalIndex
from langchain_convmem.words.facts import FactSource, Kind, list_points
from langchain_convmem.words.languages import FUNCTION_CHARACTERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Meaning: TypeAlias = tuple[NDArray[np.float32], list[frozenset[Kind]]]

Embed: TypeAlias = Callable[[list[str]], Sequence[Sequence[float]]]
"""Returns a vector for each text, soon and without cost: it runs while a turn waits."""

ReadStretches: TypeAlias = Callable[[Sequence[Stretch]], Sequence[Entry]]
"""Reads entries of a thread from after a position up to another, by position."""

_MOST_READ = 2048
"""So many folded summaries of a thread are known at once, the latest ones."""
_MOST_SENTENCES = 8
_MOST_RANKED = 64
_MOST_MEANT = 64
"""So many sentences are opened at most by what they mean, or by what they hold."""
_ANSWERING = 0.66
"""A sentence that holds this share of a question answers it."""
_HELD = 0.3
"""What it counts beside a cosine that a sentence holds what a question asks for."""
_LEAST_NEAR = 0.05
"""A sentence that is no nearer has nothing to do with a question."""
_SURE_TO_FIT = 0.8
"""What fills no more of the room, counted one by one, is not counted together."""
_LEAST_TOGETHER = 0.8
"""Of what a sentence takes alone, so much it takes beside others at least."""
_MOST_MISSES = 12
"""After so many sentences in a row that do not fit, the rest hardly will."""
_LEAST_SHARE = 0.34
"""Of what a question asks about, by rarity, a sentence holds at least this share."""
_LEAST_PART = 0.2
"""Or this share, where its summary holds most of the rest or recall found what it comes from."""
_LEAST_WHOLE = 0.65
"""That is, this share."""
_NEAR_BEST = 0.5
"""And this share of what the best sentence holds."""
_SHORTEST = 8
"""Fewer characters say nothing."""


# -- what is folded -------------------------------------------------------------------------------
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
    first: int = 0
    days: tuple[str, ...] = ()
    sentences: tuple[str, ...] = ()
    cites: tuple[frozenset[int], ...] = ()
    children: tuple[tuple[str, int], ...] = ()

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
            tuple(map(frozenset, read_cites(entry, len(sentences)) or ())),
            tuple(get_children(entry)),
        )


class Branches:
    """The folded summaries of a thread, searched by the words of a question. Thread-safe."""

    def __init__(self) -> None:
        """Start without any."""
        self._lock = make_lock()
        self._known: dict[str, FoldedSummary | None] = {}
        self._leaves: dict[str, tuple[FoldedSummary, int]] = {}
        self._index = LexicalIndex()
        self._documents: list[tuple[str, int]] = []
        self._meanings: dict[str, Meaning] = {}

    def find_missing(self, roots: Iterable[Entry]) -> list[tuple[str, int]]:
        """Return ids and positions of what these fold and is not known yet, by position.

        That is the next layer alone. What they no longer fold is dropped.
        """
        with self._lock:
            reached: dict[str, FoldedSummary | None] = {}
            missing: dict[str, int] = {}
            waiting = [child for root in roots for child in get_children(root)]
            while waiting:
                name, position = waiting.pop()
                if name not in self._known:
                    missing[name] = position
                    continue
                branch = reached[name] = self._known[name]
                if branch is not None:
                    waiting.extend(one for one in branch.children if one[0] not in reached)
            self._known = reached
            latest = sorted(missing.items(), key=lambda one: -one[1])
            return sorted(latest[: max(_MOST_READ - len(reached), 0)], key=lambda one: one[1])

    def add(self, wanted: Iterable[tuple[str, int]], entries: Iterable[Entry]) -> None:
        """Take in what was read; what is wanted and was not found is gone."""
        read = {entry.id: FoldedSummary.read(entry) for entry in entries if entry.role == "summary"}
        with self._lock:
            self._known.update((name, read.get(name)) for name, _ in wanted)

    def settle(self) -> None:
        """Bring the index up to what is known."""
        with self._lock:
            leaves = {
                name: branch
                for name, branch in self._known.items()
                if branch is not None and not branch.children
            }
            for name in self._leaves.keys() - leaves.keys():
                branch, start = self._leaves.pop(name)
                self._meanings.pop(name, None)
                self._index.remove(range(start, start + len(branch.sentences)))
            for name in sorted(leaves.keys() - self._leaves.keys()):
                branch = leaves[name]
                self._leaves[name] = branch, len(self._index)
                self._index.add(map(analyze, branch.sentences))
                self._documents += [(name, number) for number in range(len(branch.sentences))]

    def prepare(self, embed: Embed) -> None:
        """Bring everything up to what is known, so that the next question finds it there.

        Nobody waits for this, and nobody who asks meanwhile waits longer for it.
        """
        self.settle()
        with self._lock:
            leaves = {name: leaf for name, (leaf, _) in self._leaves.items() if leaf.sentences}
            missing = leaves.keys() - self._meanings.keys()
        for name in sorted(missing):
            meaning = _find_meaning(leaves[name], embed)
            with self._lock:
                if name in self._leaves:
                    self._meanings.setdefault(name, meaning)

    def select(
        self,
        question: str,
        *,
        hits: Collection[int],
        whole: Collection[int],
        shown: str,
        max_tokens: int,
        count: TextCounter = count_text_tokens,
        embed: Embed | None = None,
    ) -> tuple[OpenedSummary, ...]:
        """Return what the folded summaries say to a question, in the order of what they cover.

        First come sentences that answer it by its words; where `embed` is given and none answers
        most of it, others follow by what they mean, those first that hold what is asked for.

        Args:
            question: What is asked.
            hits: The positions of the lines that recall found.
            whole: Those that are shown whole: a sentence that comes from these alone says nothing
                new.
            shown: All that is shown anyway, folded by `fold_text`.
            max_tokens: How long the texts may be together.
            count: Counts the tokens of a text.
            embed: Embeds sentences and the question; None opens by words alone.
        """
        with self._lock:
            ranked, share = self._rank(question, hits, whole)
            ranked = ranked[:_MOST_SENTENCES]
            if embed is not None and share < _ANSWERING:
                ranked += self._rank_by_meaning(question, embed)
            return self._pack(ranked, shown, max_tokens, count)

    def _pack(
        self,
        ranked: Iterable[tuple[str, int]],
        shown: str,
        max_tokens: int,
        count: TextCounter,
    ) -> tuple[OpenedSummary, ...]:
        """Return the first of the ranked sentences that are new and fit."""
        room = _Room(max_tokens, lambda chosen: count(_join_opened(self._write(chosen))))
        told: set[str] = set()
        misses = 0
        for name, number in ranked:
            leaf = self._leaves[name][0]
            sentence = leaf.sentences[number]
            folded = fold_text(sentence)
            if _is_heading(folded) or folded in told or folded in shown:
                continue
            cost = count(f"\n- {sentence}")
            if name not in room.chosen:
                cost += count(f"\n\n{write_opened(leaf, ()).text}\n")
            if room.add(name, number, cost):
                told.add(folded)
                misses = 0
            else:
                misses += 1
                if misses == _MOST_MISSES:
                    break
        return self._write(room.settle())

    def _rank_by_meaning(self, question: str, embed: Embed) -> list[tuple[str, int]]:
        """Return the sentences nearest to a question in what they mean or hold, best first."""
        asked = find_asked_kinds(question)
        names = sorted(name for name, (leaf, _) in self._leaves.items() if leaf.sentences)
        if not names or not (asked or is_question(question)):
            return []
        for name in names:
            if name not in self._meanings:
                self._meanings[name] = _find_meaning(self._leaves[name][0], embed)
        known = [self._meanings[name] for name in names]
        holds = [not asked.isdisjoint(one) for _, kinds in known for one in kinds]
        cosines = _compare(embed([question])[0], [vectors for vectors, _ in known])
        scores = cosines + _HELD * np.array(holds)
        places = [
            (name, number) for name in names for number in range(len(self._meanings[name][1]))
        ]
        best = (-scores).argsort(kind="stable")[:_MOST_MEANT].tolist()
        return [places[place] for place in best if scores[place] >= _LEAST_NEAR]

    def _rank(
        self, question: str, hits: Collection[int], whole: Collection[int]
    ) -> tuple[list[tuple[str, int]], float]:
        """Return the sentences that share words with a question, best first, and how much.

        A sentence is named by its summary and its number; how much of the question it holds is said
        of the one that holds most.
        """
        if not self._leaves or not select_telling_words(question):
            return [], 0.0
        terms = _list_asked_terms(question, self._index)
        scores = self._index.compute_scores(terms)
        best = (-scores).argsort(kind="stable")[:_MOST_RANKED].tolist()
        likely = [number for number in best if scores[number] > 0]
        asked = _Asked(terms, self._index)
        shared = self._index.find_shared(asked.terms, likely)
        held = [asked.list_words(places) for places in shared]
        most = max(map(asked.measure, held), default=0.0)
        wholes: dict[str, frozenset[str]] = {}
        for number, words in zip(likely, held, strict=True):
            name = self._documents[number][0]
            wholes[name] = wholes.get(name, frozenset()) | words
        found: list[tuple[str, int]] = []
        for document, words in zip(likely, held, strict=True):
            name, number = self._documents[document]
            cites = self._get_cites(name, number)
            if cites and cites <= set(whole):
                continue
            is_near = not cites.isdisjoint(hits) or asked.measure(wholes[name]) >= _LEAST_WHOLE
            least = _LEAST_PART if is_near else _LEAST_SHARE
            if asked.measure(words) >= max(least, _NEAR_BEST * most):
                found.append((name, number))
        return found, most

    def _get_cites(self, name: str, number: int) -> frozenset[int]:
        cites = self._leaves[name][0].cites
        return cites[number] if cites else frozenset()

    def _write(self, chosen: Mapping[str, Sequence[int]]) -> tuple[OpenedSummary, ...]:
        pairs = [(self._leaves[name][0], sorted(numbers)) for name, numbers in chosen.items()]
        pairs.sort(key=lambda pair: (pair[0].first, pair[0].position))
        written: list[OpenedSummary] = []
        days: tuple[str, ...] | None = None
        for branch, numbers in pairs:
            if numbers:
                written.append(write_opened(branch, numbers, has_header=branch.days != days))
                days = branch.days
        return tuple(written)


def _find_meaning(leaf: FoldedSummary, embed: Embed) -> Meaning:
    """Return the vectors of a summary's sentences, and the kinds of what each tells."""
    sentences = list(leaf.sentences)
    vectors = np.array(embed(sentences), dtype=np.float32)
    return vectors, [_find_kinds(sentence) for sentence in sentences]


_ASKED_AS: Mapping[Kind, Kind] = {"time": "date", "link": "id"}


def _find_kinds(sentence: str) -> frozenset[Kind]:
    points = list_points([FactSource(sentence)])
    return frozenset(_ASKED_AS.get(point.kind, point.kind) for point in points)


def _join_opened(opened: Iterable[OpenedSummary]) -> str:
    return "\n\n".join(["", *(one.text for one in opened)])


class _Room:
    """Sentences that fit into a budget, by their summary.

    One by one they take no less than together, and not much more: they are counted together only
    where that does not decide, and once at the end, since not every counter keeps to it.
    """

    def __init__(self, most: int, count: Callable[[Mapping[str, Sequence[int]]], int]) -> None:
        self.chosen: dict[str, list[int]] = {}
        self._order: list[str] = []
        self._most = most
        self._count = count
        self._counted = 0
        # What was added since, one by one.
        self._added = 0

    def add(self, name: str, number: int, cost: int) -> bool:
        """Add a sentence if there is room; `cost` is what it takes alone."""
        if self._added and self._counted + self._added + cost > self._most:
            self._counted, self._added = self._count(self.chosen), 0
        if self._counted + _LEAST_TOGETHER * cost > self._most:
            return False
        self._put(name, number)
        if self._counted + self._added + cost <= self._most:
            self._added += cost
            return True
        together = self._count(self.chosen)
        if together > self._most:
            self._drop_last()
            return False
        self._counted = together
        return True

    def settle(self) -> Mapping[str, Sequence[int]]:
        """Return what was added, without what proves not to fit after all."""
        if self._counted + self._added > _SURE_TO_FIT * self._most:
            while self.chosen and self._count(self.chosen) > self._most:
                self._drop_last()
        return self.chosen

    def _put(self, name: str, number: int) -> None:
        self.chosen.setdefault(name, []).append(number)
        self._order.append(name)

    def _drop_last(self) -> None:
        name = self._order.pop()
        self.chosen[name].pop()
        if not self.chosen[name]:
            del self.chosen[name]


def _compare(
    question: Sequence[float], vectors: Sequence[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the cosine of each row to a question; 0 where one has no direction."""
    asked, rows = np.array(question, dtype=np.float32), np.concatenate(vectors)
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(asked)
    return np.asarray((rows @ asked) / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _is_heading(folded: str) -> bool:
    return len(folded) < _SHORTEST or folded.endswith(":")


def _list_asked_terms(question: str, index: LexicalIndex) -> dict[str, str]:
    """Return the terms of a question, with their words."""
    return {
        term: word
        for term, word in extract_query_terms(question, index).items()
        if not set(term) <= FUNCTION_CHARACTERS
    }


class _Asked:
    """The words of a question, each with what it is worth: how rare it is, where it is known."""

    def __init__(self, terms: Mapping[str, str], index: LexicalIndex) -> None:
        self.terms = list(terms)
        self._word_of = list(terms.values())
        rarities = index.compute_rarities(terms)
        self._worth: dict[str, float] = {}
        for term, word in terms.items():
            known = self._worth.get(word, 0.0)
            self._worth[word] = max(known, rarities.get(term, 0.0))
        # What nobody says anywhere is asked about all the same.
        self._worth = {word: worth or index.rarest for word, worth in self._worth.items()}
        self._total = sum(self._worth.values())

    def list_words(self, places: Iterable[int]) -> frozenset[str]:
        """Return the words of the terms at these places."""
        return frozenset(self._word_of[place] for place in places)

    def measure(self, words: Iterable[str]) -> float:
        """Return which share of the question some of its words are."""
        held = sum(self._worth[word] for word in sorted(words))
        return held / self._total if self._total else 0.0


def write_opened(
    summary: FoldedSummary, numbers: Sequence[int], *, has_header: bool = True
) -> OpenedSummary:
    """Return some sentences of a summary as a model reads them.

    Args:
        summary: The summary.
        numbers: Which of its sentences, from 0.
        has_header: Whether the days stand in front; not where those before tell of the same.
    """
    days = " to ".join(dict.fromkeys(summary.days))
    header = f"[{days}, from a summary]" if days else "[from a summary]"
    sentences = tuple(summary.sentences[number] for number in numbers)
    items = [f"- {sentence.removeprefix('- ')}" for sentence in sentences]
    text = "\n".join([header, *items] if has_header else items)
    return OpenedSummary(summary.summary_id, summary.position, sentences, text)


def fold_text(text: str) -> str:
    """Return a text as sentences are looked for in it: case and white space do not count."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).removeprefix("- ")


# -- what a question asks for ---------------------------------------------------------------------
_ASKING_WORDS = {
    "amount": """
how much|prices?|costs?|worth|sums?|spend|spent|pays?|paid|expensive|cheap|fees?|afford
wie ?viel|kosten|kostet|preis|teuer|bezahl\\w*|combien|prix|coûte?|cher|payer|cuánto|precio|cuesta|caro|pagar
quanto|prezzo|costa|preço|hoeveel|prijs|kost|сколько|цена|стоит|ile|cena|kosztuje|ne kadar|fiyat\\w*|كم|سعر|कितना|कीमत
""",
    "date": """
what (?:day|date|time)|(?:which|what) (?:day|evening|morning|afternoon|night|week|weekend|month|year)|dates?|deadline|how soon
wann|welche[nrms]? (?:tag|abend|woche|monat|jahr)|datum|um wie ?viel uhr|quand|quel jour|quelle date|cuándo|qué día|fecha
quando|che giorno|que dia|wanneer|welke dag|когда|дата|kiedy|którego|ne zaman|tarih\\w*|متى|تاريخ|कब|तारीख
""",
    "id": """
codes?|combination|secret|pin|pass(?:word|code)s?|numbers?|keys?|log ?in|serial|type|unlocks?|opens?|enter|connect|get in(?:to)?|lets? (?:me|us) in(?:to)?|reach|e-?mail|phone|address|url|iban
(?:kenn|pass)wort|nummer|zugang|mot de passe|numéro|contraseña|código|número|codice|numero|senha|wachtwoord|пароль|номер\\w*|код
hasło|numer\\w*|kod\\w*|şifre\\w*|numara\\w*|رقم|رمز|पासवर्ड|नंबर
""",
    "name": """
whom|whose|names?|called|which (?:doctor|person|colleague|friend|man|woman|one of)|wer|wen|wem|heißt|name|qui|appelle|quién|llama|chi|chiama|quem|chama|wiens
кто|кого|кому|зовут|kto|komu|kim|adı|من|اسم|कौन|नाम
""",
    "preference": """
likes?|prefer\\w*|favou?rites?|enjoys?|loves?|hates?|rather|choice|taste|allerg\\w*|mag|liebling\\w*|bevorzug\\w*|am liebsten|aime\\w*|préfère\\w*|gusta\\w*|prefier\\w*
piace|preferi\\w*|gost[ao]|prefir\\w*|hou|voorkeur|люб\\w*|нрав\\w*|предпоч\\w*|lubi\\w*|wolę|sev\\w+|أحب|أفضل|पसंद
""",
    "promise": """
must|should|shall|promise[ds]?|pledge\\w*|dut(?:y|ies)|remind\\w*|ha(?:ve|s) to|needs? to|prepare\\w*|am i to|are we to|want(?:ed)? to do|to do|tasks?|left|plan\\w*|still|owe|agreed?|done
muss|soll|versproch\\w*|erinner\\w*|dois|promis\\w*|rappel\\w*|debo|tengo que|promet\\w*|devo|promess\\w*|ricord\\w*|moet|beloof\\w*
долж\\w*|обещ\\w*|напомн\\w*|muszę|obieca\\w*|przypom\\w*|yapmalı\\w*|hatırlat\\w*|يجب|وعد\\w*|चाहिए|वादा
""",
}
_UNSPACED = {
    "amount": "多少|价格|價格|钱|錢|いくら|値段|料金|얼마|가격",
    "date": "什么时候|什麼時候|几号|几点|哪天|何时|いつ|何日|何時|언제|며칠",
    "id": "密码|密碼|号码|號碼|编号|单号|パスワード|番号|비밀번호|번호",
    "name": "谁|誰|哪位|叫什么|だれ|名前|名字|누구|이름",
    "preference": "喜欢|喜歡|偏好|最爱|好き|好み|좋아",
    "promise": "应该|答应|提醒|要做|约定|すべき|約束|しなければ|해야|약속",
}
_OPENERS = {"who": "name", "when": "date"}
"""Words that ask where a clause begins with them; elsewhere they join clauses."""
_BEGIN = r"(?:^|[,;:.!?]\s*|\b(?:and|or|so|by|to|from|of|for|since|until|know|remember|remind me|tell me)\s+)\W*"
_QUESTION_MARKS = "?？؟;"


def find_asked_kinds(question: str) -> frozenset[str]:
    """Return what a question may ask for: amount, date, id, name, preference, promise.

    Empty for a text that asks for nothing of the kind, or asks nothing.
    """
    folded = unicodedata.normalize("NFKC", question).casefold().replace("\u2019", "'")
    return frozenset(kind for kind, pattern in _list_patterns() if pattern.search(folded.strip()))


def is_question(text: str) -> bool:
    """Return whether a text asks something, as its marks say."""
    return any(mark in text for mark in _QUESTION_MARKS)


@cache
def _list_patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple(_compile_patterns())


def _compile_patterns() -> Iterator[tuple[str, re.Pattern[str]]]:
    for kind, words in _ASKING_WORDS.items():
        spaced = "|".join(words.strip().splitlines())
        yield kind, re.compile(rf"(?<!\w)(?:{spaced})(?!\w)|{_UNSPACED[kind]}")
    for word, kind in _OPENERS.items():
        yield kind, re.compile(rf"{_BEGIN}{word}(?!\w)")


# -- over a log -----------------------------------------------------------------------------------
def open_summaries(
    branches: Branches,
    roots: Sequence[Entry],
    question: str,
    read: ReadStretches,
    *,
    hits: Collection[int] = (),
    whole: Collection[int] = (),
    shown: str = "",
    max_tokens: int,
    count: TextCounter = count_text_tokens,
    embed: Embed | None = None,
) -> tuple[OpenedSummary, ...]:
    """Return what the summaries that these fold say to a question; see `Branches.select`.

    Args:
        branches: Those of the thread as far as they are known: the others are read.
        roots: The summaries that the view shows and that fold others.
        question: What is asked.
        read: Reads entries of the thread.
        hits: Positions of the lines that recall found.
        whole: Positions of those that are shown whole.
        shown: All that is shown anyway, folded by `fold_text`.
        max_tokens: How long the texts may be together.
        count: Counts the tokens of a text.
        embed: Embeds sentences and the question; None opens by words alone.
    """
    if not roots or max_tokens <= 0:
        return ()
    read_folded(branches, roots, read)
    branches.settle()
    return branches.select(
        question,
        hits=hits,
        whole=whole,
        shown=shown,
        max_tokens=max_tokens,
        count=count,
        embed=embed,
    )


def read_folded(branches: Branches, roots: Sequence[Entry], read: ReadStretches) -> None:
    """Read what the summaries that these fold are not known to say yet."""
    while missing := branches.find_missing(roots):
        entries = read([(position - 1, position) for _, position in missing])
        branches.add(missing, entries)


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


def prepare_branches(
    place: Hashable,
    key: ThreadKey,
    live: Sequence[Entry],
    read: Callable[..., list[Entry]],
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

    def read_stretches(stretches: Sequence[Stretch]) -> list[Entry]:
        return [one for after, until in stretches for one in read(after=after, until=until)]

    if roots := find_folding(live):
        branches = BRANCHES.get(place, key)
        read_folded(branches, roots, read_stretches)
        branches.prepare(embed)


"""One per process."""
