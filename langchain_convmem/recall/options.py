"""What a recall may be asked: its settings, the options of a call, and the query they make.

A message is read in its parts: what a long one asks, and what a short one goes on about. Pure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Owner, Scalar, ThreadKey, read_id
from langchain_convmem.views.codec import CHAT_ROLES
from langchain_convmem.views.lines import DEFAULT_SPEAKERS, clean_name
from langchain_convmem.views.messages import TextCounter
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.analysis import is_stop_word, select_telling_words
from langchain_convmem.words.dates import Span, find_named_days
from langchain_convmem.words.speech import (
    Persons,
    find_persons,
    find_questions,
    is_courtesy,
    is_follow_up,
)

Threshold: TypeAlias = "float | Literal['auto'] | None"
"""Cosine similarity that a hit must surpass, or "auto"; None lets every line be a hit."""
LineFilter: TypeAlias = "Mapping[str, Scalar | Collection[Scalar]]"
"""By name the value that a line must have, or several of which it must have one.

Names are `speaker`, `role`, `session`, `thread_id`, `user_id`, `trust` (see `DialogLine.trust`) and
the keys of a message's `additional_kwargs` whose values are scalars (`DialogLine.tags`). A line
without such a name does not match.
"""
Moment: TypeAlias = "datetime | int"
"""A time with its zone, or milliseconds since the epoch."""
Owners: TypeAlias = "Owner | Collection[Owner]"
"""Whose lines: one owner's, or those of several together."""
Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many segments are indexed and how many there are to index."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SEVERAL = (list, tuple, set, frozenset)
# Times beyond the year 3000 are some other number.
_LAST_MS = 32_503_680_000_000
_DEFAULT_TOKENS = 1000
LONGEST_QUESTION = 8_000
"""Characters that are read of a question: of a longer one its first and last halves of this."""
# A longer message holds more than a question: a letter, code, a story.
_LONG = 400
# Fewer of them do not say what a message is about: "Can you shorten this?"
_LEAST_WORDS = 2
_WORD_SIGN = re.compile(r"\w")
_ROLES = frozenset(DEFAULT_SPEAKERS.values())
_READERS: Mapping[str, Callable[[str], str]] = {
    "speaker": clean_name,
    "session": clean_name,
    "role": lambda name: CHAT_ROLES.get(name, name),
}


