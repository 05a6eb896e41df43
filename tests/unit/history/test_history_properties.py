from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConvMemError
from langchain_convmem.history import ConversationHistory
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import (
    find_covers,
    find_frontier,
    find_live_entries,
    find_nodes,
    is_blank,
)
from langchain_convmem.views.summaries import find_held_back

CALL = {"name": "weather", "args": {}, "id": "c1"}
MESSAGES = {
    "user": lambda n: HumanMessage(f"u{n}"),
    "assistant": lambda n: AIMessage(f"a{n}"),
    "blank": lambda n: HumanMessage(" "),
    "system": lambda n: SystemMessage(f"s{n}"),
    "call": lambda n: AIMessage(f"c{n}", tool_calls=[CALL]),
    "result": lambda n: ToolMessage(f"r{n}", tool_call_id="c1"),
}
SINKS = ("one", "two")


class Thread:
    """A thread on which random steps are taken; what is refused is refused."""

    def __init__(self, history):
        self.history = history
        self.windows = []
        self.sinks = {name: {} for name in SINKS}
        self.count = 0

    def take(self, step):
        name, *arguments = step
        with contextlib.suppress(ConvMemError):
            (getattr(self, name, None) or getattr(self.history, name))(*arguments)
            self.check()

    def check(self):
        """Check what holds after each step that was taken."""

    def say(self, kind, turn):
        self.count += 1
        message = MESSAGES[kind](self.count)
        self.history.log.append(self.history.key, [make_draft(message, turn_id=turn)])

    def window(self):
        self.windows.append(self.history.summary_window())

    def summarise(self, chosen):
        if self.windows:
            self.count += 1
            window = self.windows[chosen % len(self.windows)]
            self.history.add_summary(f"S{self.count}", window)

    def replace(self, chosen, keep_later):
        shown = [turn for turn in self.history.turns if turn.entries]
        if shown:
            self.count += 1
            name = shown[chosen % len(shown)].id
            self.history.replace(name, f"e{self.count}", keep_later=keep_later)

    def export(self, sink, exclude_last):
        maps = self.history.to_maps(sink=sink, exclude_last=exclude_last)
        ids = [item["id"] for item in maps]
        assert len(ids) == len(set(ids)), "a turn stands twice in one increment"
        for item in maps:
            known = self.sinks[sink].get(item["id"])
            assert item != known, "the sink had that already"
            self.sinks[sink][item["id"]] = item
        assert self.history.to_maps(sink=sink, exclude_last=exclude_last) == []
        everything = self.history.to_maps(incremental=False, exclude_last=False)
        held = {item["id"] for item in everything[-1:]} if exclude_last else set()
        has = {
            name: item
            for name, item in self.sinks[sink].items()
            if "retracted" not in item["metadata"].get("attribute", ())
        }
        wanted = {item["id"]: item for item in everything if item["id"] not in held}
        assert {name: item for name, item in has.items() if name not in held} == wanted


def step(name, *arguments):
    """Return a strategy of one kind of step."""
    return st.tuples(st.just(name), *arguments)


steps = st.one_of(
    *[step("say", st.sampled_from(sorted(MESSAGES)), st.sampled_from([None, "1", "2"]))] * 4,
    step("say", st.sampled_from(["user", "assistant"]), st.none()),
    *[step("window")] * 2,
    step("summarise", st.integers(0, 9)),
    step("summarise", st.just(-1)),
    step("undo", st.integers(1, 3)),
    *map(step, ("redo", "undo_summary", "clear")),
    step("replace", st.integers(0, 20), st.booleans()),
)
exports = step("export", st.sampled_from(SINKS), st.booleans())
plain = st.lists(steps, max_size=30)
exported = st.lists(st.one_of(steps, steps, steps, exports), max_size=30)


def walked(log, chosen):
    thread = Thread(ConversationHistory(log, "t1", user_id="ana"))
    for one in chosen:
        thread.take(one)
    return thread


