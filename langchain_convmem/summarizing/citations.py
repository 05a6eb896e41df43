"""Which entries a sentence of a summary comes from, by what both say. Pure.

A sentence is compared with the entries by its marks: numbers, clock times and dates however they
are written, codes, stems of words, and pairs of characters where no blanks part words. A mark
counts the more, the fewer entries bear it. No model is asked, so a sentence in quite other words
than its source has no citation: none is better than a wrong one.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from langchain_convmem.claims.numbers import replace_number_words
from langchain_convmem.priority import give_way
from langchain_convmem.records import CitedSentence, Entry, SentenceSource
from langchain_convmem.summarizing.checks import TITLE
from langchain_convmem.summarizing.topics import find_concepts
from langchain_convmem.views.codec import get_line_time_ms
from langchain_convmem.views.facts import split_sentences
from langchain_convmem.views.lines import format_day
from langchain_convmem.views.live import EntryPlaces, find_live_entries, find_nodes
from langchain_convmem.views.summaries import DAYS_LINE, SummaryWindow, get_cites
from langchain_convmem.views.tool_calls import find_calls
from langchain_convmem.words.analysis import extract_query_terms
from langchain_convmem.words.dates import MONTH_OF
from langchain_convmem.words.languages import (
    FUNCTION_CHARACTERS,
    detect_language,
)

_MOST_SOURCES = 4
"""So many entries per sentence at most; a sentence seldom sums up more."""
_LEAST_SHARE = 0.2
"""The best entry bears at least this share of what the marks of a sentence weigh."""
_LEAST_NEXT = 0.25
"""A further entry adds at least this share of what the best one bears."""
_LEAST_WEIGHT = 1.6
"""What the best entry bears at least, by weight and rarity."""
_ELSEWHERE = 0.6
"""What a mark counts that an entry bears in another sentence than most of the others."""
_UNBORNE = 0.8
"""How rare a mark counts that no entry bears: it may be another word for one that they do."""
_LONG_QUOTE = 12
"""From so many characters on, words that stand in an entry as they are come from there."""


def cite(pieces: Sequence[str], window: SummaryWindow) -> list[list[int]]:
    """Return the citations of a summary's sentences as plain JSON.

    Args:
        pieces: The summary as it is stored.
        window: What it was made of.

    Returns:
        One list per sentence, in the order of `list_sentences`: positions, ascending. Empty where
        the window continues another summary, whose sources it does not hold.
    """
    if window.previous is not None:
        return []
    entries = [entry for turn in window.turns for entry in turn.entries]
    return [list(found) for found in find_citations(list_sentences(pieces), entries)]


def list_sentences(pieces: Iterable[str]) -> list[str]:
    """Return the sentences of a summary, which its citations go by."""
    return [sentence for piece in pieces for sentence in split_sentences(piece)]


def find_citations(sentences: Sequence[str], entries: Sequence[Entry]) -> list[tuple[int, ...]]:
    """Return for each sentence the positions of the entries it comes from.

    Of entries that say the same, the first one counts. Takes time in proportion to the length of
    both: some 40 ms for 40 sentences and 200 entries.

    Args:
        sentences: Of a summary, in its order.
        entries: What it sums up, in any order and script.

    Returns:
        Positions, ascending; empty for a sentence that rests on nothing.
    """
    source = _SourceIndex(sorted(entries, key=lambda entry: entry.position))
    return [source.find_sources(sentence) for sentence in sentences]


def explain_summaries(entries: Sequence[Entry], summaries: Sequence[Entry]) -> list[CitedSentence]:
    """Return the sentences of summaries with what they come from.

    The line of days and the title of a list of details are no sentences.

    What was noted when a summary was written counts; for one without notes it is found now, among
    all that it and the summaries that it was made of cover.

    Args:
        entries: A thread's entries by ascending position, control entries included.
        summaries: Some of them, in any order.
    """
    spoken = [entry for entry in find_live_entries(entries) if entry.role != "summary"]
    places = EntryPlaces(spoken)
    found: list[CitedSentence] = []
    for summary in summaries:
        covers = [one.cover for one in find_nodes(entries, [summary])]
        numbers = {number for cover in covers for number in places.find_under(cover)}
        covered = {spoken[number].position: spoken[number] for number in sorted(numbers)}
        sentences = list_sentences(summary.contents)
        cites = read_cites(summary, len(sentences))
        if not cites or not any(cites):
            cites = find_citations(sentences, list(covered.values()))
        for sentence, positions in zip(sentences, cites, strict=True):
            if sentence == TITLE or DAYS_LINE.match(sentence):
                continue  # says nothing itself; its place among the citations stays
            sources = [_make_source(covered[at]) for at in positions if at in covered]
            found.append(CitedSentence(sentence, summary.id, tuple(sources)))
    return found


def read_cites(summary: Entry, count: int) -> list[tuple[int, ...]] | None:
    """Return the positions that a summary's sentences come from; None where they were not noted.

    Args:
        summary: Its entry.
        count: How many sentences it has.
    """
    cites = get_cites(summary)
    return [tuple(sorted(set(cited))) for cited in cites] if len(cites) == count else None


def _make_source(entry: Entry) -> SentenceSource:
    named = None if entry.message is None else get_line_time_ms(entry.message)
    day = format_day(entry.metadata.timing["creation"] if named is None else named)
    return SentenceSource(entry.id, entry.message_id, entry.position, entry.role, day)


# -- what is cited --------------------------------------------------------------------------------
class _SourceIndex:
    """Entries by their marks."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._folded: list[str] = []
        self._bearers: defaultdict[str, dict[int, list[int]]] = defaultdict(dict)
        for number, entry in enumerate(entries):
            said = [*entry.contents, *_list_arguments(entry)]
            self._folded.append(_fold(" ".join(said)))
            for place, sentence in enumerate(list_sentences(said)):
                for mark in read_marks(sentence):
                    self._bearers[mark].setdefault(number, []).append(place)

    def find_sources(self, sentence: str) -> tuple[int, ...]:
        """Return the positions of what a sentence comes from, ascending."""
        quoted = self._find_quoted(sentence)
        if quoted is not None:
            return (self._entries[quoted].position,)
        marks = read_marks(sentence)
        worth = {mark: weight * self._measure_rarity(mark) for mark, weight in marks.items()}
        least = max(_LEAST_SHARE * sum(worth.values()), _LEAST_WEIGHT)
        found: list[int] = []
        while len(found) < _MOST_SOURCES:
            best, gain = self._find_best(worth)
            if gain < least:
                break
            if not found:
                least = max(_LEAST_NEXT * gain, _LEAST_WEIGHT)
            found.append(best)
            worth = {
                mark: value
                for mark, value in worth.items()
                if best not in self._bearers.get(mark, ())
            }
        return tuple(sorted(self._entries[number].position for number in found))

    def _find_quoted(self, sentence: str) -> int | None:
        """Return the first entry that holds the sentence as it is, its speaker left out."""
        for said in (sentence, sentence.partition(": ")[2]):
            folded = _fold(said).strip(" -*\u2022.")
            if len(folded) >= _LONG_QUOTE:
                for number, text in enumerate(self._folded):
                    if folded in text:
                        return number
        return None

    def _measure_rarity(self, mark: str) -> float:
        """Return what a mark counts by how few entries bear it: 1.0 where it is a single one."""
        count, present = len(self._bearers.get(mark, ())), len(self._entries)
        if not count:
            return _UNBORNE
        rarity = math.log1p((present - count + 0.5) / (count + 0.5))
        return rarity / math.log1p((present - 0.5) / 1.5)

    def _find_best(self, worth: Mapping[str, float]) -> tuple[int, float]:
        """Return the entry that bears most of the marks, and what these are worth; ties: first.

        What one sentence of it bears counts more than what is scattered over it.
        """
        whole: defaultdict[int, float] = defaultdict(float)
        parts: defaultdict[int, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        for mark, value in worth.items():
            for number, places in self._bearers.get(mark, {}).items():
                whole[number] += value
                for place in places:
                    parts[number][place] += value
        gains = {
            number: _ELSEWHERE * total + (1 - _ELSEWHERE) * max(parts[number].values())
            for number, total in whole.items()
        }
        best = max(gains, key=lambda number: (gains[number], -number), default=-1)
        return best, gains.get(best, 0.0)


def _list_arguments(entry: Entry) -> Iterator[str]:
    for call in find_calls(entry.message):
        yield json.dumps(call["args"], ensure_ascii=False, default=str)


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


# -- marks ----------------------------------------------------------------------------------------
_CLOCK = re.compile(
    r"(?<![\d.,])(\d{1,2})(?:[:h.](\d\d))?\s?([ap])\.?m\b\.?|(?<![\d.,:])(\d{1,2})[:h](\d\d)(?![\d:])"
)
_MYRIAD = re.compile(r"(?<![\d.])(\d{1,9}(?:\.\d{1,4})?)[万萬](?:(\d)千)?")
_CODE = re.compile(r"(?<![\w-])(?=[\w-]*\d)(?=[\w-]*[a-z])[a-z\d]+(?:[_-]?[a-z\d]+)*")
_NUMBER = re.compile(r"\d+(?:[.,'\u00a0\u202f ]\d{3}(?!\d))+(?:[.,]\d{1,2}(?!\d))?|\d+(?:[.,]\d+)?")
_LONG_NUMBER = re.compile(r"\+?\d[\d\s()/.-]{6,}\d")
_THOUSANDS = re.compile(
    r"(?<!\d)(\d{1,9})\s?(?:k|тыс\w*|bin|mil|mila|mille|tausend|thousand|千)(?!\w)"
)
_DATE = re.compile(
    r"(?<!\d)(?:\d{4}-(\d\d?)-(\d\d?)|(\d\d?)[./](\d\d?)(?:[./](?:\d{4}|\d\d)?)?)(?![\d%])"
)
_MONTH_WORD = re.compile(r"[^\W\d_]+")
_HAS_DIGIT = re.compile(r"\d")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_BEGINNING = 4
"""So many letters of a stem are a mark of their own: endings differ more than what is before."""
_HALF_DAY = 12
_TAIL = 7
"""How many last digits of a telephone number or an account tell it."""
_SCRIPTS = (
    ("japanese", "\u3040", "\u30ff"),
    ("chinese", "\u4e00", "\u9fff"),
    ("russian", "\u0400", "\u04ff"),
    ("arabic", "\u0600", "\u06ff"),
)


def read_marks(text: str) -> dict[str, float]:
    """Return what a sentence may be known again by, and what each counts.

    Args:
        text: A sentence.
    """
    give_way()
    plain = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    if not plain.isascii():
        plain = "".join(str(unicodedata.digit(one, one)) for one in plain)
    marks: dict[str, float] = {}
    for mark, weight in (*_read_values(plain), *_read_words(text)):
        marks[mark] = max(weight, marks.get(mark, 0.0))
    return marks


def _read_values(plain: str) -> Iterator[tuple[str, float]]:
    text = replace_number_words(plain, _name_language(plain))
    if not _HAS_DIGIT.search(text):
        return
    text = _MYRIAD.sub(_write_myriad, text)
    text = _THOUSANDS.sub(lambda match: f"{match[1]}000", text)
    for match in _LONG_NUMBER.finditer(text):
        digits = re.sub(r"\D", "", match[0])
        if len(digits) >= _TAIL:
            yield f"tel {digits[-_TAIL:]}", 3.0
    for match in _CLOCK.finditer(text):
        hour, minute = int(match[1] or match[4]), int(match[2] or match[5] or 0)
        yield f"time {hour % _HALF_DAY}:{minute}", 1.6
        yield _write_number(str(hour % _HALF_DAY))
    for match in _DATE.finditer(text):
        one, two = (match[2], match[1]) if match[1] else (match[3], match[4])
        yield f"month {int(two)}", 0.6
        yield _write_number(one)
    for match in _CODE.finditer(text):
        yield f"code {match[0].replace('-', '')}", 2.0
    for match in _NUMBER.finditer(text):
        yield _write_number(match[0])


def _name_language(plain: str) -> str:
    for language, first, last in _SCRIPTS:
        if not plain.isascii() and any(first <= one <= last for one in plain):
            return language
    return detect_language(plain.split())


def _write_myriad(match: re.Match[str]) -> str:
    return str(round(float(match[1]) * 10_000 + int(match[2] or 0) * 1000))


def _write_number(said: str) -> tuple[str, float]:
    whole, _, part = (
        re.sub(r"(?<=\d)[.,'\u00a0\u202f ](?=\d{3}(?!\d))", "", said)
        .replace(",", ".")
        .partition(".")
    )
    number = whole.lstrip("0") or "0"
    part = part.rstrip("0")
    digits = len(number) + len(part)
    return f"number {number}.{part}", {1: 0.6, 2: 1.2}.get(digits, 2.0)


def _read_words(text: str) -> Iterator[tuple[str, float]]:
    plain = text.casefold()
    words = _MONTH_WORD.findall(plain)
    for word in words:
        if word in MONTH_OF:
            yield f"month {MONTH_OF[word]}", 0.6
    for concept in find_concepts(plain, words):
        yield f"concept {concept}", 0.5
    for term in extract_query_terms(text):
        if _UNSPACED.match(term):
            if not set(term) <= FUNCTION_CHARACTERS:
                yield term, 0.5
        elif len(term) > 1 and not _HAS_DIGIT.search(term):
            yield term, 0.6
            yield f"{term[:_BEGINNING]}-", 0.4
