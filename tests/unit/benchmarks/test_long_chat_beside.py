from __future__ import annotations

import json

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

pytestmark = pytest.mark.filterwarnings("ignore:Importing Send:DeprecationWarning")  # langmem's
SAID = [
    HumanMessage("By the way, the code for the bike shed is 4711K now.", id="1"),
    AIMessage("Noted. Shall we go on?", id="2"),
    HumanMessage("I agreed to pay 3490 euros for the heat pump.", id="3"),
]


def _room():
    from benchmarks.long_chat.peers import Room

    return Room(context=400, high=100, low=30, summary=100)


# -- what a scripted summariser is asked ----------------------------------------------------------


def test_a_request_of_ours_is_read_with_all_its_parts():
    from benchmarks.long_chat.summarisers import read_request
    from langchain_convmem.summarizing.summarizers import SummaryRequest, build_messages

    asked = SummaryRequest(
        transcript="User: <b> 1 & 2\nAssistant: no",
        previous="before",
        max_tokens=80,
    )
    read = read_request(build_messages(asked), 600)
    assert read.transcript == asked.transcript
    assert read.previous == "before"
    assert 60 <= read.max_tokens <= 80


def test_a_request_of_the_middleware_is_read_with_the_summary_before():
    from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT
    from langchain_core.messages import get_buffer_string

    from benchmarks.long_chat.summarisers import read_request

    before = HumanMessage("Here is a summary of the conversation to date:\n\nUser: it was 5 < 6")
    call = {"name": "look", "args": {"topic": "x"}, "id": "a"}
    loop = [AIMessage("", tool_calls=[call]), ToolMessage("found 12 & 13", tool_call_id="a")]
    text = get_buffer_string([before, *SAID, *loop], format="xml")
    read = read_request([HumanMessage(DEFAULT_SUMMARY_PROMPT.format(messages=text))], 100)
    assert read.previous == "User: it was 5 < 6"
    assert read.transcript.splitlines() == [
        f"User: {SAID[0].text}",
        f"Assistant: {SAID[1].text}",
        f"User: {SAID[2].text}",
        "Tool: found 12 & 13",
    ]


def test_a_request_of_langmem_is_read_with_the_summary_before():
    from benchmarks.long_chat.summarisers import read_request

    told = "This is summary of the conversation so far: User: it was 5\n\nExtend this summary by"
    read = read_request([*SAID, HumanMessage(told)], 100)
    assert read.previous == "User: it was 5"
    assert read.transcript.startswith(f"User: {SAID[0].text}\nAssistant: ")


# -- what it writes -------------------------------------------------------------------------------


def test_the_meter_counts_what_was_sent_and_what_came_back():
    from benchmarks.long_chat.summarisers import ScriptedSummarizer
    from langchain_convmem.views.messages import count_tokens
    from langchain_convmem.views.tokens import count_text_tokens

    model = ScriptedSummarizer(style="quoting", max_tokens=60)
    asked = [*SAID, HumanMessage("Create a summary of the conversation above:")]
    answers = [model.invoke(asked).text for _ in range(2)]
    assert "4711K" in answers[0]
    assert model.meter.calls == 2
    assert model.meter.read == 2 * count_tokens(asked)
    assert model.meter.wrote == sum(map(count_text_tokens, answers))


# -- the peers ------------------------------------------------------------------------------------


def _play(peer, turns=12):
    got = []
    for number in range(turns):
        human = HumanMessage(
            f"The code for door {number} is {4000 + number}K.", id=f"{number}-said"
        )
        call = {"name": "search", "args": {"topic": f"matter {number}"}, "id": f"call-{number}"}
        replies = [
            AIMessage("", tool_calls=[call], id=f"{number}-calls"),
            ToolMessage("nothing", tool_call_id=call["id"], id=f"{number}-result"),
            AIMessage("I see.", id=f"{number}-answer"),
        ]
        got.append(peer.take(human, replies))
        assert got[-1][-1].text == human.text
    return got


def test_the_middleware_gets_the_chat_and_summarises_it():
    from benchmarks.long_chat.peers import Middleware

    peer = Middleware(_room(), "quoting")
    got = _play(peer, 30)
    assert [one.type for one in got[1]] == ["human", "ai", "tool", "ai", "human"]
    assert peer.meter.calls >= 1
    assert got[-1][0].text.startswith("Here is a summary of the conversation to date:")
    assert "4000K" in got[-1][0].text


def test_langmem_gets_the_chat_and_summarises_it():
    pytest.importorskip("langmem")
    from benchmarks.long_chat.peers import Langmem

    peer = Langmem(_room(), "quoting")
    got = _play(peer, 30)
    assert [one.type for one in got[1]] == ["human", "ai", "tool", "ai", "human"]
    assert peer.meter.calls >= 1
    assert isinstance(got[-1][0], SystemMessage)
    assert "4000K" in got[-1][0].text


# -- the report -----------------------------------------------------------------------------------


def test_the_report_compares_costs_and_facts_of_all_that_summarise(capsys):
    from benchmarks.long_chat.__main__ import main

    arguments = ["--turns", "60", "--facts", "6", "--sample", "5", "--style", "retelling"]
    main([*arguments, "--json"])
    made = json.loads(capsys.readouterr().out)
    report = made["retelling"]
    assert {"convmem", "middleware"} <= set(report["cost"]) <= {"convmem", "middleware", "langmem"}
    assert all(cost["calls"] >= 1 for cost in report["cost"].values())
    assert {one["asked"] for one in report["facts"].values()} == {6}
    bars = {bar["what"]: bar for bar in made["bars"]}
    assert bars["retelling: summariser tokens per token of chat"]["bound"] == 1.2
    led = report["facts"]["convmem"]["told"] - report["facts"]["middleware"]["told"]
    assert bars["retelling: facts told more than by middleware"]["value"] == led