@given(plain)
@settings(max_examples=150, deadline=None)
def test_what_is_said_is_covered_by_the_summary_or_shown_and_never_both(chosen):
    with InMemoryLog() as log:
        history = walked(log, chosen).history
        live = find_live_entries(history.entries)
        covered = find_covers(live, find_nodes(live))
        shown = history.context(summary="omit").positions
        for entry in live:
            is_shown = entry.position in shown
            assert not (entry.id in covered and is_shown)
            if entry.role not in ("summary", "tool") and not is_blank(entry):
                # A result alone may go missing: what called it can have been taken back.
                assert entry.id in covered or is_shown
            if entry.role == "system":
                assert entry.id not in covered


@given(plain)
@settings(max_examples=150, deadline=None)
def test_a_window_holds_what_a_summary_then_covers_and_nothing_else_changes(chosen):
    with InMemoryLog() as log:
        history = walked(log, chosen).history
        before = [entry.id for turn in history.model_turns for entry in turn.entries]
        last = history.last_summary
        said = [message.text for message in history.messages]
        window = history.summary_window()
        if window.is_empty:
            assert window.previous is None
            assert str(window) == ""
            return
        assert window.turns[-1].role == "assistant"
        assert not any(turn.role in ("system", "summary") for turn in window.turns)
        assert (None if window.previous is None else window.previous.id) == (
            None if last is None else last.id
        )
        turn = history.add_summary("NEW", window)
        after = [entry.id for turn in history.model_turns for entry in turn.entries]
        assert sorted(before) == sorted([*window.entry_ids, *after])
        assert history.last_summary.id == turn.id
        history.undo_summary()
        assert [message.text for message in history.messages] == said


@given(plain, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_redo_restores_what_undo_took_back(chosen, exchanges):
    with InMemoryLog() as log:
        history = walked(log, chosen).history
        turns, messages, size = history.turns, history.messages, len(history.entries)
        undone = history.undo(exchanges)
        assert len(history.entries) == size + bool(undone)
        shown = {entry.id for turn in history.turns for entry in turn.entries}
        assert shown.isdisjoint(entry.id for turn in undone for entry in turn.entries)
        if undone:
            assert history.redo()
            assert history.turns == turns
            assert history.messages == messages


@given(exported)
@settings(max_examples=200, deadline=None)
def test_exports_lose_and_double_nothing_whatever_happens_between_them(chosen):
    with InMemoryLog() as log:
        thread = walked(log, chosen)
        for sink in SINKS:
            thread.export(sink, exclude_last=True)
            thread.export(sink, exclude_last=False)


SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=16, facts_tokens=0
)
OPEN_COLOURS = ["red", "green", "blue"]


def quote(request):
    """Return a summary of the first thing that was said, as code of an application may."""
    return next(line for line in request.transcript.splitlines() if ": " in line).partition(": ")[2]


