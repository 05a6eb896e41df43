import pytest
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.oracles import ORACLES
from tests.fuzz.runner import run
from tests.fuzz.validators import VALIDATORS

PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
PDF = {
    "type": "file",
    "base64": "aGk=",
    "mime_type": "application/pdf",
    "name": "a",
    "filename": "a",
}


def call(own="c1", name="look", **args):
    return {"name": name, "args": args, "id": own, "type": "tool_call"}


def asks(*calls, content="", **more):
    return AIMessage(content, tool_calls=list(calls), id=f"ask {calls}", **more)


def answer(own="c1", content="found", **more):
    return ToolMessage(content, tool_call_id=own, **more)


def user(content="q", number=0, **more):
    return HumanMessage(content, id=f"q{number}", **more)


def broken_calls():
    message = asks(call())
    message.invalid_tool_calls = [{"name": "x", "args": "{", "id": "c2", "error": None}]
    return message


EVERYWHERE = {
    "an orphan": [user(), answer()],
    "no answer": [user(), asks(call())],
    "a late answer": [user(), asks(call()), user("r", 1), answer()],
    "two answers": [user(), asks(call()), answer(), answer()],
    "a foreign answer": [user(), asks(call()), answer("c2")],
    "an id used again": [user(), asks(call()), answer(), asks(call(x=1)), answer()],
    "the assistant first": [AIMessage("a", id="a")],
    "the assistant twice": [user(), AIMessage("a", id="a"), AIMessage("b", id="b")],
    "blank text": [user(" ")],
    "an empty list": [user([])],
    "a blank block": [user([{"type": "text", "text": ""}])],
    "a bare string in a list": [user(["a"])],
    "another type of message": [ChatMessage(content="a", role="user", id="m")],
    "no id": [HumanMessage("a")],
    "one id twice": [user(), AIMessage("a", id="q0")],
    "half a character": [user("a\ud800")],
    "broken calls": [user(), broken_calls(), answer()],
    "a legacy call": [user(), AIMessage("a", id="a", additional_kwargs={"function_call": {}})],
    "raw calls": [user(), AIMessage("a", id="a", additional_kwargs={"tool_calls": [{"id": "x"}]})],
    "an unknown block": [user([{"type": "hologram"}])],
    "broken base64": [user([{**PICTURE, "base64": "?"}])],
    "a media type that nobody takes": [user([{**PICTURE, "mime_type": "image/bmp"}])],
    "a picture in a system message": [SystemMessage([PICTURE], id="s"), user()],
    "reasoning without a signature": [
        user(),
        AIMessage([{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "a"}], id="a"),
    ],
    "reasoning at the end": [user(), AIMessage([{"type": "text", "text": "a"}, THOUGHT], id="a")],
    "a call told that is none": [
        user(),
        AIMessage([{"type": "tool_use", "id": "c9", "name": "x", "input": {}}], id="a"),
    ],
    "arguments that are no json": [user(), asks(call(x={1})), answer()],
    "not a number": [user(), asks(call(x=float("nan"))), answer()],
    "a tool without a name": [user(), asks(call(name="")), answer()],
    "a role of its own": [SystemMessage("s", id="s", additional_kwargs={"__openai_role__": "x"})],
    "half a search": [
        user(),
        AIMessage(
            [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "s", "input": {}},
                {"type": "text", "text": "a"},
            ],
            id="a",
        ),
    ],
}


@pytest.mark.parametrize("broken", EVERYWHERE.values(), ids=EVERYWHERE)
def test_what_every_provider_refuses_is_named_by_every_judge(broken):
    for profile in PROVIDERS:
        assert VALIDATORS[profile](broken), profile


def test_short_runs_find_nothing_invalid_and_count_every_judgement():
    report = run(range(3000, 3060), 3)
    assert report.failures == []
    assert report.histories == 60
    assert {report.tallies["validators", name].judged for name in PROVIDERS} == {60}
    for oracle in ORACLES:  # 20 went through all eight converters, each of the others through one
        tallies = [report.tallies[oracle.name, name] for name in oracle.profiles]
        assert {tally.judged + tally.skipped for tally in tallies} == {20 + 40 // 8}
    assert sum(t.judged for (judge, _), t in report.tallies.items() if judge == "budget") == 30
