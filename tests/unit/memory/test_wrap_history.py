"""What of the thread a wrapped chain is shown: valid, in order, within its budget."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from scripted_chat import ProviderError, ScriptedChatModel, at
from summaries import bare

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError
from langchain_convmem.records import Cover, Draft, ThreadKey
from langchain_convmem.views.context import NOTED_TEXT

KEY = ThreadKey("ana", "t")
CALL = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}


def _shown(model):
    shown = (message for message in model.seen[-1] if message.text != NOTED_TEXT)
    return [(message.type, bare(message.text)) for message in shown]


def _letter(message):
    if message.type == "ai" and message.tool_calls:
        return "c"
    return message.type[0]


def _is_valid(messages):
    """Return whether a strict provider accepts the messages (of threads with one-call loops)."""
    # system?, then exchanges: human, then calls with their results, then perhaps a reply
    order = "".join(map(_letter, messages))
    spoken = [message for message in messages if _letter(message) != "c"]
    return bool(re.fullmatch("s?(h((ct)+a?|a))*h", order)) and all(
        message.text.strip() for message in spoken
    )


# -- validity -----------------------------------------------------------------------------------


def test_what_was_never_answered_is_said_together_with_what_is_said_now(memory):
    model = ScriptedChatModel(replies=[ProviderError(), "Yes."])
    chain = memory.wrap(model, recall=False)
    with pytest.raises(ProviderError):
        chain.invoke("I parked on three.", at())
    chain.invoke(HumanMessage("Do you hear me?", id="q2", name="Ana"), at())
    assert _shown(model) == [("human", "I parked on three.\nDo you hear me?")]
    assert (model.seen[-1][0].id, model.seen[-1][0].name) == ("q2", "Ana")
    assert [message.text for message in memory.history("t", user_id="ana").messages] == [
        "I parked on three.\nDo you hear me?",
        "Yes.",
    ]


def test_history_ends_with_a_reply_and_input_is_one_human_message(memory):
    model = ScriptedChatModel(replies=["One.", ProviderError(), "Yes."])
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "Answer: {input}")]
    )
    chain = memory.wrap(prompt | model, recall=False)
    chain.invoke("a", at())
    with pytest.raises(ProviderError):
        chain.invoke("b", at())
    chain.invoke("c", at())
    assert _shown(model) == [("human", "a"), ("ai", "One."), ("human", "Answer: b\nc")]


def test_a_conversation_that_the_assistant_opened_starts_with_the_user(memory):
    memory.add_messages([AIMessage("Welcome!")], thread_id="t", user_id="ana")
    model = ScriptedChatModel(replies=["Yes."])
    memory.wrap(model, recall=False).invoke("Hello", at())
    assert _shown(model) == [("human", "..."), ("ai", "Welcome!"), ("human", "Hello")]


_MESSAGES = st.sampled_from(
    [
        HumanMessage("Hi"),
        HumanMessage(""),
        AIMessage("Yes"),
        AIMessage(" "),
        AIMessage("", tool_calls=[CALL]),
        ToolMessage("found", tool_call_id="c1"),
        ToolMessage("lost", tool_call_id="c9"),
        SystemMessage("Be brief."),
    ]
)


@given(st.lists(_MESSAGES, max_size=8), st.sampled_from([None, 30, 60]))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_model_is_given_a_valid_list_whatever_the_thread_holds(messages, history_tokens):
    with ConversationMemory.open(":memory:") as memory:
        memory.add_messages(messages, thread_id="t", user_id="ana")
        model = ScriptedChatModel(replies=["Yes."])
        chain = memory.wrap(model, recall=False, history_tokens=history_tokens)
        chain.invoke("Well?", at())
    assert _is_valid(model.seen[0])
    assert model.seen[0][-1].text.endswith("Well?")


# -- budget -------------------------------------------------------------------------------------


def test_the_oldest_exchanges_are_left_out_to_keep_the_budget(memory):
    model = ScriptedChatModel(replies=[lambda messages: f"re {messages[-1].text}"])
    chain = memory.wrap(model, recall=False, history_tokens=30)
    for number in range(10):
        chain.invoke(f"message {number}", at())
    shown = _shown(model)
    assert shown[-3:] == [("human", "message 8"), ("ai", "re message 8"), ("human", "message 9")]
    assert 3 <= len(shown) < 19
    assert _is_valid(model.seen[-1])


def test_a_budget_smaller_than_the_last_exchange_leaves_the_new_message(memory):
    model = ScriptedChatModel(replies=["word " * 500, "Yes."])
    chain = memory.wrap(model, recall=False, history_tokens=20)
    chain.invoke("Tell me all.", at())
    chain.invoke("Again, " + "at length " * 100, at())
    assert len(model.seen[1]) == 1
    assert model.asked[1].startswith("Again, ")


def test_instructions_that_alone_break_the_budget_are_an_error(memory):
    memory.add_messages([SystemMessage("rule " * 100)], thread_id="t", user_id="ana")
    chain = memory.wrap(ScriptedChatModel(replies=["Yes."]), recall=False, history_tokens=20)
    with pytest.raises(BudgetError, match="more than the budget of"):
        chain.invoke("Hello", at())


# -- summaries ----------------------------------------------------------------------------------


@pytest.fixture
def summarised(memory):
    entries = memory.add_messages(
        [HumanMessage("I parked on three."), AIMessage("Noted."), HumanMessage("And it rains.")],
        thread_id="t",
        user_id="ana",
    )
    cover = Cover(ranges=((entries[0].position, entries[1].position),))
    draft = Draft(role="summary", contents=("Ana parked on level three.",), cover=cover)
    memory.log.append(KEY, [draft])
    return memory


def test_a_summary_is_shown_as_a_message_of_the_users(summarised):
    model = ScriptedChatModel(replies=["Yes."])
    summarised.wrap(model, recall=False).invoke("Where?", at())
    assert _shown(model) == [
        ("human", "Ana parked on level three."),
        ("human", "And it rains.\nWhere?"),
    ]


def test_a_prompt_with_a_place_for_the_summary_is_given_it_as_text(summarised):
    model = ScriptedChatModel(replies=["Yes."])
    prompt = ChatPromptTemplate.from_messages(
        [("system", "So far: {summary}"), MessagesPlaceholder("history"), ("human", "{input}")]
    )
    summarised.wrap(prompt | model, recall=False).invoke("Where?", at())
    assert _shown(model) == [
        ("system", "So far: Ana parked on level three."),
        ("human", "And it rains.\nWhere?"),
    ]


def test_a_prompt_without_that_place_gets_the_summary_within_the_history(summarised):
    model = ScriptedChatModel(replies=["Yes."])
    prompt = ChatPromptTemplate.from_messages(
        [MessagesPlaceholder("history"), ("human", "{input}")]
    )
    summarised.wrap(prompt | model, recall=False).invoke("Where?", at())
    assert _shown(model)[0] == ("human", "Ana parked on level three.")


def test_the_summary_of_a_thread_without_one_is_empty_text(memory):
    model = ScriptedChatModel(replies=["Yes."])
    prompt = ChatPromptTemplate.from_messages([("system", "[{summary}]"), ("human", "{input}")])
    memory.wrap(prompt | model, recall=False).invoke("Where?", at())
    assert _shown(model)[0] == ("system", "[]")
