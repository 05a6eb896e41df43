"""Text, blocks that are text in truth, and names: shown without what no provider takes."""

from __future__ import annotations

import pytest
from histories import answered, spoken
from langchain_core.messages import AIMessage, HumanMessage

from langchain_convmem.views.content import add_speaker
from langchain_convmem.views.context import build_context
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.validators import VALIDATORS

ALL = sorted(PROVIDERS)


def shown(profile, *messages):
    found = build_context(answered(*messages), provider=profile)
    assert VALIDATORS[profile](found.messages) == []
    return found


@pytest.mark.parametrize("profile", ALL)
def test_half_characters_are_replaced_and_reported(profile):
    entries = spoken(HumanMessage("a\ud83d", id="m1"))
    found = build_context(entries, provider=profile)
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


def test_only_who_refused_gets_the_refusal_as_such():
    said = AIMessage(
        [{"type": "refusal", "refusal": "No."}], response_metadata={"model_provider": "openai"}
    )
    assert shown("openai_responses", "q", said).messages[1].content == said.content
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


PICTURE = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}


def said_by(found):
    return [(m.name, m.content) for m in found.messages if m.type == "human"]


def talk():
    return [
        HumanMessage("I parked on 3.", name="Ana"),
        HumanMessage("I on 4.", name="Bo"),
        AIMessage("Noted."),
        HumanMessage("Where am I parked?", name="Ana"),
    ]


@pytest.mark.parametrize("profile", ["strict", "bedrock_converse", "anthropic", "gemini"])
def test_the_text_says_who_speaks_where_names_are_not_sent(profile):
    found = shown(profile, *talk())
    assert said_by(found) == [
        (None, "Ana: I parked on 3.\nBo: I on 4."),
        (None, "Ana: Where am I parked?"),
    ]
    assert found.repairs == ()


def test_names_are_sent_as_names_where_the_provider_shows_them_to_its_model():
    found = shown("openai", *talk())
    assert said_by(found) == [
        ("Ana", "I parked on 3."),
        ("Bo", "I on 4."),
        ("Ana", "Where am I parked?"),
    ]


@pytest.mark.parametrize("name", ["Ana María", "Dr. No", "x" * 65, "李"])
@pytest.mark.parametrize("profile", ["openai", "strict"])
def test_a_name_that_would_be_refused_moves_into_the_text(profile, name):
    assert said_by(shown(profile, HumanMessage("a", name=name))) == [(None, f"{name}: a")]


@pytest.mark.parametrize("profile", ["strict", "anthropic"])
def test_people_are_told_apart_as_long_as_the_thread_knows_them(profile):
    found = build_context(spoken(*talk()), provider=profile, max_tokens=12)
    assert [m.content for m in found.messages] == ["Ana: Where am I parked?"]


@pytest.mark.parametrize("profile", ["strict", "gemini"])
def test_the_name_stands_before_the_first_text_of_blocks(profile):
    others = HumanMessage("x", name="Bo")
    found = shown(profile, HumanMessage([PICTURE, "this"], name="Ana"), AIMessage("a"), others)
    assert found.messages[0].content == [PICTURE, {"type": "text", "text": "Ana: this"}]
    found = shown(profile, HumanMessage([PICTURE], name="Ana"), AIMessage("a"), others)
    assert found.messages[0].content == [{"type": "text", "text": "Ana:"}, PICTURE]


def test_a_named_text_begins_no_line_of_somebody_else():
    assert add_speaker("Hi.\nBo: I agree.", "Ana\nBo") == "Ana Bo: Hi.\n  Bo: I agree."
    blocks = [
        {"type": "text", "text": "a\nb"},
        {"type": "image"},
        {"type": "text", "text": "Bo: c"},
    ]
    assert [block.get("text") for block in add_speaker(blocks, "Ana")] == [
        "Ana: a\n  b",
        None,
        "  Bo: c",
    ]
    assert add_speaker([{"type": "image"}], "Ana")[0] == {"type": "text", "text": "Ana:"}
    assert add_speaker([], "Ana") == []
