"""Which lines may come back at all: checked once, and decided before anything is ranked. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Owner, Scalar, ThreadKey

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from langchain_convmem.recall.indexes.segment_table import SegmentTable

__all__ = ["LineFilter", "Moment", "Owners", "Scope", "checked_owners", "checked_scope", "users"]

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
