"""A restatement beside its source: what is missing, changed, invented, or left unjudged. Pure.

Rules decide, and no model is asked. What they cannot decide is listed as unjudged.
"""

# ruff: noqa: RUF001 - signs of the languages themselves

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cached_property

from langchain_convmem.claims.exchanges import (
    WHEN,
    find_names_exchanged,
    find_order_changed,
    find_particles_exchanged,
    find_routes_reversed,
    find_sides_exchanged,
    find_swaps,
    find_values_exchanged,
)
from langchain_convmem.claims.findings import ClaimFinding, ClaimReport, SourceClaim, SourceSentence
from langchain_convmem.claims.lexicon import OTHER, guess_language
from langchain_convmem.claims.likeness import (
    ALIKE,
    DENYING,
    MANY_NEW,
    SMALL,
    group_values,
    holds_key,
    holds_name,
    is_among,
    is_form,
    is_half_read,
    is_one,
    is_one_more,
    is_small,
    list_kin,
    list_names,
    score_content,
)
from langchain_convmem.claims.polarity import PENDING, find_reversals
from langchain_convmem.claims.reading import Claim, is_same_stem, read_claim
from langchain_convmem.claims.replacements import (
    is_bare_value,
    is_contrasted,
    is_foreign,
    is_mostly_new,
    is_name_replaced,
    is_place_replaced,
    is_word_replaced,
)
from langchain_convmem.claims.roles import find_agents_exchanged, find_roles_changed
from langchain_convmem.claims.unlisted import is_denied_otherwise
from langchain_convmem.claims.values import Value
from langchain_convmem.priority import give_way
from langchain_convmem.views.facts import split_sentences


def compare_claims(source_sentences: Sequence[SourceSentence], text: str) -> ClaimReport:
    """Return what a restatement leaves out, changes and adds.

    Args:
        source_sentences: What it covers, in order.
        text: The restatement, of any length; in any order, words and person.
    """
    return _ClaimComparison(source_sentences, text).make_report()


SPEAKERS = {"human": "user", "user": "user", "assistant": "assistant", "ai": "assistant"}

_UNDECLINED = frozenset({"english", "french", "spanish", "italian", "portuguese", "dutch"})
"""Names have no cases here."""

_MOST_SUPPORT = 4

_MOST_CANDIDATES = 12

_FEW_WORDS = 3
"""So few words without a value may say in short what took many: "Small talk."."""

_FEW_LOST = 0
"""More lost words than these may be what unknown words restate."""


