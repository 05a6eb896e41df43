import pytest
from langchain_core.messages import (
    AIMessage,
    ChatMessage,
    HumanMessage,
    HumanMessageChunk,
    message_to_dict,
)
from langchain_core.prompt_values import ChatPromptValue, PromptValue, StringPromptValue
from langgraph.graph import MessagesState
from scripted_agents import agent_with
from scripted_chat import ScriptedChatModel, at, entries

from langchain_convmem import ConversationMemory, InMemoryLog
from langchain_convmem.integrations.langgraph import create_memory_graph

HELLO = HumanMessage("Hello")

ONE = {
    "text": "Hello",
    "a message": HELLO,
    "a chunk": HumanMessageChunk(content="Hello"),
    "chunks": [HumanMessageChunk(content="Hel"), HumanMessageChunk(content="lo")],
    "a list": [HELLO],
    "a list of text": ["Hello"],
    "a pair": ("user", "Hello"),
    "a list of pairs": [("human", "Hello")],
    "a role dict": {"role": "user", "content": "Hello"},
    "a list of role dicts": [{"role": "user", "content": "Hello"}],
    "a message written down": [message_to_dict(HELLO)],
    "under messages": {"messages": [HELLO]},
    "pairs under messages": {"messages": [("user", "Hello")]},
    "the value of a chat prompt": ChatPromptValue(messages=[HELLO]),
    "the value of a text prompt": StringPromptValue(text="Hello"),
    "a chat message": ChatMessage("Hello", role="user"),
}
"""Every way to say one thing."""

CHAT = [HELLO, AIMessage("Hi."), HumanMessage("Where?")]
MANY = {
    "messages": CHAT,
    "pairs": [("user", "Hello"), ("assistant", "Hi."), ("user", "Where?")],
    "role dicts": [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi."},
        {"role": "user", "content": "Where?"},
    ],
    "mixed": ["Hello", AIMessage("Hi."), {"role": "user", "content": "Where?"}],
    "under messages": {"messages": ["Hello", ("ai", "Hi."), "Where?"]},
    "the value of a prompt": ChatPromptValue(messages=CHAT),
}
"""Every way to pass a whole chat."""


def _wrap(memory, model, value):
    memory.wrap(model, recall=False).invoke(value, at())


def _history(memory, model, value):
    history = memory.history("t", user_id="ana")
    history.add_messages(value)
    model.invoke(history.messages)


def _memory(memory, model, value):
    memory.add_messages(value, thread_id="t", user_id="ana")
    model.invoke(memory.history("t", user_id="ana").messages)


def _state(value):
    """Return the input of a graph: LangGraph reads the messages of a state itself."""
    if isinstance(value, PromptValue):
        value = value.to_messages()
    is_state = isinstance(value, dict) and "messages" in value
    return value if is_state else {"messages": value}


def _graph(memory, model, value):
    graph = create_memory_graph(memory, model, state_schema=MessagesState, recall=False)
    graph.invoke(_state(value), at())


DOORS = {
    "wrap": _wrap,
    "wrap, under input": lambda memory, model, value: _wrap(memory, model, {"input": value}),
    "conversation": lambda memory, model, value: memory.conversation(
        model, thread_id="t", user_id="ana", recall=False
    ).send_message(value),
    "history": _history,
    "memory": _memory,
    "graph": _graph,
    "agent": lambda memory, model, value: agent_with(memory, model, tools=()).invoke(
        _state(value), at()
    ),
}

READ_BY_LANGGRAPH = {"a chat message", "a message written down", "chunks"}
"""Forms that LangGraph reads in its own way, or refuses, before any node or middleware runs."""


@pytest.fixture
def memory():
    return ConversationMemory(InMemoryLog())


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Hi."])


def _told(memory):
    return [(type(one.message), str(one.message.text)) for one in entries(memory) if one.message]


@pytest.mark.parametrize("form", ONE)
@pytest.mark.parametrize("door", DOORS)
def test_one_thing_said_in_any_form_is_one_message_of_the_user(memory, model, door, form):
    if door in ("graph", "agent") and form in READ_BY_LANGGRAPH:
        pytest.skip("LangGraph reads the state")
    DOORS[door](memory, model, ONE[form])
    assert [(one.type, str(one.text)) for one in model.seen[-1]] == [("human", "Hello")]
    said = _told(memory)[0]
    assert said[1] == "Hello"
    assert issubclass(said[0], HumanMessage | ChatMessage)


@pytest.mark.parametrize("form", MANY)
@pytest.mark.parametrize("door", ["wrap", "wrap, under input"])
def test_a_whole_chat_in_any_form_is_reconciled_with_the_thread(memory, model, door, form):
    DOORS[door](memory, model, "Hello")
    DOORS[door](memory, model, MANY[form])
    assert [str(one.text) for one in model.seen[-1]] == ["Hello", "Hi.", "Where?"]
    assert [text for _, text in _told(memory)] == ["Hello", "Hi.", "Where?", "Hi."]


@pytest.mark.parametrize("form", MANY)
@pytest.mark.parametrize("door", ["history", "memory"])
def test_a_whole_chat_in_any_form_is_stored_as_it_is(memory, model, door, form):
    DOORS[door](memory, model, MANY[form])
    assert _told(memory) == [(HumanMessage, "Hello"), (AIMessage, "Hi."), (HumanMessage, "Where?")]
