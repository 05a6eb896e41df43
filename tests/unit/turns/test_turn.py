import gc

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables.config import ensure_config
from scripted_chat import ScriptedChatModel, texts

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.records import ThreadKey
from langchain_convmem.turns.chains import ChainShape
from langchain_convmem.turns.memory import TurnOptions, get_turn_memory
from langchain_convmem.turns.tracing import TurnTrace
from langchain_convmem.turns.turn import Turn

KEY = ThreadKey("ana", "t")
ASKED = HumanMessage("How warm is it?")


def test_no_log_is_taken_for_an_earlier_one_that_is_gone():
    places = set()
    for _ in range(10):
        memory = ConversationMemory(InMemoryLog())
        places.add(get_turn_memory(memory).log_place)
        del memory
        gc.collect()
    assert len(places) == 10


def take_turn(memory, messages, *replies, status="done"):
    """Begin a turn, and end it with what a model answered, once or in several attempts."""
    turn = Turn(
        memory=get_turn_memory(memory),
        key=KEY,
        options=TurnOptions(recall=False),
        shape=ChainShape.from_chain(ScriptedChatModel(replies=["Unused."]), {}, None),
        trace=TurnTrace(ensure_config()),
    )
    turn.begin(messages)
    for reply in replies:
        turn.finish(reply, status)
    return turn


def test_an_attempt_is_taken_back_with_the_summary_that_tells_of_it(memory):
    first = AIMessage("Let me see.", id="r1")
    turn = take_turn(memory, [ASKED], [first, AIMessage("Two.", id="r2")])
    earlier = [entry.id for entry in memory.log.entries(KEY)[1:]]
    history = memory.history("t", user_id="ana")
    summary = history.add_summary("It is two.", history.summary_window())
    turn.finish([first, AIMessage("Three.", id="r3")])
    *_, control, _, three = memory.log.entries(KEY)
    told = (*earlier, summary.id)
    assert (control.control.retracts, control.control.reason) == (told, "replaced")
    assert texts(memory) == [ASKED.text, "Let me see.\nThree."]
    assert three.metadata.timing["llmEnd"]


def test_a_turn_that_fails_gives_back_what_its_edited_question_took_away(memory):
    take_turn(memory, [HumanMessage("How warm?", id="q")], [AIMessage("Ten.")])
    take_turn(memory, [ASKED], [AIMessage("Yes.")])
    for status in ("failed", "cancelled"):
        take_turn(memory, [HumanMessage("How cold?", id="q")], [], status=status)
        assert texts(memory) == ["How warm?", "Ten.", ASKED.text, "Yes."]
