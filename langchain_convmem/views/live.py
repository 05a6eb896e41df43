"""Which entries count, in which order, and the turns they make, for programs and for sinks.

Control entries are obeyed: what they retract is left out, and a replacement takes the place of what
it replaces. Turns are maximal runs of one role, with a placeholder where a conversation opens
unasked.
"""

from __future__ import annotations

import textwrap
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage

from langchain_convmem.errors import ConfigError
from langchain_convmem.ids import derive_ulid, get_ulid_ms
from langchain_convmem.records import Cover, Entry, Metadata, Role
from langchain_convmem.views.codec import (
    TEXT_BLOCKS,
    describe_as_json,
    encode_message,
    get_block_text,
    tag_json,
)
from langchain_convmem.views.media import describe_media, read_media
from langchain_convmem.views.messages import get_block_type, make_content, unwrap_block
from langchain_convmem.views.tool_calls import CALL_BLOCKS, find_calls

Retraction: TypeAlias = tuple[str, tuple[str, ...]]
"""The id of a control entry, and the ids of the entries that it takes out."""


def merge_entries(*parts: Iterable[Entry]) -> list[Entry]:
    """Return the entries of several lists, each once, in order of position."""
    by_position = {entry.position: entry for part in parts for entry in part}
    return [by_position[position] for position in sorted(by_position)]


def find_retracted_ids(entries: Sequence[Entry]) -> frozenset[str]:
    """Return the ids that control entries take out of every view.

    A control entry that is itself retracted does nothing, so retracting an undo is a redo. A
    summary falls with each turn and each summary that it was made of, and is back when they are:
    whoever took one of them back may not have seen the summary yet.
    """
    dead = follow_retractions(list_retractions(entries))
    for entry in entries if dead else ():
        if entry.role == "summary" and not dead.isdisjoint(entry.metadata.summary_ids):
            dead.add(entry.id)
    return frozenset(dead)


def list_retractions(entries: Iterable[Entry]) -> list[Retraction]:
    """Return what each control entry says, in order."""
    return [
        (entry.id, tuple(entry.control.retracts)) for entry in entries if entry.control is not None
    ]


def follow_retractions(said: Sequence[Retraction]) -> set[str]:
    """Return the ids that control entries take out, but those that are taken out themselves."""
    dead: set[str] = set()
    for entry_id, retracts in reversed(said):
        if entry_id not in dead:
            dead.update(retracts)
    return dead


def describe_damage(entries: Iterable[Entry]) -> list[str]:
    """Return a sentence for each entry that is damaged; it shows nothing it held."""
    return [
        f"left out entry {entry.id} at position {entry.position}: {entry.damage}; "
        "see `convmem db verify`"
        for entry in entries
        if entry.damage
    ]


