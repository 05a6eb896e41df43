"""Turns: maximal runs of one role, with a placeholder where a conversation opens unasked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from langchain_convmem.ids import derive_ulid, get_ulid_ms
from langchain_convmem.records import Entry, Metadata, Turn
from langchain_convmem.views.live import (
    find_covers,
    find_live_entries,
    find_summary_chain,
    find_uncovered,
)
from langchain_convmem.views.tool_calls import CALL_BLOCKS, find_calls

PLACEHOLDER_TEXT = "..."
"""What the user is taken to have said when the assistant spoke first."""


def build_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the thread's turns in display order, summaries and placeholders included.

    What a summary covers is never merged with what it does not cover, so that a turn is shown to
    the model either whole or not at all.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    live = find_live_entries(entries)
    # What the live summary stands for decides first; a summary that it superseded only then.
    summaries = [*find_summary_chain(live), *_select_role(live, "summary")]
    return _add_placeholders(split_runs(live, find_covers(live, summaries)))


def build_model_turns(entries: Sequence[Entry]) -> list[Turn]:
    """Return the turns a model reads, in order: what no summary covers, summaries left out.

    These are the pieces that `build_context` makes messages of, before any budget.

    Args:
        entries: A thread's entries by ascending position, control entries included.
    """
    shown = find_uncovered(find_live_entries(entries))
    said = [entry for entry in shown if entry.role != "system"]
    system = split_runs(_select_role(shown, "system"))
    return [*map(make_turn, system), *_add_placeholders(split_runs(said))]


def _select_role(entries: Iterable[Entry], role: str) -> list[Entry]:
    return [entry for entry in entries if entry.role == role]


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
        before = found[-1][-1] if found else None
        if (
            before is not None
            and _is_continuation(before, entry)
            and known.get(before.id) == known.get(entry.id)
        ):
            found[-1].append(entry)
        else:
            found.append([entry])
    return found


def _is_continuation(before: Entry, entry: Entry) -> bool:
    if before.role != entry.role or entry.role == "summary":
        return False
    return not (entry.role == "assistant" and has_calls(before))


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
    timing: dict[str, int] = {}
    aux: dict[str, object] = {}
    for entry in run:
        timing = {**entry.metadata.timing, **timing}
        aux.update(entry.metadata.aux)
    metadata = Metadata(
        attributes=(*attributes, *["merged"] * (len(run) - 1)),
        timing=timing,
        summary_ids=first.metadata.summary_ids,
        aux=aux,
    )
    contents = tuple(text for entry in run for text in entry.contents)
    return Turn(first.id, first.role, contents, tuple(run), metadata)


def make_placeholder_turn(before: Entry) -> Turn:
    """Return the user turn put in front of `before`; its id is the same in every process."""
    at_ms = get_ulid_ms(before.id) - 1
    key = before.key
    return Turn(
        id=derive_ulid(at_ms, key.user_id, key.thread_id, before.id),
        role="user",
        contents=(PLACEHOLDER_TEXT,),
        entries=(),
        metadata=Metadata(attributes=("fake",), timing={"creation": at_ms}),
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
    unreadable = {"text", *CALL_BLOCKS}  # texts are blank here, and calls are not whole
    return all(isinstance(block, str) or block.get("type") in unreadable for block in content)
