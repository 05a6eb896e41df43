"""Texts, and blocks that are texts in truth: shown as text, without what no provider takes."""

from __future__ import annotations

import pytest
from histories import spoken
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.views.context import context
from langchain_convmem.views.providers import PROFILES
from tests.fuzz.validators import VALIDATORS

ALL = sorted(PROFILES)


def shown(profile, *messages):
    found = context(spoken(*messages), profile=profile)
    assert VALIDATORS[profile](found.messages) == []
    return found


@pytest.mark.parametrize("profile", ALL)
def test_half_characters_are_replaced_and_reported(profile):
    entries = spoken(HumanMessage("a\ud83d", id="m1"))
    found = context(entries, profile=profile)
    assert found.messages[0].content == "a\ufffd"
    assert found.repairs == ("replaced half characters of m1",)
    assert entries[0].message.content == "a\ud83d"


@pytest.mark.parametrize("profile", ALL)
def test_text_in_other_blocks_stays_text(profile):
    blocks = [
        {"text": "no type"},
        {"type": "output_text", "text": "of responses"},
        {"type": "text-plain", "text": "plain", "title": "notes"},
        {"type": "json", "json": {"a": 1}},
        {"type": "search_result", "title": "T", "content": [{"type": "text", "text": "found"}]},
        {"type": "non_standard", "value": {"type": "text", "text": "wrapped"}},
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"text": "deep"}, "er"]},
        {"cachePoint": {"type": "default"}},
    ]
    found = shown(profile, HumanMessage(blocks))
    assert [block["text"] for block in found.messages[0].content] == [
        "no type",
        "of responses",
        "[file notes]\nplain",
        '{"a": 1}',
        "found",
        "wrapped",
        "deep\ner",
    ]
    assert found.repairs == ()


@pytest.mark.parametrize(
    "block",
    [
        {"type": "hologram"},
        {"type": ["x"]},
        {"type": None, "x": 1},
        {"toolUse": {}},
        {"type": "media"},
    ],
)
def test_a_block_that_nobody_knows_becomes_a_note(block):
    for profile in ALL:
        found = shown(profile, HumanMessage(["Look.", block]))
        assert found.messages[0].content[1]["text"].endswith(": not shown]")
        assert found.repairs[0].startswith("replaced the ")


def test_only_the_provider_that_knows_refusals_gets_one_as_such():
    said = AIMessage([{"type": "refusal", "refusal": "No."}])
    assert shown("openai", "q", said).messages[1].content == [{"type": "refusal", "refusal": "No."}]
    assert shown("strict", "q", said).messages[1].content == [{"type": "text", "text": "No."}]


def test_what_a_model_spoke_is_shown_as_its_transcript():
    spoke = {"audio": {"id": "audio_1", "transcript": "Hello.", "data": "AAAA"}}
    found = shown("openai", "q", AIMessage("", additional_kwargs=spoke))
    assert found.messages[1].content == "Hello."
    assert found.messages[1].additional_kwargs == {}


def test_marks_of_the_cache_go_to_the_provider_that_has_them_and_only_so_many():
    def marked(text):
        return {"type": "text", "text": text, "cache_control": {"type": "ephemeral", "ttl": "1h"}}

    said = [part for n in range(6) for part in (HumanMessage([marked(f"q{n}")]), AIMessage("a"))]
    found = shown("anthropic", *said)
    marks = ["cache_control" in m.content[0] for m in found.messages if m.type == "human"]
    assert marks == [False, False, True, True, True, True]
    assert found.messages[-2].content == [marked("q5")]
    plain = shown("strict", *said).messages
    assert not any("cache_control" in m.content[0] for m in plain if m.type == "human")
