import asyncio
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem.logs import InMemoryLog, SQLiteLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.records import Control, Draft, Owner, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.tokens import count_text_tokens

WORDS = ["car", "boat", "dog", "river", "paper", "music", "floor", "May", "Ana", "Bo", "red"]
START_MS = 1_700_000_000_000
MINUTE_MS = 60_000


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
# Long enough to be cut into segments.
speeches = st.lists(sentences, min_size=12, max_size=16).map(lambda parts: ". ".join(parts * 3))


@dataclass(frozen=True)
class Said:
    """One step in the life of a log: a line, or an earlier one is retracted or forgotten."""

    user: str
    thread: str
    text: str
    minute: int
    speaker: str
    session: str | None
    topic: str | None
    is_reply: bool
    retracts: int | None = None

    def write(self, log, written):
        key = ThreadKey(self.user, self.thread)
        entries = [entry for entry in written if entry is not None and entry.key == key]
        if self.retracts is not None and entries:
            gone = entries[self.retracts % len(entries)]
            if self.retracts % 3:
                log.append(key, [Draft(role="control", control=Control((gone.id,), "undo"))])
            else:
                log.forget(key, [gone.id])
                written[written.index(gone)] = None
            return None
        extra = {"timestamp": START_MS + self.minute * MINUTE_MS, "topic": self.topic}
        if self.session is not None:
            extra["session"] = self.session
        kind = AIMessage if self.is_reply else HumanMessage
        message = kind(content=self.text, name=self.speaker, additional_kwargs=extra)
        return log.append(key, [make_draft(message)])[0]


steps = st.builds(
    Said,
    user=st.sampled_from(["ana", "bo"]),
    thread=st.sampled_from(["t1", "t2"]),
    text=st.one_of(sentences, sentences, sentences, speeches, st.just("\ud800 car")),
    minute=st.integers(0, 90),
    speaker=st.sampled_from(["Ana", "Bo"]),
    session=st.sampled_from([None, None, "s1", "s2"]),
    topic=st.sampled_from(["work", 3, 3.5, True, None]),
    is_reply=st.booleans(),
    retracts=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 9)),
)
lives = st.lists(steps, min_size=1, max_size=14)


@dataclass(frozen=True)
class Wish:
    """One question, as it may be asked."""

    query: str
    amount: dict
    filter: dict | None
    since: int | None
    until: int | None
    thread: str | None
    hidden: frozenset
    settings: RecallSettings = field(default_factory=RecallSettings)

    def options(self, *, user="ana"):
        keys = (ThreadKey(user, "t1"), ThreadKey(user, "t2"))
        return {
            **self.amount,
            "filter": self.filter,
            "since": None if self.since is None else START_MS + self.since * MINUTE_MS,
            "until": None if self.until is None else START_MS + self.until * MINUTE_MS,
            "within": None if self.thread is None else ThreadKey(user, self.thread),
            "exclude": dict.fromkeys(keys, self.hidden),
            "buffer": ThreadKey(user, "now"),
            "settings": self.settings,
        }

    def allows(self, line):
        """Say it again, line by line and slowly, what is in scope."""
        minute = (line.time_ms - START_MS) / MINUTE_MS
        known = {
            "speaker": line.speaker,
            "role": line.role,
            "session": line.session,
            "topic": line.tags.get("topic"),
        }
        return (
            (self.thread is None or line.key.thread_id == self.thread)
            and line.position not in self.hidden
            and (self.since is None or minute >= self.since)
            and (self.until is None or minute < self.until)
            and all(known[name] in value for name, value in (self.filter or {}).items())
        )


def wishes(**fixed):
    filters = st.fixed_dictionaries(
        {},
        optional={
            "speaker": st.just(["Ana"]),
            "role": st.just(["user"]),
            "session": st.sampled_from([["s1"], ["s1", None]]),
            "topic": st.sampled_from([["work", None], [3, True]]),
        },
    )
    drawn = {
        "query": sentences,
        "amount": st.sampled_from(
            [
                {"k": 1},
                {"k": 3},
                {"max_tokens": 20},
                {"max_tokens": 120},
                {"k": 2, "max_tokens": 90},
            ]
        ),
        "filter": st.one_of(st.none(), filters),
        "since": st.sampled_from([None, None, 20]),
        "until": st.sampled_from([None, None, 70]),
        "thread": st.sampled_from([None, None, "t1"]),
        "hidden": st.frozensets(st.integers(1, 16), max_size=3),
        "settings": st.builds(
            RecallSettings,
            window=st.integers(0, 3),
            budget_window=st.integers(0, 2),
            cross_sessions=st.booleans(),
            refill=st.booleans(),
            buffer_size=st.sampled_from([0, 3]),
            threshold=st.sampled_from([None, None, "auto", 0.5]),
        ),
    }
    return st.builds(Wish, **(drawn | fixed))


def told(life):
    log, written = InMemoryLog(), []
    for step in life:
        written.append(step.write(log, written))
    return log


def value(found):
    """Everything a caller sees, without the log's own ids."""
    blocks = [
        (block.text, block.relevance, block.similarity, *map(match_value, block.matches))
        for block in (*found.blocks, *found.buffer)
    ]
    return blocks, [match_value(match) for match in found.matches], found.best_rejected


