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
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, TypeAlias

from langchain_convmem.words.dates import NAMES_OF_TIMES, Span, find_named_days
from langchain_convmem.words.speech import (
    detect_spoken_language,
    is_courtesy,
    lower_in_place,
    split_pieces,
    split_words,
)

ItemKind: TypeAlias = Literal[
    "identity",
    "people",
    "places",
    "work",
    "health",
    "possessions",
    "tastes",
    "plans",
    "instructions",
]
"""What a standing statement is about; `people` holds pets as well, `health` diets."""

KINDS: tuple[ItemKind, ...] = (
    "instructions",
    "identity",
    "health",
    "people",
    "places",
    "work",
    "plans",
    "tastes",
    "possessions",
)
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
        ends: Whether it only says that what was said before is over.
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
    lowered = lower_in_place(text)
    rules = get_rules(_detect_language(lowered))
    if rules is None:
        return []
    return list(_SentenceReader(text, lowered, rules, said_ms).read())


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
    lowered = lower_in_place(text)
    rules = get_rules(_detect_language(lowered)) or _NO_RULES
    return _SentenceReader(text, lowered, rules, 0).find_sentence(start, end)


def find_coming_days(text: str, said_ms: int) -> Span | None:
    """Return the first days that a text names and that were not over when it was said."""
    tomorrow_ms = said_ms - said_ms % _DAY_MS + _DAY_MS
    return next((days for days in find_named_days(text, said_ms) if days[1] > tomorrow_ms), None)


def _detect_language(lowered: str) -> str:
    """Return the language of a message, of those with rules; else an empty text."""
    language = detect_spoken_language(lowered, split_words(_FENCED.sub(" ", lowered)))
    return language if language in LANGUAGES else ""


_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)


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
    sets: str = ""
    anywhere: bool = False
    long: bool = False

    def allows(self, said: str) -> bool:
        """Return whether what else is said lets the rule hold."""
        return not (self.unless and self.unless.search(said)) and (
            self.needs is None or self.needs.search(said) is not None
        )


class StatementRules(NamedTuple):
    """The rules of one language."""

    language: str
    frames: Mapping[str, re.Pattern[str]]
    statements: tuple[Rule, ...]
    instructions: tuple[Rule, ...]
    topics: tuple[tuple[str, re.Pattern[str]], ...]


_MACRO = re.compile(r"\{\{(\w+)\}\}")
_NEVER = re.compile(r"(?!)")
_NO_RULES = StatementRules("", defaultdict(lambda: _NEVER), (), (), ())
"""What is left of a language that has no rules: marks, which many languages share."""


@cache
def get_rules(language: str) -> StatementRules | None:
    """Return the rules of a language; None if it has none."""
    if language not in LANGUAGES:
        return None
    source = files(__package__).joinpath("rules", f"{language}.toml").read_text("utf-8")
    data = tomllib.loads(source)
    parts: Mapping[str, str] = data["parts"]
    lead = data["frames"]["lead"]
    return StatementRules(
        language,
        {name: _compile(text, parts) for name, text in data["frames"].items()},
        tuple(_make_rule({**rule, "match": _lead_in(rule, lead)}, parts) for rule in data["rule"]),
        tuple(_make_rule(rule, parts) for rule in data["instruction"]),
        tuple((topic["name"], _compile(topic["match"], parts)) for topic in data["topic"]),
    )


def _lead_in(rule: Mapping[str, Any], lead: str) -> str:
    """Return an expression with what it begins with: a word, or what may stand before a clause."""
    match = rule["match"]
    return rf"\b(?:{match})" if rule.get("anywhere") else f"(?:{lead})?(?:{match})"


def _make_rule(given: Mapping[str, Any], parts: Mapping[str, str]) -> Rule:
    expressions = {"match", "unless", "needs", "value_end"} & given.keys()
    return Rule(**{**given, **{name: _compile(given[name], parts) for name in expressions}})


def _compile(text: str, parts: Mapping[str, str]) -> re.Pattern[str]:
    """Return an expression with the parts that it names in their places."""
    while _MACRO.search(text):
        text = _MACRO.sub(lambda name: parts[name[1]], text)
    return re.compile(text)


