"""What a turn may set, and whose it is: the same at every host."""

from __future__ import annotations

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.runnables import ConfigurableField
from scripted_chat import ScriptedChatModel, at
from turn_hosts import HOSTS, given, in_a_graph
from watched_runs import RunWatcher

from langchain_convmem import ConversationMemory
from langchain_convmem.errors import BudgetError, ConfigError
from langchain_convmem.offline import ExtractiveSummarizer
from langchain_convmem.summarizing import SummarySettings

HERE = {"thread_id": "t", "user_id": "ana"}

KEEPING = [name for name in HOSTS if name != "agent"]
"""Hosts that may leave a turn out of the log."""

BUDGETS = [
    {"recall_tokens": 40},
    {"recall_k": 1},
    {"history_tokens": 0},
    {"context_tokens": 60, "recall": False},
]


@pytest.fixture
def memory():
    """Return a memory in which Ana told of three things elsewhere, and of one in her thread."""
    with ConversationMemory.open(":memory:") as opened:
        for number, text in enumerate(("red and fast", "locked in the shed", "ten years old")):
            opened.add_messages(
                [HumanMessage(f"My bicycle is {text}. {'It rained on that day. ' * 9}")],
                thread_id=f"old {number}",
                user_id="ana",
            )
        turn = [HumanMessage("My name is Ana. " * 20), AIMessage("Nice to meet you.")]
        opened.add_messages(turn, thread_id="t", user_id="ana")
        yield opened


@pytest.fixture
def model():
    return ScriptedChatModel(replies=["Yes."])


def _made(name, memory, model, **options):
    return HOSTS[name](memory, model, **options)


def _size(model):
    """Return how many tokens a model got, and how many blocks of lines."""
    text = given(model)
    return len(text) // 4, text.count("My bicycle is")


# -- options ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_without_options_a_model_gets_the_thread_and_lines_of_others(name, memory, model):
    _made(name, memory, model).invoke("What is my bicycle like?", at())
    assert "My name is Ana." in given(model)
    assert _size(model)[1] == 3


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("place", ["host", "call"])
def test_recall_is_turned_off(name, place, memory, model):
    host = _made(name, memory, model, **({"recall": False} if place == "host" else {}))
    host.invoke("What is my bicycle like?", at(**({"recall": False} if place == "call" else {})))
    assert _size(model)[1] == 0


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("options", BUDGETS, ids="-".join)
def test_budgets_of_a_host_and_of_a_call_show_the_same(name, options, memory, model):
    _made(name, memory, model, **options).invoke("What is my bicycle like?", at())
    of_host = given(model)
    memory.history("t", user_id="ana").undo()
    _made(name, memory, model).invoke("What is my bicycle like?", at(**options))
    assert given(model) == of_host


@pytest.mark.parametrize("name", HOSTS)
def test_a_number_of_blocks_is_what_is_recalled(name, memory, model):
    _made(name, memory, model, recall_k=2).invoke("What is my bicycle like?", at())
    assert _size(model)[1] == 2
    host = _made(name, memory, model, recall_k=1)
    host.invoke("What is my bicycle like?", at("u", recall_tokens=1000))
    assert _size(model)[1] == 3, "a budget of the call replaces the number of the host"


@pytest.mark.parametrize("name", HOSTS)
def test_the_budget_of_the_history_leaves_out_old_exchanges(name, memory, model):
    _made(name, memory, model, recall=False, history_tokens=0).invoke("Who am I?", at())
    assert given(model) == "Who am I?"


@pytest.mark.parametrize("name", HOSTS)
def test_one_budget_holds_for_all_that_a_model_gets(name, memory, model):
    _made(name, memory, model, context_tokens=300).invoke("What is my bicycle like?", at())
    tokens, blocks = _size(model)
    assert tokens <= 300
    assert 0 < blocks < 3
    reserving = _made(name, memory, model, context_tokens=300, reserved_tokens=250)
    reserving.invoke("And my car?", at("u"))
    assert _size(model)[0] <= 50


