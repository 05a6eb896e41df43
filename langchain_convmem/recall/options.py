"""What a call of a recall may ask for: its options, and the request they make once checked."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict

from langchain_convmem.errors import ConfigError
from langchain_convmem.recall.blocks import Wish
from langchain_convmem.recall.question import is_borrowing
from langchain_convmem.recall.settings import RecallSettings
from langchain_convmem.records import Owner, Scalar, ThreadKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_convmem.recall.segments import SegmentTable


# Times beyond the year 3000 are some other number.
_LAST_MS = 32_503_680_000_000


class RecallOptions(TypedDict, total=False):
    """The keywords of `LineRecall.recall`; each may be left out.

    Attributes:
        k: Exactly so many blocks, as long as there are lines enough to be hits.
        max_tokens: Budget of all blocks, 4 characters of text each, headers included. With `k`:
            at most so many blocks. Neither: what the settings say, else 1000.
        threshold: Cosine similarity that a hit must surpass, up to 1; -1: every line may be a hit;
            "auto": every line too, but nothing is found where the question is not related to
            anything; None: what the settings say, which is "auto" within a budget and none for `k`
            alone.
        within: Only this thread of the owner.
        exclude: Positions of entries, by thread, that must not come back, such as those a model
            already sees.
        filter: By name the value that a line must have, or a list of values of which it must have
            one: `speaker`, `role`, `session`, `thread_id`, `user_id`, or a key of the message's
            `additional_kwargs`. A line without such a name does not match.
        since: Only lines from this time on: a datetime with its zone, or milliseconds since the
            epoch.
        until: Only lines before this time.
        ranking: How many matches to report, whether selected or not; 20 by default.
        buffer: The thread of the owner whose relevance buffer takes in what is found; it comes back
            in `Recall.buffer`. None, or settings whose `buffer_size` is 0: no buffer.
        remember: Whether the buffer is written; what comes back is the same.
        before: What the user said just before, from which a short follow-up such as "and hers?"
            borrows its topic.
        now_ms: When the question is asked, milliseconds since the epoch; None: now. From it is
            counted what "last week" means and how long ago a block was said.
        patience_s: How long to wait for lines that are still being embedded, where they are few;
            2 seconds by default. The others are found by their words meanwhile.
        settings: Instead of the recall's own, but for `index` and `vector_bits`, which are matters
            of building.
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
    patience_s: float
    settings: RecallSettings | None


class Request(NamedTuple):
    """A recall that makes sense.

    Attributes:
        wish: What is asked, and how much is wanted back.
        scope: What may come back at all.
        buffer: The thread whose relevance buffer takes part; None where none does.
        remember: Whether the buffer is written.
        patience_s: How long lines that are being embedded may be waited for.
    """

    wish: Wish
    scope: Scope
    buffer: ThreadKey | None
    remember: bool
    patience_s: float = 0.0


def checked_request(
    owner: Owners,
    query: str,
    defaults: RecallSettings,
    *,
    k: int | None = None,
    max_tokens: int | None = None,
    threshold: float | Literal["auto"] | None = None,
    within: ThreadKey | None = None,
    exclude: Mapping[ThreadKey, Collection[int]] | None = None,
    filter: LineFilter | None = None,  # noqa: A002 - as in `RecallOptions`
    since: Moment | None = None,
    until: Moment | None = None,
    ranking: int = 20,
    buffer: ThreadKey | None = None,
    remember: bool = True,
    before: str | None = None,
    now_ms: int | None = None,
    patience_s: float = 2.0,
    settings: RecallSettings | None = None,
) -> Request:
    """Return what a caller asks for.

    Raises:
        ConfigError: If an argument makes no sense; the message names it.
    """
    settings = settings or defaults
    _check_question(query)
    _check_before(before)
    _check_count("k", k, least=1)
    _check_count("max_tokens", max_tokens, least=1)
    _check_count("ranking", ranking, least=0)
    if not patience_s >= 0:
        msg = f"patience_s must be a number of seconds from 0, got {patience_s!r}"
        raise ConfigError(msg)
    k, max_tokens = _limits(k, max_tokens, settings)
    threshold = _threshold(threshold, max_tokens, settings)
    scope = checked_scope(
        owner, within=within, exclude=exclude, filter=filter, since=since, until=until
    )
    scope.check_thread("buffer", buffer)
    borrowed = before if is_borrowing(query, before) else None
    wish = Wish(query, k, max_tokens, threshold, ranking, settings, _now_ms(now_ms), borrowed)
    return Request(wish, scope, buffer if settings.buffer_size else None, remember, patience_s)


