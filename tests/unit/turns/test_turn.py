import gc

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables.config import ensure_config
from scripted_chat import ScriptedChatModel, texts

from langchain_convmem import InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import find_place, get_turn_memory
from langchain_convmem.turns.options import TurnOptions
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import Turn

KEY = ThreadKey("ana", "t")
ASKED = HumanMessage("How warm is it?")


def test_no_log_is_taken_for_an_earlier_one_that_is_gone():
    places = set()
    for _ in range(50):
        places.add(find_place(InMemoryLog()))
        gc.collect()
    assert len(places) == 50


def test_what_stays_of_an_attempt_is_not_taken_back(memory):
    first = AIMessage("Let me see.", id="r1")
    turn = Turn(
        memory=get_turn_memory(memory),
        key=KEY,
        options=TurnOptions(recall=False),
        shape=ChainShape.from_chain(ScriptedChatModel(replies=["Unused."])),
        trace=TurnTrace(ensure_config()),
    )
    turn.begin([ASKED])
    turn.finish([first, AIMessage("Two.", id="r2")])
    two = memory.log.entries(KEY)[-1].id
    turn.finish([first, AIMessage("Three.", id="r3")])
    turn.finish([first, AIMessage("Three.", id="r3")])
    *_, control, three = memory.log.entries(KEY)
    assert (control.control.retracts, control.control.reason) == ((two,), "replaced")
    assert texts(memory) == [ASKED.text, "Let me see.\nThree."]
    assert three.metadata.timing["llmEnd"]
