import asyncio
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from histories import SMALL_TALK, shown_lines
from langchain_core.messages import HumanMessage
from watched_embedder import WordEmbeddings

from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.logs import InMemoryLog
from langchain_convmem.recall import LineRecall, RecallSettings
from langchain_convmem.recall import index as owner_index
from langchain_convmem.records import Control, Draft, Owner, ThreadKey
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.tokens import count_text_tokens

ANA = Owner(user_id="ana")
TEXTS = SMALL_TALK[:6]


def retract(log, *entries):
    control = Control(tuple(entry.id for entry in entries), "undo")
    return log.append(ThreadKey("ana", "t"), [Draft(role="control", control=control)])[0]


def value(found):
    """Everything a caller sees, without the log's own ids."""
    return [
        (
            [(match.line.text, round(match.relevance, 5), match.why) for match in block.matches],
            block.text,
        )
        for block in found.blocks
    ]


def test_spec_settings_are_three_matches_above_0_8_three_lines_around_and_ten_blocks():
    spec = RecallSettings.spec()
    assert (spec.k, spec.threshold, spec.window, spec.buffer_size) == (3, 0.8, 3, 10)
    assert spec.cosine_only


def test_without_a_wish_the_budget_is_a_thousand_tokens(log, say, embedder):
    say(log, [f"word{n} " * 20 for n in range(100)])
    found = LineRecall(log, embedder).recall(ANA, "word7 word50", threshold=-1.0)
    assert 900 < sum(count_text_tokens(block.text) for block in found.blocks) <= 1000


def test_retracted_lines_are_gone_and_come_back_when_the_retraction_is_retracted(
    log, say, embedder
):
    entries = say(log, TEXTS)
    recall = LineRecall(log, embedder)
    before = value(recall.recall(ANA, "car floor"))
    undo = retract(log, entries[0], entries[1])
    assert not {TEXTS[0], TEXTS[1]} & set(shown_lines(recall.recall(ANA, "car floor")))
    retract(log, undo)
    assert value(recall.recall(ANA, "car floor")) == before


def test_the_segments_in_memory_are_limited_and_who_was_not_asked_for_leaves_first(say, embedder):
    class Counting(InMemoryLog):
        read = []  # noqa: RUF012 - of one test

        def line_changes(self, owner, cursor=0, *, limit=None):
            self.read += [owner.user_id] if cursor == 0 else []
            return super().line_changes(owner, cursor, limit=limit)

    log = Counting()
    recall = LineRecall(log, embedder, max_segments=8_000)
    for user in "abcbdb":
        say(log, [f"car {user}"], user=user)
        assert recall.recall(Owner(user_id=user), "car").blocks
    assert (log.read.count("b"), log.read.count("c")) == (1, 1)
    recall.recall(Owner(user_id="c"), "car")
    assert (log.read.count("c"), embedder.embedded.count("car c")) == (2, 1)


def test_a_cold_start_neither_embeds_nor_analyses_and_answers_the_same(
    sqlite_log, say, monkeypatch
):
    say(sqlite_log, [*TEXTS, "A long line about a car. " * 40])
    first = WordEmbeddings()
    warm = LineRecall(sqlite_log, first).recall(ANA, "car floor", k=3)
    analysed = []
    monkeypatch.setattr(owner_index, "extract_line_terms", lambda *said: analysed.append(said))
    second = WordEmbeddings()
    cold = LineRecall(sqlite_log, second).recall(ANA, "car floor", k=3)
    assert first.embedded
    assert (second.embedded, analysed) == ([], [])
    assert cold == warm


def test_a_failing_embedder_is_left_alone_and_lines_are_found_by_words_and_embedded_later(
    log, say, embedder, caplog
):
    say(log, TEXTS)
    recall = LineRecall(log, embedder)
    embedder.failing = RuntimeError("quota exhausted")
    with caplog.at_level(logging.WARNING, "langchain_convmem"):
        found = recall.recall(ANA, "Where is the car?", k=1)
    assert found.matches[0].line.text == TEXTS[0]
    assert found.matches[0].similarity == 0.0
    [problem] = found.problems
    assert problem.endswith(": RuntimeError")
    assert [record.getMessage() for record in caplog.records] == [problem]
    assert recall.recall(ANA, "car", threshold=0.8).problems == (problem,), "and no best cosine"
    assert embedder.calls == 1
    embedder.failing = None
    assert recall.refresh(ANA) == ()
    healed = recall.recall(ANA, "Where is the car?", k=1)
    assert healed.problems == ()
    assert sorted(embedder.embedded) == sorted(TEXTS)
    assert value(healed) == value(LineRecall(log, embedder).recall(ANA, "Where is the car?", k=1))


@pytest.mark.parametrize(
    "answer", [None, [], [[1.0, 2.0]], [[float("nan")] * 16] * 6, "text", [[1.0], [1.0, 2.0]]]
)
def test_a_senseless_answer_of_an_embedder_is_a_problem_and_no_crash(
    log, say, embedder, monkeypatch, answer
):
    say(log, TEXTS)
    monkeypatch.setattr(embedder, "embed_documents", lambda _: answer)
    found = LineRecall(log, embedder).recall(ANA, "car", k=1)
    assert found.matches[0].line.text == TEXTS[0]
    assert found.problems


