"""One turn, without a host: what is begun, what is finished, and what is taken back."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables.config import ensure_config
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import get_turn_memory
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import Turn

KEY = ThreadKey("ana", "t")
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
ASKED = HumanMessage("How warm is it?")
CALLS = AIMessage("", tool_calls=[CALL])
RESULT = ToolMessage("30", tool_call_id="c1")


@pytest.fixture
def memory():
    with ConversationMemory(InMemoryLog()) as opened:
        yield opened


@pytest.fixture
def make_turn(memory):
    shape = ChainShape.from_chain(ScriptedChatModel(replies=["Unused."]))

    def make(**options):
        return Turn(
            memory=get_turn_memory(memory),
            key=KEY,
            options=TurnOptions(recall=False, **options),
            shape=shape,
            trace=TurnTrace(ensure_config()),
        )

    return make


def _shown(memory):
    return [(one.type, one.text) for one in memory.history("t", user_id="ana").messages]


def test_rounds_of_a_turn_are_durable_one_by_one(memory, make_turn):
    turn = make_turn()
    turn.begin([ASKED])
    for said, count in (([CALLS], 2), ([RESULT], 3)):
        turn.finish(said, "open")
        assert len(memory.log.entries(KEY)) == count
    turn.finish([AIMessage("Warm.")])
    assert _shown(memory) == [("human", ASKED.text), ("ai", ""), ("tool", "30"), ("ai", "Warm.")]
    assert len({entry.turn_id for entry in memory.log.entries(KEY)}) == 1


def test_a_reply_is_returned_under_the_id_that_it_is_stored_under(memory, make_turn):
    for _ in range(2):
        turn = make_turn()
        turn.begin([ASKED])
        [reply] = turn.finish([AIMessage("Warm.", id="r1")])
    assert reply.id != "r1"
    assert reply.id == memory.history("t", user_id="ana").messages[-1].id


def test_the_second_answer_to_a_turn_replaces_the_first(memory, make_turn):
    turn = make_turn()
    turn.begin([ASKED])
    for text in ("Cold.", "Warm."):
        turn.finish([AIMessage(text)])
    assert _shown(memory) == [("human", ASKED.text), ("ai", "Warm.")]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
@pytest.mark.parametrize("said", [[], [AIMessage("War")]], ids=["nothing", "a part"])
def test_a_turn_that_ends_badly_is_kept_and_not_shown(memory, make_turn, status, said):
    turn = make_turn()
    turn.begin([ASKED])
    turn.finish(said, status)
    assert _shown(memory) == []
    *stored, control = memory.log.entries(KEY)
    assert len(stored) == 1 + len(said)
    assert control.control.reason == status


def test_a_turn_that_is_not_stored_stores_nothing(memory, make_turn):
    turn = make_turn(remember=False)
    context = turn.begin([HumanMessage("My bike is red."), ASKED])
    turn.finish([CALLS], "open")
    turn.finish([AIMessage("Warm.")])
    turn.settle()
    assert "My bike is red." in context.given[0].text
    assert memory.log.entries(KEY) == []
