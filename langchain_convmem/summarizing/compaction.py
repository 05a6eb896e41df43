"""Compacting a thread: plan, summarise, check, commit. Nothing is written before all is well.

A failure at any point leaves the thread as it was. What is said while a summariser works stays
whole, behind the summary; what is undone, replaced or forgotten meanwhile makes the summary stale,
and it is not written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeAlias, cast

from langchain_convmem.errors import StaleWindowError, SummaryError
from langchain_convmem.protocols import MessageLog, Summarizer
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.steps import Steps, step
from langchain_convmem.summarizing.checking import detail_list
from langchain_convmem.summarizing.leases import Ended, Lease, Leases
from langchain_convmem.summarizing.planning import Plan, make_plan, remade_plan
from langchain_convmem.summarizing.prompt import PROMPT_VERSION
from langchain_convmem.summarizing.report import SummaryReport
from langchain_convmem.summarizing.settings import SummarySettings
from langchain_convmem.summarizing.writing import Written, written_steps
from langchain_convmem.views.drafting import Drafting
from langchain_convmem.views.facts import Fact
from langchain_convmem.views.summaries import check_kept, replacing_draft, summary_draft
from langchain_convmem.views.window import SummaryWindow

__all__ = ["Compactor", "Findable", "ReadThread"]

ReadThread: TypeAlias = "Callable[[ThreadKey], Steps[Sequence[Entry]]]"
"""Reads the entries of a thread that its next view needs, by position."""

Findable: TypeAlias = "Callable[[ThreadKey, Sequence[Fact]], Steps[list[bool]]]"
"""Tells which facts recall finds by the sentence that they were said in."""

_logger = logging.getLogger("langchain_convmem")


class Compactor:
    """Compacts the threads of a log. Thread-safe; holds no entries."""

    def __init__(
        self,
        log: MessageLog,
        summarizer: Summarizer,
        settings: SummarySettings,
        *,
        drafting: Drafting,
        read: ReadThread,
        findable: Findable | None = None,
    ) -> None:
        """Create a compactor.

        Args:
            log: Where the threads are.
            summarizer: Writes the summaries.
            settings: When, and how much.
            drafting: Makes drafts, through the write hook.
            read: Reads what is live of a thread.
            findable: Checks what may be left to recall; None leaves nothing to it.
        """
        self.summarizer = summarizer
        self.settings = settings
        self._log = log
        self._drafting = drafting
        self._read = read
        self._findable = findable
        self._leases = Leases(log, settings)

    def compact_steps(self, key: ThreadKey, *, force: bool = False) -> Steps[SummaryReport]:
        """Compact a thread if that is due.

        Args:
            key: The thread.
            force: Compact all that may be covered, also where nothing is due or where the thread
                rests after a failure.

        Raises:
            LogError: If the log cannot be read or written.
        """
        if (yield from self._planned_on_top(key, force=force)) is None:
            return SummaryReport(key=key, outcome="not_due")
        make = _MakePlan(partial(self._planned, key, force=force), is_forced=force)
        return (yield from self._under_lease(key, make, self.summarizer))

    def is_due_steps(self, key: ThreadKey) -> Steps[bool]:
        """Return whether there is something to compact in a thread now."""
        return (yield from self._planned_on_top(key, force=False)) is not None

    def redo_steps(self, key: ThreadKey, by: Summarizer | None = None) -> Steps[SummaryReport]:
        """Write the live summary of a thread anew, of what it covers; see `compact_steps`.

        Args:
            key: The thread.
            by: Writes it; by default who writes the others.
        """
        make = _MakePlan(partial(self._remade, key), is_forced=True)
        return (yield from self._under_lease(key, make, by or self.summarizer))

    def _remade(self, key: ThreadKey) -> Steps[Plan | None]:
        entries: list[Entry] = yield step(self._log, "entries", key)
        return remade_plan(key, entries)

    # -- plan ------------------------------------------------------------------------------------

    def _planned_on_top(self, key: ThreadKey, *, force: bool) -> Steps[Plan | None]:
        """Return the plan of a summary on top of the live one, which takes the live part alone."""
        entries = yield from self._read(key)
        return make_plan(key, entries, self.settings, force=force)

    def _planned(self, key: ThreadKey, *, force: bool) -> Steps[Plan | None]:
        plan = yield from self._planned_on_top(key, force=force)
        every_so_many = self.settings.rebuild_every
        if plan is None or not every_so_many or plan.rolled < every_so_many:
            return plan
        entries: list[Entry] = yield step(self._log, "entries", key)
        return make_plan(key, entries, self.settings, force=force, rebuild=True)

    def _under_lease(self, key: ThreadKey, make: _MakePlan, by: Summarizer) -> Steps[SummaryReport]:
        lease = yield from self._leases.take(key, even_resting=make.is_forced)
        if lease is None:
            return SummaryReport(key=key, outcome="busy")
        try:
            # Planned under the lease: another one may have compacted the thread before.
            plan = yield from make.steps()
            report = yield from self._carried_out(lease, plan, by)
        except BaseException as error:
            # Whoever was cancelled, or stopped by a signal, learned nothing about the summariser.
            ended: Ended = "failed" if isinstance(error, Exception) else "stopped"
            yield from self._leases.give_back(lease, ended)
            raise
        ended = "failed" if report.outcome == "failed" else "done"
        yield from self._leases.give_back(lease, ended)
        return report

    # -- summarise, check, commit ----------------------------------------------------------------

    def _carried_out(self, lease: Lease, plan: Plan | None, by: Summarizer) -> Steps[SummaryReport]:
        key = lease.key
        if plan is None or plan.window.is_empty:
            return SummaryReport(key=key, outcome="not_due")
        try:
            written = yield from written_steps(by, plan.window, self.settings)
            pieces, report = yield from self._checked(key, written)
            report = replace(report, covered=len(plan.window.entry_ids))
            entry = yield from self._committed(lease, plan, pieces, report, author=by.name)
        except StaleWindowError as error:
            return SummaryReport(key=key, outcome="stale", problem=str(error))
        except SummaryError as error:
            _logger.warning("thread %r was not compacted: %s", key.thread_id, error)
            return SummaryReport(key=key, outcome="failed", problem=str(error))
        return replace(report, summary=entry)

    def _checked(
        self, key: ThreadKey, written: Written
    ) -> Steps[tuple[tuple[str, ...], SummaryReport]]:
        """Return the pieces of a summary, and what they tell of what they should."""
        missing = written.missing
        found = [False] * len(missing)
        if self._findable is not None and missing:
            found = yield from self._findable(key, missing)
        reachable = {fact.key for fact, is_found in zip(missing, found, strict=True) if is_found}
        details = detail_list(missing, reachable, self.settings.facts_tokens)
        lost = tuple(fact.text for fact in details.left if fact.key not in reachable)
        report = SummaryReport(
            key=key,
            outcome="written",
            calls=written.calls,
            facts=len(written.facts),
            in_text=len(written.facts) - len(missing),
            listed=len(missing) - len(details.left),
            recallable=len(details.left) - len(lost),
            lost=lost,
        )
        pieces = (written.text, details.text) if details.text else (written.text,)
        return pieces, report

    def _committed(
        self,
        lease: Lease,
        plan: Plan,
        pieces: Sequence[str],
        report: SummaryReport,
        *,
        author: str,
    ) -> Steps[Entry]:
        """Write the summary.

        Raises:
            StaleWindowError: If what it was made of changed, or another one took over.
            SummaryError: If the write hook stores nothing of the text.
        """
        kept = self._drafting.pieces(pieces)
        if kept is None:
            raise SummaryError("before_write stores nothing of the summary")
        if not (yield from self._leases.renew(lease)):
            msg = "another process took over the summary of this thread; nothing was written"
            raise StaleWindowError(msg, thread_id=lease.key.thread_id)
        entries: Sequence[Entry]
        if plan.is_redone or not plan.rolled:
            entries = yield step(self._log, "entries", lease.key)
        else:
            entries = yield from self._read(lease.key)
        write = replacing_draft if plan.is_redone else summary_draft
        draft = write(kept, plan.window, entries, model=author, prompt_version=PROMPT_VERSION)
        record = {"summary": report.to_record(plan.rolled)}
        draft = replace(draft, metadata=replace(draft.metadata, aux=record))
        [added] = yield step(self._log, "append", lease.key, [draft])
        yield from self._kept(plan.window, added)
        return cast("Entry", added)

    def _kept(self, window: SummaryWindow, summary: Entry) -> Steps[None]:
        """Erase a summary again if what it tells of was erased while it was written.

        Raises:
            StaleWindowError: If so.
        """
        told = [*window.turns, *([] if window.previous is None else [window.previous])]
        first = min(entry.position for turn in told for entry in turn.entries)
        entries = yield step(self._log, "entries", window.key, after=first - 1)
        try:
            check_kept(window, entries)
        except StaleWindowError:
            yield step(self._log, "forget", window.key, [summary.id])
            raise


class _MakePlan(NamedTuple):
    """How the plan under a lease is made."""

    steps: Callable[[], Steps[Plan | None]]
    is_forced: bool
