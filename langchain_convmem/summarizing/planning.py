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
from langchain_convmem.runnables import RunnableLike, as_runnable
from langchain_convmem.views.live import (
    find_covers,
    find_frontier,
    find_live_entries,
    find_live_summary,
)
from langchain_convmem.views.messages import (
    TextCounter,
    TokenCounter,
    count_tokens,
    get_text_counter,
    make_summary_messages,
)
from langchain_convmem.views.summaries import (
    SummaryWindow,
    find_closing_points,
    find_continued,
    find_held_back,
    find_pins,
    find_said_since,
    format_pins,
    format_summary,
    make_window,
    read_summaries,
)
from langchain_convmem.views.tool_calls import find_answered_calls

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

_LEAF_SHARE = 10
"""A summary is asked to take one token for so many of what it tells of."""

_LEAST_ASKED = 100
"""But never fewer tokens than this, unless the settings say so."""

_LEAVES_SHOWN = 3
"""How many summaries of full length a model reads at least, where the settings do not say."""

_MOST_KEPT = 2000
"""How many tokens stay as they were said at most, where the settings do not say."""

_BUDGET_SHARE = 0.3
"""How much of a small budget summaries may take."""

_QUESTION_SHARE = 0.05
"""How much of a budget the next question may take, so that nothing gives way to it unsummarised."""

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

    def add_tokens(self, tokens: int) -> Size:
        """Return the size of as many messages with so many more tokens."""
        return Size(self.tokens + tokens, self.messages)

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

    Sizes are those of the part of the conversation that no summary covers; system messages and the
    summary itself do not count. Keep `trigger` and `keep` far apart, so that compactions are rare
    and the beginning of the context stays the same in between.

    Attributes:
        trigger: The size from which a compaction is due, in the form used by LangChain's
            `SummarizationMiddleware`.
        keep: How much of the latest conversation stays unchanged; less than `trigger`. The latest
            answered question, one that waits for an answer and an open tool loop always stay. None
            means a third of `trigger`, at most 2,000 tokens.
        window_tokens: Size of the model's window, for fractions. None uses LangChain's profile of
            the chain's model, or else 16,000.
        max_summary_tokens: Maximum length of a summary without its list of details. For a short
            stretch, a tenth of its length is requested.
        facts_tokens: Maximum length of the list next to a summary: amounts, times, dates, ids,
            links and speakers that the text leaves out. 0 means no list.
        tree_tokens: Maximum length of all summaries that a model reads together. Beyond that, the
            oldest get a parent, made by rules from their sentences. None means three summaries of
            full length, with their lists.
        fan_out: Maximum number of summaries under one parent.
        retries: How often to ask the summarizer again if it wrote no summary.
        input_tokens: How much a summarizer reads at once; longer parts are summarised in pieces.
        lease_s: How long one process may work on a summary before another may take over.
        first_pause_s: How long to wait after a failure; each further failure doubles it, up to an
            hour.
        instructions: The application's own instructions, added to those of the package, which say
            that the transcript is data and how long the summary may be.
        sections: Headings that a summary must have, in this order; missing ones are reported.
        judge: Lists sentences of a summary that the messages do not support: a chat model, another
            Runnable or a function. It is called once per summary. The sentences are marked in the
            report and stay in the summary. None marks nothing.
        token_counter: Counts the tokens of messages. None uses the memory's counter, or this
            package's estimate if there is no memory.
    """

    trigger: Trigger = ("tokens", 6000)
    keep: Amount | None = None
    window_tokens: int | None = None
    max_summary_tokens: int = 600
    facts_tokens: int = 300
    tree_tokens: int | None = None
    fan_out: int = 4
    retries: int = 0
    input_tokens: int = 16_000
    lease_s: float = 300.0
    first_pause_s: float = 30.0
    instructions: str = ""
    sections: Sequence[str] = ()
    judge: RunnableLike | None = None
    token_counter: TokenCounter | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse what is no setting, and marks that no compaction can follow."""
        _check_numbers(self)
        _check_judge(self.judge)
        _check_wording(self)
        for clause in self.clauses:
            _check_amounts("trigger", clause)
        if self.keep is not None:
            _check_amounts("keep", dict([_read_pair("keep", self.keep)]))
            if not self._may_keep(self.keep):
                msg = (
                    f"keep={self.keep!r} must be less than trigger={self.trigger!r:.80}, or a "
                    "summary has nothing to tell: lower keep, or leave it out for a third of the "
                    "trigger"
                )
                raise ConfigError(msg)

    def _may_keep(self, keep: Amount, *, assumes_window: bool = False) -> bool:
        """Return whether so much may stay where the trigger is reached, as far as that is known."""
        is_counted = keep[0] == "messages"
        for clause in self.clauses:
            marks = [mark for mark in clause.items() if (mark[0] == "messages") == is_counted]
            units = {keep[0], *(measure for measure, _ in marks)}
            is_unknown = self.window_tokens is None and units == {"tokens", "fraction"}
            if is_unknown and not assumes_window:
                continue
            if marks and max(self._convert(*mark) for mark in marks) <= self._convert(*keep):
                return False
        return True

    def _fit(self, **values: Any) -> SummarySettings:
        """Return changed settings; a low mark that is not below the high one any more goes."""
        changed = replace(self, **{**values, "keep": None})
        if self.keep is None or not changed._may_keep(self.keep):  # noqa: SLF001 - one of ours
            return changed
        return replace(changed, keep=self.keep)

    def fit_to(self, budget: int) -> SummarySettings:
        """Return settings by which nothing is left out of a budget before it is summarised.

        Args:
            budget: How many tokens a model gets of a thread, its summary included.
        """
        mark, room = self.trigger_tokens, int(budget * (1 - _QUESTION_SHARE))
        if mark is None or mark + self.shown_tokens <= room:
            return self
        shown = max(min(self.shown_tokens, int(budget * _BUDGET_SHARE)), 2 * _LEAST_SUMMARY)
        start = max(min(mark, room - shown), 1)
        _logger.info("a budget of %d tokens has threads compacted from %d tokens on", budget, start)
        return self._fit(
            trigger=[*self.clauses, ("tokens", start)],
            max_summary_tokens=max(min(self.max_summary_tokens, shown // 4), _LEAST_SUMMARY),
            facts_tokens=min(self.facts_tokens, shown // 6),
            tree_tokens=shown,
        )

    def fit_window(self, window_tokens: int) -> SummarySettings:
        """Return settings for a model that reads so many tokens at once.

        Fractions are shares of it, unless `window_tokens` says of what; marks in tokens leave a
        quarter of it for what surrounds the conversation, and for the reply.
        """
        known = self
        if self.window_tokens is None and self._has_fractions:
            known = self._fit(window_tokens=window_tokens)
        return known.fit_to(window_tokens * 3 // 4)

    def fit_input(self, window_tokens: int) -> SummarySettings:
        """Return settings for a summariser that reads so many tokens at once, its own included."""
        most = max(window_tokens - self.max_summary_tokens - self.facts_tokens, window_tokens // 2)
        return replace(self, input_tokens=min(self.input_tokens, most))

    @property
    def _has_fractions(self) -> bool:
        marks = [*self.clauses, dict([self.low_mark])]
        return any("fraction" in clause for clause in marks)

    @property
    def low_mark(self) -> Amount:
        """How much stays as it was said: `keep`, or a third of the trigger.

        A window that is not known yet may make `keep` too much.
        """
        if self.keep is not None and self._may_keep(self.keep, assumes_window=True):
            return self.keep
        tokens = self.trigger_tokens
        return ("tokens", _MOST_KEPT if tokens is None else min(tokens // 3, _MOST_KEPT))

    def count_asked(self, tokens: int) -> int:
        """Return how many tokens to ask for as the summary of so many: of little, little."""
        return min(self.max_summary_tokens, max(tokens // _LEAF_SHARE, _LEAST_ASKED))

    @property
    def shown_tokens(self) -> int:
        """How much a model reads of all summaries together."""
        if self.tree_tokens is not None:
            return self.tree_tokens
        return _LEAVES_SHOWN * (self.max_summary_tokens + self.facts_tokens)

    @property
    def stretch_tokens(self) -> int:
        """How much one summary tells of at most; a single exchange may be longer."""
        read_at_once = self.input_tokens * 3 // 4
        return min(read_at_once, self.trigger_tokens or read_at_once)

    def _convert(self, measure: str, amount: float) -> float:
        """Return an amount in messages or tokens."""
        return amount * self._window if measure == "fraction" else amount

    @property
    def _window(self) -> int:
        return self.window_tokens or _ASSUMED_WINDOW

    @property
    def counter(self) -> TokenCounter:
        """What counts the tokens of messages."""
        return self.token_counter or count_tokens

    @property
    def count_text(self) -> TextCounter:
        """What counts the tokens of a text."""
        return get_text_counter(self.counter)

    @property
    def clauses(self) -> list[dict[Measure, float]]:
        """The trigger as a list of clauses; one that holds in all its amounts suffices."""
        trigger: Any = self.trigger
        if _is_pair(trigger) or not isinstance(trigger, list | tuple):
            trigger = [trigger]
        if not trigger:
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
        measure, amount = self.low_mark
        return size.measure_in(measure, self._window) <= amount


def _check_numbers(settings: SummarySettings) -> None:
    least = {
        "max_summary_tokens": _LEAST_SUMMARY,
        "facts_tokens": 0,
        "tree_tokens": 2 * _LEAST_SUMMARY,
        "fan_out": 2,
        "retries": 0,
        "input_tokens": 64,
        "window_tokens": 1,
    }
    for name, smallest in least.items():
        value = getattr(settings, name)
        if value is None and name in ("tree_tokens", "window_tokens"):
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
            msg = f"{name} must be a whole number of at least {smallest}, got {value!r}"
            raise ConfigError(msg)
    for name in ("lease_s", "first_pause_s"):
        if not getattr(settings, name) > 0:
            raise ConfigError(f"{name} must be positive, got {getattr(settings, name)!r}")


def _check_judge(judge: object) -> None:
    if judge is not None and as_runnable(judge) is None:
        msg = "judge must be a chat model, another Runnable or a function, got"
        raise ConfigError(f"{msg} {describe_value(judge)}")


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
        amount = value if isinstance(value, int) else 6000
        raise ConfigError(f'{name} must look like ("tokens", {amount}), got {value!r:.60}')
    return value[0], value[1]


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


@dataclass(frozen=True, slots=True)
class SummaryPlan:
    """A summary to be made.

    Attributes:
        window: What the summary covers, and the summary that it continues.
        tokens: How much the window holds.
        is_redone: Whether it takes the place of a summary of the same window.
    """

    window: SummaryWindow
    tokens: int
    is_redone: bool = False


def make_plan(
    key: ThreadKey, entries: Sequence[Entry], settings: SummarySettings, *, force: bool = False
) -> SummaryPlan | None:
    """Return the one summary to make now, on top of the one before; None where nothing is due.

    Args:
        key: The thread.
        entries: Its entries by ascending position, control entries included. What no summary
            covers and the frontier are enough.
        settings: The marks.
        force: Cover all that may be covered, whatever the marks say.
    """
    live = find_live_entries(entries)
    said = find_waiting(entries, live, force=force)
    size = measure(said, settings.counter)
    if not force and not settings.is_due(size):
        return None
    points = find_closing_points(said)
    points = points if force else points[:-1]  # what is said next is about the latest exchange
    end = _find_end(points, said, size, None if force else settings)
    if not end:
        return None
    window = make_window(key, entries, said[:end], find_continued(live))
    return SummaryPlan(window, measure(said[:end], settings.counter).tokens)


def plan_leaves(
    key: ThreadKey, entries: Sequence[Entry], settings: SummarySettings, *, force: bool = False
) -> list[SummaryPlan]:
    """Return the summaries to make now, oldest first, each of a stretch that none covers yet.

    No stretch reaches across what is covered: where a summary was taken back, the gap is a stretch
    of its own. None continues another summary, so what was said is read once.

    Args:
        key: The thread.
        entries: See `make_plan`.
        settings: The marks.
        force: See `make_plan`.
    """
    live = find_live_entries(entries)
    said = find_waiting(entries, live, force=force)
    rest = measure(said, settings.counter)
    more = settings.count_text(format_pins(find_pins(entries)))
    more += count_excess(_count_told(live, settings), settings)
    if not force and not settings.is_due(rest.add_tokens(more)):
        return []
    latest = next((one for one in reversed(live) if one.role not in ("summary", "system")), None)
    plans: list[SummaryPlan] = []
    for stretch in find_stretches(live, said):
        if not force and settings.is_small(rest):
            break
        points = _find_free_points(stretch, live)
        if stretch[-1] is latest and not force:
            points = points[:-1]  # what is said next is about the latest exchange
        end = _find_end(points, stretch, rest, None if force else settings)
        for first, last in _cut(stretch, [point for point in points if point <= end], settings):
            part = stretch[first:last]
            tokens = measure(part, settings.counter).tokens
            plans.append(SummaryPlan(make_window(key, entries, part, None), tokens))
        covered = measure(stretch[:end], settings.counter)
        rest = Size(rest.tokens - covered.tokens, rest.messages - covered.messages)
    return [plan for plan in plans if not plan.window.is_empty]


def find_waiting(
    entries: Sequence[Entry], live: Sequence[Entry], *, force: bool = False
) -> list[Entry]:
    """Return what was said that no summary covers and that is to be summarised, in order.

    Args:
        entries: The thread's entries.
        live: Those that count.
        force: Also what undoing a summary showed again.
    """
    held = () if force else find_held_back(entries)
    return [one for one in find_said_since(live, find_frontier(live)) if one.id not in held]


def _count_told(live: Sequence[Entry], settings: SummarySettings) -> int:
    """Return how many tokens the message of the shown summaries takes, fence included."""
    summaries = read_summaries(find_frontier(live))
    if not summaries:
        return 0
    return settings.counter(make_summary_messages(format_summary(summaries), (None, None)))


def count_excess(told_tokens: int, settings: SummarySettings) -> int:
    """Return what summaries take of the room of messages, until a parent stands over them.

    Args:
        told_tokens: How many tokens the message of the shown summaries takes.
        settings: Say what share of the room is theirs.
    """
    return max(told_tokens - settings.shown_tokens, 0)


def find_stretches(live: Sequence[Entry], said: Sequence[Entry]) -> list[list[Entry]]:
    """Return entries as the stretches that they make in display order.

    Args:
        live: Live entries.
        said: Some of them in the same order; the spoken ones that are not there part stretches.
    """
    wanted = {entry.id for entry in said}
    found: list[list[Entry]] = [[]]
    for entry in live:
        if entry.id in wanted:
            found[-1].append(entry)
        elif entry.role not in ("summary", "system") and found[-1]:
            found.append([])
    return [stretch for stretch in found if stretch]


def _find_free_points(stretch: Sequence[Entry], live: Sequence[Entry]) -> list[int]:
    """Return where a window may end, before any call whose result stands outside the stretch."""
    at = {entry.id: number for number, entry in enumerate(stretch)}
    pairs = find_answered_calls([entry for entry in live if entry.role != "summary"])
    crossed = [at[call] for call, result in pairs if call in at and result not in at]
    end = min(crossed, default=len(stretch))
    return [point for point in find_closing_points(stretch) if point <= end]


def _cut(
    stretch: Sequence[Entry], points: Sequence[int], settings: SummarySettings
) -> list[tuple[int, int]]:
    """Return where windows of about one size begin and end that hold all up to the last point."""
    sizes = (_count_tokens(entry, settings.counter) for entry in stretch)
    sums = list(accumulate(sizes, initial=0))
    fewest = len(_cut_into(1, points, sums, settings.stretch_tokens))
    return _cut_into(fewest, points, sums, settings.stretch_tokens)


def _cut_into(
    parts: int, points: Sequence[int], sums: Sequence[int], most: int
) -> list[tuple[int, int]]:
    """Return about so many windows that are alike; more where one would be longer than it may be.

    Args:
        parts: How many.
        points: Where a window may end, ascending.
        sums: How many tokens stand before each entry, and before the end.
        most: So many tokens at most, unless a window cannot be cut.
    """
    cuts: list[tuple[int, int]] = []
    start = last = 0
    for point in points:
        if sums[point] - sums[start] > most and last > start:
            cuts.append((start, last))
            start = last
        last = point
        left = max(parts - len(cuts), 1)
        if (sums[point] - sums[start]) * left >= sums[points[-1]] - sums[start]:
            cuts.append((start, point))
            start = point
    return [*cuts, (start, last)] if last > start else cuts


def make_plan_again(
    key: ThreadKey, entries: Sequence[Entry], settings: SummarySettings
) -> SummaryPlan | None:
    """Return the plan by which the live summary was made; None if there is none.

    Args:
        key: The thread.
        entries: All its entries by ascending position.
        settings: Say how tokens are counted.
    """
    live = find_live_entries(entries)
    newest = find_live_summary(live)
    if newest is None:
        return None
    by_id = {entry.id: entry for entry in live if entry.role == "summary"}
    base = next((by_id[name] for name in newest.metadata.summary_ids if name in by_id), None)
    covered = find_covers(live, [newest])
    before = [] if base is None else [base]
    told = [entry for entry in find_said_since(live, before) if entry.id in covered]
    window = make_window(key, entries, told, base)
    return SummaryPlan(window, measure(told, settings.counter).tokens, is_redone=True)


def measure(said: Sequence[Entry], counter: TokenCounter = count_tokens) -> Size:
    """Return how large what these entries say is."""
    return Size(sum(_count_tokens(entry, counter) for entry in said), len(said))


def _count_tokens(entry: Entry, counter: TokenCounter) -> int:
    return 0 if entry.message is None else counter([entry.message])


def _find_end(
    points: Sequence[int], said: Sequence[Entry], rest: Size, settings: SummarySettings | None
) -> int:
    """Return how many entries to cover: the fewest that leave little enough; 0 if none may be.

    Args:
        points: Where a window of these may end.
        said: The entries.
        rest: How much is not covered, these entries included.
        settings: Say what is little enough; None is nothing at all.
    """
    if settings is None or not points:
        return points[-1] if points else 0
    sizes = (_count_tokens(entry, settings.counter) for entry in said)
    sums = list(accumulate(sizes, initial=0))
    for point in points:
        if settings.is_small(Size(rest.tokens - sums[point], rest.messages - point)):
            return point
    return points[-1]
