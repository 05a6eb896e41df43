"""Graphs with the nodes of a memory: turns, pauses, retries, and what is not stored."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from graphs import (
    FORMS,
    Crash,
    CrashingLog,
    answer_of,
    echo,
    graph_of,
    messages_of,
    says,
    shown,
    spoken,
)
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, RetryPolicy, interrupt
from scripted_chat import FailingLog, ProviderError, ScriptedChatModel, at

from langchain_convmem import ConversationMemory, SummarySettings
from langchain_convmem.errors import ConfigError, LogUnavailableError
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    model_node,
    recall_node,
    record_node,
)
from langchain_convmem.offline import ExtractiveSummarizer


class Noted(MessagesState):
    """A state with a place for the note."""

    convmem_turn: dict


GARAGE = "I parked on level C, next to the blue pillar."


def a_model(*replies):
    return ScriptedChatModel(replies=list(replies) or ["Noted."])


def test_a_model_node_of_ones_own_gets_its_messages_from_the_log(memory, saver):
    seen = []

    def answering(state, config):
        seen.append(model_messages(memory, state, config))
        return {"messages": [("ai", f"You said: {seen[-1][-1].text}")]}

    graph = graph_of(memory, ("answering", answering), saver=saver)

    graph.invoke(says("One"), at())
    graph.invoke(says("Two"), at())
    assert shown(memory) == ["One", "You said: One", "Two", "You said: Two"]
    assert [one.text for one in seen[1]] == ["One", "You said: One", "Two"]


@tool
def level_of(colour: str) -> str:
    """Return the level with a pillar of this colour."""
    return f"The {colour} pillar is on level C."


def test_messages_that_a_state_had_before_are_stored_with_the_first_turn(memory, saver):
    before = [
        SystemMessage("Be brief.", id="s"),
        HumanMessage(GARAGE, id="h"),
        AIMessage("", id="a", tool_calls=[{"name": "level_of", "args": {}, "id": "c"}]),
        ToolMessage("Level C.", id="r", tool_call_id="c"),
        AIMessage("On level C.", id="b"),
    ]
    model = a_model("You are welcome.")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.update_state(at(), {"messages": before})
    graph.invoke(says("Thanks."), at())
    assert [one.text for one in model.seen[0]] == [
        *("Be brief.", GARAGE, "", "Level C.", "On level C.", "Thanks.")
    ]
    assert [one.id for one in model.seen[0]][:5] == ["s", "h", "a", "r", "b"]


@pytest.mark.parametrize("schema", [MessagesState, Noted])
def test_a_reply_that_no_node_recorded_is_stored_by_the_next_turn(memory, saver, schema, caplog):
    def answering(state, config):
        given = model_messages(memory, state, config)
        return {"messages": [("ai", f"re: {given[-1].text}")]}

    builder = StateGraph(schema)
    builder.add_sequence([("recall", recall_node(memory)), ("answering", answering)])
    builder.add_edge(START, "recall")
    graph = builder.compile(checkpointer=saver)
    for text in ("One", "Two", "Three"):
        graph.invoke(says(text), at())
    assert shown(memory) == ["One", "re: One", "Two", "re: Two", "Three"]
    assert len([one for one in caplog.records if "record_node" in one.getMessage()]) == 2
    assert "re: One" not in caplog.text


def test_a_state_may_keep_its_turn_alone(memory, saver):
    model = a_model("Noted.", "On level C.", "Bye.")
    graph = create_memory_graph(memory, model, checkpointer=saver, keep_state="turn")
    said = (GARAGE, "Where did I park?", "Thanks.")
    states = [graph.invoke(says(text), at()) for text in said]
    assert [one.text for one in states[-1]["messages"]] == ["Thanks.", "Bye."]
    assert [one.text for one in model.seen[-1]][:4] == [GARAGE, "Noted.", said[1], "On level C."]
    assert shown(memory) == [GARAGE, "Noted.", said[1], "On level C.", "Thanks.", "Bye."]


def test_a_state_without_messages_and_a_wrong_choice_are_refused(memory):
    from typing import TypedDict

    class Words(TypedDict):
        input: str

    with pytest.raises(ConfigError, match=r"Words has no key 'messages'.*MessagesState"):
        create_memory_graph(memory, a_model(), state_schema=Words)
    with pytest.raises(ConfigError, match="keep_state must be 'all' or 'turn', got 'none'"):
        recall_node(memory, keep_state="none")
    builder = StateGraph(Words)
    builder.add_node("recall", recall_node(memory))
    builder.add_edge(START, "recall")
    with pytest.raises(ConfigError, match=r"must be a list of messages.*MessagesState"):
        builder.compile().invoke({"input": "Teresa"}, at())


def test_messages_without_ids_are_refused(memory):
    from typing import TypedDict

    class Bare(TypedDict):
        messages: list

    builder = StateGraph(Bare)
    builder.add_node("recall", recall_node(memory))
    builder.add_edge(START, "recall")
    with pytest.raises(ConfigError, match=r"message 0 .* has no id.*add_messages"):
        builder.compile().invoke({"messages": [HumanMessage("Hi")]}, at())
    assert memory.threads("ana") == []


def test_a_node_that_asks_a_human_runs_again_from_its_start_and_doubles_nothing(memory, saver):
    model = ScriptedChatModel(replies=["On level C."])

    def asking(state, config):
        said = model_messages(memory, state, config)
        approved = interrupt({"question": "May I answer?"})
        reply = model.invoke([*said]).text if approved else "I may not say."
        return {"messages": [("ai", reply)]}

    graph = graph_of(memory, ("asking", asking), saver=saver)

    graph.invoke(says("Where?"), at())
    assert spoken(memory) == ["Where?"]
    graph.invoke(Command(resume=True), at())
    assert spoken(memory) == ["Where?", "On level C."]


def test_a_reply_that_a_human_corrects_before_it_is_recorded_is_stored_as_corrected(memory, saver):
    model = ScriptedChatModel(replies=["On level D."])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("Where?"), at(), interrupt_before=["record"])
    reply = messages_of(graph)[-1]
    graph.update_state(at(), {"messages": [AIMessage("On level C.", id=reply.id)]})
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "On level C."]


@pytest.mark.parametrize("has_note", [False, True])
def test_a_reply_before_a_pause_is_part_of_what_follows_it(memory, saver, has_note):
    model = ScriptedChatModel(replies=["First draft.", "Final."])

    def approve(state):
        return {"messages": [HumanMessage(interrupt("How is it?"))]}

    class NotedState(MessagesState):
        convmem_turn: Any

    schema = NotedState if has_note else MessagesState
    nodes = [
        ("draft", model_node(memory, model)),
        ("approve", approve),
        ("model", model_node(memory, model)),
    ]
    graph = graph_of(memory, *nodes, saver=saver, schema=schema)
    graph.invoke(says("Write a title."), at())
    graph.invoke(Command(resume="Shorter, please."), at())
    told = ["Write a title.", "First draft.", "Shorter, please."]
    assert [message.text for message in model.seen[1]] == told
    assert spoken(memory) == [*told, "Final."]


def redact(message):
    if "off the record" in message.text or "private" in message.additional_kwargs:
        return None
    message.content = message.content.replace("sk-4242", "[key]")
    return message


def test_a_call_that_is_not_stored_stays_out_when_it_is_resumed(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("one"), at())
    graph.invoke(says("between us"), at(remember=False), interrupt_before=["model"])
    reply = graph.invoke(None, at())
    assert answer_of(reply) == "re: between us"
    assert spoken(memory) == ["one", "re: one"]


def test_no_message_is_searched_for_before_the_hook_was_asked(memory, saver):
    asked = []

    class Noting(Embeddings):
        def embed_documents(self, texts):
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text):
            asked.append(text)
            return [1.0, 0.5]

    careful = ConversationMemory(memory.log, embeddings=Noting(), before_write=redact)
    model = ScriptedChatModel(replies=["Noted."])
    graph = create_memory_graph(careful, model, checkpointer=saver)
    graph.invoke(says("My key is sk-4242."), at("monday"))
    graph.invoke(says("Is sk-4242 my key?"), at("tuesday"))
    graph.invoke(says("off the record: no"), at("wednesday"))
    private = HumanMessage("What do you know of my key?", additional_kwargs={"private": True})
    graph.invoke({"messages": [private]}, at("thursday"))
    assert "Is [key] my key?" in asked
    assert not any("sk-4242" in text or "off the record" in text for text in asked)
    assert private.text not in asked


SETTINGS = SummarySettings(trigger=("messages", 6), keep=("messages", 2))
TEXTS = [f"On {day} May I paid {day}40 euros." for day in range(1, 6)]


def memory_of(when):
    return ConversationMemory.open(
        ":memory:",
        summarizer=ExtractiveSummarizer(),
        summary_settings=SETTINGS,
        summarize_when=when,
    )


def test_a_turn_that_is_not_remembered_compacts_nothing():
    with memory_of("foreground") as memory:
        model = ScriptedChatModel(replies=["A."] * 6)
        graph = create_memory_graph(memory, model, recall=False)
        for text in TEXTS:
            graph.invoke(says(text), at(remember=False))
        assert memory.history("t", user_id="ana").last_summary is None


@pytest.mark.parametrize("schema", FORMS)
def test_a_strict_checkpointer_reads_back_all_that_a_turn_puts_into_it(
    memory, saver, schema, caplog
):
    graph = create_memory_graph(
        memory, ScriptedChatModel(replies=[echo]), state_schema=schema, checkpointer=saver
    )
    with caplog.at_level(logging.WARNING):
        graph.invoke(says("one", "h1"), at(), interrupt_before=["record"])
        graph.invoke(None, at())
        graph.invoke(says("two"), at())
        [*_] = graph.get_state_history(at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert caplog.records == []


def outer(inner, saver, schema=MessagesState):
    builder = StateGraph(schema)
    builder.add_node("chat", inner)
    builder.add_node("after", lambda state: {})
    builder.add_edge(START, "chat")
    builder.add_edge("chat", "after")
    return builder.compile(checkpointer=saver)


def test_a_subgraph_that_was_interrupted_goes_on_where_it_was(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = outer(create_memory_graph(memory, model), saver)
    graph.invoke(says("one"), at())
    stream = graph.stream(says("two"), at(), interrupt_before=["model"], subgraphs=True)
    [*_] = stream
    graph.invoke(None, at())
    assert shown(memory) == ["one", "re: one", "two", "re: two"]
    assert len(model.seen) == 2


@pytest.mark.parametrize("crash", [1, 2])
def test_a_node_that_stopped_right_after_its_write_stores_nothing_twice(memory, saver, crash):
    crashing = ConversationMemory(CrashingLog(memory.log, crash))
    model = ScriptedChatModel(replies=["On level C."])
    graph = create_memory_graph(crashing, model, checkpointer=saver)
    with pytest.raises(Crash):
        graph.invoke(says("Where?"), at(), durability="sync")
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(None, at(), durability="sync")
    assert spoken(memory) == ["Where?", "On level C."]


def test_a_reply_that_could_not_be_written_is_raised_and_written_on_resuming(memory, saver):
    model = ScriptedChatModel(replies=["On level C.", "another"])
    memory = ConversationMemory(FailingLog(memory.log, fails_at=2))
    graph = create_memory_graph(memory, model, checkpointer=saver)
    with pytest.raises(LogUnavailableError):
        graph.invoke(says("Where?"), at())
    graph.invoke(None, at())
    assert spoken(memory) == ["Where?", "On level C."]
    assert len(model.seen) == 1


def test_a_retry_policy_stores_nothing_twice(memory):
    memory = ConversationMemory(CrashingLog(memory.log))
    failures = iter([ProviderError("once"), ProviderError("twice")])

    def shaky(state, config):
        model_messages(memory, state, config)
        for failure in failures:
            raise failure
        return {"messages": [("ai", "At last.")]}

    policy = RetryPolicy(max_attempts=3, initial_interval=0, jitter=False, retry_on=ProviderError)
    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("shaky", shaky, retry_policy=policy)
    builder.add_node("record", record_node(memory), retry_policy=policy)
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "shaky")
    builder.add_edge("shaky", "record")
    builder.compile().invoke(says("Hi"), at())
    assert spoken(memory) == ["Hi", "At last."]


@pytest.mark.parametrize("messages", [[], [("system", "Be brief.")]])
def test_a_state_in_which_nobody_says_anything_changes_nothing(memory, messages):
    graph = create_memory_graph(memory, a_model())
    graph.invoke({"messages": [("user", "Hi")]}, at())
    before = memory.history("t", user_id="ana").entries
    with pytest.raises(ConfigError, match="nothing to answer"):
        graph.invoke({"messages": messages}, at())
    assert memory.history("t", user_id="ana").entries == before
