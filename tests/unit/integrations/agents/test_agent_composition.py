from __future__ import annotations

import pytest
from langchain.agents.middleware import (
    AgentMiddleware,
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    HumanInTheLoopMiddleware,
    PIIMiddleware,
    SummarizationMiddleware,
    hook_config,
)
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command
from scripted_agents import RUNS, agent_with, calls, entries, says, shape, spoken, view
from scripted_chat import ScriptedChatModel, at

from langchain_convmem.errors import ConfigError

INNER_AND_OUTER = pytest.mark.parametrize("place", ["before", "after"])


def _decided(memory, place, *decisions):
    person = HumanInTheLoopMiddleware({"look": True})
    looks = calls(*["yard", "hall"][: len(decisions)])
    model = ScriptedChatModel(replies=[looks, "So be it.", "Yes."])
    agent = agent_with(memory, model, checkpointer=InMemorySaver(), **{place: [person]})
    agent.invoke(says("Where?"), at())
    assert [entry.role for entry in entries(memory)] == ["user", "assistant"], "stored and waiting"
    agent.invoke(Command(resume={"decisions": list(decisions)}), at())
    return agent, model


@INNER_AND_OUTER
def test_a_call_that_a_person_rejects_has_the_rejection_for_a_result(memory, place):
    rejects = {"type": "reject", "message": "Not the hall."}
    agent, model = _decided(memory, place, {"type": "approve"}, rejects)
    agent.invoke(says("Sure?"), at())
    results = [message for message in model.seen[2] if message.type == "tool"]
    assert [result.tool_call_id for result in results] == ["c0", "c1"]
    assert "Not the hall." in results[1].text
    assert len({e.turn_id for e in entries(memory) if e.control is None}) == 2


@INNER_AND_OUTER
def test_a_call_that_a_person_edits_is_shown_as_it_was_run(memory, place):
    edit = {"type": "edit", "edited_action": {"name": "look", "args": {"place": "shed"}}}
    agent, model = _decided(memory, place, edit)
    agent.invoke(says("Sure?"), at())
    state = agent.get_state(at()).values["messages"]
    # The model learns of the edit from the call or from the result, as LangChain's version has it.
    assert state[2].text.endswith("shed: a bicycle")
    assert shape(model.seen[2])[:4] == view(memory)[:4] == shape(state)[:4]
    assert model.seen[2][1].tool_calls == state[1].tool_calls


def _summarizing(keep):
    summarizer = ScriptedChatModel(replies=["They spoke of many places."])
    return SummarizationMiddleware(summarizer, trigger=("messages", 5), keep=("messages", keep))


@INNER_AND_OUTER
@pytest.mark.parametrize("way", RUNS)
def test_the_model_reads_the_summary_and_what_the_state_kept_and_the_log_keeps_all(
    memory, way, place
):
    model = ScriptedChatModel(replies=["One.", "Two.", "Three.", "Four."])
    middleware = {place: [_summarizing(2)]}
    agent = agent_with(memory, model, checkpointer=InMemorySaver(), **middleware)
    for text in ("First?", "Second?", "Third?"):
        RUNS[way](agent, says(text), at())
    assert shape(model.seen[2])[0].startswith("human: Here is a summary")
    assert shape(model.seen[2])[1:] == ["ai: Two.", "human: Third?"]
    assert spoken(memory) == view(memory)
    assert len(view(memory)) == 6, "the summary is no part of what was said"


@INNER_AND_OUTER
def test_what_the_application_removes_leaves_the_views_and_what_a_middleware_removes_stays(
    memory, place
):
    model = ScriptedChatModel(replies=["One.", "Two.", "Three.", "Four.", "Five."])
    middleware = {place: [_summarizing(3)]}
    agent = agent_with(memory, model, checkpointer=InMemorySaver(), **middleware)
    for text in ("First?", "Second?", "Third?"):
        agent.invoke(says(text), at())
    held = agent.get_state(at()).values["messages"]
    assert [one.text for one in held[1:]] == ["Second?", "Two.", "Third?", "Three."]
    agent.update_state(at(), {"messages": [RemoveMessage(one.id) for one in held[1:3]]})
    agent.invoke(says("Fourth?"), at())
    left = ["human: First?", "ai: One.", "human: Third?", "ai: Three."]
    assert view(memory) == [*left, "human: Fourth?", "ai: Four."]
    agent.update_state(at(), {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES)]})
    agent.invoke(says("Fifth?"), at())
    assert view(memory) == [*left[:2], "human: Fifth?", "ai: Five."]
    assert len(spoken(memory)) == 10


@INNER_AND_OUTER
def test_what_is_redacted_in_the_state_is_redacted_in_the_views(memory, place):
    redact = PIIMiddleware("email", strategy="redact", apply_to_input=True, apply_to_output=True)
    model = ScriptedChatModel(replies=["Noted: ana@example.org", "Yes."])
    agent = agent_with(memory, model, checkpointer=InMemorySaver(), **{place: [redact]})
    agent.invoke(says("I am ana@example.org"), at())
    agent.invoke(says("Sure?"), at())
    redacted = ["human: I am [REDACTED_EMAIL]", "ai: Noted: [REDACTED_EMAIL]"]
    assert shape(model.seen[0]) == redacted[:1]
    assert shape(model.seen[1])[:2] == view(memory)[:2] == redacted


