"""When a thread is compacted, and how much of it: `SummarySettings`, and the plan of a summary."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, Literal, TypeAlias

from langchain_convmem.causes import describe_value
from langchain_convmem.errors import ConfigError
from langchain_convmem.records import Entry, ThreadKey
from langchain_convmem.views.live import (
    find_covers,
    find_live_entries,
    find_live_summary,
    find_summary_chain,
)
from langchain_convmem.views.messages import count_tokens
from langchain_convmem.views.summaries import (
    SummaryWindow,
    find_closing_points,
    find_said_since,
    make_window,
)

Measure: TypeAlias = Literal["tokens", "messages", "fraction"]
"""What is counted: tokens, messages, or tokens as a share of the model's window."""

Amount: TypeAlias = tuple[Measure, float]
"""So much of a measure: `("tokens", 6000)`, `("messages", 40)`, `("fraction", 0.6)`."""

Clause: TypeAlias = Mapping[Measure, float]
"""Amounts that must all be reached, by their measure."""

Trigger: TypeAlias = Amount | Clause | Sequence[Amount | Clause]
"""When to compact: an amount, amounts that must all be reached, or a list of which one suffices."""

_MEASURES = ("tokens", "messages", "fraction")
_LEAST_SUMMARY = 16
_ASSUMED_WINDOW = 16_000
"""Size of a window of which only fractions are given."""

_logger = logging.getLogger("langchain_convmem")


