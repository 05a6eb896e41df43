"""`Compactor`: plans a summary, has it written, checks it and commits it.

A failure at any point leaves the thread as it was. What is said while a summariser works stays
whole, after the summary; what is undone, replaced or forgotten meanwhile makes the summary stale,
and it is not written. Leases keep all threads, loops and processes at one summary at a time;
background jobs run compactions outside a turn.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import StaleWindowError, SummaryError
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.runnables import OwnTokens, count_own_calls
from langchain_convmem.summarizing.checks import find_missing_sections, list_details
from langchain_convmem.summarizing.citations import cite
from langchain_convmem.summarizing.leases import Ended, Lease, Leases
from langchain_convmem.summarizing.planning import (
    Size,
    SummaryPlan,
    SummarySettings,
    count_excess,
    make_plan_again,
    plan_leaves,
)
from langchain_convmem.summarizing.summarizers import (
    PROMPT_VERSION,
    Summarizer,
    WrittenSummary,
    check_summarizer,
    notify_application,
    read_transcript,
    write,
)
from langchain_convmem.summarizing.tree import plan_parent
from langchain_convmem.views.context import Context, is_framing
from langchain_convmem.views.live import LEVEL, RECORD, find_live_entries, find_nodes
from langchain_convmem.views.messages import SUMMARY_SOURCE, DraftBuilder
from langchain_convmem.views.summaries import (
    CITES,
    DAYS,
    SummaryWindow,
    check_kept,
    draft_summary,
)
from langchain_convmem.words.facts import Fact

ReadThread: TypeAlias = Callable[[ThreadKey], Sequence[Entry]]
"""Reads the entries of a thread that its next view needs, by position."""

_CROWDED = 1.25
"""A message of summaries so many times as long as it should be may need parents."""

_logger = logging.getLogger("langchain_convmem")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Compactor:
    """Compacts the threads of a log. Thread-safe; holds no entries.

    Attributes:
        log: Where the threads are.
        summarizer: Writes the summaries.
        settings: When, and how much.
        leases: Of the log.
        drafting: Makes drafts, through the write hook.
        read: Reads what is live of a thread.
        on_summary: Gets the events of each attempt.
    """

    log: MessageLog
    summarizer: Summarizer
    settings: SummarySettings
    leases: Leases
    drafting: DraftBuilder
    read: ReadThread
    on_summary: Callable[[SummaryEvent], object] | None = None

    def compact(self, key: ThreadKey, *, force: bool = False) -> SummaryReport:
        """Compact a thread if that is due.

        Args:
            key: The thread.
            force: Compact all that may be covered, also where nothing is due or where the thread
                rests after a failure.

        Raises:
            ConfigError: If the summariser or the judge is a coroutine function, and nothing here
                can await it.
            LogError: If the log cannot be read or written.
        """
        check_summarizer(self.summarizer, self.settings.judge)
        if not self.is_due(key, force=force):
            return SummaryReport(key=key, outcome="not_due")
        return self._compact(key, partial(self._plan, force=force), even_resting=force)

    def is_due(self, key: ThreadKey, *, force: bool = False) -> bool:
        """Return whether there is something to compact in a thread now."""
        entries = self.read(key)
        if plan_leaves(key, entries, self.settings, force=force):
            return True
        return plan_parent(entries, self.settings) is not None

    def may_be_due(self, view: Context | None, replies: Sequence[BaseMessage]) -> bool:
        """Return whether a thread may be due, without a look into the log.

        Args:
            view: The thread as a model saw it; None if that is not known.
            replies: What was said since.
        """
        if view is None:
            return True
        count = self.settings.counter
        framing = [one for one in view.messages if is_framing(one)]
        told = [one for one in framing if one.additional_kwargs.get("source") == SUMMARY_SOURCE]
        told_tokens = count(told)
        size = Size(
            view.tokens - count(framing) + count(replies),
            len(view.messages) - len(framing) + len(replies),
        ).add_tokens(count_excess(told_tokens, self.settings))
        is_crowded = told_tokens > _CROWDED * self.settings.shown_tokens
        return not view.is_whole or is_crowded or self.settings.is_due(size)

    def redo(self, key: ThreadKey) -> SummaryReport:
        """Write the live summary of a thread anew, of what it covers; see `compact`."""
        check_summarizer(self.summarizer, self.settings.judge)
        return self._compact(key, self._plan_again, even_resting=True)

    # -- plan ------------------------------------------------------------------------------------

    def _plan(self, key: ThreadKey, *, force: bool) -> list[SummaryPlan]:
        return plan_leaves(key, self.read(key), self.settings, force=force)

    def _plan_again(self, key: ThreadKey) -> list[SummaryPlan]:
        plan = make_plan_again(key, self.log.entries(key), self.settings)
        return [] if plan is None or plan.window.is_empty else [plan]

    def _compact(
        self, key: ThreadKey, plan: Callable[[ThreadKey], list[SummaryPlan]], *, even_resting: bool
    ) -> SummaryReport:
        lease = self.leases.take(key, even_resting=even_resting)
        if lease is None:
            rests = self.leases.find_rest(key)
            return SummaryReport(key=key, outcome="resting" if rests else "busy")
        ended: Ended = "done"
        began, rests_until = time.monotonic(), 0
        try:
            # Planned under the lease: another one may have compacted the thread before.
            reports = self._execute_all(lease, plan(key))
            if not reports or any(reports):
                reports += self._write_parents(lease)
            if any(one.outcome == "failed" for one in reports):
                ended = "failed"
        except BaseException as error:
            # Whoever is cancelled, or stopped by a signal, learns nothing about the summariser.
            ended = "failed" if isinstance(error, Exception) else "stopped"
            raise
        finally:
            rests_until = self.leases.give_back(lease, ended)
        report = _join_reports(reports or [SummaryReport(key=key, outcome="not_due")])
        seconds = time.monotonic() - began
        return self._report(replace(report, seconds=seconds, next_attempt_ms=rests_until))

    def _report(self, report: SummaryReport) -> SummaryReport:
        """Tell the application of a report, and return it."""
        if self.on_summary is not None:
            what = f"the events of thread {report.key.thread_id!r}"
            for event in list_events(report):
                notify_application(self.on_summary, event, what)
        return report

    # -- summarise, check, commit ----------------------------------------------------------------

    def _execute_all(self, lease: Lease, plans: Sequence[SummaryPlan]) -> list[SummaryReport]:
        """Make summaries one after another, up to the first that is not written."""
        reports: list[SummaryReport] = []
        for plan in plans:
            reports.append(self._execute(lease, plan))
            if not reports[-1]:
                break
        return reports

    def _execute(self, lease: Lease, plan: SummaryPlan) -> SummaryReport:
        key = lease.key
        try:
            with count_own_calls() as own:
                written = write(self.summarizer, plan.window, self.settings)
            pieces, report = self._check(plan.window, written, own)
            entry = self._commit(lease, plan, pieces, report, own)
        except StaleWindowError as error:
            return SummaryReport(key=key, outcome="stale", problem=str(error), **_get_tokens(own))
        except SummaryError as error:
            _logger.warning("thread %r was not compacted: %s", key.thread_id, error)
            return SummaryReport(
                key=key,
                outcome="failed",
                problem=str(error),
                is_outage=error.is_outage,
                **_get_tokens(own),
            )
        return replace(report, summary=entry)

    def _check(
        self, window: SummaryWindow, written: WrittenSummary, own: OwnTokens
    ) -> tuple[tuple[str, ...], SummaryReport]:
        """Return the pieces of a summary, and what they tell of what they should."""
        pieces, left = list_pieces(written, self.settings)
        report = SummaryReport(
            key=window.key,
            outcome="written",
            covered=len(window.entry_ids),
            calls=written.calls,
            facts=len(written.facts),
            in_text=len(written.facts) - len(written.missing),
            listed=len(written.missing) - len(left),
            left=len(left),
            missing_sections=find_missing_sections(written.text, self.settings.sections),
            doubted=written.doubted,
            **_get_tokens(own),
        )
        return pieces, report

    def _commit(
        self,
        lease: Lease,
        plan: SummaryPlan,
        pieces: Sequence[str],
        report: SummaryReport,
        own: OwnTokens,
    ) -> Entry:
        """Write the summary, with what its calls took.

        Raises:
            StaleWindowError: If what it was made of changed, or another one took over.
            SummaryError: If the write hook stores nothing of the text.
        """
        kept = self.drafting.filter_pieces(pieces)
        if kept is None:
            raise SummaryError("before_write stores nothing of the summary")
        if not self.leases.renew(lease):
            msg = "another process took over the summary of this thread; nothing was written"
            raise StaleWindowError(msg, thread_id=lease.key.thread_id)
        read: ReadThread = self.log.entries if plan.is_redone else self.read
        author, entries = self.summarizer.name, read(lease.key)
        draft = draft_summary(
            kept,
            plan.window,
            entries,
            model=author,
            prompt_version=PROMPT_VERSION,
            is_redone=plan.is_redone,
        )
        cites = {CITES: found} if (found := cite(kept, plan.window)) else {}
        record = {**report.to_record(), LEVEL: 0, **_note_days(plan.window), **cites}
        draft = replace(
            draft, metadata=replace(draft.metadata, aux={RECORD: record, **own.to_aux()})
        )
        [added] = self.log.append(lease.key, [draft])
        self._check_kept(plan.window, added)
        return added

    def _check_kept(self, window: SummaryWindow, summary: Entry) -> None:
        """Erase a summary again if what it tells of was taken back while it was written.

        Raises:
            StaleWindowError: If so.
        """
        told = [*window.turns, *([] if window.previous is None else [window.previous])]
        first = min(entry.position for turn in told for entry in turn.entries)
        entries = self.log.entries(window.key, after=first - 1)
        try:
            check_kept(window, entries)
        except StaleWindowError:
            self.log.forget(window.key, [summary.id])
            raise

    # -- put summaries under parents --------------------------------------------------------------

    def _write_parents(self, lease: Lease) -> list[SummaryReport]:
        """Put summaries under parents until all that a model reads fit their budget."""
        reports: list[SummaryReport] = []
        while True:
            entries = self.read(lease.key)
            plan = plan_parent(entries, self.settings)
            draft = None if plan is None else self.drafting.filter_draft(plan.draft)
            if plan is None or draft is None or not self.leases.renew(lease):
                return reports
            draft = _keep_cites_true(draft, plan.draft)
            [added] = self.log.append(lease.key, [draft])
            if not self._is_kept(added, plan.children):
                return reports
            reports.append(SummaryReport(key=lease.key, outcome="written", summary=added, folded=1))

    def _is_kept(self, parent: Entry, children: Sequence[Entry]) -> bool:
        """Erase a parent again if one of its children was erased, or continued, meanwhile."""
        key, wanted = parent.key, {child.id for child in children}
        found = self.log.find(key, [child.message_id for child in children])
        nodes = find_nodes(find_live_entries(self.read(key)))
        others = [node for node in nodes if node.id != parent.id]
        is_continued = any(not wanted.isdisjoint(one.metadata.summary_ids) for one in others)
        if wanted.issubset(entry.id for entry in found) and not is_continued:
            return True
        self.log.forget(key, [parent.id])
        return False


def _get_tokens(own: OwnTokens) -> dict[str, Any]:
    """Return what a summariser read and wrote, as its provider reports it."""
    counts = own.to_counts()
    return {
        "tokens_read": counts.get("input_tokens", 0),
        "tokens_written": counts.get("output_tokens", 0),
    }


def list_pieces(
    written: WrittenSummary, settings: SummarySettings
) -> tuple[tuple[str, ...], Sequence[Fact]]:
    """Return the pieces of a summary, none of them empty, and the facts that none tells.

    Args:
        written: The summary.
        settings: How long its list of details may be.
    """
    details, left = list_details(written.missing, settings.facts_tokens, count=settings.count_text)
    return tuple(piece for piece in (written.text, details) if piece), left


def _note_days(window: SummaryWindow) -> dict[str, list[str]]:
    """Return the first and the last day of what a window holds, as part of a record."""
    days = [line.day for line in read_transcript(window) if line.day]
    return {DAYS: [min(days), max(days)]} if days else {}


def _keep_cites_true(kept: Draft, made: Draft) -> Draft:
    """Return a draft without the sources of its sentences if the write hook changed these."""
    if kept.contents == made.contents:
        return kept
    record = {name: one for name, one in kept.metadata.aux[RECORD].items() if name != CITES}
    return replace(kept, metadata=replace(kept.metadata, aux={RECORD: record}))


Outcome = Literal["written", "not_due", "busy", "resting", "stale", "failed"]
"""`busy`: another one is at it; `resting`: the thread rests after a failure; `stale`: what was
summarised has changed meanwhile, and nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryCounts:
    """What a compaction came to, in numbers.

    Attributes:
        covered: How many entries the summaries that were written stand for.
        folded: How many parents were put over summaries that a model would else read.
        calls: How often the summariser was asked.
        tokens_read: How many tokens it read for that, as its provider reports it; else 0.
        tokens_written: How many it wrote.
        seconds: How long all of it took.
        next_attempt_ms: Where it failed, when the thread is tried again, milliseconds since the
            epoch; else 0.
        facts: Amounts, numbers, times, dates, ids, links and names of speakers that it stands for.
        in_text: How many of them its text tells.
        listed: How many more its list of details tells.
        left: How many are left to the log, and to recall.
    """

    covered: int = 0
    folded: int = 0
    calls: int = 0
    tokens_read: int = 0
    tokens_written: int = 0
    seconds: float = field(default=0.0, compare=False)
    next_attempt_ms: int = 0
    facts: int = 0
    in_text: int = 0
    listed: int = 0
    left: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryReport(SummaryCounts):
    """The result of an attempt to compact a thread.

    Attributes:
        key: The thread.
        outcome: What happened.
        summary: The entry that was written, if any; the last one if there are several.
        problem: Why nothing was written, in one sentence; empty if there was no problem.
        is_outage: Whether the reason is that the summarizer raised an error.
        missing_sections: Required headings that the summary does not have.
        doubted: Sentences that the judge found unsupported.
    """

    key: ThreadKey
    outcome: Outcome
    summary: Entry | None = None
    problem: str = ""
    is_outage: bool = False
    missing_sections: tuple[str, ...] = ()
    doubted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether a summary was written."""
        return self.outcome == "written"

    def to_record(self) -> dict[str, Any]:
        """Return what stands with the summary about how it was made."""
        noted = {"missing_sections": list(self.missing_sections)} if self.missing_sections else {}
        doubted = {"doubted": list(self.doubted)} if self.doubted else {}
        return {
            **noted,
            **doubted,
            "facts": self.facts,
            "in_text": self.in_text,
            "listed": self.listed,
            "left": self.left,
        }


def _join_reports(reports: Sequence[SummaryReport]) -> SummaryReport:
    """Return several as one: what happened last, and all counts together.

    The summary is the last that a summariser wrote; where none did, the last parent.
    """
    written = [report for report in reports if report]
    leaves = [report for report in written if not report.folded]
    last = (leaves or written or reports)[-1]
    problem = next((report.problem for report in reports if report.problem), "")
    counts: dict[str, Any] = {}
    for name in (one.name for one in fields(SummaryReport)):
        values = [getattr(report, name) for report in reports]
        if isinstance(values[0], bool):
            counts[name] = any(values)
        elif isinstance(values[0], int | float):
            counts[name] = sum(values)
        elif isinstance(values[0], tuple):
            counts[name] = tuple(chain.from_iterable(values))
    return replace(last, problem=problem, **counts)


# -- Events: what an application is told of compactions; nothing that was said -------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryEvent(SummaryCounts):
    """An event concerning the summaries of a thread: counts, without message text.

    Attributes:
        key: The thread.
        kind: `compacted`: a summary was written. `failed`: no summary was written, and the memory
            waits before it tries again, longer after each further failure.
        problem: For `failed`, the reason in one sentence.
        missing_sections: How many required sections were left out.
        doubted: How many sentences the judge found unsupported.
    """

    key: ThreadKey
    kind: Literal["compacted", "failed"]
    problem: str = ""
    missing_sections: int = 0
    doubted: int = 0


def list_events(report: SummaryReport) -> Iterator[SummaryEvent]:
    """Yield what there is to tell of an attempt, in order; nothing where nothing was due."""
    counts: dict[str, Any] = {}
    for one in fields(SummaryEvent):
        if one.name not in ("key", "kind", "problem", "next_attempt_ms"):
            value = getattr(report, one.name)
            counts[one.name] = len(value) if isinstance(value, tuple) else value
    failed = partial(
        SummaryEvent,
        key=report.key,
        kind="failed",
        problem=report.problem,
        next_attempt_ms=report.next_attempt_ms,
    )
    if report:
        yield SummaryEvent(key=report.key, kind="compacted", **counts)
        if report.problem:
            yield failed()
    elif report.outcome == "failed":
        yield failed(**counts)
