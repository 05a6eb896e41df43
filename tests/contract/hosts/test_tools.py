from __future__ import annotations

from host_promises import differs, kept_by_all
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from scripted_chat import ScriptedChatModel, at, entries

CALL = {"name": "look", "args": {"place": "garage"}, "id": "c1", "type": "tool_call"}


def _shape(messages):
    """Return messages as short texts; those of calls name them."""
    return [
        f"call {one.tool_calls[0]['id']}" if getattr(one, "tool_calls", ()) else str(one.text)
        for one in messages
    ]


def _log(memory):
    return _shape(one.message for one in entries(memory))


def _run_loop(host, run, memory):
    """Run a turn with a tool; return what the log holds while that runs."""
    meanwhile = []

    @tool
    def look(place: str) -> str:
        """Look at a place."""
        meanwhile.extend(_log(memory))
        return f"a bicycle in the {place}"

    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[CALL]), "In the garage."])
    run(host.with_tool(memory, model, look), "Where is it?", at())
    said = ["Where is it?", "call c1", "a bicycle in the garage"]
    assert _shape(model.seen[-1]) == said
    assert _log(memory) == [*said, "In the garage."]
    return meanwhile


@kept_by_all("tool loop")
def test_call_result_and_answer_are_stored_in_order_in_one_turn(host, run, memory):
    _run_loop(host, run, memory)
    history = memory.history("t", user_id="ana")
    assert len({entry.turn_id for entry in history.entries}) == 1
    assert history.context().repairs == ()
    model = ScriptedChatModel(replies=["You are welcome."])
    run(host.app(memory, model, recall=False), "Thanks.", at())
    assert _shape(model.seen[-1]) == _log(memory)[:-1], "the next turn sees the whole loop"


@kept_by_all("durable calls")
def test_a_call_is_in_the_log_before_its_tool_runs(host, run, memory):
    assert _run_loop(host, run, memory) == ["Where is it?", "call c1"]


@differs("durable calls")
def test_the_question_is_in_the_log_before_a_tool_runs(host, run, memory):
    assert _run_loop(host, run, memory) == ["Where is it?"]


@kept_by_all("parallel calls")
def test_calls_have_one_result_each_though_ids_begin_anew_in_every_reply(host, run, memory):
    @tool
    def look(place: str) -> str:
        """Look at a place."""
        return f"seen: {place}"

    def ask(*places):
        calls = [{**CALL, "args": {"place": p}, "id": f"c{n}"} for n, p in enumerate(places)]
        return AIMessage("", tool_calls=calls)

    model = ScriptedChatModel(replies=[ask("yard", "hall"), ask("shed"), "Nowhere."])
    run(host.with_tool(memory, model, look), "Where?", at())
    results = [str(one.text) for one in model.seen[-1] if one.type == "tool"]
    assert results == ["seen: yard", "seen: hall", "seen: shed"]
    history = memory.history("t", user_id="ana")
    assert len({entry.message_id for entry in history.entries}) == 7
    assert history.context().repairs == ()


class _Point:
    """What JSON has no form for."""


@kept_by_all("artifacts")
def test_an_artifact_of_any_kind_is_kept(host, run, memory):
    @tool(response_format="content_and_artifact")
    def look(place: str) -> tuple[str, object]:
        """Look at a place."""
        return place, {"at": _Point(), "lines": [Document("A line.", metadata={"page": 1})]}

    model = ScriptedChatModel(replies=[AIMessage("", tool_calls=[CALL]), "Yes."])
    run(host.with_tool(memory, model, look), "Where is it?", at())
    *_, result, reply = memory.history("t", user_id="ana").messages
    assert (result.artifact["at"], reply.text) == ("[_Point]", "Yes.")
    [line] = result.artifact["lines"]
    assert (line["page_content"], line["metadata"]) == ("A line.", {"page": 1})


@kept_by_all("open calls")
def test_calls_that_nobody_answered_are_closed_when_the_user_goes_on(host, run, memory, model):
    talk = [HumanMessage("Where is it?"), AIMessage("", tool_calls=[CALL])]
    memory.add_messages(talk, thread_id="t", user_id="ana")
    run(host.app(memory, model, recall=False), "Never mind.", at())
    asked, call, result, goes_on = model.seen[-1]
    assert _shape([asked, call, goes_on]) == ["Where is it?", "call c1", "Never mind."]
    assert (result.type, result.tool_call_id) == ("tool", "c1")
    assert _log(memory)[-2:] == ["Never mind.", "Yes."]
