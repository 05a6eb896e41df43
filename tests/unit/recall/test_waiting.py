import asyncio
import time
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
from forked_processes import ForkedProcess
from langchain_core.runnables import RunnableLambda
from watched_embedder import WatchedEmbedder

from langchain_convmem import ConversationMemory
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner, ThreadKey
from langchain_convmem.turns.memory import get_turn_memory

ANA = Owner(user_id="ana")
BEN = Owner(user_id="ben")
TEXTS = [f"{word} number {n}" for n, word in enumerate(["car", "tree", "dog", "boat", "lamp"] * 8)]


MANY = [f"line number {n}" for n in range(600)]
"""More than go to a service at once."""


@pytest.fixture
def encoder():
    watched = WatchedEmbedder()
    yield watched
    watched.go_on()


def stored(log, owner=ANA):
    """Return how many vectors a log has stored."""
    [name] = log.segment_fingerprints(owner)
    return sum(row.vector is not None for row in log.load_segments(owner, name))


def test_a_line_is_found_by_its_words_until_it_is_embedded(log, say, encoder):
    say(log, ["the car is blue", "ok"])
    recall = LineRecall(log, encoder)
    encoder.hold()
    found = recall.recall(ANA, "blue", k=1, wait_s=0.1)
    assert found.matches[0].line.text == "the car is blue"
    assert found.problems == ("2 segments wait to be embedded, found by words alone until then",)
    encoder.go_on()
    assert recall.refresh(ANA) == ()
    found = recall.recall(ANA, "the car is blue", k=1)
    assert (found.matches[0].similarity > 0.9, found.problems) == (True, ())


async def test_an_event_loop_goes_on_while_a_recall_waits(log, say, encoder, monkeypatch):
    awaited = []

    async def embed_question(text):
        awaited.append(text)
        return encoder.embed_query(text)

    monkeypatch.setattr(encoder, "aembed_query", embed_question)
    say(log, ["the car"])
    encoder.hold()
    waiting = asyncio.ensure_future(
        LineRecall(log, encoder).arecall(ANA, "Which car?", k=1, wait_s=60)
    )
    assert await asyncio.to_thread(encoder.is_reached.wait, 60)
    assert not waiting.done()
    encoder.go_on()
    assert (await waiting).matches[0].similarity > 0
    assert awaited == ["Which car?"]


def test_a_turn_waits_neither_for_its_own_lines_nor_for_a_backlog(log, say, encoder):
    say(log, TEXTS, thread="long ago")
    memory = ConversationMemory(log, embeddings=encoder)
    chain = memory.wrap(RunnableLambda(lambda _: "The blue one."))
    config = {"configurable": {"user_id": "ana", "thread_id": "now"}}
    encoder.hold()
    assert chain.invoke("Which car was it?", config)
    assert encoder.is_reached.wait(60)
    assert chain.invoke("Which boat was it?", config)
    assert encoder.embedded == []
    encoder.go_on()
    memory.refresh(user_id="ana")
    assert {*TEXTS, "Which car was it?", "Which boat was it?"} <= set(encoder.embedded)
    assert len(encoder.embedded) == len(set(encoder.embedded))
    memory.close()


def test_what_is_forgotten_while_it_is_embedded_does_not_come_back(sqlite_log, say, encoder):
    entries = say(sqlite_log, TEXTS)
    recall = LineRecall(sqlite_log, encoder)
    encoder.hold()
    recall.recall(ANA, "car", wait_s=0)
    assert encoder.is_reached.wait(60)
    sqlite_log.forget(ThreadKey("ana", "t"), [entry.id for entry in entries[-5:]])
    recall.drop_forgotten(ANA)
    encoder.go_on()
    assert recall.refresh(ANA) == ()
    left = {match.line.text for match in recall.recall(ANA, "number", k=99).matches}
    assert left <= set(TEXTS[:-5])
    found = recall.recall(ANA, TEXTS[-6], k=1)
    assert (found.matches[0].line.text, found.matches[0].similarity > 0.99) == (TEXTS[-6], True)
    assert stored(sqlite_log) == len(TEXTS) - 5


