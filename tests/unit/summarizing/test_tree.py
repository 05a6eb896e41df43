from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, InMemoryLog, SummarySettings
from langchain_convmem.errors import BudgetError, ConvMemError
from langchain_convmem.records import Cover, Metadata, ThreadKey
from langchain_convmem.summarizing import resummarize
from langchain_convmem.summarizing.tree import (
    choose_sentences,
    count_summary_tokens,
    draft_parent,
    list_sentences,
    pick_siblings,
    plan_parent,
)
from langchain_convmem.views.context import build_context
from langchain_convmem.views.live import (
    find_covers,
    find_frontier,
    find_live_entries,
    find_nodes,
    find_uncovered,
    get_level,
)
from langchain_convmem.views.summaries import get_cites, make_summary_draft
from langchain_convmem.views.tokens import count_text_tokens
from langchain_convmem.words.facts import split_sentences

KEY = ThreadKey("ana", "t")
SMALL = SummarySettings(tree_tokens=135, fan_out=3)
ROOM = 60


def add(log, text, *, first, days=None, cites=None, level=0):
    """Write a summary of the position `first` and the one after it."""
    pieces = [text] if isinstance(text, str) else text
    record = {"level": level}
    if days:
        record["days"] = [days, days]
    if cites is not None:
        record["cites"] = cites
    cover = Cover(((first, first + 1),), f"digest {first}")
    draft = make_summary_draft(pieces, cover, Metadata(aux={"summary": record}))
    return log.append(KEY, [draft])[0]


def frontier(log):
    return find_frontier(find_live_entries(log.entries(KEY)))


def count_summary(summary):
    return count_summary_tokens(summary, count_text_tokens)


IDLE = "They went on for a while about this and that and nothing much came of it all. "
PARTS = [
    f"The flat costs 900 euros. {IDLE * 2}",
    f"The code of the door is XK-42. {IDLE}Ana prefers tea to coffee.",
]


def test_a_parent_tells_the_facts_of_its_children_word_for_word_with_their_days_and_sources(log):
    children = [
        add(log, PARTS[0], first=1, days="2023-05-08", cites=[[1], [], []]),
        add(log, PARTS[1], first=3, days="2023-05-09", cites=[[3], [], [3, 4]]),
    ]
    draft = draft_parent(children, ROOM)
    assert draft.contents[0].splitlines() == [
        "(2023-05-08)",
        "The flat costs 900 euros.",
        "(2023-05-09)",
        "The code of the door is XK-42.",
        "Ana prefers tea to coffee.",
    ]
    record = draft.metadata.aux["summary"]
    assert record["cites"] == [[], [1], [], [3], [3, 4]]
    assert record["level"] == 1
    assert record["days"] == ["2023-05-08", "2023-05-09"]
    assert draft.cover.ranges == ((1, 4),)


def test_each_kind_of_fact_and_each_child_gets_its_share(log):
    codes = " ".join(f"Box {n} has the code XK-{n}." for n in range(30))
    children = [
        add(log, codes, first=1),
        add(log, "Ana prefers tea. The rent is 900 euros. I will call you on 3 May.", first=3),
    ]
    told = " ".join(one.text for one in choose_sentences(list_sentences(children), 60))
    assert all(text in told for text in ("prefers tea", "900 euros", "I will call you"))
    assert "XK-" in told


def test_those_that_take_most_for_what_they_cover_are_put_under_a_parent_but_not_the_newest(log):
    text = "The flat costs {0}00 euros and the boat {0}50. " + IDLE
    summaries = [add(log, text.format(n), first=2 * n + 1) for n in range(4)]
    wide = replace(summaries[0], cover=Cover(((1, 2), (21, 30)), "digest"))
    own = replace(SMALL, tree_tokens=110)
    assert list(pick_siblings([wide, *summaries[1:]], own)) == summaries[1:3]
    # Of those that are alike the oldest, whatever their levels are.
    assert list(pick_siblings(summaries, own)) == summaries[:2]
    assert pick_siblings(summaries[2:], replace(SMALL, tree_tokens=32)) == ()


def test_of_more_summaries_than_a_budget_holds_the_latest_are_shown(log):
    for number in range(6):
        add(log, f"Summary {number}. {IDLE}", first=2 * number + 1)
    entries = log.entries(KEY)
    for most, first in ((None, 0), (210, 0), (140, 3), (90, 5)):
        view = build_context(entries, max_tokens=most)
        told = view.messages[0].text
        shown = [number for number in range(6) if f"Summary {number}." in told]
        assert shown == list(range(first, 6))
        assert view.positions == {entry.position for entry in entries[first:]}
    with pytest.raises(BudgetError):
        build_context(entries, max_tokens=40)


WORDS = "Ana Rome XK-42 12 euros 3 May prefers tea will call. it was nice Really? 900$ boats"
words = st.sampled_from(sorted(WORDS.split()))
texts = st.lists(words, min_size=3, max_size=60).map(" ".join)


