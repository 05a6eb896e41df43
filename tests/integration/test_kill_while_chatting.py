"""A process killed while it chats loses nothing that it had acknowledged."""

from __future__ import annotations

import random
import signal
import threading

import pytest
from forked_processes import ForkedProcess

from langchain_convmem import ConversationMemory
from langchain_convmem.offline import OfflineChatModel

FILES = [0, *(pytest.param(file, marks=pytest.mark.slow) for file in (1, 2, 3))]
ROUNDS = 5
"""Twenty kills: so many for each file."""

CHILD = """
import sys
from langchain_convmem import ConversationMemory
from langchain_convmem.offline import OfflineChatModel

path, round_number = sys.argv[1:]
memory = ConversationMemory.open(path)
log = memory.log
append = log.append

def acknowledged_append(key, drafts, **options):
    entries = append(key, drafts, **options)
    for entry in entries:
        if entry.role == "user":
            print("said", entry.contents[0], flush=True)
    return entries

log.append = acknowledged_append
chain = memory.wrap(OfflineChatModel(), recall_tokens=100)
config = {"configurable": {"user_id": "ana", "thread_id": "t"}}
turn = 0
while True:
    turn += 1
    said = f"Round {round_number}, turn {turn}: my lucky number is {turn * 7}."
    if turn % 2:
        chain.invoke(said, config)
    else:
        for chunk in chain.stream(said, config):
            pass
    print("answered", said, flush=True)
"""


def _moments(seed):
    """Yield when to kill in each round: so many seconds after the child printed so many lines.

    Every fifth may hit the opening of the file; the others wait for two answers at least.
    """
    chance = random.Random(seed)
    for number in range(ROUNDS):
        if number % 5:
            yield chance.uniform(0.0, 0.1), chance.randint(4, 12)
        else:
            yield chance.uniform(0.0, 0.2), 0


def _chat_and_kill(path, round_number, delay_s, lines, known):
    """Let a child chat, kill it, and note what it acknowledged, in order."""
    with ForkedProcess(CHILD, path, round_number) as child:
        first = [child.stdout.readline() for _ in range(lines)]
        killer = threading.Timer(delay_s, child.kill)
        killer.start()
        for line in [*first, *child.stdout]:
            if line.endswith("\n"):  # what the kill cut off was no acknowledgement
                kind, text = line.rstrip("\n").split(" ", 1)
                known[kind].append(text)
        child.ends()
        killer.join()
    assert child.returncode == -signal.SIGKILL, "it was killed, and did not fail"


def _check(path, known):
    """Open the file as the next process would, and look for everything acknowledged."""
    with ConversationMemory.open(path) as memory:
        history = memory.history("t", user_id="ana")
        entries = history.entries
        context = history.context()
        assert memory.log.verify().ok
    stored = [entry.contents[0] for entry in entries if entry.role == "user"]
    # At most one message per round was stored when its acknowledgement was cut off.
    assert [text for text in stored if text in set(known["said"])] == known["said"]
    assert len(stored) - len(known["said"]) <= ROUNDS
    assert len(set(stored)) == len(stored)
    replied = {entry.turn_id for entry in entries if entry.role == "assistant"}
    asked = {entry.contents[0]: entry.turn_id for entry in entries if entry.role == "user"}
    assert [text for text in known["answered"] if asked[text] not in replied] == []
    assert sorted(entry.position for entry in entries) == [entry.position for entry in entries]
    assert [message.type for message in context.messages] == (
        ["human", "ai"] * (len(context.messages) // 2) + ["human"] * (len(context.messages) % 2)
    )
    assert context.repairs == ()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("file", FILES)
def test_a_process_killed_while_chatting_loses_nothing_that_it_acknowledged(tmp_path, file):
    path = tmp_path / "memory.db"
    known = {"said": [], "answered": []}
    for round_number, (delay_s, lines) in enumerate(_moments(seed=20 + file)):
        _chat_and_kill(path, round_number, delay_s, lines, known)
        _check(path, known)
    assert len(known["answered"]) > ROUNDS, "the children chatted"

    with ConversationMemory.open(path) as memory:
        found = memory.recall("What is my lucky number?", user_id="ana", k=1)
        assert "lucky number is" in found.blocks[0].text


KILLED = """
import os, signal, sys
from langchain_core.runnables import RunnableLambda
from langchain_convmem import ConversationMemory

def killed(messages):
    os.kill(os.getpid(), signal.SIGKILL)

memory = ConversationMemory.open(sys.argv[1])
talk = memory.conversation(RunnableLambda(killed), thread_id="t", user_id="ana", recall=False)
talk.send_message(sys.argv[2])
"""


def test_what_is_asked_of_a_conversation_outlives_a_kill_before_the_reply(tmp_path):
    path = tmp_path / "memory.db"
    for text in ("Where did I park?", "Hello?"):
        with ForkedProcess(KILLED, path, text) as child:
            child.ends()
        assert child.returncode == -signal.SIGKILL, "it was killed, and did not fail"
    with ConversationMemory.open(path) as memory:
        talk = memory.conversation(OfflineChatModel(), thread_id="t", user_id="ana", recall=False)
        assert [message.text for message in talk.history] == ["Where did I park?", "Hello?"]
        talk.send_message("Anybody there?")
        assert [message.type for message in talk.history] == ["human"] * 3 + ["ai"]