def test_what_edits_requests_behind_the_memory_edits_what_the_model_gets_and_not_the_log(memory):
    model = ScriptedChatModel(replies=[calls("yard"), "In the yard.", "Yes."])
    clearing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)])
    agent = agent_with(memory, model, after=[clearing], checkpointer=InMemorySaver())
    for text in ("Where?", "Sure?"):
        agent.invoke(says(text), at())
    assert "tool c0: [cleared]" in shape(model.seen[-1])
    assert not any("[cleared]" in line for line in view(memory))


def test_a_run_that_jumps_past_the_memory_is_stored_all_the_same(memory):
    class Jump(AgentMiddleware):
        @hook_config(can_jump_to=["end", "model"])
        def before_agent(self, state, runtime):
            if "rude" in state["messages"][-1].text:
                return {"jump_to": "end", "messages": [AIMessage("No.")]}
            return {"jump_to": "model"}

    agent = agent_with(memory, ScriptedChatModel(replies=[calls("yard"), "Here."]), before=[Jump()])
    agent.invoke(says("Something rude"), at("rude"))
    assert view(memory, "rude") == ["human: Something rude", "ai: No."]
    agent.invoke(says("Where?"), at("fine"))
    assert len({entry.turn_id for entry in entries(memory, "fine")}) == 1
    assert view(memory, "fine")[-1] == "ai: Here."


def test_a_summary_in_the_middle_of_a_loop_loses_nothing_of_it(memory):
    looks = [calls("yard", first=number) for number in range(4)]
    model = ScriptedChatModel(replies=[*looks, "In the yard.", "Yes."])
    agent = agent_with(memory, model, before=[_summarizing(2)], checkpointer=InMemorySaver())
    agent.invoke(says("Where?"), at())
    assert shape(model.seen[4])[0].startswith("human: Here is a summary")
    assert len(model.seen[4]) < len(view(memory))
    assert spoken(memory) == view(memory)
    assert len({entry.turn_id for entry in entries(memory)}) == 1
    agent.invoke(says("Sure?"), at())
    assert view(memory)[-2:] == ["human: Sure?", "ai: Yes."]


@INNER_AND_OUTER
def test_a_summary_that_leaves_nothing_of_the_turn_in_the_state_hides_nothing(memory, place):
    class Fold(AgentMiddleware):
        def before_model(self, state, runtime):
            if state["messages"][-1].type == "tool":
                told = HumanMessage(
                    "So far: a look.", additional_kwargs={"lc_source": "summarization"}
                )
                return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), told]}
            return None

    model = ScriptedChatModel(replies=[calls("yard"), "In the yard."])
    agent_with(memory, model, **{place: [Fold()]}).invoke(says("Where?"), at())
    assert view(memory) == [
        "human: Where?",
        "ai -> c0",
        "tool c0: yard: a bicycle",
        "ai: In the yard.",
    ]


def test_agents_one_after_the_other_keep_what_the_first_did_though_no_state_has_it(memory):
    first = agent_with(memory, ScriptedChatModel(replies=[calls("yard"), "A bicycle."]))
    second = agent_with(memory, ScriptedChatModel(replies=["Noted."]))
    steps = StateGraph(MessagesState)
    steps.add_sequence(
        [
            ("look", lambda state: first.invoke({"messages": state["messages"]}) and {}),
            ("tell", lambda state: second.invoke({"messages": state["messages"]})),
        ]
    )
    steps.add_edge(START, "look")
    steps.compile().invoke(says("Where?"), at())
    assert [entry.control for entry in entries(memory)] == [None] * 5
    assert view(memory)[1] == "ai -> c0"


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"thread_id": "t"},
        {"thread_id": "t", "user_id": "eve"},
        {"thread_id": "t", "user_id": "ana", "memory": {"recal": False}},
    ],
)
def test_a_tool_that_acts_is_not_called_where_its_result_could_not_be_stored(memory, wrong, run):
    paid = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    asked = AIMessage("", tool_calls=[{"name": "pay", "args": {"amount": 9}, "id": "c1"}])
    model = ScriptedChatModel(replies=[asked, "Done."])
    person = HumanInTheLoopMiddleware({"pay": True})
    agent = agent_with(memory, model, tools=[pay], checkpointer=InMemorySaver(), after=[person])
    agent.invoke(says("Pay."), at())
    approved = Command(resume={"decisions": [{"type": "approve"}]})
    with pytest.raises(ConfigError):
        RUNS[run](agent, approved, {"configurable": wrong})
    assert paid == []
    RUNS[run](agent, approved, at())
    assert paid == [9]
    assert shape([entry.message for entry in entries(memory)])[-1] == "ai: Done."


def test_what_is_forgotten_while_a_call_waits_is_not_shown_when_the_turn_goes_on(memory):
    memory.add_messages([HumanMessage("The yard has a well.")], thread_id="old", user_id="ana")
    model = ScriptedChatModel(replies=[calls("yard"), "Yes."])
    person = HumanInTheLoopMiddleware({"look": True})
    around = {"after": [person], "options": {"recall": True}}
    agent = agent_with(memory, model, checkpointer=InMemorySaver(), **around)
    agent.invoke(says("Where in the yard is the well?"), at())
    assert "has a well" in model.asked[0]
    memory.forget(user_id="ana", thread_id="old")
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), at())
    assert "has a well" not in str(model.seen[1])


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("saver", [InMemorySaver, lambda: None])
def test_an_answer_to_what_was_forgotten_meanwhile_is_not_stored(memory, run, saver):
    def answer(_):
        memory.forget(user_id="ana")
        return "Too late."

    agent = agent_with(memory, ScriptedChatModel(replies=[answer]), checkpointer=saver())
    RUNS[run](agent, says("Where?"), at())
    assert entries(memory) == []
