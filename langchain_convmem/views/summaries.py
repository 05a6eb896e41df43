"""Adding and taking back summaries: what may be written, decided from entries alone.

A summary deletes nothing. It takes effect as long as it is live; whatever it was made of is shown
again when it is undone. Windows are judged by ids, never by places in a list.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from langchain_core.messages import SystemMessage

from langchain_convmem.errors import InvalidMessageError, StaleWindowError
from langchain_convmem.records import Control, Cover, Draft, Entry, Metadata
from langchain_convmem.views.codec import text_pieces
from langchain_convmem.views.drafting import content_of
from langchain_convmem.views.live import (
    Places,
    covered_by,
    live_entries,
    live_summary,
    summary_chain,
)
from langchain_convmem.views.window import SummaryWindow, crossing_results

__all__ = [
    "applied_summary",
    "check_kept",
    "checked_pieces",
    "replacing_draft",
    "summaries_over",
    "summary_draft",
    "undoing_summary",
]


def checked_pieces(contents: str | Sequence[str], *, what: str) -> tuple[str, ...]:
    """Return the pieces that are not blank.

    Raises:
        InvalidMessageError: If there is none, or something is no text.
    """
    pieces = [contents] if isinstance(contents, str) else list(contents)
    if not all(isinstance(piece, str) for piece in pieces):
        raise InvalidMessageError(f"{what} must be text or a list of texts, got {contents!r:.80}")
    spoken = tuple(piece for piece in pieces if piece.strip())
    if not spoken:
        raise InvalidMessageError(f"{what} must not be blank: {contents!r:.80}")
    return spoken


def applied_summary(
    text: str | Sequence[str], window: SummaryWindow, entries: Sequence[Entry]
) -> Entry | None:
    """Return the live summary that says the same of the same window, if there is one.

    Raises:
        StaleWindowError: If the window was summarised in other words.
    """
    if window.is_empty:
        return None
    for entry in live_entries(entries):
        if entry.cover is not None and entry.cover.digest == window.cover.digest:
            if entry.contents == checked_pieces(text, what="a summary"):
                return entry
            raise _stale(window, "it is summarised already; undo_summary() first")
    return None


def summary_draft(
    text: str | Sequence[str],
    window: SummaryWindow,
    entries: Sequence[Entry],
    *,
    model: str = "",
    prompt_version: str = "",
) -> Draft:
    """Return the entry that puts a summary in the place of a window's turns.

    Its message id is made of what it covers, so that two writers of one window cannot both add
    theirs: the log keeps the later text only.

    Raises:
        InvalidMessageError: If the text is blank or the window empty.
        StaleWindowError: If the window no longer fits the thread.
    """
    pieces = checked_pieces(text, what="a summary")
    if window.is_empty:
        raise InvalidMessageError("the window is empty: there is nothing to summarise yet")
    _check_fresh(window, live_entries(entries))
    return _draft_over(window, pieces, model, prompt_version)


def replacing_draft(
    text: str | Sequence[str],
    window: SummaryWindow,
    entries: Sequence[Entry],
    *,
    model: str = "",
    prompt_version: str = "",
) -> Draft:
    """Return the entry that takes the place of an earlier summary of the same window.

    Raises:
        InvalidMessageError: If the text is blank.
        StaleWindowError: If what the window holds is no longer all there, or if its summary is no
            longer the live one: later summaries build on it as it is.
    """
    pieces = checked_pieces(text, what="a summary")
    live = live_entries(entries)
    _check_alive(window, {entry.id for entry in live})
    newest = live_summary(live)
    if newest is None or newest.cover is None or newest.cover.digest != window.cover.digest:
        raise _stale(window, "its summary is no longer the latest")
    return _draft_over(window, pieces, model, prompt_version)


def _draft_over(
    window: SummaryWindow, pieces: Sequence[str], model: str, prompt_version: str
) -> Draft:
    cover = Cover(window.cover.ranges, window.cover.digest, model, prompt_version)
    return written_summary(pieces, cover, Metadata(summary_ids=window.summary_ids))


def written_summary(pieces: Sequence[str], cover: Cover, metadata: Metadata) -> Draft:
    """Return a summary's draft, its message named after what it covers."""
    message = SystemMessage(content_of(pieces), id=f"summary-{cover.digest}")
    return Draft(
        role="summary",
        message=message,
        contents=text_pieces(message),
        metadata=metadata,
        cover=cover,
    )


def _check_fresh(window: SummaryWindow, live: Sequence[Entry]) -> None:
    _check_alive(window, {entry.id for entry in live})
    spoken = [entry for entry in live if entry.role != "summary"]
    if crossing_results(spoken, set(window.entry_ids)):
        raise _stale(window, "a tool that it calls has returned since")
    if not _advances(window, live, spoken):
        raise _stale(window, "a newer summary covers its messages")


def _check_alive(window: SummaryWindow, alive: Collection[str]) -> None:
    gone = [name for name in window.entry_ids if name not in alive]
    if gone:
        raise _stale(window, f"{len(gone)} of its messages are undone, replaced or forgotten")
    if window.previous is not None and window.previous.id not in alive:
        raise _stale(window, "the summary that it continues was undone")


def _advances(window: SummaryWindow, live: Sequence[Entry], spoken: Sequence[Entry]) -> bool:
    """Return whether all that the live summary stands for stays covered, and more with it."""
    now = covered_by(live, summary_chain(live)).keys()
    then = {spoken[number].id for number in Places(spoken).under(window.cover)}
    for entry in live:
        if window.previous is not None and entry.id == window.previous.id:
            then.update(covered_by(live, summary_chain(live, entry)))
    return now < then


def _stale(window: SummaryWindow, reason: str) -> StaleWindowError:
    msg = (
        f"this window of thread {window.key.thread_id!r} is out of date: {reason}; "
        "take a new one with summary_window()"
    )
    return StaleWindowError(msg, thread_id=window.key.thread_id)


def check_kept(window: SummaryWindow, entries: Sequence[Entry]) -> None:
    """Refuse a summary that was just written if what it tells of was erased meanwhile.

    Who erases looks for such summaries after it; who writes one looks after that. So whichever
    comes last sees the other, and erases the summary.

    Args:
        window: What was summarised.
        entries: The entries of the thread from there on, read after the summary was written.

    Raises:
        StaleWindowError: If some of the window is gone; the summary is to be forgotten, too.
    """
    told = set(window.entry_ids)
    if window.previous is not None:
        told.add(window.previous.id)
    if not told <= {entry.id for entry in entries}:
        raise _stale(window, "some of it was forgotten while its summary was written")


# -- taking back --------------------------------------------------------------------------------


def undoing_summary(entries: Sequence[Entry]) -> list[Draft]:
    """Return the control entry that takes back the live summary; nothing if there is none."""
    summary = live_summary(live_entries(entries))
    if summary is None:
        return []
    return [Draft(role="control", control=Control((summary.id,), "undo"))]


def summaries_over(live: Sequence[Entry], ids: Collection[str]) -> list[str]:
    """Return the ids of the summaries among live entries that tell of any of these entries.

    A summary also tells what the one that it continues told.
    """
    places = Places([entry for entry in live if entry.id in ids and entry.role != "summary"])
    summaries = [entry for entry in live if entry.role == "summary"]
    telling: set[str] = set()
    for summary in sorted(summaries, key=lambda entry: entry.position):
        if places.under(summary.cover) or not telling.isdisjoint(summary.metadata.summary_ids):
            telling.add(summary.id)
    return [summary.id for summary in summaries if summary.id in telling]
