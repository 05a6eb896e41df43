"""Words of a text, as the terms that a lexical index searches. Pure.

The analysis is part of what a log stores with its lines: raise `ANALYSIS_VERSION` whenever
`analyze` answers differently, or old rows would be searched with new words.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from langchain_convmem.records import DialogLine
from langchain_convmem.words.languages import (
    ENGLISH,
    LATIN,
    detect_language,
    get_function_words,
    is_function_word,
    stem,
)
from langchain_convmem.words.speech import find_mark

if TYPE_CHECKING:
    from langchain_convmem.words.bm25 import LexicalIndex

ANALYSIS_VERSION = 6
# A word that was never said is compared with all terms of an index: only if it has so many letters,
# and the question no more than so many terms.
_LEAST_PART, _MOST_TERMS = 4, 24
# A longer reply does not merely say that it knows nothing.
_LONGEST_REFUSAL = 600
# Han, kana, Hangul, and Thai/Lao/Khmer/Myanmar, all written without blanks between words (Hangul
# with, but its particles stick to the words): characters themselves are the terms there.
_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
# Vowel signs and points are no word characters to a regular expression, yet stand inside words.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u0652\u0900-\u0963\u0966-\u0dff"
_LETTER = rf"(?:[^\W_{_UNSPACED}]|[{_MARKS}])"
_RUN = re.compile(rf"[{_UNSPACED}]+|{_LETTER}+(?:'{_LETTER}+)*")
# The same where there are no other letters, in a fraction of the time.
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+(?:'[A-Za-z0-9]+)*")
_IS_UNSPACED = re.compile(rf"[{_UNSPACED}]")
# What tells an index that it holds stems of a language; no word has such a sign.
_LANGUAGE_OF = {f"={language}": language for language in LATIN if language != ENGLISH}
_Words: TypeAlias = tuple[tuple[str, str], ...]


def _split_runs(text: str) -> list[str]:
    if text.isascii():
        return _ASCII_RUN.findall(text)
    # Composed letters, plain-width forms, one apostrophe: the same word, the same term.
    return _RUN.findall(unicodedata.normalize("NFKC", text).replace("\u2019", "'"))


def _split_pairs(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]


def analyze(text: str) -> list[str]:
    """Return the search terms of `text`, in order, repeats included.

    Words are casefolded and reduced to their stem in the language of the text; scripts without
    blanks between words give the overlapping pairs of their characters (a lone character stands
    for itself). A text in another language than English ends in a term that no question holds,
    which tells that there are stems of this language in an index.
    """
    runs = [run.casefold() for run in _split_runs(text)]
    language = detect_language(runs)
    terms: list[str] = []
    for run in runs:
        if _IS_UNSPACED.match(run):
            terms += _split_pairs(run)
        else:
            terms.append(stem(run.removesuffix("'s"), language))
    if language != ENGLISH:
        terms.append(f"={language}")
    return terms


def extract_line_terms(line: DialogLine, text: str) -> list[str]:
    """Return the search terms of a segment of a line: its speaker and words, and its marks.

    No question holds the term of a mark. Of a long reply nobody asks what kind of utterance it is.
    """
    has_mark = line.role == "user" or len(line.text) <= _LONGEST_REFUSAL
    mark = find_mark(text) if has_mark else None
    return [*analyze(f"{line.speaker}: {text}"), *([f"={mark}"] if mark else ())]


def extract_query_terms(text: str, index: LexicalIndex | None = None) -> dict[str, str]:
    """Return the distinct terms of a question in order, each with the word that stands for it.

    Function words are left out, unless there is nothing else. A word stands for several terms
    where its stem depends on the language of the line, and a lone character of a script without
    blanks for all pairs of an index that hold it. In a short question, a word that was never said
    stands for those that hold it, and for its first two thirds or more: "kube" for "Kubernetes",
    "ReactJS" for "React".

    Args:
        text: The question.
        index: What is searched: its languages count. None: that of the question and English.
    """
    held = () if index is None else index.select_held(_LANGUAGE_OF)
    _, words, telling = _extract_query_words(text, tuple(_LANGUAGE_OF[mark] for mark in held))
    terms = dict(telling or words)
    if index is not None:
        said = {terms[term] for term in index.select_held(terms)}
        is_short = len(terms) <= _MOST_TERMS
        for term, word in tuple(terms.items()):
            is_character = len(term) == 1 and _IS_UNSPACED.match(term)
            if is_character or (is_short and word not in said and len(term) >= _LEAST_PART):
                begun = index.select_held(term[:-cut] for cut in range(1, len(term) // 3 + 1))
                terms |= dict.fromkeys((*index.find_terms_with(term), *begun), word)
    return terms


def select_telling_words(text: str) -> frozenset[str]:
    """Return the content words of a question; empty if it has only function words."""
    return frozenset([word for _, word in _extract_query_words(text, ())[2]])


@lru_cache(maxsize=16)
def _extract_query_words(text: str, held: tuple[str, ...]) -> tuple[str, _Words, _Words]:
    """Return a question's language, its terms, and those of words that tell what it is about."""
    # Kept for a moment, since one recall asks for them several times.
    runs = _split_runs(text)
    own = detect_language([run.casefold() for run in runs])
    languages = tuple(dict.fromkeys((own, ENGLISH, *held)))
    words: dict[str, str] = {}
    telling: dict[str, str] = {}
    for run in runs:
        terms, tells = _analyze_run(run, languages)
        for term, shown in terms:
            words.setdefault(term, shown)
            if tells:
                telling[term] = words[term]
    return own, tuple(words.items()), tuple(telling.items())