@pytest.mark.parametrize("name", HOSTS)
def test_a_question_larger_than_the_budget_is_an_error(name, memory, model):
    with pytest.raises(BudgetError):
        _made(name, memory, model, context_tokens=20).invoke("word " * 100, at())


@pytest.mark.parametrize("name", HOSTS)
def test_what_was_never_answered_does_not_block_a_thread(name, memory, model):
    memory.add_messages([HumanMessage("lost " * 300)], thread_id="t", user_id="ana")
    _made(name, memory, model, recall=False, context_tokens=60).invoke("Hello?", at())
    assert given(model) == "Hello?"


@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("place", ["host", "call"])
def test_a_turn_that_is_not_to_be_remembered_leaves_nothing(name, place, memory, model):
    before = memory.log.entries(memory.history("t", user_id="ana").entries[0].key)
    host = _made(name, memory, model, **({"remember": False} if place == "host" else {}))
    host.invoke("My code is 1234.", at(**({"remember": False} if place == "call" else {})))
    assert "My code is 1234." in given(model)
    assert memory.log.entries(before[0].key) == before


def test_an_agent_refuses_a_turn_that_is_not_to_be_remembered_before_it_stores_anything(
    memory, model
):
    with pytest.raises(ConfigError, match="remember=False"):
        _made("agent", memory, model).invoke("My code is 1234.", at("new", remember=False))
    assert memory.history("new", user_id="ana").entries == []


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("options", [{"history_tokens": 50}, {"context_tokens": 60}])
def test_what_would_be_left_out_before_it_is_summarised_is_refused(name, options, model):
    settings = SummarySettings(trigger=("tokens", 5000))
    memory = ConversationMemory.open(
        ":memory:", summarizer=ExtractiveSummarizer(), summary_settings=settings
    )
    with memory, pytest.raises(ConfigError, match="too small for summaries"):
        _made(name, memory, model, **options).invoke("Hello", at())


# -- what is refused ----------------------------------------------------------------------------

REFUSED = {
    "an unknown option": ({"memory": {"recal": False}}, "no option 'recal'; it has recall, "),
    "an old name": ({"memory": {"max_tokens": 9}}, "no option 'max_tokens'; use 'recall_tokens'"),
    "another old name": ({"memory": {"k": 2}}, "no option 'k'; use 'recall_k'"),
    "text for a switch": ({"memory": {"recall": "no"}}, "recall must be True or False, got 'no'"),
    "a switch for a number": ({"memory": {"recall_k": True}}, "recall_k must be a whole number"),
    "a number below one": ({"memory": {"recall_tokens": 0}}, "at least 1 or None, got 0"),
    "more reserved than there is": (
        {"memory": {"context_tokens": 9, "reserved_tokens": 9}},
        "needs room for messages",
    ),
    "something else": ({"memory": "off"}, "must be a map of options .*, got a str"),
    "recall in the old place": ({"recall": False}, "'recall'.* is not read; .*\"memory\""),
    "remember in the old place": ({"remember": False}, "'remember'.* is not read; .*\"memory\""),
    "two threads": ({"session_id": "other"}, "thread_id 'new' and the session_id 'other'"),
}


@pytest.mark.parametrize("name", HOSTS)
@pytest.mark.parametrize("mistake", REFUSED)
def test_what_a_call_cannot_set_is_refused_and_nothing_stored(name, mistake, memory, model):
    if name == "conversation" and mistake == "two threads":
        pytest.skip("a conversation is made for its thread")
    configurable, words = REFUSED[mistake]
    config = {"configurable": {**at("new")["configurable"], **configurable}}
    with pytest.raises(ConfigError, match=words):
        _made(name, memory, model).invoke("Hello", config)
    assert memory.history("new", user_id="ana").entries == []
    assert model.seen == []


@pytest.mark.parametrize("name", HOSTS)
def test_names_that_belong_to_a_model_are_left_to_it(name, memory, model):
    _made(name, memory, model).invoke("Hello", at(max_tokens=9, k="top", temperature=0.1))
    assert model.asked[-1].endswith("Hello")