def buffer_request(
    buffer: ThreadKey,
    defaults: RecallSettings,
    *,
    k: int | None = None,
    max_tokens: int | None = None,
    exclude: Mapping[ThreadKey, Collection[int]] | None = None,
    now_ms: int | None = None,
    settings: RecallSettings | None = None,
) -> Request:
    """Return the request for what a thread's buffer shows where there is no question."""
    settings = settings or defaults
    k, max_tokens = _limits(k, max_tokens, settings)
    wish = Wish("", k, max_tokens, None, 0, settings, _now_ms(now_ms))
    scope = checked_scope(buffer.owner, exclude=exclude)
    return Request(wish, scope, buffer if settings.buffer_size else None, remember=False)


def _limits(
    k: int | None, max_tokens: int | None, settings: RecallSettings
) -> tuple[int | None, int | None]:
    """Return how many blocks and how many tokens, where a call may name neither."""
    if k is None and max_tokens is None:
        k, max_tokens = settings.k, settings.max_tokens
    if k is None and max_tokens is None:
        max_tokens = 1000
    return k, max_tokens


def _now_ms(value: int | None) -> int:
    if value is None:
        return time.time_ns() // 1_000_000
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LAST_MS:
        msg = f"now_ms must be milliseconds since the epoch, got {value!r}"
        raise ConfigError(msg)
    return value


def _check_question(query: str) -> None:
    if not isinstance(query, str) or not query.strip():
        msg = f"query must be a text that is not blank, got {query!r}"
        raise ConfigError(msg)


def _check_before(before: str | None) -> None:
    if before is not None and not isinstance(before, str):
        msg = f"before must be a text or None, got {before!r}"
        raise ConfigError(msg)


def _check_count(name: str, value: int | None, *, least: int) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        msg = f"{name} must be a whole number of at least {least}, got {value!r}"
        raise ConfigError(msg)


def _threshold(
    value: float | Literal["auto"] | None, max_tokens: int | None, settings: RecallSettings
) -> float | Literal["auto"] | None:
    """Return the threshold of a call; None lets every line be a hit."""
    if value is None:
        value = settings.threshold
    if value is None and max_tokens is not None:
        value = settings.budget_threshold
    _check_threshold(value)
    return None if value == -1 else value


def _check_threshold(value: float | Literal["auto"] | None) -> None:
    if value is None or value == "auto":
        return
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not -1 <= value <= 1:
        msg = f'threshold must be None, "auto" or a cosine from -1 to 1, got {value!r}'
        raise ConfigError(msg)


# -- Which lines may come back at all -------------------------------------------------------------


LineFilter: TypeAlias = "Mapping[str, Scalar | Collection[Scalar]]"


"""By name the value that a line must have, or several of which it must have one.

Names are `speaker`, `role`, `session`, `thread_id`, `user_id` and the keys of a message's
`additional_kwargs` whose values are scalars (`DialogLine.tags`). Where a line has no such name, it
does not match.
"""


Moment: TypeAlias = "datetime | int"


"""A time with its zone, or milliseconds since the epoch."""


Owners: TypeAlias = "Owner | Collection[Owner]"


"""Whose lines: one owner's, or those of several together."""


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


_SEVERAL = (list, tuple, set, frozenset)