@lru_cache(maxsize=10_000)
def _analyze_run(run: str, languages: tuple[str, ...]) -> tuple[_Words, bool]:
    """Return the terms of a run of a question, and whether it tells what the question is about.

    Args:
        run: One run of letters or unspaced characters.
        languages: In which lines may hold it; the question's own first.
    """
    word = run.casefold().removesuffix("'s")
    if _IS_UNSPACED.match(run):
        found = {pair: pair for pair in _split_pairs(word)}
    else:
        found = {stem(word, language): run for language in languages}
    return tuple(found.items()), not is_function_word(word, languages[0])


# -- kinds of things ---------------------------------------------------------------------------


@lru_cache(maxsize=16)
def find_kinds(text: str) -> Mapping[str, frozenset[str]]:
    """Return the terms of an English question that name a kind of thing.

    Each comes with the terms of what is of that kind, its own among them: "pet" with "cat". Of
    words that name the same kind, such as "job" and "profession", the first stands for all.
    """
    language, _, telling = _extract_query_words(text, ())
    asked = reversed(telling) if language == ENGLISH else ()
    first_names = {_find_kind(term): term for term, _ in asked}
    return {name: kind for kind, name in first_names.items() if kind}


@lru_cache(maxsize=10_000)
def _find_kind(term: str) -> frozenset[str]:
    """Return the terms of the kind of thing that a term names; none if it names no kind."""
    near = _load_kinds().get(term[:2], ())
    named = [kind for kind in near if any(stem(name, ENGLISH) == term for name in kind["names"])]
    words = chain.from_iterable((*kind["names"], *kind["members"]) for kind in named)
    return frozenset(stem(word, ENGLISH) for word in words)


@cache
def _load_kinds() -> Mapping[str, list[Mapping[str, list[str]]]]:
    """Return kinds of things by the first two letters of their names, which stems keep.

    `kinds.json` lists what a kind is called and what is of it: everyday English, of people, pets,
    homes, work, health, food, travel and pastimes.
    """
    kinds: defaultdict[str, list[Mapping[str, list[str]]]] = defaultdict(list)
    for kind in json.loads(files(__package__).joinpath("kinds.json").read_text("utf-8"))[ENGLISH]:
        # The stems of all names would take a fifth of the first recall of a process.
        for start in {name[:2] for name in kind["names"]}:
            kinds[start].append(kind)
    return kinds


def is_unspaced(text: str) -> bool:
    """Return whether a text has letters of a script in which words may touch each other."""
    return _IS_UNSPACED.search(text) is not None


def is_stop_word(word: str) -> bool:
    """Return whether English questions leave the word out."""
    return word.casefold() in get_function_words(ENGLISH)
