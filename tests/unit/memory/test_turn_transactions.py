"""How often a turn asks a SQLite file: figures that the pages on cost and reliability name."""

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import MessagesState
from scripted_agents import agent_with
from scripted_chat import WAYS, ScriptedChatModel, at
from traced_sqlite import Tracer

from langchain_convmem import ConversationMemory, SQLiteLog
from langchain_convmem.integrations.langgraph import create_memory_graph
from langchain_convmem.testing import HashEmbeddings

PLACES = ("harbour", "station", "museum", "garden", "theatre", "market", "library", "bridge")
WARM = 60
"""Turns before the one that is counted: caches are full, and the live part has been noted."""


@pytest.fixture
def tracer(monkeypatch):
    return Tracer(monkeypatch)


@pytest.fixture
def log(tmp_path, tracer):
    with SQLiteLog(tmp_path / "memory.db") as log:
        yield log


@pytest.fixture
def memory(log):
    with ConversationMemory(log, embeddings=HashEmbeddings()) as memory:
        for number, place in enumerate(PLACES):
            said = [HumanMessage(f"I parked at the {place}."), AIMessage("Noted.")]
            memory.add_messages(said, user_id="ana", thread_id=f"earlier {number}")
        yield memory


def question(number):
    return f"Where did I park on day {number}, at the {PLACES[number % len(PLACES)]}?"


def model():
    return ScriptedChatModel(replies=["At the harbour, I think."])


def wrapped(memory, way="invoke", **options):
    chain = memory.wrap(model(), history_tokens=300, **options)
    return lambda number: WAYS[way](chain, question(number), at())


def conversed(memory):
    talk = memory.conversation(model(), thread_id="t", user_id="ana")
    return lambda number: talk.send_message(question(number))


def graphed(memory):
    graph = create_memory_graph(memory, model(), state_schema=MessagesState)
    return lambda number: graph.invoke({"messages": [HumanMessage(question(number))]}, at())


def acted(memory):
    agent = agent_with(memory, model(), options={"recall": True}, tools=())
    return lambda number: agent.invoke({"messages": [HumanMessage(question(number))]}, at())


def counts_of(tracer, take):
    """Return how many transactions each of fifty warm turns takes, and how many of them write."""
    for number in range(WARM):
        take(number)
    found = []
    for number in range(WARM, WARM + 50):
        with tracer.count() as transactions:
            take(number)
        found.append(transactions.counts)
    return found


@pytest.mark.parametrize("way", ["invoke", "stream"])
def test_a_turn_takes_five_transactions_and_two_of_them_write(tracer, memory, way):
    found = counts_of(tracer, wrapped(memory, way))
    # Once in some turns, terms and vectors of the latest lines are stored; once in many, behind
    # them, the whole index is, which may count for the turn after.
    assert found.count((5, 2)) >= 35
    assert max(found) <= (8, 4)


def test_a_turn_without_recall_reads_once(tracer, memory):
    assert set(counts_of(tracer, wrapped(memory, recall=False))) == {(3, 2)}


def test_what_a_paid_embedder_made_is_looked_for_and_stored_at_once(tracer, log):
    with ConversationMemory(log, embeddings=DeterministicFakeEmbedding(size=8)) as memory:
        assert max(counts_of(tracer, wrapped(memory))) <= (12, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "usual"), [(conversed, (8, 4)), (acted, (13, 4)), (graphed, (16, 4))]
)
def test_other_hosts_take_no_more_than_they_do(tracer, memory, host, usual, record_property):
    found = counts_of(tracer, host(memory))
    record_property("transactions of a turn", f"{host.__name__}: at most {max(found)}")
    # What is stored behind a turn may count for the turn after.
    assert sum(total <= usual[0] and writes <= usual[1] for total, writes in found) >= 40