def match_value(match):
    line = match.line
    return line.text, line.key, line.position, match.relevance, match.similarity, match.why


ANA = Owner(user_id="ana")
BOTH = (ANA, Owner(user_id="bo"))


@pytest.mark.parametrize("owners", [ANA, BOTH], ids=["a user", "two users"])
@settings(max_examples=30)
@given(life=lives, wish=wishes())
def test_blocks_are_stretches_of_the_dialogue_in_scope_and_budget_and_no_line_comes_twice(
    owners, life, wish
):
    recall = LineRecall(told(life), WordEmbeddings())
    # What an earlier and wider question left in the buffer must not show, either.
    recall.recall(owners, "car red", k=3, buffer=ThreadKey("ana", "now"), settings=wish.settings)
    options = wish.options()
    options["exclude"] |= {ThreadKey("bo", name): wish.hidden for name in ("t1", "t2")}
    assume(owners is ANA or options["within"] is None)
    found = recall.recall(owners, wish.query, **options)
    for blocks in (found.blocks, found.buffer):
        lines = [line for block in blocks for line in block.lines]
        assert len({line.entry_id for line in lines}) == len(lines)
        assert all(wish.allows(line) for line in lines)
        if "max_tokens" in wish.amount:
            size = sum(count_text_tokens(block.text) for block in blocks)
            assert size <= wish.amount["max_tokens"]
    assert all(wish.allows(match.line) for match in found.matches)
    assert len(found.blocks) <= wish.amount.get("k", len(found.blocks))
    live = recall.recall(owners, "x", ranking=99, k=1, settings=RecallSettings(buffer_size=0))
    for block in found.blocks:
        [key] = {line.key for line in block.lines}
        assert {match.line for match in block.matches} <= set(block.lines)
        there = sorted(match.line.position for match in live.matches if match.line.key == key)
        first = there.index(block.lines[0].position)
        positions = [line.position for line in block.lines]
        assert positions == there[first : first + len(positions)]
    asked_for = {owner.user_id for owner in (BOTH if owners is BOTH else (ANA,))}
    assert {match.line.key.user_id for match in found.matches} <= asked_for


@settings(max_examples=30)
@given(life=lives, wish=wishes())
def test_another_users_lines_change_nothing(life, wish):
    # As many entries, so that positions are the same, but of somebody else and about one thing.
    other = Said("cy", "t1", "car " * 9, 0, "Cy", None, None, is_reply=False)
    others = told([step if step.user == "ana" else other for step in life])
    found = LineRecall(told(life), WordEmbeddings()).recall(ANA, wish.query, **wish.options())
    same = LineRecall(others, WordEmbeddings()).recall(ANA, wish.query, **wish.options())
    assert value(found) == value(same)


def check_alike(found, other):
    """Two answers are the same but for the last bits: how crowded it is was added up otherwise."""
    assert [match.line for match in found.matches] == [match.line for match in other.matches]
    assert [block.text for block in found.blocks] == [block.text for block in other.blocks]
    assert (found.verdict, found.problems) == (other.verdict, other.problems)
    relevance = [match.relevance for match in other.matches]
    assert [match.relevance for match in found.matches] == pytest.approx(relevance, abs=1e-4)


@settings(max_examples=30)
@given(life=lives, cut=st.integers(0, 14), wish=wishes())
def test_an_index_kept_up_to_date_or_opened_from_a_snapshot_answers_as_a_fresh_one(
    tmp_path_factory, life, cut, wish
):
    path = tmp_path_factory.mktemp("lives") / "memory.db"
    options, written = wish.options() | {"remember": False}, []
    with SQLiteLog(path) as log:
        # So many that it is worth a snapshot.
        first = [make_draft(HumanMessage(f"{word} {n}")) for n, word in enumerate(WORDS * 7)]
        log.append(ThreadKey("ana", "t1"), first)
        warm = LineRecall(log, WordEmbeddings())
        for number, step in enumerate(life):
            written.append(step.write(log, written))
            if number >= cut:
                warm.recall(ANA, wish.query, **options)
            elif number % 5 == 0:
                LineRecall(log, WordEmbeddings()).refresh(ANA)
        opened = LineRecall(log, WordEmbeddings())
        found = opened.recall(ANA, wish.query, **options)
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("DELETE FROM snapshots")
        fresh = LineRecall(log, WordEmbeddings())
        expected = fresh.recall(ANA, wish.query, **options)
        check_alike(found, expected)
        check_alike(warm.recall(ANA, wish.query, **options), expected)
        assert opened.find_lines(ANA, ["car"]) == fresh.find_lines(ANA, ["car"])


@settings(max_examples=15)
@given(life=lives, wish=wishes())
def test_an_asynchronous_recall_answers_as_a_synchronous_one(life, wish):
    recall = LineRecall(told(life), WordEmbeddings(), rewriter=str.swapcase)
    options = wish.options() | {"remember": False}
    later = asyncio.run(recall.arecall(ANA, wish.query, **options))
    assert later == recall.recall(ANA, wish.query, **options)
