"""Reading a thread for its next view: the live part alone, whatever the archive behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_convmem.errors import BudgetError
from langchain_convmem.history.transactions import read_thread_steps, write_cache_steps
from langchain_convmem.protocols import MessageLog, Stretch
from langchain_convmem.records import CacheDraft, Context, Entry, StateDocument, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.views.context import context
from langchain_convmem.views.live_part import LivePart, is_current, narrowed
from langchain_convmem.views.tokens import count_tokens

__all__ = [
    "LiveThread",
    "context_steps",
    "note_of",
    "note_steps",
    "read_all_steps",
    "read_live_steps",
]

_DOCUMENT = "cache:live"
_MANY = 40
"""So many entries read beyond those that a view shows make it worth noting what it needs."""


@dataclass(frozen=True, slots=True)
class LiveThread:
    """Entries of a thread that are enough for its next view.

    Attributes:
        key: The thread.
        entries: By ascending position, control entries included.
        part: What was noted of the entries that are left out; None if these are all.
        version: Version of the note in the log, also of one that no longer holds.
    """

    key: ThreadKey
    entries: Sequence[Entry]
    part: LivePart | None
    version: int | None

    @property
    def earlier_speakers(self) -> Collection[str]:
        """Names that the messages before these bear."""
        return () if self.part is None else self.part.speakers

    def holds(self, position: int) -> bool:
        """Return whether all entries from this position on are among these."""
        return self.part is None or position > self.part.floor

    @property
    def is_whole(self) -> bool:
        """Whether nothing that a model would read is left out."""
        return self.part is None or self.part.is_whole

    def viewed(self, **options: Any) -> Context | None:
        """Return the view of the whole thread.

        None if it takes more than these entries, or if what must not be cut is larger than the
        budget: the view of all entries tells which.
        """
        try:
            view = context(self.entries, earlier_speakers=self.earlier_speakers, **options)
        except BudgetError:
            return None
        # Where something was cut, what lies before it is cut as well.
        return None if view.is_whole and not self.is_whole else view


def context_steps(log: MessageLog, key: ThreadKey, **options: Any) -> Steps[Context]:
    """Return what a model gets of a thread; the options are those of `context`."""
    thread = yield from read_live_steps(log, key)
    view = thread.viewed(**options)
    if view is None:
        thread = yield from read_all_steps(log, thread)
        view = context(thread.entries, **options)
    yield from note_steps(log, thread, view, options)
    return view


def read_live_steps(log: MessageLog, key: ThreadKey) -> Steps[LiveThread]:
    """Return a thread's live part; all of it where nothing was noted, or no longer holds.

    The entries may be shared with others: read them, and change nothing.
    """
    document, entries = yield from read_thread_steps(log, key, _DOCUMENT, _needed)
    version = None if document is None else document.version
    part = _part_of(document)
    if part is None or is_current(part, entries):
        return LiveThread(key, entries, part, version)
    return LiveThread(key, (yield step(log, "entries", key)), None, version)


def read_all_steps(log: MessageLog, thread: LiveThread) -> Steps[LiveThread]:
    """Return the same thread with all its entries; nothing is read if it has them."""
    if thread.part is None:
        return thread
    return LiveThread(thread.key, (yield step(log, "entries", thread.key)), None, thread.version)


def note_steps(
    log: MessageLog, thread: LiveThread, view: Context, options: dict[str, Any]
) -> Steps[None]:
    """Write down what the next view needs, if this one could have done with much less."""
    note = note_of(thread, view, options)
    if note is not None:
        yield from write_cache_steps(log, thread.key, note)


def note_of(thread: LiveThread, view: Context, options: dict[str, Any]) -> CacheDraft | None:
    """Return what to write down for the next view, if this one could have done with much less.

    Args:
        thread: What was read.
        view: What a model gets of it.
        options: Those of the view; see `context`.
    """
    if len(thread.entries) - len(view.positions) < _MANY:
        return None
    part = narrowed(
        thread.entries,
        thread.part,
        max_tokens=None if view.is_whole else options["max_tokens"],
        token_counter=options.get("token_counter", count_tokens),
    )
    return None if part is None else CacheDraft(_DOCUMENT, part.to_document(), thread.version)


def _part_of(document: StateDocument | None) -> LivePart | None:
    return None if document is None else LivePart.of(document.value)


def _needed(document: StateDocument | None) -> list[Stretch]:
    """Return where the entries stand that a note says are needed; without one, all of them."""
    part = _part_of(document)
    if part is None:
        return [(0, None)]
    return [*_stretches(part.kept), (part.floor, None)]


def _stretches(positions: Sequence[int]) -> Iterator[Stretch]:
    """Yield every run of consecutive positions, ascending."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return ((run[0] - 1, run[-1]) for run in runs)
