"""Whether a restatement exchanges names, values, sides or order of its source. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations

from langchain_convmem.claims.findings import FoundChanges, SourceClaim
from langchain_convmem.claims.likeness import CONVERSES, holds_key, score_clauses, score_content
from langchain_convmem.claims.reading import Claim, Clause, Item, is_same_stem
from langchain_convmem.claims.values import Value


def find_swaps(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
    """Yield the sources two of whose clauses have exchanged their values or names."""
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
    own = score_clauses(one, first), score_clauses(two, second)
    crossed = _score_moved(one, first, second), _score_moved(two, second, first)
    if not all(own) or not all(crossed):
        return False
    moved = score_clauses(one, second) + score_clauses(two, first)
    return sum(own) >= moved


def _score_moved(clause: Clause, own: Clause, other: Clause) -> float:
    """Return how much of a clause stands in another one of the source than its own."""
    content = [key for key in clause.content if not holds_key(own.content, key)]
    values = [v for v in clause.values if not any(v.matches(one) for one in own.values)]
    return score_content(content, values, other)


def find_sides_exchanged(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
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


def find_order_changed(
    claim: Claim, support: Sequence[SourceClaim], *, are_named: bool
) -> FoundChanges:
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
    keys = CONVERSES & one.concepts.keys() & two.concepts.keys()
    return any(one.concepts[key] != two.concepts[key] for key in keys)


def _is_origin(mark: str) -> bool:
    """Return whether a place stands after a preposition, whatever its letters: 从上海."""
    return mark == "从"


def _is_only_when(*items: Item) -> bool:
    """Return whether one of two items, which change places freely then, says when."""
    return sum(one.value is not None and one.value.kind in WHEN for one in items) == 1


WHEN = frozenset({"day", "date", "time"})


def _is_alone(item: Item, claim: Claim) -> bool:
    """Return whether a clause holds nothing else, as in "to nuts and penicillin"."""
    if item.value is not None and item.value.kind in WHEN:
        return False
    lists = [part.content for part in claim.clauses]
    place = next((n for n, part in enumerate(claim.clauses) if item in part.items), 0)
    return len(claim.clauses) > 1 and any(len(part) == 1 for part in lists[place : place + 2])


def find_names_exchanged(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
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


def find_values_exchanged(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
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


def find_routes_reversed(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
    """Yield where a way from one place to another is told the other way round."""
    pattern = _ROUTES.get(claim.language)
    if pattern is None:
        return
    for source in support:
        ways = [(match[1], match[2]) for match in pattern.finditer(source.claim.text)]
        if any((match[2], match[1]) in ways for match in pattern.finditer(claim.text)):
            yield "swap", source
            return


def find_particles_exchanged(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
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
