"""A restatement beside its source: what is missing, changed, invented, or left unjudged. Pure.

Rules decide, and no model is asked. What they cannot decide is listed as unjudged.
"""

# ruff: noqa: RUF001 - signs of the languages themselves

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Literal, TypeAlias

from langchain_convmem.claims.lexicon import (
    OTHER,
    UNSPACED,
    Lexicon,
    get_lexicon,
    guess_language,
    stem_word,
)
from langchain_convmem.claims.numbers import replace_number_words
from langchain_convmem.claims.reading import (
    Cast,
    Claim,
    Clause,
    Item,
    find_cast,
    is_same_stem,
    read_claim,
)
from langchain_convmem.claims.unlisted import is_denied_otherwise
from langchain_convmem.claims.values import Value, is_month
from langchain_convmem.views.facts import split_sentences

FindingKind: TypeAlias = Literal[
    "id", "amount", "time", "date", "day", "name", "person", "role", "polarity", "opposite",
    "swap", "word", "statement", "language",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceSentence:
    """What was said, by whom.

    Attributes:
        text: One sentence or several.
        speaker: "user", "assistant" or a name; empty for what nobody in particular says.
    """

    text: str = field(repr=False)
    speaker: str = ""


@dataclass(frozen=True, slots=True)
class ClaimFinding:
    """A claim that does not agree, or that cannot be judged.

    Attributes:
        kind: What it is about.
        source: Index of the source sentence that it comes from; None if there is none.
        sentence: Index of the sentence of the restatement; None for what is missing.
        said: What the source says; not part of the repr.
        told: What the restatement says instead; not part of the repr.
    """

    kind: FindingKind
    source: int | None = None
    sentence: int | None = None
    said: str = field(default="", repr=False)
    told: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ClaimReport:
    """How a restatement agrees with its source.

    Attributes:
        missing: What the source says and the restatement does not.
        changed: What it says otherwise.
        invented: What it adds.
        unjudged: What the rules cannot decide.
    """

    missing: tuple[ClaimFinding, ...] = ()
    changed: tuple[ClaimFinding, ...] = ()
    invented: tuple[ClaimFinding, ...] = ()
    unjudged: tuple[ClaimFinding, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing is missing, changed or invented."""
        return not (self.missing or self.changed or self.invented)


def compare_claims(source_sentences: Sequence[SourceSentence], text: str) -> ClaimReport:
    """Return what a restatement leaves out, changes and adds.

    Args:
        source_sentences: What it covers, in order.
        text: The restatement, of any length; in any order, words and person.
    """
    return _ClaimComparison(source_sentences, text).make_report()


SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant", "ai": "assistant"}
_SURE_PERSONS = frozenset({"user", "assistant", "kin", "third"})
_DECISIONS = frozenset({"accept", "confirm", "buy", "hire", "win", "single"})
_CONVERSES = frozenset({"buy", "win"})
"""Opposites that say the same of the other person."""
_SIGNS = frozenset({"passive", "by", "to", "from", "only", "not", "third", "user", "assistant"})
_UNDECLINED = frozenset({"english", "french", "spanish", "italian", "portuguese", "dutch"})
"""Names have no cases here."""
_FORMS = frozenset({"s", "es", "n", "an", "en", "a", "o", "e", "i", "ish", "ian"})
_SMALL = 12
_ALIKE = 3
"""So many first letters of a word are enough to say that a denial is about it."""
_DENYING = frozenset({"accept", "confirm", "like", "can", "safe", "true", "allergic"})
"""Opposites of which one side says the same as a negation of the other."""
_MOST_SUPPORT = 4
_MOST_CANDIDATES = 12
_BEGINNING = 5
"""So many first letters does a word keep whose stem changes."""
_FEW_WORDS = 3
"""So few words without a value may say in short what took many: "Small talk."."""
_FEW_LOST = 0
"""More lost words than these may be what unknown words restate."""
_MANY_NEW = 3
"""So many new words where none of the source is lost are no other words for it."""


@dataclass(frozen=True)
class _Source:
    """A sentence of the source, and to which of the given texts it belongs."""

    index: int
    claim: Claim


class _ClaimComparison:
    """One restatement beside its source; used once."""

    def __init__(self, source: Sequence[SourceSentence], text: str) -> None:
        everything = " ".join([*(said.text for said in source), text])
        language = guess_language(everything)
        runs = frozenset(_LONG_RUN.findall(everything))
        self._sources = [
            _Source(index, read_claim(sentence, guess_language(sentence, language), speaker))
            for index, said in enumerate(source)
            for speaker in [SPEAKERS.get(said.speaker.lower(), said.speaker)]
            for sentence in split_restatement(_join_groups(said.text, runs))
        ]
        self._told = [
            read_claim(sentence, guess_language(sentence, language))
            for sentence in split_restatement(_join_groups(text, runs))
        ]
        self._missing: list[ClaimFinding] = []
        self._changed: list[ClaimFinding] = []
        self._invented: list[ClaimFinding] = []
        self._unjudged: list[ClaimFinding] = []
        self._explained: set[int] = set()

    def make_report(self) -> ClaimReport:
        for number, claim in enumerate(self._told):
            self._judge(number, claim)
        self._find_missing()
        parts = (self._missing, self._changed, self._invented, self._unjudged)
        return ClaimReport(*(tuple(dict.fromkeys(part)) for part in parts))

    # -- support ---------------------------------------------------------------------------------
    @cached_property
    def _by_beginning(self) -> dict[str, list[int]]:
        """Where the content of the source stands, by the first letters of its stems."""
        places: defaultdict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self._sources):
            for key in {key[:4] for key in source.claim.whole.content}:
                places[key].append(number)
        return dict(places)

    @cached_property
    def _by_value(self) -> dict[str, list[int]]:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for number, source in enumerate(self._sources):
            for key in {key for value in source.claim.whole.values for key in value.keys}:
                places[key].append(number)
        return dict(places)

    @cached_property
    def _all_content(self) -> frozenset[str]:
        speakers = (source.claim.speaker.lower() for source in self._sources)
        return frozenset(
            key for source in self._sources for key in source.claim.whole.content
        ).union(speakers)

    @cached_property
    def _told_content(self) -> frozenset[str]:
        return frozenset(key for claim in self._told for key in claim.whole.content)

    def _find_support(self, claim: Claim) -> list[_Source]:
        """Return the sentences of the source that a restated one rests on, the closest first."""
        whole = claim.whole
        hits = Counter(n for key in whole.content for n in self._by_beginning.get(key[:4], ()))
        hits.update(
            n for value in whole.values for key in value.keys for n in self._by_value.get(key, ())
        )
        closest = [number for number, _ in hits.most_common(_MOST_CANDIDATES)]
        candidates = [self._sources[number] for number in sorted(closest)]
        support: list[_Source] = []
        content, values = set(whole.content), list(whole.values)
        while candidates and len(support) < _MOST_SUPPORT:
            best = max(candidates, key=lambda one: _score(content, values, one.claim.whole))
            if not _score(content, values, best.claim.whole):
                break
            candidates.remove(best)
            support.append(best)
            known = best.claim.whole
            content = {key for key in content if not _holds(known.content, key)}
            values = [v for v in values if not any(v.matches(other) for other in known.values)]
        if not support and len(self._sources) == 1:
            return [self._sources[0]]
        return support

    # -- one sentence ----------------------------------------------------------------------------
    def _judge(self, number: int, claim: Claim) -> None:
        support = self._find_support(claim)
        if not support:
            self._judge_unsupported(number, claim)
            return
        self._judge_values(number, claim, support)
        if claim.language == support[0].claim.language == OTHER:
            self._judge_persons(number, claim, support)
        if claim.language == OTHER or claim.language != support[0].claim.language:
            self._judge_unlisted(number, claim, support)
            return
        found = [
            *(() if _PENDING.search(claim.text) else _find_reversals(claim, support)),
            *_find_roles_changed(claim, support),
            *_find_sides_exchanged(claim, support),
            *_find_agents_exchanged(claim, support),
            *_find_swaps(claim, support),
            *_find_order_changed(claim, support, are_named=True),
            *_find_names_exchanged(claim, support),
            *_find_values_exchanged(claim, support),
            *_find_routes_reversed(claim, support),
            *_find_particles_exchanged(claim, support),
        ]
        self._changed += [
            ClaimFinding(kind, source.index, number, source.claim.text, claim.text)
            for kind, source in found
        ]
        self._unjudged += [
            ClaimFinding(kind, source.index, number, source.claim.text, claim.text)
            for kind, source in _find_order_changed(claim, support, are_named=False)
        ]
        self._judge_persons(number, claim, support)
        self._judge_names(number, claim, support)
        self._judge_words(number, claim, support)

    def _judge_unlisted(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        source = support[0]
        is_alone = len(support) == 1 and claim.language == source.claim.language == OTHER
        if is_alone and is_denied_otherwise(claim.text, source.claim.text):
            self._changed.append(
                ClaimFinding("polarity", source.index, number, source.claim.text, claim.text)
            )
        else:
            self._unjudged.append(ClaimFinding("language", source.index, number))

    def _judge_unsupported(self, number: int, claim: Claim) -> None:
        languages = {source.claim.language for source in self._sources}
        is_known = claim.language in languages and claim.language != OTHER
        if is_known and len(claim.whole.content) > _FEW_WORDS:
            self._invented.append(ClaimFinding("statement", None, number, told=claim.text))
        elif claim.whole.values:
            self._judge_values(number, claim, [])
        elif claim.whole.content:
            self._unjudged.append(ClaimFinding("statement", None, number, told=claim.text))

    # -- values ----------------------------------------------------------------------------------
    @cached_property
    def _values_by_key(self) -> dict[str, list[Value]]:
        return _group_values(value for _, value in self._source_values)

    @cached_property
    def _told_by_key(self) -> dict[str, list[Value]]:
        return _group_values(self._told_values)

    @cached_property
    def _source_values(self) -> list[tuple[int, Value]]:
        return [
            (source.index, value) for source in self._sources for value in source.claim.whole.values
        ]

    @cached_property
    def _told_values(self) -> list[Value]:
        return [value for claim in self._told for value in claim.whole.values]

    def _judge_values(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        near = [(one.index, value) for one in support for value in one.claim.whole.values]
        for value in claim.whole.values:
            if _is_among(value, self._values_by_key) or _is_one(value):
                continue
            rivals = [
                (index, other)
                for index, other in near
                if other.kind == value.kind and not self._is_told(other)
            ]
            if rivals:
                is_same = claim.language == support[0].claim.language
                if (self._is_thin(value, claim) and not is_same) or self._is_half_read(
                    value, rivals
                ):
                    self._unjudged.append(
                        ClaimFinding(value.kind, rivals[0][0], number, told=value.text)
                    )
                    continue
                index, other = rivals[0]
                self._explained.add(id(other))
                self._changed.append(
                    ClaimFinding(value.kind, index, number, other.text, value.text)
                )
            elif self._is_thin(value, claim) or _is_small(value) or _is_one_more(value):
                self._unjudged.append(ClaimFinding(value.kind, None, number, told=value.text))
            elif value.kind in ("day", "date") and any(
                other.kind in ("day", "date") for _, other in near
            ):
                self._unjudged.append(ClaimFinding(value.kind, near[0][0], number, told=value.text))
            else:
                # A number may be told in words that no rule reads, which are lost then.
                is_open = (
                    value.kind in ("amount", "time", "day")
                    and bool(support and self._list_lost(support))
                    and not self._is_set_apart(value, claim)
                )
                (self._unjudged if is_open else self._invented).append(
                    ClaimFinding(value.kind, None, number, told=value.text)
                )

    def _is_set_apart(self, value: Value, claim: Claim) -> bool:
        """Return whether a clause of its own, about nothing of the source, names a large value."""
        clause = next(part for part in claim.clauses if value in part.values)
        is_large = value.kind == "amount" and max(value.bare, default=0) > _SMALL
        known = [key for key in clause.content if _holds(self._all_content, key)]
        words = [item for item in clause.items if item.kind in ("word", "debtor", "concept")]
        return is_large and bool(words) and not known

    def _list_lost(self, support: Sequence[_Source]) -> list[str]:
        """Return the words of sentences of the source that no sentence of the restatement has."""
        return [
            key
            for one in support
            for key in one.claim.whole.content
            if not _holds(self._told_content, key)
        ]

    def _is_thin(self, value: Value, claim: Claim) -> bool:
        """Return whether a value may be said in the words of another language."""
        languages = {source.claim.language for source in self._sources}
        is_same = claim.language in languages and claim.language != OTHER
        return not is_same and (value.kind in ("day", "date", "time") or _is_small(value))

    def _is_half_read(self, value: Value, rivals: Sequence[tuple[int, Value]]) -> bool:
        """Return whether the source tells a time with a "half" or "quarter" that no rule reads."""
        if value.kind != "time":
            return False
        texts = [one.claim.text for one in self._sources if one.index == rivals[0][0]]
        return any(_is_half_read(other.text, texts) for _, other in rivals)

    def _has_month(self, value: Value) -> bool:
        """Return whether "the May rent" tells of "in May"."""
        if any(isinstance(reading, tuple) and reading[2] for reading in value.readings):
            return False
        words = re.findall(r"[^\W\d_]{3,}", value.text.lower())[-1:]
        return any(re.search(rf"\b{words[0]}\b", one.text.lower()) for one in self._told if words)

    def _is_told(self, value: Value) -> bool:
        return _is_among(value, self._told_by_key)

    def _find_missing(self) -> None:
        for index, value in self._source_values:
            if _is_one(value) or id(value) in self._explained or self._is_told(value):
                continue
            if value.kind == "date" and self._has_month(value):
                continue
            # When something is can be told in many ways, and words of its own may tell a number.
            is_open = value.kind in _WHEN or (value.kind == "amount" and self._has_new_words)
            (self._unjudged if is_open else self._missing).append(
                ClaimFinding(value.kind, index, said=value.text)
            )
        changed = {finding.source for finding in self._changed if finding.kind == "name"}
        told_languages = {claim.language for claim in self._told}
        for source in self._sources:
            if source.claim.language not in told_languages or source.index in changed:
                continue
            (self._unjudged if self._has_new_words else self._missing).extend(
                ClaimFinding("name", source.index, said=name)
                for name in _list_names(source.claim)
                if not _holds_name(self._told_content, name)
            )

    @cached_property
    def _has_new_words(self) -> bool:
        """Whether the restatement has words that no sentence of the source has."""
        return any(not _holds(self._all_content, key) for key in self._told_content)

    # -- persons, names, words -------------------------------------------------------------------
    def _judge_persons(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        told = _list_kin(claim)
        said = {key for source in support for key in _list_kin(source.claim)}
        everywhere = {key for source in self._sources for key in _list_kin(source.claim)}
        new = told - said
        if not new:
            return
        if said - told:
            self._changed.append(
                ClaimFinding("person", support[0].index, number, support[0].claim.text, claim.text)
            )
        elif not new <= everywhere:
            self._unjudged.append(ClaimFinding("person", support[0].index, number, told=claim.text))

    def _judge_names(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        new = [name for name in _list_names(claim) if not _holds_name(self._all_content, name)]
        if not new:
            self._judge_spelling(number, claim, support)
            return
        lost = [
            name
            for source in support
            for name in _list_names(source.claim)
            if not _holds_name(self._told_content, name)
        ]
        if lost:
            self._changed.append(ClaimFinding("name", support[0].index, number, lost[0], new[0]))
        else:
            self._invented.append(ClaimFinding("name", None, number, told=new[0]))

    def _judge_spelling(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        """Find names with the beginning of another one: "Ferrari" for "Ferri"."""
        if claim.language not in _UNDECLINED:
            return
        text = " ".join(source.claim.text.lower() for source in self._sources)
        everything = " ".join(one.text.lower() for one in self._told)
        for item in (item for item in claim.items if item.kind == "name"):
            if item.text[:_ALIKE].lower() != item.key[:_ALIKE] or item.text.lower() in text:
                continue
            rivals = [
                one.text
                for source in support
                for one in source.claim.items
                if one.kind == "name"
                and is_same_stem(one.key, item.key)
                and not _is_form(item.text.lower(), one.text.lower())
                and one.text.lower() not in everything
            ]
            self._changed += [
                ClaimFinding("name", support[0].index, number, rival, item.text)
                for rival in rivals[:1]
            ]

    def _judge_words(self, number: int, claim: Claim, support: Sequence[_Source]) -> None:
        source = support[0]
        new = [key for key in claim.whole.content if not _holds(self._all_content, key)]
        concepts = {key for one in self._told for key in one.whole.concepts}
        lost = self._list_lost(support)
        known = {key for one in self._sources for key in one.claim.whole.concepts}
        is_denied = any(part.denials for one in support for part in one.claim.clauses)
        new += [
            key
            for key, side in claim.whole.concepts.items()
            if key not in known and not (is_denied and side and key in _DENYING)
        ]
        lost += [key for one in support for key in one.claim.whole.concepts.keys() - concepts]
        told = ClaimFinding("statement", source.index, number, told=claim.text)
        parts = [
            clause
            for number, clause in enumerate(claim.clauses)
            if (number or len(claim.clauses) == 1)  # an opening may say what it is about
            and not any(map(_is_bare_value, claim.clauses[number + 1 : number + 2]))
        ]
        if any(_is_foreign(part, support, self._all_content, few=bool(lost)) for part in parts):
            # What is lost may be said in other words here.
            (self._unjudged if len(lost) > _FEW_LOST else self._invented).append(told)
        elif len(new) >= _MANY_NEW <= sum(len(one.claim.whole.content) for one in support) and (
            not lost
        ):
            named = claim.clauses[1:] if ":" in claim.text else claim.clauses
            is_added = any(_is_mostly_new(part, new) for part in named)
            (self._invented if is_added else self._unjudged).append(told)
        if any(finding.sentence == number for finding in self._changed):
            return
        word = ClaimFinding("word", source.index, number, source.claim.text, claim.text)
        if _is_contrasted(claim, source.claim) or _is_name_replaced(
            claim, source.claim, self._all_content, self._told_content
        ):
            self._changed.append(word)
        elif _is_word_replaced(claim, source.claim):
            is_place = _is_place_replaced(claim, source.claim)
            (self._changed if is_place else self._unjudged).append(word)


_OPEN_END = re.compile(
    r"(?:(?<!\d)\d{1,2}|\b(?:dr|mr|mrs|ms|prof|st|approx|ca|no|nr|tel|sr|sra|ing|av|p\.ej|z\.b|bzw|usw|dott"
    r"|ul|ok|г|ул|т\.д|т\.е|e\.g|i\.e|vs|mt|fr|hr"
    r"|mo|di|mon|tues?|wed|thurs?|fri|lun|mar|mer|jeu|ven|mié|jue|vie|s[áa]b|gio|seg|ter|qua|qui|sex|wo|vr"
    r"|pon|pn|wt|śr|czw|pt|sob|niedz|nd|godz|пн|вт|ср|чт|пт|сб|вс|тыс|руб|tys|str|kl))\.$",
    re.IGNORECASE,
)


def split_restatement(text: str) -> list[str]:
    """Return the sentences of a restatement, as findings number them; "3. Mai" stays whole."""
    whole: list[str] = []
    for sentence in split_sentences(text):
        if whole and _OPEN_END.search(whole[-1]):
            whole[-1] = f"{whole[-1]} {sentence}"
        else:
            whole.append(sentence)
    return whole


_LONG_RUN = re.compile(r"(?<![\d.,])\d{7,}(?![\d.,]\d)")
_GROUPS = re.compile(r"(?<![\w.,])\(?\d[\d \u00a0().\-/]{5,}\d(?!\w)")


def _join_groups(text: str, runs: Collection[str]) -> str:
    """Return a text in which groups of digits that stand somewhere in one run are one, too."""
    if not runs:
        return text

    def join(match: re.Match[str]) -> str:
        digits = re.sub(r"\D", "", match[0])
        return digits if digits in runs else match[0]

    return _GROUPS.sub(join, text)


# -- alike ----------------------------------------------------------------------------------------
def _score(content: Iterable[str], values: Iterable[Value], other: Clause) -> float:
    words = sum(_holds(other.content, key) for key in content)
    return words + sum(any(value.matches(one) for one in other.values) for value in values)


def _is_form(one: str, two: str) -> bool:
    """Return whether two words with a capital are forms of one: "Spain's", "Italians"."""
    start = _count_alike(one, two)
    ends = {one[start:].strip("'"), two[start:].strip("'")}
    return ends <= _FORMS | {""}


def _holds(keys: Collection[str], key: str) -> bool:
    if key in keys:
        return True
    start = key[:4]
    return any(other[:4] == start and is_same_stem(key, other) for other in keys)


def _holds_name(keys: Collection[str], name: str) -> bool:
    """Return whether a name is among words, in full or as consonants: "Ln" for "Lane"."""
    return _holds(keys, name) or any(
        _is_shortened(*sorted((name, key), key=len)) for key in keys if key[:1] == name[:1]
    )


def _is_shortened(short: str, whole: str) -> bool:
    if len(short) > _ALIKE or not _CONSONANTS.fullmatch(short):
        return False
    letters = iter(whole)
    return all(letter in letters for letter in short)


_CONSONANTS = re.compile("[bcdfghjklmnpqrstvwxz]{2,}")


def _score_clauses(one: Clause, two: Clause) -> float:
    shared = one.concepts.keys() & two.concepts.keys()
    return _score(one.content, one.values, two) + len(shared)


def _group_values(values: Iterable[Value]) -> dict[str, list[Value]]:
    places: defaultdict[str, list[Value]] = defaultdict(list)
    for value in values:
        for key in value.keys:
            places[key].append(value)
    return dict(places)


def _is_among(value: Value, places: Mapping[str, Sequence[Value]]) -> bool:
    return any(value.matches(other) for key in value.keys for other in places.get(key, ()))


def _is_small(value: Value) -> bool:
    """Return whether a value is a number that texts name in many ways: "the third", "both"."""
    numbers = [one for one in value.readings if isinstance(one, float)]
    return value.kind == "amount" and not value.unit and max(numbers, default=0) <= _SMALL


def _is_half_read(clock: str, texts: Iterable[str]) -> bool:
    """Return whether a part of an hour stands in a text but not in what was read of its clock."""
    is_whole = _PART_OF_CLOCK.search(clock) or re.search(r"\d[:.]\d\d|\d[분分]", clock)
    return not is_whole and any(map(_PART_OF_CLOCK.search, texts))


_PART_OF_CLOCK = re.compile(
    r"(?i)(?<!\w)(?:half|halb|halv|demie?|media|mezz[ao]|meia|viertel|dreiviertel|kwart|kvart|quart|quarter"
    r"|cuarto|quarto|wpół|kwadrans|пол\w*|четверт\w*|без|menos|meno|moins|buçu\w*|çeyre\w*|साढ़े|सवा|पौने"
    r"|(?:و|وال|ال)(?:نصف|ربع|ثلث)|إلا)(?!\w)|[반半刻]"
)


def _is_one_more(value: Value) -> bool:
    """Return whether a value is one of a larger unit, which needs no number: "7 days", "a week"."""
    wholes = _WHOLES.get(value.unit, frozenset()) if value.kind == "amount" else frozenset()
    return not wholes.isdisjoint(value.readings)


_WHOLES: dict[str, frozenset[object]] = {
    "minute": frozenset([60.0, 1440.0, 10_080.0, 20_160.0]),
    "month": frozenset([1.0, 12.0]),
}


def _is_one(value: Value) -> bool:
    return value.kind == "amount" and value.readings == {1.0} and not value.unit


def _list_names(claim: Claim) -> list[str]:
    """Return the names of a sentence; none of a language whose nouns are all capitalised."""
    if claim.language == "german":
        return []
    return [
        item.key for item in claim.items if item.kind == "name" and not is_month(item.text.lower())
    ]


def _list_kin(claim: Claim) -> set[str]:
    return {item.key for item in claim.items if item.kind == "kin"}


# -- polarity and opposites -----------------------------------------------------------------------
_Found: TypeAlias = "Iterator[tuple[FindingKind, _Source]]"


_PENDING = re.compile(
    r"(?i)(?<!\w)(?:still (?:ha(?:s|ve)|needs?) to|yet to|still to be|moet(?:en)? (?:\w+ )?nog"
    r"|m(?:uss|üssen) noch|reste(?:nt)? à|faltan?|queda(?:n)? por|todavía hay que|deve ancora"
    r"|resta da|ainda (?:precisa|tem que|falta)"
    r"|ещ[её] (?:надо|нужно|предстоит)|(?:trzeba|musi) jeszcze|återstår)(?!\w)"
)
"""What is still to be done, which is another word for "not yet"."""


def _find_reversals(claim: Claim, support: Sequence[_Source]) -> _Found:
    flips = []
    pairs = [(clause, source, part) for source in support for part in source.claim.clauses
             for clause in claim.clauses]  # fmt: skip
    for clause in claim.clauses:
        if len(clause.items) == 1 < len(claim.clauses):
            continue
        near = [pair for pair in pairs if pair[0] is clause]
        scores = [_score_clauses(clause, pair[2]) for pair in near]
        best, score = near[scores.index(max(scores))], max(scores)
        if (not score and len(near) > 1) or best[1].claim.is_question:
            continue
        kinds = [
            _compare_polarity(clause, pair[2])
            for pair, one in zip(near, scores, strict=True)
            if one >= max(score - 1, 1) and pair[1] is not best[1]
        ]
        kind = None if None in kinds else _compare_polarity(clause, best[2])
        if kind == "polarity" and _is_denied_next_to(clause, best[2], claim, best[1].claim):
            continue
        if kind is not None and not _is_set_apart(clause, best[2], claim):
            flips.append((kind, best[1]))
    if len(flips) == 1 and len(support) == 1 and _needs_whole(claim, support[0].claim):
        kind = _compare_polarity(claim.whole, support[0].claim.whole)
        flips = [(kind, support[0])] if kind is not None else []
    if not flips and len(support) == 1 and _is_decided_otherwise(claim, support[0].claim):
        flips = [("opposite", support[0])]
    for kind, source in flips:
        if kind == "opposite" and _is_converse(claim, source.claim):
            continue
        yield kind, source


def _is_decided_otherwise(told: Claim, said: Claim) -> bool:
    """Return whether a decision is told as its opposite, in whatever clause it stands."""
    one, two = _find_decisions(told), _find_decisions(said)
    is_denied_alike = _has_denial(told) == _has_denial(said)
    return any(
        all(side != other for side, _ in one[key] for other, _ in two[key])
        if is_denied_alike
        else {sum(pair) % 2 for pair in one[key]}.isdisjoint(sum(pair) % 2 for pair in two[key])
        for key in one.keys() & two.keys()
    )


def _has_denial(claim: Claim) -> bool:
    return any(item.kind in ("not", "without") for item in claim.items)


def _find_decisions(claim: Claim) -> dict[str, set[tuple[int, int]]]:
    """Return the side of each decision, and whether it is denied."""
    found: dict[str, set[tuple[int, int]]] = {}
    for clause in claim.clauses:
        for key in _DECISIONS & clause.concepts.keys():
            is_denied = clause.denials and key in {item.key for item in _list_denied(clause)}
            if clause.denials and not is_denied:
                continue  # what is denied may be said of it: "the approval has not come"
            found.setdefault(key, set()).add((clause.concepts[key], int(is_denied)))
    return found


def _has_evidence(one: Clause, two: Clause) -> bool:
    """Return whether what one of two clauses denies is something that the other one says."""
    denied, plain = (one, two) if one.denials else (two, one)
    known = {key[:_ALIKE] for key in (*plain.content, *plain.concepts)}
    items = _list_denied(denied)
    return not items or any(
        any(map(item.value.matches, plain.values))
        if item.value
        else item.key[:_ALIKE] in known
        or any(_may_be_forms(item.key, key) for key in plain.content)
        for item in items
    )


def _is_deniable(item: Item) -> bool:
    is_adverb = item.key == "more" and item.kind == "concept"  # "no more"
    return bool(item.key) and not is_adverb and item.kind not in _SIGNS and item.value is None


def _list_denied(clause: Clause) -> list[Item]:
    """Return what a clause denies: what is next to its first negation, as far as can be told."""
    place = next(n for n, item in enumerate(clause.items) if item.kind in ("not", "without"))
    if clause.items[place].kind == "without":
        named = [item for item in clause.items[place + 1 :] if item.kind not in _SIGNS]
        return named[:2] or [item for item in clause.items[:place] if _is_deniable(item)][-2:]
    # A number is hardly what is denied where words are: "no meat for two years".
    before, after = (
        [item for item in part if _is_deniable(item)]
        for part in (clause.items[:place], clause.items[place + 1 :])
    )
    if clause.language in _VERB_LAST:
        return before[-1:] or after[:1]
    values = [item for item in clause.items if item.value is not None]
    # The verb and what it is about; verbs change more than the first letters.
    return after[:2] or before[-2:] or values


def _list_verbs_denied(clause: Clause) -> list[Item]:
    """Return the verb before a negation, where a language puts it there: "köper inte"."""
    if clause.language not in _VERB_SECOND:
        return []
    place = next(n for n, item in enumerate(clause.items) if item.kind in ("not", "without"))
    return list(clause.items[max(0, place - 1) : place])


def _is_set_apart(clause: Clause, said: Clause, claim: Claim) -> bool:
    """Return whether "X, but not Y" says what was said as "only Y is not", or the reverse."""
    is_only = any(item.kind == "only" for part in (clause, said) for item in part.items)
    return is_only and any(part.denials != clause.denials for part in claim.clauses)


def _is_denied_next_to(clause: Clause, part: Clause, told: Claim, said: Claim) -> bool:
    """Return whether both sentences deny the same beside a clause: "milk hurts, so no milk"."""
    others = [one for one in told.clauses if one is not clause and one.denials == part.denials]
    beside = [one for one in said.clauses if one is not part and one.denials == clause.denials]
    return (
        bool(beside)
        and told.language == "chinese"
        and any(len(one.content) == 1 and min(one.content) in said.text for one in others)
    )


def _needs_whole(told: Claim, said: Claim) -> bool:
    """Return whether a clause takes up more than one clause of its source."""
    return any(
        _score_clauses(clause, said.whole)
        > max(_score_clauses(clause, part) for part in said.clauses)
        for clause in told.clauses
    ) or len(told.clauses) > len(said.clauses)


def _compare_polarity(one: Clause, two: Clause) -> FindingKind | None:
    shared = one.concepts.keys() & two.concepts.keys()
    if shared:
        differs = [(one.concepts[key] ^ two.concepts[key]) for key in sorted(shared)]
        denied = one.denials ^ two.denials
        if not denied and any(differs):
            return "opposite"
        about = {
            item.key
            for clause in (one, two)
            if clause.denials
            for item in [*_list_denied(clause), *_list_verbs_denied(clause)]
        }
        if denied and not any(differs) and (about & shared or shared - _DECISIONS):
            return "polarity" if _has_evidence(one, two) else None
        return None
    if one.denials == two.denials or one.is_instead or two.is_instead:
        return None
    if not _has_evidence(one, two) or _is_debt_unpaid(one, two) or _is_denied_by_word(one, two):
        return None
    implied = [
        sum(side for key, side in clause.concepts.items() if key in _DENYING)
        for clause in (one, two)
    ]
    plain = two if one.denials else one
    return None if any(implied) or any(plain.concepts.values()) else "polarity"


def _is_denied_by_word(one: Clause, two: Clause) -> bool:
    """Return whether a verb of its own may deny what the other one denies: "is forbidden"."""
    denied, plain = (one, two) if one.denials else (two, one)
    gone = [key for key in denied.content if not _holds(plain.content, key)]
    new = [key for key in plain.content if not _holds(denied.content, key)]
    other = [key for key in new if not any(_may_be_forms(key, one) for one in gone)]
    lost = [key for key in gone if not any(_may_be_forms(key, one) for one in new)]
    if denied.language in UNSPACED:  # pairs of characters overlap
        known = {sign for item in denied.items for sign in item.text}
        other = [key for key in other if known.isdisjoint(key)]
    is_lost = bool(lost) or not denied.concepts.keys() <= plain.concepts.keys()
    if denied.language == "turkish" and not gone:
        is_lost = not _is_verb_repeated(denied, plain)  # the denial is a part of the verb
    return bool(other) and is_lost


def _is_verb_repeated(denied: Clause, plain: Clause) -> bool:
    """Return whether the word that is denied, as far as can be told, is said as well."""
    negation = next(item for item in denied.items if item.kind in ("not", "without"))
    if denied.language == "turkish" and negation.text.lower() not in _TURKISH_NOT:
        begun = {negation.text[:2].lower(), negation.text[:1].lower() + "i"}  # the verb holds it
        return any(item.text[:2].lower() in begun for item in plain.items)
    return any(
        _holds(plain.content, item.key) or item.key in plain.concepts
        for item in _list_denied(denied)[:1]
    )


_TURKISH_NOT = frozenset({"değil", "yok", "hayır", "hiç", "asla", "hiçbir"})


def _may_be_forms(one: str, two: str) -> bool:
    """Return whether two words may be forms of one verb, which keeps its first letters."""
    if _HAN.match(one) and _HAN.match(two):
        return not set(one).isdisjoint(two)
    short, long = sorted((_strip_prefix(one), _strip_prefix(two)), key=len)
    frames = [re.sub("[aeiouyäöüåæ]", "", word) for word in (short, long)]
    if frames[0] == frames[1] and len(frames[0]) > 1:
        return True  # find, found
    count = max(1, min(2, len(short) - 1)) if len(short) <= _ALIKE + 1 else _ALIKE
    return short[:count] == long[:count]


_HAN = re.compile("[\u4e00-\u9fff]")


def _strip_prefix(word: str) -> str:
    """Return an Arabic verb without the letter that says who does it, a participle without "ge"."""
    bare = word.lstrip("أآايتنو")
    if len(word) > len("ge") + _ALIKE:
        bare = bare.removeprefix("ge")
    return bare if len(bare) > 1 else word


def _is_debt_unpaid(one: Clause, two: Clause) -> bool:
    """Return whether one says "owes" and the other "has not paid back"."""
    verbs = [
        {item.text.lower() for item in clause.items if item.kind == "debtor"}
        for clause in (one, two)
    ]
    denied, plain = verbs if one.denials else reversed(verbs)
    return all(verbs) and bool(denied - plain)


def _is_converse(one: Claim, two: Claim) -> bool:
    """Return whether opposites say the same, since the persons have changed places, too."""
    names = one.whole.names | two.whole.names
    told, said = find_cast(one.whole, names), find_cast(two.whole, names)
    if told.agent and not said.agent and one.whole.concepts.keys() & _CONVERSES:
        return True  # "I sold it" may be "A bought it", as long as nobody knows who does it
    return bool(told.agent and said.agent and told.agent != said.agent) and (
        told.agent in said.roles and said.agent in told.roles
    )


# -- who ------------------------------------------------------------------------------------------
def _find_roles_changed(claim: Claim, support: Sequence[_Source]) -> _Found:
    said = support[0].claim
    names = claim.whole.names | said.whole.names
    for clause in claim.clauses:
        best = max(
            said.clauses,
            key=lambda part: (
                part.directions == clause.directions,
                _score((), clause.values, part),
                _score_clauses(clause, part),
            ),
        )
        casts = find_cast(clause, names), find_cast(best, names)
        if any(_is_said_by(claim, clause, source, best) for source in support[1:]):
            continue
        is_told_elsewhere = casts[1].agent in claim.whole.content
        if _score_clauses(clause, best) and (
            _is_role_changed(*casts, is_told_elsewhere) or _is_subject_changed(*casts, names)
        ):
            yield "role", support[0]


def _is_said_by(claim: Claim, clause: Clause, source: _Source, best: Clause) -> bool:
    """Return whether another sentence says as much of a clause, of the same person."""
    names = claim.whole.names | source.claim.whole.names
    agent = find_cast(clause, names).agent
    return any(
        _score_clauses(clause, part) >= _score_clauses(clause, best) - 1
        and find_cast(part, names).agent == agent
        for part in source.claim.clauses
    )


def _list_persons(clause: Clause) -> set[str]:
    return {item.key or item.kind for item in clause.items if item.kind in _SURE_PERSONS}


def _is_role_changed(told: Cast, said: Cast, is_told_elsewhere: bool) -> bool:
    if told.clause.directions and said.clause.directions:
        return _is_debtor_changed(told, said)
    agents = told.agent, said.agent
    is_open = told.clause.directions or said.clause.directions or "?" in agents or "" in agents
    if is_open or told.agent == said.agent:
        return False
    if told.agent in said.roles and said.agent in told.roles:
        nouns = [cast.agent not in _list_persons(cast.clause) for cast in (told, said)]
        is_noun = told.clause.language == "german" and nouns[0] != nouns[1]
        is_same_verb = _is_same_deed(told.clause, said.clause)
        is_equation = all(_is_equation(cast, agents) for cast in (told, said))
        is_same = (
            is_same_verb
            and told.clause.concepts == said.clause.concepts
            and _list_marks(told.clause) == _list_marks(said.clause)
        )
        return is_same and not is_noun and not is_equation
    if set(agents) == {"user", "assistant"}:
        is_same = 2 * _score_clauses(told.clause, said.clause) >= len(told.clause.content)
        return is_same and not _is_asked_for(said.clause)
    kin = {item.key for item in said.clause.items if item.kind == "kin"}
    return (
        said.agent in kin
        and told.agent == "user"
        and not is_told_elsewhere
        and (said.agent not in told.roles or _is_same_deed(told.clause, said.clause))
    )


def _is_same_deed(told: Clause, said: Clause) -> bool:
    """Return whether all that one clause names is in the other one: "learn" is not "teach"."""
    if _has_reflexive(told) != _has_reflexive(said) or _list_marks(told) != _list_marks(said):
        return False
    if told.language == "turkish":
        return told.content <= said.content
    return all(_holds(said.content, key) for key in told.content)


def _has_reflexive(clause: Clause) -> bool:
    """Return whether a Russian verb says by its ending that somebody does it to themselves."""
    return clause.language == "russian" and any(
        item.kind == "word" and item.text.lower().endswith(("ся", "сь")) for item in clause.items
    )


def _list_marks(clause: Clause) -> set[str]:
    """Return the kinds of words that say who does what to whom; none where particles do."""
    if clause.language in UNSPACED:
        return set()
    kinds = {item.kind for item in clause.items}
    froms = {"from" for item in clause.items if item.kind == "from" and item.text.lower() in _AWAY}
    return froms | (kinds & {"by", "passive"} if "by" in kinds else set())


_AWAY = frozenset({"from", "aus", "у", "от", "od", "من", "från", "tarafından"})
"""Of the words that may mean "of", those that always say from whom."""


def _is_debtor_changed(told: Cast, said: Cast) -> bool:
    debtors = told.debtor, said.debtor
    if "" in debtors or debtors[0] == debtors[1]:
        return False
    if not (told.clause.values or said.clause.values) and "?" in (told.agent, debtors[0]):
        return False  # "he gets a rash" speaks of no debt
    is_pronoun = "?" in said.roles and debtors[0] != "?" and debtors[1] in told.roles
    is_thing = not told.is_named(debtors[0]) and debtors[1] not in told.roles
    return (debtors[0] in said.roles or is_pronoun) and not is_thing


def _find_agents_exchanged(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where of two clauses each has the agent that the other one has in the source."""
    said = support[0].claim
    names = claim.whole.names | said.whole.names
    pairs = [
        (find_cast(clause, names).agent, find_cast(best, names).agent, best)
        for clause in claim.clauses
        for best in [max(said.clauses, key=partial(_score_deeds, clause, names=names))]
        if _score_deeds(clause, best, names)
    ]
    for one, two in combinations(pairs, 2):
        is_crossed = one[0] == two[1] != two[0] == one[1]
        if is_crossed and one[2] is not two[2] and not {"", "?"} & {one[0], two[0]}:
            yield "swap", support[0]
            return


def _score_deeds(one: Clause, two: Clause, names: frozenset[str]) -> int:
    return sum(_holds(two.content - names, key) for key in one.content - names)


def _is_subject_changed(told: Cast, said: Cast, names: frozenset[str]) -> bool:
    """Return whether the same is told of somebody else who is named, too."""
    agents = {told.agent, said.agent}
    if len(agents) == 1 or not agents <= names or told.clause.directions | said.clause.directions:
        return False
    rest = told.clause.content - agents
    is_all = told.clause.content & agents == {told.agent} and said.agent in said.clause.content
    return (
        bool(rest)
        and is_all
        and told.agent not in said.roles
        and rest == said.clause.content - agents
    )


def _is_asked_for(clause: Clause) -> bool:
    """Return whether somebody asks for what is done: "can you remind me"."""
    kinds = [item.key if item.kind == "concept" else item.kind for item in clause.items]
    return "can" in kinds[: kinds.index("assistant")] if "assistant" in kinds else False


def _is_equation(cast: Cast, who: Collection[str]) -> bool:
    """Return whether a clause says that one is the other, as it does the other way round, too."""
    words = {item.key for item in cast.clause.items if item.kind == "word"} - cast.roles.keys()
    is_plain = all(cast.roles.get(one) == "open" for one in who)
    kinds = {item.kind for item in cast.clause.items}
    return is_plain and "passive" in kinds and words <= _NAMING_WORDS


_NAMING_WORDS = frozenset({"call", "name"})


# -- places changed -------------------------------------------------------------------------------
def _find_swaps(claim: Claim, support: Sequence[_Source]) -> _Found:
    parts = [(source, part) for source in support for part in source.claim.clauses]
    for one, two in combinations(claim.clauses, 2):
        for (source, first), (other, second) in combinations(parts, 2):
            if other.index != source.index:
                continue
            for a, b in ((first, second), (second, first)):
                if _are_swapped(one, two, a, b):
                    yield "swap", source
                    return


def _are_swapped(one: Clause, two: Clause, first: Clause, second: Clause) -> bool:
    own = _score_clauses(one, first), _score_clauses(two, second)
    crossed = _score_moved(one, first, second), _score_moved(two, second, first)
    if not all(own) or not all(crossed):
        return False
    moved = _score_clauses(one, second) + _score_clauses(two, first)
    return sum(own) >= moved


def _score_moved(clause: Clause, own: Clause, other: Clause) -> float:
    """Return how much of a clause stands in another one of the source than its own."""
    content = [key for key in clause.content if not _holds(own.content, key)]
    values = [v for v in clause.values if not any(v.matches(one) for one in own.values)]
    return _score(content, values, other)


def _find_sides_exchanged(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where what was said is denied, and what was denied is said."""
    said = support[0]
    for_it, against = _split_sides(claim)
    was_for, was_against = _split_sides(said.claim)
    if for_it & was_against and against & was_for:
        yield "swap", said


def _split_sides(claim: Claim) -> tuple[set[str], set[str]]:
    """Return what a sentence names as so, and as not so; what it names as both is in neither."""
    sides: tuple[set[str], set[str]] = (set(), set())
    for clause in claim.clauses:
        keys = {*clause.content, *(key for value in clause.values for key in value.keys)}
        sides[clause.is_set_against].update(keys)
    return sides[0] - sides[1], sides[1] - sides[0]


def _find_order_changed(claim: Claim, support: Sequence[_Source], *, are_named: bool) -> _Found:
    """Yield where what stood after a preposition has changed places with what stood elsewhere.

    Args:
        claim: Of the restatement.
        support: What it rests on.
        are_named: Whether both are names or values, which prove it; other words only suggest it.
    """
    is_owing = claim.whole.directions or support[0].claim.whole.directions
    if is_owing or _is_converse_deed(claim.whole, support[0].claim.whole):
        return
    told, said = _find_marked(claim), _find_marked(support[0].claim)
    for mark in told.keys() & said.keys():
        one, two = told[mark], said[mark]
        if (
            are_named
            is (_is_origin(mark) or all(item.kind in ("name", "value") for item in (one, two)))
            and not _are_same(one, two)
            and not _is_only_when(one, two)
            and not _is_alone(one, claim)
            and not _is_alone(two, support[0].claim)
            and any(_are_same(one, item) for item in support[0].claim.items)
            and any(_are_same(two, item) for item in claim.items)
        ):
            yield "swap", support[0]
            return


def _is_converse_deed(one: Clause, two: Clause) -> bool:
    """Return whether "A sold it to B" is told as "B bought it from A"."""
    keys = _CONVERSES & one.concepts.keys() & two.concepts.keys()
    return any(one.concepts[key] != two.concepts[key] for key in keys)


def _is_origin(mark: str) -> bool:
    """Return whether a place stands after a preposition, whatever its letters: 从上海."""
    return mark == "从"


def _is_only_when(*items: Item) -> bool:
    """Return whether one of two items, which change places freely then, says when."""
    return sum(one.value is not None and one.value.kind in _WHEN for one in items) == 1


_WHEN = frozenset({"day", "date", "time"})


def _is_alone(item: Item, claim: Claim) -> bool:
    """Return whether a clause holds nothing else, as in "to nuts and penicillin"."""
    if item.value is not None and item.value.kind in _WHEN:
        return False
    lists = [part.content for part in claim.clauses]
    place = next((n for n, part in enumerate(claim.clauses) if item in part.items), 0)
    return len(claim.clauses) > 1 and any(len(part) == 1 for part in lists[place : place + 2])


def _find_names_exchanged(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where names stand in other places of an otherwise equal sentence."""
    said = support[0].claim
    if len(claim.clauses) != 1 or len(said.clauses) != 1 or claim.language == "german":
        return
    if claim.whole.directions or _list_voices(claim) != _list_voices(said):
        return
    if claim.whole.concepts != said.whole.concepts:
        return  # "A sold it to B" is "B bought it from A"
    names = claim.whole.names | said.whole.names
    told_words, told_names = _split_names(claim, names)
    said_words, said_names = _split_names(said, names)
    if sorted(told_names) != sorted(said_names) or told_names == said_names:
        return
    if len(told_words) == len(said_words) and all(map(is_same_stem, told_words, said_words)):
        yield "swap", support[0]


def _find_values_exchanged(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where two values have changed places: before what is counted, or with their units."""
    for source in support:
        said = source.claim
        told, was = list(_find_counted(claim)), list(_find_counted(said))
        lost = [pair for pair in was if not any(_is_same_pair(pair, other) for other in told)]
        new = [pair for pair in told if not any(_is_same_pair(pair, other) for other in was)]
        if any(
            is_same_stem(one[1], two[1]) and _has_moved(one[0], two[0], claim, said)
            for one in new
            for two in lost
        ):
            yield "swap", source
            return


def _find_routes_reversed(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where a way from one place to another is told the other way round."""
    pattern = _ROUTES.get(claim.language)
    if pattern is None:
        return
    for source in support:
        ways = [(match[1], match[2]) for match in pattern.finditer(source.claim.text)]
        if any((match[2], match[1]) in ways for match in pattern.finditer(claim.text)):
            yield "swap", source
            return


def _find_particles_exchanged(claim: Claim, support: Sequence[_Source]) -> _Found:
    """Yield where Japanese particles make whom something was done to the one who does it."""
    if claim.language != "japanese" or _JAPANESE_PASSIVE.search(claim.text):
        return
    for source in support:
        said = source.claim
        done = {
            item.key
            for item in said.items
            if item.kind == "name" and f"{item.text}さんを" in said.text
        }
        does = {item.key for item in claim.items if item.kind == "name" and item.role == "agent"}
        if done & does and not _JAPANESE_PASSIVE.search(said.text):
            yield "swap", source
            return


_JAPANESE_PASSIVE = re.compile("[らされ]れ[たてるま]|もら|いただ")
_ROUTES = {
    "chinese": re.compile(
        "[从由]([\u4e00-\u9fff]{2,4}?)(?:乘机|坐车|开车|出发)?(?:飞往|飞到|飞|前往|去|到|搬到|搬去|回到?)([\u4e00-\u9fff]{2})"
    ),
    "japanese": re.compile(
        "([\u4e00-\u9fff\u30a1-\u30ffー]{2,6})から([\u4e00-\u9fff\u30a1-\u30ffー]{2,6})(?:へ|まで|に)"
    ),
}


def _find_counted(claim: Claim) -> Iterator[tuple[Value, str]]:
    """Yield each amount with what follows it directly: what it counts, or its unit."""
    for number, item in enumerate(claim.items):
        if item.value is None or item.value.kind != "amount":
            continue
        rest = [one for one in claim.items[number + 1 :] if one.kind != "only"]  # 只 counts animals
        after = rest[0] if rest else None
        if item.value.unit:
            yield item.value, f"unit {item.value.unit}"
        if after is not None and after.kind in ("word", "name"):
            yield item.value, after.key


def _is_same_pair(one: tuple[Value, str], two: tuple[Value, str]) -> bool:
    return is_same_stem(one[1], two[1]) and one[0].matches(two[0])


def _has_moved(told: Value, said: Value, claim: Claim, source: Claim) -> bool:
    """Return whether each of two different values stands in the other sentence as well."""
    return (
        told.bare.isdisjoint(said.bare)
        and any(_has_number(told, value) for value in source.whole.values)
        and any(_has_number(said, value) for value in claim.whole.values)
    )


def _has_number(one: Value, two: Value) -> bool:
    return two.kind == "amount" and not one.bare.isdisjoint(two.bare)


def _list_voices(claim: Claim) -> list[str]:
    return [item.kind for item in claim.items if item.kind in ("passive", "by")]


def _split_names(claim: Claim, names: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the words and the names of a sentence, each in order."""
    keys = [item.key for item in claim.items if item.kind in ("word", "name")]
    return [key for key in keys if key not in names], [key for key in keys if key in names]


def _find_marked(claim: Claim) -> dict[str, Item]:
    """Return what stands after each preposition that stands once."""
    marked: dict[str, list[Item]] = {}
    kinds = ("word", "name", "value")
    for mark, item in zip(claim.items, claim.items[1:], strict=False):
        if mark.kind in ("from", "by", "to") and item.kind in kinds and mark.text:
            said = mark.text.lower()
            marked.setdefault(_CONTRACTED.get(said, said), []).append(item)
    return {mark: items[0] for mark, items in marked.items() if len(items) == 1}


_CONTRACTED = {
    "au": "à",
    "aux": "à",
    "al": "a",
    "alla": "a",
    "all'": "a",
    "ai": "a",
    "del": "de",
    "du": "de",
}
_CONTRACTED |= {
    "des": "de",
    "d'": "de",
    "zum": "zu",
    "zur": "zu",
    "vom": "von",
    "dal": "da",
    "dalla": "da",
}


def _are_same(one: Item, two: Item) -> bool:
    if one.value is not None or two.value is not None:
        return one.value is not None and two.value is not None and one.value.matches(two.value)
    return one.kind in ("word", "name") and is_same_stem(one.key, two.key)


# -- words ----------------------------------------------------------------------------------------
def _is_foreign(
    clause: Clause, support: Sequence[_Source], known: frozenset[str], *, few: bool
) -> bool:
    """Return whether a clause shares nothing with what it should restate.

    Args:
        clause: Of the restatement.
        support: What the restated sentence rests on.
        known: All content of the source.
        few: A single word may restate in other words what else would be lost.
    """
    count = len(clause.content) + ("allergic" in clause.concepts)
    pairs = 2 if clause.language == "chinese" else 1  # pairs of characters overlap
    if count < (1 + (few or clause.denials)) * pairs or clause.values:
        return False
    if any(_holds(known, key) for key in clause.content) or _is_akin(clause, support):
        return False
    concepts = {key for source in support for key in source.claim.whole.concepts}
    return not clause.concepts.keys() & concepts


def _is_bare_value(clause: Clause) -> bool:
    """Return whether a clause is a value alone, of which the one before it says what it is."""
    return bool(clause.values) and not clause.content and not clause.concepts


def _is_akin(clause: Clause, support: Sequence[_Source]) -> bool:
    """Return whether a clause has a word that begins as one of its source: a verb's other form."""
    begun = {key[:_BEGINNING] for one in support for key in one.claim.whole.content}
    return any(len(key) > _BEGINNING and key[:_BEGINNING] in begun for key in clause.content)


def _is_mostly_new(clause: Clause, new: Collection[str]) -> bool:
    """Return whether a clause tells several things that its source does not."""
    keys = [*clause.content, *clause.concepts]
    count = sum(key in new for key in keys)
    if clause.language == "chinese":
        count //= 2  # pairs of characters overlap
    is_anchored = clause.language != "german" and any(name not in new for name in clause.names)
    is_most = 3 * count > 2 * len(keys) if is_anchored else 2 * count >= len(keys)
    return count >= _MANY_NEW and is_most


def _is_contrasted(told: Claim, said: Claim) -> bool:
    """Return whether another one of several things is told: "green" where "blue" was said."""
    lexicon = get_lexicon(told.language)
    if _has_denial(told) != _has_denial(said):
        return False  # "not outdoors" is "indoors"
    one, two = (_find_contrasts(claim, lexicon) for claim in (told, said))
    return any(one[group].isdisjoint(two[group]) for group in one.keys() & two.keys())


def _find_contrasts(claim: Claim, lexicon: Lexicon) -> dict[int, set[str]]:
    found: dict[int, set[str]] = {}
    for key in claim.whole.content if lexicon.is_spaced else lexicon.contrasts:
        group, member = lexicon.contrasts.get(key, (0, ""))
        if member and (lexicon.is_spaced or key in claim.text):
            found.setdefault(group, set()).add(member)
    return found


def _is_place_replaced(told: Claim, said: Claim) -> bool:
    """Return whether the replaced word is one that names: it follows a preposition directly."""
    new = [key for key in told.whole.content if not _holds(said.whole.content, key)]
    lost = [key for key in said.whole.content if not _holds(told.whole.content, key)]
    if told.language == "chinese":
        start = _count_alike(*(_PERSONAL.sub("", _strip_values(claim)) for claim in (told, said)))
        return _PERSONAL.sub("", _strip_values(told))[:start][-1:] in _CHINESE_MARKS
    if told.language == "japanese":
        return new[0][-1:] == lost[0][-1:]  # 大阪支社, 名古屋支社
    if told.language not in _PREPOSITIONS:
        return False
    return _is_after_preposition(told, new[0]) and _is_after_preposition(said, lost[0])


def _is_after_preposition(claim: Claim, key: str) -> bool:
    item = next(item for item in claim.items if item.key == key)
    before = _PREPOSITIONS[claim.language]
    return re.search(rf"(?i)\b(?:{before})\s+{re.escape(item.text)}\b", claim.text) is not None


def _is_name_replaced(
    told: Claim, said: Claim, known: frozenset[str], everything: frozenset[str]
) -> bool:
    """Return whether what is called so, or where it goes, is another in the same words."""
    one, two = _find_named(told), _find_named(said)
    return any(
        not _holds(known, one[mark]) and not _holds(everything, two[mark])
        for mark in one.keys() & two.keys()
    )


_TITLED = (
    r"dr\.?|doctor|mr\.?|mrs\.?|ms\.?|prof\.?|professor|herrn?|frau|madame|monsieur|mme|señora?|sra?\.?|signora?"
    r"|senhora?|dona|mevrouw|meneer|pani?|docteur|doktor|доктор\w*"
)


def _find_named(claim: Claim) -> dict[str, str]:
    """Return what stands after words that name, each with these words."""
    pattern = _NAMING.get(claim.language)
    if pattern is None:
        return {}
    return {
        " ".join(match[1].lower().split()): stem_word(match[2].lower(), claim.language)
        for match in pattern.finditer(claim.text)
        if match[2].lower() not in get_lexicon(claim.language).function_words
    }


_NAMING = {
    language: re.compile(rf"(?i)(?<!\w)({marks}|{_TITLED})\s+([^\W\d_]{{3,}})(?!\w)")
    for language, marks in {
        "english": r"called|named|name is|(?:mov\w+|fly\w*|flew|relocat\w+|driv\w+|travel\w*) to"
        r"|(?:liv\w+|based|born) in|flight to|train to|from (?=\w+$)",
        "german": r"heißt|hieß|namens|nach|aus",
        "french": r"(?:s'|m')?appelle|nommée?",
        "spanish": r"(?:se|me) llama|llamad[oa]",
        "italian": r"(?:si|mi) chiama|chiamat[oa]",
        "portuguese": r"(?:se )?chama(?:-se)?|chamad[oa]",
        "dutch": r"heet|genaamd|naar",
        "russian": r"зовут|по имени|называется",
        "polish": r"nazywa się|imieniu|ma na imię",
        "turkish": r"adı|adlı",
    }.items()
}
_PREPOSITIONS = {
    "english": "in|at|to|from|of|near|with|for|via|by|on|called|named",
    "german": "in|nach|aus|bei|mit|für",
    "dutch": "in|naar|uit|bij|met|voor",
    "arabic": "إلى|من",
}
"""After these, without an article, stands a name rather than a thing."""


_CHINESE_MARKS = frozenset("去在到叫往飞从搬住跟")
"""After these stands who or where."""


def _is_word_replaced(told: Claim, said: Claim) -> bool:
    """Return whether a sentence is its source but for one word in the same place."""
    if told.language == "chinese":
        return _is_run_replaced(_strip_values(told), _strip_values(said))
    new = [key for key in told.whole.content if not _holds(said.whole.content, key)]
    lost = [key for key in said.whole.content if not _holds(told.whole.content, key)]
    if len(new) != 1 or len(lost) != 1 or told.whole.concepts != said.whole.concepts:
        return False
    if _may_be_verb(told, new[0]):
        return False
    return _find_neighbours(told, new[0]) == _find_neighbours(said, lost[0])


def _is_run_replaced(told: str, said: str) -> bool:
    """Return whether one short run of characters differs inside an otherwise equal sentence."""
    one, two = (_PERSONAL.sub("", text) for text in (told, said))
    start = _count_alike(one, two)
    end = _count_alike(one[start:][::-1], two[start:][::-1])
    middle = one[start : len(one) - end], two[start : len(two) - end]
    return end > 0 and all(0 < len(part) <= _LONGEST_RUN for part in middle) and start + end > 3  # noqa: PLR2004


def _strip_values(claim: Claim) -> str:
    """Return a sentence without its values, which may be written in many ways."""
    text = replace_number_words(claim.text, claim.language)
    for value in claim.whole.values:
        text = text.replace(value.text, "")
    return text


def _count_alike(one: str, two: str) -> int:
    """Return how many first characters two texts share."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(one), len(two)))


_PERSONAL = re.compile(r"[我你您他她们的了\s。,.!?、，！？]|用户|客户|助手")
_LONGEST_RUN = 3
_VERB_SECOND = frozenset({"german", "dutch", "swedish"})
_VERB_LAST = frozenset({"turkish", "japanese"})


def _may_be_verb(claim: Claim, key: str) -> bool:
    """Return whether a word stands where its language has the verb, of which there are many."""
    items = [item for item in claim.items if item.kind not in ("passive", "third", "by", "not")]
    place = next(number for number, item in enumerate(items) if item.key == key)
    if claim.language in _VERB_LAST:
        return place == len(items) - 1
    if claim.language == "german" and items[place].text[:1].islower():
        return True
    if place == 1 and items[0].kind == "word":
        return len(items) > place + 1
    before = items[place - 1].kind if place else "user"
    return before in ("user", "assistant", "kin", "name", "i", "you") and place + 1 < len(items)


def _find_neighbours(claim: Claim, key: str) -> tuple[str, str]:
    items = [
        item for item in claim.items if item.kind not in ("passive", "by", "to", "from", "third")
    ]
    place = next(number for number, item in enumerate(items) if item.key == key)
    before = items[place - 1] if place else None
    after = items[place + 1] if place + 1 < len(items) else None
    return _describe(before), _describe(after)


def _describe(item: Item | None) -> str:
    if item is None:
        return ""
    return item.key[:5] if item.kind in ("word", "name", "kin", "value") else "sign"