@pytest.mark.parametrize("name", ["wrap", "graph of ids"])
def test_a_field_of_the_inner_chain_is_not_taken_for_an_option(name, memory):
    model = ScriptedChatModel(replies=["Yes."]).configurable_alternatives(
        ConfigurableField(id="recall"), default_key="much", little=ScriptedChatModel(replies=["No"])
    )
    _made(name, memory, model, recall_k=1).invoke(
        "Hello", {"configurable": {**HERE, "recall": "little"}}
    )
    assert memory.history("t", user_id="ana").messages[-1].text == "No"


def test_max_tokens_of_a_call_reaches_the_model(memory):
    model = ScriptedChatModel(replies=["Yes, I do."]).configurable_fields(
        breaks_after=ConfigurableField(id="max_tokens")
    )
    host = memory.wrap(model, recall=False)
    with pytest.raises(Exception, match="the connection broke"):
        list(host.stream("Hello", at("new", max_tokens=1)))
    assert [one.text for one in memory.history("new", user_id="ana").messages] == [
        "Hello",
        "Yes, ",
    ]


def test_options_of_a_wrapped_chain_may_be_configurable_under_their_own_names(memory, model):
    host = memory.wrap(model).configurable_fields(recall=ConfigurableField(id="recall"))
    host.invoke("What is my bicycle like?", {"configurable": {**HERE, "recall": False}})
    assert _size(model)[1] == 0


# -- whose turn it is ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "conversation"])
def test_a_session_is_a_thread(name, memory, model):
    config = {"configurable": {"session_id": "s", "user_id": "ana"}}
    _made(name, memory, model).invoke("Hello", config)
    _made(name, memory, model).invoke("Again", {"configurable": {**at("s")["configurable"]}})
    said = [one.text for one in memory.history("s", user_id="ana").messages]
    assert said == ["Hello", "Yes.", "Again", "Yes."]


@pytest.mark.parametrize("name", HOSTS)
def test_two_users_in_one_call_are_refused(name, memory, model):
    graph = in_a_graph(_made(name, memory, model))
    with pytest.raises(ConfigError, match="'ana'"):
        graph.invoke({"text": "Hello"}, at("new"), context={"user_id": "ben"})
    for user_id in ("ana", "ben"):
        assert memory.history("new", user_id=user_id).entries == []
    assert model.seen == []


@pytest.mark.parametrize("name", HOSTS)
def test_the_same_user_in_both_places_is_one(name, memory, model):
    graph = in_a_graph(_made(name, memory, model))
    graph.invoke({"text": "Hello"}, at("new"), context={"user_id": "ana"})
    assert len(memory.history("new", user_id="ana").entries) == 2


@pytest.mark.parametrize("name", [name for name in HOSTS if name != "conversation"])
def test_a_context_may_name_the_user_alone(name, memory, model):
    graph = in_a_graph(_made(name, memory, model))
    graph.invoke({"text": "Hello"}, at("new", None), context={"user_id": "ana"})
    assert len(memory.history("new", user_id="ana").entries) == 2


# -- what callbacks learn -----------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_every_host_reports_recall_what_a_model_got_and_what_was_stored(name, memory, model):
    watcher = RunWatcher()
    question = "What is my bicycle like?"
    _made(name, memory, model).invoke(question, {**at(), "callbacks": [watcher]})
    recalled = [watcher.runs[run]["name"] for run in watcher.of("retriever")]
    assert recalled == ["recall"]
    assert [len(found) for found in watcher.found.values()] == [3]
    events = [(event, data) for event, data, _ in watcher.events]
    assert [event for event, _ in events] == ["convmem.context", "convmem.stored"]
    context, stored = (data for _, data in events)
    assert (context["entries"], context["messages"]) == (3, 3)
    assert (context["blocks"], context["lines"], context["repairs"]) == (3, 3, 0)
    assert stored["replaced"] == stored["interrupted"] == 0
    assert stored["messages"] >= 1
