import gc

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables.config import ensure_config
from scripted_chat import ScriptedChatModel

from langchain_convmem import InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import find_place, get_turn_memory
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import Turn

KEY = ThreadKey("ana", "t")
ASKED = HumanMessage("How warm is it?")


@pytest.fixture
def begin(memory):
    def begin(*said, **options):
        turn = _make_turn(memory, **options)
        turn.begin([*said, ASKED])
        return turn

    return begin


def _make_turn(memory, **options):
    return Turn(
        memory=get_turn_memory(memory),
        key=KEY,
        options=TurnOptions(recall=False, **options),
        shape=ChainShape.from_chain(ScriptedChatModel(replies=["Unused."])),
        trace=TurnTrace(ensure_config()),
    )


def _shown(memory):
    return [(one.type, one.text) for one in memory.history("t", user_id="ana").messages]


def test_no_log_is_taken_for_an_earlier_one_that_is_gone():
    places = set()
    for _ in range(50):
        places.add(find_place(InMemoryLog()))
        gc.collect()
    assert len(places) == 50


def test_what_stays_of_an_attempt_is_not_taken_back(memory, begin):
    turn, first = begin(), AIMessage("Let me see.", id="r1")
    turn.finish([first, AIMessage("Two.", id="r2")])
    two = memory.log.entries(KEY)[-1].id
    turn.finish([first, AIMessage("Three.", id="r3")])
    turn.finish([first, AIMessage("Three.", id="r3")])
    *_, control, three = memory.log.entries(KEY)
    assert (control.control.retracts, control.control.reason) == ((two,), "replaced")
    assert [text for _, text in _shown(memory)] == [ASKED.text, "Let me see.\nThree."]
    assert three.metadata.timing["llmEnd"]
