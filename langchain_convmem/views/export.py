"""Export: turns as plain maps, in the shape a NoSQL log stores, and what a sink has not got yet.

A sink takes the maps and keeps them by id. What it was given is not remembered map by
map: since a log only grows, the view that it was given can be computed again from the position up
to which the log was read.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import messages_to_dict

from langchain_convmem.records import Entry
from langchain_convmem.views.codec import holds_more_than_text, make_plain
from langchain_convmem.views.live import (
    build_model_turns,
    build_turns,
    describe_damage,
    find_live_entries,
    find_live_summary,
)
from langchain_convmem.views.markup import describe_turn, escape_html, render_table
from langchain_convmem.views.shown import Turn

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
    metadata: dict[str, Any] = {}
    if known.summary_ids:
        metadata["summaryIds"] = list(known.summary_ids)
    if known.attributes:
        metadata["attribute"] = list(known.attributes)
    if known.aux:
        metadata["aux"] = dict(known.aux)
    metadata["timing"] = dict(known.timing)
    message: dict[str, Any] = {"role": turn.role, "contents": list(turn.contents)}
    parts = [
        entry.message.model_copy(update={"id": entry.message_id})
        for entry in turn.entries
        if entry.message is not None
    ]
    if any(map(holds_more_than_text, parts)):
        message["messages"] = make_plain(messages_to_dict(parts))
    return {"id": turn.id, "message": message, "metadata": metadata}


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
        return cls(document["position"], document["held"])

    def write_document(self) -> dict[str, Any]:
        """Return the cursor as a state document."""
        return {"position": self.position, "held": dict(self.held)}


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
    sink = _Sink(entries, cursor)
    shown = build_turns(entries)
    ids = {turn.id for turn in shown}
    gone = [_mark_retracted(turn) for turn in sink.known if turn.id not in ids]
    ready = shown[:-1] if exclude_last else shown
    fresh = [make_turn_map(turn) for turn in ready if not sink.has(turn)]
    late = [turn for turn in shown[len(ready) :] if not sink.has(turn)]
    held = {turn.id: sink.has_some_form_of(turn) for turn in late}
    position = entries[-1].position if entries else cursor.position
    return [*gone, *fresh], ExportCursor(position, held)


def find_first_unexported(entries: Sequence[Entry], cursor: ExportCursor) -> int:
    """Return the number of the first turn that the sink lacks; one past the last if it has all."""
    sink = _Sink(entries, cursor)
    shown = build_turns(entries)
    return next((n for n, turn in enumerate(shown) if not sink.has(turn)), len(shown))


class _Sink:
    """What a sink has got."""

    def __init__(self, entries: Sequence[Entry], cursor: ExportCursor) -> None:
        """Compute again what the sink was shown."""
        then = build_turns([entry for entry in entries if entry.position <= cursor.position])
        self.known = [turn for turn in then if cursor.held.get(turn.id, True)]
        self._forms = {turn.id: _get_form(turn) for turn in then if turn.id not in cursor.held}
        self._ids = {turn.id for turn in self.known}

    def has(self, turn: Turn) -> bool:
        """Return whether the sink has the turn as it is now."""
        return self._forms.get(turn.id) == _get_form(turn)

    def has_some_form_of(self, turn: Turn) -> bool:
        """Return whether the sink has the turn, as it is or as it was."""
        return turn.id in self._ids


def _get_form(turn: Turn) -> tuple[str, ...]:
    return tuple(entry.id for entry in turn.entries)


def _mark_retracted(turn: Turn) -> dict[str, Any]:
    known = make_turn_map(turn)
    metadata = known["metadata"]
    return {
        **known,
        "metadata": {**metadata, "attribute": [*metadata.get("attribute", ()), RETRACTED]},
    }


# -- A thread as a table: for people who look into it, on a terminal or in a notebook -------------
MAX_HTML_ROWS = 200
"""How many of the latest turns a notebook shows."""
_NOTHING = "---"
_HEADER = "TURNS ('*' first for the model, '-' next to export, '^' last summary):"
_CONTROL = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDI = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b"})


def format_text_table(entries: Sequence[Entry], cursor: ExportCursor | None) -> str:
    """Return one line per turn: number, marks, role, pieces, id and metadata.

    Line ends, tabs and other control characters are escaped. A mark that stands after the last
    turn is named in a line of its own, and so is an entry that is damaged.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        cursor: How far the default sink was served; None leaves out its mark.
    """
    shown = build_turns(entries)
    damaged = [f"\n{_escape(problem)}" for problem in describe_damage(entries)]
    if not shown:
        return _NOTHING + "".join(damaged)
    marks = _find_marks(entries, shown, cursor)
    lines = [
        f"{n}\t{_join_marks_at(n, marks)}\t{_format_turn(turn)}" for n, turn in enumerate(shown)
    ]
    beyond = ", ".join(f"'{mark}' -> index {at}" for mark, at in marks.items() if at >= len(shown))
    table = [_HEADER, ",\n".join(lines) + ".", *([f".\t{beyond}."] if beyond else [])]
    return "\n".join(table) + "".join(damaged)


def _find_marks(
    entries: Sequence[Entry], shown: Sequence[Turn], cursor: ExportCursor | None
) -> dict[str, int]:
    """Return the number of the turn that each mark stands at, in the order of the marks."""
    number_of = {turn.id: number for number, turn in enumerate(shown)}
    said = (turn.id for turn in build_model_turns(entries) if turn.role != "system")
    firsts = [number_of[name] for name in said if name in number_of]
    marks = {"*": min(firsts, default=len(shown))}
    if cursor is not None:
        marks["-"] = find_first_unexported(entries, cursor)
    summary = find_live_summary(find_live_entries(entries))
    if summary is not None:
        marks["^"] = number_of[summary.id]
    return marks


def _join_marks_at(number: int, marks: Mapping[str, int]) -> str:
    return " ".join(mark for mark, at in marks.items() if at == number)


def _format_turn(turn: Turn) -> str:
    pieces = " ".join(f"'{_escape(piece)}'" for piece in describe_turn(turn))
    metadata = _escape(_format_plain(make_turn_map(turn)["metadata"]))
    return f"[{turn.role}] {{{pieces}}} -- '{turn.id}' {metadata}"


def _escape(text: str) -> str:
    """Return the text on one line and in its own order: a terminal obeys control characters."""
    visible = text.translate(_ESCAPES)
    if visible.isprintable():
        return visible
    return "".join(map(_escape_character, visible))


def _escape_character(character: str) -> str:
    # Joiners and wide blanks, which scripts and emoji are written with, stay as they are.
    if unicodedata.category(character) in _CONTROL or character in _BIDI:
        return character.encode("unicode_escape").decode()
    return character


def _format_plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_format_plain(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_format_plain, value)) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def format_html_table(entries: Sequence[Entry], cursor: ExportCursor | None) -> str:
    """Return the latest turns as an HTML table; whatever was said is escaped.

    Args:
        entries: The thread's entries by ascending position, control entries included.
        cursor: How far the default sink was served; None leaves out its mark.
    """
    shown = build_turns(entries)
    marks = _find_marks(entries, shown, cursor)
    first = max(0, len(shown) - MAX_HTML_ROWS)
    rows = [
        _format_cells(number, turn, marks) for number, turn in enumerate(shown[first:], start=first)
    ]
    left_out = f"<p>{first} earlier turns are not shown.</p>" if first else ""
    left_out += "".join(f"<p>{escape_html(problem)}</p>" for problem in describe_damage(entries))
    head = ["#", "", "role", "contents", "id", "metadata"]
    return left_out + render_table(head, rows)


def _format_cells(number: int, turn: Turn, marks: Mapping[str, int]) -> list[str]:
    metadata = {
        key: item for key, item in make_turn_map(turn)["metadata"].items() if key != "timing"
    }
    texts = [str(number), _join_marks_at(number, marks), turn.role]
    said = "<br>".join(escape_html(piece) for piece in describe_turn(turn))
    known = _format_plain(metadata) if metadata else ""
    return [*map(escape_html, texts), said, escape_html(turn.id), escape_html(known)]
