"""`AddedTurn`: a turn of a thread whose metadata can be extended, durably."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from langchain_convmem.errors import InvalidMessageError
from langchain_convmem.ids import new_ulid, now_ms
from langchain_convmem.protocols import MessageLog
from langchain_convmem.records import Entry, Metadata, Role, Turn
from langchain_convmem.steps import Step, Steps, arun, run, step
from langchain_convmem.views.live_part import reads_alone
from langchain_convmem.views.turns import turn_of, turns

__all__ = ["AddedTurn"]

_PAGE = 64
"""So many of the latest entries are read first: most turns are much shorter."""


@dataclass(frozen=True, slots=True)
class AddedTurn(Turn):
    """A turn whose metadata can be extended, durably.

    Marks, times and data go to the newest part of the turn. What this object itself shows stays
    what it was when it was read; read `turns` again to see them. A placeholder has no part in the
    log, so nothing can be added to it; nor has a turn of which the write hook stored nothing.
    """

    log: MessageLog = field(kw_only=True, repr=False, compare=False)

    @classmethod
    def of(cls, turn: Turn, log: MessageLog) -> Self:
        """Return the turn, as one of the log."""
        return cls(turn.id, turn.role, turn.contents, turn.entries, turn.metadata, log=log)

    @classmethod
    def unstored(cls, role: Role, log: MessageLog) -> Self:
        """Return what stands for a turn of which nothing was stored: it has no entries."""
        return cls(new_ulid(), role, (), (), Metadata(), log=log)

    @classmethod
    def holding(cls, added: Entry, entries: Sequence[Entry], log: MessageLog) -> Self:
        """Return the turn among `entries` that holds the entry."""
        # Another process may have cleared or forgotten it already; it was added all the same.
        return cls.of(_holder(added, turns(entries)) or turn_of([added]), log)

    @classmethod
    def holding_steps(cls, added: Entry, log: MessageLog) -> Steps[Self]:
        """Return the turn that holds an entry just added, without reading more than it takes."""
        page: list[Entry] = yield step(log, "entries", added.key, last=_PAGE)
        if len(page) < _PAGE:
            return cls.holding(added, page, log)
        latest = turns(page[1:]) if reads_alone(page) else []
        holder = _holder(added, latest[1:])  # behind another turn it begins where it seems to
        if holder is not None:
            return cls.of(holder, log)
        return cls.holding(added, (yield step(log, "entries", added.key)), log)

    def add_attribute(self, name: str) -> None:
        """Append a mark."""
        run(self._annotating(attributes=(name,)))

    async def aadd_attribute(self, name: str) -> None:
        """Append a mark."""
        await arun(self._annotating(attributes=(name,)))

    def add_timing(self, name: str, at_ms: int | None = None) -> None:
        """Set a time, milliseconds since the epoch; None is now."""
        run(self._annotating(timing={name: now_ms() if at_ms is None else at_ms}))

    async def aadd_timing(self, name: str, at_ms: int | None = None) -> None:
        """Set a time; see `add_timing`."""
        await arun(self._annotating(timing={name: now_ms() if at_ms is None else at_ms}))

    def add_data(self, name: str, value: Any) -> None:
        """Set a plain value under `aux`.

        Raises:
            InvalidMessageError: If the value is not made of plain values.
        """
        run(self._annotating(aux={name: value}))

    async def aadd_data(self, name: str, value: Any) -> None:
        """Set a plain value under `aux`; see `add_data`."""
        await arun(self._annotating(aux={name: value}))

    def _annotating(self, **changes: Any) -> Any:
        if not self.entries:
            msg = (
                "a placeholder, or a turn of which nothing was stored, is not in the log; "
                "nothing can be added to it"
            )
            raise InvalidMessageError(msg)
        newest = self.entries[-1]
        return _only(step(self.log, "annotate", newest.key, newest.id, **changes))


def _holder(added: Entry, shown: Sequence[Turn]) -> Turn | None:
    holders = (turn for turn in shown if added.id in [part.id for part in turn.entries])
    return next(holders, None)


def _only(one: Step) -> Any:
    yield one
