"""The storage, the provider or a tool fails: the caller is told, and what was said is kept once."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from scripted_agents import agent_with, calls, says, shape, view
from scripted_chat import WAYS, FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import LogUnavailableError

SEND = [WAYS[name] for name in ("invoke", "astream")]
SENT = pytest.mark.parametrize("send", SEND, ids=["invoke", "astream"])
WHERE = HumanMessage("Where did I park?", id="q1")


# -- a log that fails -----------------------------------------------------------------------------


@SENT
def test_a_question_that_cannot_be_written_is_an_error_before_the_model_is_called(
    memory, logged, send
):
    model = ScriptedChatModel(replies=["On level C."])
    chain = ConversationMemory(FailingLog(memory.log, fails_at=1)).wrap(model, recall=False)
    with pytest.raises(LogUnavailableError, match="the disk is full"):
        send(chain, WHERE, at())
    assert model.seen == []
    assert logged(memory) == []

    send(chain, WHERE, at())
    assert shape(model.seen[0]) == ["human: Where did I park?"]
    assert logged(memory) == ["user: Where did I park?", "assistant: On level C."]


@SENT
def test_an_answer_that_cannot_be_written_is_an_error_and_asking_again_doubles_nothing(
    memory, logged, send
):
    model = ScriptedChatModel(replies=["On level C.", "On level C, I said."])
    chain = ConversationMemory(FailingLog(memory.log, fails_at=2)).wrap(model, recall=False)
    with pytest.raises(LogUnavailableError, match="the disk is full"):
        send(chain, WHERE, at())
    assert logged(memory) == ["user: Where did I park?"]

    send(chain, WHERE, at())
    assert [shape(messages) for messages in model.seen] == [["human: Where did I park?"]] * 2
    assert logged(memory) == ["user: Where did I park?", "assistant: On level C, I said."]


# -- a provider that fails ------------------------------------------------------------------------


@SENT
def test_a_question_that_the_provider_failed_is_kept_and_stored_once_when_sent_again(
    memory, logged, send
):
    model = ScriptedChatModel(replies=[ProviderError("overloaded"), "On level C."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        send(chain, WHERE, at())
    assert logged(memory) == ["user: Where did I park?"]

    send(chain, WHERE, at())
    assert shape(model.seen[1]) == ["human: Where did I park?"]
    assert logged(memory) == ["user: Where did I park?", "assistant: On level C."]


def test_a_question_that_the_provider_failed_is_shown_with_the_next_one(memory, logged):
    model = ScriptedChatModel(replies=[ProviderError("overloaded"), "On level C, near the exit."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("Where did I park?", at())
    chain.invoke("And where exactly?", at())
    assert shape(model.seen[1]) == ["human: Where did I park?\nAnd where exactly?"]
    assert logged(memory) == [
        "user: Where did I park?",
        "user: And where exactly?",
        "assistant: On level C, near the exit.",
    ]


def test_a_call_repeated_though_it_went_well_leaves_one_question_and_the_newer_answer(
    memory, logged
):
    model = ScriptedChatModel(replies=["On level C.", "Level C."])
    chain = memory.wrap(model, recall=False)
    for _ in range(2):
        chain.invoke(WHERE, at())
    assert shape(model.seen[1]) == ["human: Where did I park?"]
    assert view(memory) == ["human: Where did I park?", "ai: Level C."]
    assert logged(memory) == [
        "user: Where did I park?",
        "assistant: On level C.",
        "replaced: 1",
        "assistant: Level C.",
    ]


@SENT
def test_a_fallback_model_answers_the_question_that_was_stored_for_the_first(memory, logged, send):
    broken = ScriptedChatModel(replies=[ProviderError("overloaded")])
    other = ScriptedChatModel(replies=["On level C."])
    chain = memory.wrap(broken, recall=False).with_fallbacks([memory.wrap(other, recall=False)])
    send(chain, "Where did I park?", at())
    assert [shape(messages) for messages in (*broken.seen, *other.seen)] == [
        ["human: Where did I park?"]
    ] * 2
    assert logged(memory) == ["user: Where did I park?", "assistant: On level C."]


# -- a tool that fails ----------------------------------------------------------------------------


def test_an_agents_loop_that_a_tool_cuts_short_is_kept_and_shown_with_its_call_closed(
    memory, logged
):
    model = ScriptedChatModel(replies=[calls("yard", tool_name="break_down"), "I cannot look."])
    agent = agent_with(memory, model)
    with pytest.raises(ProviderError, match="yard is closed"):
        agent.invoke(says("Where is it?"), at())
    assert logged(memory) == ["user: Where is it?", "assistant: -> c0"]

    agent.invoke(says("Never mind."), at())
    asked, called, result, last = model.seen[1]
    assert shape([asked, called, last]) == ["human: Where is it?", "ai -> c0", "human: Never mind."]
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.status) == ("c0", "error")
    assert logged(memory) == [
        "user: Where is it?",
        "assistant: -> c0",
        "user: Never mind.",
        "assistant: I cannot look.",
    ]


def test_a_chains_loop_that_is_cut_short_is_kept_and_shown_with_its_call_closed(memory, logged):
    def loop(_):
        yield [AIMessage("", tool_calls=calls("yard").tool_calls)]
        raise ProviderError("yard is closed")

    chain = memory.wrap(RunnableLambda(loop), recall=False)
    with pytest.raises(ProviderError):
        list(chain.stream("Where is it?", at()))
    model = ScriptedChatModel(replies=["I cannot look."])
    memory.wrap(model, recall=False).invoke("Never mind.", at())
    assert shape(model.seen[0]) == [
        "human: Where is it?",
        "ai -> c0",
        "tool c0: [interrupted: the tool did not return]",
        "human: Never mind.",
    ]
    assert logged(memory) == [
        "user: Where is it?",
        "assistant [interrupted]: -> c0",
        "user: Never mind.",
        "assistant: I cannot look.",
    ]
