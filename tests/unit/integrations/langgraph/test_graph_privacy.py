from __future__ import annotations

import pytest
from graphs import answer_of, echo, says, spoken
from langchain_core.embeddings import Embeddings
from langchain_core.messages import HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from scripted_chat import ScriptedChatModel, at

from langchain_convmem import ConversationMemory
from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    recall_node,
    record_node,
)


def redact(message):
    if "off the record" in message.text or "private" in message.additional_kwargs:
        return None
    message.content = message.content.replace("sk-4242", "[key]")
    return message


@pytest.fixture
def careful(memory):
    return ConversationMemory(memory.log, before_write=redact)


# -- a call that is not stored --------------------------------------------------------------------


def test_a_call_that_is_not_stored_stays_out_when_it_is_resumed(memory, saver):
    model = ScriptedChatModel(replies=[echo])
    graph = create_memory_graph(memory, model, checkpointer=saver)
    graph.invoke(says("one"), at())
    graph.invoke(says("between us"), at(remember=False), interrupt_before=["model"])
    reply = graph.invoke(None, at())
    assert answer_of(reply) == "re: between us"
    assert spoken(memory) == ["one", "re: one"]


def test_a_model_node_of_ones_own_answers_what_is_not_stored(memory, saver):
    seen = []

    def answering(state, config):
        seen.append([one.text for one in model_messages(memory, state, config)])
        return {"messages": [("ai", "re: " + seen[-1][-1])]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("answering", answering)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "answering")
    builder.add_edge("answering", "record")
    graph = builder.compile(checkpointer=saver)
    graph.invoke(says("one"), at())
    state = graph.invoke(says("between us"), at(remember=False))
    assert seen[1] == ["one", "re: one", "between us"]
    assert answer_of(state) == "re: between us"
    assert spoken(memory) == ["one", "re: one"]


# -- the write hook -------------------------------------------------------------------------------


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
