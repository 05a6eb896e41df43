import base64
from dataclasses import replace

import pytest
from histories import KEY, answered, spoken
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from langchain_convmem.logs import InMemoryLog
from langchain_convmem.records import Control, Cover, Draft
from langchain_convmem.views.codec import make_draft
from langchain_convmem.views.content import add_speaker
from langchain_convmem.views.context import build_context
from langchain_convmem.views.media import read_media
from langchain_convmem.views.messages import NOTED_TEXT
from langchain_convmem.views.providers import PROVIDERS
from tests.fuzz.validators import VALIDATORS

ALL = sorted({*PROVIDERS} - {"text"})  # which is `strict` without media


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
    texts = ["no type", "of responses", "[file notes]\nplain", '{"a": 1}', "found", "wrapped"]
    assert [block["text"] for block in found.messages[0].content] == [*texts, "deep\ner"]
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
    said = reply({"type": "refusal", "refusal": "No."}, provider="openai")
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


def said_by(found):
    return [(m.name, m.content) for m in found.messages if m.type == "human"]


def talk():
    said = [HumanMessage("I parked on 3.", name="Ana"), HumanMessage("I on 4.", name="Bo")]
    return [*said, AIMessage("Noted."), HumanMessage("Where am I parked?", name="Ana")]


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
    assert said_by(found) == [(m.name, m.text) for m in talk() if m.type == "human"]


@pytest.mark.parametrize("name", ["Ana María", "Dr. No", "x" * 65, "李"])
@pytest.mark.parametrize("profile", ["openai", "strict"])
def test_a_name_that_would_be_refused_moves_into_the_text(profile, name):
    assert said_by(shown(profile, HumanMessage("a", name=name))) == [(None, f"{name}: a")]


def test_a_named_text_begins_no_line_of_somebody_else():
    assert add_speaker("Hi.\nBo: I agree.", "Ana\nBo") == "Ana Bo: Hi.\n  Bo: I agree."
    first, last = {"type": "text", "text": "a\nb"}, {"type": "text", "text": "Bo: c"}
    named = add_speaker([first, {"type": "image"}, last], "Ana")
    assert [block.get("text") for block in named] == ["Ana: a\n  b", None, "  Bo: c"]
    assert add_speaker([{"type": "image"}], "Ana")[0] == {"type": "text", "text": "Ana:"}
    assert add_speaker([], "Ana") == []


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
    entries = spoken("q", reply(*SEARCH, ANSWER, provider="anthropic"))
    for profile in ALL:
        found = build_context(entries, provider=profile)
        assert VALIDATORS[profile](found.messages) == []
        shown = found.messages[1].content
        if profile == "anthropic":
            assert shown == [*SEARCH, ANSWER]
            assert found.repairs == ()
        else:
            assert shown == [{"type": "text", "text": "[web_search: not shown]"}, ANSWER]
            assert found.repairs[0].startswith("replaced the web_search of ")


def test_what_a_turn_says_that_goes_on_reaches_the_model_as_it_was_written():
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    found = [{"type": "search_result", "source": URL, "title": "T", "content": []}]
    asked = HumanMessage([{"type": "guard_content", "text": "May I?"}, {"type": "hologram"}])
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    told = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "look", "arguments": ""}
    item = reply(thought, told, provider="openai", tool_calls=[call])
    said = (asked, item, ToolMessage(found, tool_call_id="c1"))
    for profile in ("openai_responses", "strict"):
        shown = build_context(spoken(*said), provider=profile)
        assert [m.content for m in shown.messages] == [m.content for m in said]
        assert shown.repairs == ()
    later = build_context(spoken(*said, AIMessage("Yes."), "Why?"), provider="openai_responses")
    assert later.messages[1].content == ""  # the item is kept at the provider, for a while


PROFILES = sorted({*PROVIDERS} - {"openai_responses", "text"})  # media of which are OpenAI's
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(22)).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + bytes(20)).decode()
PDF_FILE = {"type": "file", "base64": PDF, "mime_type": "application/pdf"}
SOUND = {"type": "audio", "base64": "AAAA", "mime_type": "audio/mpeg"}
CLIP = {"type": "video", "base64": "AAAA", "mime_type": "video/mp4"}
URL = "https://example.org/a.png"
DRAWN = {"type": "image", "base64": PNG, "mime_type": "image/png"}


def zeros(number):
    return base64.b64encode(bytes(number)).decode()


def content(profile, *blocks):
    found = build_context(answered(HumanMessage(["Look.", *blocks])), provider=profile)
    assert VALIDATORS[profile](found.messages) == []
    return found.messages[0].content[1:]


