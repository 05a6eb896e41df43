"""Tool loops around a wrapped chain: the caller runs the tools, and the turn goes on."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.output_parsers import JsonOutputToolsParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import WAYS, ProviderError, ScriptedChatModel, at

from langchain_convmem.errors import InvalidMessageError


def _call(name, number):
    return {"name": name, "args": {"n": number}, "id": f"c{number}", "type": "tool_call"}


def _asks(*numbers):
    return AIMessage("", tool_calls=[_call("look", number) for number in numbers])


def _result(number, text="found", **fields):
    return ToolMessage(text, tool_call_id=f"c{number}", **fields)


def _entries(memory, thread="t"):
    return memory.history(thread, user_id="ana").entries


def _stored(memory):
    return [(one.role, str(one.message.text)) for one in _entries(memory) if one.message]


def _types(model, call):
    return [(one.type, str(one.text)) for one in model.seen[call]]


def test_the_rounds_of_a_turn_read_the_same_recalled_lines(memory):
    memory.add_messages([HumanMessage("My bike is on level 3.")], thread_id="old", user_id="ana")
    model = ScriptedChatModel(replies=[_asks(1), _asks(2), "There."])
    chain = memory.wrap(model)
    chain.invoke("Where is my bike?", at())
    new = HumanMessage("My bike is blue, and where it is I know.")
    memory.add_messages([new], thread_id="other", user_id="ana")
    chain.invoke([_result(1)], at())
    chain.invoke([_result(2)], at())
    questions = [messages[0].content for messages in model.seen]
    assert "level 3" in str(questions[0])
    assert questions[0] == questions[1] == questions[2]


def test_none_goes_on_with_results_that_the_thread_has(memory):
    model = ScriptedChatModel(replies=[_asks(1), "There."])
    chain = memory.wrap(model, recall=False)
    chain.invoke("Where?", at())
    turn_id = _entries(memory)[0].turn_id
    memory.add_messages([_result(1)], thread_id="t", user_id="ana", turn_id=turn_id)
    chain.invoke(None, at())
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool"]
    assert _stored(memory)[-1] == ("assistant", "There.")


def test_none_goes_on_with_a_question_that_was_never_answered(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "There."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("Where?", at())
    chain.invoke(None, at())
    assert _stored(memory) == [("user", "Where?"), ("assistant", "There.")]


@pytest.mark.parametrize("value", [None, [_result(1)], {"messages": None}])
def test_a_turn_that_is_over_cannot_go_on(memory, value):
    chain = memory.wrap(ScriptedChatModel(replies=["There."]), recall=False)
    chain.invoke("Where?", at())
    with pytest.raises(InvalidMessageError):
        chain.invoke(value, at())
    assert len(_entries(memory)) == 2


def test_a_result_of_a_call_that_nobody_made_is_refused_by_its_id(memory):
    chain = memory.wrap(ScriptedChatModel(replies=[_asks(1)]), recall=False)
    chain.invoke("Where?", at())
    with pytest.raises(InvalidMessageError, match="'c9' answers no call"):
        chain.invoke([_result(9)], at())


@pytest.mark.parametrize("way", WAYS)
def test_results_sent_again_after_a_failure_are_stored_once(memory, way):
    model = ScriptedChatModel(replies=[_asks(1), ProviderError(), "There."])
    chain = memory.wrap(model, recall=False)
    chain.invoke("Where?", at())
    with pytest.raises(ProviderError):
        WAYS[way](chain, [_result(1)], at())
    WAYS[way](chain, [_result(1)], at())
    assert [role for role, _ in _stored(memory)] == ["user", "assistant", "tool", "assistant"]
    assert _types(model, 1) == _types(model, 2)


def test_results_sent_again_after_an_answer_ask_for_another_one(memory):
    model = ScriptedChatModel(replies=[_asks(1), "There.", "Here."])
    chain = memory.wrap(model, recall=False)
    chain.invoke("Where?", at())
    for _ in range(2):
        chain.invoke([_result(1)], at())
    view = [str(one.text) for one in memory.history("t", user_id="ana").messages]
    assert view == ["Where?", "", "found", "Here."]
    assert _types(model, 1) == _types(model, 2)


def test_parallel_calls_may_be_answered_one_by_one(memory):
    model = ScriptedChatModel(replies=[_asks(1, 2), "Wait.", "There."])
    chain = memory.wrap(model, recall=False)
    chain.invoke("Where?", at())
    chain.invoke([_result(1, "one")], at())
    chain.invoke([_result(2, "two")], at())
    assert _types(model, 2) == [
        ("human", "Where?"),
        ("ai", ""),
        ("tool", "one"),
        ("tool", "two"),
    ]


def test_a_budget_leaves_out_what_was_before_and_never_a_part_of_the_loop(memory):
    model = ScriptedChatModel(replies=["Long " * 300, _asks(1), _asks(2), "There."])
    chain = memory.wrap(model, recall=False, history_tokens=20)
    chain.invoke("Before", at())
    chain.invoke("Where?", at())
    chain.invoke([_result(1, "word " * 200)], at())
    chain.invoke([_result(2, "word " * 200)], at())
    assert [one.type for one in model.seen[3]] == ["human", "ai", "tool", "ai", "tool"]


def test_a_prompt_gets_the_loop_behind_the_question(memory):
    model = ScriptedChatModel(replies=["Hi.", _asks(1), "There."])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Help."), MessagesPlaceholder("history"), MessagesPlaceholder("input")]
    )
    chain = memory.wrap(prompt | model, recall=False)
    chain.invoke("Hello", at())
    chain.invoke("Where?", at())
    chain.invoke([_result(1)], at())
    assert _types(model, 2) == [
        ("system", "Help."),
        ("human", "Hello"),
        ("ai", "Hi."),
        ("human", "Where?"),
        ("ai", ""),
        ("tool", "found"),
    ]


def test_a_call_that_goes_on_may_be_steered(memory):
    model = ScriptedChatModel(replies=[_asks(1), "There."])
    chain = memory.wrap(model, recall=False)
    chain.invoke([SystemMessage("Be brief."), HumanMessage("Where?")], at())
    chain.invoke([SystemMessage("Be brief."), _result(1)], at())
    assert [one.type for one in model.seen[1]] == ["system", "human", "ai", "tool"]


def test_calls_that_a_parser_hands_on_with_their_ids_can_be_answered(memory):
    model = ScriptedChatModel(replies=[_asks(1), "There."])
    parser = JsonOutputToolsParser(return_id=True)
    [found] = memory.wrap(model | parser, recall=False).invoke("Where?", at())
    assert found["id"] == "c1"
    memory.wrap(model, recall=False).invoke([_result(1)], at())
    assert [one.type for one in model.seen[1]] == ["human", "ai", "tool"]


# -- calls of a thread that other hands have written ----------------------------------------------
ASKED = [
    HumanMessage("How warm is it?"),
    AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "w1", "type": "tool_call"}]),
]
ANSWER = ToolMessage("30", tool_call_id="w1")


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
