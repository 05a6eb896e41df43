"""Random threads: summarised, taken back, edited, pinned, forgotten and forked in any order.

What an undo showed again is tracked by what the views show, not by what the log notes of it.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import ConvMemError
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import find_covers, find_frontier, find_live_entries, find_nodes
from langchain_convmem.views.summaries import find_held_back

SETTINGS = SummarySettings(
    trigger=("messages", 4), keep=("messages", 2), max_summary_tokens=16, facts_tokens=0
)
COLOURS = ["red", "green", "blue"]


def quote(request):
    """Return a summary of the first thing that was said, as code of an application may."""
    return next(line for line in request.transcript.splitlines() if ": " in line).partition(": ")[2]


def _listed(entries):
    return [(entry.id, entry.contents) for entry in entries]


class OpenThread:
    """A thread on which random steps are taken; what is refused is refused.

    Attributes:
        held: Ids of what was shown again by undoing summaries, and not summarised since.
        ever_held: Ids of what that was true of at any time.
    """

    def __init__(self, log):
        self.memory = ConversationMemory(
            log,
            summarizer=ScriptedSummarizer(quote),
            summary_settings=SETTINGS,
            summarize_when="foreground",
        )
        self.history = self.memory.history("t", user_id="ana")
        self.count = 0
        self.held = set()
        self.ever_held = set()

    def take(self, step):
        name, *arguments = step
        try:
            getattr(self, name)(*arguments)
        except ConvMemError:
            return
        self.held -= set(self.covers)
        self.check()

    # -- steps --------------------------------------------------------------------------------

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

    def undo(self, exchanges):
        self.history.undo(exchanges)

    def redo(self):
        self.history.redo()

    def clear(self):
        self.history.clear()

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

    def pin(self, colour):
        self.history.pin(colour)

    def unpin(self, colour):
        before = self.history.messages
        if self.history.unpin(colour):
            assert self.history.redo()
            assert self.history.messages == before
            self.history.unpin(colour)

    # -- what holds at any time -----------------------------------------------------------------

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
        entries = self.history.entries
        alive = {entry.id for entry in self.live}
        assert self.shown | self.covers.keys() == alive
        assert self.shown.isdisjoint(self.covers)
        assert find_held_back(entries) & alive == self.held & alive
        told = self.history.context()
        assert told.messages == build_context(entries).messages
        assert told.left_out == 0
        for pin in self.history.pins:
            assert pin.text in told.messages[0].text


BEGINNING = [("say", "red"), ("say", "green"), ("say", "red"), ("summarise", False)]

steps = st.one_of(
    *[st.tuples(st.just("say"), st.sampled_from(COLOURS))] * 4,
    *[st.just(("summarise", False))] * 3,
    st.just(("summarise", True)),
    st.just(("summarise_by_hand",)),
    *[st.just(("undo_summary",))] * 3,
    st.tuples(st.just("edit_summary"), st.integers(0, 9)),
    st.tuples(st.just("undo"), st.integers(1, 3)),
    st.just(("redo",)),
    st.just(("clear",)),
    st.tuples(st.just("replace"), st.integers(0, 20)),
    st.tuples(st.just("forget"), st.integers(0, 20)),
    st.tuples(st.just("pin"), st.sampled_from(COLOURS)),
    st.tuples(st.just("unpin"), st.sampled_from(COLOURS)),
)


@pytest.mark.slow
@given(st.lists(steps, max_size=20))
@settings(max_examples=150, deadline=None)
def test_nothing_is_lost_told_twice_or_compacted_against_an_undo(chosen):
    with InMemoryLog() as log:
        thread = OpenThread(log)
        for step in [*BEGINNING, *chosen]:
            thread.take(step)


@given(st.lists(steps, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_fork_shows_the_same_and_goes_its_own_way(chosen):
    with InMemoryLog() as log:
        thread = OpenThread(log)
        for step in [*BEGINNING, *chosen]:
            thread.take(step)
        fork = thread.memory.fork("t", user_id="ana")
        texts = [message.text for message in thread.history.messages]
        assert [message.text for message in fork.messages] == texts
        assert [pin.text for pin in fork.pins] == [pin.text for pin in thread.history.pins]
        before = _listed(fork.entries)
        thread.take(("clear",))
        assert _listed(fork.entries) == before
        assert [message.text for message in fork.messages] == texts