# -- what of a message is not the user's own words ----------------------------------------------

_BLANK = "\u25a1"
"""Stands for a character that somebody else said; part of no word."""
_QUOTATION = re.compile(
    r"\"[^\"\n]{1,2000}\"|\u201c[^\u201c\u201d]{1,2000}\u201d|\u201e[^\u201c-\u201e]{1,2000}[\u201c\u201d]"
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


def _mask_foreign(text: str, lowered: str, rules: StatementRules) -> str:
    """Return a lowered message in which other people's words are blanks, each in its place."""
    masked = _FENCED.sub(_blank, lowered)
    rest = _REST_IS_FOREIGN.search(masked)
    if rest is not None:
        masked = masked[: rest.start()] + _blank_text(masked[rest.start() :])
    masked = _MACHINE_LINE.sub(_blank, masked)
    masked = _QUOTATION.sub(_blank_speech, masked)
    return _mask_worked_on(masked, rules) if len(text) == len(masked) else masked


def _blank(match: re.Match[str]) -> str:
    return _blank_text(match[0])


def _blank_text(text: str) -> str:
    return re.sub(r"[^\n]", _BLANK, text)


def _blank_speech(match: re.Match[str]) -> str:
    """Return a quotation as blanks, unless it can be a name that somebody wants to be called."""
    said = match[0]
    is_name = len(said.split()) <= _LONGEST_NAME and not _SPEAKS.search(said)
    return said if is_name else _blank_text(said)


_COLON = re.compile(r":(?=[ \t]*\n|[ \t]+\S)")


def _mask_worked_on(masked: str, rules: StatementRules) -> str:
    """Return a message without what follows a request to work on it, or "she texted me:"."""
    foreign, work = rules.frames["foreign"], rules.frames["work"]
    start = 0
    for line in masked.split("\n"):
        end = start + len(line)
        for colon in _COLON.finditer(masked, start, end + 1):
            head = _find_clause_before(masked, start, colon.start())
            if foreign.search(head):
                return _blank_after(masked, colon.end(), end)
        if end < len(masked) and work.search(line):
            return masked[:end] + _blank_text(masked[end:])
        start = end + 1
    return masked


def _find_clause_before(masked: str, start: int, end: int) -> str:
    """Return the sentence that ends with a colon, as far as it stands on its line."""
    line = masked[start:end]
    return re.split(r"[.!?]\s", line)[-1]


def _blank_after(masked: str, at: int, end: int) -> str:
    """Return a message with the rest of a line blank, or all the rest if the line ends there."""
    if masked[at:end].strip():
        return masked[:at] + _blank_text(masked[at:end]) + masked[end:]
    return masked[:at] + _blank_text(masked[at:])


# -- sentences and clauses ----------------------------------------------------------------------

_CLAUSE_END = re.compile("[,;:](?=\\s|$)|[()\u2014\u2013]|\\s-\\s|\\s/\\s|\u2026|\\.\\.\\.")
_DATED_END = re.compile(r"(?<=\d\.)\s+(?=[A-Z\u00c0-\u00de])")
_ENDS_ASKING = re.compile(r"[?\uff1f\u061f][\s!?.\"'\u201d\u2019\u00bb)]*\Z")
_LONGEST_REST = 400
"""Characters from the beginning of a clause on that a statement may take: each is read once for
every clause before it."""
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
        span: Where its sentence stands.
    """

    said: str
    rest: str
    before: str
    offset: int
    span: tuple[int, int]


class _SentenceReader:
    """Reads the sentences of one message, one after the other."""

    def __init__(self, text: str, lowered: str, rules: StatementRules, said_ms: int) -> None:
        self._text = text
        self._rules = rules
        self._said_ms = said_ms
        self._masked = _mask_foreign(text, lowered, rules)

    def read(self) -> Iterator[Statement]:
        """Yield the statements, in order."""
        spans = list(self._split_sentences())
        is_first = True
        for number, (start, end) in enumerate(spans):
            sentence = self._masked[start:end]
            if not self._is_joke(spans, number):
                yield from self._read_sentence(start, end, sentence, is_first=is_first)
            is_first = is_first and is_courtesy(sentence)

    def find_sentence(self, start: int, end: int) -> tuple[int, int] | None:
        """Return where the sentence around a piece stands, if its user says and means it.

        Of a sentence that ends in a question, the clauses before it that state something.
        """
        spans = list(self._split_sentences())
        for number, (begin, stop) in enumerate(spans):
            if begin <= start and end <= stop:
                sentence = self._masked[begin:stop]
                frames = self._rules.frames
                is_other = frames["hostile"].search(sentence) or frames["fiction"].search(sentence)
                if is_other or _BLANK in self._masked[start:end] or self._is_joke(spans, number):
                    return None
                said = self._find_stated(sentence, end - begin)
                return None if said is None else (begin, begin + said)
        return None

    def _find_stated(self, sentence: str, end: int) -> int | None:
        """Return how far a sentence states what stands before `end` in it; None if it does not."""
        is_question = _ENDS_ASKING.search(sentence) is not None
        clauses = list(self._split(sentence))
        for number, clause in enumerate(clauses):
            said = self._strip(sentence[clause.start : clause.end])
            asks = self._rules.frames["question"].match(said) is not None
            is_last = number == len(clauses) - 1
            if asks or (is_question and is_last) or self._is_not_meant(said):
                return None
            if end <= clause.end:
                return clause.end if is_question else len(sentence)
        return None

    def _is_joke(self, spans: Sequence[tuple[int, int]], number: int) -> bool:
        """Return whether a sentence is a joke, or taken back by the next one."""
        joke = self._rules.frames["joke"]
        start, end = spans[number]
        if joke.search(self._masked[start:end]):
            return True
        follows = ""
        if number + 1 < len(spans):
            follows = self._masked[spans[number + 1][0] : spans[number + 1][1]]
        return joke.search(follows) is not None and len(follows.split()) <= _AFTERTHOUGHT

    def _split_sentences(self) -> Iterator[tuple[int, int]]:
        """Yield where the user's own sentences stand; "on May 3. The ..." are two."""
        for start, end, is_pasted in split_pieces(self._masked):
            if is_pasted:
                continue
            cuts = []
            if self._rules.language != "german":
                cuts = [cut.span() for cut in _DATED_END.finditer(self._text, start, end)]
            starts = [start, *(following for _, following in cuts)]
            stops = [*(stop for stop, _ in cuts), end]
            yield from zip(starts, stops, strict=True)

    def _read_sentence(
        self, start: int, end: int, sentence: str, *, is_first: bool
    ) -> Iterator[Statement]:
        frames = self._rules.frames
        if frames["hostile"].search(sentence) or frames["fiction"].search(sentence):
            return
        found: set[ItemKind] = set()
        for statement in self._read_facts(start, end, sentence, is_first=is_first):
            if statement.kind not in found or statement.value:
                found.add(statement.kind)
                yield statement
        instruction = self._read_instruction(start, sentence)
        if instruction is not None:
            yield instruction

    # -- facts ------------------------------------------------------------------------------------

    def _read_facts(
        self, start: int, end: int, sentence: str, *, is_first: bool
    ) -> Iterator[Statement]:
        frames = self._rules.frames
        clauses = list(self._split(sentence))
        is_question = _ENDS_ASKING.search(sentence) is not None
        has_asked = False
        before = ""
        found: list[tuple[int, Statement]] = []
        asking: list[int] = []
        for number, clause in enumerate(clauses):
            said = self._strip(sentence[clause.start : clause.end])
            expert = frames["expert"].match(said)
            if expert is not None:
                said = said[expert.end() :]
            elif self._is_not_meant(said):
                break
            asks = frames["question"].match(said) is not None
            is_last = number == len(clauses) - 1
            if (
                asks
                or (is_question and is_last and not has_asked)
                or (clause.runs_on and has_asked)
            ):
                has_asked = has_asked or asks
                asking.append(number)
                before = said
                continue
            offset = start + sentence.index(said, clause.start) if said in sentence else start
            at = offset - start
            rest = sentence[at : at + max(len(said), _LONGEST_REST)]
            words = _ClauseWords(said, rest, before, offset, (start, end))
            matched = self._match_clause(words, is_first=is_first and not before)
            found += ((number, statement) for statement in matched)
            before = said
        others = sorted({*asking, *(number for number, _ in found)})
        for number, statement in found:
            yield self._cut(statement, number, clauses, others)

    def _cut(
        self,
        statement: Statement,
        number: int,
        clauses: Sequence[_Clause],
        others: Sequence[int],
    ) -> Statement:
        """Return a statement without the clauses before and after its own that ask or state."""
        place = bisect_left(others, number)
        first = others[place - 1] + 1 if place else 0
        last = others[place + 1] - 1 if place + 1 < len(others) else len(clauses) - 1
        start = statement.start + (clauses[first].start if first else 0)
        end = statement.end
        if last < len(clauses) - 1:
            end = statement.start + clauses[last].end
        said = self._text[start:end]
        start += len(said) - len(said.lstrip(" ,;:-\n"))
        return replace(statement, start=start, end=start + len(said.strip(" ,;:-\n")))

    def _is_not_meant(self, said: str) -> bool:
        """Return whether a clause and what follows it is supposed, or said by somebody else."""
        return bool(self._rules.frames["hypothetical"].match(said)) or self._is_reported(said)

    def _is_reported(self, said: str) -> bool:
        frames = self._rules.frames
        return bool(frames["reported"].match(said)) and not frames["not_reporting"].match(said)

    def _match_clause(self, words: _ClauseWords, *, is_first: bool) -> Iterator[Statement]:
        frames, said = self._rules.frames, words.said
        if not said or frames["asking"].match(said) or frames["hyperbole"].search(said):
            return
        hidden: frozenset[ItemKind] = frozenset()
        if frames["former"].search(said):
            hidden = _NEEDS_TO_LAST | {"places", "work"}
        elif frames["passing"].search(said):
            hidden = _NEEDS_TO_LAST
        seen: set[str] = set()
        for rule in self._rules.statements:
            if rule.kind in seen or (rule.kind in hidden and not rule.ends):
                continue
            statement = self._apply(rule, words, is_first=is_first)
            if statement is not None:
                seen.add(rule.kind)
                yield statement
                if rule.dated:
                    return

    def _apply(self, rule: Rule, words: _ClauseWords, *, is_first: bool) -> Statement | None:
        match = None if rule.opens and not is_first else _match_rule(rule, words)
        if match is None:
            return None
        place = _find_group(match, "value")
        value = ""
        if place is not None:
            value = self._text[words.offset + place[0] : words.offset + place[1]].strip()
        if rule.capital and not self._is_name(value):
            return None
        days = self._find_days(words.said, words.before, is_planned=rule.dated)
        if rule.dated and days is None:
            return None
        return Statement(
            *words.span,
            rule.kind,
            self._fill_slot(rule, match, value),
            value,
            days,
            rule.ends,
            self._rules.frames["also"].search(words.said) is not None,
            self._rules.frames["change"].search(words.said) is not None,
        )

    def _is_name(self, value: str) -> bool:
        """Return whether a value is written like a name, and is no other word with a capital."""
        words = value.split()
        if not words:
            return False
        if not all(word[0].isupper() or word.lower() in _SMALL_WORDS for word in words):
            return False
        lowered = value.lower()
        return (
            self._rules.frames["not_name"].match(lowered) is None and lowered not in NAMES_OF_TIMES
        )

    def _find_days(self, said: str, before: str, *, is_planned: bool) -> Span | None:
        """Return the first days that a clause names, or for a plan, that were not over then."""
        if not is_planned:
            return next(iter(find_named_days(said, self._said_ms, aim="near")), None)
        coming = (find_coming_days(text, self._said_ms) for text in (said, before))
        return next(filter(None, coming), None)

    def _fill_slot(self, rule: Rule, match: re.Match[str], value: str) -> str:
        what = rule.sets or _get_group(match, "what")
        names = {
            "value": normalize_value(value),
            "what": normalize_value(what),
            "who": normalize_value(_get_group(match, "who")),
        }
        return rule.slot.format_map(names)

    # -- instructions -----------------------------------------------------------------------------

    def _read_instruction(self, start: int, sentence: str) -> Statement | None:
        """Return the standing instruction of a sentence; clauses are read to the end of it."""
        frames = self._rules.frames
        before = ""
        for clause in self._split(sentence):
            said = self._strip(sentence[clause.start :])
            goes_on = frames["describes"].match(f"{before}\n{said}") is not None
            before = self._strip(sentence[clause.start : clause.end])
            if goes_on:
                continue  # "She's always late, always sorry"
            if frames["hypothetical_instruction"].match(said) or self._is_reported(said):
                return None
            for rule in self._rules.instructions:
                match = rule.match.match(said)
                # "From now on" outweighs "here"; "this time" outweighs the rest.
                if match is None or not rule.allows(said) or frames["once"].search(said):
                    continue
                value = self._read_instruction_value(rule, match, said)
                slot = rule.slot or self._find_topic(said)
                stop = start + len(sentence.rstrip(" ,;:-\n"))
                return Statement(start, stop, "instructions", slot, value)
        return None

    def _read_instruction_value(self, rule: Rule, match: re.Match[str], said: str) -> str:
        place = _find_group(match, "value")
        if place is None:
            return ""
        value = said[place[0] : place[1]]
        if rule.value_end is not None:
            value = rule.value_end.sub("", value)
        at = self._masked.find(value)
        return self._text[at : at + len(value)] if at >= 0 else value

    def _find_topic(self, said: str) -> str:
        """Return the slot of an instruction that counts always; one with a condition has none."""
        if self._rules.frames["conditional"].search(said):
            return ""
        return next(
            (f"instruction:{name}" for name, topic in self._rules.topics if topic.search(said)), ""
        )

    # -- clauses ----------------------------------------------------------------------------------

    def _split(self, sentence: str) -> Iterator[_Clause]:
        """Yield the clauses of a sentence: parted by signs, by words that join, and run on."""
        start = 0
        for sign in _CLAUSE_END.finditer(sentence):
            yield from self._split_joined(sentence, start, sign.start())
            start = sign.end()
        yield from self._split_joined(sentence, start, len(sentence))

    def _split_joined(self, sentence: str, start: int, end: int) -> Iterator[_Clause]:
        if not sentence[start:end].strip():
            return
        frames = self._rules.frames
        cuts = [
            (joint.start(), joint.end()) for joint in frames["joint"].finditer(sentence, start, end)
        ]
        runs_on = False
        for stop, following in sorted(dict.fromkeys(cuts)):
            if stop > start:
                yield _Clause(start, stop, runs_on)
            start, runs_on = max(start, following), True
        yield _Clause(start, end, runs_on)

    def _strip(self, clause: str) -> str:
        """Return a clause without what opens it, such as "ok so", and the signs around it."""
        opening = self._rules.frames["opening"].match(clause)
        return clause[opening.end() if opening else 0 :].strip(
            " \t\r\n.!?\u2026\"'*_-\u25a1\u00bf\u00a1"
        )


_DAY_MS = 24 * 3_600_000
_NEEDS_TO_LAST: frozenset[ItemKind] = frozenset({"tastes", "health", "possessions"})
_SMALL_WORDS = frozenset(
    [
        *("de", "la", "van", "von", "der", "den", "di", "da", "del", "dos", "du", "le"),
        *("and", "und", "et", "y", "e", "st"),
    ]
)
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


def _match_rule(rule: Rule, words: _ClauseWords) -> re.Match[str] | None:
    """Return what a rule finds in a clause, or from it to the end of its sentence."""
    said = words.rest if rule.long else words.said
    match = rule.match.search(said) if rule.anywhere else rule.match.match(said)
    if match is None or match.start() >= len(words.said):
        return None
    return match if rule.allows(said) else None


def _find_group(match: re.Match[str], name: str) -> tuple[int, int] | None:
    """Return where the group of a name stands, or that of its first numbered namesake that does."""
    for group in match.re.groupindex:
        if group.rstrip("0123456789") == name and match[group] is not None:
            return match.span(group)
    return None


def _get_group(match: re.Match[str], name: str) -> str:
    place = _find_group(match, name)
    return "" if place is None else match.string[place[0] : place[1]]
