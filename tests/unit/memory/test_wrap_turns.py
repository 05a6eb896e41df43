import asyncio

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputToolsParser
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at, entries, talk, texts
from whole_chats import make_model, make_words

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.errors import InvalidMessageError


def test_an_id_that_a_model_repeats_costs_no_earlier_reply(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[AIMessage("Yes.", id="same")]), recall=False)
    chain.invoke("So?", at())
    list(chain.stream("Really?", at()))
    assert [text for _, text in talk(memory)] == ["So?", "Yes.", "Really?", "Yes."]
    assert len({message.id for message in memory.history("t", user_id="ana").messages}) == 4


def test_what_the_model_does_to_its_messages_changes_nothing_that_is_stored(memory):
    def meddle(messages):
        messages[-1].content[0]["text"] = "changed"
        messages[-1].additional_kwargs["mood"]["now"] = "changed"
        return "Done."

    mood = {"mood": {"now": "calm"}}
    said = HumanMessage([{"type": "text", "text": "as it was"}], additional_kwargs=mood)
    memory.wrap(ScriptedChatModel(replies=[meddle]), recall=False).invoke(said, at())
    assert said.content[0]["text"] == "as it was"
    assert said.additional_kwargs == mood == {"mood": {"now": "calm"}}
    assert entries(memory)[0].contents == ("as it was",)


FORGET = {"additional_kwargs": {"remember": False}}


def test_a_marked_message_is_left_out_of_those_added(memory):
    marked = [HumanMessage("two", **FORGET), AIMessage("", **FORGET)]
    said = [HumanMessage("one"), marked[0], AIMessage("three"), marked[1]]
    added = memory.add_messages(said, thread_id="t", user_id="ana")
    assert [entry.contents for entry in added] == [("one",), ("three",)]
    assert asyncio.run(memory.aadd_messages(marked[:1], thread_id="u", user_id="ana")) == []
    memory.history("t", user_id="ana").add_messages(marked[:1])
    assert entries(memory) == added
    assert [info.key.thread_id for info in memory.threads("ana")] == ["t"]


def _asks(number):
    call = {"name": "look", "args": {}, "id": f"c{number}", "type": "tool_call"}
    return AIMessage("", tool_calls=[call])


def _result(number, text="found"):
    return ToolMessage(text, tool_call_id=f"c{number}")


