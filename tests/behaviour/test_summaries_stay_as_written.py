"""A summary is stored as its model wrote it, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from scripted_chat import ScriptedChatModel

from langchain_convmem import ConversationMemory, InMemoryLog, SummaryReport, SummarySettings

DATA = Path(__file__).parent / "data" / "summaries"


def load(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text("utf-8"))


CHATS = {chat["id"]: chat for chat in load("faithful")}
FAITHFUL = [
    (name, number) for name, chat in CHATS.items() for number in range(len(chat["summaries"]))
]
ROOF = [
    ("user", "The roof leaks in two places. The roofer wants 3,400 euros for 12 square metres."),
    ("assistant", "That sounds high. When could he come? You mentioned an offer for 2,150."),
    ("user", "On 4 May at 9:30. I cannot be there, so Marta lets him in. The code is KX-77."),
    (
        "assistant",
        "Then tell Marta the code, and take the cheaper offer if the slates are the same.",
    ),
]


def compact(
    said: list[Any], reply: Any, **settings: Any
) -> tuple[SummaryReport, tuple[str, ...] | None]:
    """Return what came of summarising a chat, and the pieces of the summary that is stored."""
    kinds: dict[str, type[BaseMessage]] = {"user": HumanMessage, "assistant": AIMessage}
    memory = ConversationMemory(
        InMemoryLog(),
        summarizer=ScriptedChatModel(replies=[reply]),
        summary_settings=SummarySettings(**settings),
    )
    with memory:
        memory.add_messages([kinds[role](text) for role, text in said], thread_id="t")
        report = memory.summarize("t", force=True)
        summary = memory.history("t").last_summary
        return report, None if summary is None else summary.contents


@pytest.mark.parametrize(("name", "number"), FAITHFUL)
def test_a_faithful_summary_is_stored_byte_for_byte(name, number):
    chat = CHATS[name]
    text = chat["summaries"][number]["text"]
    report, stored = compact(chat["messages"], text)
    assert report, report.problem
    assert stored[0] == text


@pytest.mark.parametrize(
    "text",
    [
        "```text\nTwo leaks, 3,400 euros.\n```",
        "<summary>\nTwo leaks, 3,400 euros.\n</summary>",
        "Summary of the conversation:\n\n\n- Two leaks\n\t- 3,400 euros  \n- KX-77",
        "Two leaks.  Two leaks.  Two leaks.  Two leaks.",
        "Two leaks, 9,999 dollars, and Boris lets him in.",
        "Les dinosaures ont disparu il y a 66 millions d'ann\u00e9es.",
        '{"leaks": 2, "offers": [3400, 2150]}',
        "Leaks.",
        "The user asked what the tags <think> and </think> are for.",
    ],
)
def test_nothing_is_cut_moved_or_corrected_whatever_it_says(text):
    report, stored = compact(ROOF, text)
    assert report.outcome == "written"
    assert stored[0] == text


REFUSED = {one["kind"]: one["text"] for one in load("refused")}


def test_of_the_refusals_and_garbage_of_others_one_is_stored_at_most():
    passed = [kind for kind, text in REFUSED.items() if compact(ROOF, text)[0]]
    assert len(passed) <= 1, passed


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't help with that.",
        "I\u2019m sorry, but I can\u2019t assist with that request.",
        "I cannot provide a summary of this conversation.",
        "I am unable to summarize this.",
        "As an AI language model, I cannot have opinions.",
        "Unfortunately, I can't help.",
        "Apologies, but I won't be able to assist with that.",
        "",
        " \n\t ",
        "...",
        "---\n***",
        "\u2014 \u2026 \u3002",
        "<think>The user wants a summary of a roof.</think>",
        "<think>The user wants a summary of a roof, so I",
        '{"name": "search", "arguments": {"query": "roof"}}',
        '<tool_call>\n{"name": "search"}\n</tool_call>',
        "blah " * 400,
        AIMessage([{"type": "reasoning", "reasoning": "A roof."}]),
        AIMessage("", tool_calls=[{"name": "search", "args": {}, "id": "1"}]),
        AIMessage("Two leaks.", response_metadata={"finish_reason": "content_filter"}),
        AIMessage("Two leaks and", response_metadata={"finish_reason": "length"}),
    ],
    ids=lambda text: str(text)[:30],
)
def test_what_is_no_summary_is_not_stored(text):
    report, stored = compact(ROOF, text)
    assert report.outcome == "failed"
    assert report.problem
    assert stored is None


@pytest.mark.parametrize(
    "text",
    [
        *[one["text"] for one in load("not_refused")],
        "Sorry state of the roof: two leaks, 3,400 euros.",
        "I cannot eat nuts.",
        "I can't be there on 4 May, so Marta lets the roofer in.",
        "The assistant is sorry, but cannot help with the roof.",
        "Je suis d\u00e9sol\u00e9, mais je ne peux pas r\u00e9sumer cela.",
        "Es tut mir leid, dabei kann ich nicht helfen.",
    ],
    ids=lambda text: text[:30],
)
def test_what_only_looks_like_a_refusal_or_is_one_in_another_language_is_stored(text):
    report, stored = compact(ROOF, text)
    assert report, report.problem
    assert stored[0] == text


def test_what_the_text_leaves_out_stands_beside_it_in_a_piece_of_its_own():
    text = "The roof leaks; Marta lets the roofer in on 2026-05-04 at 9:30 am."
    _, stored = compact(ROOF, text)
    assert stored is not None
    assert stored[0] == text
    assert stored[1].splitlines() == [
        "Details, word for word:",
        "- User: The roofer wants 3,400 euros for 12 square metres.",
        "- Assistant: You mentioned an offer for 2,150.",
        "- User: The code is KX-77.",
    ]
    assert len(stored) == 2
    _, stored = compact(ROOF, text, facts_tokens=0)
    assert stored == (text,)
