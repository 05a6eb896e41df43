"""Whether a restatement changes who does what to whom. Pure."""

# ruff: noqa: RUF001 - signs of the languages themselves

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import combinations

from langchain_convmem.claims.findings import FoundChanges, SourceClaim
from langchain_convmem.claims.lexicon import UNSPACED
from langchain_convmem.claims.likeness import holds_key, score_clauses, score_content
from langchain_convmem.claims.reading import Cast, Claim, Clause, find_cast

_SURE_PERSONS = frozenset({"user", "assistant", "kin", "third"})


def find_roles_changed(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
    """Yield the sources in which somebody else does what a claim tells."""
    said = support[0].claim
    names = claim.whole.names | said.whole.names
    for clause in claim.clauses:
        best = max(
            said.clauses,
            key=lambda part: (
                part.directions == clause.directions,
                score_content((), clause.values, part),
                score_clauses(clause, part),
            ),
        )
        casts = find_cast(clause, names), find_cast(best, names)
        if any(_is_said_by(claim, clause, source, best) for source in support[1:]):
            continue
        is_told_elsewhere = casts[1].agent in claim.whole.content
        if score_clauses(clause, best) and (
            _is_role_changed(*casts, is_told_elsewhere) or _is_subject_changed(*casts, names)
        ):
            yield "role", support[0]


def _is_said_by(claim: Claim, clause: Clause, source: SourceClaim, best: Clause) -> bool:
    """Return whether another sentence says as much of a clause, of the same person."""
    names = claim.whole.names | source.claim.whole.names
    agent = find_cast(clause, names).agent
    return any(
        score_clauses(clause, part) >= score_clauses(clause, best) - 1
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
        is_same = 2 * score_clauses(told.clause, said.clause) >= len(told.clause.content)
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
    return all(holds_key(said.content, key) for key in told.content)


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


def find_agents_exchanged(claim: Claim, support: Sequence[SourceClaim]) -> FoundChanges:
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
    return sum(holds_key(two.content - names, key) for key in one.content - names)


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