@dataclass(frozen=True, slots=True)
class Scope:
    """What may come back, as a hit or beside one.

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

    def mask(self, table: SegmentTable) -> NDArray[np.bool_]:
        """Return which of the segments are in scope."""
        return table.allowed(
            self.within,
            self.exclude,
            where=self.where,
            since_ms=self.since_ms,
            until_ms=self.until_ms,
        )

    def check_thread(self, name: str, key: ThreadKey | None) -> None:
        """Refuse a thread that belongs to none of the owners.

        Raises:
            ConfigError: If it does; the message calls it `name`.
        """
        if key is None:
            return
        if not isinstance(key, ThreadKey) or key.owner not in self.owners:
            whose = " or ".join(map(repr, self.owners))
            msg = f"{name} must be a thread of the owner {whose}, got {key!r}"
            raise ConfigError(msg)


def checked_scope(
    owner: Owners,
    *,
    within: ThreadKey | None = None,
    exclude: Mapping[ThreadKey, Collection[int]] | None = None,
    filter: LineFilter | None = None,  # noqa: A002 - the name that LangChain's stores use
    since: Moment | None = None,
    until: Moment | None = None,
) -> Scope:
    """Return what a caller allows to come back.

    Raises:
        ConfigError: If an argument makes no sense; the message names it.
    """
    since_ms, until_ms = _milliseconds("since", since), _milliseconds("until", until)
    if since_ms is not None and until_ms is not None and since_ms > until_ms:
        msg = f"since must not lie behind until, got since={since!r} and until={until!r}"
        raise ConfigError(msg)
    where = _checked_filter(filter)
    scope = Scope(checked_owners(owner), within, exclude or {}, where, since_ms, until_ms)
    scope.check_thread("within", within)
    return scope


# -- whose ---------------------------------------------------------------------------------------
def checked_owners(owner: Owners) -> tuple[Owner, ...]:
    """Return the owners in ascending order, each once.

    Raises:
        ConfigError: If there is none, or one of them is no `Owner`.
    """
    if isinstance(owner, Owner):
        return (owner,)
    found = owner if isinstance(owner, _SEVERAL) else (owner,)
    if not found or not all(isinstance(one, Owner) for one in found):
        msg = f"owner must be an Owner, or several of them, got {owner!r}"
        raise ConfigError(msg)
    return tuple(sorted(set(found), key=lambda one: (one.user_id or "", one.thread_id or "")))


def users(user_ids: Collection[str]) -> tuple[Owner, ...]:
    """Return an explicit set of users as owners.

    Raises:
        ConfigError: If it is no set, list or tuple of ids, or empty, or an id is blank.
    """
    if not isinstance(user_ids, _SEVERAL) or not user_ids:
        msg = f"user_ids must be a set of user ids that is not empty, got {user_ids!r}"
        raise ConfigError(msg)
    blank = [one for one in user_ids if not isinstance(one, str) or not one.strip()]
    if blank:
        msg = f"user_ids must hold texts that are not blank, got {blank[0]!r} among them"
        raise ConfigError(msg)
    return checked_owners([Owner(user_id=one) for one in user_ids])


# -- of what kind, from when -----------------------------------------------------------------
def _checked_filter(wanted: LineFilter | None) -> dict[str, tuple[Scalar, ...]]:
    if wanted is None:
        return {}
    if not isinstance(wanted, Mapping) or not all(isinstance(name, str) for name in wanted):
        msg = f"filter must map names to values, such as {{'speaker': 'Ana'}}, got {wanted!r}"
        raise ConfigError(msg)
    return {name: _checked_values(name, value) for name, value in wanted.items()}


def _checked_values(name: str, value: Any) -> tuple[Scalar, ...]:
    values = tuple(value) if isinstance(value, _SEVERAL) else (value,)
    for one in values:
        if one is not None and not isinstance(one, str | int | float):
            msg = (
                f"filter[{name!r}] must be a str, int, float, bool or None, or a list of them, "
                f"got {one!r}"
            )
            raise ConfigError(msg)
    return values


def _milliseconds(name: str, moment: Moment | None) -> int | None:
    if moment is None:
        return None
    if isinstance(moment, datetime) and moment.tzinfo is not None:
        return -((_EPOCH - moment) // timedelta(milliseconds=1))
    if isinstance(moment, int) and not isinstance(moment, bool):
        return moment
    msg = (
        f"{name} must be a datetime with its zone (such as tzinfo=timezone.utc) or milliseconds "
        f"since the epoch as a whole number, got {moment!r}"
    )
    raise ConfigError(msg)
