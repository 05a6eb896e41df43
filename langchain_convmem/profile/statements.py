"""Which sentences of a message are standing statements of its user: kind, slot, value, days. Pure.

A standing statement says something of the user that holds for weeks, names a day that is to come,
or tells the assistant how to answer from now on. Each language has a file of rules beside this
module (`rules/*.toml`); of any other language nothing is read.

What is pasted, quoted, forwarded or handed over to be worked on is nobody's statement here. Neither
is a question, what is only supposed, what others are said to say, a joke, or what a story tells.
"""

# ruff: noqa: E501 - expressions in several languages

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from langchain_convmem.words.dates import NAMES_OF_TIMES, Span, find_named_days
from langchain_convmem.words.speech import (
    HAS_WORD,
    is_courtesy,
    list_spoken_languages,
    lower_in_place,
    split_pieces,
    split_words,
)

ItemKind: TypeAlias = Literal[
    "instructions",
    "identity",
    "health",
    "people",
    "places",
    "work",
    "plans",
    "tastes",
    "possessions",
]
"""What a standing statement is about; `people` holds pets as well, `health` diets."""

KINDS: tuple[ItemKind, ...] = get_args(ItemKind)
"""The kinds, first those that matter in every conversation."""

LANGUAGES = ("english", "german", "french", "spanish", "italian")
"""The languages with rules."""

LONGEST_TEXT = 20_000
"""Characters of a message that are read; what is longer is hardly typed."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence in which users say something lasting of themselves, or how to be answered.

    Attributes:
        start: Where the sentence begins in the text.
        end: Where it ends.
        kind: What it is about.
        slot: What it fills, such as "home" or "favourite:tea"; empty where no rule can tell.
            A later statement of the same slot takes its place.
        value: What it fills it with, verbatim; empty where no rule can tell.
        days: The first stretch of days that its clause names, milliseconds since the epoch, as
            seen from when it was said; of a plan, one that is not over then.
        ends: Whether it says that its value is over, or that there is none.
        adds: Whether it adds to what was said of its slot ("I also have a van").
        changes: Whether it says that something is new or otherwise ("now", "moved to the 20th").
    """

    start: int
    end: int
    kind: ItemKind
    slot: str = ""
    value: str = ""
    days: Span | None = None
    ends: bool = False
    adds: bool = False
    changes: bool = False


def read_statements(text: str, said_ms: int = 0) -> list[Statement]:
    """Return the standing statements of a message, in order; at most one of a kind per clause.

    Args:
        text: What the user said, whole.
        said_ms: When, milliseconds since the epoch; days are named as seen from then.
    """
    if len(text) > LONGEST_TEXT or is_courtesy(text):
        return []
    known = map(get_rules, dict.fromkeys(_list_languages(text)))
    readers = (_SentenceReader(text, said_ms, rules) for rules in known if rules is not _NO_RULES)
    return next(filter(None, (list(reader.read()) for reader in readers)), [])


