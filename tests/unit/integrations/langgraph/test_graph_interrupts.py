from __future__ import annotations

from graphs import messages_of, says, spoken
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.integrations.langgraph import (
    create_memory_graph,
    model_messages,
    recall_node,
    record_node,
)


def test_a_node_that_asks_a_human_runs_again_from_its_start_and_doubles_nothing(memory, saver):
    model = ScriptedChatModel(replies=["On level C."])

    def asking(state, config):
        said = model_messages(memory, state, config)
        approved = interrupt({"question": "May I answer?"})
        reply = model.invoke([*said]).text if approved else "I may not say."
        return {"messages": [("ai", reply)]}

    builder = StateGraph(MessagesState)
    builder.add_node("recall", recall_node(memory))
    builder.add_node("asking", asking)
    builder.add_node("record", record_node(memory))
    builder.add_edge(START, "recall")
    builder.add_edge("recall", "asking")
    builder.add_edge("asking", "record")
    graph = builder.compile(checkpointer=saver)

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
