"""Whether a restatement denies, or says the opposite of, what its source says. Pure."""

# ruff: noqa: RUF001 - signs of the languages themselves

from __future__ import annotations

import re
from collections.abc import Sequence

from langchain_convmem.claims.findings import FindingKind, FoundChanges, SourceClaim
from langchain_convmem.claims.lexicon import UNSPACED
from langchain_convmem.claims.likeness import (
    ALIKE,
    CONVERSES,
    DENYING,
    VERB_LAST,
    holds_key,
    score_clauses,
)
from langchain_convmem.claims.reading import Claim, Clause, Item, find_cast

_DECISIONS = frozenset({"accept", "confirm", "buy", "hire", "win", "single"})

_SIGNS = frozenset({"passive", "by", "to", "from", "only", "not", "third", "user", "assistant"})


PENDING = re.compile(
    r"(?i)(?<!\w)(?:still (?:ha(?:s|ve)|needs?) to|yet to|still to be|moet(?:en)? (?:\w+ )?nog"
    r"|m(?:uss|üssen) noch|reste(?:nt)? à|faltan?|queda(?:n)? por|todavía hay que|deve ancora"
    r"|resta da|ainda (?:precisa|tem que|falta)"
    r"|ещ[её] (?:надо|нужно|предстоит)|(?:trzeba|musi) jeszcze|återstår)(?!\w)"
)
"""What is still to be done, which is another word for "not yet"."""


def find_reversals(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
    """Yield the sources of which a claim denies what they say, or says the opposite."""
    flips = []
    pairs = [(clause, source, part) for source in support for part in source.claim.clauses
             for clause in claim.clauses]  # fmt: skip
    for clause in claim.clauses:
        if len(clause.items) == 1 < len(claim.clauses):
            continue
        near = [pair for pair in pairs if pair[0] is clause]
        scores = [score_clauses(clause, pair[2]) for pair in near]
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
    is_denied_alike = has_denial(told) == has_denial(said)
    return any(
        all(side != other for side, _ in one[key] for other, _ in two[key])
        if is_denied_alike
        else {sum(pair) % 2 for pair in one[key]}.isdisjoint(sum(pair) % 2 for pair in two[key])
        for key in one.keys() & two.keys()
    )


def has_denial(claim: Claim) -> bool:
    """Return whether a claim denies anything, or tells of something as missing."""
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
    known = {key[:ALIKE] for key in (*plain.content, *plain.concepts)}
    items = _list_denied(denied)
    return not items or any(
        any(map(item.value.matches, plain.values))
        if item.value
        else item.key[:ALIKE] in known or any(_may_be_forms(item.key, key) for key in plain.content)
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
    if clause.language in VERB_LAST:
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
        score_clauses(clause, said.whole)
        > max(score_clauses(clause, part) for part in said.clauses)
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
        sum(side for key, side in clause.concepts.items() if key in DENYING)
        for clause in (one, two)
    ]
    plain = two if one.denials else one
    return None if any(implied) or any(plain.concepts.values()) else "polarity"


def _is_denied_by_word(one: Clause, two: Clause) -> bool:
    """Return whether a verb of its own may deny what the other one denies: "is forbidden"."""
    denied, plain = (one, two) if one.denials else (two, one)
    gone = [key for key in denied.content if not holds_key(plain.content, key)]
    new = [key for key in plain.content if not holds_key(denied.content, key)]
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
        holds_key(plain.content, item.key) or item.key in plain.concepts
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
    count = max(1, min(2, len(short) - 1)) if len(short) <= ALIKE + 1 else ALIKE
    return short[:count] == long[:count]


_HAN = re.compile("[\u4e00-\u9fff]")


def _strip_prefix(word: str) -> str:
    """Return an Arabic verb without the letter that says who does it, a participle without "ge"."""
    bare = word.lstrip("أآايتنو")
    if len(word) > len("ge") + ALIKE:
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
    if told.agent and not said.agent and one.whole.concepts.keys() & CONVERSES:
        return True  # "I sold it" may be "A bought it", as long as nobody knows who does it
    return bool(told.agent and said.agent and told.agent != said.agent) and (
        told.agent in said.roles and said.agent in told.roles
    )


_VERB_SECOND = frozenset({"german", "dutch", "swedish"})