class OpenThread(Thread):
    """A thread that is summarised, forgotten in part, edited and pinned."""

    def __init__(self, log):
        options = {"summarizer": ScriptedSummarizer(quote), "summary_settings": SETTINGS}
        self.memory = ConversationMemory(log, summarize_when="foreground", **options)
        super().__init__(self.memory.history("t", user_id="ana"))
        self.held = set()  # ids of what is shown since summaries were undone, not summarised since
        self.ever_held = set()  # ids of what that was true of at any time

    def say(self, colour):
        self.count += 1
        said = f"{colour} things are number {self.count} of many in the cellar"
        self.history.add_messages([HumanMessage(said), AIMessage(f"noted, {self.count}")])

    def summarise(self, force):
        before = self.shown
        report = self.memory.summarize("t", user_id="ana", force=force)
        assert report.outcome in ("written", "not_due"), report
        if not force:
            assert self.held & before <= self.shown

    def summarise_by_hand(self):
        self.history.add_summary("by hand", self.history.summary_window())

    def undo_summary(self):
        before, messages = self.shown, self.history.messages
        if self.history.undo_summary() is None:
            return
        assert self.history.redo()
        assert self.history.messages == messages
        self.history.undo_summary()
        self.held |= self.shown - before
        self.ever_held |= self.held

    def edit_summary(self, chosen):
        live = find_live_entries(self.history.entries)
        nodes = sorted(find_nodes(live), key=lambda entry: entry.position)
        if not nodes:
            return
        old = nodes[chosen % len(nodes)]
        self.count += 1
        before = self.covers
        turn = self.history.edit_summary(f"edited {self.count}", summary_id=old.id)
        assert turn.entries[0].cover.ranges == old.cover.ranges
        assert self.covers.keys() == before.keys()
        if old.id in {entry.id for entry in find_frontier(live)}:
            assert f"edited {self.count}" in self.history.messages[0].text

    def replace(self, chosen):
        said = [entry for entry in self.live if entry.role == "user"]
        if said:
            self.count += 1
            new = f"blue thing {self.count}"
            self.history.replace(said[chosen % len(said)].id, new, keep_later=True)

    def forget(self, chosen):
        entries = self.live
        if entries:
            name = entries[chosen % len(entries)].id
            self.memory.forget(user_id="ana", thread_id="t", entry_ids=[name])
            # What was held back before a summary that is erased now is held back again.
            after = find_held_back(self.history.entries)
            assert self.held & {entry.id for entry in self.live} <= after <= self.ever_held
            self.held |= after

    def unpin(self, colour):
        before = self.history.messages
        if self.history.unpin(colour):
            assert self.history.redo()
            assert self.history.messages == before
            self.history.unpin(colour)

    @property
    def live(self):
        live = find_live_entries(self.history.entries)
        return [entry for entry in live if entry.role != "summary"]

    @property
    def covers(self):
        live = find_live_entries(self.history.entries)
        return find_covers(live, find_nodes(live))

    @property
    def shown(self):
        at = {entry.position: entry.id for entry in self.live}
        positions = self.history.context(summary="omit").positions
        return {at[position] for position in positions if position in at}

    def check(self):
        self.held -= set(self.covers)
        entries = self.history.entries
        alive = {entry.id for entry in self.live}
        assert self.shown | self.covers.keys() == alive
        assert self.shown.isdisjoint(self.covers)
        assert (find_held_back(entries) & alive) - self.covers.keys() == self.held & alive
        told = self.history.context()
        assert told.messages == build_context(entries).messages
        assert not told.is_cut
        for pin in self.history.pins:
            assert pin.text in told.messages[0].text


BEGINNING = [("say", "red"), ("say", "green"), ("say", "red"), ("summarise", False)]

open_steps = st.one_of(
    *[step("say", st.sampled_from(OPEN_COLOURS))] * 4,
    *[step("summarise", st.just(False))] * 3,
    step("summarise", st.just(True)),
    step("summarise_by_hand"),
    *[step("undo_summary")] * 3,
    step("edit_summary", st.integers(0, 9)),
    step("undo", st.integers(1, 3)),
    *map(step, ("redo", "clear")),
    *(step(name, st.integers(0, 20)) for name in ("replace", "forget")),
    *(step(name, st.sampled_from(OPEN_COLOURS)) for name in ("pin", "unpin")),
)


def walked_open(log, chosen):
    thread = OpenThread(log)
    for one in [*BEGINNING, *chosen]:
        thread.take(one)
    return thread


@pytest.mark.slow
@given(st.lists(open_steps, max_size=20))
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_told_twice_or_compacted_against_an_undo(chosen):
    with InMemoryLog() as log:
        walked_open(log, chosen)


@given(st.lists(open_steps, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_fork_shows_the_same_and_goes_its_own_way(chosen):
    with InMemoryLog() as log:
        thread = walked_open(log, chosen)
        fork = thread.memory.fork("t", user_id="ana")
        texts = [message.text for message in thread.history.messages]
        assert [message.text for message in fork.messages] == texts
        assert [pin.text for pin in fork.pins] == [pin.text for pin in thread.history.pins]
        before = fork.entries
        thread.take(("clear",))
        assert fork.entries == before
        assert [message.text for message in fork.messages] == texts