def test_closing_finishes_the_batch_under_way_and_the_rest_is_embedded_later(
    path, say, encoder, caplog
):
    memory = ConversationMemory.open(path, embeddings=encoder)
    say(memory.log, MANY)
    encoder.hold()
    get_turn_memory(memory).line_recall.recall(ANA, "car", wait_s=0)
    assert encoder.is_reached.wait(60)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(memory.close)
        wait([closing], 0.6)
        encoder.go_on()
        closing.result(60)
    assert caplog.records == []
    later = WatchedEmbedder()
    with SQLiteLog(path) as log:
        assert LineRecall(log, later).refresh(ANA) == ()
        assert stored(log) == len(MANY)
    assert encoder.embedded
    assert sorted([*encoder.embedded, *later.embedded]) == sorted(MANY)


def test_a_log_that_is_closed_first_ends_it_quietly(path, say, encoder, caplog):
    log = SQLiteLog(path)
    say(log, TEXTS)
    recall = LineRecall(log, encoder)
    encoder.hold()
    recall.recall(ANA, "car", wait_s=0)
    assert encoder.is_reached.wait(60)
    log.close()
    encoder.go_on()
    recall.close()
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_owners_take_turns(log, say, encoder):
    for user in ("ana", "ben"):
        say(log, [f"{user} {text}" for text in MANY], user=user)
    recall = LineRecall(log, encoder)
    encoder.hold()
    for owner in (ANA, BEN):
        recall.recall(owner, "car", wait_s=0)
    encoder.go_on()
    # Nobody asks for one of them alone, which would be embedded in the foreground then.
    while any(recall.get_embedder_use(owner).pending for owner in (ANA, BEN)):
        time.sleep(0.01)
    first = [text.split()[0] for text in encoder.embedded]
    assert len(first) == 2 * len(MANY)
    assert first.index("ben") < len(MANY)


_IMPORTS = """
import os, sys
from langchain_convmem.logs import SQLiteLog
from langchain_convmem.recall import LineRecall
from langchain_convmem.records import Owner
from watched_embedder import WatchedEmbedder

ana = Owner(user_id="ana")
"""
_KILLED = """
class Slow(WatchedEmbedder):
    batches = 0

    def embed_documents(self, texts):
        self.batches += 1
        if self.batches == 2:
            print("working", flush=True)
            sys.stdin.readline()
        return super().embed_documents(texts)

LineRecall(SQLiteLog(sys.argv[1]), Slow()).recall(ana, "car", wait_s=0)
sys.stdin.readline()
"""


def test_a_kill_loses_nothing_but_the_batch_under_way(path, sqlite_log, say, encoder):
    say(sqlite_log, MANY)
    with ForkedProcess(_IMPORTS + _KILLED, path) as process:
        assert process.stdout.readline() == "working\n"
        process.kill()
    done = stored(sqlite_log)
    assert done > 0
    assert LineRecall(sqlite_log, encoder).refresh(ANA) == ()
    assert sorted(encoder.embedded) == sorted(MANY[:-done])
    assert stored(sqlite_log) == len(MANY)


_FORKING = """
recall = LineRecall(SQLiteLog(sys.argv[1]), WatchedEmbedder())
recall.recall(ana, "car", wait_s=0)
child = os.fork()
if not child:
    own = LineRecall(SQLiteLog(sys.argv[1]), WatchedEmbedder())
    found = own.recall(ana, "car number 5", k=1, wait_s=60)
    os._exit(0 if found.matches and not own.refresh(ana) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(recall.refresh(ana))
"""


def test_a_process_that_forks_while_lines_are_embedded(path, sqlite_log, say):
    say(sqlite_log, TEXTS)
    with ForkedProcess(_IMPORTS + _FORKING, path) as process:
        assert process.stdout.read() == "0\n()\n"
    assert stored(sqlite_log) == len(TEXTS)


_ENDING = """
LineRecall(SQLiteLog(sys.argv[1]), WatchedEmbedder()).recall(ana, "car", wait_s=0)
"""


def test_an_interpreter_that_ends_meanwhile_ends(path, sqlite_log, say, encoder):
    say(sqlite_log, TEXTS)
    process = ForkedProcess(_IMPORTS + _ENDING, path)
    assert process.ends() == 0
    before = stored(sqlite_log) if sqlite_log.segment_fingerprints(ANA) else 0
    assert LineRecall(sqlite_log, encoder).refresh(ANA) == ()
    assert len(encoder.embedded) == len(TEXTS) - before