def find_own_sentence(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Return where the sentence stands in which users say a piece of their message themselves.

    None if the piece is none of their own words, or is not meant: quoted, pasted, handed over to be
    worked on, asked, supposed, reported, a joke or a story. In languages without rules, what marks
    show is seen, and the words are not.

    Args:
        text: What the user said, whole.
        start: Where the piece begins in it.
        end: Where it ends.
    """
    if len(text) > LONGEST_TEXT or not 0 <= start < end <= len(text):
        return None
    return _SentenceReader(text, 0, get_rules(_list_languages(text)[0])).find_sentence(start, end)


def _list_languages(text: str) -> list[str]:
    """Return the languages that a message may be written in, the likeliest first."""
    lowered = lower_in_place(text)
    return list_spoken_languages(lowered, split_words(_FENCED.sub(" ", lowered)))


def find_coming_days(text: str, said_ms: int) -> Span | None:
    """Return the first days that a text names and that were not over when it was said."""
    tomorrow_ms = said_ms - said_ms % _DAY_MS + _DAY_MS
    return next((days for days in find_named_days(text, said_ms) if days[1] > tomorrow_ms), None)


# -- the rules of a language, compiled ---------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a clause says when it matches; see `rules/english.toml`.

    An instruction is read to the end of its sentence.
    """

    match: re.Pattern[str]
    kind: ItemKind = "instructions"
    slot: str = ""
    unless: re.Pattern[str] | None = None
    needs: re.Pattern[str] | None = None
    value_end: re.Pattern[str] | None = None
    capital: bool = False
    opens: bool = False
    dated: bool = False
    ends: bool = False
    anywhere: bool = False
    long: bool = False

    def find(self, said: str) -> re.Match[str] | None:
        """Return what the rule finds in a clause, if what else is said lets it hold."""
        match = self.match.search(said) if self.anywhere else self.match.match(said)
        if match is None or (self.unless and self.unless.search(said)):
            return None
        return match if self.needs is None or self.needs.search(said) else None


class StatementRules(NamedTuple):
    """The rules of one language; of what ends, the first of `kinds` that is found is the kind."""

    language: str
    frames: Mapping[str, re.Pattern[str]]
    statements: tuple[Rule, ...]
    kinds: tuple[tuple[ItemKind, re.Pattern[str]], ...]
    instructions: tuple[Rule, ...]
    topics: tuple[tuple[str, re.Pattern[str]], ...]


_MACRO = re.compile(r"\{\{(\w+)\}\}")
_NEVER = re.compile(r"(?!)")
_NO_RULES = StatementRules("", defaultdict(lambda: _NEVER), (), (), (), ())
"""What is left of a language that has no rules: marks, which many languages share."""


@cache
def get_rules(language: str) -> StatementRules:
    """Return the rules of a language; those that only see marks if it has none."""
    if language not in LANGUAGES:
        return _NO_RULES
    source = files(__package__).joinpath("rules", f"{language}.toml").read_text("utf-8")
    data = tomllib.loads(source)
    parts: Mapping[str, str] = data["parts"]
    lead = data["frames"]["lead"]
    return StatementRules(
        language,
        {name: _compile(text, parts) for name, text in data["frames"].items()},
        tuple(
            _make_rule(rule, parts, r"\b" if rule.get("anywhere") else f"(?:{lead})?")
            for rule in (*({"ends": True, **stop} for stop in data["stop"]), *data["rule"])
        ),
        tuple((kind, _compile(text, parts)) for kind, text in data["stop_kinds"].items()),
        tuple(_make_rule(rule, parts) for rule in data["instruction"]),
        tuple((topic["name"], _compile(topic["match"], parts)) for topic in data["topic"]),
    )


def _make_rule(given: Mapping[str, Any], parts: Mapping[str, str], lead: str = "") -> Rule:
    """Return a rule; what it matches may stand after what leads in: a clause, or a word."""
    rule = {**given, "match": f"{lead}(?:{given['match']})"}
    expressions = {"match", "unless", "needs", "value_end"} & rule.keys()
    return Rule(**{**rule, **{name: _compile(rule[name], parts) for name in expressions}})


def _compile(text: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    """Return an expression with the parts that it names in their places."""
    while _MACRO.search(text):
        text = _MACRO.sub(lambda name: parts[name[1]], text)
    return re.compile(text)


# -- what of a message is not the user's own words ----------------------------------------------

_BLANK = "\u25a1"
"""Stands for a character that somebody else said; part of no word."""
_QUOTATION = re.compile(
    r"(?<!\d)\"[^\"\n]{1,2000}\"|\u201c[^\u201c\u201d]{1,2000}\u201d|\u201e[^\u201c-\u201e]{1,2000}[\u201c\u201d]"
    r"|\u00ab[^\u00ab\u00bb]{1,2000}\u00bb|`[^`\n]+`"
    r"|(?<![\w'])'[^'\n]{2,}+(?:'\w[^'\n]*+){0,8}'(?![\w'])"
)
_LONGEST_NAME = 3
"""A quotation of so many words may be a name, if nobody speaks in it."""
_SPEAKS = re.compile(
    r"\b(?:i|i'm|im|my|me|we|our|you|always|never|ich|mein\w*|wir|je|j'|mon|ma|nous|yo|mi|soy|io"
    r"|sono|ho|sempre|nunca|siempre|toujours|jamais|immer|nie)\b"
)
_REST_IS_FOREIGN = re.compile(
    r"^[ \t]*(?:-{2,}\s*(?:forwarded|original|weitergeleitete|urspr\u00fcngliche|mensaje"
    r"|message|messaggio|d\u00e9but)\b.*|begin forwarded message.*|.{0,120}\bwrote:\s*$|.{0,120}\bschrieb\b"
    r".{0,80}:\s*$|.{0,120}\ba \u00e9crit\s?:\s*$|.{0,120}\bescribi\u00f3:\s*$|.{0,120}\bha scritto:\s*$"
    r"|(?:subject|betreff|asunto|objet|oggetto)\s?:.*"
    r"|(?:from|von|de|da)\s?:[^\n]*\n[ \t]*(?:to|sent|date|cc|subject|an|gesendet|datum|betreff|para"
    r"|enviado|fecha|asunto|\u00e0|envoy\u00e9|objet|a|inviato|data|oggetto)\s?:.*)",
    re.MULTILINE,
)
_MACHINE_LINE = re.compile(
    r"^[ \t]*(?:>[^\n]*|[\[{<|#$%/\\;][^\n]*|\d{4}-\d\d-\d\d[t ][\d:.]+[^\n]*|(?:error|warn|info|debug"
    r"|traceback|exception|system|assistant|user|human|ai|bot|tool)\b\s?[:\]\[][^\n]*|at [\w.$]+\([^\n]*"
    r"|(?:const|let|var|def|class|import|select|insert|function|return|print|public|private)\b[^\n]*"
    r"[;({=][^\n]*)$",
    re.MULTILINE,
)

_SPEAKER = r"(?:(?:my|the|our|his|her|their) )?[\w.'-]+(?: [\w.'-]+)?"
_ATTRIBUTION = re.compile(
    r"(?!(?:as|that|like|enough)\b|.*\b(?:i|we|ich|wir|je|yo|io|gp|(?:doc|dentist|nurse|m[\u00e9e]d[ie]c|dott)\w*"
    rf"|\w*(?:arzt|\u00e4rztin))\b)(?:{_SPEAKER} (?:(?:always|just|has) )?(?:said|says|(?:told|tells) (?:me|us)|wrote|sagte?)"
    rf"|(?:said|says|wrote|sagte?|meinte?|schrieb|(?:m')?a dit|dit|(?:me |mi )?(?:dijo|dice|ha dicho|ha detto|disse))[ -]{_SPEAKER}"
    rf"|hat {_SPEAKER} (?:gesagt|gemeint))"
)
"""What stands last in a sentence that somebody else said: "my boss told me", "sagte Mia"."""
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_COLON = re.compile(r":(?=[ \t]*\n|[ \t]+\S)")


def _mask_foreign(lowered: str, rules: StatementRules) -> str:
    """Return a lowered message in which other people's words are blanks, each in its place."""
    masked = _FENCED.sub(_blank, lowered)
    rest = _REST_IS_FOREIGN.search(masked)
    if rest is not None:
        masked = _blank_between(masked, rest.start(), len(masked))
    masked = _MACHINE_LINE.sub(_blank, masked)
    masked = _QUOTATION.sub(_blank_speech, masked)
    return _mask_worked_on(masked, rules)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", _BLANK, match[0])


def _blank_between(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", _BLANK, text[start:end]) + text[end:]


def _blank_speech(match: re.Match[str]) -> str:
    """Return a quotation as blanks, unless it can be a name that somebody wants to be called."""
    is_name = len(match[0].split()) <= _LONGEST_NAME and not _SPEAKS.search(match[0])
    return match[0] if is_name else _blank(match)


def _mask_worked_on(masked: str, rules: StatementRules) -> str:
    """Return a message without what follows a request to work on it, or "she texted me:"."""
    start = 0
    for line in masked.split("\n"):
        end = start + len(line)
        for colon in _COLON.finditer(masked, start, end + 1):
            head = re.split(r"[.!?]\s", masked[start : colon.start()][-_LONGEST_REST:])[-1]
            if rules.frames["foreign"].search(head):
                is_whole = bool(masked[colon.end() : end].strip())
                return _blank_between(masked, colon.end(), end if is_whole else len(masked))
        if rules.frames["work"].search(line):
            return _blank_between(masked, end, len(masked))
        start = end + 1
    return masked


# -- sentences and clauses ----------------------------------------------------------------------

_CLAUSE_END = re.compile("[,;:](?=\\s|$)|[()\u2014\u2013]|\\s-\\s|\\s/\\s|\u2026|\\.\\.\\.")
_DATED_END = re.compile(r"(?<=\d\.)\s+(?=[A-Z\u00c0-\u00de])")
_ENDS_ASKING = re.compile(r"[?\uff1f\u061f][\s!?.\"'\u201d\u2019\u00bb)]*\Z")
_LONGEST_REST = 400
"""Characters from the beginning of a clause on that a statement may take, or before a colon that
its head may: each is read once for every clause or colon."""
_JOINTS = " ,;:-\n"
"""What joins clauses and belongs to none of them."""
_AFTERTHOUGHT = 5
"""Words of a sentence that takes back the one before it: "just kidding"."""


class _Clause(NamedTuple):
    """A clause by where it stands in its sentence, and whether it only runs on from a question."""

    start: int
    end: int
    runs_on: bool


class _ClauseWords(NamedTuple):
    """A clause that may state something.

    Attributes:
        said: The clause.
        rest: The clause, and what follows it in its sentence, up to `_LONGEST_REST` characters.
        before: The clause before it; empty for the first.
        offset: Where it begins in the message.
        start: Where it would begin with what opens it, such as "ok so".
    """

    said: str
    rest: str
    before: str
    offset: int
    start: int


class _SentenceReader:
    """Reads the sentences of one message, one after the other."""

    def __init__(self, text: str, said_ms: int, rules: StatementRules) -> None:
        self.rules = rules
        self._text = text
        self._frames = rules.frames
        self._said_ms = said_ms
        self._masked = _mask_foreign(lower_in_place(text), rules)

    def read(self) -> Iterator[Statement]:
        """Yield the statements, in order."""
        spans = list(self._split_sentences())
        for number, span in enumerate(spans):
            sentence = self._masked[slice(*span)]
            if not (self._is_unreal(sentence) or self._is_joke(spans, number)):
                yield from self._read_facts(span, sentence)
                yield from self._read_instruction(span[0], sentence)

    def find_sentence(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where the sentence around a piece stands, if its user says and means it.

        Of a sentence that ends in a question, the clauses before it that state something.
        """
        spans = list(self._split_sentences())
        for number, (begin, stop) in enumerate(spans):
            if begin <= start and end <= stop:
                sentence = self._masked[begin:stop]
                is_masked = _BLANK in self._masked[start:end]
                if is_masked or self._is_unreal(sentence) or self._is_joke(spans, number):
                    return None
                said = self._find_stated(sentence, end - begin)
                return None if said is None else (begin, begin + said)
        return None

    def _find_stated(self, sentence: str, end: int) -> int | None:
        """Return how far a sentence states what stands before `end` in it; None if it does not."""
        is_question = _ENDS_ASKING.search(sentence) is not None
        clauses = list(self._split(sentence))
        for clause in clauses:
            said = self._strip(sentence[clause.start : clause.end])
            asks = self._frames["question"].match(said) is not None
            if asks or (is_question and clause is clauses[-1]) or self._is_not_meant(said):
                return None
            if end <= clause.end:
                return clause.end if is_question else len(sentence)
        return None

    def _is_joke(self, spans: Sequence[tuple[int, int]], number: int) -> bool:
        """Return whether a sentence is a joke, or taken back by the next one."""
        said, *follows = [self._masked[start:end] for start, end in spans[number : number + 2]]
        return self._frames["joke"].search(said) is not None or any(
            self._frames["joke"].search(one) and len(one.split()) <= _AFTERTHOUGHT
            for one in follows
        )

    def _is_unreal(self, sentence: str) -> bool:
        """Return whether a sentence is a story's or somebody else's, or would have one obeyed."""
        said, _, last = sentence.rpartition(",")
        if said and _ATTRIBUTION.fullmatch(self._strip(last)):
            return True
        return any(self._frames[name].search(sentence) for name in ("hostile", "fiction"))

    def _split_sentences(self) -> Iterator[tuple[int, int]]:
        """Yield where the user's own sentences stand; "on May 3. The ..." are two."""
        for piece in split_pieces(self._masked):
            start = piece.start
            if not piece.is_pasted and self.rules.language != "german":
                for cut in _DATED_END.finditer(self._text, start, piece.end):
                    yield start, cut.start()
                    start = cut.end()
            if not piece.is_pasted:
                yield start, piece.end

    # -- facts ------------------------------------------------------------------------------------

    def _read_facts(self, span: tuple[int, int], sentence: str) -> Iterator[Statement]:
        clauses = list(self._split(sentence))
        is_question = _ENDS_ASKING.search(sentence) is not None
        has_asked = False
        before = ""
        found: list[tuple[int, Statement]] = []
        others: set[int] = set()  # the clauses that ask or state
        for number, clause in enumerate(clauses):
            said = self._strip(sentence[clause.start : clause.end][:_LONGEST_REST])
            expert = self._frames["expert"].match(said)
            if expert is not None:
                said = said[expert.end() :]
            elif self._is_not_meant(said):
                break
            asks = self._frames["question"].match(said) is not None
            ends_asking = is_question and not has_asked and number == len(clauses) - 1
            if asks or ends_asking or (clause.runs_on and has_asked):
                has_asked = has_asked or asks
                others.add(number)
            else:
                at = sentence.index(said, clause.start)
                rest = sentence[at : at + _LONGEST_REST]
                words = _ClauseWords(said, rest, before, span[0] + at, span[0] + clause.start)
                matched = [(number, one) for one in self._match_clause(words)]
                found += matched
                others.update(place for place, _ in matched)
            before = said
        borders = sorted({-1, *others, len(clauses)})
        gaps = {
            here: (last + 1, after - 1)
            for last, here, after in zip(borders, borders[1:], borders[2:], strict=False)
        }
        for number, statement in found:
            first, last = gaps[number]
            start = span[0] + (clauses[first].start if first else 0)
            end = span[1] if last == len(clauses) - 1 else span[0] + clauses[last].end
            yield self._trim(statement, start, end)

    def _trim(self, statement: Statement, start: int, end: int) -> Statement:
        """Return a statement as what stands between two places, without the signs around it."""
        said = self._text[start:end].lstrip(_JOINTS)
        start = end - len(said)
        return replace(statement, start=start, end=start + len(said.rstrip(_JOINTS)))

    def _is_not_meant(self, said: str) -> bool:
        """Return whether a clause and what follows it is supposed, or said by somebody else."""
        return bool(self._frames["hypothetical"].match(said)) or self._is_reported(said)

    def _is_reported(self, said: str) -> bool:
        frames = self._frames
        return bool(frames["reported"].match(said)) and not frames["not_reporting"].match(said)

    def _match_clause(self, words: _ClauseWords) -> Iterator[Statement]:
        frames, said = self._frames, words.said
        if not said or frames["asking"].match(said) or frames["hyperbole"].search(said):
            return
        hidden: frozenset[ItemKind] = frozenset()
        if frames["former"].search(said):
            hidden = _NEEDS_TO_LAST | {"places", "work"}
        elif frames["passing"].search(said):
            hidden = _NEEDS_TO_LAST
        seen: set[str] = set()
        for rule in self.rules.statements:
            if rule.kind in seen or (rule.kind in hidden and not rule.ends):
                continue
            statement = self._apply(rule, words)
            if statement is not None:
                seen.add(rule.kind)
                yield statement
                if rule.dated or rule.ends:
                    return

    def _apply(self, rule: Rule, words: _ClauseWords) -> Statement | None:
        match = rule.find(words.rest if rule.long else words.said)
        if match is None or match.start() >= len(words.said):
            return None
        if rule.opens and not self._opens(words.start):
            return None
        value = self._read_value(rule, match, words.offset)
        if rule.capital and not self._is_name(value):
            return None
        days = self._find_days(words, is_planned=rule.dated)
        if rule.dated and days is None:
            return None
        said = match.string[: _find_group(match, "value")[1]]
        ended = (kind for kind, sign in self.rules.kinds if rule.ends and sign.search(said))
        names = {
            name: normalize_value(match.string[slice(*_find_group(match, name))])
            for name in ("what", "who")
        }
        return Statement(
            start=words.offset,
            end=words.offset,
            kind=next(ended, "tastes" if rule.ends else rule.kind),
            slot=rule.slot.format(value=normalize_value(value), **names),
            value=value,
            days=days,
            ends=rule.ends,
            adds=self._frames["also"].search(words.said) is not None,
            changes=self._frames["change"].search(words.said) is not None,
        )

    def _opens(self, start: int) -> bool:
        """Return whether nothing but a greeting stands before a place."""
        before = self._masked[:start]
        return HAS_WORD.search(before) is None or is_courtesy(before)

    def _read_value(self, rule: Rule, match: re.Match[str], offset: int) -> str:
        start, end = _find_group(match, "value")
        if rule.value_end is not None:
            end = start + len(rule.value_end.sub("", match.string[start:end]))
        return self._text[offset + start : offset + end].strip()

    def _is_name(self, value: str) -> bool:
        """Return whether a value is written like a name, and is no other word with a capital."""
        words, lowered = value.split(), value.lower()
        return (
            bool(words)
            and all(word[0].isupper() or _SMALL_WORD.fullmatch(word.lower()) for word in words)
            and self._frames["not_name"].match(lowered) is None
            and lowered not in NAMES_OF_TIMES
        )

    def _find_days(self, words: _ClauseWords, *, is_planned: bool) -> Span | None:
        """Return the first days that a clause names, or for a plan, that were not over then."""
        if not is_planned:
            return next(iter(find_named_days(words.said, self._said_ms, aim="near")), None)
        coming = (find_coming_days(text, self._said_ms) for text in (words.said, words.before))
        return next(filter(None, coming), None)

    # -- instructions -----------------------------------------------------------------------------

    def _read_instruction(self, start: int, sentence: str) -> Iterator[Statement]:
        """Yield the standing instruction of a sentence; clauses are read on to the end of it."""
        frames = self._frames
        before = ""
        for clause in self._split(sentence):
            said = self._strip(sentence[clause.start : clause.start + _LONGEST_REST])
            goes_on = frames["describes"].match(f"{before}\n{said}") is not None
            before = self._strip(sentence[clause.start : clause.end])
            if goes_on:
                continue  # "She's always late, always sorry"
            if frames["hypothetical_instruction"].match(said) or self._is_reported(said):
                return
            # "From now on" outweighs "here"; "this time" outweighs the rest.
            rules = () if frames["once"].search(said) else self.rules.instructions
            for rule in rules:
                match = rule.find(said)
                if match is not None:
                    offset = start + sentence.index(said, clause.start)
                    value = self._read_value(rule, match, offset)
                    stop = start + len(sentence.rstrip(_JOINTS))
                    slot = rule.slot or self._find_topic(said)
                    yield Statement(start, stop, "instructions", slot, value)
                    return

    def _find_topic(self, said: str) -> str:
        """Return the slot of an instruction that counts always; one with a condition has none."""
        if self._frames["conditional"].search(said):
            return ""
        return next(
            (f"instruction:{name}" for name, topic in self.rules.topics if topic.search(said)), ""
        )

    # -- clauses ----------------------------------------------------------------------------------

    def _split(self, sentence: str) -> Iterator[_Clause]:
        """Yield the clauses of a sentence: parted by signs, by words that join, and run on."""
        signs = [sign.span() for sign in _CLAUSE_END.finditer(sentence)]
        for (_, begin), (end, _) in pairwise([(0, 0), *signs, (len(sentence), 0)]):
            if not sentence[begin:end].strip():
                continue
            start, runs_on = begin, False
            for joint in self._frames["joint"].finditer(sentence, begin, end):
                if joint.start() > start:
                    yield _Clause(start, joint.start(), runs_on)
                start, runs_on = joint.end(), True
            yield _Clause(start, end, runs_on)

    def _strip(self, clause: str) -> str:
        """Return a clause without what opens it, such as "ok so", and the signs around it."""
        opening = self._frames["opening"].match(clause)
        return clause[opening.end() if opening else 0 :].strip(
            " \t\r\n.!?\u2026\"'*_-\u25a1\u00bf\u00a1"
        )


_DAY_MS = 24 * 3_600_000
_NEEDS_TO_LAST: frozenset[ItemKind] = frozenset({"tastes", "health", "possessions"})
_SMALL_WORD = re.compile(r"de|la|van|von|der|den|di|da|del|dos|du|le|and|und|et|y|e|st")
_ARTICLES = re.compile(
    r"^(?:a|an|the|my|our|your|some|any|der|die|das|den|dem|ein|eine|einen|einem|mein\w*|unser\w*|le"
    r"|la|les|l'|un|une|du|des|mon|ma|mes|de|d'|el|los|las|una|mi|mis|il|lo|i|gli|uno|mio|mia)\s+"
)


def normalize_value(value: str) -> str:
    """Return a value as it is compared: in lowercase, without articles and signs around it."""
    bare = value.lower().replace("\u2019", "'").strip(" \t\n.,;:!?\"'()*_-")
    while (shorter := _ARTICLES.sub("", bare)) != bare:
        bare = shorter
    return " ".join(bare.split())


def _find_group(match: re.Match[str], name: str) -> tuple[int, int]:
    """Return where the group of a name stands, or that of its first numbered namesake that does."""
    for group in match.re.groupindex:
        if group.rstrip("0123456789") == name and match[group] is not None:
            return match.span(group)
    return 0, 0