def test_none_goes_on_with_a_question_that_was_never_answered(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "There."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("Where?", at())
    chain.invoke(None, at())
    assert talk(memory) == [("user", "Where?"), ("assistant", "There.")]


@pytest.mark.parametrize("value", [None, [_result(1)], {"messages": None}])
def test_a_turn_that_is_over_cannot_go_on(memory, value):
    chain = memory.wrap(ScriptedChatModel(replies=["There."]), recall=False)
    chain.invoke("Where?", at())
    with pytest.raises(InvalidMessageError):
        chain.invoke(value, at())
    assert len(entries(memory)) == 2


@pytest.mark.parametrize("way", WAYS)
def test_results_sent_again_after_a_failure_are_stored_once(memory, way):
    model = ScriptedChatModel(replies=[_asks(1), ProviderError(), "There."])
    chain = memory.wrap(model, recall=False)
    chain.invoke("Where?", at())
    with pytest.raises(ProviderError):
        WAYS[way](chain, [_result(1)], at())
    WAYS[way](chain, [_result(1)], at())
    assert [role for role, *_ in talk(memory)] == ["user", "assistant", "tool", "assistant"]
    shown = [[(one.type, one.text) for one in seen] for seen in model.seen]
    assert shown[1] == shown[2]


def test_a_budget_leaves_out_what_was_before_and_never_a_part_of_the_loop(memory):
    model = ScriptedChatModel(replies=["Long " * 300, _asks(1), _asks(2), "There."])
    chain = memory.wrap(model, recall=False, history_tokens=20)
    chain.invoke("Before", at())
    chain.invoke("Where?", at())
    chain.invoke([_result(1, "word " * 200)], at())
    chain.invoke([_result(2, "word " * 200)], at())
    assert [one.type for one in model.seen[3]] == ["human", "ai", "tool", "ai", "tool"]


def test_calls_that_a_parser_hands_on_with_their_ids_can_be_answered(memory):
    model = ScriptedChatModel(replies=[_asks(1), "There."])
    parser = JsonOutputToolsParser(return_id=True)
    [found] = memory.wrap(model | parser, recall=False).invoke("Where?", at())
    assert found["id"] == "c1"
    memory.wrap(model, recall=False).invoke([_result(1)], at())
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool"]


def test_another_result_of_a_call_takes_the_place_of_the_first(memory):
    model = ScriptedChatModel(replies=[_asks(1), "30.", "31."])
    chain = memory.wrap(model, recall=False)
    for said in ("How warm is it?", [_result(1, "30")], [_result(1, "31")]):
        chain.invoke(said, at())
    assert [one.text for one in model.seen[2]] == ["How warm is it?", "", "31"]
    shown = memory.history("t", user_id="ana").messages
    assert [one.text for one in shown] == ["How warm is it?", "", "31", "31."]


ASKED = [HumanMessage("How warm is it?"), _asks(1)]
ANSWER = _result(1, "30")


@pytest.mark.parametrize(
    ("added", "said"),
    [(ASKED, [ANSWER]), ([*ASKED, ANSWER], None), ([], [*ASKED, ANSWER])],
    ids=["results alone", "nothing", "the whole chat"],
)
def test_calls_that_were_added_to_the_thread_go_on(memory, added, said):
    model = ScriptedChatModel(replies=["Warm.", "Yes."])
    history = memory.history("t", user_id="ana")
    history.add_messages(added)
    chain = memory.wrap(model, recall=False)
    chain.invoke(said, at())
    assert [one.type for one in model.seen[0]] == ["human", "ai", "tool"]
    chain.invoke("Really?", at())
    types = ["human", "ai", "tool", "ai", "human"]
    assert [one.type for one in model.seen[1]] == types
    assert [one.type for one in history.messages] == [*types, "ai"]


@pytest.fixture
def model():
    return make_model()


@pytest.fixture
def chain(memory, model):
    return memory.wrap(model, recall=False)


def _chat(*texts):
    """Return messages of the user and the assistant, in turn."""
    return [(HumanMessage, AIMessage)[n % 2](text) for n, text in enumerate(texts)]


def test_what_was_taken_back_does_not_return_with_a_list(memory, chain):
    chain.invoke("Where?", at())
    chain.invoke("A secret", at())
    memory.history("t", user_id="ana").undo()
    chain.invoke(_chat("Where?", "Reply 1.", "A secret", "Reply 2.", "When?"), at())
    assert texts(memory) == ["Where?", "Reply 1.", "When?", "Reply 3."]


def test_what_the_write_hook_changes_is_recognised(model):
    def masked(message):
        return message.model_copy(update={"content": str(message.content).replace("7", "*")})

    memory = ConversationMemory(InMemoryLog(), before_write=masked)
    chain = memory.wrap(model, recall=False)
    chain.invoke("My code is 77", at())
    chain.invoke(_chat("My code is 77", "Reply 1.", "And 7?"), at())
    assert texts(memory) == ["My code is **", "Reply 1.", "And *?", "Reply 2."]


def test_a_summarised_beginning_is_no_news(memory, model, chain):
    for number in range(6):
        chain.invoke(make_words(number), at())
    history = memory.history("t", user_id="ana")
    history.add_summary("What was said.", history.summary_window())
    shown = []
    for number in range(6):
        shown += [HumanMessage(make_words(number)), AIMessage(f"Reply {number + 1}.")]
    before = talk(memory)
    chain.invoke([*shown, HumanMessage("Go on")], at())
    assert talk(memory)[len(before) :] == [("user", "Go on"), ("assistant", "Fine.")]
    assert "What was said." in model.seen[-1][0].text


@pytest.fixture
def archived(tmp_path):
    """A memory whose thread is long enough that a turn reads its latest part alone."""
    with ConversationMemory.open(tmp_path / "memory.db") as memory:
        said = []
        for number in range(120):
            said.append(HumanMessage(make_words(number), id=f"q{number}"))
            said.append(AIMessage(f"Reply {number}."))
        memory.add_messages(said, thread_id="t", user_id="ana")
        model = ScriptedChatModel(replies=[lambda given: f"Of {len(given)}."])
        chain = memory.wrap(model, recall=False, history_tokens=95)
        for number in range(2):
            chain.invoke(make_words(200 + number), at())
        yield memory, chain


def test_the_whole_of_a_long_chat_adds_one_turn(archived):
    memory, chain = archived
    history = memory.history("t", user_id="ana")
    shown = history.messages
    before = len(history.entries)
    chain.invoke([*shown, HumanMessage("Go on")], at())
    assert len(history.entries) == before + 2
    plain = [type(one)(one.content) for one in history.messages]
    chain.invoke([*plain, HumanMessage("And on")], at())
    assert len(history.entries) == before + 4


def test_an_edit_far_back_is_seen_with_what_stood_before_it(archived):
    memory, chain = archived
    reply = chain.invoke(HumanMessage("Other words", id="q3"), at())
    view = memory.history("t", user_id="ana").messages
    assert len(view) == 8
    assert [one.text for one in view[-2:]] == ["Other words", reply.text]
    assert reply.text == "Of 7."
