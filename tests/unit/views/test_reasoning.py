"""Reasoning and tools that ran at a provider: back to whoever made them, whole, or not at all."""

from __future__ import annotations

import base64

import pytest
from histories import KEY, spoken
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.context import NOTED_TEXT, build_context
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.validators import VALIDATORS

ALL = sorted(PROVIDERS)
SIGNATURE = base64.b64encode(b"signed").decode()
CLAUDE = {"type": "thinking", "thinking": "Hm.", "signature": SIGNATURE}
SILENT = {"type": "thinking", "thinking": "", "signature": "sig"}
REDACTED = {"type": "redacted_thinking", "data": "abc"}

CONVERSE = {"type": "reasoning_content", "reasoning_content": {"text": "Hm.", "signature": "sig"}}

V1 = {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": SIGNATURE}}
ANSWER = {"type": "text", "text": "Three."}


def reply(*blocks, provider="anthropic", **more):
    metadata = {"model_provider": provider} if provider else {}
    return AIMessage([*blocks], response_metadata=metadata, **more)


def kinds(profile, message):
    found = build_context(spoken("q", message), provider=profile)
    assert VALIDATORS[profile](found.messages) == []
    return [block["type"] for block in found.messages[1].content]


@pytest.mark.parametrize(
    ("block", "provider", "taker"),
    [
        (CLAUDE, "anthropic", "anthropic"),
        (CLAUDE, None, None),
        (SILENT, "anthropic", "anthropic"),
        (REDACTED, "anthropic", "anthropic"),
        (V1, "anthropic", None),
        (CONVERSE, "bedrock_converse", "bedrock_converse"),
        (CONVERSE, None, None),
        (V1, "bedrock_converse", None),
        (CLAUDE, "bedrock", None),
        (CLAUDE, "google_genai", "gemini"),
        (V1, "google_genai", None),
        (CLAUDE, "groq", None),
        (V1, None, None),
        (V1, "openai", None),
    ],
)
def test_reasoning_goes_back_to_the_provider_that_made_it(block, provider, taker):
    takers = {p for p in ALL if kinds(p, reply(block, ANSWER, provider=provider)) != ["text"]}
    assert takers == ({taker} if taker else set())


@pytest.mark.parametrize(
    "block",
    [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "redacted_thinking"},
        {"type": "reasoning_content", "reasoning_content": {"text": "Hm."}},
        {"reasoningContent": {"reasoningText": {"text": "Hm."}}},
    ],
)
def test_a_message_whose_reasoning_is_not_whole_goes_without_any(block):
    for profile in ALL:
        found = build_context(spoken("q", reply(CLAUDE, block, ANSWER)), provider=profile)
        assert found.messages[1].content == [ANSWER]
        assert found.repairs[0].startswith("left out the reasoning of ")


def test_reasoning_that_leads_to_nothing_is_left_out():
    found = build_context(spoken("q", reply(ANSWER, CLAUDE)), provider="anthropic")
    assert found.messages[1].content == [ANSWER]
    assert found.repairs[0].endswith("nothing follows it")
    found = build_context(spoken("q", reply(CLAUDE, id="m1"), "?"), provider="anthropic")
    assert [m.type for m in found.messages] == ["human"]
    assert "left out m1: it is blank" in found.repairs


def thoughtful(entries, provider="anthropic", **options):
    """Return, reply by reply, whether its reasoning is shown."""
    found = build_context(entries, provider=provider, **options)
    assert VALIDATORS[provider](found.messages) == []
    replies = [m for m in found.messages if m.type == "ai" and m.text != NOTED_TEXT]
    return [m.content[0]["type"] == "thinking" for m in replies]


def said(log, *messages):
    return log.append(KEY, [make_draft(message) for message in messages])


def exchanges(*numbers):
    return [m for n in numbers for m in (HumanMessage(f"q{n}"), reply(CLAUDE, ANSWER))]


def test_an_unchanged_thread_keeps_all_its_reasoning():
    assert thoughtful(spoken(SystemMessage("s"), *exchanges(1, 2, 3))) == [True] * 3


def test_a_summary_ends_the_reasoning_of_what_was_said_before_it():
    with InMemoryLog() as log:
        first, *_ = said(log, *exchanges(1, 2, 3))
        cover = Cover(((first.position, first.position + 1),))
        log.append(KEY, [Draft(role="summary", contents=("S",), cover=cover)])
        said(log, *exchanges(4))
        assert thoughtful(log.entries(KEY)) == [False, False, True]


def test_an_edit_ends_the_reasoning_of_what_was_answered_to_the_old_words():
    with InMemoryLog() as log:
        entries = said(log, *exchanges(1, 2))
        new = said(log, HumanMessage("edited"))[0]
        control = Control((entries[0].id,), "replaced", new.id)
        log.append(KEY, [Draft(role="control", control=control)])
        said(log, *exchanges(3))
        assert thoughtful(log.entries(KEY)) == [False, False, True]


def test_a_later_instruction_ends_reasoning_where_it_is_hoisted():
    entries = spoken(*exchanges(1), SystemMessage("later"), *exchanges(2))
    assert thoughtful(entries) == [False, True]


def test_a_budget_ends_the_reasoning_of_older_exchanges_only():
    entries = spoken("x" * 800, reply(CLAUDE, ANSWER), *exchanges(2, 3))
    assert thoughtful(entries, max_tokens=60) == [False, True]


SEARCH = [
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"q": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]},
]


def test_a_search_goes_back_to_its_provider_and_is_a_note_elsewhere():
    for profile in ALL:
        found = build_context(
            spoken("q", reply(*SEARCH, ANSWER, provider="anthropic")), provider=profile
        )
        assert VALIDATORS[profile](found.messages) == []
        shown = found.messages[1].content
        if profile == "anthropic":
            assert shown == [*SEARCH, ANSWER]
            assert found.repairs == ()
        else:
            assert shown == [{"type": "text", "text": "[web_search: not shown]"}, ANSWER]
            assert found.repairs[0].startswith("replaced the web_search of ")


@pytest.mark.parametrize("half", [SEARCH[:1], SEARCH[1:], [SEARCH[1], SEARCH[0]]])
def test_half_a_search_is_a_note_even_there(half):
    for profile in ALL:
        assert set(kinds(profile, reply(*half, ANSWER, provider="anthropic"))) == {"text"}


def test_what_a_turn_says_that_goes_on_reaches_the_model_as_it_was_written():
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    found = [
        {"type": "search_result", "source": "https://example.org", "title": "T", "content": []}
    ]
    asked = HumanMessage([{"type": "guard_content", "text": "May I?"}, {"type": "hologram"}])
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    told = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": ""}
    item = AIMessage(
        [thought, told], tool_calls=[call], response_metadata={"model_provider": "openai"}
    )
    said = (asked, item, ToolMessage(found, tool_call_id="c1"))
    for profile in ("openai_responses", "strict"):
        shown = build_context(spoken(*said), provider=profile)
        assert [m.content for m in shown.messages] == [m.content for m in said]
        assert shown.repairs == ()
    later = build_context(spoken(*said, AIMessage("Yes."), "Why?"), provider="openai_responses")
    assert later.messages[1].content == ""  # the item is kept at the provider, for a while