def takers(block, accepted=lambda shown: shown["type"] != "text"):
    return {profile for profile in PROFILES if accepted(content(profile, block)[0])}


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "base64": PNG, "mime_type": "image/png"},
        {"type": "image", "source_type": "base64", "data": PNG, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "image", "url": f"data:image/png;base64,{PNG}"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}},
        {"type": "image", "image": {"format": "png", "source": {"bytes": base64.b64decode(PNG)}}},
        {"type": "media", "mime_type": "image/png", "data": base64.b64decode(PNG)},
        {"type": "image", "base64": PNG.rstrip("="), "mime_type": "IMAGE/PNG; q=1"},
        {"type": "image", "base64": f"{PNG[:8]}\n{PNG[8:]}"},
        {"type": "file", "base64": PNG, "mime_type": "image/png"},
    ],
)
def test_a_picture_is_the_same_picture_in_every_shape(block):
    for profile in PROFILES:
        media = read_media(content(profile, block)[0])
        assert (media.kind, media.form, media.type) == ("image", "base64", "image/png")
        assert media.data == PNG


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (DRAWN, set(PROFILES)),
        ({"type": "image", "base64": "R0lGODlh", "mime_type": "image/gif"},
         {"bedrock_converse", "anthropic", "openai"}),
        ({"type": "image", "url": URL}, {"anthropic", "openai", "gemini"}),
        ({"type": "image_url", "image_url": {"url": URL}}, {"anthropic", "openai", "gemini"}),
        ({"type": "image", "file_id": "file_011"}, {"anthropic"}),
        ({"type": "file", "file_id": "file-011"}, {"openai"}),
        ({"type": "image", "base64": "PHN2Zz4=", "mime_type": "image/svg+xml"}, set()),
        ({"type": "image", "base64": "no base64!", "mime_type": "image/png"}, set()),
        ({"type": "image", "base64": "", "mime_type": "image/png"}, set()),
        ({"type": "image", "url": "gs://bucket/a.png"}, set()),
        ({"type": "image", "url": "/etc/passwd"}, set()),
        ({"type": "image"}, set()),
        (PDF_FILE, set(PROFILES)),
        ({"type": "file", "url": "https://example.org/a.pdf"}, {"anthropic", "gemini"}),
        ({"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip"}, set()),
        ({"type": "file", "base64": "YSxi", "mime_type": "text/csv"}, {"bedrock_converse"}),
        (SOUND, {"openai", "gemini"}),
        ({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
         {"openai", "gemini"}),
        ({"type": "audio", "url": "https://example.org/a.mp3"}, {"gemini"}),
        (CLIP, {"bedrock_converse", "gemini"}),
    ],
)  # fmt: skip
def test_each_provider_gets_the_media_it_takes(block, expected):
    assert takers(block) == expected


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (DRAWN, {"bedrock_converse", "anthropic", "gemini"}),
        ({"type": "image", "url": URL}, {"anthropic", "gemini"}),
        (PDF_FILE, {"bedrock_converse", "anthropic"}),
    ],
)  # fmt: skip
def test_each_provider_gets_the_media_it_takes_from_a_tool(block, expected):
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    said = ("q", AIMessage("", tool_calls=[call]), ToolMessage([block], tool_call_id="c1"))
    takers = {p for p in PROFILES if shown(p, *said).messages[2].content[-1]["type"] != "text"}
    assert takers == expected


@pytest.mark.parametrize(
    ("block", "note"),
    [
        ({"type": "image", "url": URL}, f"[image, {URL}: not shown]"),
        ({"type": "image", "base64": zeros(12_345), "mime_type": "image/bmp"},
         "[image, image/bmp, 12.3 kB: not shown]"),
        ({"type": "video", "base64": zeros(1_500_000), "mime_type": "video/mp4"},
         "[video, video/mp4, 1.5 MB: not shown]"),
        ({"type": "file", "base64": "UEsDBA==", "mime_type": "application/zip",
          "filename": "all my\nfiles.zip"},
         "[file all my files.zip, application/zip, 4 B: not shown]"),
        ({"type": "audio", "file_id": "x"}, "[audio: not shown]"),
    ],
)  # fmt: skip
def test_a_note_says_what_stood_there(block, note):
    [shown] = content("strict", block)
    assert shown == {"type": "text", "text": note}


def test_a_text_file_is_shown_as_its_text_where_files_of_its_type_are_not_taken():
    block = {"type": "file", "base64": "YSxi", "mime_type": "text/csv", "filename": "t.csv"}
    assert content("strict", block) == [{"type": "text", "text": "[file t.csv]\na,b"}]
    assert content("bedrock_converse", block)[0]["type"] == "file"


@pytest.mark.parametrize("profile", ["anthropic", "openai", "gemini"])
def test_media_by_address_are_shown_until_the_user_asks_again(profile):
    asked = HumanMessage([{"type": "text", "text": "What is it?"}, {"type": "image", "url": URL}])
    said = (asked, AIMessage("A garden."))
    first = build_context(spoken(*said), provider=profile)
    assert first.messages[0].content[1]["type"] == "image"
    later = build_context(spoken(*said, "Where?"), provider=profile)
    assert later.messages[0].content[1]["text"] == f"[image, {URL}: not shown]"
    assert any("replaced the image" in repair for repair in later.repairs)


def test_the_media_of_one_request_have_a_limit_of_bytes():
    large = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(3_000)).decode()
    block = {"type": "image", "base64": large, "mime_type": "image/png"}
    said = [part for n in range(3) for part in (HumanMessage([f"{n}", block]), AIMessage("a"))]
    small = replace(PROVIDERS["anthropic"], max_bytes=2 * len(large))
    found = build_context(spoken(*said), provider=small)
    kinds = [m.content[1]["type"] for m in found.messages if m.type == "human"]
    assert kinds == ["text", "image", "image"]
