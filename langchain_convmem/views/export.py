"""Export: turns as plain maps, in the shape a NoSQL log stores, and what a sink has not got yet.

A sink takes the maps and keeps them by id. What it was given is not remembered map by
map: since a log only grows, the view that it was given can be computed again from the position up
to which the log was read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from langchain_core.messages import messages_to_dict

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import holds_more_than_text, make_plain
from langchain_convmem.views.live import (
    build_turns,
    describe_damage,
)
from langchain_convmem.views.shown import Turn, describe_turn

RETRACTED = "retracted"
"""Mark of a turn that a sink was given and that no longer counts."""


def make_turn_map(turn: Turn) -> dict[str, Any]:
    """Return a turn as `id`, `message` (role, contents) and `metadata`.

    Where a part of it holds more than text, such as a picture or calls, `message` has `messages`
    as well: all parts, as LangChain's `messages_from_dict` reads them.

    Keys of `metadata` appear only where they are set: `summaryIds`, `attribute`, `aux`, and
    `timing` (milliseconds since the epoch by name), which always has `creation`.
    """
    known = turn.metadata
    metadata = {
        "summaryIds": list(known.summary_ids),
        "attribute": list(known.attributes),
        "aux": dict(known.aux),
    }
    shown = {key: value for key, value in metadata.items() if value}
    message: dict[str, Any] = {"role": turn.role, "contents": list(turn.contents)}
    parts = [
        entry.message.model_copy(update={"id": entry.message_id})
        for entry in turn.entries
        if entry.message is not None
    ]
    if any(map(holds_more_than_text, parts)):
        message["messages"] = make_plain(messages_to_dict(parts))
    return {
        "id": turn.id,
        "message": message,
        "metadata": {**shown, "timing": dict(known.timing)},
    }


# -- Increments -----------------------------------------------------------------------------------
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
    def read(cls, document: Any) -> ExportCursor:
        """Return the cursor of a state document."""
        return cls(**document)

    def write_document(self) -> dict[str, Any]:
        """Return the cursor as a state document."""
        return asdict(self)


def export_maps(
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
    # What the sink was shown is computed again.
    then = build_turns([entry for entry in entries if entry.position <= cursor.position])
    known = {turn.id: turn for turn in then if cursor.held.get(turn.id, True)}
    forms = {turn.id: _get_form(turn) for turn in then if turn.id not in cursor.held}
    shown = build_turns(entries)
    ids = {turn.id for turn in shown}
    gone = [_mark_retracted(turn) for turn in known.values() if turn.id not in ids]
    ready = shown[:-1] if exclude_last else shown
    fresh = [make_turn_map(turn) for turn in ready if forms.get(turn.id) != _get_form(turn)]
    late = [turn for turn in shown[len(ready) :] if forms.get(turn.id) != _get_form(turn)]
    held = {turn.id: turn.id in known for turn in late}
    position = entries[-1].position if entries else cursor.position
    return [*gone, *fresh], ExportCursor(position, held)


def _get_form(turn: Turn) -> list[str]:
    return [entry.id for entry in turn.entries]


def _mark_retracted(turn: Turn) -> dict[str, Any]:
    known = make_turn_map(turn)
    marked = [*turn.metadata.attributes, RETRACTED]
    return {**known, "metadata": {**known["metadata"], "attribute": marked}}


# -- A thread as a table: for people who look into it --------------------------------------------


def format_text_table(entries: Sequence[Entry]) -> str:
    """Return one line per turn: number, role, pieces, id and metadata.

    Pieces and metadata are written as Python does, so that no line end and no control character
    reaches the terminal. An entry that is damaged is named in a line of its own.

    Args:
        entries: The thread's entries by ascending position, control entries included.
    """
    lines = []
    for number, turn in enumerate(build_turns(entries)):
        pieces = " ".join(map(repr, describe_turn(turn)))
        known = make_turn_map(turn)["metadata"]
        lines.append(f"{number}\t[{turn.role}] {{{pieces}}} -- {turn.id!r} {known}")
    return "\n".join([*(lines or ["---"]), *describe_damage(entries)])