@dataclass(frozen=True, slots=True)
class Size:
    """How large a stretch of a conversation is.

    Attributes:
        tokens: By the token counter.
        messages: How many messages.
    """

    tokens: int
    messages: int

    def measure_in(self, measure: str, window_tokens: int) -> float:
        """Return the size in one measure."""
        if measure == "messages":
            return self.messages
        if measure == "tokens":
            return self.tokens
        return self.tokens / window_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class SummarySettings:
    """When and how a thread is compacted.

    What is measured is the part of the conversation that no summary covers yet; system messages
    and the summary itself do not count. High and low mark are far apart, so that compaction is
    rare and what a model reads begins alike in between.

    Attributes:
        trigger: The high mark: from here on a compaction is due. The form is that of LangChain's
            `SummarizationMiddleware`.
        keep: The low mark: so much of the latest conversation stays as it was said. The question
            that waits for an answer and an open tool loop stay in any case. Where both are counted
            in tokens, or both in messages, it is lowered to half of the high mark if it is not
            below it.
        window_tokens: Size of the model's window, for marks in fractions of it; where one needs it
            and it is not given, 16,000.
        max_summary_tokens: How long a summary should be, its list of details not counted.
        facts_tokens: How long the list of details may be that follows a summary: what the text
            should have told and did not. 0: no list.
        retries: How often a summariser is asked again, told what was missing.
        input_tokens: How much a summariser reads at once; more is summarised in parts first.
        rebuild_every: After so many summaries, each on top of the one before, the next is made of
            what was said since the first of them, word for word; so everything is read twice, and
            nothing is retold more often than needed. 0: never.
        lease_s: How long one process may work on a summary before another one takes over.
        first_pause_s: How long a thread rests after a failure; it doubles with each further one,
            up to an hour.
        instructions: What a summariser is asked besides, in the application's words. The rules that
            the transcript is data, and how long a summary is, stay.
        sections: Headings that a summary has, in this order; what it leaves out is reported.
        notes: What was corrected, so that the settings can be followed; logged as well.
    """

    trigger: Trigger = ("tokens", 6000)
    keep: Amount = ("tokens", 2000)
    window_tokens: int | None = None
    max_summary_tokens: int = 600
    facts_tokens: int = 300
    retries: int = 1
    input_tokens: int = 16_000
    rebuild_every: int = 8
    lease_s: float = 300.0
    first_pause_s: float = 30.0
    instructions: str = ""
    sections: Sequence[str] = ()
    notes: tuple[str, ...] = field(default=(), init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no setting, and correct marks that no compaction can follow."""
        least = {
            "max_summary_tokens": _LEAST_SUMMARY,
            "facts_tokens": 0,
            "retries": 0,
            "input_tokens": 64,
            "rebuild_every": 0,
        }
        for name, smallest in least.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                msg = f"{name} must be a whole number of at least {smallest}, got {value!r}"
                raise ConfigError(msg)
        for name in ("lease_s", "first_pause_s"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be positive, got {getattr(self, name)!r}")
        _check_wording(self)
        clauses = self.clauses
        keep: Clause = dict([_read_pair("keep", self.keep)])
        for name, amounts in (
            ("keep", keep),
            *_label_clauses(clauses),
        ):
            _check_amounts(name, amounts)
            if "fraction" in amounts and self.window_tokens is None:
                window = f"{_ASSUMED_WINDOW:,} tokens"
                _correct(self, f"window_tokens is taken as {window}", window_tokens=_ASSUMED_WINDOW)
        for clause in clauses:
            self._lower_keep(clause)

    def _lower_keep(self, clause: Clause) -> None:
        """Lower the low mark where a clause holds of no more than may stay."""
        measure, low = self.keep
        is_counted = measure == "messages"
        marks = [mark for mark in clause.items() if (mark[0] == "messages") == is_counted]
        high = max((self._convert(*mark) for mark in marks), default=None)
        if high is None or high > self._convert(measure, low):
            return
        half = high / 2 / (self._window if measure == "fraction" else 1)
        kept = half if measure == "fraction" else max(int(half), 1)
        note = f"keep {measure}={low!r} is lowered to {kept!r}, half of the trigger"
        _correct(self, note, keep=(measure, kept))

    def fit_to(self, budget: int) -> SummarySettings:
        """Return settings by which nothing is left out of a budget before it is summarised.

        Args:
            budget: How many tokens a model gets of a thread, its summary included.
        """
        mark = self.trigger_tokens
        if mark is None or mark + self.max_summary_tokens + self.facts_tokens <= budget:
            return self
        summary = max(min(self.max_summary_tokens, budget // 5), _LEAST_SUMMARY)
        facts = min(self.facts_tokens, budget // 10)
        room = max(budget - summary - facts, 1)
        start = min(mark, room)
        trigger: list[Amount | Clause] = [*self.clauses, ("tokens", start)]
        fitted = replace(self, trigger=trigger, max_summary_tokens=summary, facts_tokens=facts)
        note = (
            f"a budget of {budget} tokens has threads compacted from {start} tokens on, to "
            f"summaries of {summary} with {facts} of details"
        )
        return _correct(fitted, note)

    def _convert(self, measure: str, amount: float) -> float:
        """Return an amount in messages or tokens."""
        return amount * self._window if measure == "fraction" else amount

    @property
    def _window(self) -> int:
        return self.window_tokens or 1

    @property
    def clauses(self) -> list[dict[Measure, float]]:
        """The trigger as a list of clauses; one that holds in all its amounts suffices."""
        trigger: Any = self.trigger
        if isinstance(trigger, Mapping) or _is_pair(trigger):
            trigger = [trigger]
        if not isinstance(trigger, Sequence) or isinstance(trigger, str) or not trigger:
            raise ConfigError(f"trigger must be an amount, a dict or a list of them: {trigger!r}")
        return [
            dict(one) if isinstance(one, Mapping) else dict([_read_pair("trigger", one)])
            for one in trigger
        ]

    @property
    def trigger_tokens(self) -> int | None:
        """From how many tokens on a compaction is due, however few messages; None if from none."""
        marks = [
            max(self._convert(*mark) for mark in clause.items())
            for clause in self.clauses
            if "messages" not in clause
        ]
        return round(min(marks)) if marks else None

    def is_due(self, size: Size) -> bool:
        """Return whether a conversation of this size is to be compacted."""
        return any(
            all(size.measure_in(name, self._window) >= amount for name, amount in clause.items())
            for clause in self.clauses
        )

    def is_small(self, size: Size) -> bool:
        """Return whether a conversation of this size may stay whole."""
        measure, amount = self.keep
        return size.measure_in(measure, self._window) <= amount


def _check_wording(settings: SummarySettings) -> None:
    """Refuse instructions and sections that are not text, and freeze the list of sections."""
    if not isinstance(settings.instructions, str):
        given = describe_value(settings.instructions)
        raise ConfigError(f"instructions must be a text, got {given}")
    headings: Any = settings.sections
    is_list = isinstance(headings, Sequence) and not isinstance(headings, str)
    if not is_list or not all(isinstance(one, str) and one.strip() for one in headings):
        msg = 'sections must be a list of headings, such as ["Decisions"], none of them blank'
        raise ConfigError(f"{msg}; got {headings!r:.80}")
    names = tuple(" ".join(one.split()).rstrip(":") for one in headings)
    if len({name.casefold() for name in names}) < len(names):
        raise ConfigError(f"sections must differ from each other, got {headings!r:.200}")
    object.__setattr__(settings, "sections", names)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str)  # noqa: PLR2004


def _read_pair(name: str, value: Any) -> tuple[Measure, float]:
    if not _is_pair(value):
        raise ConfigError(f'{name} must look like ("tokens", 6000), got {value!r}')
    return value[0], value[1]


def _correct(settings: SummarySettings, note: str, **values: Any) -> SummarySettings:
    """Change settings that nobody else has yet, and say so."""
    for name, value in {**values, "notes": (*settings.notes, note)}.items():
        object.__setattr__(settings, name, value)
    _logger.warning("summary settings: %s", note)
    return settings


def _label_clauses(clauses: Sequence[Clause]) -> list[tuple[str, Clause]]:
    return [("trigger", clause) for clause in clauses]


def _check_amounts(name: str, amounts: Mapping[Measure, Any]) -> None:
    if not amounts:
        raise ConfigError(f"{name} must name at least one amount, got {dict(amounts)!r}")
    for measure, amount in amounts.items():
        if measure not in _MEASURES:
            raise ConfigError(f"{name} counts {', '.join(_MEASURES)}, got {measure!r}")
        is_number = isinstance(amount, int | float) and not isinstance(amount, bool)
        if not is_number or not amount > 0:
            raise ConfigError(f"{name} {measure} must be a positive number, got {amount!r}")
        if measure == "fraction" and amount > 1:
            raise ConfigError(f"{name} fraction must be at most 1, got {amount!r}")


# -- From the entries of a thread to the window of its next summary -------------------------------

ROLLED = "rolled"
"""Key of a summary's record: how many summaries since the last that was made of what was said."""


@dataclass(frozen=True, slots=True)
class SummaryPlan:
    """A compaction to be made.

    Attributes:
        window: What the summary covers, and the summary that it continues.
        rolled: How many summaries it builds on since the last one made of what was said.
        is_redone: Whether it takes the place of a summary of the same window.
    """

    window: SummaryWindow
    rolled: int
    is_redone: bool = False


def make_plan(
    key: ThreadKey,
    entries: Sequence[Entry],
    settings: SummarySettings,
    *,
    force: bool = False,
    rebuild: bool = False,
) -> SummaryPlan | None:
    """Return what to compact now; None where nothing is due, or nothing may be covered.

    Args:
        key: The thread.
        entries: Its entries by ascending position, control entries included. What no summary
            covers and the live summary are enough, unless to `rebuild`.
        settings: The marks.
        force: Compact all that may be covered, whatever the marks say.
        rebuild: Cover what was said since the last summary that was not made on top of another
            one's text alone, as it was said.
    """
    live = find_live_entries(entries)
    newest = find_live_summary(live)
    said = find_said_since(live, newest)
    if not force and not settings.is_due(measure(said)):
        return None
    end = _find_end(said, settings, force=force)
    if not end:
        return None
    if newest is not None and rebuild:
        base = _find_firsthand(live, newest)
        left = {entry.id for entry in said[end:]}
        covered = [entry for entry in find_said_since(live, base) if entry.id not in left]
        return SummaryPlan(make_window(key, entries, covered, base), 0)
    rolled = 0 if newest is None else count_rolled(newest) + 1
    return SummaryPlan(make_window(key, entries, said[:end], newest), rolled)


def make_plan_again(key: ThreadKey, entries: Sequence[Entry]) -> SummaryPlan | None:
    """Return the plan by which the live summary was made; None if there is none.

    Args:
        key: The thread.
        entries: All its entries by ascending position.
    """
    live = find_live_entries(entries)
    newest = find_live_summary(live)
    if newest is None:
        return None
    chain = find_summary_chain(live, newest)
    base = chain[1] if len(chain) > 1 else None
    covered = find_covers(live, [newest])
    told = [entry for entry in find_said_since(live, base) if entry.id in covered]
    return SummaryPlan(make_window(key, entries, told, base), count_rolled(newest), is_redone=True)


def measure(said: Sequence[Entry]) -> Size:
    """Return how large what these entries say is."""
    return Size(sum(map(_count_tokens, said)), len(said))


def count_rolled(summary: Entry) -> int:
    """Return how many summaries this one builds on since the last made of what was said."""
    record = summary.metadata.aux.get("summary")
    return int(record.get(ROLLED, 0)) if isinstance(record, dict) else 0


def _count_tokens(entry: Entry) -> int:
    return 0 if entry.message is None else count_tokens([entry.message])


def _find_end(said: Sequence[Entry], settings: SummarySettings, *, force: bool) -> int:
    """Return how many entries to cover: the fewest that leave little enough."""
    points = find_closing_points(said)
    if force or not points:
        return points[-1] if points else 0
    covered = list(accumulate(map(_count_tokens, said), initial=0))
    for point in points:
        rest = Size(covered[-1] - covered[point], len(said) - point)
        if settings.is_small(rest):
            return point
    return points[-1]


def _find_firsthand(live: Sequence[Entry], newest: Entry) -> Entry:
    """Return the newest summary that was made of what was said; else the oldest there is."""
    chain = find_summary_chain(live, newest)
    return next((one for one in chain if not count_rolled(one)), chain[-1])
