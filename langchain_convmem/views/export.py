"""Export: turns as plain maps, in the shape a NoSQL log stores, and what a sink has not got yet.

A sink is whoever takes the maps and keeps them by id. What it was given is not remembered map by
map: since a log only grows, the view that it was given can be computed again from the position up
to which the log was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_convmem.records import Entry, Turn
from langchain_convmem.views.turns import turns

__all__ = ["RETRACTED", "ExportCursor", "export", "first_unexported", "turn_map", "turn_maps"]

RETRACTED = "retracted"
"""Mark of a turn that a sink was given and that no longer counts."""


def turn_maps(turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """Return one map per turn, in order; see `turn_map`."""
    return [turn_map(turn) for turn in turns]


def turn_map(turn: Turn) -> dict[str, Any]:
    """Return a turn as `id`, `message` (role, contents) and `metadata`.

    Keys of `metadata` appear only where they are set: `summaryIds`, `attribute`, `aux`, and
    `timing` (milliseconds since the epoch by name), which always has `creation`.
    """
    known = turn.metadata
    metadata: dict[str, Any] = {}
    if known.summary_ids:
        metadata["summaryIds"] = list(known.summary_ids)
    if known.attributes:
        metadata["attribute"] = list(known.attributes)
    if known.aux:
        metadata["aux"] = dict(known.aux)
    metadata["timing"] = dict(known.timing)
    return {
        "id": turn.id,
        "message": {"role": turn.role, "contents": list(turn.contents)},
        "metadata": metadata,
    }


# -- increments ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ExportCursor:
    """How far a sink was served; a few numbers and ids, whatever the length of the thread.

    Attributes:
        position: The log was read up to this position.
        held: Turns shown then that the sink lacks in that form, by id: the last one, where it was
            left out. The value says whether the sink has an earlier form of it.
    """

    position: int = 0
    held: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Any) -> ExportCursor:
        """Return the cursor of a state document; of None, that of a new sink."""
        if document is None:
            return cls()
        return cls(document["position"], document["held"])

    def to_document(self) -> dict[str, Any]:
        """Return the cursor as a state document."""
        return {"position": self.position, "held": dict(self.held)}


def export(
    entries: Sequence[Entry], cursor: ExportCursor, *, exclude_last: bool
) -> tuple[list[dict[str, Any]], ExportCursor]:
    """Return the maps that a sink has not got yet, and its cursor afterwards.

    A turn that grew, shrank or was split since comes again, whole, under the same id. A turn that
    the sink has and that no longer counts comes once more, as it was, with the mark `retracted`.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        cursor: How far the sink was served.
        exclude_last: Leave out the last turn, which may still grow.
    """
    sink = _Sink(entries, cursor)
    shown = turns(entries)
    ids = {turn.id for turn in shown}
    gone = [_retracted(turn) for turn in sink.known if turn.id not in ids]
    ready = shown[:-1] if exclude_last else shown
    fresh = [turn_map(turn) for turn in ready if not sink.has(turn)]
    late = [turn for turn in shown[len(ready) :] if not sink.has(turn)]
    held = {turn.id: sink.has_some_form_of(turn) for turn in late}
    position = entries[-1].position if entries else cursor.position
    return [*gone, *fresh], ExportCursor(position, held)


def first_unexported(entries: Sequence[Entry], cursor: ExportCursor) -> int:
    """Return the number of the first turn that the sink lacks; behind the last if it has all."""
    sink = _Sink(entries, cursor)
    shown = turns(entries)
    return next((n for n, turn in enumerate(shown) if not sink.has(turn)), len(shown))


class _Sink:
    """What a sink has got."""

    def __init__(self, entries: Sequence[Entry], cursor: ExportCursor) -> None:
        """Compute again what the sink was shown."""
        then = turns([entry for entry in entries if entry.position <= cursor.position])
        self.known = [turn for turn in then if cursor.held.get(turn.id, True)]
        self._forms = {turn.id: _form(turn) for turn in then if turn.id not in cursor.held}
        self._ids = {turn.id for turn in self.known}

    def has(self, turn: Turn) -> bool:
        """Return whether the sink has the turn as it is now."""
        return self._forms.get(turn.id) == _form(turn)

    def has_some_form_of(self, turn: Turn) -> bool:
        """Return whether the sink has the turn, as it is or as it was."""
        return turn.id in self._ids


def _form(turn: Turn) -> tuple[str, ...]:
    return tuple(entry.id for entry in turn.entries)


def _retracted(turn: Turn) -> dict[str, Any]:
    known = turn_map(turn)
    metadata = known["metadata"]
    return {
        **known,
        "metadata": {**metadata, "attribute": [*metadata.get("attribute", ()), RETRACTED]},
    }
