"""`Compactor`: plans a summary, has it written, checks it and commits it.

A failure at any point leaves the thread as it was. What is said while a summariser works stays
whole, after the summary; what is undone, replaced or forgotten meanwhile makes the summary stale,
and it is not written. Leases keep all threads, loops and processes at one summary at a time;
background jobs run compactions outside a turn.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import chain
from typing import Any, Literal, TypeAlias

from langchain_core.messages import BaseMessage

from langchain_convmem.errors import StaleWindowError, SummaryError
from langchain_convmem.forks import make_lock
from langchain_convmem.ids import get_now_ms, make_ulid
from langchain_convmem.message_log import MessageLog
from langchain_convmem.records import Draft, Entry, ThreadKey
from langchain_convmem.runnables import OwnTokens, count_own_calls
from langchain_convmem.summarizing.checks import Details, find_missing_sections, list_details
from langchain_convmem.summarizing.citations import cite
from langchain_convmem.summarizing.planning import (
    Size,
    SummaryPlan,
    SummarySettings,
    count_excess,
    make_plan_again,
    plan_leaves,
)
from langchain_convmem.summarizing.record import FindWords
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
from langchain_convmem.views.context import SUMMARY_SOURCE, is_framing
from langchain_convmem.views.live import LEVEL, RECORD, find_live_entries, find_nodes
from langchain_convmem.views.markup import render_facts
from langchain_convmem.views.messages import DraftBuilder
from langchain_convmem.views.shown import Context
from langchain_convmem.views.summaries import (
    CITES,
    DAYS,
    SummaryWindow,
    check_kept,
    draft_summary,
)

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
        findable: Says what may be left to recall, and by what words it is found; None leaves
            nothing to it.
        on_report: Gets what came of each attempt.
    """

    log: MessageLog
    summarizer: Summarizer
    settings: SummarySettings
    leases: Leases
    drafting: DraftBuilder
    read: ReadThread
    findable: FindWords | None = None
    on_report: Callable[[SummaryReport], object] | None = None

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
            self.leases.give_back(lease, ended)
        return self._report(_join_reports(reports or [SummaryReport(key=key, outcome="not_due")]))

    def _report(self, report: SummaryReport) -> SummaryReport:
        """Tell the application of a report, and return it."""
        if self.on_report is not None:
            what = f"the events of thread {report.key.thread_id!r}"
            notify_application(self.on_report, report, what)
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
            pieces, report = self._check(key, written)
            left_out = find_missing_sections(written.text, self.settings.sections)
            report = replace(report, covered=len(plan.window.entry_ids), missing_sections=left_out)
            entry = self._commit(lease, plan, pieces, report, own)
        except StaleWindowError as error:
            return SummaryReport(key=key, outcome="stale", problem=str(error))
        except SummaryError as error:
            _logger.warning("thread %r was not compacted: %s", key.thread_id, error)
            problem, is_outage = str(error), error.is_outage
            return SummaryReport(key=key, outcome="failed", problem=problem, is_outage=is_outage)
        return replace(report, summary=entry)

    def _check(
        self, key: ThreadKey, written: WrittenSummary
    ) -> tuple[tuple[str, ...], SummaryReport]:
        """Return the pieces of a summary, and what they tell of what they should."""
        missing = written.missing
        words = [""] * len(missing)
        if self.findable is not None and missing:
            words = self.findable(key, missing)
        reachable = {fact.key for fact, said in zip(missing, words, strict=True) if said}
        pieces, details = list_pieces(written, reachable, self.settings)
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
            doubted=written.doubted,
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
        """Erase a summary again if what it tells of was erased while it was written.

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


def list_pieces(
    written: WrittenSummary, reachable: Collection[str], settings: SummarySettings
) -> tuple[tuple[str, ...], Details]:
    """Return the pieces of a summary, none of them empty, and its list of details.

    Args:
        written: The summary.
        reachable: The keys of the facts that recall finds.
        settings: How long the list may be.
    """
    details = list_details(
        written.missing, reachable, settings.facts_tokens, count=settings.count_text
    )
    return tuple(piece for piece in (written.text, details.text) if piece), details


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
class SummaryReport:
    """What came of an attempt to compact a thread.

    Attributes:
        key: The thread.
        outcome: What happened.
        summary: The entry that was written, if one was; of several, the last.
        problem: Why nothing was written, in one sentence; empty if there is nothing to say.
        is_outage: Whether that is because the summariser raised an error instead of answering.
        covered: How many entries the summaries that were written stand for.
        calls: How often the summariser was asked.
        facts: Amounts, numbers, times, dates, ids, links and names of speakers that it stands for.
        in_text: How many of them its text tells.
        listed: How many more its list of details tells.
        recallable: How many more are found by recall.
        lost: The rest, as they were said: in the log alone.
        missing_sections: Headings of the template that the summary does not have.
        folded: How many parents were put over summaries that a model would else read.
        doubted: Sentences of the text that the judge of the settings found unsupported.
    """

    key: ThreadKey
    outcome: Outcome
    summary: Entry | None = None
    problem: str = ""
    is_outage: bool = False
    covered: int = 0
    calls: int = 0
    facts: int = 0
    in_text: int = 0
    listed: int = 0
    recallable: int = 0
    lost: tuple[str, ...] = ()
    missing_sections: tuple[str, ...] = ()
    folded: int = 0
    doubted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether a summary was written."""
        return self.outcome == "written"

    def _repr_html_(self) -> str:
        facts = {one.name: getattr(self, one.name) for one in fields(self)}
        summary = facts.pop("summary")
        facts |= {"key": self.key.thread_id, "lost": len(self.lost)}
        facts["doubted"] = len(self.doubted)
        facts["summary"] = "" if summary is None else " ".join(summary.contents)
        return render_facts("SummaryReport", facts)

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
            "recallable": self.recallable,
            "lost": list(self.lost),
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
        elif isinstance(values[0], int):
            counts[name] = sum(values)
        elif isinstance(values[0], tuple):
            counts[name] = tuple(chain.from_iterable(values))
    return replace(last, problem=problem, **counts)