def test_a_log_that_cannot_be_read_raises_and_is_read_on_later(say, embedder):
    class Flaky(InMemoryLog):
        broken = False

        def line_changes(self, owner, cursor=0, *, limit=None):
            if self.broken:
                raise LogUnavailableError("gone")
            return super().line_changes(owner, cursor, limit=limit)

    log = Flaky()
    say(log, TEXTS)
    recall = LineRecall(log, embedder)
    log.broken = True
    with pytest.raises(LogUnavailableError):
        recall.recall(ANA, "car")
    log.broken = False
    assert shown_lines(recall.recall(ANA, "car"))
    assert sorted(embedder.embedded) == sorted(TEXTS)


def test_many_threads_recall_and_write_at_once(log, say, embedder):
    recall = LineRecall(log, embedder, max_segments=1)

    def work(user):
        for number in range(8):
            say(log, [f"car {number} of {user}"], user=user)
            found = recall.recall(Owner(user_id=user), f"car {number}", ranking=50)
            assert f"car {number} of {user}" in {match.line.text for match in found.matches}

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, "aabbcc")) == [None] * 6


@pytest.mark.parametrize(
    ("named", "arguments"),
    [
        ("query", {"query": "  "}),
        ("query", {"query": None}),
        ("k", {"k": 0}),
        ("k", {"k": 1.5}),
        ("k", {"k": True}),
        ("max_tokens", {"max_tokens": 0}),
        ("max_tokens", {"max_tokens": "9"}),
        ("ranking", {"ranking": -1}),
        ("threshold", {"threshold": 1.1}),
        ("threshold", {"threshold": "always"}),
        ("before must be a text or None, got 5", {"before": 5}),
        *(("owner", {"owner": owner}) for owner in ("ana", [], [ANA, "bo"], None)),
    ],
)
def test_a_senseless_argument_is_refused_by_name(log, embedder, named, arguments):
    wish = {"owner": ANA, "query": "car", **arguments}
    with pytest.raises(ConfigError, match=named):
        LineRecall(log, embedder).recall(wish.pop("owner"), wish.pop("query"), **wish)


@pytest.mark.parametrize(
    "option", [{"max_segments": 0}, {"rewriter": "better"}, {"settings": {"k": 3}}], ids=str
)
def test_what_a_recall_cannot_be_made_with_is_refused_by_name(log, option):
    with pytest.raises(ConfigError, match=next(iter(option))):
        LineRecall(log, **option)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("window", (1, -1)),
        ("k", 0),
        ("threshold", 7),
        ("buffer_size", -1),
        ("max_tokens", "9"),
    ],
)
def test_numbers_that_no_recall_can_follow_are_refused_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        RecallSettings(**{name: value})


NOW_MS = int(datetime(2023, 11, 20, 12, tzinfo=UTC).timestamp() * 1000)
DAY_MS = 24 * 3_600_000


@pytest.mark.parametrize(
    ("when", "number"), [("on 2023-11-17", 3), ("on 11 November", 9), ("five days ago", 5)]
)
def test_lines_said_at_that_time_come_first_and_say_why(log, when, number):
    for days in range(20):
        said = {"timestamp": NOW_MS - days * DAY_MS}
        line = HumanMessage("We had soup", additional_kwargs=said)
        log.append(ThreadKey("ana", f"t{days}"), [make_draft(line)])
    recall = LineRecall(log)
    question = f"Which soup did we have {when}?"
    [match] = recall.recall(ANA, question, k=1, ranking=1, now_ms=NOW_MS).matches
    assert match.line.time_ms == NOW_MS - number * DAY_MS
    assert "date" in match.why
    plain = RecallSettings(cosine_only=True)
    found = recall.recall(ANA, question, k=1, now_ms=NOW_MS, settings=plain)
    assert not any("date" in match.why for match in found.matches)


def test_headers_tell_how_long_ago_a_block_was_said(log):
    said = HumanMessage("We had soup", additional_kwargs={"timestamp": NOW_MS})
    log.append(ThreadKey("ana", "t"), [make_draft(said)])
    recall = LineRecall(log)

    def headers(days, settings=None):
        now_ms = NOW_MS + days * DAY_MS
        found = recall.recall(ANA, "soup", k=1, now_ms=now_ms, settings=settings)
        return found.blocks[0].text.split("\n")[0]

    ages = {0: "today", 1: "yesterday", 13: "13 days ago", 14: "2 weeks ago"}
    ages |= {59: "8 weeks ago", 60: "2 months ago", 729: "24 months ago", 730: "2 years ago"}
    assert {days: headers(days) for days in ages} == {
        days: f"[2023-11-20, {age}]" for days, age in ages.items()
    }
    assert headers(-1) == "[2023-11-20]"
    assert headers(7, RecallSettings(age_in_header=False)) == "[2023-11-20]"
    odd = HumanMessage("We had tea", additional_kwargs={"timestamp": 10**17})
    log.append(ThreadKey("ana", "t"), [make_draft(odd)])
    assert recall.recall(ANA, "tea", k=1).blocks[0].text.startswith("[undated]\n")


async def test_a_recall_needs_no_thread_of_the_loops_own_executor():
    log = InMemoryLog()
    log.append(ThreadKey("ana", "t1"), [make_draft(HumanMessage("The bicycle is at the bakery."))])
    loop = asyncio.get_running_loop()
    gate = threading.Event()
    with ThreadPoolExecutor(1) as crowded:
        loop.set_default_executor(crowded)
        waiting = loop.run_in_executor(None, gate.wait)
        try:
            found = await LineRecall(log).arecall(Owner("ana"), "bicycle")
        finally:
            gate.set()
        assert await waiting
    assert "bakery" in found.blocks[0].text