def find_live_entries(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries that count, in the order of the conversation.

    Entries of one turn stand together, turns in the order of their first entry: two turns that
    ran at once read question, answer, question, answer. A replacement takes the place of what it
    replaces. A summary stands right after the last entry it covers.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    if _is_in_order(entries):
        return list(entries)
    dead = find_retracted_ids(entries)
    replaces = {
        control.replacement: control.retracts[0]
        for control in (entry.control for entry in entries if entry.id not in dead)
        if control is not None and control.replacement is not None and control.retracts
    }
    first_of_turn: dict[str, int] = {}
    place: dict[str, int] = {}
    for entry in entries:
        if entry.control is None:
            old = replaces.get(entry.id)
            place[entry.id] = entry.position if old is None else _find_place(old, place)
            first_of_turn.setdefault(entry.turn_id, place[entry.id])
    kept = [entry for entry in entries if entry.control is None and entry.id not in dead]
    spoken = [entry for entry in kept if entry.role != "summary"]
    spoken.sort(key=lambda entry: (first_of_turn[entry.turn_id], place[entry.id]))
    return _place_summaries(spoken, [entry for entry in kept if entry.role == "summary"])


def _is_in_order(entries: Sequence[Entry]) -> bool:
    """Return whether all count as they stand, as they mostly do."""
    if not {"control", "summary"}.isdisjoint([entry.role for entry in entries]):
        return False
    turns = [turn for turn, _ in groupby([entry.turn_id for entry in entries])]
    return len({*turns}) == len(turns)


def _find_place(entry_id: str, place: Mapping[str, int]) -> int:
    """Return where an entry stood; one that was forgotten stood after the ids before its own."""
    if entry_id in place:
        return place[entry_id]
    return max((at for other, at in place.items() if other < entry_id), default=0)


def find_entry(live: Sequence[Entry], message_id: str) -> Entry:
    """Return the live entry of a message or a summary, by the message's id or the entry's.

    Raises:
        ConfigError: If there is none.
    """
    found = next((entry for entry in reversed(live) if is_named(entry, message_id)), None)
    if found is None:
        msg = f"there is no message {message_id!r} in the thread's view; ids are those it shows"
        raise ConfigError(msg)
    return found


def is_named(entry: Entry, message_id: str | None) -> bool:
    """Return whether an id is that of an entry, or of its message."""
    return message_id in (entry.id, entry.message_id)


# -- Summaries ------------------------------------------------------------------------------------
RECORD = "summary"
"""Key of a summary's `aux`: how it was made."""

LEVEL = "level"
"""Key of that record: how many layers of summaries lie under it."""


class EntryPlaces:
    """Spoken entries by position, so that what a summary covers is found without a scan."""

    def __init__(self, spoken: Sequence[Entry]) -> None:
        """Sort entries, no summaries among them; their numbers are their places in `spoken`."""
        pairs = sorted((entry.position, number) for number, entry in enumerate(spoken))
        self._positions = [position for position, _ in pairs]
        self._numbers = [number for _, number in pairs]

    def find_under(self, cover: Cover | None) -> list[int]:
        """Return the numbers of the entries that a summary with this cover stands for."""
        found: list[int] = []
        for first, last in cover.ranges if cover is not None else ():
            start = bisect_left(self._positions, first)
            found.extend(self._numbers[start : bisect_right(self._positions, last)])
        return found

    def find_up_to(self, position: int) -> list[int]:
        """Return the numbers of the entries at this position and before it."""
        return self._numbers[: bisect_right(self._positions, position)]


def _place_summaries(spoken: list[Entry], summaries: Sequence[Entry]) -> list[Entry]:
    """Return both in one list; a later summary of the same stretch stands after the earlier."""
    if not summaries:
        return spoken
    places = EntryPlaces(spoken)
    following: dict[int, list[Entry]] = {}
    for summary in summaries:
        # Where nothing it covers is left, it stays after what was said before it.
        covered = places.find_under(summary.cover) or places.find_up_to(_find_end(summary))
        following.setdefault(max(covered, default=-1), []).append(summary)
    ordered = list(following.get(-1, ()))
    for number, entry in enumerate(spoken):
        ordered.append(entry)
        ordered.extend(following.get(number, ()))
    return ordered


def _find_end(summary: Entry) -> int:
    ranges = summary.cover.ranges if summary.cover is not None else ()
    return ranges[-1][1] if ranges else summary.position


def read_record(aux: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a summary's `aux` say of how it was made; empty where they say nothing."""
    record = aux.get(RECORD)
    return record if isinstance(record, Mapping) else {}


def get_level(entry: Entry) -> int:
    """Return how many layers of summaries lie under one: 0 where it was written, not made by rule.

    Also 0 for what is no summary.
    """
    level = read_record(entry.metadata.aux).get(LEVEL) if entry.role == "summary" else None
    return level if isinstance(level, int) and level > 0 else 0


def find_frontier(live: Sequence[Entry]) -> list[Entry]:
    """Return the summaries that a model reads, in the order of what they stand for.

    These are the summaries that no other one names and that stand for different entries: of two
    that stand for the same entry, the newer counts.

    Args:
        live: Live entries; of those that a frontier stands for, none is needed.
    """
    by_id = {entry.id: entry for entry in live if entry.role == "summary"}
    shown: list[Entry] = []
    folded: set[str] = set()
    told: list[tuple[int, int]] = []
    for summary in sorted(by_id.values(), key=lambda entry: entry.position, reverse=True):
        if summary.id in folded or _is_overlapping(_get_ranges(summary), told):
            continue
        shown.append(summary)
        for node in _walk_down([summary], by_id):
            folded.add(node.id)
            told.extend(_get_ranges(node))
    return sorted(shown, key=lambda entry: (_get_ranges(entry)[0], entry.position))


def find_nodes(live: Sequence[Entry], tops: Iterable[Entry] | None = None) -> list[Entry]:
    """Return summaries and all live ones that they build on, each once.

    Args:
        live: Live entries.
        tops: Where to begin; by default with the frontier.
    """
    by_id = {entry.id: entry for entry in live if entry.role == "summary"}
    return _walk_down(find_frontier(live) if tops is None else tops, by_id)


def _walk_down(tops: Iterable[Entry], by_id: Mapping[str, Entry]) -> list[Entry]:
    found = {summary.id: summary for summary in tops}
    waiting = list(found.values())
    while waiting:
        for name in waiting.pop(0).metadata.summary_ids:
            if name in by_id and name not in found:
                found[name] = by_id[name]
                waiting.append(by_id[name])
    return list(found.values())


def _get_ranges(summary: Entry) -> tuple[tuple[int, int], ...]:
    """Return the positions that a summary stands for; those that stand for none are alike."""
    return (summary.cover.ranges if summary.cover is not None else ()) or ((0, 0),)


def _is_overlapping(ranges: Iterable[tuple[int, int]], others: Sequence[tuple[int, int]]) -> bool:
    return any(first <= end and start <= last for first, last in ranges for start, end in others)


def find_live_summary(live: Sequence[Entry]) -> Entry | None:
    """Return the newest summary that counts and was written, not made by rule, if there is one."""
    written = [entry for entry in find_nodes(live) if not get_level(entry)]
    return max(written, key=lambda entry: entry.position, default=None)


def find_covers(live: Sequence[Entry], summaries: Iterable[Entry]) -> dict[str, str]:
    """Return which summary covers an entry: entry id to summary id, the first that does."""
    spoken = [entry for entry in live if entry.role != "summary"]
    places = EntryPlaces(spoken)
    found: dict[str, str] = {}
    for summary in summaries:
        for number in places.find_under(summary.cover):
            found.setdefault(spoken[number].id, summary.id)
    return found


def find_uncovered(live: Sequence[Entry], tops: Iterable[Entry] | None = None) -> list[Entry]:
    """Return the live entries that no summary stands for, in order.

    Args:
        live: Live entries.
        tops: Summaries that count, with those that they build on; by default the frontier.
    """
    covered = find_covers(live, find_nodes(live, tops))
    return [entry for entry in live if entry.role != "summary" and entry.id not in covered]


# -- Turns ----------------------------------------------------------------------------------------
PLACEHOLDER_TEXT = "..."
"""What the user is taken to have said when the assistant spoke first."""


_SHOWN = 60
"""So many characters of a turn stand in its `repr`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """Consecutive messages of one role, as the views show them.

    Attributes:
        id: Id of its first entry; a placeholder's id is derived and the same in every process.
        role: The role of all its parts.
        contents: Text pieces of all parts, in order, blank ones left out.
        entries: The parts, in order; empty for a placeholder.
        metadata: One `merged` mark per further part. If parts set the same timing or aux key, the
            last wins; `creation` is the first part's.
    """

    id: str
    role: Role
    contents: tuple[str, ...]
    entries: tuple[Entry, ...]
    metadata: Metadata

    def __repr__(self) -> str:
        text = textwrap.shorten(" ".join(describe_turn(self)), _SHOWN, placeholder="…")
        parts = f", {len(self.entries)} parts" if len(self.entries) > 1 else ""
        return f"{type(self).__name__}({self.role}: {text!r}{parts}, id={self.id!r})"


def build_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the thread's turns in display order, summaries and placeholders included.

    What a summary covers is never merged with what it does not cover, so that a turn is shown to
    the model either whole or not at all.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    # What was made by rule comes last, so that it changes no turn.
    ranked = sorted(find_nodes(live), key=lambda entry: (get_level(entry) > 0, -entry.position))
    return _add_placeholders(split_runs(live, find_covers(live, ranked)))


def build_model_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the turns a model reads, in order: what no summary covers, summaries left out.

    These are the pieces that `build_context` makes messages of, before any budget.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    shown = find_uncovered(find_live_entries(entries))
    said = [entry for entry in shown if entry.role != "system"]
    system = [entry for entry in shown if entry.role == "system"]
    return [*map(make_turn, split_runs(system)), *_add_placeholders(split_runs(said))]


def split_runs(
    entries: Iterable[Entry], covers: Mapping[str, str] | None = None
) -> list[list[Entry]]:
    """Return the entries that are not blank as maximal runs of one role.

    A tool loop is never merged across, and a summary is a run of its own.

    Args:
        entries: Live entries in display order.
        covers: Which summary covers an entry; a run is covered by one of them, or by none.
    """
    known = covers or {}
    found: list[list[Entry]] = []
    for entry in entries:
        if is_blank(entry):
            continue
        before = found[-1][-1] if found else entry
        is_covered_alike = known.get(before.id) == known.get(entry.id)
        if found and is_covered_alike and _is_continuation(before, entry):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _is_continuation(before: Entry, entry: Entry) -> bool:
    is_alike = before.role == entry.role != "summary"
    return is_alike and not (entry.role == "assistant" and has_calls(before))


def _add_placeholders(found: Iterable[Sequence[Entry]]) -> list[Turn]:
    shown: list[Turn] = []
    opening = True
    for run in found:
        role = run[0].role
        if opening and role == "assistant":
            shown.append(make_placeholder_turn(run[0]))
        # What follows a summary is the start of what the model reads, as the first entry is.
        opening = role == "summary" or (opening and role == "system")
        shown.append(make_turn(run))
    return shown


def make_turn(run: Sequence[Entry]) -> Turn:
    """Return a run of entries as one turn: all pieces, ids and metadata, nothing summed up."""
    first = run[0]
    attributes = [mark for entry in run for mark in entry.metadata.attributes]
    timings = (pair for one in run[1:] for pair in one.metadata.timing.items())
    later = {name: ms for name, ms in timings if name != "creation"}
    metadata = Metadata(
        attributes=(*attributes, *["merged"] * (len(run) - 1)),
        timing={**first.metadata.timing, **later},
        summary_ids=first.metadata.summary_ids,
        aux={name: value for one in run for name, value in one.metadata.aux.items()},
    )
    contents = tuple(text for entry in run for text in entry.contents)
    return Turn(first.id, first.role, contents, tuple(run), metadata)


def make_placeholder_turn(before: Entry) -> Turn:
    """Return the user turn put in front of `before`; its id is the same in every process."""
    key, written_ms = before.key, get_ulid_ms(before.id)
    created_ms = before.metadata.timing.get("creation", written_ms)
    return Turn(
        id=derive_ulid(written_ms - 1, key.user_id, key.thread_id, before.id),
        role="user",
        contents=(PLACEHOLDER_TEXT,),
        entries=(),
        metadata=Metadata(attributes=("fake",), timing={"creation": created_ms - 1}),
    )


def has_calls(entry: Entry) -> bool:
    """Return whether the entry asks for tools."""
    return bool(find_calls(entry.message))


def is_blank(entry: Entry) -> bool:
    """Return whether the entry has nothing a model could read: no text, media, calls or result."""
    if entry.contents or has_calls(entry) or entry.role == "tool":
        return False
    content = entry.message.content if entry.message is not None else ""
    if isinstance(content, str):
        return True
    unreadable = {*TEXT_BLOCKS, *CALL_BLOCKS}  # texts are blank here, and calls are not whole
    return all(isinstance(block, str) or get_block_type(block) in unreadable for block in content)


# -- Values for people: what an entry, a block or a turn holds as text -----------------------------
def describe_entry(entry: Entry) -> list[str]:
    """Return what an entry holds, for a person: its content, then `[calls weather(city="Porto")]`.

    What is not text has a note in its place, so that nothing vanishes without a trace.
    """
    calls = [f"[calls {name}({arguments})]" for name, arguments in list_calls(entry.message)]
    return [*describe_content(entry), *calls]


def describe_content(entry: Entry) -> list[str]:
    """Return the pieces of an entry's content in order, without the calls that it makes."""
    if entry.message is None or isinstance(entry.message.content, str):
        return list(entry.contents)
    described = map(describe_block, entry.message.content)
    return [piece for piece in described if piece.strip()]


def describe_block(block: Any) -> str:
    """Return a content block as text: its own, or a note such as `[image, png, 86 kB]`.

    Empty for a block that repeats a call of its message.
    """
    if (text := get_block_text(block)) is not None:
        return text
    if get_block_type(block) in CALL_BLOCKS:
        return ""
    if media := read_media(block):
        return describe_media(media)
    inner = unwrap_block(block)
    told = [inner.get(name) for name in ("type", "content_type", "file_name", "title")]
    named = " ".join(one for one in told if isinstance(one, str))
    return f"[{named or next(iter(inner), 'empty')}]"


def list_calls(message: BaseMessage | None) -> list[tuple[str, str]]:
    """Return the name and the arguments, such as `city="Porto"`, of each call of a message.

    Arguments that cannot be read come as the model wrote them.
    """
    calls = [
        (call["name"], ", ".join(f"{k}={describe_as_json(v)}" for k, v in call["args"].items()))
        for call in find_calls(message)
    ]
    broken = message.invalid_tool_calls if isinstance(message, AIMessage) else []
    return [*calls, *((call["name"] or "?", call["args"] or "") for call in broken)]


def describe_turn(turn: Turn) -> Sequence[str]:
    """Return the pieces of a turn for a person; a placeholder has a text but no entries."""
    return [piece for entry in turn.entries for piece in describe_entry(entry)] or turn.contents


# -- Turns as plain maps, in the shape a NoSQL log stores, and what a sink has not got yet ---------
# A sink takes the maps and keeps them by id. What it was given is not remembered map by map: since
# a log only grows, the view that it was given can be computed again from the position up to which
# the log was read.
RETRACTED = "retracted"
"""Mark of a turn that a sink was given and that no longer counts."""


def make_turn_map(turn: Turn) -> dict[str, Any]:
    """Return a turn as `id`, `message` (role, contents) and `metadata`.

    Where a part of it says more than its texts, such as calls, a picture, a name or the usage of a
    model, `message` has `messages` as well: all parts, as LangChain's `messages_from_dict` reads
    them. Values that JSON lacks are tagged in them as in a log: bytes are `{"$bytes": base64}`.

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
    said = [one for one in turn.entries if one.message is not None]
    parts = [{**encode_message(one.message), "id": one.message_id} for one in said if one.message]
    more = [part.keys() - {"content", "id", "type"} for part in parts]
    texts = [make_content(one.contents) for one in said]
    if any(more) or texts != [part["content"] for part in parts]:
        message["messages"] = [{"type": part["type"], "data": tag_json(part)} for part in parts]
    return {
        "id": turn.id,
        "message": message,
        "metadata": {**shown, "timing": dict(known.timing)},
    }


@dataclass(frozen=True, slots=True)
class ExportCursor:
    """How far a sink was served: a state document of a few numbers and ids.

    Attributes:
        position: The log was read up to this position.
        held: Turns shown then that the sink lacks in that form, by id: the last one, where it was
            left out. The value says whether the sink has an earlier form of it.
    """

    position: int = 0
    held: Mapping[str, bool] = field(default_factory=dict)


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
    forms = {turn.id: turn.entries for turn in then if turn.id not in cursor.held}
    shown = build_turns(entries)
    ids = {turn.id for turn in shown}
    gone = [_mark_retracted(turn) for turn in known.values() if turn.id not in ids]
    ready = shown[:-1] if exclude_last else shown
    fresh = [make_turn_map(turn) for turn in ready if forms.get(turn.id) != turn.entries]
    late = [turn for turn in shown[len(ready) :] if forms.get(turn.id) != turn.entries]
    held = {turn.id: turn.id in known for turn in late}
    position = entries[-1].position if entries else cursor.position
    return [*gone, *fresh], ExportCursor(position, held)


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