# -- Events: what an application is told of compactions; nothing that was said -------------------

EventKind = Literal["compacted", "lost", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryEvent:
    """Something that happened to the summaries of a thread.

    Attributes:
        key: The thread.
        kind: `compacted`: a summary was written. `lost`: that summary, its details and recall do
            not tell all facts. `failed`: no summary came about, and the thread rests, longer after
            each further failure; until then nothing more is told of it.
        problem: For `failed`: why, in one sentence.
        covered: How many messages the new summaries stand for.
        folded: How many parents were made.
        calls: How often the summariser was asked.
        facts: How many facts there were to tell.
        in_text: How many the text tells.
        listed: How many more the list of details tells.
        recallable: How many more recall finds.
        lost: How many are in the log alone.
        missing_sections: How many sections of the template were left out.
        doubted: How many sentences the judge of the settings found unsupported.
    """

    key: ThreadKey
    kind: EventKind
    problem: str = ""
    covered: int = 0
    folded: int = 0
    calls: int = 0
    facts: int = 0
    in_text: int = 0
    listed: int = 0
    recallable: int = 0
    lost: int = 0
    missing_sections: int = 0
    doubted: int = 0


def list_events(report: SummaryReport) -> Iterator[SummaryEvent]:
    """Yield what there is to tell of an attempt, in order; nothing where nothing was due."""
    if report:
        counts = {name: getattr(report, name) for name in _COUNTS}
        for kind in _find_kinds(report):
            yield SummaryEvent(
                key=report.key,
                kind=kind,
                lost=len(report.lost),
                missing_sections=len(report.missing_sections),
                doubted=len(report.doubted),
                **counts,
            )
    if report.outcome == "failed" or (report and report.problem):
        yield SummaryEvent(
            key=report.key, kind="failed", problem=report.problem, calls=report.calls
        )


_COUNTS = ("covered", "folded", "calls", "facts", "in_text", "listed", "recallable")


def _find_kinds(report: SummaryReport) -> list[EventKind]:
    return ["compacted", "lost"] if report.lost else ["compacted"]


# -- Leases: at most one summary of a thread in the making, over all threads, loops and processes -

Ended = Literal["done", "failed", "stopped"]
"""How the work under a lease ended. `stopped`: by a cancellation, which tells nothing of the
summariser; failures before it still count, and the thread does not rest."""

_MOST_RESTING = 10_000
"""How many threads of a log without state are remembered to rest."""

_DOCUMENT = "summary:lease"
_LONGEST_PAUSE_MS = 3_600_000


@dataclass(slots=True)
class Lease:
    """The right to summarise a thread. Not thread-safe."""

    key: ThreadKey
    failures: int = 0
    holder: str = field(default_factory=make_ulid)
    version: int | None = None
    """Version of the document that says so; None where the log keeps none."""


class Leases:
    """Gives out leases. Thread-safe."""

    def __init__(
        self,
        log: MessageLog | None,
        settings: SummarySettings,
        *,
        clock: Callable[[], int] = get_now_ms,
    ) -> None:
        """Create the leases of a log, or of this process alone.

        Args:
            log: Whose threads; None for those of this process alone.
            settings: How long a lease lasts, and a thread rests.
            clock: Tells the time in milliseconds since the epoch.
        """
        self._state = log
        self._settings = settings
        self._clock = clock
        self._lock = make_lock()
        self._pid = os.getpid()
        self._held: set[ThreadKey] = set()
        self._resting: dict[ThreadKey, dict[str, Any]] = {}

    def take(self, key: ThreadKey, *, even_resting: bool = False) -> Lease | None:
        """Take the lease of a thread; None if it is taken, or rests after a failure.

        Args:
            key: The thread.
            even_resting: Take it where the thread rests, too.
        """
        with self._lock:
            if self._pid != os.getpid():
                # A forked child holds none of its parent's, and nobody would give them back.
                self._pid = os.getpid()
                self._held.clear()
            if key in self._held:
                return None
            self._held.add(key)
        lease = None
        try:
            lease = self._take_free(key, even_resting)
        finally:
            if lease is None:
                self._drop(key)
        return lease

    def find_rest(self, key: ThreadKey) -> bool:
        """Return whether a thread rests after a failure."""
        value, _ = self._read(key)
        return bool(value.get("rests_until_ms", 0) > self._clock())

    def _take_free(self, key: ThreadKey, even_resting: bool) -> Lease | None:
        value, version = self._read(key)
        now = self._clock()
        is_taken = bool(value.get("holder")) and value.get("until_ms", 0) > now
        is_resting = value.get("rests_until_ms", 0) > now
        if is_taken or (is_resting and not even_resting):
            return None
        lease = Lease(key, int(value.get("failures", 0)), version=version)
        return lease if self._write(lease, self._claim(lease)) else None

    def _read(self, key: ThreadKey) -> tuple[Mapping[str, Any], int | None]:
        """Return what is noted of a thread, and the version of the note."""
        if self._state is None:
            return self._resting.get(key, {}), None
        found = self._state.get_state(key, _DOCUMENT)
        value = found.value if found is not None and isinstance(found.value, Mapping) else {}
        return value, None if found is None else found.version

    def renew(self, lease: Lease) -> bool:
        """Hold the lease anew; say whether it was still held."""
        return self._write(lease, self._claim(lease))

    def give_back(self, lease: Lease, ended: Ended) -> None:
        """End the lease; after a failure the thread rests, each time twice as long."""
        try:
            has_failed = ended == "failed"
            failures = 0 if ended == "done" else lease.failures + has_failed
            pause_ms = round(self._settings.first_pause_s * 1000) * 2 ** min(failures - 1, 20)
            rests_until = self._clock() + min(pause_ms, _LONGEST_PAUSE_MS) if has_failed else 0
            told = {"holder": "", "failures": failures, "rests_until_ms": rests_until}
            if self._state is None:
                self._note_rest(lease.key, told)
            else:
                # Fails if another one took over meanwhile, who then decides.
                self._write(lease, told)
        finally:
            self._drop(lease.key)

    def _note_rest(self, key: ThreadKey, told: dict[str, Any]) -> None:
        with self._lock:
            self._resting.pop(key, None)
            if told["failures"]:
                self._resting[key] = told
            while len(self._resting) > _MOST_RESTING:
                del self._resting[next(iter(self._resting))]

    def _claim(self, lease: Lease) -> dict[str, Any]:
        until = self._clock() + round(self._settings.lease_s * 1000)
        return {"holder": lease.holder, "until_ms": until, "failures": lease.failures}

    def _write(self, lease: Lease, value: dict[str, Any]) -> bool:
        if self._state is None:
            return True
        written = self._state.set_state(lease.key, _DOCUMENT, value, expected=lease.version)
        if written is not None:
            lease.version = written.version
        return written is not None

    def _drop(self, key: ThreadKey) -> None:
        with self._lock:
            self._held.discard(key)
