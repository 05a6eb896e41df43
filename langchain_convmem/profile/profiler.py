"""`Profiler`: a model that reads behind the turn what users said, and proposes items.

The rules read every line; a model reads the same lines again, some at a time, for what they missed
and for languages without rules. It may propose, and only what stands in a line becomes an item:
see `proposals`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable

from langchain_convmem.errors import ConfigError
from langchain_convmem.forks import make_lock
from langchain_convmem.message_log import MessageLog
from langchain_convmem.profile.profile import may_state
from langchain_convmem.profile.proposals import (
    FoundItems,
    ProposedItem,
    ThreadReading,
    build_question,
    check_proposals,
    draft_proposals,
    read_answer,
    read_proposals,
)
from langchain_convmem.records import DialogLine, Owner, ThreadKey
from langchain_convmem.runnables import (
    RunnableLike,
    as_runnable,
    ask_runnable,
    check_askable,
    count_own_calls,
)
from langchain_convmem.views.lines import make_dialog_lines
from langchain_convmem.views.live import find_live_entries

ProfilerLike: TypeAlias = RunnableLike
"""A chat model, another Runnable or a function; see `Profiler`."""

TURNS_AT_ONCE = 6
"""After so many turns of a user, in whatever threads, what was said in them is read."""
_LINES_AT_ONCE = 40
_MOST_USERS = 1_024

_logger = logging.getLogger("langchain_convmem")


@dataclass(frozen=True, slots=True)
class ProfilerReport:
    """What came of a profiler's reading; true if it found anything.

    Attributes:
        read: How many lines it read.
        kept: How many items it proposed that stand.
        refused: How many that do not: their words are not in the line, are not the user's own or
            not meant, or rules found them before.
        calls: How often the model was asked.
        reason: Why it stopped before the end; empty if it did not. The lines that are left are
            read the next time.
    """

    read: int = 0
    kept: int = 0
    refused: int = 0
    calls: int = 0
    reason: str = ""

    def __bool__(self) -> bool:
        return self.kept > 0

    def __add__(self, other: ProfilerReport) -> ProfilerReport:
        return ProfilerReport(
            self.read + other.read,
            self.kept + other.kept,
            self.refused + other.refused,
            self.calls + other.calls,
            self.reason or other.reason,
        )


class Profiler:
    """Asks a model what users said of themselves. Thread-safe, as the model is."""

    def __init__(self, log: MessageLog, model: ProfilerLike) -> None:
        """Take a log, and what is asked.

        Args:
            log: Where entries are kept.
            model: A chat model, which is asked with `with_structured_output`; or another Runnable
                or a function of messages that returns `FoundItems`, or a list of that form.

        Raises:
            ConfigError: If it can be asked nothing.
        """
        runnable = as_runnable(model)
        if runnable is None:
            msg = (
                "a profiler is a chat model, another Runnable or a function of messages, "
                f"got {model!r:.80}"
            )
            raise ConfigError(msg)
        self._log = log
        self._model: Runnable[Any, Any] = _structure(runnable)
        self._lock = make_lock()
        self._waiting: OrderedDict[Owner, list[ThreadKey]] = OrderedDict()
        self._read_until: OrderedDict[ThreadKey, int] = OrderedDict()

    # -- when -------------------------------------------------------------------------------------

    def note_turn(self, key: ThreadKey) -> bool:
        """Count a turn; return whether it is time to read what was said since the last time."""
        with self._lock:
            waiting = self._waiting.setdefault(key.owner, [])
            self._waiting.move_to_end(key.owner)
            while len(self._waiting) > _MOST_USERS:
                self._waiting.popitem(last=False)
            waiting.append(key)
            return len(waiting) >= TURNS_AT_ONCE

    def read_waiting(self, owner: Owner) -> ProfilerReport:
        """Read the threads of a user that had turns since the last time."""
        with self._lock:
            keys = list(dict.fromkeys(self._waiting.pop(owner, [])))
        report = ProfilerReport(reason="it was interrupted")
        try:
            report = self.read_threads(keys)
        finally:
            if report.reason:
                with self._lock:
                    # Some turns pass before the next attempt; nothing is lost meanwhile.
                    since = self._waiting.get(owner, [])
                    self._waiting[owner] = [*keys[: TURNS_AT_ONCE // 2], *since]
        return report

    # -- what -------------------------------------------------------------------------------------

    def read_threads(self, keys: Sequence[ThreadKey]) -> ProfilerReport:
        """Read what was said in threads since a model read them last.

        Raises:
            ConfigError: If the model is a coroutine function, and nothing here can await it.
        """
        check_askable(self._model, "the profiler", "aupdate_profile")
        report = ProfilerReport()
        for key in keys:
            report += self._read_thread(key)
            if report.reason:
                break
        return report

    def _read_thread(self, key: ThreadKey) -> ProfilerReport:
        with self._lock:
            known = self._read_until.get(key, 0)
        entries = self._log.entries(key, after=known)
        if not entries:
            return ProfilerReport()
        # Another process may have read them, too.
        marks = [read.until for read in map(read_proposals, entries) if read is not None]
        after, until = max([known, *marks]), entries[-1].position
        lines = [
            line
            for entry in find_live_entries(entries)
            if entry.position > after
            for line in make_dialog_lines(entry)
            if may_state(line) and line.text.strip()
        ]
        report = ProfilerReport()
        for batch in _split(lines):
            with count_own_calls() as own:
                one, proposals = self._ask(batch)
            report += one
            if one.reason:
                return report
            last = until if batch[-1] is lines[-1] else batch[-1].position
            read = ThreadReading(after=batch[0].position - 1, until=last, items=proposals)
            self._log.append(key, [draft_proposals(read, own.to_aux())])
        self._keep_mark(key, until)
        return report

    def _ask(self, batch: Sequence[DialogLine]) -> tuple[ProfilerReport, list[ProposedItem]]:
        answer = ask_runnable(self._model, build_question(batch), "convmem_profile")
        found = None if answer.reason else read_answer(answer.value)
        if found is None:
            reason = answer.reason or "its answer is no list of items"
            _logger.warning("the profiler failed: %s", reason)
            return ProfilerReport(calls=1, reason=reason), []
        checked = list(check_proposals(found, batch))
        kept = [one for one in checked if one is not None]
        return ProfilerReport(len(batch), len(kept), len(checked) - len(kept), 1), kept

    def _keep_mark(self, key: ThreadKey, until: int) -> None:
        with self._lock:
            self._read_until[key] = max(until, self._read_until.get(key, 0))
            self._read_until.move_to_end(key)
            while len(self._read_until) > _MOST_USERS:
                self._read_until.popitem(last=False)


def _structure(model: Runnable[Any, Any]) -> Runnable[Any, Any]:
    """Return what asks a model for `FoundItems`; what is no chat model returns them by itself."""
    if not isinstance(model, BaseChatModel):
        return model
    try:
        return model.with_structured_output(FoundItems)
    except NotImplementedError as error:
        msg = (
            f"{type(model).__name__} has no structured output; as profiler= pass a model that "
            "has, or a function of messages that returns a list of items"
        )
        raise ConfigError(msg) from error


def _split(lines: Sequence[DialogLine]) -> Iterator[list[DialogLine]]:
    """Yield lines by what one call holds; those of one entry together."""
    batch: list[DialogLine] = []
    for line in lines:
        if len(batch) >= _LINES_AT_ONCE and batch[-1].position != line.position:
            yield batch
            batch = []
        batch.append(line)
    if batch:
        yield batch