@settings(max_examples=60, deadline=None)
@given(st.lists(texts, min_size=2, max_size=12), st.integers(32, 400))
def test_parents_say_nothing_that_a_child_does_not_say_and_keep_their_budget(said, most):
    own = SummarySettings(tree_tokens=most, fan_out=3)
    with InMemoryLog() as log:
        for number, text in enumerate(said):
            sentences = split_sentences(text)
            add(log, text, first=2 * number + 1, cites=[[2 * number + 1]] * len(sentences))
        while (plan := plan_parent(log.entries(KEY), own)) is not None:
            again = plan_parent(log.entries(KEY), own)
            assert again.draft == plan.draft
            before = sum(map(count_summary, frontier(log)))
            [parent] = log.append(KEY, [plan.draft])
            told = split_sentences(parent.contents[0])
            assert len(get_cites(parent)) == len(told)
            below = "\n".join(text for child in plan.children for text in child.contents)
            for sentence, cited in zip(told, get_cites(parent), strict=True):
                assert sentence in below
                assert cited
                assert all(first <= cited[0] <= last for first, last in parent.cover.ranges)
            longest = max(count_text_tokens(one) for one in split_sentences(below))
            assert count_summary(parent) <= max(most // 2, 16, longest)
            assert 2 <= len(plan.children) <= 3
            assert sum(map(count_summary, frontier(log))) < before
        covered = [pair for top in frontier(log) for pair in top.cover.ranges]
        positions = [one for first, last in covered for one in range(first, last + 1)]
        assert positions == list(range(1, 2 * len(said) + 1))


FACTS = ["The rent is {}00 euros.", "The code is XK-{}.", "I will call on {} May.", "I like it."]


@dataclass
class Talk:
    """A thread on which random steps are taken; what is refused is refused."""

    memory: ConversationMemory
    count: int = 0

    @property
    def history(self):
        return self.memory.history("t", user_id="ana")

    def take(self, step):
        """Take a step; what tells of nothing that it took away is there as it was."""
        name, *arguments = step
        before = self.list_written()
        try:
            gone = getattr(self, name)(*arguments)
        except ConvMemError:
            return
        after = self.list_written()
        for written, covered in before.items():
            if gone is not None and not (covered | {written}) & gone:
                assert after.get(written) == covered

    def say(self, answered):
        self.count += 1
        text = FACTS[self.count % len(FACTS)].format(self.count)
        said = [HumanMessage(text), AIMessage(f"Noted number {self.count}.")]
        self.memory.add_messages(said[: 1 + answered], thread_id="t", user_id="ana")

    def summarize(self, force):
        self.memory.summarize("t", user_id="ana", force=force)

    def by_hand(self):
        self.count += 1
        self.history.add_summary(f"By hand {self.count}.", self.history.summary_window())

    def resummarize(self):
        resummarize(self.memory, "t", user_id="ana")

    def undo(self, exchanges):
        return {entry.id for turn in self.history.undo(exchanges) for entry in turn.entries}

    def undo_summary(self):
        gone = self.history.undo_summary()
        assert gone is None or gone.id not in self.list_written()
        return gone and {gone.id}

    def redo(self):
        self.history.redo()

    def replace(self, chosen):
        self.count += 1
        live = find_live_entries(self.history.entries)
        shown = [entry.id for entry in live if entry.role in ("user", "assistant")]
        if not shown:
            return None
        old = shown[chosen % len(shown)]
        self.history.replace(old, f"Now number {self.count}.", keep_later=True)
        return {old}

    def forget(self, chosen):
        entries = [entry for entry in self.history.entries if entry.role in ("user", "assistant")]
        if not entries:
            return None
        name = entries[chosen % len(entries)].id
        self.memory.forget(user_id="ana", thread_id="t", entry_ids=[name])
        return {entry.id for entry in entries if name in (entry.id, entry.message_id)}

    def list_written(self):
        """Return what each summary that was written and counts tells of, by its id."""
        live = find_live_entries(self.history.entries)
        written = [node for node in find_nodes(live) if not get_level(node)]
        return {node.id: set(find_covers(live, find_nodes(live, [node]))) for node in written}

    def check(self):
        entries = self.history.entries
        live = find_live_entries(entries)
        tops = find_frontier(live)
        shown = {entry.id for entry in find_uncovered(live)}
        told = [set(find_covers(live, find_nodes(live, [top]))) for top in tops]
        for entry in live:
            if entry.role == "summary":
                continue
            assert sum(entry.id in covers for covers in told) == (entry.id not in shown)
        last = max((n for n, one in enumerate(live) if one.role == "assistant"), default=-1)
        waiting = {entry.id for entry in live[last + 1 :] if entry.role != "summary"}
        assert shown >= waiting
        seen = self.history.context()
        assert seen.messages == build_context(entries).messages
        assert all(text in seen.messages[0].text for top in tops for text in top.contents)


steps = st.one_of(
    *[st.tuples(st.just("say"), st.just(1))] * 5,
    st.tuples(st.just("say"), st.just(0)),
    *[st.tuples(st.just("summarize"), st.booleans())] * 4,
    st.just(("by_hand",)),
    st.just(("resummarize",)),
    st.tuples(st.just("undo"), st.integers(1, 2)),
    st.just(("undo_summary",)),
    st.just(("redo",)),
    st.tuples(st.just("replace"), st.integers(0, 40)),
    st.tuples(st.just("forget"), st.integers(0, 40)),
)
OWN = SummarySettings(
    trigger=("messages", 4),
    keep=("messages", 2),
    max_summary_tokens=2000,
    tree_tokens=80,
    fan_out=3,
    first_pause_s=0.001,
)


@settings(max_examples=80, deadline=None)
@given(st.lists(steps, min_size=10, max_size=60))
def test_each_entry_is_shown_or_told_once_whatever_happens(chosen):
    log = InMemoryLog()
    with ConversationMemory(
        log, summarizer=ScriptedSummarizer(), summary_settings=OWN, summarize_when="foreground"
    ) as memory:
        talk = Talk(memory)
        for step in chosen:
            talk.take(step)
            talk.check()


def test_a_parent_covers_one_range_where_nothing_was_said_between():
    with ConversationMemory(
        InMemoryLog(), summarizer=ScriptedSummarizer(), summary_settings=OWN
    ) as memory:
        talk = Talk(memory)
        for step in [("say", 1), ("summarize", True)] * 9:
            talk.take(step)
        top = find_frontier(find_live_entries(talk.history.entries))[0]
    assert get_level(top) > 1
    assert len(top.cover.ranges) == 1
