"""Turns at once on one thread: every question and answer is there, each pair together."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

from forked_processes import ForkedProcess
from scripted_agents import shape, view
from scripted_chat import ScriptedChatModel, at


def _echo(messages):
    return f"re: {messages[-1].text}"


def _pairs(lines):
    return [tuple(lines[number : number + 2]) for number in range(0, len(lines), 2)]


def _check(memory, logged, model, texts):
    """Check that each turn is whole, once, and was shown all turns before it."""
    assert sorted(_pairs(logged(memory))) == [
        (f"user: {text}", f"assistant: re: {text}") for text in sorted(texts)
    ]
    in_order = view(memory)
    assert [shape(messages) for messages in model.seen] == [
        in_order[: 2 * number + 1] for number in range(len(texts))
    ]


def test_turns_in_threads_wait_for_each_other_and_none_is_lost(memory, logged):
    model = ScriptedChatModel(replies=[_echo])
    chain = memory.wrap(model, recall=False)
    texts = [f"question {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: chain.invoke(text, at()), texts))
    _check(memory, logged, model, texts)


async def test_turns_in_tasks_wait_for_each_other_and_none_is_lost(memory, logged):
    model = ScriptedChatModel(replies=[_echo])
    chain = memory.wrap(model, recall=False)
    texts = [f"question {number}" for number in range(8)]
    await asyncio.gather(*(chain.ainvoke(text, at()) for text in texts))
    _check(memory, logged, model, texts)


def test_a_batch_over_one_thread_loses_none_and_one_over_several_mixes_none(memory, logged):
    model = ScriptedChatModel(replies=[_echo])
    chain = memory.wrap(model, recall=False)
    texts = [f"question {number}" for number in range(4)]
    chain.batch(texts, at())
    _check(memory, logged, model, texts)

    threads = [f"batch {number}" for number in range(4)]
    chain.batch(texts, [at(thread) for thread in threads])
    assert [view(memory, thread) for thread in threads] == [
        [f"human: {text}", f"ai: re: {text}"] for text in texts
    ]


PROCESS = """
import json, sys
from scripted_chat import ScriptedChatModel, at
from langchain_convmem import ConversationMemory

path, said = sys.argv[1:]

def answer(messages):
    print("calling", flush=True)
    sys.stdin.readline()  # until the test lets this process go on
    return f"re: {said}"

with ConversationMemory.open(path) as memory:
    model = ScriptedChatModel(replies=[answer])
    chain = memory.wrap(model, recall=False)
    print("ready", flush=True)
    sys.stdin.readline()
    chain.invoke(said, at())
    print(json.dumps([f"{one.type}: {one.text}" for one in model.seen[0]]), flush=True)
"""


def test_turns_in_processes_overlap_and_none_is_lost_or_torn_apart(memory, logged, tmp_path):
    def started(said):
        return ForkedProcess(PROCESS, tmp_path / "memory.db", said)

    def goes_on(process, until):
        process.stdin.write("\n")
        assert process.stdout.readline() == f"{until}\n"

    with started("first?") as one, started("second?") as two:
        for process in (one, two):
            assert process.stdout.readline() == "ready\n"
            goes_on(process, "calling")
        seen_by_two = json.loads(two.finish("\n"))
        seen_by_one = json.loads(one.finish("\n"))
    assert (one.returncode, two.returncode) == (0, 0)

    assert seen_by_one == ["human: first?"]
    assert seen_by_two == ["human: first?\nsecond?"]
    assert logged(memory) == [
        "user: first?",
        "user: second?",
        "assistant: re: second?",
        "assistant: re: first?",
    ]
    model = ScriptedChatModel(replies=["Yes."])
    memory.wrap(model, recall=False).invoke("All there?", at())
    assert shape(model.seen[0]) == [
        "human: first?",
        "ai: re: first?",
        "human: second?",
        "ai: re: second?",
        "human: All there?",
    ]
