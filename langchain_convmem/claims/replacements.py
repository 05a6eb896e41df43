"""Whether a restatement puts another word, name or place in place of its source's. Pure."""

# ruff: noqa: RUF001 - signs of the languages themselves

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from langchain_convmem.claims.findings import SourceClaim
from langchain_convmem.claims.lexicon import Lexicon, get_lexicon, stem_word
from langchain_convmem.claims.likeness import MANY_NEW, VERB_LAST, count_alike, holds_key
from langchain_convmem.claims.numbers import replace_number_words
from langchain_convmem.claims.polarity import has_denial
from langchain_convmem.claims.reading import Claim, Clause, Item

_BEGINNING = 5
"""So many first letters does a word keep whose stem changes."""


def is_foreign(
    clause: Clause, support: Sequence[SourceClaim], known: frozenset[str], *, few: bool
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
    if any(holds_key(known, key) for key in clause.content) or _is_akin(clause, support):
        return False
    concepts = {key for source in support for key in source.claim.whole.concepts}
    return not clause.concepts.keys() & concepts


def is_bare_value(clause: Clause) -> bool:
    """Return whether a clause is a value alone, of which the one before it says what it is."""
    return bool(clause.values) and not clause.content and not clause.concepts


def _is_akin(clause: Clause, support: Sequence[SourceClaim]) -> bool:
    """Return whether a clause has a word that begins as one of its source: a verb's other form."""
    begun = {key[:_BEGINNING] for one in support for key in one.claim.whole.content}
    return any(len(key) > _BEGINNING and key[:_BEGINNING] in begun for key in clause.content)


def is_mostly_new(clause: Clause, new: Collection[str]) -> bool:
    """Return whether a clause tells several things that its source does not."""
    keys = [*clause.content, *clause.concepts]
    count = sum(key in new for key in keys)
    if clause.language == "chinese":
        count //= 2  # pairs of characters overlap
    is_anchored = clause.language != "german" and any(name not in new for name in clause.names)
    is_most = 3 * count > 2 * len(keys) if is_anchored else 2 * count >= len(keys)
    return count >= MANY_NEW and is_most


def is_contrasted(told: Claim, said: Claim) -> bool:
    """Return whether another one of several things is told: "green" where "blue" was said."""
    lexicon = get_lexicon(told.language)
    if has_denial(told) != has_denial(said):
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


def is_place_replaced(told: Claim, said: Claim) -> bool:
    """Return whether the replaced word is one that names: it follows a preposition directly."""
    new = [key for key in told.whole.content if not holds_key(said.whole.content, key)]
    lost = [key for key in said.whole.content if not holds_key(told.whole.content, key)]
    if told.language == "chinese":
        start = count_alike(*(_PERSONAL.sub("", _strip_values(claim)) for claim in (told, said)))
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


def is_name_replaced(
    told: Claim, said: Claim, known: frozenset[str], everything: frozenset[str]
) -> bool:
    """Return whether what is called so, or where it goes, is another in the same words."""
    one, two = _find_named(told), _find_named(said)
    return any(
        not holds_key(known, one[mark]) and not holds_key(everything, two[mark])
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
    has_capitals = any(map(str.isupper, claim.text))
    return {
        " ".join(match[1].lower().split()): stem_word(match[2].lower(), claim.language)
        for match in pattern.finditer(claim.text)
        if match[2].lower() not in get_lexicon(claim.language).function_words
        # "Frau Kühn", but not "die Frau kündigt"; who writes all in lower case writes names so.
        and not (has_capitals and match[2].islower() and _TITLE.fullmatch(match[1]))
    }


_TITLE = re.compile(_TITLED, re.IGNORECASE)


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


def is_word_replaced(told: Claim, said: Claim) -> bool:
    """Return whether a sentence is its source but for one word in the same place."""
    if told.language == "chinese":
        return _is_run_replaced(_strip_values(told), _strip_values(said))
    new = [key for key in told.whole.content if not holds_key(said.whole.content, key)]
    lost = [key for key in said.whole.content if not holds_key(told.whole.content, key)]
    if len(new) != 1 or len(lost) != 1 or told.whole.concepts != said.whole.concepts:
        return False
    if _may_be_verb(told, new[0]):
        return False
    return _find_neighbours(told, new[0]) == _find_neighbours(said, lost[0])


def _is_run_replaced(told: str, said: str) -> bool:
    """Return whether one short run of characters differs inside an otherwise equal sentence."""
    one, two = (_PERSONAL.sub("", text) for text in (told, said))
    start = count_alike(one, two)
    end = count_alike(one[start:][::-1], two[start:][::-1])
    middle = one[start : len(one) - end], two[start : len(two) - end]
    return end > 0 and all(0 < len(part) <= _LONGEST_RUN for part in middle) and start + end > 3  # noqa: PLR2004


def _strip_values(claim: Claim) -> str:
    """Return a sentence without its values, which may be written in many ways."""
    text = replace_number_words(claim.text, claim.language)
    for value in claim.whole.values:
        text = text.replace(value.text, "")
    return text


_PERSONAL = re.compile(r"[我你您他她们的了\s。,.!?、，！？]|用户|客户|助手")

_LONGEST_RUN = 3


def _may_be_verb(claim: Claim, key: str) -> bool:
    """Return whether a word stands where its language has the verb, of which there are many."""
    items = [item for item in claim.items if item.kind not in ("passive", "third", "by", "not")]
    place = next(number for number, item in enumerate(items) if item.key == key)
    if claim.language in VERB_LAST:
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
