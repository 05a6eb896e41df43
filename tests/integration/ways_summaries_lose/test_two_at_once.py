"""Processes that summarise one thread at once, or die at it."""

import threading

import pytest
from forked_processes import ForkedProcess
from langchain_core.messages import AIMessage, HumanMessage
from summaries import ScriptedSummarizer

from langchain_convmem import ConversationMemory, SQLiteLog, SummarySettings

BRIEF = SummarySettings(
    trigger=("messages", 6), keep=("messages", 2), lease_s=0.001, first_pause_s=0.001
)
LONG = SummarySettings(trigger=("messages", 6), keep=("messages", 2), lease_s=60)

CHILD = """
import os, sys
from langchain_convmem import ConversationMemory, SummarySettings

path, mode = sys.argv[1:]

def summarise(messages):
    print("asked", flush=True)
    sys.stdin.readline()
    if mode == "dies":
        os._exit(9)
    return f"A summary by {mode}."

settings = SummarySettings(trigger=("messages", 6), keep=("messages", 2), lease_s=60)
with ConversationMemory.open(path, summarizer=summarise, summary_settings=settings) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    print(memory.summarize("t", user_id="ana").outcome, flush=True)
"""


@pytest.fixture
def path(stored, tmp_path):
    stored.talk(4)
    return tmp_path / "memory.db"


def test_of_two_processes_one_summarises_and_the_other_is_told_so(stored, path):
    with ForkedProcess(CHILD, path, "one") as other:
        assert other.stdout.readline() == "ready\n"
        other.stdin.write("go\n")
        assert other.stdout.readline() == "asked\n"
        assert stored.summarize().outcome == "busy"
        assert stored.summarizer.requests == []
        other.stdin.write("go\n")
        assert other.stdout.readline() == "written\n"
        assert other.ends() == 0
    assert stored.summaries == ["A summary by one."]
    assert stored.summarize().outcome == "not_due"
    stored.check()


def test_a_process_killed_while_it_summarises_leaves_the_thread_as_it_was(stored, path):
    before = stored.history.entries
    with ForkedProcess(CHILD, path, "dies") as child:
        assert child.stdout.readline() == "ready\n"
        child.stdin.write("go\n")
        assert child.stdout.readline() == "asked\n"
        child.stdin.write("go\n")
        assert child.ends() == 9
    assert stored.history.entries == before
    stored.check()
    # The lease of the dead is respected until it ends.
    assert stored.summarize().outcome == "busy"
    found = stored.log.get_state(stored.history.key, "summary:lease")
    value = {**found.value, "until_ms": 0}
    stored.log.set_state(stored.history.key, "summary:lease", value, expected=found.version)
    assert stored.summarize()
    assert len(stored.summaries) == 1
    stored.check_all_was_told()
    stored.check()


def test_who_is_so_slow_that_another_one_takes_over_writes_nothing(stored, path):
    with SQLiteLog(path) as log:
        other = ConversationMemory(log, summarizer=lambda _: "Quick.", summary_settings=BRIEF)

        def slow(request):
            threading.Event().wait(0.01)  # longer than the lease
            assert other.summarize("t", user_id="ana")
            return request.transcript

        memory = stored.with_summarizer(ScriptedSummarizer(slow), summary_settings=BRIEF)
        report = memory.summarize("t", user_id="ana")
        assert (report.outcome, "took over" in report.problem) == ("stale", True)
    assert stored.summaries == ["Quick."]
    stored.check()


def test_many_threads_of_many_memories_write_each_window_once(stored, path):
    memories = [stored.with_summarizer(lambda _: "They talked.", summary_settings=LONG)] * 2
    logs = [SQLiteLog(path) for _ in range(2)]
    memories += [
        ConversationMemory(log, summarizer=lambda _: "They talked.", summary_settings=LONG)
        for log in logs
    ]
    barrier = threading.Barrier(len(memories))
    outcomes = []

    def work(memory):
        for _ in range(5):
            said = [HumanMessage("what"), AIMessage("that")]
            memory.add_messages(said, thread_id="t", user_id="ana")
            barrier.wait(30)
            outcomes.append(memory.summarize("t", user_id="ana").outcome)

    threads = [threading.Thread(target=work, args=[memory]) for memory in memories]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    for log in logs:
        log.close()
    assert len(outcomes) == 20
    assert set(outcomes) <= {"written", "busy", "not_due", "stale"}
    assert outcomes.count("written") == len(stored.summaries) >= 5
    stored.check()