class _ClaimComparison:
    """One restatement beside its source; used once."""

    def __init__(self, source: Sequence[SourceSentence], text: str) -> None:
        everything = " ".join([*(said.text for said in source), text])
        language = guess_language(everything)
        runs = frozenset(_LONG_RUN.findall(everything))
        self._sources = [
            SourceClaim(index, read_claim(sentence, guess_language(sentence, language), speaker))
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

    def _find_support(self, claim: Claim) -> list[SourceClaim]:
        """Return the sentences of the source that a restated one rests on, the closest first."""
        whole = claim.whole
        hits = Counter(n for key in whole.content for n in self._by_beginning.get(key[:4], ()))
        hits.update(
            n for value in whole.values for key in value.keys for n in self._by_value.get(key, ())
        )
        closest = [number for number, _ in hits.most_common(_MOST_CANDIDATES)]
        candidates = [self._sources[number] for number in sorted(closest)]
        support: list[SourceClaim] = []
        content, values = set(whole.content), list(whole.values)
        while candidates and len(support) < _MOST_SUPPORT:
            best = max(candidates, key=lambda one: score_content(content, values, one.claim.whole))
            if not score_content(content, values, best.claim.whole):
                break
            candidates.remove(best)
            support.append(best)
            known = best.claim.whole
            content = {key for key in content if not holds_key(known.content, key)}
            values = [v for v in values if not any(v.matches(other) for other in known.values)]
        if not support and len(self._sources) == 1:
            return [self._sources[0]]
        return support

    # -- one sentence ----------------------------------------------------------------------------
    def _judge(self, number: int, claim: Claim) -> None:
        give_way()
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
            *(() if PENDING.search(claim.text) else find_reversals(claim, support)),
            *find_roles_changed(claim, support),
            *find_sides_exchanged(claim, support),
            *find_agents_exchanged(claim, support),
            *find_swaps(claim, support),
            *find_order_changed(claim, support, are_named=True),
            *find_names_exchanged(claim, support),
            *find_values_exchanged(claim, support),
            *find_routes_reversed(claim, support),
            *find_particles_exchanged(claim, support),
        ]
        self._changed += [
            ClaimFinding(kind, source.index, number, source.claim.text, claim.text)
            for kind, source in found
        ]
        self._unjudged += [
            ClaimFinding(kind, source.index, number, source.claim.text, claim.text)
            for kind, source in find_order_changed(claim, support, are_named=False)
        ]
        self._judge_persons(number, claim, support)
        self._judge_names(number, claim, support)
        self._judge_words(number, claim, support)

    def _judge_unlisted(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
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
        return group_values(value for _, value in self._source_values)

    @cached_property
    def _told_by_key(self) -> dict[str, list[Value]]:
        return group_values(self._told_values)

    @cached_property
    def _source_values(self) -> list[tuple[int, Value]]:
        return [
            (source.index, value) for source in self._sources for value in source.claim.whole.values
        ]

    @cached_property
    def _told_values(self) -> list[Value]:
        return [value for claim in self._told for value in claim.whole.values]

    def _judge_values(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
        near = [(one.index, value) for one in support for value in one.claim.whole.values]
        for value in claim.whole.values:
            if is_among(value, self._values_by_key) or is_one(value):
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
            elif self._is_thin(value, claim) or is_small(value) or is_one_more(value):
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
        is_large = value.kind == "amount" and max(value.bare, default=0) > SMALL
        known = [key for key in clause.content if holds_key(self._all_content, key)]
        words = [item for item in clause.items if item.kind in ("word", "debtor", "concept")]
        return is_large and bool(words) and not known

    def _list_lost(self, support: Sequence[SourceClaim]) -> list[str]:
        """Return the words of sentences of the source that no sentence of the restatement has."""
        return [
            key
            for one in support
            for key in one.claim.whole.content
            if not holds_key(self._told_content, key)
        ]

    def _is_thin(self, value: Value, claim: Claim) -> bool:
        """Return whether a value may be said in the words of another language."""
        languages = {source.claim.language for source in self._sources}
        is_same = claim.language in languages and claim.language != OTHER
        return not is_same and (value.kind in ("day", "date", "time") or is_small(value))

    def _is_half_read(self, value: Value, rivals: Sequence[tuple[int, Value]]) -> bool:
        """Return whether the source tells a time with a "half" or "quarter" that no rule reads."""
        if value.kind != "time":
            return False
        texts = [one.claim.text for one in self._sources if one.index == rivals[0][0]]
        return any(is_half_read(other.text, texts) for _, other in rivals)

    def _has_month(self, value: Value) -> bool:
        """Return whether "the May rent" tells of "in May"."""
        if any(isinstance(reading, tuple) and reading[2] for reading in value.readings):
            return False
        words = re.findall(r"[^\W\d_]{3,}", value.text.lower())[-1:]
        return any(re.search(rf"\b{words[0]}\b", one.text.lower()) for one in self._told if words)

    def _is_told(self, value: Value) -> bool:
        return is_among(value, self._told_by_key)

    def _find_missing(self) -> None:
        for index, value in self._source_values:
            if is_one(value) or id(value) in self._explained or self._is_told(value):
                continue
            if value.kind == "date" and self._has_month(value):
                continue
            # When something is can be told in many ways, and words of its own may tell a number.
            is_open = value.kind in WHEN or (value.kind == "amount" and self._has_new_words)
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
                for name in list_names(source.claim)
                if not holds_name(self._told_content, name)
            )

    @cached_property
    def _has_new_words(self) -> bool:
        """Whether the restatement has words that no sentence of the source has."""
        return any(not holds_key(self._all_content, key) for key in self._told_content)

    # -- persons, names, words -------------------------------------------------------------------
    def _judge_persons(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
        told = list_kin(claim)
        said = {key for source in support for key in list_kin(source.claim)}
        everywhere = {key for source in self._sources for key in list_kin(source.claim)}
        new = told - said
        if not new:
            return
        if said - told:
            self._changed.append(
                ClaimFinding("person", support[0].index, number, support[0].claim.text, claim.text)
            )
        elif not new <= everywhere:
            self._unjudged.append(ClaimFinding("person", support[0].index, number, told=claim.text))

    def _judge_names(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
        new = [name for name in list_names(claim) if not holds_name(self._all_content, name)]
        if not new:
            self._judge_spelling(number, claim, support)
            return
        lost = [
            name
            for source in support
            for name in list_names(source.claim)
            if not holds_name(self._told_content, name)
        ]
        if lost:
            self._changed.append(ClaimFinding("name", support[0].index, number, lost[0], new[0]))
        else:
            self._invented.append(ClaimFinding("name", None, number, told=new[0]))

    def _judge_spelling(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
        """Find names with the beginning of another one: "Ferrari" for "Ferri"."""
        if claim.language not in _UNDECLINED:
            return
        text = " ".join(source.claim.text.lower() for source in self._sources)
        everything = " ".join(one.text.lower() for one in self._told)
        for item in (item for item in claim.items if item.kind == "name"):
            if item.text[:ALIKE].lower() != item.key[:ALIKE] or item.text.lower() in text:
                continue
            rivals = [
                one.text
                for source in support
                for one in source.claim.items
                if one.kind == "name"
                and is_same_stem(one.key, item.key)
                and not is_form(item.text.lower(), one.text.lower())
                and one.text.lower() not in everything
            ]
            self._changed += [
                ClaimFinding("name", support[0].index, number, rival, item.text)
                for rival in rivals[:1]
            ]

    def _judge_words(self, number: int, claim: Claim, support: Sequence[SourceClaim]) -> None:
        source = support[0]
        new = [key for key in claim.whole.content if not holds_key(self._all_content, key)]
        concepts = {key for one in self._told for key in one.whole.concepts}
        lost = self._list_lost(support)
        known = {key for one in self._sources for key in one.claim.whole.concepts}
        is_denied = any(part.denials for one in support for part in one.claim.clauses)
        new += [
            key
            for key, side in claim.whole.concepts.items()
            if key not in known and not (is_denied and side and key in DENYING)
        ]
        lost += [key for one in support for key in one.claim.whole.concepts.keys() - concepts]
        told = ClaimFinding("statement", source.index, number, told=claim.text)
        parts = [
            clause
            for number, clause in enumerate(claim.clauses)
            if (number or len(claim.clauses) == 1)  # an opening may say what it is about
            and not any(map(is_bare_value, claim.clauses[number + 1 : number + 2]))
        ]
        if any(is_foreign(part, support, self._all_content, few=bool(lost)) for part in parts):
            # What is lost may be said in other words here.
            (self._unjudged if len(lost) > _FEW_LOST else self._invented).append(told)
        elif len(new) >= MANY_NEW <= sum(len(one.claim.whole.content) for one in support) and (
            not lost
        ):
            named = claim.clauses[1:] if ":" in claim.text else claim.clauses
            is_added = any(is_mostly_new(part, new) for part in named)
            (self._invented if is_added else self._unjudged).append(told)
        if any(finding.sentence == number for finding in self._changed):
            return
        word = ClaimFinding("word", source.index, number, source.claim.text, claim.text)
        if is_contrasted(claim, source.claim) or is_name_replaced(
            claim, source.claim, self._all_content, self._told_content
        ):
            self._changed.append(word)
        elif is_word_replaced(claim, source.claim):
            is_place = is_place_replaced(claim, source.claim)
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