class RecallOptions(TypedDict, total=False):
    """Keywords of `LineRecall.recall`; all are optional.

    Attributes:
        k: Number of blocks; fewer if there are not enough lines.
        max_tokens: Token budget of all blocks, headers included. With `k`, at most `k` blocks.
            If neither is set, the settings apply, or else 1,000.
        threshold: Cosine similarity that a match must exceed, up to 1; -1 accepts every line.
            "auto" does, too, but finds nothing if the question is related to no line. None uses the
            settings, which mean "auto" with a token budget, and no threshold with `k` alone.
        within: Search only this thread of the owner.
        exclude: Positions of entries, by thread, to leave out, such as those that a model already
            sees.
        filter: For each name, the value that a line must have, or a list of accepted values. Names
            are `speaker`, `role`, `session`, `thread_id`, `user_id`, `trust`, and keys of the
            message's `additional_kwargs`. A line without the name does not match.
        since: Only lines from this time on: a datetime with a time zone, or milliseconds since the
            epoch.
        until: Only lines before this time.
        ranking: How many matches to report, whether selected or not; 20 by default.
        buffer: The owner's thread whose relevance buffer gets the blocks found; `Recall.buffer`
            returns the buffer, even for a blank question. There is no buffer if this is None or
            `buffer_size` is 0 in the settings.
        remember: Whether to write the buffer; the result is the same.
        before: The user's previous message, from which a short follow-up such as "and hers?"
            borrows its topic.
        now_ms: When the question is asked, in milliseconds since the epoch; None means now. It is
            the basis of relative dates such as "last week" and of the ages of blocks.
        wait_s: How long to wait, in seconds, until all lines are embedded; 30 by default. After
            that, the remaining lines are matched by words, and a problem of the result says so.
        settings: Settings to use instead of the recall's own.
        count_text: Counts the tokens of a text; by default, this package's estimate.
    """

    k: int | None
    max_tokens: int | None
    threshold: float | Literal["auto"] | None
    within: ThreadKey | None
    exclude: Mapping[ThreadKey, Collection[int]] | None
    filter: LineFilter | None
    since: Moment | None
    until: Moment | None
    ranking: int
    buffer: ThreadKey | None
    remember: bool
    before: str | None
    now_ms: int | None
    wait_s: float
    settings: RecallSettings | None
    count_text: TextCounter


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallSettings:
    """How recall compares lines, and how much of a dialogue it returns.

    Attributes:
        cosine_only: Whether to compare lines only by the cosine similarity of their vectors.
            Otherwise, shared words, neighbouring lines, speakers, times and later statements count,
            too.
        k: Number of blocks to return if the call sets neither `k` nor `max_tokens`.
        max_tokens: Token budget if the call sets neither. None means 1,000 unless `k` is set.
        threshold: Cosine similarity that a match must exceed; -1 accepts every line. "auto" does,
            too, but finds nothing if the question is related to no line. None means "auto" with a
            token budget, and -1 with `k`.
        window: Lines to include on each side of a match if `k` is used: a number, or a pair of
            numbers for before and after.
        budget_window: The same if a token budget is used.
        refill: Whether `k` counts blocks: if windows merge, further matches fill the places. If
            False, `k` counts matches, and there may be fewer blocks.
        age_in_header: Whether a block's header also shows its age.
        cross_sessions: Whether windows may cross session borders (never thread borders).
        buffer_size: Number of recalled blocks that the model keeps seeing in a thread, even if
            later questions find nothing; the oldest drop out first. 0 keeps only those just found.
    """

    cosine_only: bool = False
    k: int | None = None
    max_tokens: int | None = None
    threshold: float | Literal["auto"] | None = None
    window: int | tuple[int, int] = 2
    budget_window: int | tuple[int, int] = 0
    refill: bool = True
    age_in_header: bool = True
    cross_sessions: bool = False
    buffer_size: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers that no recall can follow."""
        check_limits(self.k, self.max_tokens, self.threshold)
        is_size = _is_count(self.buffer_size, least=0)
        _check(is_size, "buffer_size", "a number of blocks", self.buffer_size)
        for name in ("window", "budget_window"):
            value: object = getattr(self, name)
            sides = value if isinstance(value, tuple) and len(value) == 2 else (value,)  # noqa: PLR2004
            is_valid = all(_is_count(side, least=0) for side in sides)
            _check(is_valid, name, "a number of lines or a pair (before, after)", value)

    @classmethod
    def spec(cls) -> RecallSettings:
        """Return plain dialog-line memory: cosine alone, three hits above 0.8, 3 lines around each.

        What was found stays in sight for a while, in a relevance buffer of 10 blocks. Cosines above
        0.8 are rare with the default embedder: where no line surpasses the threshold,
        `Recall.problems` names the best cosine, from which to choose another one.
        """
        return cls(
            cosine_only=True,
            k=3,
            threshold=0.8,
            window=3,
            budget_window=3,
            refill=False,
            cross_sessions=True,
            buffer_size=10,
        )


def _check(is_valid: object, name: str, wanted: str, value: object) -> None:
    if not is_valid:
        raise ConfigError(f"{name} must be {wanted}, got {describe_value(value)}")


def _is_count(value: object, *, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


# -- the query that options make ---------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class RecallQuery:
    """A recall that makes sense: what is asked, of which lines, and how much is wanted back.

    Attributes:
        text: The question; blank where a buffer alone is read.
        scope: Which lines may come back.
        settings: Windows and weights.
        k: So many blocks; None for as many as fit.
        max_tokens: Budget of all blocks together; None for none.
        threshold: Cosine similarity that a hit must surpass; None lets every line be one, "auto"
            too, but none where the question is not related to anything.
        ranking: How many matches to report.
        now_ms: When it is asked, milliseconds since the epoch; None knows no dates.
        before: What was said just before, where the question borrows from it; else None.
        buffer: The thread whose relevance buffer takes part; None where none does.
        remember: Whether the buffer is written.
        wait_s: How long to wait at most for lines that are being embedded.
        count_text: Counts the tokens of a text.
    """

    text: str
    scope: Scope
    settings: RecallSettings
    k: int | None = None
    max_tokens: int | None = None
    threshold: Threshold = None
    ranking: int = 0
    now_ms: int | None = None
    before: str | None = None
    buffer: ThreadKey | None = None
    remember: bool = False
    wait_s: float = 0.0
    count_text: TextCounter = count_text_tokens

    def cut(self) -> RecallQuery:
        """Return the query with what is read of its texts."""
        before = self.before and cut_question(self.before)
        return replace(self, text=cut_question(self.text), before=before)

    @property
    def search_text(self) -> str:
        """What is searched for.

        A question stands for itself. Of a long message it is what it asks or requests outside
        pasted passages, unless that says too little. A short follow-up has what was said before in
        front.
        """
        return "\n".join(reversed(read_parts(self.text, self.before)))


def make_query(
    owner: Owners, text: str, defaults: RecallSettings, **options: Unpack[RecallOptions]
) -> RecallQuery:
    """Validate a caller's options and return the request.

    Raises:
        ConfigError: If an argument is invalid; the message names it.
        TypeError: If an option is unknown.
    """
    unknown = [name for name in options if name not in RecallOptions.__annotations__]
    if unknown:
        known = ", ".join(RecallOptions.__annotations__)
        raise TypeError(f"a recall has no option {unknown[0]!r}; its options are {known}")
    settings = options.get("settings") or defaults
    buffer, before = options.get("buffer"), options.get("before")
    is_text = isinstance(text, str) and (text.strip() or buffer)
    _check(is_text, "query", "a text that is not blank", text)
    _check(before is None or isinstance(before, str), "before", "a text or None", before)
    k, max_tokens, threshold = options.get("k"), options.get("max_tokens"), options.get("threshold")
    check_limits(k, max_tokens, threshold)
    k, max_tokens = _read_limits(k, max_tokens, settings)
    ranking = options.get("ranking", 20)
    _check(_is_count(ranking, least=0), "ranking", "a whole number of at least 0", ranking)
    wait_s, now_ms = options.get("wait_s", 30.0), options.get("now_ms")
    is_span = isinstance(wait_s, int | float) and wait_s >= 0
    _check(is_span, "wait_s", "a number of seconds from 0", wait_s)
    is_time = now_ms is None or (_is_count(now_ms, least=-_LAST_MS) and now_ms <= _LAST_MS)
    _check(is_time, "now_ms", "milliseconds since the epoch", now_ms)
    scope = make_scope(owner, **options)
    scope.check_thread("buffer", buffer)
    return RecallQuery(
        text,
        scope,
        settings,
        k,
        max_tokens,
        _read_threshold(threshold, max_tokens, settings),
        ranking,
        time.time_ns() // 1_000_000 if now_ms is None else now_ms,
        before if is_borrowing(cut_question(text), before and cut_question(before)) else None,
        buffer if settings.buffer_size else None,
        options.get("remember", True),
        wait_s,
        options.get("count_text", count_text_tokens),
    )


def cut_question(text: str) -> str:
    """Return what is read of a question.

    The beginning and the end of a long one: people ask before what they paste, or after it.
    """
    if len(text) <= LONGEST_QUESTION:
        return text
    half = LONGEST_QUESTION // 2
    return f"{text[: half - 1]}\n{text[-half:]}"


def check_limits(k: int | None, max_tokens: int | None, threshold: Threshold) -> None:
    """Refuse limits that no recall can keep.

    Raises:
        ConfigError: If one is neither None nor valid.
    """
    for name, count in (("k", k), ("max_tokens", max_tokens)):
        is_valid = count is None or _is_count(count, least=1)
        _check(is_valid, name, "a whole number of at least 1", count)
    is_number = isinstance(threshold, int | float) and not isinstance(threshold, bool)
    is_valid = threshold is None or threshold == "auto" or (is_number and -1 <= threshold <= 1)
    _check(is_valid, "threshold", 'None, "auto" or a cosine from -1 to 1', threshold)


def _read_limits(
    k: int | None, max_tokens: int | None, settings: RecallSettings
) -> tuple[int | None, int | None]:
    """Return how many blocks and how many tokens, where a call may name neither."""
    if k is None and max_tokens is None:
        k, max_tokens = settings.k, settings.max_tokens
    if k is None and max_tokens is None:
        max_tokens = _DEFAULT_TOKENS
    return k, max_tokens


def _read_threshold(
    value: Threshold, max_tokens: int | None, settings: RecallSettings
) -> Threshold:
    """Return the threshold of a call."""
    if value is None:
        value = settings.threshold
    if value is None:
        return None if max_tokens is None else "auto"
    return None if value == -1 else value


# -- which lines may come back -----------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Scope:
    """What may come back, as a hit or next to one.

    Attributes:
        owners: Whose lines; in ascending order, each once.
        within: Only this thread.
        exclude: Positions of entries that must not come back, by thread.
        where: By name the values of which a line must have one.
        since_ms: Only lines from this time on, milliseconds since the epoch.
        until_ms: Only lines before this time.
    """

    owners: tuple[Owner, ...]
    within: ThreadKey | None = None
    exclude: Mapping[ThreadKey, Collection[int]] = field(default_factory=dict)
    where: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    since_ms: int | None = None
    until_ms: int | None = None

    def check_thread(self, name: str, key: ThreadKey | None) -> None:
        """Refuse a thread that belongs to none of the owners.

        Raises:
            ConfigError: If it does; the message calls it `name`.
        """
        if key is not None and not (isinstance(key, ThreadKey) and key.owner in self.owners):
            whose = " or ".join(map(repr, self.owners))
            raise ConfigError(f"{name} must be a thread of {whose}, got {describe_value(key)}")


def make_scope(owner: Owners, **options: Unpack[RecallOptions]) -> Scope:
    """Validate what a call's options say of which lines may come back, and return the scope.

    Raises:
        ConfigError: If an argument is invalid; the message names it.
    """
    since, until = options.get("since"), options.get("until")
    since_ms, until_ms = _to_milliseconds("since", since), _to_milliseconds("until", until)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        msg = f"since must not be after until, got since={since!r} and until={until!r}"
        raise ConfigError(msg)
    within, exclude = options.get("within"), options.get("exclude") or {}
    where = _read_filter(options.get("filter"))
    scope = Scope(sort_owners(owner), within, exclude, where, since_ms, until_ms)
    scope.check_thread("within", within)
    return scope


def sort_owners(owner: Owners) -> tuple[Owner, ...]:
    """Return the owners in ascending order, each once.

    Raises:
        ConfigError: If empty, or an item is not an `Owner`.
    """
    if isinstance(owner, Owner):
        return (owner,)
    found = owner if isinstance(owner, _SEVERAL) else (owner,)
    are_owners = found and all(isinstance(one, Owner) for one in found)
    _check(are_owners, "owner", "an Owner, or several of them", owner)
    return tuple(sorted(set(found), key=lambda one: (one.user_id or "", one.thread_id or "")))


def make_owners(user_ids: Collection[str]) -> tuple[Owner, ...]:
    """Return users as owners.

    Raises:
        ConfigError: If not a set, list or tuple of ids, or empty, or an id is blank.
    """
    is_valid = isinstance(user_ids, _SEVERAL) and user_ids
    _check(is_valid, "user_ids", "a set of user ids that is not empty", user_ids)
    return sort_owners([Owner(user_id=read_id("user_ids", one)) for one in user_ids])


def _read_filter(wanted: LineFilter | None) -> dict[str, tuple[Scalar, ...]]:
    if wanted is None:
        return {}
    is_valid = isinstance(wanted, Mapping) and all(isinstance(name, str) for name in wanted)
    _check(is_valid, "filter", "names with values, such as {'speaker': 'Ana'}", wanted)
    found: dict[str, tuple[Scalar, ...]] = {}
    for name, value in wanted.items():
        values: Any = value if isinstance(value, _SEVERAL) else (value,)
        for one in values:
            is_plain = one is None or isinstance(one, str | int | float)
            _check(is_plain, f"filter[{name!r}]", "plain values, or a list of them", one)
        read = _READERS.get(name, str)
        found[name] = tuple([read(one) if isinstance(one, str) else one for one in values])
    return found


def _to_milliseconds(name: str, moment: Moment | None) -> int | None:
    if moment is None:
        return None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return -((_EPOCH - moment) // timedelta(milliseconds=1))
    wanted = "a datetime with its zone, as datetime.now(timezone.utc) has it, or whole milliseconds"
    _check(_is_count(moment, least=-_LAST_MS), name, wanted, moment)
    return cast("int", moment)


# -- what of a message is searched for ---------------------------------------------------------
@lru_cache(maxsize=16)
def read_parts(query: str, before: str | None = None) -> tuple[str, ...]:
    """Return the searched part of a message, then the text it borrows from, if any."""
    # Kept for a moment, since one recall asks for them several times.
    own = _extract_question(query)
    return (own, _extract_question(before)) if before and is_borrowing(query, before) else (own,)


def is_borrowing(query: str, before: str | None) -> bool:
    """Return whether a message is too short to be understood without what was said before.

    What is a follow-up itself, a courtesy or blank has no topic of its own to lend.
    """
    if before is None or not before.strip() or is_courtesy(query) or is_courtesy(before):
        return False
    return is_follow_up(query) and not is_follow_up(before)


def read_person(query: str, before: str | None = None) -> Persons:
    """Return who a message is about, else who the previous one was about."""
    first, *borrowed = map(find_persons, read_parts(query, before))
    return borrowed[0] if borrowed and not (first.asker or first.listener) else first


def find_spans(query: str, before: str | None, now_ms: int) -> list[Span]:
    """Return the stretches of time that a message names; where it names none, those before."""
    named = (find_named_days(part, now_ms, aim="past") for part in read_parts(query, before))
    return next(filter(None, named), [])


def _extract_question(message: str) -> str:
    """Return what a message asks, if it is long and says enough of it; else all of it."""
    if len(message) <= _LONG:
        return message
    asked = " ".join([message[start:end] for start, end in find_questions(message)])
    return asked if len(select_telling_words(asked)) >= _LEAST_WORDS else message


# -- which speakers a question names -----------------------------------------------------------
@lru_cache(maxsize=16)
def find_named_speakers(text: str, speakers: tuple[str, ...]) -> tuple[int, ...]:
    """Return which speakers (by index) the text names, whole or by the first part of the name.

    The labels of speakers without a name, `User` and `Assistant`, are words like any other.
    """
    # Kept for a moment: one recall asks when it embeds the question and when it ranks.
    return tuple(
        n
        for n, speaker in enumerate(speakers)
        if speaker not in _ROLES and _compile_name(speaker).search(text)
    )


def remove_names(text: str, speakers: tuple[str, ...]) -> str:
    """Return the text without the names of speakers; unchanged if nothing else would be left."""
    bare = text
    for number in find_named_speakers(text, speakers):
        bare = _compile_name(speakers[number]).sub(" ", bare)
    bare = " ".join(bare.split())
    return bare if _WORD_SIGN.search(bare) else text


@lru_cache(maxsize=1024)
def _compile_name(speaker: str) -> re.Pattern[str]:
    whole, first = speaker.strip(), (speaker.split() or [""])[0]
    names = {whole} if is_stop_word(first) else {whole, first}
    # "Will" and "May" are names only where they are written as such.
    parts = [
        re.escape(name) if is_stop_word(name) else f"(?i:{re.escape(name)})"
        for name in sorted(names - {""}, key=len, reverse=True)
    ]
    # A speaker without a name matches nothing.
    return re.compile(rf"(?<!\w)(?:{'|'.join(parts) or '(?!)'})(?:['\u2019]s)?(?!\w)")
