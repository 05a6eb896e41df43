"""Following a graph that goes back: what its state no longer holds is taken out of the views.

Nothing is erased, and a graph that returns to a branch it left finds it again: a later control
entry takes back the earlier one. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from langchain_convmem.ids import new_ulid
from langchain_convmem.integrations.langgraph.moment import Mark, Moment, mark_of
from langchain_convmem.records import Control, Draft, Entry
from langchain_convmem.views.live import live_entries
from langchain_convmem.views.summaries import summaries_over

__all__ = ["Branches", "left_turns", "rewinding"]


class Branches:
    """Which unit followed which in the states of a graph: messages, or turns."""

    def __init__(self, links: Mapping[str, str | None]) -> None:
        """Take each unit's id with the id of the one before it."""
        self._links = links

    def path(self, unit: str | None) -> list[str]:
        """Return a unit and all before it on its branch, newest first."""
        found: dict[str, None] = {}
        while unit is not None and unit not in found:
            found[unit] = None
            unit = self._links.get(unit)
        return list(found)

    def behind(self, kept: Collection[str]) -> set[str]:
        """Return the units that are not kept, but follow one that is, however far behind."""
        follows = dict.fromkeys(kept, True)
        for unit in self._links:
            walked: list[str] = []
            at: str | None = unit
            while at is not None and at not in follows and at not in walked[-1:]:
                walked.append(at)
                at = self._links.get(at)
            follows.update(dict.fromkeys(walked, follows.get(at or "", False)))
        return {unit for unit in self._links if unit not in kept and follows[unit]}


def left_turns(
    entries: Sequence[Entry], moment: Moment, current: str | None
) -> tuple[set[str], set[str]]:
    """Return the turns that a graph has left by going back, and those it stands on.

    Args:
        entries: All entries of the thread.
        moment: Where the node stands; only a run that was told where to begin goes back.
        current: The latest turn that the state knows, if it knows any.
    """
    if moment.since is None:
        return set(), set()
    marks = _turn_marks(entries)
    if current in marks:
        branches = Branches({turn: mark.after for turn, mark in marks.items()})
        kept = set(branches.path(current))
        left = branches.behind(kept)
    else:
        kept, left = set(), set(marks) if _is_at_top(moment) else set()
        left = {turn for turn in left if marks[turn].checkpoint >= moment.since}
    return {turn for turn in left if marks[turn].checkpoint != moment.checkpoint}, kept


def _turn_marks(entries: Iterable[Entry]) -> dict[str, Mark]:
    marks = ((entry.turn_id, mark_of(entry)) for entry in entries)
    return {turn: mark for turn, mark in marks if mark is not None and mark.unit == "turn"}


def _is_at_top(moment: Moment) -> bool:
    """Return whether an empty state means the beginning of the thread.

    Inside another graph, or brought by a `Send`, a state is empty for other reasons as well.
    """
    return not moment.level and not moment.is_sent


def rewinding(
    entries: Sequence[Entry], moment: Moment, *, left: Collection[str], wanted: Collection[str]
) -> list[Draft]:
    """Return the control entry that takes entries out, and brings back what this once took out.

    Args:
        entries: All entries of the thread.
        moment: Where the node stands.
        left: Ids of entries that no longer count; summaries that tell of them go as well.
        wanted: Ids of entries that count.
    """
    live = live_entries(entries)
    alive = {entry.id for entry in live}
    lifted = [
        entry.id
        for entry in entries
        if entry.control is not None
        and mark_of(entry) is not None
        and any(name in wanted and name not in alive for name in entry.control.retracts)
    ]
    after = live if not lifted else live_entries([*entries, _control(entries[-1], lifted)])
    # What a lifted entry took out besides stays out.
    back = {entry.id for entry in after if entry.role != "summary"} - alive - set(wanted)
    gone = [entry.id for entry in after if entry.id in back or entry.id in left]
    ids = [*lifted, *gone, *summaries_over(after, gone)]
    if not ids:
        return []
    control = Control(tuple(ids), "rewind")
    return [Draft(role="control", control=control, metadata=moment.metadata("rewind", None))]


def _control(last: Entry, ids: Sequence[str]) -> Entry:
    """Return the control entry as it would stand behind the last one."""
    return Entry(
        id=new_ulid(),
        key=last.key,
        position=last.position + 1,
        turn_id="",
        role="control",
        control=Control(tuple(ids), "rewind"),
    )
